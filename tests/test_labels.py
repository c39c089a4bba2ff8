"""Labels of any kind, their columns, and arrays of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from onlinels.labels import Classes, read_label, read_labels
from onlinels.rows import label_array


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b"],
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"], dtype="category"),
        pl.Series(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pd.Index(["a", "b"]),
        pd.Categorical(["a", "b"]),
    ],
    ids=lambda y: type(y).__module__.split(".")[0] + type(y).__name__,
)
def test_labels_come_in_many_forms(y):
    assert read_labels(y, 2) == ["a", "b"]


@pytest.mark.parametrize(
    ("y", "expected"),
    [(np.int64(3), 3), (np.bool_(True), True), (np.str_("a"), "a"), (None, None), ((1, 2), (1, 2))],
)
def test_numpy_scalars_become_python_values(y, expected):
    label = read_label(y)
    assert label == expected
    assert type(label) is type(expected)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (float("nan"), ValueError, "equals itself"),
        (pd.NA, ValueError, "equals itself"),
        (pd.NaT, ValueError, "equals itself"),
        ([1, 2], TypeError, "hashable"),
        ({"a": 1}, TypeError, "hashable"),
        (np.array([1]), TypeError, "hashable"),
        (np.datetime64("2020-01-01"), TypeError, "dates to text"),
        (np.timedelta64(3, "s"), TypeError, "dates to text"),
        (np.ma.masked, TypeError, "masked"),
    ],
)
def test_bad_labels(y, error, message):
    with pytest.raises(error, match=message):
        read_label(y)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (["a"], ValueError, "1 labels, expected 2"),
        (np.eye(2), ValueError, "one-hot"),
        ("ab", TypeError, "str"),
        (5, TypeError, "int"),
        (pd.DataFrame({"y": [1, 2]}), ValueError, "shape"),
        (pl.DataFrame({"y": [1, 2]}), TypeError, "DataFrame"),
        (np.array(["2020-01-01", "NaT"], "M8[ns]"), TypeError, "dates to text"),
        (np.ma.array([1, 2], mask=[True, False]), TypeError, "masked"),
        (range(3), ValueError, "3 labels, expected 2"),
        (pd.Series(["a", None]), ValueError, "equals itself"),
    ],
)
def test_bad_batches_of_labels(y, error, message):
    with pytest.raises(error, match=message):
        read_labels(y, 2)


def test_equal_labels_are_one_class_named_after_the_first():
    classes = Classes().extended([True, 1, 1.0, "1"])
    assert [*map(repr, classes.labels)] == ["True", "'1'"]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([2**63, -1], "O"),
        (["a", "a\0"], "O"),
        ([1, 2.5], "O"),
        ([1, 2], "i"),
        (["a", "bc"], "U"),
        ([True], "b"),
        ([1, "a"], "O"),
    ],
)
def test_label_arrays_have_the_labels_own_type(labels, kind):
    array = label_array(labels)
    assert array.dtype.kind == kind
    assert array.tolist() == labels
