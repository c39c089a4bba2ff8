"""Forgetting: the data decays, the ridge does not; equal to the batch with decayed weights."""

import copy
import pickle
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from unittest import mock
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor, dumps, loads
from onlinels.linear import prequential
from support import laws, strategies
from support.strategies import kinds

# Rows keep weights of 1e-4 or more: what is fainter beside the others drowns at ridge 0.
factors = st.sampled_from([0.7, 0.9, 0.99, 0.999])
half_lives = st.sampled_from([4.0, 100.0])


def times_of(rows, first, last):
    """Return a strategy of a whole time for each row."""
    times = st.lists(st.integers(first, last), min_size=len(rows), max_size=len(rows))
    return times.map(np.array)


@kinds
@given(st.data(), factors)
def test_weights_decay_by_one_step_per_row(kind, data, factor):
    rows, make = data.draw(strategies.cases(kind))
    model = make(forgetting_factor=factor)
    laws.learn_in_batches(model, rows, data, ask=True, singly=True)
    decayed = rows.w * factor ** np.arange(len(rows) - 1.0, -1.0, -1.0)
    laws.assert_is_batch_solution(model, rows.weighing(decayed))
    if decayed.any():
        mean_weight = (decayed**2).sum() / decayed.sum()
        assert model._state.statistics.mean_weight == pytest.approx(mean_weight)


@pytest.mark.parametrize("kind", ["labels", "numbers", "several numbers"])
@given(st.data(), half_lives)
def test_weights_decay_by_age_in_any_order(kind, data, half_life):
    rows, make = data.draw(strategies.cases(kind))
    times, model = data.draw(times_of(rows, -20, 20)), make(half_life=half_life)
    laws.learn_in_batches(model, rows, data, singly=True, times=times)
    age = times.max() - times
    laws.assert_is_batch_solution(model, rows.weighing(rows.w * 0.5 ** (age / half_life)))


DECAYS = st.one_of(
    st.builds(dict, half_life=half_lives), st.builds(dict, forgetting_factor=factors), st.just({})
)


def change_decay(model, decay):
    """Let weights decay otherwise; what need not be reset on the way is not."""
    for name, none in (("half_life", None), ("forgetting_factor", 1.0)):
        if name not in decay:
            setattr(model, name, none)
    for name, value in decay.items():
        setattr(model, name, value)
        assert getattr(model, name) == value


@kinds
@given(st.data())
def test_a_living_model_can_forget_otherwise_from_now_on(kind, data):
    """Weights are told one row after another, with times or without, from one change to another."""
    rows, make = data.draw(strategies.cases(kind))
    model, w, now = make(), rows.w.astype(float), None
    for batch in data.draw(strategies.splits(len(rows))):
        decay = data.draw(DECAYS)
        change_decay(model, decay)
        now = now if "half_life" in decay else None
        part, times = rows.take(batch), None
        if data.draw(st.booleans()):
            times = data.draw(times_of(part, -20, 20))
        for k, row in enumerate(range(batch.start, batch.stop)):
            if "half_life" not in decay:
                w[:row] *= decay.get("forgetting_factor", 1.0)
                continue
            # A row without a time lets one unit pass; before a first time, none is known.
            t = (now or 0) + 1 if times is None else times[k]
            before = now if now is not None else 0 if times is None else t
            now = max(before, t)
            w[:row] *= 0.5 ** ((now - before) / decay["half_life"])
            w[row] *= 0.5 ** ((now - t) / decay["half_life"])
        laws.learn_in_batches(model, part, data, ask=True, singly=True, times=times)
    laws.assert_is_batch_solution(model, rows.weighing(w))


