"""Progressive validation: what river's gives, in batches too; learning curves; delays."""

import datetime as dt
import inspect
import sys
from functools import partial
from itertools import islice

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
    base,
    cluster,
    compose,
    datasets,
    evaluate,
    linear_model,
    metrics,
    naive_bayes,
    optim,
    preprocessing,
    stats,
    utils,
)
from scipy import sparse

from onlinels import (
    DriftAwareClassifier,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ProgressiveScore,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    iter_progressive_val_score,
    progressive_val_score,
)
from onlinels.evaluate import Arguments, update_many
from onlinels.rows import labels_like, numbers_like, samples_of, source_of, table_like
from support.slow import the_rest_slow
from support.strategies import examples, rows


class Looped:
    """Answers and learns batches by the plain loop, as `predict_learn_many` is defined."""

    _sizes = ()

    def _loop(self, ask, X, y, w, t):
        targets = y if isinstance(y, list) or y.ndim == 1 else samples_of(y)
        w = [1.0] * len(y) if w is None else w
        t = [None] * len(y) if t is None else t
        self._sizes = [*self._sizes, len(y)]
        for x, *learnt in zip(samples_of(X), targets, w, t, strict=True):
            yield ask(x)
            self.learn_one(x, *learnt)


class LoopedClassifier(Looped, LeastSquaresClassifier):
    def predict_learn_many(self, X, y, w=None, t=None):
        return labels_like(source_of(X), list(self._loop(self.predict_one, X, y, w, t)))

    def predict_proba_learn_many(self, X, y, w=None, t=None):
        answers = list(self._loop(self.predict_proba_one, X, y, w, t))
        if isinstance(X, list):
            return answers
        table = [[answer.get(label, 0.0) for label in self.classes] for answer in answers]
        return table_like(source_of(X), self.classes, np.array(table))


class LoopedRegressor(Looped, LeastSquaresRegressor):
    def predict_learn_many(self, X, y, w=None, t=None):
        answers = list(self._loop(self.predict_one, X, y, w, t))
        return numbers_like(source_of(X), np.array(answers, dtype=np.float64))


class LoopedMultiTarget(Looped, LeastSquaresMultiTargetRegressor):
    def predict_learn_many(self, X, y, w=None, t=None):
        answers = list(self._loop(self.predict_one, X, y, w, t))
        table = [[answer.get(name, 0.0) for name in self.target_names] for answer in answers]
        return table_like(source_of(X), self.target_names, np.array(table))


CLASSIFIERS = [LoopedClassifier, LeastSquaresClassifier]
"""The second answers in batches of its own, and rounds otherwise."""

OF_LABELS = [
    kind
    for kind in vars(metrics).values()
    if inspect.isclass(kind)
    and issubclass(kind, metrics.base.ClassificationMetric)
    and not any(each.default is each.empty for each in inspect.signature(kind).parameters.values())
]
OF_NUMBERS = [metrics.MAE, metrics.MAPE, metrics.MSE, metrics.R2, metrics.RMSLE, metrics.SMAPE]
LABELLED = [
    metrics.Accuracy,
    metrics.F1,
    metrics.MacroF1,
    metrics.CohenKappa,
    metrics.AdjustedRand,
    lambda: metrics.Accuracy() + metrics.MCC(),
    lambda: metrics.Accuracy() + metrics.LogLoss(),
]
PROBABLE = [metrics.LogLoss, metrics.CrossEntropy, metrics.ROCAUC]
REAL = [metrics.MAE, metrics.RMSE, metrics.R2, lambda: metrics.MSE() + metrics.MAE()]

TABLES = {
    "array": lambda drawn: (drawn.X, drawn.y),
    "labels": lambda drawn: (drawn.X, labels_like(drawn.X, drawn.y)),
    "dicts": lambda drawn: (drawn.dicts(), drawn.y),
    "sparse": lambda drawn: (sparse.coo_array(drawn.X.astype(float)), drawn.y),
}
FRAMES = {
    "pandas": lambda X, y: (pd.DataFrame(X).add_prefix("x"), pd.Series(y)),
    "polars": lambda X, y: (pl.DataFrame(X, schema=[*column_names(X)]), pl.Series(y)),
    "pyarrow": lambda X, y: (
        pa.table(dict(zip(column_names(X), X.T, strict=True))),
        pa.chunked_array([y]),
    ),
}


def column_names(X):
    return [f"x{column}" for column in range(X.shape[1])]


def stream_of(X, y, w=None):
    pairs = zip(samples_of(X), y, strict=True)
    return [(x, y) if w is None else (x, y, {"w": w[row]}) for row, (x, y) in enumerate(pairs)]


def state(metric):
    """Return all that a metric knows, confusion matrices in the order of their classes."""
    if isinstance(metric, (base.Base, stats.base.Univariate)):
        return type(metric), state(vars(metric))
    if isinstance(metric, dict):
        return [(key, state(value)) for key, value in metric.items()]
    return list(map(state, metric)) if isinstance(metric, list) else metric


def text(metric):
    """Return what a metric says, with all digits where it is a number."""
    try:
        return repr(metric), metric.get()
    except (AttributeError, NotImplementedError):
        return repr(metric), None


