"""Filters from files."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels.features.filters import OVERFEAT_FILES, make_bank, read_filters
from strategies import filter_arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("filters")


def write_overfeat(path, size, values):
    """A file as large as OverFeat's that takes no room, with weights at its start."""
    with path.open("wb") as file:
        file.write(values.astype("<f4").tobytes())
        file.truncate(size)


@given(filters=filter_arrays((0, 1, 2, 3)), dtype=st.sampled_from(["f4", "f8", ">f8", "i2"]))
@pytest.mark.parametrize("name", ["", "weights", "filters", "anything"])
def test_arrays(folder, name, filters, dtype):
    stored = (filters * 100).astype(dtype)
    path = folder / ("bank.npz" if name else "bank.npy")
    if name in ("weights", "filters"):
        np.savez(path, **{name: stored, "names": np.array(["a", "b"])})
    elif name:
        np.savez_compressed(path, **{name: stored})
    else:
        np.save(path, stored)
    read = read_filters(str(path))
    assert read.dtype == np.float64
    assert read.shape == filters.shape
    expected = stored.astype(float) - stored.astype(float).mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(read, expected, atol=1e-9)
    assert make_bank(read).filters.shape[:3] == filters.shape[:3]


@pytest.mark.parametrize("size", OVERFEAT_FILES)
def test_overfeats_own_files(folder, size):
    name, shape = OVERFEAT_FILES[size]
    weights = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    write_overfeat(folder / name, size, weights)
    filters = read_filters(folder / name)
    side = shape[2]
    assert filters.shape == (96, side, side, 3)
    for out, channel in [(0, 0), (95, 2), (17, 1)]:
        plane = weights[out, channel].astype(float)
        np.testing.assert_allclose(filters[out, :, :, channel], plane - plane.mean(), atol=1e-12)
    np.testing.assert_allclose(filters.mean(axis=(1, 2)), 0.0, atol=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_overfeats_file_with_values_that_are_no_numbers(folder, bad):
    size = 578_625_952
    weights = np.zeros(OVERFEAT_FILES[size][1])
    weights[3, 2, 1, 0] = bad
    write_overfeat(folder / "bad_weight", size, weights)
    with pytest.raises(ValueError, match=r"bad_weight holds .* at position \(3, 1, 0, 2\)"):
        read_filters(folder / "bad_weight")


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("net_weight_1", b"\0" * 100, ValueError, "100 bytes .*578,625,952 bytes.*OverFeat"),
        ("net_weight_0", b"", ValueError, "has 0 bytes"),
        ("empty.npy", b"", ValueError, "empty.npy cannot be read"),
        ("text.npy", b"hello", ValueError, "text.npy cannot be read"),
        ("text.npz", b"hello", ValueError, "text.npz cannot be read"),
        ("junk.npy", b"hello" * 9, ValueError, "cannot be read: it holds other things"),
        ("zip.npz", b"PK\x03\x04 and then nothing", ValueError, "zip.npz cannot be read"),
        ("shape.npy", np.ones((2, 3, 7, 7)), ValueError, "square filters.*transpose"),
        ("flat.npy", np.ones((7, 7)), ValueError, "flat.npy: filters has shape"),
        ("none.npy", np.ones((0, 7, 7)), ValueError, "none.npy: filters has shape"),
        ("nan.npy", np.full((1, 2, 2), np.nan), ValueError, "nan.npy holds nan"),
        ("text_array.npy", np.full((1, 2, 2), "a"), TypeError, "dtype <U1"),
        ("complex.npy", np.ones((1, 2, 2), complex), TypeError, "dtype complex128"),
        (
            "objects.npy",
            np.full((1, 2, 2), None),
            ValueError,
            "cannot be read: it holds other things than arrays of",
        ),
    ],
)
def test_bad_files(folder, name, content, error, message):
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        np.save(folder / name, content)
    with pytest.raises(error, match=message) as raised:
        read_filters(folder / name)
    assert "pickle" not in str(raised.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.ones((1, 2, 2)), "b": np.ones((1, 2, 2))}, r"\['a', 'b'\], expected one"),
        ({"weights": np.ones((1, 2, 2)), "filters": np.ones((1, 2, 2))}, "expected one"),
        ({}, r"the arrays \[\]"),
        (
            {"objects": np.full((1, 2, 2), None)},
            "cannot be read: it holds other things than arrays of",
        ),
    ],
)
def test_bad_archives(folder, arrays, message):
    np.savez(folder / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_filters(folder / "bad.npz")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("damaged.npy", np.save),
        ("damaged.npz", np.savez),
        ("damaged.npz", np.savez_compressed),
    ],
)
def test_files_with_any_one_byte_changed(folder, name, write):
    path = folder / name
    write(path, np.random.default_rng(0).normal(size=(2, 3, 3)))
    content = path.read_bytes()
    for place in range(len(content)):
        for value in (content[place] ^ 1, 0, 255, ord("(")):
            path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            with contextlib.suppress(ValueError, TypeError):
                read_filters(path)


def test_missing_files(folder):
    for missing in (folder / "nowhere.npy", folder):
        with pytest.raises(FileNotFoundError, match=r"There is no file .*download_weights\.py"):
            read_filters(missing)
