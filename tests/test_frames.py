"""Batches as people have them: sparse, nullable, boolean, with text and categories among them."""

import ast
import re
import warnings
from datetime import date, datetime, time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, compose, feature_extraction, preprocessing
from scipy import sparse

import onlinels
import strategies
from laws import peak_of
from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.rows import read_batch, source_of


def twice(X):
    """Return a sparse matrix each entry of which is the sum of two."""
    half = sparse.coo_array(X / 2)
    rows, columns = half.coords
    both = np.concatenate([half.data, half.data]), (np.tile(rows, 2), np.tile(columns, 2))
    made = sparse.coo_array(both, shape=X.shape)
    order = np.argsort(made.coords[0], kind="stable")
    starts = np.searchsorted(made.coords[0][order], np.arange(len(X) + 1))
    return sparse.csr_array((made.data[order], made.coords[1][order], starts), shape=X.shape)


MATRICES = {
    "csr": sparse.csr_array,
    "csr matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo matrix": sparse.coo_matrix,
    "lil": sparse.lil_array,
    "duplicates": twice,
}
FRAMES = {
    "sparse": lambda frame: frame.astype(pd.SparseDtype(float, 0.0)),
    "sparse about another value": lambda frame: frame.astype(pd.SparseDtype(float, 1.0)),
    "sparse in part": lambda frame: frame.astype({frame.columns[0]: pd.SparseDtype(float, 0.0)}),
    "nullable": lambda frame: frame.convert_dtypes(),
    "of pyarrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
}
NAMES = list("fbadce")


@pytest.mark.filterwarnings("ignore:X lacks 1 of")
@pytest.mark.parametrize("way", [*MATRICES, *FRAMES])
@settings(max_examples=15)
@given(
    strategies.rows(),
    st.sampled_from(["gram", "orthogonal", "recursive", KFold(2), "auto"]),
    st.data(),
)
def test_rows_of_every_kind_are_the_same_rows(way, rows, form, data):
    X = rows.X.astype(float)
    if way in FRAMES:
        X = pd.DataFrame(X, columns=NAMES[: X.shape[1]])
    same = (MATRICES | FRAMES)[way](X)
    # Beside a small ridge the recursive form would not unlearn large numbers.
    how = {"ridge": 1e6 if form == "recursive" else 1.0, "accumulator": form}
    if form == "auto" or isinstance(form, KFold):
        how = {"ridge": form}
    model, other = LeastSquaresClassifier(**how), LeastSquaresClassifier(**how)
    if data.draw(st.booleans()):
        # Columns are then put in other places.
        late = [dict.fromkeys([*X.columns, "late"] if way in FRAMES else range(9), 1.0)]
        model.learn_many(late, [0])
        other.learn_many(late, [0])
    model.learn_many(X, rows.y, rows.w)
    other.learn_many(same, rows.y, rows.w)
    np.testing.assert_array_equal(other.output_weights, model.output_weights)
    expected = np.asarray(model.scores_many(X))
    np.testing.assert_allclose(np.asarray(other.scores_many(same)), expected, atol=1e-9)
    if not isinstance(same, (pl.DataFrame, pa.Table)):
        assert type(other.predict_many(same)) is type(model.predict_many(X))
    assert list(other.variance_many(X)) is not None
    if form != "orthogonal":
        other.unlearn_many(same, rows.y, rows.w)
        assert other.count == model.count - len(rows)


def few(random, n_rows=12):
    return np.round(random.random((n_rows, 3)) * (random.random((n_rows, 3)) < 0.5), 2)


@pytest.mark.parametrize("matrix", [sparse.csr_array, sparse.coo_matrix])
def test_sparse_matrices_go_where_arrays_go(matrix):
    X, y = few(np.random.default_rng(0)), [0, 1, 1] * 4
    layer = HiddenLayer(5)
    for make in (
        StreamClassifier,
        lambda: DriftAwareClassifier(LeastSquaresClassifier()),
        lambda: layer | LeastSquaresRegressor(ridge=1.0),
    ):
        model, other = make(), make()
        model.learn_many(X, y)
        other.learn_many(matrix(X), y)
        np.testing.assert_allclose(other.predict_many(matrix(X)), model.predict_many(X))
    assert isinstance(layer.transform_many(matrix(X)), np.ndarray)
    assert source_of(matrix(X)).shape == X.shape


