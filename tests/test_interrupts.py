"""Whatever is raised inside one call: the model is as before it or as after it, and works on."""

import copy
import functools
import pickle
from itertools import cycle

import numpy as np
import pandas as pd
import pytest
from river.preprocessing import StandardScaler
from sklearn.base import clone

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)
from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier
from support import laws, strategies
from support.fault_injection import assert_before_or_after

FEW, MOST = 4, 400
"""How many lines of a call are interrupted: by default, and in the long run."""

MANY = pytest.param(MOST, marks=pytest.mark.slow)
often = pytest.mark.parametrize("most", [FEW, MANY])

# Between the opening of a file and the with-block that closes it Python itself has to close it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Features are made from few:UserWarning"),
]

FORMS = {
    "auto": {},
    "number": {"ridge": 1.0, "fit_intercept": False},
    "paper, forgetting": {"ridge": "paper", "forgetting_factor": 0.9},
    "folds": {"ridge": KFold(3)},
    "half-life": {"ridge": 1.0, "half_life": 5.0},
    "priors": {"priors": "equal"},
    "orthogonal": {"ridge": 1.0, "accumulator": "orthogonal"},
    "recursive": {"ridge": 1.0, "accumulator": "recursive"},
    "recursive auto": {"accumulator": "recursive", "fit_intercept": False},
    "recursive, forgetting": {"ridge": 1.0, "accumulator": "recursive", "forgetting_factor": 0.8},
}
RANDOM = np.random.default_rng(0)
X = [dict(zip("bac", row, strict=True)) for row in RANDOM.normal(size=(60, 3)).tolist()]
Y = [*RANDOM.integers(0, 3, 18).tolist(), 5, 5, *RANDOM.integers(0, 3, 40).tolist()]


def widened(rows):
    return [x | {"new": 1.5 * number} for number, x in enumerate(rows)]


def merged(model):
    other = laws.fitted(model.empty(), widened(X[30:38]), [*Y[30:36], 11, 12])
    model.merge(other)


ACTS = {
    "a row": lambda m: m.learn_one(X[26], Y[26]),
    "a weighed row": lambda m: m.learn_one(X[26], Y[26], 2.5),
    "a row after an answer": lambda m: m.learn_one(X[26], Y[26]),
    "a new feature": lambda m: m.learn_one(X[26] | {"new": 2.0}, Y[26]),
    "a new class": lambda m: m.learn_one(X[26], 7),
    "a batch": lambda m: m.learn_many(X[26:35], Y[26:35]),
    "a long batch": lambda m: m.learn_many(X[:50], Y[:50], np.arange(50.0)),
    "new features and classes": lambda m: m.learn_many(widened(X[:9]), [*Y[:6], 8, 9, 8]),
    "rows answered, then learnt": lambda m: m.predict_learn_many(X[26:35], Y[26:35]),
    "predictions": lambda m: m.predict_many(X[:3]),
    "variances": lambda m: m.variance_one(X[2]),
    "another ridge": lambda m: setattr(m, "ridge", 3.0),
    "a weaker past": lambda m: m.fade(0.25),
    "no past": lambda m: m.fade(0.0),
    "another model": merged,
    "a copy": copy.deepcopy,
    "a file": laws.saved,
    "a row less": lambda m: m.unlearn_one(X[1], Y[1]),
    "rows less": lambda m: m.unlearn_many(X[:6], Y[:6]),
    "a class less": lambda m: m.unlearn_many(X[18:20], [5, 5]),
    "nothing left": lambda m: m.unlearn_many(X[:26], Y[:26]),
}


def tell(model):
    names, outputs = model.feature_names, laws.outputs_of(model)
    weights = model.output_weights
    told = {f"{n} {o}": weights[i, k] for i, n in enumerate(names) for k, o in enumerate(outputs)}
    return [told, model.count, list(names), list(outputs), model.intercept, model.ridge_]


def go_on(model):
    model.learn_many(X[40:44], Y[40:44])
    model.predict_one(X[5])
    model.learn_one(X[44], Y[44])


def prepared(model, labels):
    for row in range(18):
        model.learn_one(X[row], labels[row])
        if row in (9, 10):
            model.predict_one(X[row])
    model.learn_many(X[18:20], labels[18:20])
    for row in range(20, 26):
        model.learn_one(X[row], labels[row])
    return model


@functools.cache
def prepared_classifier(form):
    """Return a pickle, because many acts begin with the same rows."""
    return pickle.dumps(prepared(LeastSquaresClassifier(**FORMS[form]), Y))


# Each act with another form; in the slow form, with all.
SOME = [(form, act, FEW) for form, act in zip(cycle(FORMS), ACTS, strict=False)]
ALL = [pytest.param(form, act, MOST, marks=pytest.mark.slow) for form in FORMS for act in ACTS]