@pytest.mark.parametrize("half_life", [1.0, 20.0])
@pytest.mark.parametrize("t", [None, -5.0, 1.7e9])
def test_the_first_row_after_a_new_half_life_lets_one_unit_pass_or_starts_the_time(half_life, t):
    """Row by row, in a batch, in a forecast, in a file, and as a forgetting factor does."""
    models = [LeastSquaresRegressor(1.0) for _ in range(5)]
    rows = np.random.default_rng(0).normal(size=(22, 3))
    x, y, times = [*map(dict, map(enumerate, rows))], rows.sum(axis=1), None
    for model in models:
        model.learn_many(rows[:20], y[:20])
        model.half_life = half_life
    factor = 0.5 ** (1.0 / half_life)
    models[3] = loads(dumps(models[3]))
    if t is None:
        models[4].half_life, models[4].forgetting_factor = None, factor
    else:
        times = [t, t + 1.0]
    for model in models[3:]:
        for k in (20, 21):
            model.learn_one(x[k], y[k], t=None if t is None else t + k - 20)
    models[0].learn_many(rows[20:], y[20:], t=times)
    models[1].learn_many(x[20:], y[20:], t=times)
    models[2].predict_learn_many(rows[20:], y[20:], t=times)
    w = np.append(np.full(20, factor ** (2 if t is None else 1)), [factor, 1.0])
    for model in models:
        assert model.statistics().weight == pytest.approx(w.sum(), rel=1e-14)
        laws.assert_same_model(model, models[0])


@pytest.mark.parametrize("half_life", [3.0, 40.0, timedelta(hours=1)])
@pytest.mark.parametrize("times_ten", [1.0, 10.0])
def test_a_question_may_come_between_a_new_half_life_and_a_row(half_life, times_ten):
    """The ridge that it selects is in force in copies, too, and as long."""
    rng = np.random.default_rng(0)
    model = LeastSquaresRegressor()
    rows = [{"a": a, "b": times_ten * b} for a, b in rng.random((60, 2)).tolist()]
    for x in rows[:30]:
        model.learn_one(x, x["a"] + rng.random())
    model.half_life = half_life
    model.predict_one(rows[0])
    copies = model, copy.copy(model), pickle.loads(pickle.dumps(model)), loads(dumps(model))
    start = datetime(2026, 3, 1)
    for k, (x, noise) in enumerate(zip(rows, rng.random(60).tolist(), strict=True)):
        t = start + timedelta(minutes=k) if isinstance(half_life, timedelta) else None
        for each in copies:
            each.learn_one(x, x["a"] + noise, t=t)
        assert len({each.predict_one(rows[0]) for each in copies}) == 1
        assert len({each.ridge_ for each in copies}) == 1


def test_a_half_life_changes_within_its_kind_of_times():
    model, x = LeastSquaresRegressor(1.0, half_life=timedelta(days=1)), {"a": 1.0}
    model.half_life = 2.0  # Nothing is learnt yet.
    model.half_life = timedelta(days=1)
    model.learn_one(x, 1.0, t=datetime(2026, 1, 1))
    model.half_life = timedelta(days=2)
    model.learn_one(x, 1.0, t=datetime(2026, 1, 3))
    assert model.statistics().weight == 1.5
    for name, value, message in (
        ("half_life", 3.0, "half_life is 3.0, expected a duration"),
        ("half_life", -1.0, "half_life"),
        ("forgetting_factor", 0.5, "both set"),
        ("forgetting_factor", 1.5, "forgetting_factor=1.5"),
    ):
        laws.assert_refused(lambda n=name, v=value: setattr(model, n, v), model, message)
    model.mutate({"half_life": timedelta(days=4)})
    model.learn_one(x, 1.0, t=datetime(2026, 1, 7))
    assert model.statistics().weight == 1.75


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("decay", [{"half_life": 4.0}, {"forgetting_factor": 0.5**0.25}], ids=str)
@given(st.data(), strategies.cases("labels", min_rows=2))
def test_merging_adds_statistics_as_they_stand_or_comes_to_one_time(timed, decay, data, case):
    """Without times a half-life is a forgetting factor, to which no time matters."""
    rows, make = case
    first, models = data.draw(st.integers(1, len(rows) - 1)), []
    times = data.draw(times_of(rows, 0, 30)) if timed else None
    for part in (slice(0, first), slice(first, None)):
        models.append(make(**decay))
        t = times[part] if timed else None
        models[-1].learn_many(rows.X[part], rows.y[part], rows.w[part], t)
    if timed and "half_life" in decay:
        w = rows.w * 0.5 ** ((times.max() - times) / 4.0)
    else:
        steps = [np.arange(n - 1.0, -1.0, -1.0) for n in (first, len(rows) - first)]
        w = rows.w * 0.5 ** (np.concatenate(steps) / 4.0)
    for merged in (models[0] + models[1], models[1] + models[0]):
        laws.assert_is_batch_solution(merged, rows.weighing(w))
    laws.assert_same_model(models[1].empty() + models[0], models[0])


