"""Devices send sums as bytes and take weights: no row is lost or counts twice, no bytes do harm."""

import re
import struct
from fractions import Fraction
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import (
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    difference,
    merge,
)
from onlinels.__main__ import main
from onlinels.devices import (
    HEAD,
    _label_bytes,
    device_weights,
    fingerprint,
    merge_devices,
    read_device,
)
from onlinels.from_sums import classifier_from_sums, regressor_from_sums
from onlinels.sites import merge_files
from support import harness
from support.device import Device, Slots
from support.strategies import examples


@pytest.fixture(scope="module", params=["C99, float", "C99"])
def library(request, tmp_path_factory):
    return harness.compiled("portable", request.param, tmp_path_factory.mktemp("portable"))


def exported(kind, m, n=1, **settings):
    """Return a model that knows m features, and n targets, by one row."""
    model = kind(**({"ridge": 1.0} | settings))
    y = {LeastSquaresClassifier: "stop", LeastSquaresRegressor: 1.0}.get(kind)
    y = y or {f"y{k}": 1.0 for k in range(n)}
    model.learn_one({f"x{i}": 1.0 for i in range(m)}, y)
    return model


def frame(X):
    return [{f"x{i}": float(x) for i, x in enumerate(row)} for row in X]


def learnt(model, X, Y, w=None):
    """Return a model that has learnt rows here."""
    new, y = model.empty(), Y
    if isinstance(model, LeastSquaresMultiTargetRegressor):
        y = [{f"y{k}": float(each) for k, each in enumerate(row)} for row in Y]
    elif isinstance(model, LeastSquaresRegressor):
        y = Y[:, 0]
    new.learn_many(frame(X), y, w)
    return new


LABELS = [("run", "stop", "é"), (3, -1, 20), (True, False), ("a", 1, False)]


@st.composite
def cases(draw, is_whole):
    """Draw a model, the labels that its devices know, and rows with their targets and weights."""
    m, n, k = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 40))
    kinds = LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor
    kind = draw(st.sampled_from(kinds))
    settings = {
        "fit_intercept": draw(st.booleans()),
        "accumulator": draw(st.sampled_from(["gram", "recursive"])),
        "ridge": draw(st.sampled_from([1.0, "auto", 1e-3])),
    }
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, labels = draw(st.sampled_from([3, 300, 32767])), draw(st.sampled_from(LABELS))
    X = random.integers(-size, size + 1, (k, m))
    if draw(st.booleans()):
        X[:, random.integers(m)] = draw(st.sampled_from([0, size]))
    if kind is LeastSquaresClassifier:
        Y = [labels[i] for i in random.integers(0, len(labels), k)]
    else:
        labels, Y = (), random.integers(-size, size + 1, (k, 1 if kind is not kinds[2] else n))
    if not is_whole:
        X = X + draw(st.sampled_from([0.0, 1000.0])) + random.normal(size=X.shape)
    return exported(kind, m, n, **settings), labels, X, Y, random


def bits(model):
    """Return the sums of a model as bytes, and its weights."""
    sums = onlinels.pipelines.last_step(model)._state.statistics
    arrays = *sums.products.gram_and_cross(), sums.squares_of_targets, *(sums.mean or ())
    return [np.triu(each).tobytes() if each.ndim == 2 else each.tobytes() for each in arrays]


# -- whole numbers --------------------------------------------------------------------------------