def test_wide_sparse_rows_are_never_made_dense_at_once(monkeypatch):
    X = sparse.random_array((20_000, 100), density=0.01, format="csr", random_state=0)
    dense = 8 * X.shape[0] * X.shape[1]
    monkeypatch.setattr("onlinels.checks.BLOCK_BYTES", dense // 40)
    names = [f"word {column}" for column in range(100)]
    frame = pd.DataFrame.sparse.from_spmatrix(X, columns=names).fillna(0.0)
    for rows in (X, frame):
        model = LeastSquaresRegressor(ridge=1.0)
        model.learn_many(rows[:100], np.ones(100))
        assert peak_of(lambda: model.learn_many(rows, np.ones(len(frame)))) < dense / 3  # noqa: B023
        assert peak_of(lambda: model.predict_many(rows)) < dense / 4  # noqa: B023


@pytest.mark.parametrize(
    "column",
    [
        np.array([True, False, True]),
        pd.array([True, False, True], dtype="boolean"),
        pd.array([True, False, True], dtype="bool[pyarrow]"),
        pd.arrays.SparseArray([True, False, True]),
        pd.arrays.SparseArray([1, 0, 1], dtype="uint8"),
        pd.array([1, 0, 1], dtype="Int8"),
        pd.array([1, 0, 1], dtype="Float32"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_booleans_and_nullable_numbers_are_numbers(column):
    frame = pd.DataFrame({"a": column, "b": [0.5, 1.5, 2.5]})
    for table in (
        frame,
        frame[["a"]],
        pl.from_pandas(frame.astype({"a": np.asarray(column).dtype})),
    ):
        np.testing.assert_array_equal(read_batch(table).values[:, 0], [1.0, 0.0, 1.0])
    flags = np.array([[True], [False], [True]])
    for table in (
        flags,
        sparse.csr_array(flags),
        pa.table({"a": flags[:, 0]}),
        [{"a": f} for f in (True, False, True)],
    ):
        np.testing.assert_array_equal(read_batch(table).values[:, 0], [1.0, 0.0, 1.0])


MISSING = [
    pd.array([1, None], dtype="Int64"),
    pd.array([1.0, None], dtype="Float64"),
    pd.array([True, None], dtype="boolean"),
    pd.array([1, None], dtype="int64[pyarrow]"),
    pd.array([1.0, np.nan], dtype="double[pyarrow]"),
    pd.arrays.SparseArray([0.0, np.nan], fill_value=0.0),
    pd.arrays.SparseArray([0.0, np.nan]),
    pl.Series([1, None]),
    pl.Series([True, None]),
    pl.Series([1.0, np.nan]),
    pa.array([1, None]),
]


@pytest.mark.parametrize(
    "column",
    MISSING,
    ids=lambda column: (
        f"{column.__class__} {column.dtype}" if hasattr(column, "dtype") else "arrow"
    ),
)
@pytest.mark.parametrize("others", [{"age": [1.0, 2.0]}, {}])
def test_missing_values_are_refused_by_the_name_of_their_column(column, others):
    library = {pl.Series: pl.DataFrame, pa.Int64Array: pa.table}.get(type(column), pd.DataFrame)
    with pytest.raises(ValueError, match=r"nan in row 1 of column 'pay', .*fillna.*StatImputer"):
        LeastSquaresRegressor().learn_many(library({**others, "pay": column}), [1.0, 2.0])


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (
            sparse.csr_array([[0.0, 1.0], [np.nan, 0.0]]),
            ValueError,
            r"X holds nan at position \(1, 0\)",
        ),
        (sparse.csc_array([[0.0, 1e200]]), ValueError, r"1e\+200 at position \(0, 1\)"),
        (sparse.csr_array([[0.0, 1j]]), TypeError, "complex"),
        (sparse.csr_array((0, 3)), ValueError, "0 rows"),
        (sparse.coo_array([0.0, 1.0]), ValueError, r"shape \(2,\)"),
    ],
)
def test_bad_sparse_matrices(matrix, error, message):
    with pytest.raises(error, match=message):
        LeastSquaresRegressor().learn_many(matrix, np.ones(matrix.shape[0]))


def test_missing_values_of_pandas_in_a_sample_are_missing():
    with pytest.raises(ValueError, match=r"x\['a'\] is <NA>.*StatImputer"):
        LeastSquaresRegressor().learn_one({"a": pd.NA}, 1.0)


# Text and categories, and what errors advise.

COLOURS, NUMBERS = ["red", "blue", "red", "green"], ["3.5", "-1", "2e3", "0"]


WITH_GAPS = [
    pd.DataFrame({"a b": [3.5, None]}, dtype=object),
    pd.DataFrame({"a b": ["3.5", None]}, dtype="string"),
    pd.DataFrame({"a b": [None, None]}),
    pl.DataFrame({"a b": [None, "2"]}),
]


def tables(values):
    """Return frames of every library with one column of text or categories, and a number."""
    other = {"size": [1.0, 2.0, 3.0, 4.0]}
    for dtype in ("object", "category", "string", "string[pyarrow]"):
        yield pd.DataFrame({"a b": pd.Series(values, dtype=dtype), **other})
    for kind in (pl.String, pl.Categorical, pl.Enum(sorted(set(values)))):
        yield pl.DataFrame({"a b": pl.Series(values, dtype=kind), **other})
    for column in (pa.array(values), pa.array(values).dictionary_encode()):
        yield pa.table({"a b": column, **other})


@pytest.mark.parametrize("X", [*tables(COLOURS), *tables(NUMBERS), *WITH_GAPS], ids=repr)
def test_columns_of_no_numbers_are_refused_with_one_remedy(X):
    remedy = r"column 'a b' of type .*get_dummies.*to_dummies.*OneHotEncoder.*float.*seconds"
    with pytest.raises(TypeError, match=remedy):
        LeastSquaresRegressor().learn_many(X, [1.0] * len(X))


@pytest.mark.parametrize("names", [(0, 1), (("a", 1), ("b", 2)), ("a", 0), (1, "a")])
def test_names_of_columns_need_not_be_text(names):
    X, y = pd.DataFrame({names[0]: [1.0, 2.0, 3.0], names[1]: ["red", "blue", "red"]}), [1, 0, 1]
    batches, rows = StreamClassifier(), StreamClassifier()
    batches.learn_many(X, y)
    for x, label in zip(X.to_dict("records"), y, strict=True):
        rows.learn_one(x, label)
    assert batches.feature_names == (names[0], (names[1], "red"), (names[1], "blue"))
    assert batches.predict_many(X).tolist() == rows.predict_many(X.to_dict("records"))
    with pytest.raises(TypeError, match=re.escape(f"a column {names[1]!r} of type")):
        LeastSquaresClassifier().learn_many(X, y)


def test_advice_on_text_in_samples_works():
    import numbers

    x, model = {"a": "3.5", "b": "red", "c": 2}, LeastSquaresRegressor()
    with pytest.raises(TypeError, match=r"Pass (.*)\.$") as raised:
        model.learn_one(x, 1.0)
    x["a"] = eval(re.search(r"Pass (.*)\.$", str(raised.value))[1], {"x": x})
    with pytest.raises(TypeError, match=r"river's (.*)\.$") as raised:
        model.learn_one(x, 1.0)
    given = {"compose": compose, "preprocessing": preprocessing, "numbers": numbers}
    encoded = eval(re.search(r"river's (.*)\.$", str(raised.value))[1], given) | model
    encoded.learn_one(x, 1.0)
    assert model.feature_names == ("a", "b_red", "c")


def one(value, y=1.0):
    return {"x": {"a": value}, "y": y}


def many(X, y=(1.0, 2.0)):
    return {"X": X, "y": y}


R, S = LeastSquaresRegressor, StreamRegressor
TEXTS = pd.DataFrame({"a": ["x", "y"], "b": ["u", "u"], "n": [1.0, 2.0]})
COLUMNS = [make({"z y": [1.0, 2.0]}) for make in (pd.DataFrame, pl.DataFrame, pa.table)]
ADVISED = [
    (R, many(COLUMNS[1].lazy()), "X = X.collect()"),
    (S, many({"a": [1.0, 2.0]}), "X = pandas.DataFrame(X)"),
    (R, many({"a": 1.0}, [1.0]), "X = [X]"),
    (S, many(iter([{"a": 1.0}, {}])), "X = list(X)"),
    (R, many(iter(np.eye(2))), "X = np.stack(list(X))"),
    (R, many(COLUMNS[0]["z y"]), "X = X.to_frame()"),
    (R, many(np.ones(2)), "X = X.reshape(2, -1)"),
    (R, many(np.ones((2, 3, 4))), "X = X.reshape(2, -1)"),
    (S, many(np.eye(2), iter([1.0, 2.0])), "y = list(y)"),
    (R, many(np.eye(2), np.ones((2, 1))), "y = y.ravel()"),
    *((R, many(np.eye(2), frame), "y = y['z y']") for frame in COLUMNS),
    *((LeastSquaresClassifier, many(np.eye(2), frame), "y = y['z y']") for frame in COLUMNS),
    (LeastSquaresClassifier, many(np.eye(2), np.eye(2)), "y = np.asarray(y).argmax(axis=1)"),
    (R, {"x": COLUMNS[0].iloc[0], "y": 1.0}, "x = x.to_dict()"),
    (R, {"x": next(COLUMNS[0].itertuples()), "y": 1.0}, "x = x._asdict()"),
    (S, {"x": np.ones(3), "y": 1.0}, "x = dict(enumerate(x))"),
    (R, one(2.0, [1.0]), "y = y[0]"),
    (S, one(2.0, np.ones(1)), "y = y[0]"),
    (S, one({"k": 1.0}), "x.update(x['a']) and del x['a']"),
    (R, one(datetime(2026, 1, 1)), "x['a'] = x['a'].timestamp()"),
    (S, one(date(2026, 1, 1)), "x['a'] = x['a'].toordinal()"),
    (S, one(time(3)), "x['a'] = x['a'].hour"),
    (R, one(timedelta(3)), "x['a'] = x['a'].total_seconds()"),
    (S, one(np.datetime64("2026-01-01")), "x['a'] = x['a'].astype(float)"),
    (S, one(pd.Period("2026-01")), "x['a'] = x['a'].ordinal"),
    (S, one(b"red"), "x['a'] = x['a'].decode()"),
    (S, one(pd.Interval(0, 1)), "x['a'] = str(x['a'])"),
    (R, one(np.nan), "x = {k: v for k, v in x.items() if v == v}"),
]


@pytest.mark.parametrize(
    ("make", "given", "change"), ADVISED, ids=[change for *_, change in ADVISED]
)
def test_what_errors_advise_works(make, given, change):
    learn_one, given = "x" in given, {"pandas": pd, "np": np} | given
    model = make()

    def learn():
        if learn_one:
            model.learn_one(given["x"], given["y"])
        else:
            model.learn_many(given["X"], given["y"])

    with pytest.raises((TypeError, ValueError), match=re.escape(change.split(" = ")[-1])):
        learn()
    exec(change.replace(" and ", "; "), given)
    learn()


def test_columns_of_several_kinds_are_told_at_once():
    frame = TEXTS.assign(c="3", d=pd.Timestamp("2026-01-01"), e=1j)
    expected = "'a' of .*'b' of .*'c' of .*'d' of .*'e' of .*"
    with pytest.raises(TypeError, match=expected):
        LeastSquaresRegressor().learn_many(frame, [1.0, 2.0])


def test_arrays_of_text_are_told_to_be_numbers():
    X = np.array([["3.5", "1"]])
    with pytest.raises(TypeError, match=r"X\.astype\(float\)"):
        LeastSquaresRegressor().learn_many(X, [1.0])
    LeastSquaresRegressor().learn_many(X.astype(float), [1.0])


def test_frames_of_rivers_encoders_are_read(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"tier": random.choice(["low", "mid", "top"], 50), "size": random.random(50)}
    )
    y = pd.Series(random.integers(0, 2, 50), index=frame.index)
    for first in (
        preprocessing.OneHotEncoder(),
        compose.Select("size") + (compose.Select("tier") | preprocessing.OneHotEncoder()),
        compose.Select("size") + feature_extraction.BagOfWords("tier"),
    ):
        batches, rows = first | LeastSquaresClassifier(), first.clone() | LeastSquaresClassifier()
        batches.learn_many(frame[:30], y[:30])
        for x, label in zip(frame[:30].to_dict("records"), y[:30].tolist(), strict=True):
            rows.learn_one(x, label)
        answers = [rows.predict_one(x) for x in frame[30:].to_dict("records")]
        onlinels.save(batches, tmp_path / "model.npz")
        for model in (batches, onlinels.load(tmp_path / "model.npz")):
            assert model.predict_many(frame[30:]).tolist() == answers


@pytest.mark.parametrize("kind", [*strategies.KINDS, "folds", "drift"])
@pytest.mark.parametrize("way", [list, pd.DataFrame, pl.DataFrame])
@settings(max_examples=10)
@given(st.permutations(["age", "net pay", "h7"]), st.data())
def test_errors_name_features_not_columns(kind, way, names, data):
    make, targets = strategies.KINDS.get(kind, (LeastSquaresClassifier, None))
    y = [1, 2, 1, 2] if not targets else [{"b": 1.0, "a": 2.0, 7: 3.0}] * 4
    how = {"drift": lambda: DriftAwareClassifier(make()), "folds": lambda: make(ridge=KFold(2))}
    model = how.get(kind, lambda: make(ridge=1.0))()
    rows = [dict(zip(names, map(float, row), strict=True)) for row in np.eye(4, 3) + 1]
    model.learn_many(way(rows), y)
    bad = data.draw(st.sampled_from(names))

    def refused(call, value, *others):
        changed = [*rows[:3], rows[3] | {bad: value}]
        with pytest.raises(ValueError, match=re.escape(repr(bad))) as raised:
            call(way(changed), *others)
        assert not re.search(r"column \d", str(raised.value))

    for value in (np.nan, np.inf, 1e200):
        refused(model.learn_many, value, y)
        refused(model.predict_many, value)
    refused(model.learn_many, 1e150, y, 10.0)
    if kind != "drift":
        refused(model.unlearn_many, 3.0, y)
    refused(HiddenLayer(3, activation="square", dtype="float32").transform_many, 1e30)


# Columns that a model knows and a frame lacks.


class Same(base.MiniBatchTransformer):
    """A step that makes nothing of a row."""

    def transform_one(self, x):
        return x

    def transform_many(self, X):
        return X


OF_CLASSES = "predict_many", "predict_proba_many", "scores_many", "margin_many"
OF_NUMBERS = "predict_many", "predict_interval_many", "with_dist"
ASKED = {
    "classifier": (LeastSquaresClassifier, (*OF_CLASSES, "variance_many")),
    "recursive": (lambda: LeastSquaresClassifier(1.0, "recursive"), OF_CLASSES),
    "regressor": (LeastSquaresRegressor, OF_NUMBERS),
    "several": (LeastSquaresMultiTargetRegressor, OF_NUMBERS),
    "drift": (lambda: DriftAwareClassifier(LeastSquaresClassifier()), OF_CLASSES[:2]),
    "calibrated": (lambda: CalibratedClassifier(LeastSquaresClassifier()), OF_CLASSES[:2]),
    "pipeline": (lambda: Same() | LeastSquaresClassifier(), OF_CLASSES[:2]),
}
TABLES = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


def said(call, *arguments, **how):
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **how)
    return [str(each.message) for each in caught]


