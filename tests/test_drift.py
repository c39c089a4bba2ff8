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


@pytest.mark.parametrize("kind", ["labels", "numbers", "several numbers"])
@given(st.data(), st.sampled_from([0.9, 1.0]))
def test_faded_rows_weigh_less_and_the_ridge_stays(kind, data, factor):
    rows, make = data.draw(strategies.cases(kind))
    model, w = make(forgetting_factor=factor), rows.w.astype(float)
    for batch in data.draw(strategies.splits(len(rows))):
        laws.learn_in_batches(model, rows.take(batch), data, ask=True, singly=True)
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
    """Detectors hear of errors that are made before a row is learnt."""
    rows, make = case
    # The first row tells the detector nothing: there is no prediction.
    alarms = data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=3))
    model, plain, wrong = DriftAwareClassifier(make(), Scheduled(alarms), keep), make(), []
    for row, (x, y, w) in enumerate(zip(rows.dicts(), rows.y, rows.w.tolist(), strict=True)):
        if row:
            # At a tie rounding decides.
            is_tie = len(plain.classes) > 1 and plain.margin_one(x) < 1e-9
            wrong.append(None if is_tie else plain.predict_one(x) != y)
        if row in alarms:
            plain.fade(keep)
        plain.learn_one(x, y, w)
    laws.learn_in_batches(model, rows, data, ask=True, singly=True)
    heard = zip(model.detector.seen, wrong, strict=True)
    assert all(was_wrong in (None, told) for told, was_wrong in heard)
    assert model.n_alarms == len(alarms)
    empty = model.empty()
    assert (empty.count, empty.n_alarms, empty.classes) == (0, 0, ())
    after = np.array([sum(alarm > row for alarm in alarms) for row in range(len(rows))])
    if keep == 0.0:
        rows, after = rows.take(np.flatnonzero(after == 0)), 0
    laws.assert_is_batch_solution(model.classifier, rows.weighing(rows.w * keep**after))


DETECTORS = [
    drift.ADWIN(),
    drift.KSWIN(seed=1, alpha=1e-4),
    drift.PageHinkley(mode="up"),
    binary.DDM(),
    binary.EDDM(),
    binary.HDDMA(),
    binary.HDDMW(),
]


@pytest.mark.parametrize("detector", the_rest_slow(DETECTORS), ids=lambda d: type(d).__name__)
@pytest.mark.parametrize(("keep", "at_least"), [(0.0, 0.8), (0.02, 0.75)])
def test_recovers_from_a_change_before_which_nothing_is_lost(detector, keep, at_least):
    X, y = strategies.turned_labels(1200, 600, seed=0)
    model = DriftAwareClassifier(LeastSquaresClassifier(1.0), detector.clone(), keep)
    right = model.predict_learn_many(X, y) == np.array(y)
    assert model.n_alarms >= 1
    assert right[:600].mean() > 0.925
    assert right[700:].mean() > at_least


def test_an_error_that_falls_is_no_reason_to_forget():
    mine, detector, told, heard = drift.ADWIN(), drift.ADWIN(), [], []
    for wrong in [True] * 300 + [False] * 300 + [True] * 100:
        told.append(alarms(mine, wrong))
        detector.update(float(wrong))
        heard.append(detector.drift_detected)
    assert any(heard[:600])
    assert sum(told) == sum(heard[600:]) >= 1


@laws.BAD_ROWS
@pytest.mark.parametrize(
    "wrap",
    [
        CalibratedClassifier,
        lambda model: DriftAwareClassifier(model, drift.ADWIN(), keep=0.5),
        # Alarms at the very row that is refused.
        lambda model: DriftAwareClassifier(model, Scheduled({9, 10}), keep=0.5),
    ],
)
def test_bad_input_changes_nothing(wrap, x, y, w):
    model = wrap(LeastSquaresClassifier())
    laws.fitted_by_row(model, [{"a": k % 4} for k in range(9)], ["no", "yes"] * 4 + ["no"])
    # What is solved when it is first asked for is kept.
    model.predict_many([{"a": 1.0}])
    for call in (
        lambda: model.learn_one(x, y, w=w),
        lambda: model.learn_many([{"a": 1.0}, x], ["no", y], [1.0, w]),
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