@given(case=cases(is_whole=True), data=st.data())
@examples(60)
def test_whole_numbers_have_the_same_bits_however_devices_share_them(library, case, data):
    model, labels, X, Y, random = case
    whole = merge_devices(model, [Device(library, model, labels).wholes(X, Y)])
    of_row, sent = random.integers(0, 4, len(X)), []
    for number in range(4):
        rows = np.flatnonzero(of_row == number)
        device = Device(library, model, tuple(random.permutation(labels).tolist()), number)
        if isinstance(labels, tuple) and len({*map(type, labels)}) > 1:
            device = device._replace(labels=labels)
        for serial, end in enumerate(sorted({0, len(rows) // 2, len(rows)}), 7):
            part = rows[:end]
            targets = [Y[i] for i in part] if labels else np.asarray(Y)[part]
            sent += [device.wholes(X[part], targets, serial)] * int(random.integers(1, 3))
    lines = []
    merged = merge_devices(model, data.draw(st.permutations(sent)), lines.append)
    assert onlinels.dumps(merged) == onlinels.dumps(whole)
    assert merged.count == len(X)
    assert len([line for line in lines if line.endswith("rows, exact")]) == 4


@given(case=cases(is_whole=True))
@examples(60)
def test_whole_numbers_equal_a_model_that_has_learnt_them_here(library, case):
    model, labels, X, Y, _ = case
    read = read_device(Device(library, model, labels).wholes(X, Y), model)
    here = learnt(model, X, Y)
    assert (read.rounding, read.rows, read.model.count) == (0.0, len(X), len(X))
    order = (
        [here.classes.index(each) for each in read.model.classes]
        if labels
        else [*range(Y.shape[1])]
    )
    mine, theirs = (each._state.statistics for each in (read.model, here))
    sizes, m = np.sqrt(theirs.raw_squares), X.shape[1]
    (gram, cross), (own, own_cross) = (each.products.gram_and_cross() for each in (mine, theirs))
    most = 1e-14 * np.outer(sizes, sizes) + 1e-300
    assert (np.abs(np.triu(gram - own)) <= most[:m, :m]).all()
    assert (np.abs(cross - own_cross[:, order]) <= most[:m, m:][:, order]).all()
    if labels:
        assert {*read.model.classes} == {*here.classes}
        assert (read.model._state.counts == here._state.counts[order]).all()
    if not model.fit_intercept and (not labels or read.model.classes == here.classes):
        assert bits(read.model) == bits(here)
        for each in (read.model, here):
            if model.ridge == "auto":  # From the same rows.
                each.select_ridge()
        assert (read.model.output_weights == here.output_weights).all()


@given(case=cases(is_whole=True))
@examples(40)
def test_every_exact_sum_about_the_mean_is_the_nearest_float64(library, case):
    model, labels, X, Y, _ = case
    read = read_device(Device(library, model, labels).wholes(X, Y), model).model
    targets = [[int(y == label) for label in read.classes] for y in Y] if labels else Y
    columns = np.hstack((X, np.reshape(targets, (len(X), -1)))).astype(object)
    m, n = X.shape[1], len(X)
    totals = columns.sum(axis=0) if model.fit_intercept else 0 * columns[0]
    exact = n * columns.T.dot(columns) - np.multiply.outer(totals, totals)
    nearest = np.array([[float(Fraction(int(each), n)) for each in row] for row in exact])
    sums = read._state.statistics
    gram, cross = sums.products.gram_and_cross()
    np.testing.assert_array_equal(np.triu(gram), np.triu(nearest[:m, :m]))
    np.testing.assert_array_equal(cross, nearest[:m, m:])
    np.testing.assert_array_equal(sums.squares_of_targets, nearest.diagonal()[m:])
    means = [float(Fraction(int(each), n)) for each in totals]
    np.testing.assert_array_equal(sums.centre, means)


def test_models_from_exact_sums_have_the_same_bits(library):
    random = np.random.default_rng(0)
    X, y = random.integers(-50, 50, (300, 4)), random.integers(0, 3, 300)
    model = exported(LeastSquaresClassifier, 4, ridge="auto")
    read = read_device(Device(library, model, (0, 1, 2)).wholes(X, y), model).model
    by_class = [X[y == k].sum(axis=0) for k in range(3)]
    named = {"feature_names": list(model.feature_names)}
    counts = np.bincount(y)
    sums = classifier_from_sums(model, X.T @ X, by_class, counts, (0, 1, 2), **named)
    assert (read.output_weights == sums.output_weights).all()
    assert (read.intercept == sums.intercept).all()
    model, Y = exported(LeastSquaresRegressor, 4), random.integers(-99, 99, (300, 1))
    read = read_device(Device(library, model).wholes(X, Y), model).model
    totals = X.sum(axis=0), Y.sum(), (Y * Y).sum(), 300
    sums = regressor_from_sums(model, X.T @ X, X.T @ Y, *totals, **named)
    assert (read.output_weights == sums.output_weights).all()


def test_the_sums_of_extreme_rows_do_not_overflow(library):
    model = exported(LeastSquaresRegressor, 2, fit_intercept=False)
    X = np.array([[-32768, 32767], [32767, -32768]]).repeat(50_000, axis=0)
    read = read_device(Device(library, model).wholes(X, X[:, :1]), model)
    expected = X.astype(object).T.dot(X.astype(object)).astype(float)
    gram = read.model._state.statistics.products.gram_and_cross()[0]
    np.testing.assert_array_equal(np.triu(gram), np.triu(expected))


def test_the_header_sends_the_same_bytes_in_cpp(library, tmp_path):
    if library.kind is np.float32:
        return
    model, other = (
        exported(LeastSquaresClassifier, 3),
        harness.compiled("portable", "C++", tmp_path),
    )
    X, y = np.random.default_rng(0).integers(-99, 99, (30, 3)), [0, 1] * 15
    sent = [Device(each, model, (0, 1)).wholes(X, y) for each in (library, other)]
    assert sent[0] == sent[1]
    reals = [Device(each, model, (0, 1)).sums(X, y) for each in (library, other)]
    assert len(reals[0]) == len(reals[1])
    assert difference(*(read_device(each, model).model for each in reals)) < 1e-12


# -- other numbers --------------------------------------------------------------------------------


@given(case=cases(is_whole=False), data=st.data())
@examples(60)
def test_other_numbers_differ_by_the_rounding_that_is_told(library, case, data):
    model, labels, X, Y, random = case
    w = random.uniform(0.5, 2.0, len(X)) if data.draw(st.booleans()) else np.ones(len(X))
    X = X.astype(library.kind)
    width = data.draw(st.integers(1, X.shape[1]))
    read = read_device(Device(library, model, labels, 5).sums(X, Y, w, 9, width), model)
    unit = 2.0**-24 if library.kind is np.float32 else 2.0**-53
    assert (read.device, read.serial, read.rows) == (5, 9, len(X))
    assert read.rounding == unit * (len(X) + 2)
    targets = [[y == label for label in read.model.classes] for y in Y] if labels else Y
    columns = np.hstack((X, np.reshape(targets, (len(X), -1)))).astype(np.longdouble)
    mean = w @ columns / w.sum() if model.fit_intercept else 0.0 * columns[0]
    about, m = columns - mean, X.shape[1]
    exact = about.T @ (w[:, None] * about)
    found = read.model._state.statistics
    gram, cross = found.products.gram_and_cross()
    # About an origin that is far from the rows, z = (x - origin) - offset is rounded.
    sizes = np.sqrt(exact.diagonal() + 0.1 * unit * (w @ columns**2))
    most = 2.0 * read.rounding * np.outer(sizes, sizes)
    assert (np.abs(np.triu(gram - exact[:m, :m])) <= most[:m, :m]).all()
    assert (np.abs(cross - exact[:m, m:]) <= most[:m, m:]).all()
    assert (np.abs(found.squares_of_targets - exact.diagonal()[m:]) <= most.diagonal()[m:]).all()
    np.testing.assert_allclose(found.tally, [len(X), w.sum(), w @ w], rtol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("power", range(-45, -13))
def test_what_underflow_takes_is_told(library, power, fit_intercept):
    """Products of float32 below 2^-126 lose their digits."""
    random = np.random.default_rng(-power)
    model = exported(LeastSquaresRegressor, 3, fit_intercept=fit_intercept)
    X = (random.normal(size=(99, 3)) * [1.0, 10.0**power, 1.0]).astype(library.kind)
    X[:, 2] = 3.0 if power % 2 else 0.0
    Y = (X.sum(axis=1) + random.normal(size=99) * 10.0 ** random.integers(power, 1))[:, None]
    read = read_device(Device(library, model).sums(X, Y), model)
    columns = np.hstack((X, Y.astype(library.kind))).astype(np.longdouble)
    exact = columns - fit_intercept * columns.mean(axis=0)
    exact = exact.T @ exact
    gram, cross = read.model._state.statistics.products.gram_and_cross()
    sizes = np.sqrt(exact.diagonal())
    most = 2.0 * read.rounding * np.outer(sizes, sizes)
    errors = np.abs(np.hstack((np.triu(gram), cross)) - np.triu(exact)[:3])
    # About the mean, a constant has sums of 0 here, but not in the exact ones.
    assert (errors <= most[:3] + 1e-17 * sizes)[[0, 1]].all()
    assert 1e-6 < read.rounding < 1e-4 or power < -14 or library.kind is np.float64
    assert read.rounding < 1e-13 or library.kind is np.float32


def test_dependent_features_are_read_in_float(library):
    """Rounding makes their Gram matrix indefinite; what rounding can cause is not refused."""
    random = np.random.default_rng(0)
    for k in (3, 50, 5000):
        X = random.normal(size=(k, 6)).astype(library.kind)
        X[:, 5], X[:, 4] = X[:, 0] + X[:, 1], X[:, 3]
        Y = (X @ np.arange(6.0))[:, None]
        for ridge in (0.0, 1.0, "auto"):
            model = exported(LeastSquaresRegressor, 6, ridge=ridge)
            read = read_device(Device(library, model).sums(X, Y), model)
            expected = learnt(model, X, Y).predict_many(frame(X))
            np.testing.assert_allclose(
                read.model.predict_many(frame(X)), expected, atol=0.02 * np.abs(Y).max()
            )


def test_devices_that_float_are_merged_once_with_those_that_count(library):
    random = np.random.default_rng(0)
    model = exported(LeastSquaresClassifier, 3)
    X, y = random.integers(-9, 9, (90, 3)), random.integers(0, 3, 90).tolist()
    a = Device(library, model, (0, 1), 3).sums(X[:30], [min(each, 1) for each in y[:30]], None, 4)
    b = Device(library, model, (2, 0, 1), 2).wholes(X[30:60], y[30:60])
    c = Device(library, model, (1, 2, 0), 1).wholes(X[60:], y[60:])
    lines = []
    merged = merge_devices(model, [b, a, c, b], lines.append)
    assert [line.split(":")[0] for line in lines] == ["device 1", "device 2", "device 3"]
    assert [line.split(", ")[-1] == "exact" for line in lines] == [True, True, False]
    labels = [min(each, 1) for each in y[:30]] + y[30:]
    assert merged.count == 90
    assert difference(merged, learnt(model, X, labels)) < 1e-5
    assert bits(merged) == bits(merge_devices(model, [c, b, a]))
    assert merge(merged, model).count == 91


def test_a_class_without_rows_is_no_class(library):
    model = exported(LeastSquaresClassifier, 2)
    X = np.array([[1, 2], [3, 4]])
    for send in (
        Device(library, model, ("a", "b", "c")).wholes,
        Device(library, model, ("c", "a")).sums,
    ):
        assert merge_devices(model, [send(X, ["a", "a"])]).classes == ("a",)
    empty = Device(library, model, ("a", "b")).wholes(np.zeros((0, 2)), np.zeros(0))
    assert merge_devices(model, [empty]).count == 0


def test_pipelines_with_fixed_features_are_read(library):
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 3))
    layer = HiddenLayer.from_examples(X, n_hidden=7, seed=1)
    model = layer | LeastSquaresRegressor(ridge=1.0)
    y = X.sum(axis=1)
    model.learn_many(X, y)
    hidden = layer.transform_many(X)
    sent = Device(library, model).sums(hidden, y[:, None])
    read = read_device(sent, model)
    assert difference(read.model, model) < 1e-5
    assert fingerprint(model) == fingerprint(onlinels.loads(onlinels.dumps(model)))
    other = HiddenLayer.from_examples(X + 1.0, n_hidden=7, seed=1) | LeastSquaresRegressor(
        ridge=1.0
    )
    other.learn_many(X, y)
    with pytest.raises(ValueError, match="fingerprint"):
        read_device(sent, other)
    with pytest.raises(ValueError, match="or other targets or steps"):
        device_weights(other, model, 1)
    assert len(device_weights(read.model, model, 1)) == 28 + 4 * (7 + 7 + 1) + 4


# -- what is refused ------------------------------------------------------------------------------


def signed(content):
    """Return bytes with the CRC-32 that fits them."""
    return content[:-4] + crc32(content[:-4]).to_bytes(4, "little")


def test_bytes_of_other_models_are_refused(library):
    model, X = exported(LeastSquaresClassifier, 2), np.array([[1, 2], [3, 4]])
    sent = Device(library, model, ("a", "b")).wholes(X, ["a", "b"])
    others = (
        exported(LeastSquaresClassifier, 2, fit_intercept=False),
        exported(LeastSquaresClassifier, 3),
    )
    for other in (*others, exported(LeastSquaresRegressor, 2)):
        with pytest.raises(ValueError, match=r"content has the fingerprint.* Pass the model"):
            read_device(sent, other)
    read_device(sent, exported(LeastSquaresClassifier, 2, ridge="auto", half_life=9.0))
    for other in (
        exported(LeastSquaresClassifier, 2, accumulator="orthogonal"),
        exported(LeastSquaresClassifier, 2, ridge=KFold(3)),
        LeastSquaresClassifier(),
    ):
        with pytest.raises(ValueError, match="model has"):
            read_device(sent, other)
    with pytest.raises(TypeError, match="content is of type int"):
        read_device(10**12, model)


def test_a_serial_number_stands_for_one_content(library):
    model, X = exported(LeastSquaresClassifier, 2), np.array([[1, 2], [3, 4]])
    device = Device(library, model, ("a", "b"))
    sent = [device.wholes(X, ["a", "b"]), device.wholes(X, ["b", "a"])]
    with pytest.raises(ValueError, match="device 1 has sent different bytes as number 1"):
        merge_devices(model, sent)
    assert merge_devices(model, [sent[0], memoryview(sent[0]), bytearray(sent[0])]).count == 2


@pytest.fixture(scope="module")
def genuine(library):
    """Return models with bytes for each of them."""
    random, found = np.random.default_rng(0), []
    X, Y = random.integers(-9, 9, (20, 3)), random.integers(-9, 9, (20, 2))
    y = random.integers(0, 2, 20).astype(bool).tolist()
    for fit_intercept in (True, False):
        model = exported(LeastSquaresClassifier, 3, fit_intercept=fit_intercept)
        device = Device(library, model, (True, False))
        found += [(model, device.wholes(X, y)), (model, device.sums(X, y))]
        model = exported(LeastSquaresMultiTargetRegressor, 3, 2, fit_intercept=fit_intercept)
        device = Device(library, model)
        found += [(model, device.wholes(X, Y)), (model, device.sums(X, Y))]
    return found


def read_or_refuse(content, model):
    """Read bytes that may be forged: a model, all of whose answers are numbers, or a ValueError."""
    try:
        read = read_device(content, model)
    except ValueError as error:
        return pytest.fail(f"{error!r}") if "expected" not in str(error) else None
    assert len(onlinels.dumps(read.model)) < 40 * len(content) + 50_000
    assert np.isfinite(read.model.output_weights).all()
    return read


def test_damage_is_refused(genuine):
    for model, content in genuine:
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << place % 8
            for each in (bytes(damaged), content[:place], content + content[:place]):
                if each != content:
                    with pytest.raises(ValueError, match="expected"):
                        read_device(each, model)


@given(data=st.data())
@examples(300)
def test_forged_bytes_are_refused_or_are_sums(genuine, data):
    model, content = data.draw(st.sampled_from(genuine))
    forged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        # Also numbers, such as counts and sums.
        place = data.draw(st.integers(4, len(content) - size - 4))
        odd = [bytes(size), b"\xff" * size, b"\x7f" + b"\xff" * (size - 1)]
        odd += [struct.pack("<d", each)[-size:] for each in (np.nan, np.inf, -1.0, 1e150, 5e-324)]
        forged[place : place + size] = data.draw(
            st.sampled_from(odd) | st.binary(min_size=size, max_size=size)
        )
    read_or_refuse(signed(bytes(forged)), model)


@given(content=st.binary(max_size=200), data=st.data())
@examples(100)
def test_any_bytes_are_refused(genuine, content, data):
    model, whole = data.draw(st.sampled_from(genuine))
    assert read_or_refuse(content, model) is None
    read_or_refuse(signed(whole[: HEAD.size] + content + bytes(4)), model)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, -1.0, 1e300])
