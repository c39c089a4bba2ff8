"""Progressive validation: river's values, from streams and tables; learning curves; delays."""

import copy
import datetime as dt
import math
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from river import (
    active,
    anomaly,
    cluster,
    compose,
    evaluate,
    linear_model,
    metrics,
    naive_bayes,
    utils,
)
from river.stream import simulate_qa
from scipy import sparse

from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
    dumps,
    progressive_val_score,
)
from onlinels.rows.batch import samples_of
from support.strategies import examples


def names(X):
    return [f"x{column}" for column in range(X.shape[1])]


TABLES = {
    "array": lambda X, y: (X, y),
    "sparse": lambda X, y: (sparse.coo_array(X), y.tolist()),
    "dicts": lambda X, y: (list(samples_of(X)), y.tolist()),
    "pandas": lambda X, y: (pd.DataFrame(X, columns=names(X)), pd.Series(y)),
    "polars": lambda X, y: (pl.DataFrame(X, schema=names(X)), pl.Series(y)),
    "pyarrow": lambda X, y: (
        pa.table(dict(zip(names(X), X.T, strict=True))),
        pa.chunked_array([y]),
    ),
}


def joined(*kinds):
    return metrics.base.Metrics([kind() for kind in kinds])


def rolling():
    of = [metrics.Accuracy(), metrics.F1()]
    return utils.Rolling(metrics.base.Metrics, 20, metrics=of)


def hidden_model():
    return HiddenLayer(3) | LeastSquaresClassifier(1.0)


def sampler():
    return active.EntropySampler(linear_model.LogisticRegression(), seed=1)


NAMED = [
    *(metrics.Accuracy, metrics.AdjustedRand, metrics.CrossEntropy),
    *(partial(joined, metrics.Accuracy, metrics.MCC),),
]
YES_OR_NO = [metrics.ROCAUC, metrics.F1, partial(joined, metrics.Accuracy, metrics.LogLoss)]
NUMERIC = [metrics.MAE, metrics.R2, partial(joined, metrics.RMSE, metrics.MAE)]
TARGETS = {
    "labels": lambda z: np.array(["a", "b", "c"])[np.digitize(z, [-0.5, 0.5])],
    "bools": lambda z: z > 0.0,
    "numbers": lambda z: z,
}
LINEAR = LeastSquaresClassifier
TIMED = partial(LeastSquaresRegressor, 1.0, half_life=5.0)
CASES = [
    *((LINEAR, "labels", metric, ("w",)) for metric in NAMED),
    *((LINEAR, "bools", metric, ("w",)) for metric in YES_OR_NO),
    *((LeastSquaresRegressor, "numbers", metric, ("w",)) for metric in NUMERIC),
    *((TIMED, "numbers", metric, ("w", "t")) for metric in NUMERIC),
    (hidden_model, "bools", metrics.LogLoss, ("w",)),
    (naive_bayes.GaussianNB, "bools", partial(utils.Rolling, metrics.LogLoss, 20), ()),
    (linear_model.LogisticRegression, "bools", metrics.LogLoss, ()),
    (partial(anomaly.HalfSpaceTrees, seed=1, n_trees=2, height=3), "bools", metrics.ROCAUC, ()),
    (partial(cluster.KMeans, n_clusters=2, seed=1), "bools", metrics.AdjustedRand, ()),
    (sampler, "bools", metrics.Accuracy, ()),
    (LINEAR, "bools", rolling, ()),
]
DELAYS = [None, 0, 1, 3, 30]


def drawn(seed, n_rows, target):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    return X, TARGETS[target](X[:, 0] + random.normal(size=n_rows)), random.random(n_rows)


def stream_of(X, y, **options):
    """Return the rows as river has them; made anew, because river takes weights out of a stream."""
    columns = zip(samples_of(X), y, *options.values(), strict=True)
    return [(x, y, dict(zip(options, given, strict=True))) for x, y, *given in columns]


def values_of(metric):
    metric = getattr(metric, "obj", metric)
    if isinstance(metric, metrics.base.Metrics):
        return [value for each in metric for value in values_of(each)]
    return [metric.get()]


