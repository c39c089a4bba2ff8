"""Any calls in any order: after every one of them the model is the batch solution on what is in.

The model of truth is a plain list of rows with the weights that they have now.
"""

import copy
import pickle
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from support import laws, strategies

KINDS = [LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor]
LABELS = ["cat", "dog", 3, (None,), ("a", 1), "late", "later", "latest"]
TARGETS = ["up", "down", 7]
ENTRIES = {("v", 0), ("v", 1)}
"""Names that are also the entries of an array."""
NUMBERS = [1e-8, 1e-3, 1.0, 30.0]
MOST_ROWS = 150
SEEDS = st.integers(0, 2**32 - 1)


@dataclass
class Row:
    """A row, its weight as it counts now, and whether all of it is in."""

    x: dict[Any, float]
    y: Any
    w: float
    whole: bool = True


@dataclass
class Truth:
    """What a model should know: the rows that are in."""

    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    names: set[Any] = field(default_factory=set)
    now: float | None = None
    timed: bool = False
    """Whether rows came with times: counted in rows, statistics join as they stand."""
    has_arrays: bool = False
    """Whether entries of an array have come as one: as names of their own, they leave alone."""
    moved: float = 0.0
    """Sum of squares that rounding errors are relative to, beside that of the rows."""

    @property
    def count(self):
        """Rows of which nothing was taken out."""
        return sum(row.whole for row in self.rows)

    def learn(self, rows, times):
        for row, t in zip(rows, times, strict=True):
            past, share = self._pass_time(t)
            self._decay(past)
            self.rows.append(replace(row, w=row.w * share))
            self.names |= set(row.x)

    def _pass_time(self, t):
        half_life = self.settings.get("half_life")
        if half_life is None:
            return self.settings.get("forgetting_factor", 1.0), 1.0
        self.timed |= t is not None
        t = (self.now or 0.0) + 1.0 if t is None else t
        before = t if self.now is None else self.now
        self.now = max(before, t)
        return 0.5 ** ((self.now - before) / half_life), 0.5 ** ((self.now - t) / half_life)

    def _decay(self, past):
        for row in self.rows:
            row.w *= past
        self.moved *= past

    def unlearn(self, places, share, plain):
        """Take out a share of some rows; features of a plain array stay, whatever is left."""
        for place in places:
            row = self.rows[place]
            self.moved += share * squares(row)
            row.w, row.whole = (1.0 - share) * row.w, False
        self.rows = [row for row in self.rows if row.whole or row.w]
        if not self.rows:
            vars(self).update(vars(Truth(self.settings)))
            return
        if not plain:
            held = [row.x.items() for row in self.rows if row.w]
            groups = {self.group_of(name) for items in held for name, value in items if value}
            self.names = {name for name in self.names if self.group_of(name) in groups}
            self.has_arrays &= not self.names.isdisjoint(ENTRIES)

    def group_of(self, name):
        """Return what is shared by the entries of an array, which leave together."""
        return "v" if self.has_arrays and name in ENTRIES else name

    def fade(self, keep):
        if keep == 0.0:
            vars(self).update(vars(Truth(self.settings)))
        else:
            self._decay(keep)

    def merge(self, other):
        self.timed |= other.timed
        if self.timed and self.now is not None and other.now is not None:
            late = max(self.now, other.now)
            for each in (self, other):
                each._decay(0.5 ** ((late - each.now) / self.settings["half_life"]))
        self.now = max((t for t in (self.now, other.now) if t is not None), default=None)
        self.rows, self.names = self.rows + other.rows, self.names | other.names
        self.has_arrays |= other.has_arrays
        self.moved += other.moved

    def table(self, names):
        """Return the rows that are in, as columns of some features."""
        X = np.array([[row.x.get(name, 0.0) for name in names] for row in self.rows])
        w = np.array([row.w for row in self.rows], dtype=float)
        return strategies.Rows(X.reshape(len(w), len(names)), [row.y for row in self.rows], w)


