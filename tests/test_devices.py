"""Devices send sums as bytes and take weights: no row is lost or counts twice, no bytes do harm."""

import contextlib
import struct
from fractions import Fraction

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
)
from onlinels.devices import DeviceRows, device_weights, fingerprint, merge_devices, read_device
from support.device import UNITS, assert_sums, bytes_of, one_hot, sent, signed
from support.laws import fitted
from support.strategies import as_objects, examples


def exported(kind=LeastSquaresClassifier, m=2, **settings):
    """Return a model that knows m features, and two targets, by one row."""
    y = {LeastSquaresClassifier: ["stop"], LeastSquaresRegressor: [1.0]}.get(kind, np.ones((1, 2)))
    return fitted(kind(**({"ridge": 1.0} | settings)), np.ones((1, m)), y)


LABELS = [("run", "stop", "é"), (3, -1, 20), (True, False), ("a", 1, False)]
KINDS = {
    "labels": (LeastSquaresClassifier, LABELS, ()),
    "numbers": (LeastSquaresRegressor, [()], ()),
    "several numbers": (LeastSquaresMultiTargetRegressor, [()], (2,)),
}


@st.composite
def cases(draw):
    """Draw a model, the labels that its devices know, and rows of whole numbers."""
    kind, labels, shape = KINDS[draw(st.sampled_from([*KINDS]))]
    labels, m, k = draw(st.sampled_from(labels)), draw(st.integers(1, 5)), draw(st.integers(1, 40))
    settings = {
        "fit_intercept": draw(st.booleans()),
        "accumulator": draw(st.sampled_from(["gram", "recursive"])),
        "ridge": draw(st.sampled_from([1.0, "auto", 1e-3])),
    }
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([3, 300, 32767]))
    X = random.integers(-size, size + 1, (k, m))
    X[:, random.integers(m)] = draw(st.sampled_from([0, size]))
    Y = random.integers(-size, size + 1, (k, *shape))
    if labels:
        Y = as_objects([labels[i] for i in random.integers(0, len(labels), k)])
    return exported(kind, m, **settings), labels, X, Y, random


# -- sums -----------------------------------------------------------------------------------------