def test_numbers_that_no_rows_have_are_refused(library, odd):
    """As sums of squares, or as a product beyond the squares."""
    model = exported(LeastSquaresRegressor, 2)
    X = np.random.default_rng(0).normal(size=(9, 2))
    content = Device(library, model).sums(X, X[:, :1] + 1.0)
    dtype = np.dtype(library.kind).newbyteorder("<")
    start, size = HEAD.size + 8 + 24 + 6 * dtype.itemsize, dtype.itemsize
    for number in range(6):
        forged = bytearray(content)
        value = np.array(odd if number not in (1, 3, 4) or odd > 1 else 99.0 * odd, np.float64)
        with np.errstate(over="ignore"):
            forged[start + number * size : start + (number + 1) * size] = value.astype(
                dtype
            ).tobytes()
        with pytest.raises(ValueError, match="expected"):
            read_device(signed(bytes(forged)), model)


def test_a_count_takes_no_memory_before_it_fits_the_size(genuine):
    model, content = genuine[0]
    for place, number in ((8, b"\xff\xff"), (24, b"\xff\xff\xff\x7f")):
        forged = content[:place] + number + content[place + len(number) :]
        with pytest.raises(ValueError, match="is damaged"):
            read_device(signed(forged), model)


def made(model, rows, labels, numbers, kind=2):
    """Return bytes of a device that sends these numbers in float64, or integers of 64 bits."""
    said, flags = b"".join(map(_label_bytes, labels)), 1 + 2 * bool(labels)
    n = len(labels) or int(not labels and isinstance(model, LeastSquaresRegressor))
    sizes = len(model.feature_names), n, flags, 1, fingerprint(model), len(said)
    head = HEAD.pack(b"OLSD", 1, kind, *sizes) + struct.pack("<Q", 1) + said
    dtype = "<f8" if kind == 2 else "<i8"
    return signed(
        head + struct.pack("<3d", *[rows] * 3) + np.array(numbers, dtype).tobytes() + bytes(4)
    )