def squares(row):
    return row.w * (1.0 + sum(value**2 for value in row.x.values()))


def solved(truth, model):
    """Return weights and intercept of the batch problem, by a least-squares solver."""
    rows = truth.table(model.feature_names)
    Y = laws.targets_of(model, rows.y).reshape(len(rows), len(laws.outputs_of(model)))
    A, T, x_mean, y_mean = laws.weighted_centred(rows.X, Y, rows.w, model.fit_intercept)
    ridge = np.diag(np.sqrt(model.ridge_diagonal))
    stacked = np.vstack([A, ridge]), np.vstack([T, np.zeros((len(ridge), Y.shape[1]))])
    W = np.linalg.lstsq(*stacked, rcond=None)[0]
    return W, y_mean - x_mean @ W


@st.composite
def model_settings(draw):
    """Draw hyperparameters of a model; the ridge may be anything that goes with the others."""
    accumulator = draw(strategies.accumulators)
    folds = [KFold(3)] if accumulator != "orthogonal" else []
    ridge = draw(st.sampled_from(["paper", "auto", *folds, *NUMBERS, 0.0]))
    decays = [{}, {"forgetting_factor": 0.99}, {"half_life": 50.0}]
    if ridge != 0.0:
        # What is fainter beside the others than rounding drowns without a ridge.
        decays += [{"forgetting_factor": 0.9}, {"half_life": 3.0}]
    return {
        "ridge": ridge,
        "accumulator": accumulator,
        "fit_intercept": draw(st.booleans()),
        **draw(st.sampled_from(decays)),
    }


