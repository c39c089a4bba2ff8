"""What models answered when `tests/reference.npz` was made: the entries of the file, by name.

Every entry is a function that trains a model on fixed numbers and returns arrays by name: what the
model predicts, its weights, its ridge. Data are bundled with scikit-learn and river, or come from
`RandomState`, whose numbers numpy has frozen. Only public names are used. Settings are such that
ridges and labels are no near-ties and that sums are well conditioned, so that BLAS kernels agree to
many digits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from river import datasets, drift, metrics, preprocessing
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_linnerud

import onlinels
from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    Embedding,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
    export,
    from_sums,
    progressive_val_score,
)
from onlinels.sklearn import HiddenLayerTransformer, IncrementalRidge, IncrementalRidgeClassifier

Arrays = dict[str, np.ndarray]

ENTRIES: dict[str, Callable[[], Arrays]] = {}
"""The entries by name."""


def entry(function: Callable[[], Any]) -> Callable[[], Any]:
    """Add an entry with the name of a function."""
    ENTRIES[function.__name__.replace("_", " ")] = function
    return function


def entries(name: str, function: Callable[..., Arrays], *settings: dict[str, Any]) -> None:
    """Add an entry for each of some settings of a function, which end its name."""
    for each in settings:
        text = ", ".join(f"{key}={value}" for key, value in each.items())
        ENTRIES[f"{name}, {text}"] = partial(function, **each)


# Data


def mixed(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return rows in another order; 37 has no factor in common with the numbers of rows here."""
    order = np.arange(len(arrays[0])) * 37 % len(arrays[0])
    return tuple(array[order] for array in arrays)


def iris() -> tuple[np.ndarray, np.ndarray]:
    """Return 150 rows of four lengths in cm, and the names of their species."""
    data = load_iris()
    return mixed(data.data, data.target_names[data.target])


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """Return 442 rows of ten numbers of about 1, and the progress of a disease."""
    X, y = load_diabetes(return_X_y=True)
    return mixed(20.0 * X, y)