@given(
    drawn=rows(max_rows=20),
    table=st.sampled_from(sorted(TABLES)),
    metric=st.sampled_from(LABELLED + PROBABLE),
    delay=st.sampled_from([None, 0, 1, 2, 3, 30]),
    window=st.integers(1, 25),
    batch_size=st.integers(1, 25),
    weighed=st.booleans(),
)
def test_a_classifier_scores_as_by_river(drawn, table, metric, delay, window, batch_size, weighed):
    X, y = TABLES[table](drawn)
    w = drawn.w if weighed else None
    stream = partial(stream_of, drawn.X, drawn.y, w)  # River takes weights out of a stream.
    theirs = LoopedClassifier(1.0)
    expected = evaluate.progressive_val_score(stream(), theirs, metric(), delay=delay)
    settings = {"delay": delay, "window": window, "batch_size": batch_size}
    model = LoopedClassifier(1.0)
    score = progressive_val_score(model, X, y, metric(), w=w, **settings)
    assert text(score.metric) == text(expected)
    of_stream = progressive_val_score(LoopedClassifier(1.0), stream(), metric=metric(), **settings)
    assert text(of_stream.metric) == text(expected)
    if delay in (None, 0, 1):
        assert sum(model._sizes) == len(drawn)
        assert max(model._sizes) <= min(batch_size, window)


@given(
    drawn=rows(max_rows=20),
    metric=st.sampled_from(REAL),
    delay=st.sampled_from([None, 0, 1, 2, 3, 30]),
    batch_size=st.integers(1, 25),
    weighed=st.booleans(),
)
def test_a_regressor_scores_as_by_river(drawn, metric, delay, batch_size, weighed):
    y = np.random.default_rng(0).normal(size=len(drawn))
    w = drawn.w if weighed else None
    stream = stream_of(drawn.X, y.tolist(), w)
    expected = evaluate.progressive_val_score(stream, LoopedRegressor(1.0), metric(), delay=delay)
    settings = {"delay": delay, "batch_size": batch_size}
    for data in ((drawn.X, y), (drawn.dicts(), y.tolist())):
        model = LoopedRegressor(1.0)
        score = progressive_val_score(model, *data, metric=metric(), w=w, **settings)
        assert text(score.metric) == text(expected)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("metric", [metrics.Accuracy, metrics.LogLoss, metrics.CrossEntropy])
@pytest.mark.parametrize("delay", the_rest_slow([3, None]))
def test_batches_of_a_model_of_its_own_score_as_by_river(kind, metric, delay):
    random = np.random.default_rng(1)
    X = random.normal(size=(100, 4))
    y = (X[:, 0] > 0.3 * random.normal(size=100)).tolist()
    stream = stream_of(X, y)
    expected = evaluate.progressive_val_score(stream, kind(), metric(), delay=delay).get()
    settings = {"delay": delay, "batch_size": 32}
    for data in ((X, np.array(y)), (stream,), *(frame(X, y) for frame in FRAMES.values())):
        score = progressive_val_score(kind(), *data, metric=metric(), **settings)
        assert score.metric.get() == pytest.approx(expected)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("metric", [metrics.Accuracy, metrics.CrossEntropy])
@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_frames_score_as_dicts(frame, metric, batch_size):
    random = np.random.default_rng(2)
    X, y = random.integers(0, 5, (60, 3)).astype(float), random.choice(["a", "b", "c"], 60).tolist()
    data = FRAMES[frame](X, y)
    stream = stream_of(data[0], y)
    expected = evaluate.progressive_val_score(stream, LoopedClassifier(1.0), metric())
    score = progressive_val_score(LoopedClassifier(1.0), *data, metric(), batch_size=batch_size)
    assert text(score.metric) == text(expected)
    plain = naive_bayes.GaussianNB(), naive_bayes.GaussianNB()
    expected = evaluate.progressive_val_score(stream, plain[0], metric())
    assert text(progressive_val_score(plain[1], *data, metric()).metric) == text(expected)


@pytest.mark.parametrize("kind", [LoopedMultiTarget, LeastSquaresMultiTargetRegressor])
@pytest.mark.parametrize("delay", [None, 2])
def test_several_targets(kind, delay):
    random = np.random.default_rng(3)
    X = random.normal(size=(40, 3))
    Y = X @ random.normal(size=(3, 2)) + random.normal(size=(40, 2))
    metric = lambda: metrics.multioutput.MicroAverage(metrics.MAE())  # noqa: E731
    frame = pd.DataFrame(Y, columns=["a", "b"])
    for data in (Y, frame, frame.to_dict("records")):
        stream = stream_of(X, list(samples_of(data)))
        expected = evaluate.progressive_val_score(stream, kind(1.0), metric(), delay=delay)
        score = progressive_val_score(kind(1.0), X, data, metric(), delay=delay, batch_size=7)
        assert score.metric.get() == pytest.approx(expected.get())


MULTI_OUTPUT = {
    "p - MAE": (metrics.MAE(), "p"),
    "q - MAE": (metrics.MAE(), "q"),
    "MicroAverage": (metrics.multioutput.MicroAverage(metrics.RMSE()), None),
    "MacroAverage": (metrics.multioutput.MacroAverage(metrics.MAE()), None),
    "SampleAverage": (metrics.multioutput.SampleAverage(metrics.MSE()), None),
}
"""Columns of the curves of the sum below: the metrics, and the outputs that they count."""


