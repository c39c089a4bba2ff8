"""Rows, batches and predict-then-learn are one: online equals batch, whatever the program."""

import copy
import functools
import pickle
from collections import namedtuple
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import base, preprocessing

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    dumps,
    loads,
    merge,
)
from support import laws, strategies
from support.models import Scheduled, questions_of
from support.slow import the_rest_slow
from support.strategies import Rows, examples, kinds

# -- the law of linear models ----------------------------------------------------------------------

Clock = namedtuple("Clock", "settings kept times")
"""Settings by which rows are forgotten, the share kept after an hour, and times made of hours."""


HOURLY = 0.5 ** (1.0 / 9.0)
CLOCKS = [
    Clock({}, 1.0, None),
    Clock({}, 1.0, None),
    Clock({"forgetting_factor": 0.9}, 0.9, None),
    Clock({"half_life": 9.0}, HOURLY, None),
    Clock({"half_life": 9.0}, HOURLY, lambda hours: hours.astype(float)),
    Clock(
        {"half_life": timedelta(hours=9)},
        HOURLY,
        lambda hours: [datetime(2026, 1, 1) + timedelta(hours=int(each)) for each in hours],
    ),
]


class Lesson(namedtuple("Lesson", "samples X y w hours clock")):
    """Rows of which some part is learnt: as samples, or as a batch, which may be an array."""

    @functools.cached_property
    def times(self):
        return [None] * len(self.w) if self.clock.times is None else self.clock.times(self.hours)

    def teach(self, learn, part, **how):
        """Call a method that learns a batch, and return what it does."""
        part = slice(part.start, part.stop)
        t = None if self.times[0] is None else self.times[part]
        return learn(self.X[part], self.y[part], w=self.w[part], t=t, **how)

    def teach_one(self, model, row):
        """Let a model learn a row as a sample."""
        w, t = float(self.w[row]), self.times[row]
        model.learn_one(self.samples[row], self.y[row], w=w, t=t)

    def weights(self, stop):
        """Return the weights that the first rows have after the last of them."""
        hours = self.hours[:stop]
        return self.w[:stop] * self.clock.kept ** (hours.max() - hours)


