"""Reading rows, batches and frames, and finding their columns by name."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinels import (
    DriftAwareClassifier,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.rows import (
    ArrayFeature,
    Columns,
    check_aligned,
    feature_key,
    key_text,
    names_of,
    read_batch,
    read_row,
    reader_of,
    sorted_names,
)
from support import strategies


def test_a_row_of_any_numbers():
    numbers = 1.5, 2, True, np.float32(3), decimal.Decimal(4), np.array(5.0)
    layout, values = read_row(dict(zip("abcdef", numbers, strict=True)))
    assert layout == tuple("abcdef")
    assert values.tolist() == [1.5, 2, 1, 3, 4, 5]
    assert read_row({})[1].shape == (0,)
    layout, values = read_row({"a": 1, "h": np.array([[2, 3], [4, 5]], dtype=np.uint8)})
    assert list(names_of(layout)) == ["a", ("h", 0), ("h", 1), ("h", 2), ("h", 3)]
    assert values.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ({"a": None}, ValueError, r"x\['a'\] is None.*StatImputer"),
        ({"a": float("nan")}, ValueError, r"x\['a'\] is nan.*StatImputer"),
        ({"a": float("inf")}, ValueError, r"x\['a'\] is inf.*StandardScaler"),
        ({"a": 1e200}, ValueError, "1e\\+150"),
        ({"a": "3"}, TypeError, r"x\['a'\] is '3'.*float\(x\['a'\]\)"),
        ({"a": "red"}, TypeError, r"x\['a'\] is 'red'.*OneHotEncoder"),
        ({"a": 1j}, TypeError, "complex"),
        ({"a": np.complex128(1j)}, TypeError, "complex"),
        ({"a": np.datetime64("2020", "ns")}, TypeError, "datetime64"),
        ({"a": np.array("2.0")}, TypeError, "ndarray"),
        ({"a": np.ma.masked}, TypeError, "Masked"),
        ({"a": decimal.Decimal("sNaN")}, ValueError, "magnitude"),
        ({"a": 10**400}, ValueError, "magnitude"),
        ({"a": [1, 2]}, TypeError, "list"),
        ({"a": np.array([1.0, np.nan])}, ValueError, "nan at position"),
        ({"a": np.array(["b"])}, TypeError, "dtype"),
        ([1, 2], TypeError, "expected a dict"),
        (None, TypeError, "expected a dict"),
        (np.ones(3), TypeError, "many"),
    ],
)
def test_bad_rows(x, error, message):
    with pytest.raises(error, match=message):
        read_row(x)


FRAME = {"b": [1.0, 2.0], "a": [3.0, 4.0]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, bool])
def test_frames_of_every_library(library, dtype):
    data = {name: np.array(values).astype(dtype) for name, values in FRAME.items()}
    batch = read_batch(library(data))
    assert batch.layouts == (("b", "a"),)
    expected = np.column_stack(list(data.values())).astype(float)
    np.testing.assert_array_equal(batch.values, expected)
    assert batch.values.dtype == (np.float32 if dtype is np.float32 else np.float64)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.ones(3), ValueError, "shape"),
        (np.ones((2, 3, 4)), ValueError, "shape"),
        (np.ones((0, 3)), ValueError, "0 rows"),
        (np.array([[1.0, np.nan]]), ValueError, r"nan at position \(0, 1\)"),
        (np.array([[1.0, np.inf]], dtype=np.float32), ValueError, "inf"),
        (np.array([["a"]]), TypeError, "dtype"),
        (np.array([[1j]]), TypeError, "dtype"),
        (np.array([[None]]), TypeError, "dtype"),
        ([], ValueError, "0 rows"),
        ([{"a": 1}, None], TypeError, "expected dicts"),
        ([[1, 2], [3, 4]], TypeError, "list"),
        (5, TypeError, "int"),
        ("text", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (pd.Series([1.0]), TypeError, "Series"),
        (pd.DataFrame({"a": ["x"]}), TypeError, "OneHotEncoder"),
        (pd.DataFrame({"a": [1.0, None]}), ValueError, "StatImputer"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "of one name(.|\n)*'a'"),
        (pa.table([[1.0], [2.0]], names=["a", "a"]), ValueError, "of one name"),
        (pd.DataFrame({"a": []}), ValueError, "X has 0 rows"),
        (pl.DataFrame({"a": []}), ValueError, "X has 0 rows"),
        (pd.DataFrame({"a": ["1.5"]}), TypeError, "column 'a'"),
        (pd.DataFrame({"a": [1.5]}, dtype=object), TypeError, "column 'a'"),
        (pd.DataFrame({"a": ["1"]}, dtype="category"), TypeError, "column 'a'"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), TypeError, "column 'a'.*seconds"),
        (pd.DataFrame({"a": [datetime.date(2020, 1, 1)]}), TypeError, "column 'a'.*seconds"),
        (pd.DataFrame({"a": pd.arrays.SparseArray(["x"])}), TypeError, "column 'a'"),
        (pd.DataFrame({"a": pd.interval_range(0, 1)}), TypeError, "column 'a'"),
        (pd.DataFrame({"a": [1j]}), TypeError, "column 'a'"),
        (pl.DataFrame({"a": ["1.5"]}), TypeError, "column 'a'"),
        (pl.DataFrame({"a": [1]}).cast(pl.Date), TypeError, "column 'a'"),
        (pa.table({"a": ["1.5"]}), TypeError, "column 'a'"),
        (np.ma.array([[1.0, 2.0]], mask=[[True, False]]), TypeError, "masked"),
        ([{float("nan"): 1.0}, {"a": 1.0}], ValueError, "name is NaN"),
        (pl.DataFrame({"a": ["x"]}), TypeError, "OneHotEncoder"),
        (pl.DataFrame({"a": [1, None]}), ValueError, "StatImputer"),
        (pl.DataFrame({"a": [1.0]}).lazy(), TypeError, "LazyFrame"),
        (pa.table({"a": ["x"]}), TypeError, "get_dummies"),
    ],
)
def test_bad_batches(X, error, message):
    with pytest.raises(error, match=message):
        read_batch(X)


@given(st.permutations(["a", "b", 1, 2, ("h", 0)]), st.permutations(["a", "b", 1, 2, ("h", 0)]))
def test_names_that_arrive_together_are_sorted(one, other):
    first, second = Columns().extended([tuple(one)]), Columns().extended([tuple(other)])
    assert first.names == second.names
    assert sorted_names([10, 9, 2]) == [2, 9, 10]
    assert sorted_names([("h", 10), ("h", 9)]) == [("h", 9), ("h", 10)]
    assert sorted_names(["b", (1, "a"), ("a", 1), "h2"]) == ["h2", ("a", 1), "b", (1, "a")]


def test_known_columns_never_move():
    columns = Columns().extended([("m",), ("a", "m", "z")])
    assert columns.names == ("m", "a", "z")
    placed = columns.place([("z", "new", "m")], np.array([[1.0, 2.0, 3.0]]))
    assert placed.tolist() == [[3.0, 0.0, 1.0]]
    # Extending leaves the original as it was.
    assert columns.extended([("a",)]) is columns
    assert columns.extended([("b",)]).names == ("m", "a", "z", "b")
    assert columns.names == ("m", "a", "z")
    columns, values = Columns().extended([range(3)]), np.ones((2, 3), dtype=np.float32)
    # A matching layout is not copied; an absent number is zero.
    assert columns.place([range(3)], values) is values
    assert columns.place([("h0",)], np.array([[5.0]])).tolist() == [[5.0, 0.0, 0.0]]


@pytest.mark.parametrize("known", [[], [range(3)]])
def test_changed_lengths_of_arrays_are_an_error(known):
    columns = Columns().extended([*known, (ArrayFeature("h", 3),)])
    assert len(columns) == 3
    for method in (columns.locate, lambda layout: columns.extended([layout])):
        with pytest.raises(ValueError, match="has 2 values, expected 3"):
            method((ArrayFeature("h", 2),))
    with pytest.raises(ValueError, match="2 values in one row and 3 in another"):
        read_batch([{"h": np.ones(2)}, {"h": np.ones(3)}])
    # Named features do not meet by position.
    assert len(Columns().extended([(ArrayFeature(name, 2),) for name in ("left", "right")])) == 4


@pytest.mark.parametrize(
    "layout",
    [
        range(12),
        tuple(range(12)),
        (ArrayFeature("h", 12),),
        tuple(f"h{i}" for i in range(12)),
        tuple(f"h{i}" for i in reversed(range(12))),
    ],
)
@pytest.mark.parametrize(
    "known", [range(12), (ArrayFeature("h", 12),), tuple(f"h{i}" for i in range(12))]
)
def test_numbered_columns_meet_by_position(known, layout):
    """Array columns, ("h", i) and "h…i" are one thing to a pipeline that mixes arrays and dicts."""
    columns = Columns().extended([known, layout])
    assert len(columns) == 12
    positions = [
        int(str(name).strip("h")) for name in names_of(layout) if not isinstance(name, tuple)
    ]
    values = np.array([positions or range(12)], dtype=float)
    placed = columns.place([layout], values)
    expected = Columns().extended([known])
    np.testing.assert_array_equal(placed, expected.place([known], np.arange(12.0)[None]))


@pytest.mark.parametrize(
    ("name", "other"),
    [("a", np.str_("a")), (3, np.int64(3)), (3, 3.0), (1, True), ((1, "a"), (np.int8(1), "a"))],
)
def test_equal_names_are_one_feature_with_one_text(name, other):
    assert feature_key(name) == feature_key(other)
    assert key_text(feature_key(name)) == key_text(feature_key(other))


def test_names_that_only_look_numbered_or_have_no_spelling():
    for name in ("h03", "H3", "h3a", "h-3", "3", ("g", 3), ("h", "3"), ("h",)):
        assert feature_key(name) != 3
    with pytest.raises(TypeError, match="no spelling of its own"):
        key_text(object())


def test_two_names_of_one_feature_do_not_come_together_in_one_row():
    for layout in ((3, "h3"), ("h0", ArrayFeature("h", 2)), (("h", 1), 1)):
        with pytest.raises(ValueError, match=r"stand for one feature.*compose\.Prefixer"):
            Columns().extended([layout])
    with pytest.raises(ValueError, match="stand for one feature"):
        read_batch([{"h0": 1.0, 0: 2.0}, {"b": 1.0}])
    # Rows of one batch may name one feature differently.
    batch = read_batch([{"h0": 1.0, "b": 2.0}, {0: 3.0}, {"h": np.array([4.0, 5.0])}])
    columns = Columns().extended(batch.layouts)
    assert columns.names == ("h0", "b", ("h", 1))
    placed = columns.place(batch.layouts, batch.values)
    assert placed.tolist() == [[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [4.0, 0.0, 5.0]]


@pytest.mark.parametrize("named", [("age",), ("h0", "age"), (ArrayFeature("x", 2),), ("0", "1")])
def test_plain_arrays_and_names_do_not_mix_in_any_order(named):
    for first, second in ((range(2), named), (named, range(2))):
        columns = Columns().extended([first])
        for method in (columns.locate, lambda layout, known=columns: known.extended([layout])):
            with pytest.raises(ValueError, match="Learn and predict in one form"):
                method(second)
    plain = Columns().extended([range(2)])
    with pytest.raises(ValueError, match="in one form"):
        Columns().extended([named]).extended(plain.layouts())
    with pytest.raises(ValueError, match="plain array, expected names as before, such as 'age'"):
        Columns().extended([("age", "height")]).locate(range(2))


@given(strategies.rows(max_rows=9), st.data())
def test_known_names_are_read_alike_with_and_without_detours(rows, data):
    known = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    names = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    columns = Columns().extended([tuple(known)])
    kinds = data.draw(st.sampled_from([float, np.float64, np.float32, int]))
    values = [kinds(value) for value in np.resize(rows.X, len(names)).tolist()]
    x = dict(zip(names, values, strict=True))
    reader = reader_of(columns, tuple(sorted(names)))
    layout, read = read_row(x)
    np.testing.assert_array_equal(reader.read(x), columns.place([layout], read[None])[0])
    assert reader.is_complete == (set(names) <= set(known))


@pytest.mark.parametrize("n_names", [1, 3, 100])
@pytest.mark.parametrize(
    "value",
    [None, np.nan, np.inf, 1e76, 10**400, "1", 1j, np.complex64(1), np.ma.masked, [1.0]],
    ids=repr,
)
def test_what_needs_a_closer_look_gets_it(n_names, value):
    x = dict.fromkeys(range(n_names), 1.0)
    reader = reader_of(Columns().extended([tuple(x)]), tuple(x))
    assert reader.read(x).tolist() == [1.0] * n_names
    assert reader.read(x | {0: value}) is None
    assert reader.read(x | {"another": 1.0}) is None
    assert reader.read({"another": 1.0}) is None


def test_one_array_is_read_without_detours():
    columns = Columns().extended([(ArrayFeature("h", 2), "b")])
    reader = reader_of(columns, (ArrayFeature("h", 2),))
    assert reader.read({"h": np.array([1, 2], np.float32)}).tolist() == [1.0, 2.0, 0.0]
    for value in (np.ones(3), np.ones((1, 2)), np.array([1, 2]), np.array([1.0, np.nan]), 1.0):
        assert reader.read({"h": value}) is None
    assert reader_of(columns, (ArrayFeature("h", 2), "b")) is None


indices = st.lists(
    st.one_of(st.integers(0, 9), st.text("ab", max_size=2), st.dates()), min_size=2, max_size=6
)


@pytest.mark.parametrize(
    "kind", [*dict(strategies.KINDS.values()), StreamClassifier, StreamRegressor]
)
@settings(max_examples=20)
@given(st.data(), indices)
def test_targets_of_the_index_of_the_frame_come_in_its_order(kind, data, index):
    model, n_rows = kind(), len(index)
    X = pd.DataFrame({"a": np.arange(n_rows, dtype=float)}, index=index)
    y = pd.Series(np.arange(n_rows) % 2, index=index)
    if kind is LeastSquaresMultiTargetRegressor:
        y = pd.DataFrame({"y": y, "z": y})
    shuffled = y.iloc[data.draw(st.permutations(range(n_rows)))]
    if shuffled.index.tolist() != index:
        with pytest.raises(ValueError, match=r"index of X in another order.*y\.to_numpy\(\)"):
            model.learn_many(X, shuffled)
        assert model.count == 0
    for accepted in (y, y.copy(), shuffled.set_axis(range(100, 100 + n_rows))):
        model.learn_many(X, accepted)
    assert model.count == 3 * n_rows


def test_only_pandas_has_an_index_to_align():
    X, y = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1, 2], index=[1, 0])
    for rows in (X.to_numpy(), X.to_dict("records"), pl.DataFrame(X), pa.table(X)):
        check_aligned(rows, y=y)
    for targets in (y.tolist(), y.to_numpy(), pl.Series(y), pd.Series([1, 2, 3], index=[1, 0, 2])):
        check_aligned(X, y=targets)
    with pytest.raises(ValueError, match=r"y\.reindex\(X\.index\)"):
        check_aligned(X, y=y)


def test_weights_and_times_of_a_series_in_another_order_are_refused():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0]})
    turned = pd.Series([1.0, 2.0, 3.0], index=[2, 1, 0])
    linear = LeastSquaresClassifier(half_life=2.0)
    for model in (linear, DriftAwareClassifier(linear.clone())):
        with pytest.raises(ValueError, match="w has the index of X in another order"):
            model.learn_many(X, [0, 1, 0], w=turned)
        model.learn_many(X, [0, 1, 0], w=turned.to_numpy())
    with pytest.raises(ValueError, match="t has the index of X in another order"):
        LeastSquaresClassifier(half_life=2.0).learn_many(X, [0, 1, 0], t=turned)