def sum_for_several_targets():
    averages = [metric.clone() for metric, output in MULTI_OUTPUT.values() if output is None]
    return metrics.base.Metrics([metrics.multioutput.PerOutput(metrics.MAE()), *averages])


def of_answers(metric, output, pairs):
    """Return the value of a metric of answers, or of one output of them, by river."""
    known = [(y, answer) for y, answer in pairs if answer]
    if not known and isinstance(metric, metrics.multioutput.MacroAverage):
        return metric.metric.clone().get()
    metric = metric.clone()
    for y, answer in known:
        metric.update(*((y, answer) if output is None else (y[output], answer[output])))
    return metric.get()


@pytest.mark.parametrize("window", [1, 4, 100])
def test_curves_of_several_targets_are_numbers(window):
    """The curve of a PerOutput is that of its metric for each output alone."""
    rows = [({"a": i % 7}, {"p": i % 5 + 0.5, "q": 3.0 * (i % 4)}) for i in range(30)]
    pairs, model = [], LeastSquaresMultiTargetRegressor(1.0)
    for x, y in rows:
        pairs.append((y, model.predict_one(x)))
        model.learn_one(x, y)
    metric = sum_for_several_targets()
    score = progressive_val_score(model.empty(), rows, metric=metric, window=window)
    for number, stop in enumerate(score.rows):
        of_window = pairs[number * window : stop]
        for curve, counted in ((score.cumulative, pairs[:stop]), (score.windowed, of_window)):
            expected = [of_answers(*column, counted) for column in MULTI_OUTPUT.values()]
            np.testing.assert_allclose(curve[number], expected, rtol=1e-9, atol=1e-12)
    for column, name in enumerate(MULTI_OUTPUT):
        assert name in repr(score)
        axes = score.plot(metric=name, path_or_axes=Figure().add_subplot())
        assert axes.get_title("left").startswith(name)
        np.testing.assert_array_equal(axes.lines[1].get_ydata(), score.cumulative[:, column])


def test_a_metric_per_output_is_drawn_without_its_name():
    rows = [({"a": float(i)}, {"p": i * 1.0, "q": i * 2.0}) for i in range(50)]
    metric = metrics.multioutput.PerOutput(metrics.MAE())
    model = LeastSquaresMultiTargetRegressor()
    score = progressive_val_score(model, rows, metric=metric, window=10)
    assert score.windowed.shape == score.cumulative.shape == (5, 2)
    axes = score.plot(path_or_axes=Figure().add_subplot())
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), score.windowed[:, 0])
    nothing = progressive_val_score(model, [], metric=metric.clone())
    assert (nothing.rows.size, repr(nothing)) == (0, f"PerOutput ({model}, 0 rows)")


def scaled(model):
    return preprocessing.StandardScaler() | model


RIVERS = {
    "classifier": (lambda: linear_model.LogisticRegression(), metrics.LogLoss),
    "pipeline": (lambda: scaled(LeastSquaresClassifier()), metrics.Accuracy),
    "probabilities": (lambda: scaled(linear_model.LogisticRegression()), metrics.ROCAUC),
    "anomalies": (lambda: anomaly.HalfSpaceTrees(seed=1, n_trees=2, height=3), metrics.ROCAUC),
    "filter": (
        lambda: anomaly.QuantileFilter(anomaly.HalfSpaceTrees(seed=1, n_trees=2, height=3), q=0.9),
        metrics.ROCAUC,
    ),
    "clusters": (lambda: scaled(cluster.KMeans(n_clusters=2, seed=1)), metrics.Silhouette),
    "labels of clusters": (lambda: cluster.KMeans(n_clusters=2, seed=1), metrics.AdjustedRand),
    "active": (
        lambda: active.EntropySampler(linear_model.LogisticRegression(), seed=1),
        metrics.Accuracy,
    ),
    "rolling": (
        lambda: naive_bayes.GaussianNB(),
        lambda: utils.Rolling(metrics.Accuracy, window_size=20),
    ),
    "matrix": (lambda: scaled(naive_bayes.GaussianNB()), metrics.ConfusionMatrix),
}


@pytest.mark.parametrize("name", RIVERS)
@pytest.mark.parametrize("delay", [None, 3])
def test_any_model_of_river_goes_through(name, delay):
    make, metric = RIVERS[name]
    stream = list(islice(datasets.Phishing(), 150))
    expected = evaluate.progressive_val_score(stream, make(), metric(), delay=delay)
    score = progressive_val_score(make(), stream, metric=metric(), delay=delay, window=40)
    assert repr(score.metric) == repr(expected)
    np.testing.assert_array_equal(score.rows, [40, 80, 120, 150])
    X, y = zip(*stream, strict=True)
    assert repr(progressive_val_score(make(), X, y, metric(), delay=delay).metric) == repr(expected)