@pytest.mark.parametrize(("form", "act", "most"), [*SOME, *ALL])
def test_classifiers(form, act, most):
    model = pickle.loads(prepared_classifier(form))
    if act == "a row after an answer":
        model.predict_one(X[3])
    assert_before_or_after(model, ACTS[act], go_on, tell, most, form + act)


@pytest.mark.parametrize("most", [2, MANY])
@pytest.mark.parametrize("form", ["auto", "recursive", "orthogonal"])
@pytest.mark.parametrize("block", [False, True])
def test_batches_of_several_blocks(form, block, most, monkeypatch):
    if block:
        laws.small_blocks(monkeypatch)
    model = prepared(LeastSquaresClassifier(**FORMS[form]), Y)
    rows, labels = X * 12, Y * 12
    assert_before_or_after(model, lambda m: m.learn_many(rows, labels), go_on, tell, most, form)


SAMPLES = [dict(zip("abc", row, strict=True)) for row in RANDOM.normal(size=(400, 3)).tolist()]
LABELS = ["yes" if row["a"] > 0.3 * row["b"] else "no" for row in SAMPLES]


def proba(model):
    told = [model.predict_proba_one(row) for row in SAMPLES[20:23]]
    return [told, [getattr(model, name, 0) for name in ("count", "n_alarms", "n_windows")]]


def three_more(model):
    for row, label in zip(SAMPLES[:3], LABELS[:3], strict=True):
        model.predict_one(row)
        model.learn_one(row, label)


def stream(n_rows, **settings):
    return laws.fitted_by_row(StreamClassifier(**settings), SAMPLES[:n_rows], LABELS[:n_rows])


def late_stream(n_rows):
    return laws.learnt_late(SAMPLES[:n_rows], LABELS[:n_rows])


def takeover():
    """Return a stream whose short memory is about to do clearly better."""
    return laws.fitted(StreamClassifier(), *turned(0, 260))


def turned(start, stop):
    """Return rows of that stream: the ridge is restored in them, and a memory is reset."""
    rows, labels = strategies.turned_labels(400, 200, seed=5)
    return [dict(enumerate(row)) for row in rows[start:stop].tolist()], labels[start:stop]


def many_texts():
    """Return a stream in which every further text is told by the rows it came in."""
    model = StreamClassifier()
    model.learn_many([{"id": f"text {row}"} for row in range(66)], [LABELS[0], LABELS[1]] * 33)
    return model


def learn_row(model):
    model.learn_one(SAMPLES[12], LABELS[12])


def learn_rows(model):
    model.learn_many(pd.DataFrame(SAMPLES[12:16]), LABELS[12:16])


def asked(n_rows):
    """Return a stream whose last row, and its forecast, only C knows."""
    model = stream(n_rows)
    model.predict_one(SAMPLES[n_rows])
    return model


STREAMS = {
    "forecast row": (lambda: asked(12), lambda m: m.learn_one(SAMPLES[12], LABELS[12])),
    "another forecast": (lambda: asked(12), lambda m: m.predict_one(SAMPLES[40])),
    "another row": (lambda: asked(12), lambda m: m.learn_one(SAMPLES[13], LABELS[13])),
    "a file after a forecast": (lambda: asked(12), laws.saved),
    "known row": (lambda: stream(5), learn_row),
    "first row": (StreamClassifier, lambda m: m.learn_one({"a": 1.0, "d": "red"}, "first")),
    "new names": (lambda: stream(4), lambda m: m.learn_one({"a": 1.0, "d": "x", "e": None}, "3")),
    "late row": (lambda: late_stream(12), lambda m: m.learn_one(SAMPLES[9], LABELS[9])),
    "first late row": (lambda: late_stream(4), lambda m: m.learn_one(SAMPLES[1], LABELS[1])),
    "late rows": (lambda: late_stream(20), lambda m: m.learn_many(SAMPLES[16:20], LABELS[16:20])),
    "forecasts that move the scale": (
        lambda: late_stream(12),
        lambda m: m.predict_many([*SAMPLES[12:16], {"a": 1e6}]),
    ),
    "growing batch": (
        lambda: stream(4),
        lambda m: m.learn_many([SAMPLES[4], SAMPLES[5] | {"d": 2.0}], ["yes", "third"]),
    ),
    "blocks": (takeover, lambda m: m.learn_many(*turned(260, 300))),
    "answered blocks": (takeover, lambda m: m.predict_proba_learn_many(*turned(260, 300))),
    "blocks of texts": (
        many_texts,
        lambda m: m.learn_many([{"id": f"text {row % 70}"} for row in range(60, 80)], LABELS[:20]),
    ),
    "refused": (lambda: stream(4), lambda m: m.learn_many([SAMPLES[4], {"d": []}], ["yes", "no"])),
    "new text": (many_texts, lambda m: m.learn_one({"id": "text 66"}, LABELS[0])),
    "turned": (takeover, lambda m: m.learn_one({0: 1e-3, 1: 1.0, 2: 1e6}, True)),
    "predictions": (lambda: stream(6), lambda m: m.predict_proba_many([SAMPLES[7], {"d": "x"}])),
    "a prediction": (lambda: late_stream(9), lambda m: m.predict_one(SAMPLES[40])),
    "before the first row": (StreamClassifier, lambda m: m.predict_one(SAMPLES[4])),
    "a copy": (lambda: stream(5), copy.deepcopy),
    "a file": (lambda: stream(5), laws.saved),
}