def test_a_negative_square_is_no_rounding():
    """Whatever number of rows the bytes claim to have."""
    model = exported(LeastSquaresRegressor, 1)
    content = made(model, 3.0, (), [1, 3, 2, 4, 14, 28, 56])
    assert read_device(content, model).model.predict_one({"x0": 0.0}) == pytest.approx(1.4)
    for numbers in ([1, 3, 2, 4, -26, 0, 104], [1, 3, 2, 4, 26, 0, -1]):
        for rows in (3.0, 1e6, 2.0**53):
            with pytest.raises(ValueError, match="device 1 has sums that no rows have"):
                read_device(made(model, rows, (), numbers), model)


@pytest.mark.parametrize(
    ("rows", "weight", "squares"),
    [
        (3.0, 3.0, 10.0),
        (3.0, 3.0, 2.0),
        (3.0, -3.0, 3.0),
        (2.5, 2.5, 2.5),
        (2.0**54, 9.0, 9.0),
        (3.0, 0.0, 0.0),
        (-1.0, 1.0, 1.0),
        (np.nan, 1.0, 1.0),
        (3.0, np.inf, 3.0),
        (0.0, 3.0, 3.0),
    ],
)
@pytest.mark.parametrize("kind", [1, 2])
def test_counts_and_weights_that_no_rows_have_are_refused(rows, weight, squares, kind):
    model = exported(LeastSquaresRegressor, 1)
    content = made(model, 3.0, (), [1, 3, 6, 12, 26, 52, 104], kind)
    at = HEAD.size + 8
    content = content[:at] + struct.pack("<3d", rows, weight, squares) + content[at + 24 :]
    with pytest.raises(ValueError, match="rows of weight"):
        read_device(signed(content), model)