def digits(n_images: int, size: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return images of digits, every pixel enlarged to size x size pixels, and the digits."""
    images, labels = mixed(load_digits().images, load_digits().target)
    return np.kron(images[:n_images], np.ones((1, size, size))), labels[:n_images]


def dicts(X: np.ndarray, names: Iterable[Any] = "abcdefghij") -> list[dict[Any, float]]:
    """Return rows as dicts."""
    return [dict(zip(names, row, strict=False)) for row in X.tolist()]


def stream(kind: Any, n_rows: int, step: int = 1) -> list[tuple[dict[Any, Any], Any]]:
    """Return rows of a stream of river: every `step`th, numbers and text only."""
    # To its end, which closes the file.
    rows = list(kind())[: n_rows * step : step]
    return [({k: v for k, v in x.items() if isinstance(v, (int, float, str))}, y) for x, y in rows]


# Models


def fitted(model: Any, *batch: Any) -> Any:
    """Let a model learn a batch, and return it."""
    model.learn_many(*batch)
    return model


def named(**values: Any) -> Arrays:
    """Return values as arrays; a series of text as an array of text."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    for name, array in arrays.items():
        if array.dtype == object:
            assert all(isinstance(each, str) for each in array.tolist()), name
            arrays[name] = array.astype(str)
    return arrays


def table(rows: list[dict[Any, float]], names: Iterable[Any]) -> np.ndarray:
    """Return dicts as a table with a column for every name, 0 where a dict lacks it."""
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


def linear(model: Any) -> Arrays:
    """Return the weights of a linear model, its ridge and its names."""
    return named(
        weights=model.output_weights,
        intercept=model.intercept,
        ridge=model.ridge_,
        count=model.count,
        features=[str(name) for name in model.feature_names],
    )


def classified(model: Any, X: Any, last: Any = None) -> Arrays:
    """Return what a classifier answers to rows, and its weights."""
    last = model if last is None else last
    return linear(last) | named(
        labels=model.predict_many(X),
        probabilities=model.predict_proba_many(X),
        classes=[str(label) for label in last.classes],
    )


def regressed(model: Any, X: Any) -> Arrays:
    """Return what a regressor answers to rows, with its uncertainty, and its weights."""
    means, deviations = model.predict_many(X, with_dist=True)
    lower, upper = model.predict_interval_many(X, level=0.8)
    return linear(model) | named(means=means, deviations=deviations, lower=lower, upper=upper)


# Linear models: forms, ridges, scalings, forgetting, priors


def classifier(**settings: Any) -> Arrays:
    """Learn three batches of iris, and answer the rest."""
    X, y = iris()
    model = LeastSquaresClassifier(**settings)
    for rows in (slice(0, 10), slice(10, 70), slice(70, 120)):
        model.learn_many(X[rows], y[rows])
    return classified(model, X[120:]) | named(scores=model.scores_many(X[120:]))


def regressor(**settings: Any) -> Arrays:
    """Learn two batches of the diabetes data, and answer some rows."""
    X, y = diabetes()
    model = fitted(LeastSquaresRegressor(**settings), X[:100], y[:100])
    model.learn_many(X[100:200], y[100:200], w=1.0 + np.arange(100) % 3)
    return regressed(model, X[200:220]) | named(diagonal=model.ridge_diagonal)


FORMS: list[dict[str, Any]] = [{}, {"accumulator": "orthogonal"}, {"accumulator": "recursive"}]
SETTINGS: list[dict[str, Any]] = [
    *({**form, "ridge": ridge} for form in FORMS for ridge in (1.0, "auto", "paper")),
    *({**form, "ridge": 0.0} for form in FORMS[:2]),
    *({**form, "ridge": 0.1, "scaling": "standard"} for form in FORMS),
    *({**form, "ridge": "auto", "scaling": None} for form in FORMS[:2]),
    *({**form, "ridge": 0.5, "forgetting_factor": 0.98} for form in FORMS),
    *({**form, "ridge": 2.0, "fit_intercept": False} for form in FORMS),
    {"ridge": KFold(5)},
    {"ridge": KFold(4), "scaling": "standard"},
    {"ridge": "auto", "forgetting_factor": 0.99},
    {"ridge": 0.5, "half_life": 30.0},
    {"ridge": "auto", "fit_intercept": False},
]
PRIORS: list[dict[str, Any]] = [
    {"priors": "learnt"},
    {"priors": "equal", "ridge": 1.0, "accumulator": "recursive"},
    {"priors": {"setosa": 1.0, "virginica": 3.0, "versicolor": 0.5}, "accumulator": "orthogonal"},
]


entries("classifier", classifier, *SETTINGS, *PRIORS)
entries("regressor", regressor, *SETTINGS)


@entry
def several_targets() -> Arrays:
    data = load_linnerud()
    X, Y = data.data / [10.0, 100.0, 50.0], data.target
    model = LeastSquaresMultiTargetRegressor()
    model.learn_many(X[:15], pd.DataFrame(Y[:15], columns=data.target_names))
    return regressed(model, X[15:]) | named(targets=model.target_names)


@entry
def several_targets_row_by_row() -> Arrays:
    X, y = diabetes()
    model = LeastSquaresMultiTargetRegressor(1.0, "recursive")
    before = []
    for x, target in zip(dicts(X[:60]), y[:60].tolist(), strict=True):
        before.append(model.predict_one(x))
        model.learn_one(x, {"y": target, "half": target / 2.0, "bmi": 9.0 * x["c"]})
    names = ("bmi", "half", "y")
    answers = model.predict_many(dicts(X[60:70]))
    return linear(model) | named(before=table(before, names), answers=table(answers, names))


# Single rows, and rows that are answered before they are learnt


def row_by_row(model: Any, rows: list[tuple[Any, Any]], **given: Any) -> list[dict[Any, float]]:
    """Learn rows one by one; return the probabilities of every row before it was learnt."""
    before = []
    for number, (x, y) in enumerate(rows):
        before.append(model.predict_proba_one(x))
        model.learn_one(x, y, **{name: values[number] for name, values in given.items()})
    return before


def late_features() -> Iterator[tuple[dict[Any, float], str]]:
    """Yield rows of iris whose third and fourth feature come late, as does the third class."""
    X, y = iris()
    for number, (x, label) in enumerate(zip(dicts(X), y.tolist(), strict=True)):
        if number < 40:
            del x["d"]
        if number < 20:
            del x["c"]
        if number >= 30 or label != "virginica":
            yield x, label


def classifier_row_by_row(**settings: Any) -> Arrays:
    """Answer and learn single rows with weights, late features and a late class."""
    rows = [*late_features()][:110]
    model = LeastSquaresClassifier(**settings)
    weights = [1.0 + number % 3 for number in range(len(rows))]
    before = row_by_row(model, rows, w=weights)
    X, _ = iris()
    answers = table(before, model.classes)
    return classified(model, framed(X[120:])) | named(before=answers[::3])


def framed(X: np.ndarray) -> pd.DataFrame:
    """Return rows as a frame with the names of `dicts`."""
    return pd.DataFrame(X, columns=list("abcdefghij")[: X.shape[1]])


entries(
    "classifier row by row",
    classifier_row_by_row,
    {},
    {"ridge": 1.0},
    {"accumulator": "recursive"},
    {"accumulator": "recursive", "ridge": 1.0, "forgetting_factor": 0.97},
    {"accumulator": "orthogonal", "ridge": 0.5, "scaling": "standard"},
    {"ridge": "paper", "priors": "equal"},
)


def classifier_before_learning(**settings: Any) -> Arrays:
    """Answer a batch before it is learnt, then another, with weights."""
    X, y = iris()
    model = LeastSquaresClassifier(**settings)
    labels = model.predict_learn_many(dicts(X[:80]), y[:80].tolist())
    w = 1.0 + np.arange(50) % 2
    before = model.predict_proba_learn_many(dicts(X[80:130]), y[80:130], w)
    texts = [str(label) for label in labels]
    answers = table(before, model.classes)
    return classified(model, framed(X[130:])) | named(first=texts, before=answers)


entries(
    "classifier before learning",
    classifier_before_learning,
    {},
    {"ridge": 1.0},
    {"accumulator": "recursive"},
    {"accumulator": "orthogonal", "ridge": 1.0},
    {"ridge": 1.0, "half_life": 25.0},
    {"priors": "learnt"},
)


def regressor_before_learning(**settings: Any) -> Arrays:
    """Answer batches before they are learnt, with distributions."""
    X, y = diabetes()
    model = LeastSquaresRegressor(**settings)
    first = model.predict_learn_many(X[:60], y[:60])
    means, deviations = model.predict_learn_many(X[60:120], y[60:120], with_dist=True)
    return regressed(model, X[120:130]) | named(
        first=first, before=means, deviations_before=deviations
    )


entries(
    "regressor before learning",
    regressor_before_learning,
    {},
    {"ridge": 1.0},
    {"ridge": 1.0, "accumulator": "recursive"},
    {"ridge": 1.0, "accumulator": "recursive", "forgetting_factor": 0.98},
    {"ridge": 0.5, "scaling": "standard"},
)


@entry
def times_of_rows() -> Arrays:
    X, y = diabetes()
    model = LeastSquaresRegressor(1.0, half_life=10.0)
    times = np.cumsum(1.0 + np.arange(80) % 4)
    model.learn_many(X[:80], y[:80], t=times)
    for number in range(80, 90):
        model.learn_one(dict(enumerate(X[number])), y[number], t=float(times[-1] + number - 70))
    return regressed(model, X[90:100])


@entry
def dates_of_rows() -> Arrays:
    X, y = iris()
    model = LeastSquaresClassifier(0.5, half_life=timedelta(days=3), accumulator="recursive")
    start = datetime(2026, 1, 1)
    for number, (x, label) in enumerate(zip(dicts(X[:90]), y.tolist(), strict=False)):
        model.learn_one(x, label, t=start + timedelta(hours=5 * number + number % 3))
    return classified(model, framed(X[120:])) | named(
        single=[[*model.scores_one(x).values()] for x in dicts(X[90:95])]
    )


# Kinds of rows


@entry
def sparse_rows() -> Arrays:
    X, y = load_digits(return_X_y=True)
    model = LeastSquaresClassifier(1.0)
    rows = sparse.csr_array(X[:300, ::4] * (X[:300, ::4] > 8.0))
    model.learn_many(rows[:200], y[:200])
    model.learn_many(rows[200:260], y[200:260])
    return classified(model, rows[260:])


@entry
def frames_and_arrays_in_dicts() -> Arrays:
    X, y = diabetes()
    frames, arrays = LeastSquaresRegressor(), LeastSquaresRegressor()
    frames.learn_many(framed(X[:50]), pd.Series(y[:50]))
    frames.learn_many(
        framed(X[50:90])[["b", "a", "d"]].assign(new=1.0 + np.arange(40) % 5), y[50:90]
    )
    samples = [{"x": row, "z": float(row[0] > 0.0)} for row in X[:90, :5]]
    arrays.learn_many(samples, y[:90])
    of_arrays = {f"arrays {name}": value for name, value in linear(arrays).items()}
    return linear(frames) | of_arrays | named(answers=arrays.predict_many(samples[:9]))


# Adding, removing, saving


@entry
def merged_sites() -> Arrays:
    X, y = iris()
    sites = [LeastSquaresClassifier() for _ in range(3)]
    sites[0].learn_many(framed(X[:50]), y[:50])
    sites[1].learn_many(framed(X[50:90])[["d", "c", "b"]], y[50:90])
    sites[2].learn_many(dicts(X[90:110]), y[90:110])
    return classified(sum(sites), framed(X[110:]))


def merged(**settings: Any) -> Arrays:
    """Merge two regressors in place, and let the result learn on."""
    X, y = diabetes()
    first = LeastSquaresRegressor(**settings)
    second = first.empty()
    first.learn_many(X[:60], y[:60])
    second.learn_many(X[60:150], y[60:150])
    first.merge(second)
    first.learn_many(X[150:160], y[150:160])
    return regressed(first + second, X[160:170])


entries(
    "merged",
    merged,
    {},
    {"ridge": KFold(5)},
    {"accumulator": "orthogonal"},
    {"accumulator": "recursive", "ridge": 1.0},
    {"ridge": 1.0, "forgetting_factor": 0.99},
)


@entry
def merged_pipelines() -> Arrays:
    X, y = iris()
    pipelines = [HiddenLayer(20, seed=3) | LeastSquaresClassifier(0.1) for _ in range(2)]
    pipelines[0].learn_many(X[:60], pd.Series(y[:60]))
    pipelines[1].learn_many(X[60:120], pd.Series(y[60:120]))
    both = onlinels.merge(*pipelines)
    return classified(both, X[120:], both["LeastSquaresClassifier"])


def unlearnt(**settings: Any) -> Arrays:
    """Learn 120 rows and unlearn 45 of them, of which five singly."""
    X, y = diabetes()
    model = fitted(LeastSquaresRegressor(**settings), X[:120], y[:120])
    model.unlearn_many(X[20:60], y[20:60])
    for number in range(5):
        model.unlearn_one(dict(enumerate(X[number])), y[number])
    return regressed(model, X[120:130])


entries("unlearnt", unlearnt, {}, {"ridge": 1.0}, {"accumulator": "recursive", "ridge": 1.0})


@entry
def unlearnt_class() -> Arrays:
    X, y = iris()
    model = fitted(LeastSquaresClassifier(1.0), X[:100], y[:100])
    rows = y[:100] == "setosa"
    model.unlearn_many(X[:100][rows], y[:100][rows])
    return classified(model, X[100:])


@entry
def faded() -> Arrays:
    X, y = diabetes()
    model = fitted(LeastSquaresRegressor(2.0), X[:80], y[:80])
    model.fade(0.25)
    model.learn_many(X[80:120], y[80:120])
    return regressed(model, X[120:130])


@entry
def another_ridge() -> Arrays:
    X, y = iris()
    model = fitted(LeastSquaresClassifier(), X[:100], y[:100])
    found = {}
    for ridge in (0.01, "paper", 0.0, "auto"):
        model.ridge = ridge
        found |= {f"{ridge} {name}": each for name, each in linear(model).items()}
    return found


@entry
def saved_and_loaded() -> Arrays:
    X, y = iris()
    model = HiddenLayer(15, bias=True) | LeastSquaresClassifier(0.1)
    model.learn_many(X[:60], pd.Series(y[:60]))
    loaded = fitted(onlinels.loads(onlinels.dumps(model)), X[60:120], pd.Series(y[60:120]))
    return classified(loaded, X[120:], loaded["LeastSquaresClassifier"])


@entry
def answers_without_sums() -> Arrays:
    X, y = iris()
    model = fitted(LeastSquaresClassifier(priors="learnt"), X[:100], y[:100])
    small = export.answers_only(model)
    return named(labels=small.predict_many(X[100:]), scores=small.scores_many(X[100:]))


@entry
def models_of_scikit_learn() -> Arrays:
    X, y = iris()
    model = fitted(LeastSquaresClassifier(1.0), X[:100], y[:100])
    plain = export.to_sklearn(model)
    return named(weights=plain.coef_, intercept=plain.intercept_, labels=plain.predict(X[100:]))


@entry
def sums_of_a_database() -> Arrays:
    X, y = diabetes()
    X, y = X[:200], y[:200]
    sums = X.T @ X, X.T @ y, X.sum(0), y.sum(), y @ y, len(y)
    model = from_sums.regressor_from_sums(LeastSquaresRegressor(1.0), *sums)
    return regressed(model, X[:10])


# Hidden units, embeddings, pipelines


@entry
def hidden_units() -> Arrays:
    X = iris()[0][:6]
    found = {
        activation: HiddenLayer(8, activation=activation, seed=2).transform_many(0.1 * X)
        for activation in ("square", "relu", "logistic", "tanh", "cosine", "gaussian")
    }
    named_rows = HiddenLayer(8, "bipolar", "relu", bias=True).transform_many(dicts(X))
    return found | {"by name": table(named_rows, [f"h{k}" for k in range(8)])}


@entry
def hidden_units_from_examples() -> Arrays:
    X, y = iris()
    differences = HiddenLayer.from_examples(X[:30], y[:30], n_hidden=12, seed=1)
    standardised = HiddenLayer.from_examples(X[:30], n_hidden=12, activation="relu")
    return named(
        differences=differences.transform_many(X[30:36]),
        standardised=standardised.transform_many(X[30:36]),
    )


@entry
def hidden_units_and_classifier() -> Arrays:
    X, y = iris()
    layer = HiddenLayer.from_examples(X[:50], n_hidden=25, activation="relu", seed=4)
    model = layer | LeastSquaresClassifier()
    for x, label in zip(dicts(X[:30], range(4)), y[:30].tolist(), strict=True):
        model.learn_one(x, label)
    model.learn_many(X[30:120], pd.Series(y[30:120]))
    return classified(model, X[120:], model["LeastSquaresClassifier"])


@entry
def hidden_units_and_regressor() -> Arrays:
    X, y = diabetes()
    layer = HiddenLayer.from_examples(X[:50], n_hidden=25, activation="tanh", seed=4)
    model = LeastSquaresRegressor(accumulator="recursive")
    hidden = layer.transform_many(X[:230])
    model.predict_learn_many(hidden[:200], y[:200])
    return regressed(model, hidden[200:220])


@entry
def scaler_before_a_classifier() -> Arrays:
    model = preprocessing.StandardScaler() | LeastSquaresClassifier(1.0)
    rows = stream(datasets.Phishing, 150)
    before = row_by_row(model, rows)
    return linear(model["LeastSquaresClassifier"]) | named(before=table(before, (False, True))[::3])


def lengths(texts: list[str]) -> list[list[float]]:
    """Return the lengths of texts, and how often they have some letters."""
    return [[float(len(text)), *(float(text.count(letter)) for letter in "aeio")] for text in texts]


@entry
def embedded_texts() -> Arrays:
    rows = stream(datasets.ImageSegments, 100, 20)
    model = Embedding(lengths) | LeastSquaresRegressor(1.0)
    texts = [
        " ".join(sorted(x)[number % 7 : number % 11 + 8]) for number, (x, _) in enumerate(rows)
    ]
    targets = [float(x["intensity-mean"]) for x, _ in rows]
    model.learn_many([{"text": text} for text in texts[:80]], targets[:80])
    answers = model.predict_many([{"text": text} for text in texts[80:]])
    return linear(model["LeastSquaresRegressor"]) | named(answers=answers)


# Streams


def stream_classifier(rows: list[tuple[Any, Any]], **settings: Any) -> Arrays:
    """Answer and learn rows one by one, then a batch."""
    model = StreamClassifier(**settings)
    before = row_by_row(model, rows[:-60])
    X, y = [x for x, _ in rows[-60:]], [label for _, label in rows[-60:]]
    batch = model.predict_proba_learn_many(X[:40], y[:40])
    labels = [str(label) for label in model.predict_many(X[40:])]
    answers = table([*before[::4], *batch[::4], *model.predict_proba_many(X[40:])], model.classes)
    return named(probabilities=answers, labels=labels, classes=list(map(str, model.classes)))


ENTRIES |= {
    "stream of phishing sites": lambda: stream_classifier(stream(datasets.Phishing, 200)),
    "stream of image segments": lambda: stream_classifier(
        stream(datasets.ImageSegments, 160), seed=5
    ),
}


def words() -> list[tuple[Any, Any]]:
    """Return rows with texts and gaps."""
    rows = []
    for number, (x, y) in enumerate(stream(datasets.ChickWeights, 160)):
        gap = None if number % 9 == 4 else float(y)
        rows.append(({"diet": str(x["diet"]), "weight": gap, "day": x["time"]}, x["chick"] % 3))
    return rows


ENTRIES["stream of texts and gaps"] = lambda: stream_classifier(words())


@entry
def stream_with_late_labels() -> Arrays:
    rows, model = stream(datasets.Phishing, 150), StreamClassifier()
    before = []
    for number, (x, _) in enumerate(rows):
        before.append(model.predict_proba_one(x))
        if number >= 7 and number % 10:
            model.learn_one(*rows[number - 7])
    return named(probabilities=table(before, (False, True))[::3], count=model.count)


def stream_regressor(rows: list[tuple[Any, float]], delay: int = 0, **settings: Any) -> Arrays:
    """Answer rows with intervals, learn each `delay` rows later, then learn a batch."""
    model, before = StreamRegressor(**settings), []
    for number, (x, _) in enumerate(rows[:-60]):
        normal = model.predict_one(x, with_dist=True)
        before.append([normal.mu, normal.sigma, *model.predict_interval_one(x, level=0.7)])
        if number >= delay:
            model.learn_one(*rows[number - delay])
    X, y = [x for x, _ in rows[-60:]], [target for _, target in rows[-60:]]
    batch = model.predict_learn_many(X[:40], y[:40])
    # Infinite deviations at first.
    found = np.array(before)
    return named(before=found[::3], batch=batch, after=model.predict_many(X[40:]))


ENTRIES |= {
    "stream of approval": lambda: stream_regressor(stream(datasets.TrumpApproval, 180)),
    "stream of weights": lambda: stream_regressor(stream(datasets.ChickWeights, 180), seed=2),
    "stream of numbers with late targets": lambda: stream_regressor(
        stream(datasets.TrumpApproval, 180), delay=6
    ),
}


@entry
def stream_of_passengers() -> Arrays:
    rows = [({"month": float(x["month"].month)}, float(y)) for x, y in datasets.AirlinePassengers()]
    return stream_regressor(rows)


# Images and windows


def network(
    preset: str, images: np.ndarray, labels: np.ndarray, **settings: Any
) -> tuple[Arrays, ShallowConvClassifier]:
    """Answer during and after the warm-up; learn batches and single images."""
    shape, n_images = images.shape[1:], len(images)
    settings = {"dtype": "float64", "n_hidden": 30, "warm_up": 40} | settings
    model = ShallowConvClassifier.from_preset(preset, image_shape=shape, **settings)
    model.learn_many(images[:25], labels[:25])
    early = model.scores_many(images[-10:])
    model.learn_many(images[25 : n_images - 15], labels[25 : n_images - 15])
    for image, label in zip(images[-15:-10], labels[-15:-10], strict=True):
        model.learn_one({"image": image}, label)
    found = named(early=early, labels=model.predict_many(images[-10:]))
    found |= named(scores=model.scores_many(images[-10:]), ridge=model.ridge_)
    return found | named(probabilities=model.predict_proba_many(images[-10:])), model


ENTRIES |= {
    "network of digits": lambda: network("digits", *digits(150))[0],
    "network of digits with learnt priors": lambda: network(
        "digits", *digits(150), priors=None, ridge="auto"
    )[0],
    "network of mnist": lambda: network("mnist", *digits(120, 2), ridge=1e-3)[0],
    "network of the paper": lambda: network("mnist-paper", *digits(120, 2), ridge=1e-3)[0],
}


@entry
def network_of_stereo_pairs() -> Arrays:
    images, labels = digits(80, 6)
    pairs = np.stack((images, images[:, :, ::-1]), axis=3)
    return network("norb", pairs, labels, ridge=1e-3)[0]


def colours(n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Return digits in colours of 0 to 255."""
    images, labels = digits(n_images, 3)
    noise = np.random.RandomState(0).random_sample((*images.shape, 3))
    return 8.0 * images[..., None] * [1.0, 1.5, 0.5] + 60.0 * noise, labels


ENTRIES |= {
    "network of house numbers": lambda: network("svhn", *colours(80), ridge=1e-5)[0],
    "network of photos": lambda: network("cifar10", *colours(120), warm_up=100, ridge=1e-6)[0],
}


@entry
def network_before_learning() -> Arrays:
    images, labels = digits(120)
    model = ShallowConvClassifier.from_preset("digits", n_hidden=30, warm_up=40, ridge=1e-2)
    first = model.predict_learn_many(images[:70], labels[:70])
    before = model.predict_proba_learn_many(images[70:110], labels[70:110])
    texts = [str(label) for label in first]
    return named(first=texts, before=before, after=model.scores_many(images[110:]))


@entry
def networks_merged_and_unlearnt() -> Arrays:
    images, labels = digits(130)
    _, first = network("digits", images[:90], labels[:90], ridge=1e-2)
    second = fitted(first.empty(), images[90:120], labels[90:120])
    first.merge(second)
    first.unlearn_many(images[40:50], labels[40:50])
    return named(scores=first.scores_many(images[120:]), count=first.count)


@entry
def convolution() -> Arrays:
    images, labels = digits(70)
    layer = ConvolutionalFeatures(image_shape=(8, 8), pool_size=4, stride=3, dtype="float64")
    model = fitted(layer | LeastSquaresClassifier(1.0), images[:60], pd.Series(labels[:60]))
    features = layer.transform_many(images[60:62])
    return named(
        features=features,
        scores=model["LeastSquaresClassifier"].scores_many(layer.transform_many(images[60:])),
    )


def waves() -> tuple[np.ndarray, np.ndarray]:
    """Return 40 windows (16, 2) of whole numbers, and their kinds."""
    time, kinds = np.arange(16), np.arange(40) % 2
    phase = np.arange(40)[:, None]
    first = (time * (2 + kinds[:, None]) + 3 * phase) % 9
    second = (time * time + 5 * phase) % 7
    return np.stack((first, second), axis=2).astype(float), kinds


@entry
def minirocket() -> Arrays:
    windows, kinds = waves()
    layer = MiniRocketFeatures.from_examples(windows[:20], n_features=84)
    model = LeastSquaresClassifier(1.0, priors="equal")
    model.learn_many(layer.transform_many(windows[:30]), kinds[:30])
    features = layer.transform_many(windows[30:])
    return named(features=features, scores=model.scores_many(features))


def readings(n_readings: int) -> list[tuple[dict[str, float], str]]:
    """Return readings of two channels at irregular times, with labels."""
    rows, time = [], 0.0
    for number in range(n_readings):
        time += 0.1 + 0.01 * (number % 3)
        walks = number // 30 % 2
        x = {"x": float(number % (3 + 2 * walks)), "y": float(number * number % 5), "t": time}
        rows.append((x, "walk" if walks else "rest"))
    return rows


def windowed(timestamp: str | None, **settings: Any) -> Arrays:
    """Classify windows of readings."""
    rows = readings(130)
    if timestamp is None:
        rows = [({"x": x["x"], "y": x["y"]}, y) for x, y in rows]
    inner = LeastSquaresClassifier(1.0)
    model = WindowedClassifier(inner, window=8, hop=3, timestamp=timestamp, **settings)
    before = row_by_row(model, rows[:70])
    model.learn_many([x for x, _ in rows[70:110]], [y for _, y in rows[70:110]])
    after = model.predict_proba_many([x for x, _ in rows[110:]])
    return linear(inner) | named(answers=table([*before[::3], *after], ("rest", "walk")))


ENTRIES["windows"] = partial(windowed, None)


@entry
def windows_through_minirocket() -> Arrays:
    windows, kinds = waves()
    rows = [dict(zip("xy", row, strict=True)) for row in np.concatenate(windows).tolist()]
    layer = MiniRocketFeatures.from_examples(windows[:20], n_features=84, seed=1)
    model = WindowedClassifier(layer | LeastSquaresClassifier(1.0), window=16, hop=4)
    model.learn_many(rows[:500], np.repeat(kinds, 16)[:500])
    answers = table(model.predict_proba_many(rows[500:])[::5], (0, 1))
    return named(probabilities=answers)


ENTRIES["windows of resampled readings"] = partial(windowed, "t", sample_rate=9.5)
ENTRIES["windows of one label"] = partial(windowed, None, label_rule="unanimous")


# Wrappers and evaluation


@entry
def calibrated() -> Arrays:
    X, y = iris()
    model = fitted(CalibratedClassifier(LeastSquaresClassifier()), X[:60], y[:60])
    before = model.predict_proba_learn_many(X[60:120], y[60:120])
    return named(before=before, after=model.predict_proba_many(X[120:]))


@entry
def calibrated_networks() -> Arrays:
    X, y = iris()
    layer = HiddenLayer(20, activation="relu", seed=1)
    sites = [CalibratedClassifier(layer.clone() | LeastSquaresClassifier(0.5)) for _ in range(2)]
    for site, rows in zip(sites, (slice(0, 50), slice(50, 120)), strict=True):
        site.learn_many(X[rows], y[rows])
    both = copy.deepcopy(sites[0]).merge(sites[1])
    return named(probabilities=both.predict_proba_many(X[120:]))


@entry
def classifier_of_drifting_rows() -> Arrays:
    X, y = iris()
    turned = {"setosa": "virginica", "virginica": "versicolor", "versicolor": "setosa"}
    rows, labels = np.vstack((X, X)), [*y.tolist(), *map(turned.__getitem__, y.tolist())]
    model = DriftAwareClassifier(LeastSquaresClassifier(1.0), drift.binary.DDM(), keep=0.1)
    before = model.predict_proba_learn_many(dicts(rows), labels)
    return linear(model.classifier) | named(before=table(before, sorted(turned))[::5])


@entry
def learning_curves() -> Arrays:
    rows = stream(datasets.Phishing, 300)
    metric = metrics.Accuracy() + metrics.LogLoss()
    score = progressive_val_score(rows, LeastSquaresClassifier(1.0), metric, window=100)
    late = progressive_val_score(
        rows, LeastSquaresClassifier(1.0), metrics.LogLoss(), window=100, delay=10
    )
    return named(rows=score.rows, windowed=score.windowed, late=late.windowed)


# Estimators of scikit-learn


def incremental(y_of: Callable[[np.ndarray], Any] = lambda y: y, **settings: Any) -> Arrays:
    """Fit in chunks, unlearn some rows, and predict."""
    X, y = diabetes()
    y = y_of(y)
    model = IncrementalRidge(**settings)
    model.partial_fit(X[:80], y[:80]).partial_fit(X[80:160], y[80:160], 1.0 + np.arange(80) % 2)
    if settings.get("solver") != "orthogonal":
        model.unlearn(X[:20], y[:20])
    answers, deviations = model.predict(X[160:170], return_std=True)
    found = named(weights=model.coef_, intercept=model.intercept_, alpha=model.alpha_)
    return found | named(answers=answers, deviations=deviations)


def two_targets(y: np.ndarray) -> np.ndarray:
    """Return a target and its square."""
    return np.column_stack((y, (y / 100.0) ** 2))


entries(
    "IncrementalRidge",
    incremental,
    {},
    {"alpha": 1.0},
    {"alpha": 1.0, "solver": "orthogonal"},
    {"alpha": 1.0, "solver": "recursive"},
    {"alpha": 0.1, "scaling": "standard"},
    {"alpha": 1.0, "fit_intercept": False, "forgetting_factor": 0.99},
)


def incremental_of_two_targets() -> Arrays:
    """Return the answers for the first target at one alpha, for the second at another."""
    first, second = (incremental(two_targets, alpha=alpha) for alpha in (0.5, 2.0))
    found = {
        name: np.stack((first[name].T[0], second[name].T[1])).T for name in first if name != "alpha"
    }
    found["weights"] = np.stack((first["weights"][0], second["weights"][1]))
    return found | named(alpha=[0.5, 2.0])


ENTRIES["IncrementalRidge of two targets"] = incremental_of_two_targets


@entry
def scikit_learn_classifier_in_chunks() -> Arrays:
    X, y = iris()
    model, w = IncrementalRidgeClassifier(), np.where(y == "setosa", 2.0, 1.0)
    model.partial_fit(X[:50], y[:50], classes=np.unique(y), sample_weight=w[:50])
    model.merge(IncrementalRidgeClassifier().fit(X[50:100], y[50:100], w[50:100]))
    found = named(weights=model.coef_, intercept=model.intercept_, alpha=model.alpha_)
    return found | named(scores=model.decision_function(X[100:]), labels=model.predict(X[100:]))


@entry
def scikit_learn_transformer() -> Arrays:
    X, y = iris()
    plain, differences = (
        HiddenLayerTransformer(10),
        HiddenLayerTransformer(10, input_weights="difference", activation="square"),
    )
    return named(
        plain=plain.fit(X[:50]).transform(X[50:56]),
        differences=differences.fit(X[:50], y[:50]).transform(X[50:56]),
    )
