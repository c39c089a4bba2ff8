"""Models answer as they did when tests/reference.npz was made.

Entries of the file are of what has no other definition than the code: which ridge is chosen after
which row, which weights a seed draws, the settings of presets, and the experts of streams. Each is
a function that trains a model on fixed numbers and returns arrays by name. Data are bundled with
scikit-learn and river, or come from `RandomState`, whose numbers numpy has frozen. Only public
names are used. Settings are such that ridges and labels are no near-ties and that sums are well
conditioned, so that BLAS kernels agree to many digits.

`python tests/test_reference.py` makes the file anew. Do so only if answers change on purpose, and
say which.
"""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from river import datasets
from sklearn.datasets import load_diabetes, load_digits, load_iris

from onlinels import (
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
)

PATH = Path(__file__).with_name("reference.npz")
SEPARATOR = " / "
"""Between the name of an entry and that of its array, in the names of the file's arrays."""

RELATIVE = 1e-9
"""Largest difference of a number, relative to the largest number of its array."""


# Data


def mixed(*arrays):
    """Return rows in another order; 37 has no factor in common with the numbers of rows here."""
    order = np.arange(len(arrays[0])) * 37 % len(arrays[0])
    return tuple(array[order] for array in arrays)


def iris():
    """Return 150 rows of four lengths in cm, and the names of their species."""
    data = load_iris()
    return mixed(data.data, data.target_names[data.target])


def digits(n_images, size=1):
    """Return images of digits, every pixel enlarged to size x size pixels, and the digits."""
    images, labels = mixed(load_digits().images, load_digits().target)
    return np.kron(images[:n_images], np.ones((1, size, size))), labels[:n_images]


def colours(n_images):
    """Return digits in colours of 0 to 255."""
    images, labels = digits(n_images, 3)
    noise = np.random.RandomState(0).random_sample((*images.shape, 3))
    return 8.0 * images[..., None] * [1.0, 1.5, 0.5] + 60.0 * noise, labels


def stereo_pairs(n_images):
    images, labels = digits(n_images, 6)
    return np.stack((images, images[:, :, ::-1]), axis=3), labels


def waves():
    """Return 40 windows (16, 2) of whole numbers, and their kinds."""
    time, kinds = np.arange(16), np.arange(40) % 2
    phase = np.arange(40)[:, None]
    first = (time * (2 + kinds[:, None]) + 3 * phase) % 9
    second = (time * time + 5 * phase) % 7
    return np.stack((first, second), axis=2).astype(float), kinds


def stream(kind, n_rows, step=1):
    """Return rows of a stream of river: every `step`th, numbers and text only."""
    # To its end, which closes the file.
    rows = list(kind())[: n_rows * step : step]
    return [({k: v for k, v in x.items() if isinstance(v, (int, float, str))}, y) for x, y in rows]


def words():
    """Return rows with texts and gaps."""
    rows = []
    for number, (x, y) in enumerate(stream(datasets.ChickWeights, 160)):
        gap = None if number % 9 == 4 else float(y)
        rows.append(({"diet": str(x["diet"]), "weight": gap, "day": x["time"]}, x["chick"] % 3))
    return rows


# Linear models, whose ridges are chosen


def table(rows, names):
    """Return dicts as a table with a column for every name, 0 where a dict lacks it."""
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


def linear(model):
    """Return the weights of a linear model and its ridge."""
    return {
        "weights": model.output_weights,
        "intercept": model.intercept,
        "ridge": model.ridge_,
        "diagonal": model.ridge_diagonal,
    }


def row_by_row(model, rows):
    """Learn rows one by one; return the probabilities of every third before it was learnt."""
    before = []
    for x, *learnt in rows:
        before.append(model.predict_proba_one(x))
        model.learn_one(x, *learnt)
    return table(before[::3], model.classes)


def classifier(**settings):
    """Learn three batches of iris, and answer the rest."""
    X, y = iris()
    model = LeastSquaresClassifier(**settings)
    for rows in (slice(0, 10), slice(10, 70), slice(70, 120)):
        model.learn_many(X[rows], y[rows])
    probabilities, scores = model.predict_proba_many(X[120:]), model.scores_many(X[120:])
    return linear(model) | {"probabilities": probabilities, "scores": scores}


def regressor(**settings):
    """Learn two batches of the diabetes data, and answer some rows."""
    X, y = load_diabetes(return_X_y=True)
    X, y = mixed(20.0 * X, y)
    model = LeastSquaresRegressor(**settings)
    model.learn_many(X[:100], y[:100])
    model.learn_many(X[100:200], y[100:200], w=1.0 + np.arange(100) % 3)
    means, deviations = model.predict_many(X[200:220], with_dist=True)
    lower, upper = model.predict_interval_many(X[200:220], level=0.8)
    answers = {"means": means, "deviations": deviations, "lower": lower, "upper": upper}
    return linear(model) | answers


def classifier_row_by_row(**settings):
    """Answer and learn single rows with weights."""
    X, y = iris()
    model, weights = LeastSquaresClassifier(**settings), 1.0 + np.arange(110) % 3
    rows = zip(map(dict, map(enumerate, X.tolist())), y.tolist(), weights.tolist(), strict=False)
    return {"before": row_by_row(model, rows)} | linear(model)


FORMS = [{}, {"accumulator": "orthogonal"}, {"accumulator": "recursive"}]
SETTINGS = [
    *({**form, "ridge": "auto"} for form in FORMS),
    *({**form, "ridge": "auto", "scaling": None} for form in FORMS[:2]),
    {"ridge": KFold(5)},
    {"ridge": KFold(4), "scaling": "standard"},
    {"ridge": "auto", "forgetting_factor": 0.99},
    {"ridge": "auto", "fit_intercept": False},
]
BY_ROW = [{}, {"accumulator": "recursive"}]


