"""A past that fades: exactly, on demand or when a drift detector alarms."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, linear_model, preprocessing
from river.drift import binary

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
)
from onlinels.meta import alarms
from support import laws, strategies
from support.models import Scheduled
from support.slow import the_rest_slow

shares = st.sampled_from([0.1, 0.3, 0.5, 0.75, 0.99, 1.0])


def learn(data, model, part):
    """Learn rows one by one or as a batch, and perhaps look at the result."""
    if data.draw(st.booleans()):
        laws.fitted_by_row(model, part.dicts(), part.y, part.w.tolist())
    else:
        model.learn_many(part.X, part.y, part.w)
    if data.draw(st.booleans()):
        model.predict_many(part.X)


@pytest.mark.parametrize("kind", ["labels", "numbers", "several numbers"])
@given(st.data(), st.sampled_from([0.9, 1.0]))
def test_faded_rows_weigh_less_and_the_ridge_stays(kind, data, factor):
    rows, make = data.draw(strategies.cases(kind))
    model, w = make(forgetting_factor=factor), rows.w.astype(float)
    for batch in data.draw(strategies.splits(len(rows))):
        learn(data, model, rows.take(batch))
        w[: batch.start] *= factor ** len(batch)
        w[batch] *= factor ** np.arange(len(batch) - 1.0, -1.0, -1.0)
        if data.draw(st.booleans()) and w[: batch.stop].any():
            keep = min(1.0, max(data.draw(shares), 1e-4 / w[w > 0.0].min()))
            # Or together as much as so many rows.
            how = {"rows": keep * w[: batch.stop].sum()} if data.draw(st.booleans()) else {}
            model.fade(**how or {"keep": keep})
            w[: batch.stop] *= keep
            if keep < 1.0 and model.scaling is None:
                assert (model.ridge_diagonal == model.ridge_).all()
    laws.assert_is_batch_solution(model, rows.weighing(w))


@strategies.kinds
@given(st.data())
def test_nothing_kept_is_an_empty_model(kind, data):
    rows, make = data.draw(strategies.cases(kind))
    model = laws.fitted(make(half_life=3.0), rows.X, rows.y, rows.w, t=5.0)
    model.fade(0)
    fresh = model.empty()
    assert pickle.dumps(model) == pickle.dumps(fresh)
    # Times may start again.
    for each in (model, fresh):
        each.learn_many(rows.X, rows.y, rows.w, t=1.0)
    assert pickle.dumps(model) == pickle.dumps(fresh)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), float("inf"), "half", None, True])
def test_what_is_no_share_and_no_number_of_rows_changes_nothing(value):
    model, errors = LeastSquaresClassifier(), (TypeError, ValueError)
    model.learn_one({"x": 2.0}, "yes")
    for call in (lambda: model.fade(value), lambda: DriftAwareClassifier(model, keep=value)):
        laws.assert_refused(call, model, r"^keep=", errors)
    rows = {1.5: 0.0, None: -1.0}.get(value, value)
    laws.assert_refused(lambda: model.fade(rows=rows), model, "^rows=", errors)
    laws.assert_refused(lambda: model.fade(0.5, rows=1), model, "keep=0.5 and rows=1")


@given(
    st.data(), strategies.cases("labels", min_rows=2), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
)
def test_alarms_weaken_the_rows_before(data, case, keep):
    rows, make = case
    # The first row tells the detector nothing: there is no prediction.
    alarms = data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=3))
    model = DriftAwareClassifier(make(), Scheduled(alarms), keep)
    for batch in data.draw(strategies.splits(len(rows))):
        learn(data, model, rows.take(batch))
    assert model.n_alarms == len(alarms)
    empty = model.empty()
    assert (empty.count, empty.n_alarms, empty.classes) == (0, 0, ())
    after = np.array([sum(alarm > row for alarm in alarms) for row in range(len(rows))])
    if keep == 0.0:
        rows, after = rows.take(np.flatnonzero(after == 0)), 0
    laws.assert_is_batch_solution(model.classifier, rows.weighing(rows.w * keep**after))


@given(strategies.cases("labels", min_rows=2), st.data())
def test_the_detector_hears_of_errors_made_before_learning(case, data):
    rows, make = case
    model, plain, errors = DriftAwareClassifier(make(), Scheduled()), make(), []
    for x, y in zip(rows.dicts(), rows.y, strict=True):
        if plain.classes:
            errors.append(float(plain.predict_one(x) != y))
            # At a tie rounding decides.
            if len(plain.classes) > 1 and plain.margin_one(x) < 1e-9:
                errors[-1] = None
        plain.learn_one(x, y)
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        model.learn_many(part.dicts(), part.y)
    for seen, error in zip(model.detector.seen, errors, strict=True):
        assert error is None or seen == error


def changing(n_rows=1200):
    """Return a stream whose classes swap halfway."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 6)).round(3)
    y = (X @ random.normal(size=6) > 0.0) ^ (np.arange(n_rows) >= n_rows // 2)
    return X, y.tolist()


DETECTORS = [
    drift.ADWIN(),
    drift.KSWIN(seed=1, alpha=1e-4),
    drift.PageHinkley(mode="up"),
    binary.DDM(),
    binary.EDDM(),
    binary.HDDMA(),
    binary.HDDMW(),
]


def hits(model, X, y):
    """Return whether each row was predicted right before it was learnt."""
    right = []
    for x, label in zip(strategies.Rows(X, y, None).dicts(), y, strict=True):
        right.append(model.predict_one(x) == label)
        model.learn_one(x, label)
    return np.array(right)


@pytest.mark.parametrize(
    "detector",
    the_rest_slow(DETECTORS),
    ids=lambda d: type(d).__name__,
)
def test_recovers_faster_than_the_plain_model(detector):
    X, y = changing()
    plain = hits(LeastSquaresClassifier(ridge=1.0), X, y)
    for keep, at_least in ((0.0, 0.8), (0.02, 0.75)):
        model = DriftAwareClassifier(LeastSquaresClassifier(ridge=1.0), detector.clone(), keep)
        right = hits(model, X, y)
        assert model.n_alarms >= 1
        assert plain[700:].mean() < 0.5
        assert right[700:].mean() > at_least
        # Before the change nothing is lost.
        assert right[:600].mean() > plain[:600].mean() - 0.05


def test_an_error_that_falls_is_no_reason_to_forget():
    model, detector = DriftAwareClassifier(LeastSquaresClassifier(), drift.ADWIN()), drift.ADWIN()
    heard = []
    for wrong in [True] * 300 + [False] * 300 + [True] * 100:
        model._n_alarms += alarms(model.detector, wrong)
        detector.update(float(wrong))
        heard.append(detector.drift_detected)
    assert any(heard[:600])
    assert model.n_alarms == sum(heard[600:]) >= 1


@laws.BAD_ROWS
def test_bad_input_changes_nothing(x, y, w):
    for model in (
        CalibratedClassifier(LeastSquaresClassifier()),
        # Alarms at the very row that is refused.
        *(
            DriftAwareClassifier(LeastSquaresClassifier(), detector, keep=0.5)
            for detector in (Scheduled({9, 10}), drift.ADWIN())
        ),
    ):
        for k in range(9):
            model.learn_one({"a": k % 4}, "yes" if k % 2 else "no")
        # What is solved when it is first asked for is kept.
        model.predict_many([{"a": 1.0}])
        for call in (
            lambda m=model: m.learn_one(x, y, w=w),
            lambda m=model: m.learn_many([{"a": 1.0}, x], ["no", y], [1.0, w]),
        ):
            laws.assert_refused(call, model, None, (TypeError, ValueError))


@pytest.mark.parametrize("detector", [drift.ADWIN(), Scheduled({3, 6})])
def test_what_was_passed_in_stays_the_wrapped_one_and_as_it_was(detector):
    scaler, linear = preprocessing.StandardScaler(), LeastSquaresClassifier(1.0)
    pipeline = scaler | linear
    model = DriftAwareClassifier(pipeline, detector, keep=0.5)
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], [0, 1, 0])
    counts, weights = dict(scaler.counts), linear.output_weights.copy()
    refused = [{"a": k} for k in (3.0, 5.0, 2.0, 1.0, float("nan"))]
    with pytest.raises(ValueError, match="nan"):
        model.learn_many(refused, [0, 1, 1, 1, 0])
    assert model.classifier is pipeline
    assert (pipeline[0], pipeline[-1], model.detector) == (scaler, linear, detector)
    assert (model.count, linear.count, scaler.counts, model.n_alarms) == (3, 3, counts, 0)
    assert (linear.output_weights == weights).all()
    model.learn_one({"a": 3.0}, 1)
    assert (linear.count, scaler.counts["a"]) == (4, counts["a"] + 1)


def test_what_cannot_be_wrapped():
    others = None, linear_model.LogisticRegression(), LeastSquaresRegressor(), HiddenLayer(2)
    for wrap, wrong in itertools.product((DriftAwareClassifier, CalibratedClassifier), others):
        with pytest.raises(TypeError, match="expected a LeastSquaresClassifier"):
            wrap(wrong)
    for wrong in ("ADWIN", drift.ADWIN, 0.5):
        with pytest.raises(TypeError, match="expected a drift detector"):
            DriftAwareClassifier(LeastSquaresClassifier(), wrong)
    with pytest.raises(TypeError, match="X is of type int"):
        DriftAwareClassifier(LeastSquaresClassifier()).learn_many(3, [1])