@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 40),
    case=st.sampled_from(CASES),
    table=st.sampled_from(sorted(TABLES)),
    delay=st.sampled_from(DELAYS),
    sizes=st.tuples(st.integers(1, 45), st.integers(1, 45)),
    n_options=st.integers(0, 2),
)
@examples(100)
def test_scores_and_learning_curves_are_those_of_river(
    seed, n_rows, case, table, delay, sizes, n_options
):
    make, target, metric, options = case
    X, y, w = drawn(seed, n_rows, target)
    given_options = {name: {"w": w, "t": np.cumsum(w)}[name] for name in options[:n_options]}
    X_given, y_given = TABLES[table](X, y)
    stream, expected = partial(stream_of, X_given, y.tolist(), **given_options), metric()
    steps = evaluate.iter_progressive_val_score(
        stream(), make(), expected, delay=delay, yield_predictions=True
    )
    answers = [each["Prediction"] for each in steps]
    (window, batch_size), rows = sizes, stream()
    settings = {"window": window, "batch_size": batch_size, "delay": delay}
    for data, options in (((X_given, y_given), given_options), (rows, {}), (iter(rows), {})):
        score = progressive_val_score(data, make(), metric(), **options, **settings)
        assert values_of(score.metric) == pytest.approx(values_of(expected))
        assert score.rows.tolist() == [*range(window, n_rows, window), n_rows]
        assert (np.diff(score.seconds) >= 0.0).all()
        for number, stop in enumerate(score.rows):
            for begin, curve in ((0, score.cumulative), (number * window, score.windowed)):
                part = metric()
                for truth, answer in zip(y[begin:stop].tolist(), answers[begin:stop], strict=True):
                    if answer not in (None, {}):
                        part.update(truth, answer)
                assert [*np.atleast_1d(curve[number])] == pytest.approx(values_of(part))


@pytest.mark.parametrize("delay", [None, 2])
def test_several_targets(delay):
    X, make = np.random.default_rng(3).normal(size=(40, 3)), LeastSquaresMultiTargetRegressor
    Y = pd.DataFrame(X @ X[:3, :2], columns=["a", "b"])
    metric = partial(metrics.multioutput.PerOutput, metrics.MAE())
    stream = stream_of(X, Y.to_dict("records"))
    expected = evaluate.progressive_val_score(stream, make(), metric(), delay=delay).get()
    values = [each.get() for each in expected.values()]
    for data in (stream, (X, Y), (X, Y.to_numpy()), (X, Y.to_dict("records"))):
        score = progressive_val_score(data, make(), metric(), delay=delay, window=20)
        assert score.cumulative.shape == score.windowed.shape == (2, 2)
        assert score.cumulative[-1] == pytest.approx(values)
    axes = score.plot(metric="b", path_or_axes=Figure().add_subplot())
    assert axes.get_title(loc="left").startswith("MAE")
    assert repr(score) == "PerOutput (LeastSquaresMultiTargetRegressor, 40 rows)"


@pytest.mark.parametrize(
    "how",
    [
        {"moment": "hour", "delay": dt.timedelta(hours=3)},
        {"moment": lambda x: x["hour"], "delay": lambda x, y: dt.timedelta(hours=x["a"])},
        {"delay": "a"},
    ],
)
def test_delays_and_moments_are_those_of_river(how):
    start = dt.datetime(2020, 1, 1)
    numbers = np.random.default_rng(0).integers(0, 9, 60)
    stream = [
        ({"a": int(a), "hour": start + dt.timedelta(hours=row)}, bool(a > row % 9))
        for row, a in enumerate(numbers)
    ]
    table = tuple(zip(*stream, strict=True))
    make = lambda: compose.Select("a") | naive_bayes.GaussianNB()  # noqa: E731
    expected = evaluate.progressive_val_score(stream, make(), metrics.Accuracy(), **how)
    for data in (stream, table):
        score = progressive_val_score(data, make(), metrics.Accuracy(), **how)
        assert score.metric.get() == expected.get()