def numbers(n_rows, **settings):
    model = StreamRegressor(**settings)
    for row, number in zip(SAMPLES[:n_rows], range(n_rows), strict=True):
        model.learn_one(row, number**2)
    return model


def forecast_early(n_rows=9):
    model = numbers(n_rows)
    for row in SAMPLES[n_rows : n_rows + 3]:
        model.predict_one(row)
    model.learn_one(SAMPLES[20], 3.0)
    return model


def three_more_numbers(model):
    for number, row in enumerate(SAMPLES[:3]):
        model.predict_one(row)
        model.learn_one(row, number)
    # Of a forecast that may have waited.
    model.learn_one(SAMPLES[9], 2.0)


def forecasts(model):
    return [model.predict_many(SAMPLES[20:23]), model.count]


def asked_of_number(n_rows=12):
    model = numbers(n_rows)
    model.predict_one(SAMPLES[n_rows])
    return model


NUMBERS = {
    "forecast row": (asked_of_number, lambda m: m.learn_one(SAMPLES[12], 2.0)),
    "another forecast": (asked_of_number, lambda m: m.predict_interval_one(SAMPLES[40])),
    "a file after a forecast": (asked_of_number, laws.saved),
    "known row": (lambda: numbers(5), lambda m: m.learn_one(SAMPLES[12], 3.0)),
    "answered blocks": (
        lambda: numbers(9),
        lambda m: m.predict_learn_many(SAMPLES[12:40], [float(row) for row in range(28)]),
    ),
    "forecast early": (forecast_early, lambda m: m.learn_one(SAMPLES[10], 1e6)),
    "batch forecast early": (
        forecast_early,
        lambda m: m.learn_many(SAMPLES[9:20], [float(row) for row in range(11)]),
    ),
    "a prediction": (lambda: numbers(5), lambda m: m.predict_interval_one(SAMPLES[12])),
    "predictions": (forecast_early, lambda m: m.predict_many(SAMPLES[9:12], with_dist=True)),
    "a copy": (lambda: numbers(5), copy.copy),
    "growing batch": (
        lambda: numbers(4),
        lambda m: m.learn_many([SAMPLES[4], SAMPLES[5] | {"d": 2.0}], [1e6, 0.0]),
    ),
}


@often
@pytest.mark.parametrize("name", NUMBERS)
def test_streams_of_numbers(name, most):
    make, act = NUMBERS[name]
    assert_before_or_after(make(), act, three_more_numbers, forecasts, most, name)


@often
@pytest.mark.parametrize("name", STREAMS)
def test_streams(name, most):
    make, act = STREAMS[name]
    assert_before_or_after(make(), act, three_more, proba, most, name)


def merge_calibrated(model):
    model.merge(begun(model.empty(), 5))


def begun(model, n_rows=12):
    model.learn_many(pd.DataFrame(SAMPLES[:n_rows]), LABELS[:n_rows])
    model.predict_one(SAMPLES[n_rows])
    return model


WRAPPERS = {
    "calibrated": lambda: CalibratedClassifier(LeastSquaresClassifier()),
    "drift": lambda: DriftAwareClassifier(LeastSquaresClassifier()),
    "scaled": lambda: DriftAwareClassifier(StandardScaler() | LeastSquaresClassifier(1.0)),
    "hidden": lambda: DriftAwareClassifier(HiddenLayer(5) | LeastSquaresClassifier(1.0)),
    "windowed": lambda: WindowedClassifier(LeastSquaresClassifier(1.0), window=3, hop=2),
}