def test_classes_that_do_not_add_up_are_refused():
    model = exported(LeastSquaresClassifier, 1)
    whole = [0, 0, 0, 6, 2, 1, 14, 3, 3, 2, 1]
    assert read_device(made(model, 3.0, "ab", whole, 1), model).model._state.counts.tolist() == [
        2,
        1,
    ]
    for place, odd in ((9, -1), (9, 3), (10, 0)):
        wrong = [*whole[:place], odd, *whole[place + 1 :]]
        with pytest.raises(ValueError, match="device 1 has sums that no rows have"):
            read_device(made(model, 3.0, "ab", wrong, 1), model)
    none = made(model, 3.0, "a", [0, 0, 6, 3, 14, 6, 3], 1)
    for odd in (b"s\xff", b"i\x01x", b"i\x02", b"b\x04Tru", b"f\x031.0", b"s\x01\xff", b"i\x0201"):
        forged = none.replace(b"s\x01a", odd)
        forged = forged[:24] + len(odd).to_bytes(4, "little") + forged[28:]
        with pytest.raises(ValueError, match="labels that cannot be read"):
            read_device(signed(forged), model)


def test_many_labels_are_read_in_little_time():
    model = exported(LeastSquaresClassifier, 1)
    n = 20_000
    numbers = np.concatenate((np.zeros(1 + n), [n], np.ones(n), [n], np.ones(n), np.ones(n)))
    read = read_device(made(model, float(n), range(n), numbers, 1), model)
    assert len(read.model.classes) == n