def test_pipelines_may_learn_during_predict():
    stream = list(islice(datasets.Phishing(), 150))
    make = lambda: scaled(linear_model.LogisticRegression())  # noqa: E731
    with compose.learn_during_predict():
        expected = evaluate.progressive_val_score(stream, make(), metrics.LogLoss())
        score = progressive_val_score(make(), stream, metric=metrics.LogLoss())
    assert text(score.metric) == text(expected)


def test_images_go_through_row_by_row_and_in_batches():
    random = np.random.default_rng(0)
    X, y = random.random((30, 8, 8)), random.integers(0, 2, 30)
    make = partial(ShallowConvClassifier.from_preset, "digits", warm_up=5, n_hidden=20)
    score = progressive_val_score(make(), X, y, metrics.Accuracy(), delay=2)
    stream = [({"image": image}, label) for image, label in zip(X, y.tolist(), strict=True)]
    expected = evaluate.progressive_val_score(stream, make(), metrics.Accuracy(), delay=2)
    assert repr(score.metric) == repr(expected)


@pytest.mark.parametrize(
    "how",
    [
        {"delay": 4},
        {"moment": "hour", "delay": dt.timedelta(hours=3)},
        {"moment": lambda x: x["hour"], "delay": lambda x, y: dt.timedelta(hours=x["a"])},
        {"delay": "a"},
        {"delay": lambda x, y: 2 + y},
        {"delay": 1.5},
    ],
)
def test_delays_and_moments_are_those_of_river(how):
    random = np.random.default_rng(0)
    start = dt.datetime(2020, 1, 1)
    stream = [
        ({"a": int(a), "hour": start + dt.timedelta(hours=row)}, bool(a > random.integers(9)))
        for row, a in enumerate(random.integers(0, 9, 60))
    ]
    make = lambda: compose.Select("a") | LoopedClassifier(1.0)  # noqa: E731
    expected = evaluate.progressive_val_score(stream, make(), metrics.LogLoss(), **how)
    score = progressive_val_score(make(), stream, metric=metrics.LogLoss(), **how)
    assert text(score.metric) == text(expected)


@given(
    truths=st.lists(st.sampled_from([True, False, "a", 0, 2]), max_size=30),
    kind=st.sampled_from([kind for kind in OF_LABELS if "Rolling" not in kind.__name__]),
    seed=st.integers(0, 1000),
    n_before=st.integers(0, 3),
)
@examples(200)
def test_metrics_in_bulk_are_in_the_state_of_updates_one_by_one(truths, kind, seed, n_before):
    random = np.random.default_rng(seed)
    labels = [True, False, "a", 0, 2, None]
    bulk, single = kind(), kind()
    if single.requires_labels:
        answers = [labels[k] for k in random.integers(0, len(labels), len(truths))]
    else:
        answers = [{True: p, "a": 1 - p} if p < 0.9 else {} for p in random.random(len(truths))]
    for metric in (bulk, single):
        for truth, answer in zip(truths[:n_before], answers, strict=False):
            if answer not in (None, {}):
                metric.update(truth, answer)
    update_many(bulk, truths[n_before:], answers[n_before:])
    for truth, answer in zip(truths[n_before:], answers[n_before:], strict=True):
        if answer not in (None, {}):
            single.update(truth, answer)
    assert state(bulk) == state(single)


@given(seed=st.integers(0, 1000), n_rows=st.integers(0, 30), n_before=st.integers(0, 3))
@pytest.mark.parametrize("kind", OF_NUMBERS)
@examples(10)
def test_means_in_bulk_are_in_the_state_of_updates_one_by_one(kind, seed, n_rows, n_before):
    random = np.random.default_rng(seed)
    truths, answers = random.random((2, n_rows)).tolist()
    bulk, single = kind(), kind()
    update_many(bulk, truths[:n_before], answers[:n_before])
    update_many(bulk, truths[n_before:], answers[n_before:])
    for truth, answer in zip(truths, answers, strict=True):
        single.update(truth, answer)
    assert state(bulk) == state(single)


def test_a_metric_with_an_update_of_its_own_is_updated_row_by_row():
    class Doubled(metrics.Accuracy):
        def update(self, y_true, y_pred, w=1.0):
            for _ in range(2):
                super().update(y_true, y_pred, w)

    doubled = Doubled()
    update_many(doubled, [1, 1, 2], [1, 1, 1])
    assert doubled.cm.n_samples == 6


