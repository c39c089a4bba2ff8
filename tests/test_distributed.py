"""Dask's workers teach the model of one process: any chunks, any kind of collection."""

import json
import os
import signal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, preprocessing
from sklearn.datasets import load_digits

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
)
from support import laws, strategies
from support.slow import the_rest_slow

dask = pytest.importorskip("dask", reason="dask comes with the extra dask")
array = pytest.importorskip("dask.array")
frames = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("onlinels.distributed")

fit, predict = distributed.fit, distributed.predict


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def whole_numbers(n_rows, n_features, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(-9, 10, (n_rows, n_features)).astype(float)


X, Y = whole_numbers(60, 3), whole_numbers(60, 1)[:, 0]


def assert_same(model, other, rtol=1e-9):
    assert (model.count, model.feature_names) == (other.count, other.feature_names)
    assert model.ridge_ == pytest.approx(other.ridge_, rel=1e-6)
    np.testing.assert_allclose(model.output_weights, other.output_weights, rtol=rtol, atol=1e-9)
    np.testing.assert_allclose(model.intercept, other.intercept, rtol=rtol, atol=1e-9)


def in_parts(values, lengths):
    """Return the parts of an array or frame."""
    ends = np.cumsum(lengths)
    return [values[end - n : end] for n, end in zip(lengths, ends, strict=True)]


def as_array(values, lengths, is_known):
    whole = array.from_array(values, chunks=(lengths, *values.shape[1:]))
    # Chunks of unknown lengths.
    return whole if is_known else whole[array.from_array(np.ones(len(values), bool), (lengths,))]


def as_frame(values, lengths, _):
    table = pd.DataFrame(values) if values.ndim > 1 else pd.Series(values)
    # By hand: from_pandas leaves out empty partitions.
    parts = [dask.delayed(part) for part in in_parts(table, lengths)]
    return frames.from_delayed(parts, meta=table.iloc[:0])


@strategies.examples(50)
@given(
    st.data(),
    st.booleans(),
    st.sampled_from(["gram", "orthogonal", "recursive"]),
    st.sampled_from(["auto", "standard", None]),
)
def test_any_chunks_of_any_kinds_give_the_model_of_one_process(data, several, accumulator, scaling):
    """Or they are refused: unless all are arrays of known lengths, partitions must agree."""
    n_rows, kinds = data.draw(st.integers(2, 40)), st.sampled_from([as_array, as_frame])
    X = whole_numbers(n_rows, data.draw(st.integers(1, 5)), data.draw(st.integers(0, 9)))
    y = X[:, :1] * [1.0, 2.0] + whole_numbers(n_rows, 2)
    pieces = [X, y if several else y[:, 0], np.arange(n_rows) % 3.0]
    pieces = pieces[: data.draw(st.sampled_from([2, 3]))]
    cut = data.draw(strategies.cuts(n_rows))
    lengths = [cut, data.draw(st.just(cut) | strategies.cuts(n_rows)), cut]
    makers = [data.draw(kinds) for _ in pieces]
    known = [data.draw(st.booleans()) for _ in pieces]
    made = [make(*each) for make, *each in zip(makers, pieces, lengths, known, strict=False)]
    folds = [KFold(3)] if accumulator != "orthogonal" else []
    ridge = data.draw(st.sampled_from([1.0, "auto", "paper", *folds]))
    kind = LeastSquaresMultiTargetRegressor if several else LeastSquaresRegressor
    model = kind(ridge, accumulator, data.draw(st.booleans()), scaling=scaling)
    # Empty partitions are nowhere.
    full = [tuple(filter(None, each)) for each in lengths]
    if full[0] != full[1] and (as_frame in makers[:2] or not all(known[:2])):
        message = r"Partition \d+: (X has 0 rows|y has)|y has \d+ partitions|y has another index"
        with pytest.raises(ValueError, match=message):
            fit(model, *made)
        return
    fitted = fit(model, *made, split_every=data.draw(st.sampled_from([None, 2, 5])))
    whole = laws.fitted(model.empty(), *pieces)
    assert (model.count, fitted.count) == (0, n_rows)
    # The ridge of one process is that of its last checkpoint.
    whole.select_ridge()
    assert_same(fitted, whole + whole.empty(), 1e-6)
    asked = predict(fitted, as_frame(X, lengths[0], True)).compute()
    np.testing.assert_allclose(asked, fitted.predict_many(X), rtol=1e-9, atol=1e-9)


DIGITS, LABELS = load_digits(return_X_y=True)


def test_networks_of_fixed_features_and_pipelines():
    network = ShallowConvClassifier.from_preset("digits", n_hidden=50, warm_up=40)
    network.learn_many(DIGITS[:60], LABELS[:60])
    layer = HiddenLayer.from_examples(DIGITS[:50], n_hidden=20) | LeastSquaresClassifier(1.0)
    pieces = DIGITS[60:200], LABELS[60:200]
    rest = [array.from_array(each, chunks=(31, *each.shape[1:])) for each in pieces]
    for model in (network, layer):
        whole = fit(model, *(each.rechunk({0: -1}) for each in rest))
        ours, theirs = (each.predict_many(DIGITS[200:300]) for each in (fit(model, *rest), whole))
        assert (np.asarray(ours) == np.asarray(theirs)).mean() > 0.99


def test_frames_and_delayed_batches():
    frame = pd.DataFrame({"age": [23.0, 61.0, 35.0, 58.0] * 5, "visits": [1.0, 0.0, 3.0, 0.0] * 5})
    y = pd.Series(["no", "yes", "no", "yes"] * 5)
    model = HiddenLayer(5, seed=1) | LeastSquaresClassifier(1.0)
    whole = laws.fitted(model.clone(), frame, y)
    batch = dask.delayed(lambda part: (frame.iloc[part], y.iloc[part]), pure=False)
    for given_ in (
        (frames.from_pandas(frame, npartitions=3), frames.from_pandas(y, npartitions=3)),
        ([batch(slice(0, 7)), batch(slice(7, 20))],),
        ([dask.delayed((frame.to_dict("records"), y.tolist()))],),
    ):
        fitted = fit(model, *given_)
        last = fitted["LeastSquaresClassifier"]
        assert_same(last, whole["LeastSquaresClassifier"])
    asked = predict(whole, frames.from_pandas(frame, npartitions=2)).compute()
    assert asked.tolist() == whole.predict_many(frame).tolist()
    assert asked.index.tolist() == frame.index.tolist()
    for given_ in (frame, frame.to_dict("records")):
        (one,) = dask.compute(*predict(whole, [dask.delayed(given_)]))
        assert list(one) == asked.tolist()


def test_what_cannot_be_is_refused_before_anything_is_computed():
    X, y = array.ones((6, 2), chunks=(3, 2)), array.zeros(6, chunks=3)
    three = array.ones(6, chunks=2)
    model = LeastSquaresRegressor()
    scaler = preprocessing.StandardScaler() | LeastSquaresRegressor()
    calibrated = CalibratedClassifier(LeastSquaresClassifier())
    dead = [dask.delayed(1 / 1), dask.delayed(2)]
    named = LeastSquaresRegressor()
    named.learn_one({"age": 1.0}, 1.0)
    table = frames.from_pandas(pd.DataFrame({"a": np.arange(6.0)}), npartitions=3)
    for error, text, call in (
        (TypeError, "expected a linear model", lambda: fit(StreamClassifier(), X, y)),
        (TypeError, "fit the model inside", lambda: fit(calibrated, X, y)),
        (ValueError, "'StandardScaler' learns", lambda: fit(scaler, X, y)),
        (ValueError, "cannot forget", lambda: fit(LeastSquaresRegressor(half_life=3.0), X, y)),
        (ValueError, "fixed", lambda: fit(ShallowConvClassifier.from_preset("digits"), X, y)),
        (ValueError, "split_every=1", lambda: fit(model, X, y, split_every=1)),
        (ValueError, "all columns in one chunk", lambda: fit(model, X.rechunk((3, 1)), y)),
        (TypeError, "expected a dask", lambda: fit(model, np.ones((2, 2)), [1.0, 2.0])),
        (TypeError, "expected a dask array or series", lambda: fit(model, X, [1.0] * 6)),
        (ValueError, "y has 7 rows", lambda: fit(model, X, array.zeros(7, chunks=(3, 3, 1)))),
        (ValueError, "has 3 partitions", lambda: fit(model, X, three[three > 0.0])),
        (ValueError, "names", lambda: fit(named, X, y)),
        (ValueError, r"to_dask_array\(lengths=True\)", lambda: fit(model, X, table["a"])),
        (TypeError, "an entry for each row", lambda: fit(model, X, y.sum())),
        (ValueError, r"to_dask_array\(lengths=True\)", lambda: fit(model, table, y)),
        (ValueError, "in X alone", lambda: fit(model, dead, y)),
    ):
        with pytest.raises(error, match=text):
            call()


def test_a_partition_that_is_refused_is_named():
    x, y = array.ones((6, 2), chunks=(3, 2)), array.zeros(6, chunks=3)
    with_nan = np.where(np.arange(6)[:, None] == 4, np.nan, np.ones((6, 2)))
    frame = pd.DataFrame({"a": np.arange(6.0)})
    table = frames.from_pandas(frame, npartitions=2)
    mixed = frames.from_pandas(frame["a"].sample(frac=1.0, random_state=0), 2, sort=False)
    for error, text, given_ in (
        (ValueError, "Partition 1: .*nan", (array.from_array(with_nan, chunks=(3, 2)), y)),
        (ValueError, r"Partition \d: y has shape \(3, 2\), expected \(n_rows,\)", (x, x)),
        (ValueError, r"Partition \d: y has shape \(3, 1\).*Pass one column", (x, table)),
        (ValueError, r"Partition \d: w has shape \(3, 2\), expected \(3,\)", (x, y, x)),
        (ValueError, r"Partition \d: y has another index than X", (table, mixed)),
        (TypeError, "Partition 1: y is of type NoneType", delayed((X, None, Y))),
        (TypeError, "Partition 1: a batch is of type ndarray", delayed(X)),
        (ValueError, "Partition 1: y has 60 targets, expected 0", delayed((X[:0], Y))),
        (TypeError, "Partition 1: X is of type generator", delayed(((x for x in X), Y))),
    ):
        with pytest.raises(error, match=f"^{text}"):
            fit(LeastSquaresRegressor(1.0), *given_)


def delayed(batch):
    """Return delayed batches of which the second is odd."""
    return ([dask.delayed((X, Y)), dask.delayed(lambda: batch)()],)


@pytest.mark.parametrize("progress", [False, True])
def test_progress_is_shown(progress, capsys):
    X = array.ones((10, 2), chunks=(3, 2))
    fit(LeastSquaresRegressor(1.0), X, X[:, 0], progress=progress)
    assert bool(capsys.readouterr().out) == progress


@pytest.mark.parametrize("deadly", the_rest_slow([None, 0, 12, 23]))
def test_a_cluster_gives_the_same_whoever_dies(deadly, tmp_path):
    """The first process that reads a batch is killed, with what it has learnt of others."""
    cluster, grave = pytest.importorskip("distributed"), tmp_path / "grave"

    def batch(number):
        if number == deadly and not grave.exists():
            grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        X = np.random.default_rng(number).integers(-9, 10, (2000, 30)).astype(float)
        return X, X[:, 0] - 2.0 * X[:, 1]

    size = {"n_workers": 3, "threads_per_worker": 1, "processes": deadly is not None}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "10s", "scheduler": None}),
        # The first argument by position is its name.
        cluster.LocalCluster(**size, dashboard_address=":0") as local,
        cluster.Client(local) as client,
    ):
        parts = [dask.delayed(batch, pure=False)(number) for number in range(24)]
        fitted = fit(LeastSquaresRegressor(1.0), parts)
        # Tasks may fit, too.
        counts = client.map(lambda part: fit(LeastSquaresRegressor(1.0), [part]).count, parts[:2])
        assert client.gather(counts, errors="raise") == [2000, 2000]
    assert grave.exists() == (deadly is not None)
    whole = LeastSquaresRegressor(1.0)
    for number in range(24):
        whole.learn_many(*batch(number))
    assert fitted.count == whole.count
    np.testing.assert_allclose(fitted.output_weights, whole.output_weights, atol=1e-12)