class Calls(RuleBasedStateMachine):
    """Every public call that changes a model, beside the list of rows that should be in."""

    @initialize(
        kind=st.sampled_from(KINDS),
        settings=model_settings(),
        n_features=st.one_of(st.integers(1, 5), st.integers(20, 40)),
        plain=st.booleans(),
        whole=st.booleans(),
        asks=st.booleans(),
        seed=SEEDS,
    )
    def start(self, kind, settings, n_features, plain, whole, asks, seed):
        self.model, self.truth = kind(**settings), Truth(settings)
        self.plain, self.whole, self.asks = plain, whole, asks
        universe = n_features + 8
        self.names = list(range(universe))
        if not plain:
            named = [f"x{number}" for number in range(universe - 3)]
            self.names = [("v", 0), 7, ("v", 1), *named]
        self.width, self.n_labels = n_features, 3
        if n_features >= 20:
            self.learn(self.model, self.truth, seed, 2 * n_features, "dicts")

    @property
    def labelled(self):
        return isinstance(self.model, LeastSquaresClassifier)

    def drawn_rows(self, random, n_rows, names):
        X = random.integers(-3, 4, (n_rows, len(names))) * random.integers(0, 2, len(names))
        if random.random() < 0.7:
            X = random.integers(-3, 4, (n_rows, len(names)))
        X = X.astype(float) if self.whole else 0.1 * X + 0.7
        X[random.random(X.shape) < 0.2] = 0.0
        if random.random() < 0.3:
            X[:, 0] = X[:, -1]
        weights = [np.ones(n_rows), random.integers(0, 3, n_rows), random.random(n_rows)]
        w = weights[random.integers(3)].astype(float)
        return [
            Row(dict(zip(names, map(float, x), strict=True)), self.drawn_target(random), float(v))
            for x, v in zip(X, w, strict=True)
        ]

    def drawn_target(self, random):
        if self.labelled:
            return LABELS[random.integers(self.n_labels)]
        numbers = random.integers(-9, 10, 3).astype(float).tolist()
        if isinstance(self.model, LeastSquaresRegressor):
            return numbers[0]
        return {TARGETS[k]: numbers[k] for k in random.permutation(3)}

    def sample(self, random, x):
        """Return a river sample in any order of keys, entries of "v" perhaps as one array."""
        keys = [list(x)[k] for k in random.permutation(len(x))]
        sample = {key: x[key] for key in keys}
        if set(x) >= ENTRIES and random.random() < 0.5:
            sample["v"] = np.array([sample.pop(entry) for entry in sorted(ENTRIES)])
            self.made_arrays = True
        return sample

    def learn(self, model, truth, seed, n_rows, form, names=None):
        """Learn some rows in some form; both know them then, unless the form cannot hold them."""
        random = np.random.default_rng(seed)
        names = self.names[: self.width] if names is None else names
        if form == "array":
            names = list(range(len(names)))
        if form in ("pandas", "polars"):
            names = [name for name in names if isinstance(name, str)] or names
        rows = self.drawn_rows(random, n_rows, names)
        if form in ("one", "dicts"):
            for row in rows:
                gone = [name for name in row.x if not row.x[name] and random.random() < 0.5]
                row.x = {name: value for name, value in row.x.items() if name not in gone}
        times = [None] * n_rows
        if "half_life" in truth.settings and random.random() >= 0.3:
            times = ((truth.now or 0.0) + random.integers(-6, 5, n_rows)).tolist()
        self.made_arrays = False
        self.learn_in(form, model, rows, times, random)
        truth.has_arrays |= self.made_arrays
        truth.learn(rows, times)

    def learn_in(self, form, model, rows, times, random):
        w, y = [row.w for row in rows], [row.y for row in rows]
        if form == "one":
            for row, t in zip(rows, times, strict=True):
                model.learn_one(self.sample(random, row.x), row.y, row.w, t=t)
            return
        if form == "array":
            X = np.array([list(row.x.values()) for row in rows])
        elif form == "dicts":
            X = [self.sample(random, row.x) for row in rows]
        else:
            order = [list(rows[0].x)[k] for k in random.permutation(len(rows[0].x))]
            X = frame = pd.DataFrame([row.x for row in rows], columns=order)
            X = pl.from_pandas(X) if form == "polars" else X
        w = None if set(w) == {1.0} else w[0] if len(set(w)) == 1 else np.array(w)
        learn, t = model.learn_many, None if None in times else times
        if random.random() < 0.4:
            learn = model.predict_learn_many
            if form == "polars" and self.labelled:
                answers = copy.deepcopy(model).predict_learn_many(frame, y, w, t=t)
                kinds = {type(label) for label in answers if label is not None}
                if len(kinds) > 1 or tuple in kinds:
                    # No series of polars holds these answers, while pandas and dicts do.
                    laws.assert_refused(lambda: learn(X, y, w, t=t), model, "cannot be one series")
                    learn = model.learn_many
        learn(X, y, w, t=t)

    def forms(self):
        if self.plain:
            return ["one", "dicts", "array", "pandas"]
        return ["one", "dicts", *(["pandas", "polars"] if self.width > 3 else [])]

    @precondition(lambda self: len(self.truth.rows) < MOST_ROWS)
    @rule(data=st.data(), seed=SEEDS, n_rows=st.integers(1, 6))
    def learn_rows(self, data, seed, n_rows):
        form = data.draw(st.sampled_from(self.forms()))
        self.learn(self.model, self.truth, seed, n_rows, form)

    @precondition(lambda self: len(self.truth.rows) < MOST_ROWS)
    @rule(seed=SEEDS, n_rows=st.integers(1, 6))
    def predict_and_learn_in_turns(self, seed, n_rows):
        for number in range(n_rows):
            self.ask(seed + number)
            self.learn(self.model, self.truth, seed + number, 1, "one")

    @rule()
    def a_new_feature_will_come(self):
        self.width = min(self.width + 1, len(self.names))

    @rule()
    def a_new_class_will_come(self):
        self.n_labels = min(self.n_labels + 1, len(LABELS))

    @rule(data=st.data(), seed=SEEDS, one=st.booleans(), share=st.sampled_from([1.0, 1.0, 0.5]))
    def unlearn_rows(self, data, seed, one, share):
        heaviest = max((row.w for row in self.truth.rows), default=0.0)
        whole = [
            k
            for k, row in enumerate(self.truth.rows)
            if row.whole and (share == 1.0 or row.w > 1e-3 * heaviest)
        ]
        if not whole:
            return
        random = np.random.default_rng(seed)
        n_rows = 1 if one else data.draw(st.integers(1, len(whole)))
        places = random.choice(whole, n_rows, replace=False).tolist()
        rows = [self.truth.rows[place] for place in places]
        samples, w = [self.sample(random, row.x) for row in rows], [share * row.w for row in rows]
        left = copy.deepcopy(self.truth)
        left.unlearn(places, share, plain=True)
        if one:
            change = methodcaller("unlearn_one", samples[0], rows[0].y, w[0])
        else:
            change = methodcaller("unlearn_many", samples, [row.y for row in rows], np.array(w))
        if not self.refuses(change, left):
            self.truth.unlearn(places, share, self.model._state.columns._plain)

    def refuses(self, change, left):
        """Change the model unless it may and does refuse; nothing has changed then."""
        if self.truth.settings["accumulator"] == "orthogonal":
            laws.assert_refused(lambda: change(self.model), self.model, "cannot remove rows")
            return True
        before = pickle.dumps(self.model)
        try:
            change(self.model)
        except ValueError:
            assert self.outweighs(left, self.model.ridge)
            assert pickle.dumps(self.model) == before
            return True
        return False

    def outweighs(self, left, ridge):
        """Tell whether rounding errors of removed rows may count beside rows and their ridge."""
        rows, intercept = left.table(sorted(left.names, key=repr)), left.settings["fit_intercept"]
        model = type(self.model)(ridge=ridge, fit_intercept=intercept)
        model.learn_many([row.x for row in left.rows], rows.y, rows.w)
        squares = rows.X.T * rows.w @ rows.X
        smallest = np.linalg.eigvalsh(squares + model.ridge_ * np.eye(rows.X.shape[1]))[0]
        # Rows that have decayed may leave little of a feature.
        smallest = min(smallest, np.diag(squares)[np.diag(squares) > 0.0].min(initial=np.inf))
        return laws.EPS * left.moved > 1e-9 * max(0.0, smallest)

    def drawn_other(self, data, seed, part):
        """Draw another model of few rows, of one perhaps only a part, and what it should know."""
        random = np.random.default_rng(seed)
        other, truth = self.model.empty(), Truth(self.truth.settings)
        n_names = data.draw(st.integers(1, min(self.width + 1, len(self.names))))
        names = self.names[: self.width]
        names = [names[k] for k in random.permutation(len(names))[:n_names]]
        for number in range(data.draw(st.integers(0, 3))):
            form = data.draw(st.sampled_from(["one", "dicts", "array"][: 2 + self.plain]))
            self.learn(other, truth, seed + number, 1 + number, form, names)
            first = truth.rows[0]
            if part and truth.settings["accumulator"] != "orthogonal" and first.whole and first.w:
                other.unlearn_one(first.x, first.y, 0.5 * first.w)
                truth.unlearn([0], 0.5, other._state.columns._plain)
        return other, truth

    @precondition(lambda self: len(self.truth.rows) < MOST_ROWS)
    @rule(data=st.data(), seed=SEEDS, how=st.integers(0, 3), part=st.booleans())
    def merge(self, data, seed, how, part):
        other, truth = self.drawn_other(data, seed, part)
        kept = pickle.dumps(other)
        merged = (
            lambda: self.model.merge(other),
            lambda: self.model + other,
            lambda: other + self.model,
            lambda: other.merge(self.model),
        )
        self.model = merged[how]()
        if how < 3:
            assert pickle.dumps(other) == kept
            self.truth.merge(truth)
        else:
            truth.merge(self.truth)
            self.truth = truth

    @rule(keep=st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    def fade(self, keep):
        weights = [row.w for row in self.truth.rows if row.w]
        if keep == 0.0 or keep * min(weights, default=1.0) > 1e-4:
            self.model.fade(keep)
            self.truth.fade(keep)

    @rule(data=st.data())
    def change_the_ridge(self, data):
        ridge = data.draw(st.sampled_from([*NUMBERS, "paper", "auto"]))
        if ridge != self.model.ridge:
            try:
                self.model.mutate({"ridge": ridge})
            except ValueError:
                assert self.outweighs(self.truth, ridge)

    @rule(seed=SEEDS, pickled=st.booleans(), n_rows=st.integers(1, 4))
    def go_on_with_a_copy(self, seed, pickled, n_rows):
        twin = pickle.loads(pickle.dumps(self.model)) if pickled else copy.deepcopy(self.model)
        truth = copy.deepcopy(self.truth)
        for number in range(n_rows):
            self.learn(self.model, self.truth, seed + number, 1, "one")
            self.learn(twin, truth, seed + number, 1, "one")
            if self.asks:
                assert (self.model.output_weights == twin.output_weights).all()
        assert self.model.ridge_ == twin.ridge_
        assert (self.model.output_weights == twin.output_weights).all()
        assert (self.model.intercept == twin.intercept).all()
        self.model = twin

    @rule(seed=SEEDS)
    def ask(self, seed):
        """Answers follow from the weights, and the weights from the rows."""
        random = np.random.default_rng(seed)
        queries = self.drawn_rows(random, 2, self.names[: self.width + 1])
        samples = [self.sample(random, row.x) for row in queries]
        names, outputs = self.model.feature_names, laws.outputs_of(self.model)
        X = np.array([[row.x.get(name, 0.0) for name in names] for row in queries])
        X = X.reshape(2, len(names))
        W = self.model.output_weights
        scores = X @ W + self.model.intercept
        if self.labelled:
            answers = [self.model.scores_one(sample) for sample in samples]
            proba = self.model.predict_proba_one(samples[0])
            assert not proba or sum(proba.values()) == pytest.approx(1.0)
            assert self.model.predict_one(samples[0]) in (*outputs, None)
        else:
            answers = self.model.predict_many(samples)
            if isinstance(self.model, LeastSquaresRegressor):
                answers = [{"y": answer} for answer in answers]
        found = np.array([[answer.get(name, 0.0) for name in outputs] for answer in answers])
        atol = 1e-9 * (1.0 + np.abs(X).sum() * np.abs(W).max(initial=0.0))
        np.testing.assert_allclose(found.reshape(scores.shape), scores, atol=atol)
        self.check_against_solver(X, scores)

    def check_against_solver(self, X, scores):
        """Compare with a solver where the ridge bounds what rounding errors may do."""
        smallest = self.model.ridge_diagonal.min(initial=np.inf)
        weight = sum(row.w for row in self.truth.rows)
        if not (smallest and weight > 1e-9):
            return
        size = self.truth.moved + sum(map(squares, self.truth.rows))
        lost = (1.0 + size / smallest) * (1.0 + size / weight)
        if lost < 1e8:
            W, constant = solved(self.truth, self.model)
            atol = 1e3 * laws.EPS * lost * (10.0 + np.abs(X).sum())
            np.testing.assert_allclose(scores, X @ W + constant, atol=atol)

    def bad_calls(self):
        """Return calls that must raise, whatever was learnt."""
        model, y = self.model, self.drawn_target(np.random.default_rng(0))
        known, new = self.names[0], self.names[-1]
        nan = {known: 1.0, new: float("nan")}
        unlike = type(model)(**{**model._get_params(), "fit_intercept": not model.fit_intercept})
        heavy = sum(row.w for row in self.truth.rows) + 1.0
        calls = [
            lambda: model.learn_one(nan, y),
            lambda: model.learn_one({new: 1e200}, y),
            lambda: model.learn_one({new: 1.0}, y, w=-1.0),
            lambda: model.learn_one({new: 1.0}, ["unhashable"]),
            lambda: model.learn_many([{new: 1.0}, {new: 2.0}], [y]),
            lambda: model.learn_many([{new: 1.0}, {known: None}], [y, y]),
            lambda: model.learn_many([{new: 1.0}], [y], w=[1.0, 2.0]),
            lambda: model.unlearn_one({known: 1.0, "never": 1.0}, y),
            lambda: model.unlearn_one({known: 1.0}, y, w=2.0 * heavy),
            lambda: model.unlearn_many([{}] * (self.truth.count + 1), [y] * (self.truth.count + 1)),
            lambda: model.merge(unlike),
            lambda: model + unlike,
            lambda: model.fade(1.5),
            lambda: model.predict_one([1.0]),
            lambda: model.predict_many([{known: "high"}]),
        ]
        if model.count:
            # A blank model does not read values.
            calls.append(lambda: model.predict_one({known: float("inf")}))
        if "half_life" in self.truth.settings:
            calls.append(lambda: model.learn_one({new: 1.0}, y, t=float("nan")))
            calls.append(lambda: model.learn_many([{new: 1.0}], [y], t=["noon"]))
        if self.labelled:
            calls.append(lambda: model.unlearn_one({known: 0.0}, "never"))
        return calls

    @rule(data=st.data())
    def fail(self, data):
        calls = self.bad_calls()
        # A ridge that was changed may be taken in by any call.
        assert self.model.ridge_ >= 0.0
        call = calls[data.draw(st.integers(0, len(calls) - 1))]
        laws.assert_refused(call, self.model, None, (ValueError, TypeError))

    @invariant()
    def knows_what_is_in(self):
        if not hasattr(self, "model"):
            return
        assert self.model.count == self.truth.count
        kept = sorted(set(self.model.feature_names) - self.truth.names, key=repr)
        if kept:  # While there are rows without a weight, features that are 0 in all others stay.
            rows = self.truth.table(kept)
            assert (rows.w == 0.0).any()
            assert not rows.X[rows.w > 0.0].any()
        # What has decayed to rounding errors of removed rows is gone.
        gone = sorted(self.truth.names - set(self.model.feature_names), key=repr)
        squares = self.truth.table(gone).X ** 2 * self.truth.table(gone).w[:, None]
        assert not gone or squares.sum() < 1e-12 * self.truth.moved
        if self.labelled:
            assert set(self.model.classes) == {row.y for row in self.truth.rows}
        # A copy tells what the model would say if it were asked, while nobody asks it.
        model = self.model if self.asks else copy.deepcopy(self.model)
        size = self.truth.moved * max(1.0, np.linalg.norm(model.output_weights))
        rows, columns = self.truth.table(model.feature_names), range(len(model.feature_names))
        if len(rows):
            laws.assert_is_batch_solution(model, rows, columns, size, self.truth.count)
        else:
            assert not model.output_weights.any()
            assert not model.intercept.any()
        fixed = isinstance(model.ridge, float)
        assert model.ridge_ == model.ridge if fixed else model.ridge_ >= 0.0

    def teardown(self):
        if hasattr(self, "model"):
            self.ask(0)


# Drawn rows often lack names, and are removed in part; where users are told is tested.
@pytest.mark.filterwarnings("ignore:X lacks columns:UserWarning")
@pytest.mark.filterwarnings("ignore:A removal leaves a part of a row:UserWarning")
@pytest.mark.filterwarnings("ignore:X has more columns than the:UserWarning")
@pytest.mark.parametrize("n", [8, pytest.param(2000, marks=pytest.mark.slow)])
def test_any_calls_in_any_order(n):
    run_state_machine_as_test(Calls, settings=settings(max_examples=n, stateful_step_count=30))