@given(
    n_rows=st.integers(0, 40),
    window=st.integers(1, 45),
    batch_size=st.integers(1, 45),
    in_batches=st.booleans(),
    delay=st.sampled_from([None, 3]),
)
def test_learning_curves_are_those_of_metrics_per_window(
    n_rows, window, batch_size, in_batches, delay
):
    random = np.random.default_rng(n_rows)
    X, y = random.normal(size=(n_rows, 2)), random.integers(0, 3, n_rows).tolist()
    make = LoopedClassifier if in_batches else naive_bayes.GaussianNB
    # The answers, by river: one for every row, in the order in which targets come.
    stream = stream_of(X, y) if n_rows else []
    steps = evaluate.iter_progressive_val_score(
        stream, make(), metrics.Accuracy(), delay=delay, yield_predictions=True
    )
    answers = [each["Prediction"] for each in steps]
    metric = metrics.Accuracy() + metrics.MacroF1()
    settings = {"window": window, "batch_size": batch_size, "delay": delay}
    score = progressive_val_score(make(), stream, metric=metric, **settings)
    ends = [*range(window, n_rows, window), *([n_rows] if n_rows else [])]
    assert score.rows.tolist() == ends
    for row, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        for begin, curve in ((0, score.cumulative), (start, score.windowed)):
            for column, expected in enumerate((metrics.Accuracy(), metrics.MacroF1())):
                update_many(expected, y[begin:stop], answers[begin:stop])
                assert curve[row, column] == expected.get()
    assert score.seconds.shape == (len(ends),)
    assert (np.diff(score.seconds) >= 0.0).all()
    alone = progressive_val_score(make(), stream, metric=metrics.Accuracy(), **settings)
    np.testing.assert_array_equal(alone.windowed, score.windowed[:, 0])


@given(
    n_rows=st.integers(0, 30),
    step=st.integers(1, 35),
    batch_size=st.integers(1, 35),
    delay=st.sampled_from([None, 1, 3]),
    metric=st.sampled_from([metrics.Accuracy, metrics.LogLoss, LABELLED[-1]]),
)
def test_checkpoints_are_those_of_river(n_rows, step, batch_size, delay, metric):
    random = np.random.default_rng(n_rows)
    X, y = random.normal(size=(n_rows, 2)), random.integers(0, 2, n_rows) == 1
    stream = stream_of(X, y.tolist()) if n_rows else []
    theirs, ours = LoopedClassifier(1.0), LoopedClassifier(1.0)
    how = {"measure_time": True, "measure_memory": True, "yield_predictions": True}
    expected = evaluate.iter_progressive_val_score(
        stream, theirs, metric(), delay=delay, step=step, **how
    )
    came = iter_progressive_val_score(
        ours, X, y, metric(), delay=delay, step=step, batch_size=batch_size, **how
    )
    for wanted in expected:
        given = next(came)
        assert given.keys() == wanted.keys()
        for key in given.keys() - {"Time", "Memory"}:
            assert repr(given[key]) == repr(wanted[key])
        assert isinstance(given["Time"], dt.timedelta)
        assert given["Memory"] > 0
        assert ours.count == theirs.count
    assert next(came, None) is None
    bayes, step = naive_bayes.GaussianNB, {"delay": delay, "step": step}
    plain = iter_progressive_val_score(bayes(), stream, metric=metric(), **step)
    expected = evaluate.iter_progressive_val_score(stream, bayes(), metric(), **step)
    assert list(map(repr, plain)) == list(map(repr, expected))


def test_weights_and_times_are_learnt():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(50, 3)), random.normal(size=50)
    w, t = random.random(50), np.cumsum(random.random(50))
    make = lambda: LoopedRegressor(1.0, half_life=5.0)  # noqa: E731
    model, metric = make(), metrics.MAE()
    for x, target, weight, time in zip(samples_of(X), y, w, t, strict=True):
        metric.update(target, model.predict_one(x))
        model.learn_one(x, target, weight, time)
    score = progressive_val_score(make(), X, y, metrics.MAE(), w=w, t=t, batch_size=7)
    assert score.metric.get() == metric.get()
    triples = [
        (x, target, {"w": weight, "t": time})
        for x, target, weight, time in zip(samples_of(X), y, w, t, strict=True)
    ]
    score = progressive_val_score(make(), triples, metric=metrics.MAE(), batch_size=7)
    assert score.metric.get() == metric.get()
    assert triples[0][2].keys() == {"w", "t"}
    late = progressive_val_score(make(), X, y, metrics.MAE(), w=w, t=pd.Series(t), delay=4)
    of_stream = progressive_val_score(make(), triples, metric=metrics.MAE(), delay=4)
    assert late.metric.get() == of_stream.metric.get() != metric.get()
    same_time = progressive_val_score(make(), X, y, metrics.MAE(), w=2.0, t=1.0)
    assert same_time.metric.get() > 0.0


def test_a_model_that_has_learnt_goes_on():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), random.choice(["a", "b"], 40)
    theirs, ours = LoopedClassifier(1.0), LoopedClassifier(1.0)
    theirs_metric, ours_metric = metrics.CrossEntropy(), metrics.CrossEntropy()
    for part in (slice(0, 25), slice(25, 40)):
        stream = stream_of(X[part], y[part].tolist())
        evaluate.progressive_val_score(stream, theirs, theirs_metric)
        progressive_val_score(ours, X[part], y[part], ours_metric)
    assert text(ours_metric) == text(theirs_metric)