# -- weights --------------------------------------------------------------------------------------


@pytest.fixture
def flash(library):
    """Return a device's slots, the exported model, and weights of one model after another."""
    random = np.random.default_rng(0)
    X, y = 1e4 + random.normal(size=(60, 3)), random.choice(["calm", "breeze", "storm"], 60)
    model = exported(LeastSquaresClassifier, 3)
    learnt_here, versions = model.empty(), []
    for serial in range(1, 4):
        rows = slice(20 * (serial - 1), 20 * serial)
        learnt_here.learn_many(frame(X[rows]), y[rows])
        versions.append(device_weights(learnt_here, model, serial))
    size = max(map(len, versions)) + 5
    slots = [Slots(library, model, size, unit=unit) for unit in (4, 8, 32)]
    return slots, model, versions, learnt_here, X


def answers_of(content):
    numbers = np.frombuffer(content, "<f4", 3 + 3 * 3 + 3, HEAD.size)
    return numbers.astype(np.float64).tolist()


def test_weights_answer_as_the_model(flash):
    _, _, versions, model, X = flash
    numbers = np.array(answers_of(versions[-1]))
    origin, weights, intercept = np.split(numbers, [3, 12])
    scores = (X - origin) @ weights.reshape(3, 3).T + intercept
    expected = [[each[label] for label in model.classes] for each in model.scores_many(frame(X))]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert versions[-1].endswith(
        b"".join(b"s" + bytes([len(each)]) + each.encode() for each in model.classes)
        + versions[-1][-4:]
    )


