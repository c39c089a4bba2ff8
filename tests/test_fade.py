"""Rows lose weight: the data decays, the ridge does not; as in a batch with decayed weights."""

import copy
import pickle
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor, dumps, loads
from support import laws, strategies
from support.strategies import kinds

# Rows keep weights of 1e-4 or more: what is fainter beside the others drowns at ridge 0.
factors = st.sampled_from([0.7, 0.9, 0.99, 0.999])
half_lives = st.sampled_from([4.0, 100.0])
DECAYS = st.one_of(
    st.builds(dict, half_life=half_lives), st.builds(dict, forgetting_factor=factors), st.just({})
)
COPIES = {
    "itself": lambda model: model,
    "copy": copy.copy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "file": lambda model: loads(dumps(model)),
}


def times_of(rows, first, last):
    """Return a strategy of a whole time for each row."""
    times = st.lists(st.integers(first, last), min_size=len(rows), max_size=len(rows))
    return times.map(np.array)


def change_decay(model, decay):
    """Let weights decay otherwise; what need not be reset on the way is not."""
    for name, none in (("half_life", None), ("forgetting_factor", 1.0)):
        if name not in decay:
            setattr(model, name, none)
    for name, value in decay.items():
        setattr(model, name, value)
        assert getattr(model, name) == value


def passed(w, now, first, times, n_rows, decay):
    """Let rows come from the first of them on; return the time of the last, if it is known."""
    for row in range(first, first + n_rows):
        if "half_life" not in decay:
            w[:row] *= decay.get("forgetting_factor", 1.0)
            continue
        # A row without a time lets one unit pass; before a first time, none is known.
        t = (now or 0) + 1 if times is None else times[row - first]
        before = now if now is not None else 0 if times is None else t
        now = max(before, t)
        w[:row] *= 0.5 ** ((now - before) / decay["half_life"])
        w[row] *= 0.5 ** ((now - t) / decay["half_life"])
    return now


@kinds
@strategies.examples(60)
@given(st.data())
def test_weights_decay_by_the_row_or_by_age_in_any_order(kind, data):
    """As settings say, which may change at any time. Copies go on by themselves.

    Weights are told one row after another, with times or without.
    """
    rows, make = data.draw(strategies.cases(kind))
    model, w, now, others = make(), rows.w.astype(float), None, []
    decay = data.draw(DECAYS)
    for batch in data.draw(strategies.splits(len(rows))):
        if data.draw(st.booleans()):
            decay = data.draw(DECAYS)
        change_decay(model, decay)
        now = now if "half_life" in decay else None
        part = rows.take(batch)
        times = data.draw(st.one_of(st.none(), times_of(part, -20, 20)))
        now = passed(w, now, batch.start, times, len(part), decay)
        made = COPIES[data.draw(st.sampled_from([*COPIES]))](model)
        others += [(model, copy.deepcopy(model))] if made is not model else []
        model = made
        if data.draw(st.integers(0, 3)):
            laws.learn_in_batches(model, part, data, ask=True, singly=True, times=times)
        else:
            model.predict_learn_many(part.X, part.y, part.w, t=times)
    laws.assert_is_batch_solution(model, rows.weighing(w))
    for other, as_it_was in others:
        laws.assert_same_model(other, as_it_was)


def by_row(*times):
    return np.concatenate([np.arange(len(each))[::-1] for each in times])


def by_time(*times):
    return np.max(np.concatenate(times)) - np.concatenate(times)


HALF_LIFE, FACTOR = {"half_life": 4.0}, {"forgetting_factor": 0.5**0.25}