def equal_rows(n_rows=300):
    """Return rows of few values, with weights, labels in runs, and what tells random delays."""
    random = np.random.default_rng(2)
    late = iter((random.exponential(20.0, n_rows).astype(int) + 1).tolist())
    return [
        ({"a": float(random.integers(3))}, "xyz"[n // 15 % 3], {"w": random.choice([0.5, 2.0])})
        for n in range(n_rows)
    ], lambda x, y: next(late)


@pytest.mark.parametrize("as_pipeline", [False, True])
@pytest.mark.parametrize("max_waiting", [4096, 8])
def test_rows_of_stream_models_have_keys_if_labels_are_late(as_pipeline, max_waiting):
    """Each label is learnt with the forecast of its row, unless it was the oldest of too many.

    Keys are none that wait in the model.
    """
    model = StreamClassifier(max_waiting=max_waiting)
    for key in (0, 7, "k", b"k"):
        model.predict_one({"a": 9.0}, key=key)
    expected = copy.deepcopy(model)
    rows, delay = equal_rows()
    for number, x, y, options in simulate_qa(rows, None, delay):
        key = 8 + number
        if y is None:
            expected.predict_proba_one(x, key=key)
        else:
            key = key if key in expected.waiting.keys else None
            expected.learn_one(x, y, options["w"], key=key)
    (rows, delay), metric = equal_rows(), metrics.CrossEntropy()
    evaluated = compose.Select("a") | model if as_pipeline else model
    progressive_val_score(iter(rows), evaluated, metric, delay=delay)
    assert (model.count, model.waiting.n_forecasts) == (300, 4 * (max_waiting > 8))
    assert dumps(model) == dumps(expected)


def test_one_weight_and_one_time_may_be_for_all_rows():
    X, y, _ = drawn(0, 50, "numbers")
    scores = [
        progressive_val_score((X, y), TIMED(), metrics.MAE(), w=w, t=t).metric.get()
        for w, t in ((2.0, 1.0), (np.full(50, 2.0), np.ones(50)), (2.0, np.arange(50.0)))
    ]
    assert scores[0] == scores[1] != pytest.approx(scores[2])


X, Y, ACCURACY = np.ones((3, 2)), ["a", "b", "a"], metrics.Accuracy()
MODEL, PAIRS = LeastSquaresClassifier(), [({"a": 1.0}, "a")]
FRAME = pd.DataFrame(X, index=[1, 2, 3])
OTHER_ORDER = "dataset is of type LeastSq.*order dataset, model, metric.* the tuple .X, y."
BAD_CALLS = [
    ((MODEL, PAIRS, ACCURACY), OTHER_ORDER),
    ((MODEL, X, Y, ACCURACY), OTHER_ORDER),
    ((HiddenLayer(3) | MODEL, PAIRS, ACCURACY), "type Pipeline, expected rows"),
    ((PAIRS, ACCURACY, MODEL), "(?s)metric=Least.*order dataset, model, met"),
    ((PAIRS, MODEL, None), "metric=None does not work"),
    (((X, Y), MODEL, metrics.Accuracy), "metric=<class"),
    (((X, Y), LeastSquaresClassifier, ACCURACY), "a model of type .*Meta,"),
    (((X, Y), MODEL, metrics.MAE()), "MAE.* type LeastSquaresClassifier,"),
    (((X, Y), cluster.KMeans(), metrics.Silhouette()), "Silhouette.* type KMeans"),
    ((X, MODEL, ACCURACY), "Row 0 of the stream is array.*or a table as the tuple"),
    ((FRAME, MODEL, ACCURACY), "Row 0 of the stream is 0, expected a pair"),
    (("f.csv", MODEL, ACCURACY), "Row 0 of the stream is 'f', expected"),
    (((*PAIRS, *PAIRS), MODEL, ACCURACY), r"X\[1\] is of type str, expected a dict"),
    (((iter(PAIRS), Y), MODEL, ACCURACY), "expected an array.*Convert it"),
    (((X, Y[:2]), MODEL, ACCURACY), "y has 2 values, expected 3. Pass one for"),
    (((X, np.ones((3, 2))), MODEL, ACCURACY), r"y has shape \(3, 2\)"),
    (((FRAME, pd.Series(Y, index=[3, 2, 1])), MODEL, ACCURACY), "another order"),
    (((X, Y), StreamClassifier(), ACCURACY), "'t'", {"t": 1.0}),
]
DAY, ZERO = dt.timedelta(days=1), dt.datetime(2020, 1, 1)
BAD_OPTIONS = [
    (PAIRS, {"w": 1.0}, "w or t is given.*Pass triples"),
    ((X, Y), {"w": [1.0]}, r"w has shape \(1,\)"),
    ((X, Y), {"w": -1.0}, "w holds -1.0"),
    ((X, Y), {"t": [1.0]}, r"t has shape \(1,\), expected \(3,\)"),
    ((X, Y), {"batch_size": 0}, "batch_size=0"),
    ((X, Y), {"window": 2.5}, "window=2.5"),
    ((X, Y), {"delay": "far"}, "delay is 'far', which is not in"),
    (PAIRS, {"delay": -1}, "delay=-1 must be at least 0"),
    (PAIRS, {"delay": math.nan}, "delay=nan must be at least 0"),
    (PAIRS, {"delay": True}, "delay=True must be a number"),
    (PAIRS, {"delay": DAY}, "a number of rows, because .* moment"),
    (PAIRS, {"delay": "far"}, "delay is 'far', which is not in the"),
    (PAIRS, {"delay": lambda x, y: -1}, "delay=-1 must be at least"),
    (PAIRS, {"moment": 5, "delay": 1}, "moment is of type int"),
    (PAIRS, {"moment": "a"}, "delay is None, expected a time"),
    (PAIRS, {"moment": "hour", "delay": DAY}, "'hour', which is not in the row {'a'.*Check the"),
    (PAIRS, {"moment": "a", "delay": DAY}, "timedelta, expected what can be added to .* gives"),
    (PAIRS, {"moment": lambda x: ZERO, "delay": lambda x, y: -DAY}, r"\(days=-1\), expected at"),
]
BAD_CALLS += [((rows, MODEL, ACCURACY), message, options) for rows, options, message in BAD_OPTIONS]


@pytest.mark.parametrize("bad", BAD_CALLS)
def test_what_is_refused_before_anything_changes(bad):
    arguments, message, *options = bad
    with pytest.raises((TypeError, ValueError), match=message):
        progressive_val_score(*arguments, **dict(*options))
    assert MODEL.count == ACCURACY.cm.n_samples == 0


def test_an_error_of_a_batch_names_its_rows():
    wrong, model = np.ones((9, 2)), LeastSquaresClassifier()
    wrong[7] = np.nan
    with pytest.raises(ValueError, match="X holds nan") as caught:
        progressive_val_score((wrong, [0] * 9), model, metrics.Accuracy(), batch_size=3)
    assert caught.value.__notes__ == ["The batch has the rows 6 to 8."]
    assert model.count == 6


def score_of(metric, n_rows=250, **settings):
    X, y, _ = drawn(0, n_rows, "bools")
    return progressive_val_score((X, y), LeastSquaresClassifier(), metric, **settings)


def test_a_score_prints_in_one_line():
    assert repr(score_of(metrics.Accuracy())).endswith("% (LeastSquaresClassifier, 250 rows)")
    both = repr(score_of(metrics.Accuracy() + metrics.LogLoss(), name="of two"))
    assert both.startswith("Accuracy: ")
    assert ", LogLoss: 0." in both
    assert both.endswith(" (of two, 250 rows)")
    assert repr(score_of(metrics.ConfusionMatrix())).startswith("ConfusionMatrix (LeastSq")
    nothing = progressive_val_score([], LeastSquaresClassifier(), metrics.Accuracy())
    assert repr(nothing) == "Accuracy: 0.00% (LeastSquaresClassifier, 0 rows)"


def test_learning_curves_are_drawn():
    metric = metrics.Accuracy() + metrics.LogLoss()
    one = score_of(metric, window=100, name="one")
    other = score_of(metrics.Accuracy(), n_rows=200, window=100, name="other")
    mine = Figure().add_subplot()
    assert one.plot(other, path_or_axes=mine) is mine
    windowed, cumulative, *of_other = mine.lines
    np.testing.assert_array_equal(windowed.get_xydata(), np.c_[[100, 200], one.windowed[:2, 0]])
    np.testing.assert_array_equal(cumulative.get_xydata(), np.c_[one.rows, one.cumulative[:, 0]])
    np.testing.assert_array_equal(of_other[0].get_xydata(), np.c_[other.rows, other.windowed])
    assert [each.get_text() for each in mine.get_legend().get_texts()] == ["one", "other"]
    losses = one.plot(metric="LogLoss", path_or_axes=Figure().add_subplot())
    np.testing.assert_array_equal(losses.lines[1].get_ydata(), one.cumulative[:, 1])
    short = score_of(metrics.Accuracy(), n_rows=30)
    assert len(short.plot(path_or_axes=Figure().add_subplot()).lines[0].get_xdata()) == 1
    for others, options, message in [
        ((3,), {}, "others=3 must be a ProgressiveScore"),
        ((score_of(metrics.F1(), window=100),), {"metric": "Accuracy"}, "F1.*expected Acc"),
        ((), {"metric": "R2"}, "expected R2. Pass one of them"),
        ((short,), {}, "windows of 1,000 rows, expected 100"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            one.plot(*others, **options)
