"""Values, sizes, counts, labels and names at the ends of what there is."""

import copy
import functools
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)
from onlinels import checks as memory
from onlinels.stream import features
from support import laws, models, strategies
from support.slow import the_rest_slow


@pytest.fixture
def room(monkeypatch):
    """Return what says how many bytes of memory there are, a megabyte at first."""

    def set_room(n_bytes):
        monkeypatch.setattr(memory, "memory_limit", lambda: n_bytes)

    set_room(1e6)
    return set_room


HEAVY, QUESTION = {"w": 1e20}, {str: "predict_proba_one", list: "predict_one"}
MERGED = [
    *((LeastSquaresClassifier(ridge), "xy", HEAVY) for ridge in (1.0, "auto")),
    *((LeastSquaresRegressor(ridge), [1.0, 3e9], HEAVY) for ridge in (1.0, "paper", KFold(3))),
    (LeastSquaresRegressor(1.0, half_life=1e3), [1.0, 3e9], HEAVY),
    (LeastSquaresMultiTargetRegressor(), [{"u": 1.0}, {"u": 3e9}], HEAVY),
    (LeastSquaresClassifier(1.0, priors="learnt"), "xy", HEAVY),
    (CalibratedClassifier(LeastSquaresClassifier()), "xy", {}),
]


@pytest.mark.parametrize("n_merges", [49, 70])
@pytest.mark.parametrize(("model", "targets", "weight"), MERGED, ids=str)
@pytest.mark.filterwarnings("ignore:.*These rows decide the weights")
def test_counts_beyond_whole_floats(model, targets, weight, n_merges):
    """No count wraps around, and a further row counts, although float64 does not count it."""
    model, x = model.clone(), {"a": 2.0, "b": 1.0}
    for row in range(50):
        model.learn_one({"a": row % 7, "b": row % 3}, targets[row % 2])
    for _ in range(n_merges):
        model.merge(model)
    assert model.count == 50 << n_merges
    for learn in (
        lambda: model.learn_one(x, targets[0], **weight),
        lambda: model.learn_many([x, x], [targets[1]] * 2),
        lambda: model.predict_learn_many([x, x], [targets[0]] * 2),
    ):
        model.predict_one(x)
        learn()
        # What is merged solves anew.
        again = model.clone().merge(model)
        found, expected = (getattr(each, QUESTION[type(targets)])(x) for each in (model, again))
        assert found == pytest.approx(expected, rel=1e-6)
    assert model.count == pytest.approx(50.0 * 2.0**n_merges)


@st.composite
def extreme_rows(draw):
    """Draw rows of values from 1e-320 to 1e150, by row, by column or all mixed, and weights."""
    n_rows, n_features = draw(st.integers(1, 12)), draw(st.integers(0, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(1, 1), (1, n_features), (n_rows, 1), (n_rows, n_features)]))
    powers = random.choice([-320, -155, -150, -100, 0, 1, 100, 149, 150], shape)
    X = np.clip(random.integers(-4, 5, (n_rows, n_features)) * 10.0**powers, -1e150, 1e150)
    weight_powers = random.choice([-320.0, -150, -10, 0, 10, 100], n_rows)
    w = draw(st.sampled_from([np.ones(n_rows), 10.0**weight_powers]))
    return X, random.integers(0, 3, n_rows), w


def learn(model, X, y, w, singly):
    """Learn rows; whatever refuses some has not changed."""
    calls = [lambda: model.learn_many(X, y, w)]
    if singly:
        rows = zip(strategies.Rows(X, y, w).dicts(), y.tolist(), w.tolist(), strict=True)
        calls = [lambda row=row: model.learn_one(*row) for row in rows]
    for call in calls:
        before = pickle.dumps(model)
        try:
            call()
        except ValueError:
            assert pickle.dumps(model) == before
            break


TARGETS_OF_NO_SIZE = (
    np.array([[2e-320], [-2e100], [2.0], [-1e-150], [4.0], [-2e-320]]),
    np.array([1, 1, 2, 0, 0, 2]),
    np.array([1e-320, 1e-320, 1e100, 1e-320, 1e-320, 1e100]),
)
STANDARD = {"scaling": "standard", "fit_intercept": False}
UNITS_299_DECADES_APART = np.array([[-2e149, -40.0, -4.0, -4e-150]]), np.array([2]), np.ones(1)