@pytest.mark.parametrize(
    ("decay", "told", "ages_of"),
    [
        *((HALF_LIFE, told, by_time) for told in ([True, True], [True, False], [False, True])),
        (HALF_LIFE, [False, False], by_row),
        *((FACTOR, told, by_row) for told in ([True, True], [False, False])),
    ],
)
@given(st.data(), strategies.cases("labels", min_rows=2))
def test_merging_adds_statistics_as_they_stand_or_comes_to_one_time(
    decay, told, ages_of, data, case
):
    """Without times a half-life is a forgetting factor; rows count by time once any of them has.

    A model that is merged keeps its own time, also if the other one has none so far.
    """
    (rows, make), models, times = case, [], []
    first = data.draw(st.integers(1, len(rows) - 1))
    for is_told, part in zip(told, (range(first), range(first, len(rows))), strict=True):
        some = rows.take(part)
        times.append(data.draw(times_of(some, 0, 30)) if is_told else np.arange(1, len(some) + 1))
        t = times[-1] if is_told else None
        models.append(laws.fitted(make(**decay), some.X, some.y, some.w, t=t))
    known = rows.weighing(rows.w * 0.5 ** (ages_of(*times) / 4.0))
    for merged in (models[0] + models[1], models[1] + models[0]):
        laws.assert_is_batch_solution(merged, known)
    joined, again = models[1].empty() + models[0], copy.copy(models[0])
    before, later = dumps(models[0]), range(20, 20 + len(rows))
    for each in (joined, again):
        laws.fitted_by_row(each, rows.dicts(), rows.y, rows.w.tolist(), later)
    laws.assert_same_model(joined, again)
    assert dumps(models[0]) == before


def test_a_model_that_was_merged_counts_by_time_at_the_next_merge():
    """Also if the later clock was that of rows without times."""
    random = np.random.default_rng(0)
    rows, y = strategies.Rows(random.normal(size=(8, 2)), [], None).dicts(), random.normal(size=8)
    model, timed, late = (LeastSquaresRegressor(ridge=1.0, half_life=5.0) for _ in range(3))
    laws.fitted_by_row(model, rows[:6], y[:6])
    timed.learn_one(rows[6], y[6], t=4.0)
    late.learn_one(rows[7], y[7])
    model.merge(timed)
    model.merge(late)
    w = 0.5 ** (np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 2.0, 5.0]) / 5.0)
    laws.assert_same_model(model, laws.fitted(LeastSquaresRegressor(ridge=1.0), rows, y, w))


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
        ("forgetting_factor", 0.5, "both set"),
    ):
        laws.assert_refused(lambda n=name, v=value: setattr(model, n, v), model, message)
    model.mutate({"half_life": timedelta(days=4)})
    model.learn_one(x, 1.0, t=datetime(2026, 1, 7))
    assert model.statistics().weight == 1.75


@pytest.mark.parametrize(
    ("half_life", "time"),
    [
        (3.0, lambda k: None),
        (timedelta(hours=1), lambda k: datetime(2026, 3, 1) + timedelta(minutes=k)),
    ],
)
def test_a_question_may_come_between_a_new_half_life_and_a_row(half_life, time):
    """The ridge that it selects is in force in copies, too, and as long."""
    random, model = np.random.default_rng(0), LeastSquaresRegressor()
    rows = [{"a": a, "b": 10.0 * b} for a, b in random.random((60, 2)).tolist()]
    laws.fitted_by_row(model, rows[:30], random.random(30))
    model.half_life = half_life
    model.predict_one(rows[0])
    copies = [make(model) for make in COPIES.values()]
    for k, (x, y) in enumerate(zip(rows, random.random(60).tolist(), strict=True)):
        for each in copies:
            each.learn_one(x, y, t=time(k))
        assert len({(each.predict_one(rows[0]), each.ridge_) for each in copies}) == 1


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
    for late in ([], [({0: 5.0}, 1, 1.0, -1e9)]):
        for row in late:
            model.learn_one(*row)
        np.testing.assert_allclose(model.output_weights, fresh.output_weights, rtol=1e-10)
        np.testing.assert_allclose(model.intercept, fresh.intercept, atol=1e-10)


def test_times_that_leave_nothing_of_the_past_are_told():
    """A wrong date or unit, for example; late rows may be so late that they do not count."""
    model = LeastSquaresRegressor(1.0, half_life=60.0)
    for second in range(9):
        model.learn_one({"a": second % 3}, second, t=30.0 * second)
    with pytest.warns(UserWarning, match="t is so late .* 16,666,663 half-lives after"):
        model.learn_one({"a": 1.0}, 1.0, t=1e9)
    with pytest.warns(UserWarning, match="t is so early .* does not count.* half-lives before"):
        model.learn_one({"a": 1.0}, 1.0, t=300.0)