def test_what_is_refused_before_anything_changes():
    X, y = np.ones((3, 2)), ["a", "b", "a"]
    accuracy, stream = metrics.Accuracy(), [({"a": 1.0}, "a")]
    frame = pd.DataFrame(X, index=[1, 2, 3])
    model = LoopedClassifier()
    for arguments, options, error, message in [
        ((stream, model, accuracy), {}, TypeError, "model=.*learn_one.*in this order: model, X, y"),
        ((LoopedClassifier, X, y, accuracy), {}, TypeError, "model=<class.*LeastSquaresClassifier"),
        ((model, stream, accuracy), {}, TypeError, "y is the metric.*metric by its name"),
        ((model, X, y), {}, TypeError, "metric=None is not a river metric.*river.metrics.Accuracy"),
        ((model, X, y, metrics.Accuracy), {}, TypeError, "metric=<class"),
        ((model, X, y, metrics.MAE()), {}, TypeError, "metric=MAE.. does not work.*numbers for"),
        (
            (preprocessing.StandardScaler(), X, y, accuracy),
            {},
            TypeError,
            "does not work with Stan",
        ),
        ((model, X), {"metric": accuracy}, TypeError, "y is None with X of type ndarray.*Pass y"),
        ((model, frame), {"metric": accuracy}, TypeError, "y is None with X of type DataFrame"),
        ((model, 5), {"metric": accuracy}, TypeError, "X is of type int, expected a table or a s"),
        ((model, iter(stream), y, accuracy), {}, TypeError, r"expected an array.*Pass list\(X\)"),
        ((model, X, y[:2], accuracy), {}, ValueError, "y has 2 targets, expected 3. Pass one"),
        ((model, X, np.ones((3, 2)), accuracy), {}, ValueError, r"y has shape \(3, 2\)"),
        ((model, frame, pd.Series(y, index=[3, 2, 1]), accuracy), {}, ValueError, "another order"),
        ((model, X, y, accuracy), {"w": [1.0]}, ValueError, r"w has shape \(1,\)"),
        ((model, X, y, accuracy), {"w": -1.0}, ValueError, "w holds -1.0"),
        ((model, X, y, accuracy), {"t": [1.0]}, ValueError, "t has 1 times, expected 3"),
        ((model, X, y, accuracy), {"t": iter([1.0])}, TypeError, r"Pass list\(t\)"),
        ((model, stream), {"metric": accuracy, "w": 1.0}, TypeError, "w is given.*triples"),
        ((model, X, y, accuracy), {"delay": -1}, ValueError, "delay=-1"),
        ((model, X, y, accuracy), {"delay": True}, TypeError, "delay=True"),
        ((model, X, y, accuracy), {"delay": dt.timedelta(1)}, TypeError, "delay=.*Pass moment"),
        ((model, X, y, accuracy), {"moment": "a"}, ValueError, "delay is None.*Pass delay"),
        ((model, X, y, accuracy), {"moment": 3, "delay": 1}, TypeError, "moment=3"),
        ((model, X, y, accuracy), {"batch_size": 0}, ValueError, "batch_size=0"),
    ]:
        for score in (progressive_val_score, iter_progressive_val_score):
            with pytest.raises(error, match=message):
                score(*arguments, **options)
    for options, error, message in [
        ({"window": 0}, ValueError, "window=0"),
        ({"window": 2.5}, TypeError, "window=2.5"),
        ({"progress": "yes"}, TypeError, "progress='yes'"),
        ({"name": 3}, TypeError, "name=3"),
    ]:
        with pytest.raises(error, match=message):
            progressive_val_score(model, X, y, accuracy, **options)
    with pytest.raises(ValueError, match="step=0"):
        iter_progressive_val_score(model, X, y, accuracy, step=0)
    assert model.count == accuracy.cm.n_samples == 0


def test_what_is_refused_on_the_way():
    row = {"a": 1.0}
    for stream, error, message in [
        ([row], TypeError, "Row 0 of the stream is .*expected a pair.*Pass pairs"),
        ([(row, "a"), (row, "a", 2.0)], TypeError, "Row 1 .*third entry, expected a dict"),
        (
            [(row, "a", {"x": 2.0})],
            TypeError,
            "Row 0 .* has 'x' in its dict, expected .*: w, t. Leave",
        ),
        ([(row, "a", {"t": 2.0}), (row, "b")], ValueError, "no t, expected a time in every row"),
    ]:
        with pytest.raises(error, match=message):
            progressive_val_score(LoopedClassifier(), stream, metric=metrics.Accuracy())
    X = np.ones((9, 2))
    X[7] = np.nan
    model = LeastSquaresClassifier()
    with pytest.raises(ValueError, match="nan"):
        progressive_val_score(model, X, [0] * 9, metrics.Accuracy(), batch_size=3)
    assert model.count in (6, 7)


def score_of(metric, n_rows=250, **settings):
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    return progressive_val_score(LoopedClassifier(), X, X[:, 0] > 0, metric, **settings)


def test_a_score_prints_in_one_line():
    assert repr(score_of(metrics.Accuracy())).startswith("Accuracy: 9")
    assert repr(score_of(metrics.Accuracy())).endswith("% (LoopedClassifier, 250 rows)")
    both = repr(score_of(metrics.Accuracy() + metrics.LogLoss(), name="of two"))
    assert both.startswith("Accuracy: ")
    assert ", LogLoss: 0." in both
    assert both.endswith(" (of two, 250 rows)")
    assert repr(score_of(metrics.ConfusionMatrix())).startswith("ConfusionMatrix (Looped")
    nothing = progressive_val_score(LoopedClassifier(), [], metric=metrics.Accuracy())
    assert repr(nothing) == "Accuracy: 0.00% (LoopedClassifier, 0 rows)"
    model = preprocessing.StandardScaler() | linear_model.LinearRegression(optim.SGD(0.1))
    score = progressive_val_score(model, datasets.TrumpApproval(), metric=metrics.MAE())
    assert repr(score).endswith(" (StandardScaler | LinearRegression, 1,001 rows)")