@example(TARGETS_OF_NO_SIZE, {}, None, 1.0, True)
@example(UNITS_299_DECADES_APART, STANDARD | {"ridge": 1e-15}, None, 1.0, False)
@example(
    UNITS_299_DECADES_APART,
    STANDARD | {"ridge": 0.1, "accumulator": "orthogonal"},
    None,
    1.0,
    False,
)
@given(
    extreme_rows(),
    strategies.classifier_settings(),
    st.sampled_from([None, "learnt", "equal", {1: 1e-300}]),
    st.sampled_from([1.0, 0.9, 1e-300]),
    st.booleans(),
)
def test_values_at_the_ends_of_float64_make_finite_answers(rows, chosen, priors, factor, singly):
    X, y, w = rows
    model = LeastSquaresClassifier(**chosen, priors=priors, forgetting_factor=factor)
    learn(model, X, y, w, singly)
    if X.shape[1]:
        model.priors = None
        variances = model.variance_many(X)
        assert (np.asarray(variances) >= 0.0).all()
        # Entries of the discriminants' matrix are up to 1e20 times as large as shares of rows.
        assume(np.abs(model.scores_many(X)).max(initial=0.0) < 1e288)
        model.priors = priors
        assert np.isfinite(model.predict_proba_many(X)).all()
    assert np.isfinite(model.output_weights).all()
    assert (model.intercept < np.inf).all()
    x = dict(enumerate(X[0].tolist()))
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0 if model.classes else 0.0)
    assert model.predict_one(x) in (*model.classes, None)


@given(extreme_rows(), st.sampled_from([-320.0, -150.0, 0.0, 149.0]), st.booleans(), st.booleans())
def test_targets_at_the_ends_of_float64(rows, power, fit_intercept, singly):
    X, y, w = rows
    model = LeastSquaresRegressor(fit_intercept=fit_intercept)
    learn(model, X, y * 10.0**power, w, singly)
    x = dict(enumerate(X[0].tolist()))
    assert np.isfinite(model.predict_one(x))
    assert model.predict_one(x, with_dist=True).sigma >= 0.0


@pytest.mark.parametrize("huge", [10**400, -(10**400)])
@pytest.mark.parametrize("setting", ["ridge", "half_life", "forgetting_factor"])
def test_settings_and_times_that_no_float_holds(huge, setting):
    with pytest.raises(ValueError, match="finite times"):
        LeastSquaresClassifier(half_life=3.0).learn_one({"a": 1}, 1, t=huge)
    with pytest.raises(ValueError, match=setting):
        LeastSquaresClassifier(**{setting: huge})


@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("size", [1, 50])
def test_an_outlier_that_came_first_is_forgotten(accumulator, size):
    X = np.random.default_rng(0).normal(size=(800, 2))
    y, w = X @ [1.0, 2.0] + np.sin(9.0 * X[:, 0]), 0.9 ** np.arange(799.0, -1.0, -1.0)
    model = LeastSquaresRegressor(1.0, accumulator, forgetting_factor=0.9)
    X[0], y[0], w[0] = 1e12, -1e9, 0.0
    for start in range(0, 800, size):
        model.learn_many(X[start : start + size], y[start : start + size])
    A, T, x_mean, y_mean = laws.weighted_centred(X, y[:, None], w, True)
    expected = np.linalg.solve(A.T @ A + np.eye(2), A.T @ T)
    np.testing.assert_allclose(model.output_weights, expected, rtol=1e-12)
    np.testing.assert_allclose(model.intercept, y_mean - x_mean @ expected, atol=1e-12)


def test_sums_that_would_leave_float64_are_refused():
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    model.learn_one({"a": 1e150}, "x")
    for _ in range(27):
        model.merge(copy.deepcopy(model))
    merge = functools.partial(model.merge, copy.deepcopy(model))
    laws.assert_refused(merge, model, "expected at most the largest float64")


FORMS = [kind for kind in models.MODELS if not re.search("windowed|several|pipeline|hidden", kind)]


@pytest.mark.parametrize("kind", FORMS)
def test_features_that_cannot_fit_are_refused_before_anything_changes(kind, room):
    room(1e12)
    model, wide = models.MODELS[kind](), dict.fromkeys(range(2000), 1.0)
    # The detector of a wrapper may hear of a row for which there is no room.
    inner = model.classifier if isinstance(model, DriftAwareClassifier) else model
    dump = laws.saved if isinstance(model, (StreamClassifier, StreamRegressor)) else pickle.dumps
    model.learn_many([{0: 1.0}, {0: 2.0}], [0, 1])
    model.predict_one({0: 1.0})
    room(1e6)
    message = r"2,00.*GiB of memory, expected at most .* FeatureHasher.*ONLINELS_MEMORY_LIMIT"
    for call in (
        lambda: model.learn_one(wide, 7),
        lambda: model.learn_many([wide, {0: 1.0}], [7, 0]),
    ):
        laws.assert_refused(call, inner, message, dump=dump)
    assert model.count == 2
    room(1e12)
    model.learn_one(dict.fromkeys(range(20), 1.0), 7)
    assert model.count == 3


def site(name):
    """Return a model of 200 features of its own."""
    names = ((name, number) for number in range(200))
    return laws.fitted(LeastSquaresClassifier(), [dict.fromkeys(names, 1.0)], ["a"])