def ask(model, how):
    """Return the method that answers batches in one of the ways."""
    if how == "with_dist":
        return lambda X: model.predict_many(X, with_dist=True)
    return getattr(model, how)


@pytest.mark.parametrize("kind", ASKED)
@strategies.examples(8)
@given(st.sampled_from([*TABLES.values()]), st.data())
def test_a_frame_that_lacks_columns_is_named_once(kind, table, data):
    make, ways = ASKED[kind]
    model = make()
    names = [f"c{k}" for k in range(data.draw(st.integers(1, 6)))]
    frame = pd.DataFrame(whole_numbers(9, len(names)), columns=names)
    y = pd.DataFrame({"u": frame.sum(axis=1)}) if kind == "several" else np.arange(9) % 3
    cut = data.draw(st.integers(1, len(names)))
    # Columns may come and go where rows are learnt.
    assert said(model.learn_many, table(frame), y) == []
    assert said(model.learn_many, table(frame[names[:cut]]), y) == []
    asked: set[frozenset[str]] = set()
    for _ in range(3):
        changed = {
            name: data.draw(st.sampled_from([name, name, "dropped", name.upper()]))
            for name in names
        }
        lacking = [name for name in names if changed[name] != name]
        kept = frame[[name for name in names if changed[name] != "dropped"]].rename(columns=changed)
        if kept.empty:
            kept["new"] = 1.0
        call = ask(model, data.draw(st.sampled_from(ways)))
        messages = said(call, table(kept)) + said(call, table(kept))
        is_new = bool(lacking) and frozenset(lacking) not in asked
        asked.add(frozenset(lacking))
        assert len(messages) == is_new
        if is_new:
            found = re.fullmatch(
                r"X lacks (\d+) of the (\d+) columns .*? learnt: (\[.*?\])\. They count as 0\. .*",
                messages[0],
            )
            assert (int(found[1]), int(found[2])) == (len(lacking), len(names))
            assert ast.literal_eval(found[3]) == lacking
            new = [name for name in kept.columns if name not in names]
            assert f" (X has {new} besides)" in messages[0] or not new
        # Dicts leave out what is 0.
        assert said(call, kept.to_dict("records")) == []