def test_a_bar_shows_how_far_an_evaluation_is(capsys, monkeypatch):
    pytest.importorskip("rich")
    stream = datasets.Phishing()
    model = naive_bayes.GaussianNB()
    progressive_val_score(model, stream, metric=metrics.Accuracy(), name="[b]mine", progress=True)
    shown = capsys.readouterr().err
    assert "[b]mine" in shown
    assert "1250/1250" in shown
    assert "Accuracy: " in shown
    progressive_val_score(LoopedClassifier(), iter([]), metric=metrics.Accuracy(), progress=True)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"pip install 'onlinels\[demos\]'"):
        score_of(metrics.Accuracy(), progress=True)


def test_learning_curves_are_drawn(tmp_path, monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot

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
    shown = one.plot()
    assert shown.figure.number in pyplot.get_fignums()
    pyplot.close(shown.figure)
    n_open = pyplot.get_fignums()
    one.plot(path_or_axes=tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size
    assert pyplot.get_fignums() == n_open
    matrix = score_of(metrics.ConfusionMatrix())
    for score, others, options, error, message in [
        (one, (3,), {}, TypeError, "others=3 must be a ProgressiveScore"),
        (
            one,
            (score_of(metrics.F1(), window=100),),
            {},
            ValueError,
            "has the metrics .*F1.*not 'Accuracy'",
        ),
        (one, (), {"metric": "R2"}, ValueError, "not 'R2'. Pass one of them"),
        (matrix, (), {}, ValueError, "ConfusionMatrix of .*no values to draw"),
        (one, (), {"path_or_axes": 5}, TypeError, "path_or_axes=5 is neither a path nor axes"),
        (one, (), {"path_or_axes": pyplot}, TypeError, "neither a path nor axes"),
    ]:
        with pytest.raises(error, match=message):
            score.plot(*others, **options)
    assert isinstance(one, ProgressiveScore)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'onlinels\[demos\]'"):
        one.plot()


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_classes_that_are_forgotten_at_an_alarm(kind):
    y = ["a", "b"] * 50 + ["c"] + ["a", "b"] * 400
    X = np.array([[1.0 if label == "a" else -1.0] for label in y])
    X[500:] *= -1.0
    model, other = (DriftAwareClassifier(LeastSquaresClassifier(1.0)) for _ in range(2))
    found = progressive_val_score(model, kind(X), y, metrics.CrossEntropy())
    rows_of = zip(samples_of(kind(X)), y, strict=True)
    expected = evaluate.progressive_val_score(rows_of, other, metrics.CrossEntropy())
    assert found.metric.get() == pytest.approx(expected.get())
    assert model.n_alarms == other.n_alarms > 0


PAIRS = list(datasets.Phishing().take(300))


def broken_off(pairs, after):
    for number, pair in enumerate(pairs):
        if number == after:
            raise OSError("the line is dead")
        yield pair


@pytest.mark.parametrize("delay", [None, 10])
def test_rows_before_an_error_of_the_stream_count(delay):
    model, metric = LeastSquaresClassifier(1.0), metrics.ConfusionMatrix()
    stream = broken_off(PAIRS, 230)
    with pytest.raises(OSError, match="the line is dead"):
        progressive_val_score(model, stream, metric=metric, delay=delay, batch_size=50)
    learnt = 230 - (delay or 0)
    # Answers that are None are not counted: those before the first row is learnt.
    assert (model.count, metric.n_samples) == (learnt, learnt - (delay or 1))


def test_errors_name_the_row_of_the_stream_and_not_of_its_batch():
    X, y = np.zeros((500, 2)), ["a", "b"] * 250
    wrong, unknown = X.copy(), y.copy()
    wrong[321, 1], unknown[321] = np.nan, None
    rows, images = [{"a": 1.0}] * 500, [{"image": np.zeros((2, 3))}] * 500
    rows[321], images[321] = {"a": None}, {"image": np.full((2, 3), np.inf)}
    for X_given, y_given, message in [
        (wrong, y, r"^X holds nan at position \(321, 1\)"),
        (pd.DataFrame(wrong, columns=["a", "b"]), y, "^X holds nan in row 321 of column 'b'"),
        (rows, y, r"^X\[321\]\['a'\] is None"),
        (images, y, r"^X\[321\]\['image'\] holds inf at position \(0, 0\)"),
        (X, unknown, r"^y\[321\] is None"),
        (zip(rows, y, strict=True), None, r"^X\[321\]\['a'\] is None"),
    ]:
        model = LeastSquaresClassifier(1.0)
        with pytest.raises(ValueError, match=message):
            progressive_val_score(model, X_given, y_given, metrics.Accuracy(), batch_size=100)
        assert model.count == 300


def test_arguments_that_a_model_does_not_take_are_named():
    X, y = np.zeros((4, 1)), list("abab")
    with pytest.raises(
        TypeError, match=r"^t is given, expected .* StreamClassifier.* Leave 't' out"
    ):
        progressive_val_score(StreamClassifier(), X, y, metrics.Accuracy(), t=[1, 2, 3, 4])


@pytest.mark.parametrize("delay", [None, 3])
@pytest.mark.parametrize(
    ("make", "metric"), [(StreamClassifier, metrics.LogLoss), (StreamRegressor, metrics.MAE)]
)
def test_models_of_dict_streams_learn_weights(make, metric, delay):
    random = np.random.default_rng(0)
    X, w = random.normal(size=(60, 2)), random.choice([0.0, 0.5, 3.0], 60)
    y = (X[:, 0] * X[:, 1] > 0.0).tolist()
    stream = stream_of(X, y, w)
    ours = progressive_val_score(make(), stream, metric=metric(), delay=delay)
    table = progressive_val_score(make(), X, y, metric(), w=w, delay=delay)
    stream = stream_of(X, y, w)
    theirs = evaluate.progressive_val_score(stream, make(), metric(), delay=delay)
    unweighted = progressive_val_score(make(), X, y, metric(), delay=delay).metric.get()
    assert ours.metric.get() == table.metric.get() == pytest.approx(theirs.get())
    assert ours.metric.get() != pytest.approx(unweighted, rel=1e-3)


class Unweighted(LeastSquaresClassifier):
    """Learns rows without weights."""

    def learn_one(self, x, y):
        super().learn_one(x, y)

    def predict_learn_many(self, X, y):
        return super().predict_learn_many(X, y)


@pytest.mark.parametrize("delay", [None, 3])
def test_weights_are_refused_where_none_are_learnt(delay):
    stream = [(x, y, {"w": 2.0}) for x, y in PAIRS]
    model = Unweighted()
    with pytest.raises(TypeError, match=r"Unweighted\.learn_one: none. Leave 'w' out"):
        progressive_val_score(model, stream, metric=metrics.Accuracy(), delay=delay)
    X, y = [x for x, _ in PAIRS], [y for _, y in PAIRS]
    with pytest.raises(TypeError, match=r"Unweighted\.learn_one: none. Leave 'w' out"):
        progressive_val_score(model, X, y, metrics.Accuracy(), w=2.0, delay=delay)
    assert not model.classes


def test_a_stream_may_use_its_dict_again():
    def rows():
        x = {}
        for pair in PAIRS:
            x.clear()
            x.update(pair[0])
            yield x, pair[1]

    found, expected = (
        progressive_val_score(LeastSquaresClassifier(1.0), stream, metric=metrics.Accuracy())
        for stream in (rows(), PAIRS)
    )
    assert found.metric.get() == expected.metric.get()


def test_short_errors_for_what_is_no_model_no_metric_or_no_pair():
    accuracy = metrics.Accuracy()
    for call, said in (
        (lambda: progressive_val_score(PAIRS, LeastSquaresClassifier(), metric=accuracy), "order"),
        (lambda: progressive_val_score(LeastSquaresClassifier(), "f.csv", metric=accuracy), "file"),
        (
            lambda: progressive_val_score(LeastSquaresClassifier(), PAIRS, metric=[accuracy]),
            r"joined by \+",
        ),
        (
            lambda: progressive_val_score(
                LeastSquaresClassifier(), [(y, x) for x, y in PAIRS], metric=accuracy
            ),
            r"Row 0 of the stream is a pair \(y, x\)",
        ),
    ):
        with pytest.raises(TypeError, match=said) as caught:
            call()
        assert len(str(caught.value)) < 1000


def test_scores_that_cannot_be_drawn_or_said():
    nothing = progressive_val_score(LeastSquaresClassifier(), [], metric=metrics.Accuracy())
    with pytest.raises(ValueError, match="has no values to draw"):
        nothing.plot()
    wide, narrow = (
        progressive_val_score(
            LeastSquaresClassifier(), PAIRS, metric=metrics.Accuracy(), window=window
        )
        for window in (200, 100)
    )
    with pytest.raises(ValueError, match=r"windows of 100 rows, .* of 200"):
        wide.plot(narrow)
    labels = [1, "a", (1, 2)] * 10
    stream = [({"a": float(number)}, label) for number, label in enumerate(labels)]
    mixed = progressive_val_score(
        LeastSquaresClassifier(), stream, metric=metrics.ConfusionMatrix()
    )
    assert repr(mixed) == "ConfusionMatrix (LeastSquaresClassifier, 30 rows)"


@pytest.mark.parametrize(
    ("how", "said"),
    [({"moment": "nope", "delay": 2}, "moment='nope'"), ({"delay": "late"}, "delay='late'")],
)
def test_moments_and_delays_are_names_of_features(how, said):
    with pytest.raises(ValueError, match=f"{said} is not a feature of row 0 of the stream"):
        progressive_val_score(LeastSquaresClassifier(1.0), PAIRS, metric=metrics.Accuracy(), **how)


def test_models_that_do_not_tell_their_arguments_are_given_all():
    class Compiled:
        # A function of C without a signature.
        learn_one = max

    Arguments(Compiled()).check(["w", "z"], "{}")