@given(case=cases(), data=st.data())
@examples(60)
def test_whole_numbers_have_the_same_bits_however_devices_share_them(case, data):
    """Also beside devices that float, whose sums are merged in the order of their numbers."""
    model, labels, X, Y, random = case
    of_row, contents, newest = random.integers(0, 4, len(X)), [], {}
    types = data.draw(st.sampled_from([["<i8"] * 4, ["<f4", "<i8", "<f8", "<i8"]]))
    for number, dtype in enumerate(types):
        rows, known = np.flatnonzero(of_row == number), data.draw(st.permutations(labels))
        for serial, end in enumerate(sorted({0, len(rows) // 2, len(rows)}), 7):
            part = rows[:end]
            its = sent(model, known, X[part], Y[part], None, dtype, number, serial)
            contents += [its, bytearray(its), memoryview(its)][: random.integers(1, 4)]
        newest[number] = its
    lines = []
    merged = merge_devices(model, data.draw(st.permutations(contents)), lines.append)
    assert onlinels.dumps(merged) == onlinels.dumps(merge_devices(model, newest.values()))
    assert merged.count == len(X)
    # The model that was exported knows a row.
    assert (merged + model).count == len(X) + 1
    told = [line for line in lines if "left out" not in line]
    assert [line.endswith("rows, exact") for line in told] == [each == "<i8" for each in types]
    assert [line.split(":")[0] for line in told] == [f"device {number}" for number in newest]
    counted = np.isin(of_row, np.flatnonzero(np.array(types) == "<i8"))
    whole = merge_devices(model, [sent(model, labels, X[counted], Y[counted])])
    of_counts = [each for each, dtype in zip(newest.values(), types, strict=True) if dtype == "<i8"]
    assert onlinels.dumps(merge_devices(model, of_counts)) == onlinels.dumps(whole)
    assert_sums(DeviceRows(0, 0, len(X), UNITS["<f4"] * (len(X) + 2), merged), X, Y)


@given(case=cases())
@examples(60)
def test_every_exact_sum_about_the_mean_is_the_nearest_float64(case):
    model, labels, X, Y, _ = case
    read = read_device(sent(model, labels, X, Y, number=5, serial=9), model)
    assert read[:4] == (5, 9, len(X), 0.0)
    columns = np.hstack((X, one_hot(Y, getattr(read.model, "classes", ())))).astype(object)
    m, n = X.shape[1], len(X)
    totals = columns.sum(axis=0) if model.fit_intercept else 0 * columns[0]
    exact = n * columns.T.dot(columns) - np.multiply.outer(totals, totals)
    nearest = np.array([[float(Fraction(int(each), n)) for each in row] for row in exact])
    sums = read.model._state.statistics
    gram, cross = sums.products.gram_and_cross()
    np.testing.assert_array_equal(np.triu(gram), np.triu(nearest[:m, :m]))
    np.testing.assert_array_equal(cross, nearest[:m, m:])
    np.testing.assert_array_equal(sums.squares_of_targets, nearest.diagonal()[m:])
    np.testing.assert_array_equal(sums.centre, [float(Fraction(int(x), n)) for x in totals])
    here = fitted(model.empty(), X, Y)
    assert {*getattr(read.model, "classes", ())} == {*getattr(here, "classes", ())}
    assert read.model.count == len(X)
    for each in (read.model, here):
        each.select_ridge()  # From the same rows.
    assert difference(read.model, here) < 1e-6


SCALES = {1.0: 1.01, 1e-8: 1.01, 1e-17: 1e8, 1e-25: 1e8, 1e-45: 1e8}
"""By how much the rounding that is told may exceed that of the digits, by the scale of a column."""


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@given(case=cases(), scale=st.sampled_from([*SCALES]), offset=st.sampled_from([0.0, 1e3]))
@examples(200)
def test_other_numbers_differ_by_the_rounding_that_is_told(dtype, case, scale, offset):
    """Also by underflow: products of float32 below 2^-126 lose their digits."""
    model, labels, X, Y, random = case
    w = random.uniform(0.5, 2.0, len(X)) if random.random() < 0.5 else np.ones(len(X))
    X = X + offset + random.normal(size=X.shape)
    X[:, 0] *= scale
    # Of targets 0, no product tells that the squares of features have underflowed.
    X, Y = X.astype(dtype), Y if labels else (Y + random.normal(size=Y.shape)).astype(dtype)
    read = read_device(sent(model, labels, X, Y, w, dtype), model)
    assert read.rows == len(X)
    digits = UNITS[dtype] * (len(X) + 2)
    assert digits <= read.rounding <= digits * SCALES[scale]
    assert_sums(read, X, Y, w)


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("ridge", [0.0, 1.0, "auto"])
def test_dependent_features_are_read(dtype, ridge):
    """Rounding makes their Gram matrix indefinite; what rounding can cause is not refused."""
    random, model = np.random.default_rng(0), exported(LeastSquaresRegressor, 6, ridge=ridge)
    for k in (3, 50, 5000):
        X = random.normal(size=(k, 6)).astype(dtype)
        X[:, 5], X[:, 4] = X[:, 0] + X[:, 1], X[:, 3]
        Y = X @ np.arange(6.0)
        found = read_device(sent(model, (), X, Y, dtype=dtype), model).model.predict_many(X)
        expected = fitted(model.empty(), X, Y).predict_many(X)
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(Y).max())


def test_pipelines_with_fixed_features_are_read():
    X = np.random.default_rng(0).normal(size=(80, 3))
    layer, other = (HiddenLayer.from_examples(X + k, n_hidden=7, seed=1) for k in range(2))
    model, foreign = (
        fitted(each | LeastSquaresRegressor(ridge=1.0), X, X.sum(axis=1)) for each in (layer, other)
    )
    content = sent(model, (), layer.transform_many(X), X.sum(axis=1), dtype="<f4")
    read = read_device(content, model)
    assert difference(read.model, model) < 1e-5
    assert fingerprint(model) == fingerprint(onlinels.loads(onlinels.dumps(model)))
    with pytest.raises(ValueError, match="fingerprint"):
        read_device(content, foreign)
    with pytest.raises(ValueError, match="or other targets or steps"):
        device_weights(foreign, model, 1)
    assert len(device_weights(read.model, model, 1)) == 28 + 4 * (7 + 7 + 1) + 4


# -- what is refused ------------------------------------------------------------------------------

X2 = np.array([[1, 2], [3, 4]])
CONTENT, AGAIN = (sent(exported(), ("a", "b"), X2, y) for y in ("ab", "ba"))
OTHERS = [
    (exported(fit_intercept=False), "fingerprint.* Pass the model"),
    (exported(m=3), "fingerprint.* Pass the model"),
    (exported(LeastSquaresRegressor), "fingerprint.* Pass the model"),
    (exported(accumulator="orthogonal"), "model has"),
    (exported(ridge=KFold(3)), "model has"),
    (LeastSquaresClassifier(), "model has no features"),
]


def of(*y, kind=LeastSquaresClassifier):
    return fitted(kind(1.0), np.eye(2), [*y])


MODEL, LARGE = exported(), of(1e60, 1.0, kind=LeastSquaresRegressor)
UNFIT = [
    *((of(odd, 7), MODEL, 1, "a str, int or bool of up to 255") for odd in (2.5, ("a", 1))),
    (of("x" * 256, "b"), MODEL, 1, "a str, int or bool of up to 255 bytes"),
    (of("\udc80", "b"), MODEL, 1, "with half a character"),
    (exported(m=3), MODEL, 1, "model has the features"),
    *((MODEL, MODEL, number, "serial") for number in (0, 1 << 32)),
    (LARGE, LARGE, 1, "beyond float32"),
]
REFUSED = [(read_device, (CONTENT, model), message) for model, message in OTHERS]
REFUSED += [(device_weights, given_, message) for *given_, message in UNFIT]
REFUSED += [
    (merge_devices, (MODEL, [CONTENT, AGAIN]), "device 1 has sent different bytes as number 1"),
]


@pytest.mark.parametrize(("call", "given_", "message"), REFUSED)
def test_bytes_and_weights_of_other_models_are_refused(call, given_, message):
    with pytest.raises(ValueError, match=message):
        call(*given_)


def test_what_is_no_content_is_refused():
    with pytest.raises(TypeError, match="content is of type int"):
        read_device(10**12, MODEL)


def test_settings_that_no_sum_depends_on_may_change():
    assert read_device(CONTENT, exported(ridge="auto", half_life=9.0)).rows == 2


def genuine(fit_intercept):
    """Return models with bytes for each of them, of integers and of float32."""
    random = np.random.default_rng(0)
    X, Y = random.integers(-9, 9, (20, 3)), random.integers(-9, 9, (20, 2))
    one = exported(m=3, fit_intercept=fit_intercept)
    other = exported(LeastSquaresMultiTargetRegressor, 3, fit_intercept=fit_intercept)
    for dtype in ("<i8", "<f4"):
        yield one, sent(one, (True, False), X, (Y[:, 0] > 0).tolist(), None, dtype)
        yield other, sent(other, (), X, Y, None, dtype)


GENUINE = [*genuine(True), *genuine(False)]


def test_damage_is_refused():
    for model, content in GENUINE:
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << place % 8
            for each in (bytes(damaged), content[:place], content + b"x" * place):
                if each != content:
                    with pytest.raises(ValueError, match="expected"):
                        read_device(each, model)


@given(data=st.data())
@examples(400)
def test_forged_bytes_are_refused_or_are_sums(data):
    """A model, all of whose answers are numbers, or a ValueError."""
    model, content = data.draw(st.sampled_from(GENUINE))
    forged = bytearray(content[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        # Also numbers, such as counts and sums.
        place = data.draw(st.integers(4, len(forged) - size))
        odd = [bytes(size), b"\xff" * size, b"\x7f" + b"\xff" * (size - 1)]
        odd += [struct.pack("<d", each)[-size:] for each in (np.nan, np.inf, -1.0, 1e150, 5e-324)]
        forged[place : place + size] = data.draw(
            st.sampled_from(odd) | st.binary(min_size=size, max_size=size)
        )
    with contextlib.suppress(ValueError):
        read = read_device(signed(bytes(forged)), model)
        assert len(onlinels.dumps(read.model)) < 40 * len(content) + 50_000
        assert np.isfinite(read.model.output_weights).all()


REGRESSOR, CLASSIFIER = exported(LeastSquaresRegressor, 1), exported(m=1)
THREE = [3.0, 3.0, 3.0]
ROWS, CLASSES = [1, 3, 2, 4, 14, 28, 56], [0, 0, 0, 6, 2, 1, 14, 3, 3, 2, 1]
"""Origin, sums, gram, cross and squares of three rows of a feature, with a target or two labels."""


def changed(numbers, place, value):
    return [*numbers[:place], value, *numbers[place + 1 :]]


TALLIES = [
    *((3, 3, 10), (3, 3, 2), (3, -3, 3), (2.5, 2.5, 2.5), (2.0**54, 9, 9), (3, 0, 0)),
    *((-1, 1, 1), (np.nan, 1, 1), (3, np.inf, 3), (0, 3, 3)),
]
IMPOSSIBLE = [
    *((REGRESSOR, (), tally, ROWS, "<f8", "rows of weight") for tally in TALLIES),
    *((REGRESSOR, (), tally, ROWS, "<i8", "rows of weight") for tally in TALLIES),
    (REGRESSOR, (), [2.0**31] * 3, ROWS, "<i8", "rows of weight"),
    (REGRESSOR, (), THREE, changed(ROWS, 4, -26), "<f8", "no rows have"),
    # Whatever number of rows the bytes claim to have.
    (REGRESSOR, (), [2.0**53] * 3, changed(ROWS, 4, -26), "<f8", "no rows have"),
    (REGRESSOR, (), [1e6] * 3, changed(ROWS, 6, -1), "<f8", "no rows have"),
    (REGRESSOR, (), THREE, changed(ROWS, 5, 99), "<f8", "no rows have"),
    *(
        (REGRESSOR, (), THREE, changed(ROWS, place, odd), dtype, "expected")
        for place in range(7)
        for odd, dtype in ((np.nan, "<f4"), (np.inf, "<f8"), (-np.inf, "<f4"), (1e200, "<f8"))
    ),
    (CLASSIFIER, "ab", THREE, changed(CLASSES, 9, -1), "<i8", "no rows have"),
    (CLASSIFIER, "ab", THREE, changed(CLASSES, 9, 3), "<i8", "no rows have"),
    (CLASSIFIER, "ab", THREE, changed(CLASSES, 10, 0), "<i8", "no rows have"),
    (CLASSIFIER, "aa", THREE, CLASSES, "<i8", "labels that cannot be read"),
    (REGRESSOR, "a", THREE, ROWS, "<i8", "labels that cannot be read"),
]


@pytest.mark.parametrize(("model", "labels", "tally", "numbers", "dtype", "message"), IMPOSSIBLE)
def test_numbers_that_no_rows_have_are_refused(model, labels, tally, numbers, dtype, message):
    with pytest.raises(ValueError, match=message):
        read_device(bytes_of(model, labels, tally, numbers, dtype), model)


@pytest.mark.parametrize(
    "odd", [b"s\xff", b"i\x01x", b"i\x02", b"b\x04Tru", b"f\x031.0", b"s\x01\xff", b"i\x0201"]
)
def test_labels_that_no_device_has_are_refused(odd):
    whole = bytes_of(CLASSIFIER, "a", THREE, [0, 0, 6, 3, 14, 6, 3], "<i8")
    assert read_device(whole, CLASSIFIER).model.classes == ("a",)
    forged = whole[:-4].replace(b"s\x01a", odd)
    forged = forged[:24] + len(odd).to_bytes(4, "little") + forged[28:]
    with pytest.raises(ValueError, match="labels that cannot be read"):
        read_device(signed(forged), CLASSIFIER)


@pytest.mark.slow
def test_many_labels_are_read_in_little_time():
    n, ones = 20_000, np.ones(20_000)
    numbers = np.concatenate((np.zeros(1 + n), [n], ones, [n], ones, ones))
    read = read_device(bytes_of(CLASSIFIER, range(n), [n] * 3, numbers, "<i8"), CLASSIFIER)
    assert len(read.model.classes) == n