@st.composite
def lessons(draw, kind, may_be_an_array=True):
    """Draw a lesson, its rows, and what makes a model for it.

    Features, classes and changes of features come at any row, weights perhaps late. Samples lack
    what is 0, unless arrays know all features from the first row on.
    """
    rows, make = draw(strategies.cases(kind, min_rows=2, max_rows=40))
    order = draw(st.permutations(range(len(rows))))
    late = draw(st.sampled_from([[], [rows.y[0]]]))
    rows = rows.take(sorted(order, key=lambda row: rows.y[row] in late))
    n_rows, n_features = rows.X.shape
    for column in rows.X.T:
        # Absent or constant before some row.
        column[: draw(st.sampled_from([0, 0, n_rows // 3]))] = draw(st.sampled_from([0, column[0]]))
    X = rows.X[:, draw(st.sampled_from([0, 0, 0, n_features])) :]
    w = rows.w.astype(float)
    w[: draw(st.sampled_from([0, 0, 0, n_rows // 2]))] = 0.0
    w[draw(st.integers(0, n_rows - 1))] *= draw(st.sampled_from([1.0, 1.0, 1e5]))
    rows, hours, clock = Rows(X, rows.y, w), np.arange(n_rows), draw(st.sampled_from(CLOCKS))
    if clock.times is not None:
        hours = np.cumsum(draw(st.lists(st.integers(-2, 4), min_size=n_rows, max_size=n_rows)))
    samples = rows.dicts()
    if not (may_be_an_array and draw(st.booleans())):
        X = samples = [{name: value for name, value in x.items() if value} for x in samples]
    lesson = Lesson(samples, X, rows.y, w, hours, clock)
    return lesson, rows, functools.partial(make, **clock.settings)


@st.composite
def batches(draw, n_rows):
    """Draw a way to cut rows into batches, few of which are of single rows."""
    cuts = draw(st.lists(st.integers(1, n_rows - 1), max_size=5))
    edges = 0, *sorted({*cuts}), n_rows
    return [range(start, stop) for start, stop in pairwise(edges)]


COPIED = [
    *(lambda model: model, lambda model: model, copy.deepcopy),
    *(lambda model: pickle.loads(pickle.dumps(model)), lambda model: loads(dumps(model))),
]

# Ways to learn some rows. Some answer each row first: as a model that is asked row by row.


def by_rows(model, lesson, part, *_):
    for row in part:
        lesson.teach_one(model, row)


def as_a_batch(model, lesson, part, *_):
    lesson.teach(model.learn_many, part)


def labels_first(model, lesson, part, expected, allowed):
    found = lesson.teach(model.predict_learn_many, part)
    for label, (probabilities, predicted) in zip(found, expected, strict=True):
        # A near tie may be decided either way.
        assert label == predicted or probabilities[label] >= probabilities[predicted] - allowed


def assert_close(model, found, expected, allowed):
    """Assert that numbers are those expected by name, in a table or as dicts."""
    priors = getattr(model, "priors", None)
    # The last columns are those of classes that only a dict of priors names.
    unseen = priors if isinstance(priors, dict) else ()
    columns = dict.fromkeys((*laws.outputs_of(model), *unseen))
    for row, numbers in zip(found, expected, strict=True):
        if not isinstance(row, dict):
            row = dict(zip(columns, np.atleast_1d(row), strict=True))
        known = [row[name] for name in numbers]
        np.testing.assert_allclose(known, [*numbers.values()], rtol=allowed, atol=allowed)


def probabilities_first(model, lesson, part, expected, allowed):
    found = lesson.teach(model.predict_proba_learn_many, part)
    assert_close(model, found, [probabilities for probabilities, _ in expected], allowed)


def part_of(expected, name):
    """Return means or deviations of normal distributions by target, for each row."""
    rows = (row if isinstance(row, dict) else {"y": row} for row in expected)
    return [{key: getattr(normal, name) for key, normal in row.items()} for row in rows]


def means_first(model, lesson, part, expected, allowed):
    found = lesson.teach(model.predict_learn_many, part)
    assert_close(model, found, part_of(expected, "mu"), allowed)


def normals_first(model, lesson, part, expected, allowed):
    found = lesson.teach(model.predict_learn_many, part, with_dist=True)
    for number, name in enumerate(("mu", "sigma")):
        values = part_of(found, name) if isinstance(found, list) else found[number]
        assert_close(model, values, part_of(expected, name), allowed)


def labels_of(model, x):
    return model.predict_proba_one(x), model.predict_one(x)


def numbers_of(model, x):
    return model.predict_one(x, with_dist=True)


def in_turn(ask, model, lesson, part):
    """Return answers to rows one by one, each of which is learnt after that."""
    answers = []
    for row in part:
        answers.append(ask(model, lesson.samples[row]))
        lesson.teach_one(model, row)
    return answers


SILENT = [by_rows, as_a_batch]
ANSWERING = [labels_first, probabilities_first]
OF_LABELS = labels_of, [*SILENT, *ANSWERING]
OF_NUMBERS = numbers_of, [*SILENT, means_first, normals_first]
WAYS = dict(zip(strategies.KINDS, [OF_LABELS, OF_LABELS, OF_NUMBERS, OF_NUMBERS], strict=True))
"""For each kind, what answers a row, and the ways to learn some rows."""


@kinds
@pytest.mark.filterwarnings("ignore")
@examples(100)
@given(st.data())
def test_rows_batches_and_predict_then_learn_are_one(kind, data):
    """Every program of them is the batch solution, and answers as a model asked row by row."""
    lesson, rows, make = data.draw(lessons(kind))
    ask, ways = WAYS[kind]
    model, single = make(), make()
    with pytest.MonkeyPatch.context() as patch:
        data.draw(st.sampled_from([laws.small_blocks, id]))(patch)
        for part in data.draw(batches(len(rows))):
            whole = make()
            lesson.teach(whole.learn_many, range(part.stop))
            known = rows.take(range(part.stop)).weighing(lesson.weights(part.stop))
            expected, allowed = in_turn(ask, single, lesson, part), allowed_of(whole, known)
            model = data.draw(st.sampled_from(COPIED))(model)
            data.draw(st.sampled_from(ways))(model, lesson, part, expected, allowed)
            for each in (model, single, whole):
                laws.assert_is_batch_solution(each, known)
                assert each.ridge_ == pytest.approx(whole.ridge_, rel=1e-6)
                assert ridges_of(each) == pytest.approx(ridges_of(whole), rel=1e-6, abs=0.0)


def ridges_of(model):
    """Return the ridge that acts on each feature."""
    return dict(zip(model.feature_names, model.ridge_diagonal.tolist(), strict=True))


def allowed_of(model, rows):
    """Return the error of answers, which grows as the rows outweigh the ridge."""
    largest = max(1.0, np.abs(laws.targets_of(model, rows.y)).max())
    least = max(model.ridge_diagonal.min(initial=1.0), 1e-6)
    size = float(rows.w @ (1.0 + rows.X.astype(float) ** 2).sum(axis=1))
    return largest * (1e-5 + 1e3 * laws.EPS * size / least)


# -- wrappers and the network ----------------------------------------------------------------------


class Doubled(base.Transformer):
    """A step of river's that transforms single rows only: it learns nothing."""

    def transform_one(self, x):
        return {name: 2.0 * value for name, value in x.items()}


BEFORE = [
    *(lambda model: model, lambda model: HiddenLayer(6, activation="relu", seed=1) | model),
    *(lambda model: preprocessing.StandardScaler() | model, lambda model: Doubled() | model),
]


@st.composite
def wrapped(draw, wrap):
    """Draw a lesson for a wrapper of a linear model, perhaps behind a step, which knows rows."""
    lesson, _, _ = draw(lessons("labels", may_be_an_array=False))
    settings = {
        "ridge": draw(st.sampled_from([1.0, 1e-2, "paper"])),
        "accumulator": draw(strategies.accumulators),
        "fit_intercept": draw(st.booleans()),
        "priors": draw(st.one_of(st.none(), strategies.priors([*lesson.y, "never"]))),
    }
    linear = LeastSquaresClassifier(**settings, **lesson.clock.settings)
    model = wrap(draw(st.sampled_from(BEFORE))(linear), draw)
    # With a ridge of few rows, nearly 0, rounding would decide.
    random = np.random.default_rng(0)
    for x in random.normal(size=(40, 4)).tolist():
        model.learn_one(dict(enumerate(x)), lesson.y[random.integers(2)], t=lesson.times[0])
    return lesson, model


def calibrated(model, draw):
    return CalibratedClassifier(model)


def with_alarms(model, draw):
    """Return a model that alarms; with `keep` at 0 they forget classes and features, too."""
    alarms = draw(st.sets(st.integers(1, 80), max_size=6))
    return DriftAwareClassifier(model, Scheduled(alarms), draw(st.sampled_from([0.0, 0.1, 1.0])))


IMAGES = np.random.default_rng(0).random((60, 6, 6))
DIGITS = [int(image[:3].sum() > image[3:].sum()) + (k > 30) for k, image in enumerate(IMAGES)]


def network(ridge=1.0, warm_up=40, **others):
    """Return a small network, most of whose features are fixed after the warm-up."""
    return ShallowConvClassifier(
        ConvolutionalFeatures(pool_size=3, stride=3, padding=3),
        HiddenLayer(6, "difference"),
        LeastSquaresClassifier(ridge, fit_intercept=False, **others),
        warm_up=warm_up,
    )


@st.composite
def networks(draw):
    """Draw a lesson of images, in the middle of which features get fixed, or never."""
    priors = draw(st.one_of(st.none(), strategies.priors([0, 1, "never"])))
    ridge, warm_up = draw(st.sampled_from([(1.0, 2), ("paper", 20), ("auto", 30), (1.0, 70)]))
    n_images, clock = draw(st.integers(2, 60)), draw(st.sampled_from(CLOCKS[:-1]))
    w = np.random.default_rng(0).integers(0, 3, n_images).astype(float)
    rows = [{"image": image} for image in IMAGES[:n_images]]
    lesson = Lesson(rows, rows, DIGITS[:n_images], w, np.arange(n_images), clock)
    return lesson, network(ridge, warm_up, priors=priors, **clock.settings)


WRAPPERS = {
    # A calibration learns of predictions before a batch where a batch is only learnt.
    "calibrated": (wrapped(calibrated), ANSWERING),
    "drift": (wrapped(with_alarms), [*SILENT, *ANSWERING]),
    "network": (networks(), [*SILENT, *ANSWERING]),
}


@pytest.mark.parametrize("kind", WRAPPERS)
@pytest.mark.filterwarnings("ignore")
@examples(50)
@given(st.data())
def test_wrappers_and_networks_answer_as_row_by_row(kind, data):
    """Blocks end at alarms, and where features get fixed."""
    drawn, ways = WRAPPERS[kind]
    lesson, model = data.draw(drawn)
    single = copy.deepcopy(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinels.network.stages.BLOCK_IMAGES", 17)
        for part in data.draw(batches(len(lesson.y))):
            expected = in_turn(labels_of, single, lesson, part)
            data.draw(st.sampled_from(ways))(model, lesson, part, expected, 1e-5)
            assert model.count == single.count
            assert model.classes == single.classes
            for x in lesson.samples[:9]:
                assert model.predict_proba_one(x) == pytest.approx(
                    single.predict_proba_one(x), abs=1e-5
                )


FLAT = IMAGES.reshape(60, 36)


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (LeastSquaresClassifier(), FLAT),
        (LeastSquaresClassifier(1.0, "recursive"), FLAT),
        (LeastSquaresClassifier("paper"), FLAT),
        (LeastSquaresRegressor(1.0), FLAT),
        (CalibratedClassifier(LeastSquaresClassifier(1.0)), FLAT),
        (DriftAwareClassifier(preprocessing.StandardScaler() | LeastSquaresClassifier(1.0)), FLAT),
        (network(warm_up=20), IMAGES),
        (network(), IMAGES),
    ],
    ids=["auto", "recursive", "paper", "regressor", "calibrated", "drift", "network", "warm-up"],
)
def test_batches_that_are_refused_change_nothing(model, X):
    model = model.clone()
    model.predict_learn_many(X[:30], DIGITS[:30])
    laws.assert_batches_refused(model, X, DIGITS)


def test_classes_that_were_forgotten_have_columns_behind_the_others():
    model = DriftAwareClassifier(LeastSquaresClassifier(1.0), Scheduled({4}))
    X = np.array([[0.0], [1.0], [0.2], [1.1], [0.1], [0.3]])
    table = model.predict_proba_learn_many(X, ["b", "a", "b", "a", "c", "c"])
    assert model.classes == ("c",)
    assert (table[:5, 0] == 0.0).all()
    np.testing.assert_allclose(table.sum(axis=1), [0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert table[5].tolist() == [1.0, 0.0, 0.0]


# -- questions, numbers, and other libraries -------------------------------------------------------


@kinds
@pytest.mark.filterwarnings("ignore")
@examples(50)
@given(st.data())
def test_questions_and_saves_change_no_bit_of_what_is_learnt(kind, data):
    """A solution that follows rows that are asked for has bits of its own, but no sums have."""
    lesson, rows, make = data.draw(lessons(kind))
    asked, silent = make(), make()
    for part in data.draw(batches(len(rows))):
        way = data.draw(st.sampled_from(SILENT))
        for model in (asked, silent):
            way(model, lesson, part)
        before = pickle.dumps(asked)
        dumps(asked)
        assert pickle.dumps(asked) == before
        for ask in questions_of(asked).values():
            ask(lesson.samples[:3])
        if asked.accumulator != "recursive":
            again = loads(dumps(asked)), loads(dumps(silent))
            for model in again:
                as_a_batch(model, lesson, part)
            # The sum with a blank model follows nothing.
            one, other = (merge(model, make()).output_weights for model in again)
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("n_rows", "n_features"), [(20, 400), (200, 331)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("accumulator", "factor"), [("gram", 1.0), ("recursive", 1.0), ("recursive", 0.999)]
)
def test_many_features_are_learnt_row_by_row(
    n_rows, n_features, fit_intercept, accumulator, factor
):
    """Few rows are solved by their rank; for many rows, changes of the inverse are gathered."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(n_rows, n_features)), random.normal(size=n_rows)
    X[:, ::9] = 3.0 * fit_intercept
    # The last feature comes late.
    X[: n_rows // 2, -1] = 0.0
    model = LeastSquaresRegressor(1.0, accumulator, fit_intercept, forgetting_factor=factor)
    for number, (x, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(x if number >= n_rows // 2 else x[:-1]))
        model.predict_one(x)
        model.learn_one(x, target)
    model = pickle.loads(pickle.dumps(model))
    w = factor ** np.arange(n_rows - 1.0, -1.0, -1.0)
    A, T, _, _ = laws.weighted_centred(X, y[:, None], w, fit_intercept)
    expected = np.linalg.solve(A.T @ A + np.diag(model.ridge_diagonal), A.T @ T)
    np.testing.assert_allclose(model.output_weights, expected, atol=1e-11)


@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@examples(40)
@given(
    strategies.lopsided_rows(),
    st.sampled_from([1e-12, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0]),
    st.sampled_from(["gram", "recursive"]),
    st.booleans(),
)
def test_rows_that_outweigh_the_others_cost_no_digits(rows, ridge, accumulator, fit_intercept):
    """A solution that follows single rows would lose as many digits as a row outweighs the past."""
    batch, single, asked, whole = (
        LeastSquaresRegressor(ridge, accumulator, fit_intercept) for _ in range(4)
    )
    whole.learn_many(rows.X, rows.y, rows.w)
    batch.predict_learn_many(rows.X, rows.y, rows.w)
    for x, y, w in zip(rows.dicts(), rows.y, rows.w.tolist(), strict=True):
        single.learn_one(x, y, w)
        asked.predict_one(x)
        asked.learn_one(x, y, w)
    least, *errors = (laws.error_of_fit(each, rows) for each in (whole, batch, single, asked))
    assert max(errors) <= 1e-9 + 100.0 * least


@pytest.mark.parametrize("ridge", [1e-12, 1.0])
@pytest.mark.parametrize("spread", [1e-4, 0.1])
@pytest.mark.parametrize("size", the_rest_slow([800, 64]))
def test_values_that_grow_without_end_do_not_lead_a_solution_astray(ridge, spread, size):
    """Beside sums that become nearly singular a solution is refined, trusted less, or made anew."""
    random = np.random.default_rng(0)
    z = 1.03 ** np.maximum(0, np.arange(1000) - 200) * random.normal(size=1000)
    X = np.stack([z, z + spread * random.normal(size=1000)], axis=1)
    y = (X[:, 0] - X[:, 1]) / spread + 0.1 * random.normal(size=1000)
    model = laws.fitted(LeastSquaresRegressor(ridge), X[:200], y[:200])
    for start in range(200, 1000, size):
        part = slice(start, start + size)
        assert np.abs(model.predict_learn_many(X[part], y[part])).max() < 3.0 * np.abs(y).max()