def whole_numbers(n_rows, n_columns):
    return np.random.default_rng(0).integers(-5, 6, (n_rows, n_columns)).astype(float)


def test_arrays_and_models_that_know_nothing_warn_of_no_columns():
    frame = pd.DataFrame(whole_numbers(9, 3), columns=list("abc"))
    model = LeastSquaresRegressor()
    assert said(model.predict_many, frame) == []
    model.learn_many(frame.to_numpy(), np.arange(9.0))
    assert said(model.predict_many, frame.to_numpy()[:, :2]) == []
    assert said(model.predict_many, sparse.csr_array(frame.to_numpy()[:, :2])) == []


def test_warnings_leave_no_trace_in_files_and_are_bounded():
    model = LeastSquaresRegressor(1.0)
    X = pd.DataFrame(whole_numbers(9, 80))
    model.learn_many(X, np.arange(9.0))
    model.predict_many(X)
    before = onlinels.dumps(model)
    assert all(len(said(model.predict_many, X.drop(columns=k))) == 1 for k in range(80))
    assert all(len(said(model.predict_many, X.drop(columns=k))) == 0 for k in range(60, 80))
    assert onlinels.dumps(model) == before
    (message,) = said(model.predict_many, X[[0, 1]])
    assert "X lacks 78 of the 80 columns" in message
    assert len(message) < 300