def test_weights_are_taken_whole_or_not_at_all(flash):
    for slots in flash[0]:
        old = None
        for content in flash[2]:
            before, n_written = slots.memory.copy(), 0
            while slots.take(content, n_written) != 0:
                assert slots.answer(15) == old
                # What was written stays, and the same bytes are taken later.
                again = slots.memory.copy()
                assert slots.take(content) == 0
                assert slots.answer(15) == answers_of(content)
                slots.memory[:] = before if n_written % 2 else again
                n_written += 1
                if slots.answer(15) != old:
                    slots.memory[:] = before
            assert n_written >= len(content)
            old = answers_of(content)
            assert slots.answer(15) == old


def test_damaged_old_and_foreign_weights_are_refused(flash):
    (slots, *_), (first, second, third) = flash[0], flash[2]
    assert (slots.take(second), slots.take(second), slots.take(first)) == (0, NOT_NEWER, NOT_NEWER)
    held = slots.memory.copy()
    for place in range(len(third)):
        damaged = bytearray(third)
        damaged[place] ^= 1 << place % 8
        for each in (bytes(damaged), third[:place]):
            assert slots.take(each) not in (0, 5)
            if place > 27:
                assert slots.take(each) == DAMAGED
    assert slots.take(third + b"x") == DAMAGED
    # More features, more classes, labels or numbers than there are, and other numbers, all signed.
    for place, odd in ((6, b"\x04"), (8, b"\x04"), (8, b"\x00"), (24, b"\xff" * 4), (31, b"\x7f")):
        forged = third[:place] + odd + third[place + len(odd) :]
        if place == 31:
            forged = third[:30] + b"\x80\x7f" + third[32:]
        assert slots.take(signed(forged)) not in (0, 5)
    foreign = exported(LeastSquaresClassifier, 3, fit_intercept=False)
    assert slots.take(device_weights(foreign, foreign, 9)) == OF_ANOTHER_MODEL
    assert (slots.memory == held).all()
    assert slots.take(third) == 0


DAMAGED, OF_ANOTHER_MODEL, TOO_LARGE, NOT_NEWER = 1, 2, 3, 4


def test_more_classes_than_the_program_has_room_for_are_refused(library):
    model = exported(LeastSquaresClassifier, 2)
    model.learn_many(frame(np.eye(2)), ["a", "b"])
    content = device_weights(model, model, 5)
    for most, size, code in ((2, 999, TOO_LARGE), (3, len(content) - 1, TOO_LARGE), (3, 999, 0)):
        assert Slots(library, model, size, most=most).take(content) == code
    assert Slots(library, model, 999, serial=5).take(content) == NOT_NEWER


@given(data=st.data())
@examples(100)
def test_forged_weights_never_answer(library, data):
    model = exported(LeastSquaresClassifier, 2)
    model.learn_one({"x0": 1.0, "x1": 3.0}, "b")
    content = device_weights(model, model, 1)
    forged = bytearray(content)
    place = data.draw(st.integers(0, len(content) - 5))
    forged[place : place + 4] = data.draw(st.binary(min_size=4, max_size=4))
    slots = Slots(library, model, 2 * len(content))
    taken = slots.take(signed(bytes(forged[:-4])[: len(content) - 4] + bytes(4)))
    assert (taken == 0) == (slots.answer(1) is not None)