@pytest.mark.parametrize("most", [2, MANY])
@pytest.mark.parametrize(("name", "n_rows"), [*((name, 12) for name in WRAPPERS), ("windowed", 11)])
def test_wrappers(name, n_rows, most):
    """Of eleven and of twelve readings, one leaves a window due with the next."""
    model = begun(WRAPPERS[name](), n_rows)
    # The scaler may have seen a row that the model has not.
    acts = [] if name == "scaled" else [learn_row, learn_rows]
    if name != "windowed":
        acts.append(lambda m: m.predict_learn_many(SAMPLES[20:30], LABELS[20:30]))
        acts.append(lambda m: m.predict_proba_learn_many(SAMPLES[20:30], LABELS[20:30]))
    acts += [copy.deepcopy, laws.saved, lambda m: m.predict_many(SAMPLES[20:24])]
    acts += [merge_calibrated] * (name == "calibrated")
    acts += [lambda m: m.observe_one(SAMPLES[12])] * (name == "windowed")
    for act in acts:
        assert_before_or_after(model, act, three_more, proba, most, name)


IMAGES, DIGITS = RANDOM.random((60, 6, 6)), RANDOM.integers(0, 3, 60).tolist()


def network(n_images, start=0):
    model = ShallowConvClassifier(
        ConvolutionalFeatures(pool_size=3, stride=3, padding=3),
        HiddenLayer(6, "difference"),
        LeastSquaresClassifier(1.0, fit_intercept=False),
        warm_up=12,
    )
    learn_images(model, slice(start, start + n_images))
    return model


def learn_images(model, rows):
    model.learn_many(IMAGES[rows], DIGITS[rows])


NETWORKS = {
    "held": (3, lambda m: learn_images(m, slice(3, 7))),
    "warmed up": (3, lambda m: learn_images(m, slice(3, 20))),
    "fixed": (7, lambda m: m.fix_features()),
    "one learnt": (14, lambda m: m.learn_one({"image": IMAGES[20]}, DIGITS[20])),
    "answered, then learnt": (3, lambda m: m.predict_learn_many(IMAGES[3:20], DIGITS[3:20])),
    "many learnt": (14, lambda m: learn_images(m, slice(20, 33))),
    "unlearnt": (14, lambda m: m.unlearn_many(IMAGES[12:14], DIGITS[12:14])),
    "held merged": (3, lambda m: m.merge(network(5, 20))),
    "over the edge": (8, lambda m: m.merge(network(8, 20))),
    "fixed in held": (3, lambda m: m.merge(network(14, 20))),
    "answers": (14, lambda m: m.predict_proba_many(IMAGES[:7])),
    "a copy": (14, copy.deepcopy),
    "a file": (3, laws.saved),
}


@often
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, most):
    n_images, act = NETWORKS[name]

    def tell_images(model):
        return [model.predict_proba_one({"image": IMAGES[50]}), model.classes, model.features_fixed]

    def more(model):
        learn_images(model, slice(50, 53))
        model.learn_one({"image": IMAGES[54]}, DIGITS[54])

    assert_before_or_after(network(n_images), act, more, tell_images, most, name)


TABLE, LABELLED = RANDOM.normal(size=(30, 3)), RANDOM.integers(0, 2, 30)
ESTIMATORS = {
    "fit": lambda m: m.fit(TABLE[:9], LABELLED[:9]),
    "partial_fit": lambda m: m.partial_fit(TABLE[10:20], LABELLED[10:20]),
    "unlearn": lambda m: m.unlearn(TABLE[:2], LABELLED[:2]),
    "merge": lambda m: m.merge(fitted_estimator(m, 20)),
    "predict": lambda m: m.predict(TABLE[:3]),
    "a copy": copy.deepcopy,
}


def fitted_estimator(model, start=0):
    return clone(model).partial_fit(TABLE[start : start + 10], LABELLED[start : start + 10])


@often
@pytest.mark.parametrize("act", ESTIMATORS)
@pytest.mark.parametrize("kind", [IncrementalRidge, IncrementalRidgeClassifier])
def test_estimators_of_scikit_learn(kind, act, most):
    def tell_weights(model):
        return [model.coef_, model.intercept_, model.alpha_, model.n_samples_seen_]

    def more(model):
        model.partial_fit(TABLE[25:], LABELLED[25:])

    model = fitted_estimator(kind())
    assert_before_or_after(model, ESTIMATORS[act], more, tell_weights, most, act)


@often
@pytest.mark.parametrize("act", ["transform_one", "transform_many"])
def test_hidden_layers(act, most):
    x = {"a": 1.0, "new": 2.0}
    given = x if act == "transform_one" else [x]
    layer = HiddenLayer(4)
    layer.transform_one({"a": 1.0, "b": -1.0})
    assert_before_or_after(
        layer,
        lambda m: getattr(m, act)(given),
        lambda m: m.transform_one({"later": 1.0}),
        lambda m: m.transform_one({"a": 0.5, "b": 2.0, "new": 3.0}),
        most,
        act,
    )