@pytest.mark.filterwarnings("ignore:t is")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_what_has_decayed_to_nothing_is_nothing(fit_intercept):
    """An age of 10,000 half-lives underflows; the rows after it count alone, with all digits."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(20, 3)), (np.arange(20) % 2).tolist()
    model = LeastSquaresClassifier(ridge=0.1, half_life=1.0, fit_intercept=fit_intercept)
    model.learn_many(X + 1e6, y, t=0.0)
    model.learn_many(X, y, t=1e4)
    fresh = laws.fitted(LeastSquaresClassifier(ridge=0.1, fit_intercept=fit_intercept), X, y)
    np.testing.assert_allclose(model.output_weights, fresh.output_weights, rtol=1e-10)
    np.testing.assert_allclose(model.intercept, fresh.intercept, atol=1e-10)
    model.learn_one({0: 5.0}, 1, t=-1e9)
    np.testing.assert_allclose(model.output_weights, fresh.output_weights, rtol=1e-10)


DAYS = [datetime(2026, 3, 1, 12), datetime(2026, 3, 2, 12), datetime(2026, 3, 2, 0)]


@pytest.mark.parametrize(
    "form",
    [list, np.array, pd.Series, pl.Series, lambda days: [day.replace(tzinfo=UTC) for day in days]],
)
@pytest.mark.parametrize("singly", [False, True])
def test_dates_of_any_kind(form, singly):
    model = LeastSquaresClassifier(ridge=1.0, half_life=timedelta(hours=12))
    expected = LeastSquaresClassifier(ridge=1.0)
    rows, labels = [{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], ["x", "y", "x"]
    expected.learn_many(rows, labels, [0.25, 1.0, 0.5])
    t = form(DAYS)
    if singly:
        for x, label, each in zip(rows, labels, t, strict=True):
            model.learn_one(x, label, t=each)
    else:
        model.learn_many(rows, labels, t=t)
    np.testing.assert_allclose(model.output_weights, expected.output_weights)
    with pytest.raises(ValueError, match="t is None"):
        model.learn_one({"a": 1.0}, "x")
    assert model.count == 3


@given(st.data(), strategies.rows(whole=True), st.sampled_from([0.5, 0.9]), st.booleans())
def test_a_ridge_that_fades_does_not_depend_on_how_rows_are_cut(data, rows, factor, intercept):
    whole = LeastSquaresClassifier(1.0, "recursive", intercept, forgetting_factor=factor)
    cut = laws.learn_in_batches(whole.empty(), rows, data)
    whole.learn_many(rows.X, rows.y, rows.w)
    assert (cut.ridge_diagonal == whole.ridge_diagonal).all()
    np.testing.assert_allclose(cut.output_weights, whole.output_weights, atol=1e-9)


@pytest.mark.parametrize(
    ("half_life", "n_rows", "t", "error", "message"),
    [
        (1.0, 2, [1.0], ValueError, r"t has shape \(1,\)"),
        (1.0, 2, [1.0, np.nan], ValueError, "t holds nan"),
        (1.0, 1, np.inf, ValueError, "t holds inf"),
        (1.0, 1, np.ma.masked, ValueError, "t holds masked times"),
        (1.0, 1, np.ma.array([1.0], mask=[True]), ValueError, "t holds masked times"),
        (1.0, 1, "noon", TypeError, "'noon'"),
        (1.0, 1, True, TypeError, "True"),
        (1.0, 1, datetime(2026, 1, 1), TypeError, "expected numbers"),
        (timedelta(1), 1, 5.0, TypeError, "expected dates"),
        (timedelta(1), 1, None, ValueError, "t is None, expected dates"),
        (timedelta(1), 1, pd.NaT, ValueError, "t holds NaT"),
    ],
)
def test_bad_times(half_life, n_rows, t, error, message):
    model = LeastSquaresClassifier(half_life=half_life)
    with pytest.raises(error, match=message):
        model.learn_many([{"a": 1.0}] * n_rows, ["x"] * n_rows, t=t)
    assert (model.count, model.feature_names) == (0, ())


def test_merged_rows_count_by_time_once_any_of_them_has():
    """The later clock may be that of rows without times."""
    random = np.random.default_rng(0)
    rows, y = strategies.Rows(random.normal(size=(8, 2)), [], None).dicts(), random.normal(size=8)
    model, timed, late = (LeastSquaresRegressor(ridge=1.0, half_life=5.0) for _ in range(3))
    laws.fitted_by_row(model, rows[:6], y[:6])
    timed.learn_one(rows[6], y[6], t=4.0)
    late.learn_one(rows[7], y[7])
    model.merge(timed)
    model.merge(late)
    w = 0.5 ** (np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 2.0, 5.0]) / 5.0)
    batch = laws.fitted(LeastSquaresRegressor(ridge=1.0), rows, y, w)
    np.testing.assert_allclose(model.output_weights, batch.output_weights, rtol=1e-9)
    np.testing.assert_allclose(model.intercept, batch.intercept, rtol=1e-9)


@pytest.mark.parametrize("step", [0.0, 1.0, 1e9])
@pytest.mark.filterwarnings("ignore:t is")
def test_times_that_float64_hardly_resolves_are_learnt_row_by_row_as_in_a_batch(step):
    times = 1.7e18 + step * np.arange(30.0)
    X = np.random.default_rng(0).normal(size=(30, 2))
    batch, singly = (LeastSquaresRegressor("auto", half_life=1.0) for _ in range(2))
    batch.learn_many(X, X[:, 0], t=times)
    for row, t in zip(X.tolist(), times.tolist(), strict=True):
        singly.learn_one(dict(enumerate(row)), row[0], t=t)
    np.testing.assert_allclose(singly.output_weights, batch.output_weights, atol=1e-12)
    assert singly.ridge_ == batch.ridge_


@pytest.mark.parametrize(("n_features", "factor"), [(50, 0.97), (50, 0.9), (20, 0.95), (20, 0.99)])
def test_the_selected_ridge_is_nearly_the_best_where_memory_is_short(n_features, factor):
    """Squared error beside that at the best ridge in hindsight, over eight streams."""
    shares = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        X, fresh = (random.normal(size=(n_rows, n_features)) for n_rows in (400, 500))
        weights = random.normal(size=n_features)
        y, errors = X @ weights + random.normal(size=400), []
        for ridge in ("auto", *10.0 ** np.arange(-3.0, 4.0, 0.5)):
            model = laws.fitted(LeastSquaresRegressor(ridge, forgetting_factor=factor), X, y)
            errors.append(((model.predict_many(fresh) - fresh @ weights) ** 2).mean())
        shares.append(errors[0] / min(errors[1:]))
    assert np.exp(np.log(shares).mean()) < 1.3
    assert max(shares) < 2.0


@pytest.mark.parametrize(("n_features", "factor"), [(5, 0.99), (50, 0.97), (50, 0.9), (20, 0.9)])
def test_intervals_cover_what_they_say_where_memory_is_short(n_features, factor):
    covered, widths = [], []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X = random.normal(size=(900, n_features))
        y = X @ random.normal(size=n_features) / n_features**0.5 + 0.7 * random.normal(size=900)
        model = laws.fitted(LeastSquaresRegressor(forgetting_factor=factor), X[:600], y[:600])
        lower, upper = model.predict_interval_many(X[600:], level=0.9)
        errors = model.predict_many(X[600:]) - y[600:]
        covered.append(((lower <= y[600:]) & (y[600:] <= upper)).mean())
        widths.append((upper - lower).mean() / (2.0 * 1.645 * np.sqrt((errors**2).mean())))
    assert 0.84 < np.mean(covered) < 0.94
    assert 0.9 < np.mean(widths) < 1.15


def test_times_that_leave_nothing_of_the_past_are_told():
    """A wrong date or unit, for example; late rows may be so late that they do not count."""
    model = LeastSquaresRegressor(1.0, half_life=60.0)
    for second in range(9):
        model.learn_one({"a": second % 3}, second, t=30.0 * second)
    with pytest.warns(UserWarning, match="t is so late .* 16,666,663 half-lives after"):
        model.learn_one({"a": 1.0}, 1.0, t=1e9)
    with pytest.warns(UserWarning, match="t is so early .* does not count.* half-lives before"):
        model.learn_one({"a": 1.0}, 1.0, t=300.0)


NUMBERS = {
    "counted": lambda step: None,
    "float": lambda step: 0.5 * step,
    "int": int,
    "numpy": lambda step: np.float64(0.25 * step),
    "numpy int": np.int64,
    "fraction": lambda step: Fraction(int(step), 3),
    "beyond float64": lambda step: 2**53 + int(step),
}
"""Times as numbers, by a number of steps that pass."""


def moment(step):
    return datetime(2026, 3, 29) + timedelta(minutes=10 * step, microseconds=step)


DATES = {
    "naive": moment,
    "aware": lambda step: moment(step).replace(tzinfo=UTC),
    "in a zone": lambda step: moment(step).replace(tzinfo=ZoneInfo("Europe/Berlin")),
    "numpy": lambda step: np.datetime64(moment(step), "ns") + np.timedelta64(step, "ns"),
    "pandas": lambda step: pd.Timestamp(moment(step), tz="Asia/Kolkata"),
    "a day": lambda step: moment(step).date(),
    "picoseconds": lambda step: np.datetime64(int(step) * 10**15 + 7, "ps"),
}
"""Dates, by a number of steps that pass: some of them far apart."""

COPIES = {
    "copy": copy.copy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "file": lambda model: loads(dumps(model)),
}


def taught_twice(models, row, w, t):
    """Let models learn a row twice in a batch."""
    for model in models:
        model.learn_many([row[0]] * 2, [row[1]] * 2, [w] * 2, t)


def taught_arrays(models, row, w, t):
    """Let models learn four rows: an array, and dicts."""
    X = np.outer([1.0, -2.0, 0.5, 1.0], [*row[0].values()]) + np.eye(4, 3)
    steps, forms = [0, 2, -1, 1], [None, None]
    if isinstance(t, (int, float)) and abs(t) < 2**50:
        forms = np.array([float(t + step) for step in steps]), [t + step for step in steps]
    elif type(t) is datetime and t.tzinfo is None:
        dates = [t + timedelta(minutes=step) for step in steps]
        forms = np.array(dates, "datetime64[us]"), dates
    elif t is not None:
        forms = [t] * 4, [t] * 4
    for model, rows, each in zip(
        models, (X, [dict(enumerate(x)) for x in X.tolist()]), forms, strict=True
    ):
        model.learn_many(rows, X @ [1.0, 2.0, 3.0] + w, t=each)


def forecasting(models, row, w, t):
    """Predict rows, then learn them: by the core, and by other code. What fails moves nothing."""
    t = None if t is None else [t] * 2
    failing = mock.patch.object(prequential, "known_before", side_effect=MemoryError)
    with failing, suppress(MemoryError):
        models[0].predict_learn_many([row[0]] * 2, [row[1]] * 2, [w] * 2, t)
    models[0].predict_learn_many([row[0]] * 2, [row[1]] * 2, [w] * 2, t)
    with mock.patch.object(prequential, "IN_USE", "reference"):
        models[1].predict_learn_many([row[0]] * 2, [row[1]] * 2, [w] * 2, t)


def merging(models, row, w, t):
    """Let models merge others, which are returned."""
    others = [models[0].empty() for _ in models]
    for model, other in zip(models, others, strict=True):
        other.learn_one(*row, w, t)
        other.learn_one(*row, w, t)
        model.merge(other)
    return others


def unlearning(models, row, w, t):
    """Let models take out what is no row, if they hold anything like it."""
    for model in models:
        with suppress(ValueError):
            model.unlearn_one(*row, 0.0)


def fading(models, row, w, t):
    for model in models:
        model.fade(0.75)


def asking(models, row, w, t):
    assert models[0].predict_one(row[0]) == pytest.approx(models[1].predict_one(row[0]), abs=1e-7)


def row_by_row(models, row, w, t):
    """Let the core learn a row, if it can, and other code the single row of a batch."""
    models[0].learn_one(*row, w, t)
    models[1].learn_many([row[0]], [row[1]], [w], None if t is None else [t])


WEIGHTS = [1.0, 1.0, 0.5, 3.0, 0.0]
CHANGES = [row_by_row] * 5 + [
    merging,
    unlearning,
    fading,
    asking,
    forecasting,
    taught_twice,
    taught_arrays,
    taught_arrays,
    *COPIES,
]


@pytest.mark.filterwarnings("ignore:t is")
@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
@pytest.mark.parametrize("kinds_of_time", [NUMBERS, DATES], ids=["numbers", "dates"])
@strategies.examples(30)
@given(st.data(), st.sampled_from([1.0, "auto"]), st.booleans())
def test_single_rows_pass_the_time_that_a_clock_passes(
    accumulator, kinds_of_time, data, ridge, intercept
):
    """Copies, files, merges, removals and faded rows leave no clock behind, and move no other."""
    half_life = 6.0 if kinds_of_time is NUMBERS else timedelta(hours=1)
    settings = {"accumulator": accumulator, "fit_intercept": intercept, "half_life": half_life}
    models = [LeastSquaresRegressor(ridge, **settings) for _ in range(2)]
    random, before = np.random.default_rng(data.draw(st.integers(0, 99))), []
    for step in range(data.draw(st.integers(10, 40))):
        row = dict(enumerate(random.normal(size=3).tolist())), random.normal()
        kinds = sorted(kinds_of_time) if data.draw(st.integers(0, 5)) == 0 else [*kinds_of_time][:3]
        kind = data.draw(st.sampled_from(kinds))
        t = kinds_of_time[kind](step - data.draw(st.sampled_from([0, 0, 0, 1, 5])))
        w, change = (data.draw(st.sampled_from(each)) for each in (WEIGHTS, CHANGES))
        if change in COPIES:
            before.append((models[0], copy.deepcopy(models[0])))
            models[0] = COPIES[change](models[0])
        else:
            others = change(models, row, w, t) or ()
            before += [(other, copy.deepcopy(other)) for other in others]
        assert models[0]._state.clock == models[1]._state.clock
    laws.assert_same_model(*models)
    for model, as_it_was in before:
        assert model._state.clock == as_it_was._state.clock
        laws.assert_same_model(model, as_it_was)