def test_weights_that_no_device_can_hold_are_refused():
    model = exported(LeastSquaresClassifier, 2)
    for label in (2.5, "x" * 256, ("a", 1)):
        odd = model.empty()
        odd.learn_many(frame(np.eye(2)), [label, "b"] if isinstance(label, str) else [label, 7])
        with pytest.raises(ValueError, match="a str, int or bool of up to 255 bytes"):
            device_weights(odd, model, 1)
    more = model + exported(LeastSquaresClassifier, 3)
    with pytest.raises(ValueError, match="model has the features"):
        device_weights(more, model, 1)
    for serial in (0, 1 << 32):
        with pytest.raises(ValueError, match="serial"):
            device_weights(model, model, serial)
    large = exported(LeastSquaresRegressor, 2)
    large.learn_one({"x0": 1.0, "x1": 2.0}, 1e60)
    with pytest.raises(ValueError, match="beyond float32"):
        device_weights(large, large, 1)


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture
def fleet(library, tmp_path):
    """Return a function that writes the bytes of some rows of a device to a file."""
    random = np.random.default_rng(0)
    X, y = random.integers(-9, 9, (60, 3)), random.choice(["calm", "storm"], 60).tolist()
    model = exported(LeastSquaresClassifier, 3)
    model.save(tmp_path / "fan.npz")

    def write(name, number, serial, start, stop):
        device = Device(library, model, ("storm", "calm"), number)
        sent = device.wholes(X[start:stop], y[start:stop], serial)
        (tmp_path / name).write_bytes(sent)
        return tmp_path / name

    return write, model, X, y, tmp_path


def test_files_of_devices_are_merged_beside_saves(fleet, capsys):
    write, model, X, y, folder = fleet
    first, second = write("1.bytes", 1, 1, 0, 10), write("2.bytes", 2, 5, 10, 40)
    write("2.old", 2, 4, 10, 20)
    learnt(model, X[40:], y[40:]).save(folder / "site.npz")
    output, files = folder / "all.npz", [*folder.glob("[12].*"), folder / "site.npz"]
    main(["merge", str(output), *map(str, files), "--model", str(folder / "fan.npz")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder / '2.old'}: not the newest bytes of device 2, left out"
    assert lines[1:] == [
        f"{first}: new site, 10 rows",
        f"{second}: new site, 30 rows",
        f"{folder / 'site.npz'}: new site, 20 rows",
        "all.npz: 60 rows of 3 sites",
    ]
    assert difference(onlinels.load(output), learnt(model, X, y)) < 1e-12
    # Newer bytes replace older ones, at another path too.
    second.unlink()
    write("1.bytes", 1, 2, 0, 5)
    with pytest.raises(ValueError, match=r"2.bytes.* does not exist"):
        merge_files(output, files, None, model)
    write("2.bytes", 2, 5, 10, 40)
    write("2.new", 2, 6, 10, 38)
    merge_files(output, [folder / "2.new"], None, model)
    assert onlinels.load(output).count == 5 + 28 + 20


def test_files_of_devices_that_do_not_fit_are_refused(fleet):
    write, model, _, _, folder = fleet
    path, output = write("1.bytes", 1, 3, 0, 10), folder / "all.npz"
    with pytest.raises(ValueError, match="model is None"):
        merge_files(output, [path])
    with pytest.raises(ValueError, match=r"1.bytes has the fingerprint"):
        merge_files(output, [path], None, exported(LeastSquaresClassifier, 2))
    merge_files(output, [path], None, model)
    write("1.bytes", 1, 2, 0, 9)
    with pytest.raises(ValueError, match=r"1.bytes is older"):
        merge_files(output, [path], None, model)
    newer = write("newer.bytes", 1, 4, 0, 20)
    with pytest.raises(ValueError, match="both contain a save of device 1"):
        merge_files(folder / "nation.npz", [output, newer], None, model)
    write("1.bytes", 1, 4, 0, 20)
    write("1.again", 1, 4, 5, 20)
    with pytest.raises(ValueError, match="both contain a save of device 1"):
        merge_files(output, [folder / "1.again"], None, model)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"1.bytes is damaged"):
        merge_files(output, [], None, model)


def test_cut_and_damaged_files_say_so(fleet):
    write, model, _, _, folder = fleet
    path, output = write("1.bytes", 1, 3, 0, 10), folder / "all.npz"
    whole = path.read_bytes()
    cut = "1.bytes is damaged: it holds {0} bytes, expected {1}"
    messages = {0: "1.bytes is empty, expected a save, or bytes of a device"}
    messages |= {n: f"holds {n} bytes that begin with" for n in (1, 3)}
    messages |= {n: cut.format(n, "a head of 28") for n in (10, 27)}
    messages |= {n: cut.format(n, f"{len(whole)}. Let") for n in (28, len(whole) - 1)}
    for known in (False, True):
        for n, message in messages.items():
            path.write_bytes(whole[:n])
            with pytest.raises(ValueError, match=re.escape(message)):
                merge_files(output, [path], None, model)
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(ValueError, match="its last 4 bytes are not the CRC-32"):
            merge_files(output, [path], None, model)
        path.write_bytes(whole)
        if not known:
            merge_files(output, [path], None, model)