IMAGE, WIDE = np.ones((1, 8, 8)), dict.fromkeys(range(100), 1.0)
TOO_LARGE = [
    (HiddenLayer(9), lambda _: HiddenLayer(10**6), "n_hidden=1,000,000 .* Pass a smaller n_hidden"),
    (HiddenLayer(10**4, bias=True), lambda layer: layer.transform_one(WIDE), "10,000 with 100 fea"),
    (site("north"), lambda north: north.merge(site("south")), "400 features with 1 targets"),
    *(
        (ConvolutionalFeatures(padding=each), lambda layer: layer.transform_many(IMAGE), message)
        for each, message in ((600, r"1,208 x 1,208 with padding"), (2**40, "Lower padding"))
    ),
]


@pytest.mark.parametrize(("model", "call", "message"), TOO_LARGE)
def test_what_cannot_fit_is_refused(room, model, call, message):
    room(1.5e6)
    laws.assert_refused(lambda: call(model), model, message)


def test_gaps_that_cannot_be_filled_are_refused(room):
    room(1e8)
    timed = {"timestamp": "t", "sample_rate": 20.0, "largest_gap": 1e12}
    model = WindowedClassifier(LeastSquaresClassifier(), window=4, hop=1, **timed)
    for number in range(4):
        model.learn_one({"t": number / 20, "a": 1.0}, "u")
    late = functools.partial(model.learn_one, {"t": 1e7, "a": 1.0}, "u")
    laws.assert_refused(late, model, r"A gap of 199,9\d\d,\d+ samples takes .*largest_gap")


@pytest.mark.parametrize(
    "model", the_rest_slow([LeastSquaresClassifier(), LeastSquaresRegressor()])
)
def test_rows_are_laid_out_only_if_their_statistics_have_room(model, room):
    room(1e8)
    rows = [{(row, number): 1.0 for number in range(20)} for row in range(400)]
    message = r"8,000 features with 1 targets takes .*GiB"
    learn = functools.partial(model.learn_many, rows, [1] * len(rows))  # As a matrix 25.6 MB.
    assert laws.peak_of(lambda: laws.assert_refused(learn, model, message)) < 1.6e7
    assert (model.count, model.feature_names) == (0, ())


@pytest.mark.parametrize("most", the_rest_slow([256, 4096]))
def test_streams_of_ever_new_features_are_refused_at_4096(most, monkeypatch):
    assert features.MAX_FEATURES == 4096
    monkeypatch.setattr(features, "MAX_FEATURES", most)
    model, n_new = StreamClassifier(), most * 2 // 5
    for start in range(0, 2 * n_new, n_new):
        model.learn_one({start + number: 1.0 for number in range(n_new)}, 0)
    message = rf"features to {3 * n_new}, expected at most {most}.*FeatureHasher"
    with pytest.raises(ValueError, match=message):
        model.learn_one({2 * n_new + number: 1.0 for number in range(n_new)}, 1)
    assert (model.count, model.classes) == (2, (0,))


def test_the_limit_may_be_set_and_is_none_if_the_system_tells_none(monkeypatch):
    limit = memory.memory_limit.__wrapped__
    for setting, expected in (("1e6", 1e6), ("123", 123.0)):
        monkeypatch.setenv("ONLINELS_MEMORY_LIMIT", setting)
        assert limit() == expected
    for setting in ("-1", "much"):
        monkeypatch.setenv("ONLINELS_MEMORY_LIMIT", setting)
        with pytest.raises(ValueError, match=r"ONLINELS_MEMORY_LIMIT=.* number of bytes"):
            limit()
    monkeypatch.setenv("ONLINELS_MEMORY_LIMIT", "")
    assert limit() > 1e6
    monkeypatch.delenv("ONLINELS_MEMORY_LIMIT")
    monkeypatch.delattr(memory.os, "sysconf", raising=False)
    assert limit() == float("inf")


@pytest.mark.parametrize(
    "accumulator", ["gram", "orthogonal", pytest.param("recursive", marks=pytest.mark.slow)]
)
def test_ten_thousand_classes(accumulator, room):
    """A dense one-hot of the batch would take 800 MB."""
    room(1e9)
    model = LeastSquaresClassifier(1.0, accumulator)
    X = np.random.default_rng(0).normal(size=(10_000, 4))
    assert laws.peak_of(lambda: model.learn_many(X, np.arange(10_000))) < 1e8
    assert len(model.classes) == 10_000
    probabilities = model.predict_proba_one(dict(enumerate(X[0].tolist())))
    assert sum(probabilities.values()) == pytest.approx(1.0)
    assert model.predict_many(X[:3]).shape == (3,)


def test_models_of_streams_are_not_calibrated_again():
    with pytest.raises(TypeError, match="A StreamClassifier calibrates itself"):
        CalibratedClassifier(StreamClassifier())


@pytest.mark.parametrize("n_pixels", [63, 65])
def test_rows_of_too_few_or_many_pixels_are_counted(n_pixels):
    model = models.digits_network(image_shape=(8, 8))
    with pytest.raises(ValueError, match=rf"row has {n_pixels} pixels, expected the 64 of"):
        model.learn_many(np.ones((2, n_pixels)), [0, 1])
    with pytest.raises(ValueError, match=r"Name pixels by position \(0 to 63\)"):
        model.learn_one(dict.fromkeys(range(65), 1.0), 0)