def test_other_exceptions_have_the_number_of_the_partition_in_a_note():
    texts = [dask.delayed(([{"a": "1"}, {"a": "{"}], [1.0, 2.0]))]
    parse = compose.FuncTransformer(lambda x: {"a": float(json.loads(x["a"]))})
    with pytest.raises(json.JSONDecodeError) as raised:
        fit(parse | LeastSquaresRegressor(1.0), texts)
    assert raised.value.__notes__ == ["Raised while partition 0 was learnt."]


def test_answers_for_partitions_without_rows():
    model = laws.fitted(LeastSquaresClassifier(), X, np.where(Y > 0.0, "some", "none"))
    lazy = array.from_array(X, chunks=(20, 3))
    kept = X[:, 0] > 8.0
    expected = model.predict_many(X[kept]).tolist()
    assert predict(model, lazy[lazy[:, 0] > 8.0]).compute().tolist() == expected
    assert predict(model, lazy[:0]).compute().tolist() == []
    parts = predict(model, [dask.delayed(X[:0]), dask.delayed([]), dask.delayed(X[kept])])
    assert [list(each) for each in dask.compute(*parts)] == [[], [], expected]


def test_fit_and_predict_are_of_the_model_as_it_was_when_they_were_called():
    X = whole_numbers(40, 3)
    model = laws.fitted(LeastSquaresRegressor(1.0), X[:10], X[:10, 0])

    def teaches(block):
        # As another thread may, between the call and what is computed.
        model.learn_one({0: 1.0}, 100.0)
        return block

    rows = array.from_array(X[10:], chunks=(10, 3)).map_blocks(teaches, dtype=float, meta=X[:0])
    asked = distributed.predict(model, rows)
    wanted = model.predict_many(X[10:])
    fitted = distributed.fit(model, rows, array.from_array(X[10:, 0], chunks=10))
    assert model.count > 10
    assert fitted.count == 40
    np.testing.assert_array_equal(asked.compute(), wanted)