# Hidden units, windows, images


def hidden_units():
    (X, y), found = iris(), {}
    for activation in ("square", "relu", "logistic", "tanh", "cosine", "gaussian"):
        found[activation] = HiddenLayer(8, activation=activation, seed=2).transform_many(X / 10.0)
    found["bipolar"] = HiddenLayer(8, "bipolar", "relu", bias=True).transform_many(X)
    differences = HiddenLayer.from_examples(X[:30], y[:30], n_hidden=12, seed=1)
    standardised = HiddenLayer.from_examples(X[:30], n_hidden=12, activation="relu")
    found |= {"differences": differences.transform_many(X)}
    return found | {"standardised": standardised.transform_many(X)}


def minirocket():
    windows, kinds = waves()
    layer = MiniRocketFeatures.from_examples(windows[:20], n_features=84)
    model = LeastSquaresClassifier(1.0, priors="equal")
    model.learn_many(layer.transform_many(windows[:30]), kinds[:30])
    features = layer.transform_many(windows[30:])
    return {"features": features, "scores": model.scores_many(features)}


def network(preset, images, labels, **settings):
    """Answer during and after the warm-up; learn batches and single images."""
    shape, n_images = images.shape[1:], len(images)
    settings = {"dtype": "float64", "n_hidden": 30, "warm_up": 40} | settings
    model = ShallowConvClassifier.from_preset(preset, image_shape=shape, **settings)
    model.learn_many(images[:25], labels[:25])
    early = model.scores_many(images[-10:])
    model.learn_many(images[25 : n_images - 15], labels[25 : n_images - 15])
    for image, label in zip(images[-15:-10], labels[-15:-10], strict=True):
        model.learn_one({"image": image}, label)
    scores, probabilities = model.scores_many(images[-10:]), model.predict_proba_many(images[-10:])
    return {"early": early, "scores": scores, "probabilities": probabilities, "ridge": model.ridge_}


# Streams


def stream_classifier(rows, **settings):
    """Answer and learn rows one by one, then a batch."""
    model = StreamClassifier(**settings)
    before = row_by_row(model, rows[:-60])
    X, y = [x for x, _ in rows[-60:]], [label for _, label in rows[-60:]]
    batch = model.predict_proba_learn_many(X[:40], y[:40])
    after = table([*batch, *model.predict_proba_many(X[40:])], model.classes)
    return {"before": before, "probabilities": after}


def stream_regressor(rows, **settings):
    """Answer rows with intervals, and learn them one by one, then a batch."""
    model, before = StreamRegressor(**settings), []
    for x, y in rows[:-60]:
        normal = model.predict_one(x, with_dist=True)
        before.append([normal.mu, normal.sigma, *model.predict_interval_one(x, level=0.7)])
        model.learn_one(x, y)
    X, y = [x for x, _ in rows[-60:]], [target for _, target in rows[-60:]]
    batch = model.predict_learn_many(X[:40], y[:40])
    # Infinite deviations at first.
    return {"before": np.array(before)[::3], "batch": batch, "after": model.predict_many(X[40:])}


ENTRIES = {
    f"{function.__name__}({settings})": partial(function, **settings)
    for function, table_ in (
        (classifier, SETTINGS),
        (regressor, SETTINGS),
        (classifier_row_by_row, BY_ROW),
    )
    for settings in table_
}
ENTRIES |= {
    "hidden units": hidden_units,
    "minirocket": minirocket,
    "digits": lambda: network("digits", *digits(150)),
    "digits, learnt priors": lambda: network("digits", *digits(150), priors=None, ridge="auto"),
    "mnist": lambda: network("mnist", *digits(120, 2), ridge=1e-3),
    "mnist-paper": lambda: network("mnist-paper", *digits(120, 2), ridge=1e-3),
    "norb": lambda: network("norb", *stereo_pairs(80), ridge=1e-3),
    "svhn": lambda: network("svhn", *colours(80), ridge=1e-5),
    "cifar10": lambda: network("cifar10", *colours(120), warm_up=100, ridge=1e-6),
    "phishing sites": lambda: stream_classifier(stream(datasets.Phishing, 200)),
    "image segments": lambda: stream_classifier(stream(datasets.ImageSegments, 160), seed=5),
    "texts and gaps": lambda: stream_classifier(words()),
    "approval": lambda: stream_regressor(stream(datasets.TrumpApproval, 180)),
    "weights": lambda: stream_regressor(stream(datasets.ChickWeights, 180), seed=2),
}


@cache
def known():
    """Return the arrays of the file, by entry and name."""
    found = {}
    with np.load(PATH) as file:
        for name in file.files:
            entry, _, part = name.rpartition(SEPARATOR)
            found.setdefault(entry, {})[part] = file[name]
    return found


def test_the_file_holds_the_entries_and_no_others():
    assert sorted(known()) == sorted(ENTRIES)
    assert PATH.stat().st_size <= 2 << 20


@pytest.mark.filterwarnings("ignore:Numbers as text:UserWarning")
@pytest.mark.parametrize("name", ENTRIES)
def test_models_answer_as_before(name):
    found, expected = ENTRIES[name](), known()[name]
    assert sorted(found) == sorted(expected)
    for part, values in expected.items():
        largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        np.testing.assert_allclose(
            found[part], values, rtol=0.0, atol=RELATIVE * largest, err_msg=part
        )


if __name__ == "__main__":
    made = {name: function() for name, function in ENTRIES.items()}
    arrays = {f"{n}{SEPARATOR}{part}": values for n in made for part, values in made[n].items()}
    np.savez_compressed(PATH, **arrays)