@pytest.mark.parametrize("drop_zeros", [False, True])
@pytest.mark.parametrize("library", TABLES)
def test_encoders_leave_out_categories_in_silence(library, drop_zeros):
    """Of pandas always; elsewhere unless they drop zeros, as columns are then like any others."""
    table = TABLES[library]
    encoder = preprocessing.OneHotEncoder(drop_zeros=drop_zeros)
    model = compose.Select("age") + (compose.Select("tier") | encoder) | LeastSquaresClassifier(1.0)
    frame = pd.DataFrame({"age": [23.0, 61.0, 35.0], "tier": ["gold", "basic", "none"]})
    model.learn_many(table(frame), [0, 1, 1])
    messages = said(model.predict_many, table(frame[:2])) + said(
        model.predict_many, table(frame[:1])
    )
    assert len(messages) == (2 if drop_zeros and library != "pandas" else 0)


@pytest.mark.parametrize("wrap", [lambda m: m, CalibratedClassifier, DriftAwareClassifier])
def test_the_warning_of_lacking_columns_names_the_callers_line_and_comes_until_it_is_seen(wrap):
    model = wrap(LeastSquaresClassifier(ridge=1.0))
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}), ["u", "v"])
    asked = pd.DataFrame({"a": [1.0]})
    for _ in range(2):
        # As an error it is raised again, since nobody was answered.
        with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="X lacks 1"):
            model.predict_many(asked)
    with warnings.catch_warnings(record=True, action="always") as caught:
        model.predict_many(asked)
        model.predict_many(asked)
    assert [each.filename for each in caught] == [__file__]
