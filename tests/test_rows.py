"""What counts as rows: dicts, arrays, sparse matrices and frames, read by the names of columns.

Values are numbers, booleans, missing values, texts, categories; whatever else comes is refused.
"""

import collections
import copy
import datetime
import decimal
import functools
import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, feature_extraction, preprocessing
from scipy import sparse

import onlinels
from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
)
from onlinels.export import answers_only
from onlinels.rows.batch import as_outputs
from support import laws, models, strategies
from support.strategies import examples, kinds

# -- bad rows --------------------------------------------------------------------------------------

FIELDS = np.array([(1.0, 2.0), (3.0, 5.0)], dtype=[("a", float), ("b", float)])
Named = collections.namedtuple("Named", "a b")
BAD_VALUES = [
    (None, ValueError, r"x\['a'\] is None.*StatImputer"),
    (pd.NA, ValueError, r"x\['a'\] is <NA>.*StatImputer"),
    (np.datetime64("NaT", "s"), ValueError, r"x\['a'\] is .*NaT.*StatImputer"),
    (np.ma.masked, ValueError, r"x\['a'\] is masked, .*StatImputer"),
    (float("-inf"), ValueError, r"x\['a'\] is -inf.*1e\+150.*rescale"),
    (1e200, ValueError, r"1e\+200.*1e\+150.*rescale"),
    (10**400, ValueError, r"x\['a'\] is a number beyond .*\(of type int\).*magnitude"),
    (decimal.Decimal("1e400"), ValueError, r"beyond float64 \(of type Decimal\).*magnitude"),
    (datetime.datetime(2020, 1, 1), TypeError, r"type datetime, .*timestamp\(\)"),
    (b"red", TypeError, r"b'red' of type bytes, .*decode\(\)"),
    ("red", TypeError, r"x\['a'\] is 'red' of type str.*OneHotEncoder"),
    (np.complex128(1j), TypeError, "complex128, expected a number.*OneHotEncoder"),
    ([1, 2], TypeError, "list, expected a number"),
    (np.array([1.0, np.nan]), ValueError, "nan at position.*StatImputer"),
    (np.array(["b"]), TypeError, "dtype.*OneHotEncoder"),
]
BAD_ROWS = [
    *(({"a": value}, error, message) for value, error, message in BAD_VALUES),
    ({("h", 0): 1.0, "h": np.ones(2)}, ValueError, r"stand for one feature.*compose\.Prefixer"),
    ({"h0": 1.0, "h": as_outputs(np.ones(2))}, ValueError, "stand for one feature"),
    ([1, 2], TypeError, r"expected a dict of features, or an array\. .*dict\(enumerate\(x\)\)"),
    (pd.Series({"a": 1.0}), TypeError, r"Series, expected a dict.* x\.to_dict\(\),"),
    (Named(1.0, 2.0), TypeError, r"Named, expected a dict.* x\._asdict\(\),"),
    (FIELDS[0], TypeError, r"void, expected a dict.*dict\(zip\(names, x\)\)"),
    (np.ones((1, 3)), ValueError, r"^x has the shape \(1, 3\).*Pass x\[0\] or x.ravel\(\).*many"),
    (np.array([1.0, np.nan]), ValueError, "^x holds nan"),
    (np.array(["1"]), TypeError, "^x has dtype"),
    (None, TypeError, "NoneType, expected a dict of features"),
]
BAD_BATCHES = [
    (np.ones((2, 3, 4)), ValueError, "shape"),
    (np.array([[1.0, np.nan]]), ValueError, r"nan at position \(0, 1\)"),
    (np.array([[1.0, np.inf]], dtype=np.float32), ValueError, "inf"),
    (np.array([["a"]]), TypeError, "dtype"),
    (FIELDS, TypeError, r"X is a structured array .*DataFrame\(X\).*_unstructured\(X"),
    ([pd.Series({"a": 1.0})], TypeError, r"^X\[0\] is of type Series.* X\[0\]\.to_dict\(\)"),
    ([{"a": 1}, None], TypeError, "expected a dict"),
    ([[1, 2], [3, 4]], TypeError, "list"),
    ("text", TypeError, "str"),
    (pd.Series([1.0]), TypeError, "Series"),
    (pd.DataFrame({"a": ["x"]}), TypeError, "OneHotEncoder"),
    (pd.DataFrame({"a": [1.0, None]}), ValueError, "StatImputer"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "of one name(.|\n)*'a'"),
    (pa.table([[1.0], [2.0]], names=["a", "a"]), ValueError, "of one name"),
    (pd.DataFrame({"a": pd.arrays.SparseArray(["x"])}), TypeError, "column 'a'"),
    (np.ma.array([[1.0, 2.0]], mask=[[True, False]]), TypeError, "masked"),
    ([{float("nan"): 1.0}, {"a": 1.0}], ValueError, "name is NaN"),
    ([{("h", 1): 1.0, "h": np.ones(2)}, {"b": 1.0}], ValueError, "stand for one feature"),
    ([{"h": np.ones(2)}, {"h": np.ones(3)}], ValueError, "has 3 values, expected 2 as in other"),
    (pl.DataFrame({"a": [1.0]}).lazy(), TypeError, "LazyFrame"),
    (sparse.csr_array([[0.0, 1.0], [np.nan, 0.0]]), ValueError, r"nan at position \(1, 0\)"),
    (sparse.csc_array([[0.0, 1e200]]), ValueError, r"1e\+200 at position \(0, 1\)"),
    (sparse.csr_array([[0.0, 1j]]), TypeError, "complex"),
    (sparse.coo_array([0.0, 1.0]), ValueError, r"shape \(2,\)"),
]
TAUGHT = dict.fromkeys(["gram", "recursive", "orthogonal"], "u")
TAUGHT |= {"regressor": 1.0, "several": {"u": 1.0}}


@pytest.mark.parametrize(("x", "error", "message"), BAD_ROWS, ids=str)
def test_bad_rows_are_refused_by_all_that_reads_rows(x, error, message):
    layer = HiddenLayer(3)
    laws.assert_refused(lambda: layer.transform_one(x), layer, message, error)
    for kind, y in TAUGHT.items():
        model = models.MODELS[kind]()
        for _ in range(2):
            learn = functools.partial(model.learn_one, x, y)
            laws.assert_refused(learn, model, message, error)
            model.learn_one({"a": 1.0, "h0": 1.0, "h1": 1.0}, y)
        for question in (*models.QUESTIONS, "debug"):
            if hasattr(model, f"{question}_one"):
                ask = functools.partial(getattr(model, f"{question}_one"), x)
                laws.assert_refused(ask, model, message, error)


@pytest.mark.parametrize(("X", "error", "message"), BAD_BATCHES, ids=str)
def test_bad_batches_are_refused_by_all_that_reads_batches(X, error, message):
    layer, n_rows = HiddenLayer(3), X.shape[0] if hasattr(X, "shape") else 2
    laws.assert_refused(lambda: layer.transform_many(X), layer, message, error)
    for kind, y in TAUGHT.items():
        model = models.MODELS[kind]()
        learn = functools.partial(model.learn_many, X, [y] * n_rows)
        laws.assert_refused(learn, model, message, error)


VALUES = st.one_of(
    *(st.floats(-1e6, 1e6), st.integers(-(10**6), 10**6), st.booleans()),
    st.sampled_from([each for each, _, _ in BAD_VALUES]),
    st.sampled_from(
        [
            *(kind(3) for kind in (np.float16, np.float32, np.uint8, np.int64, np.longdouble)),
            *(np.bool_(True), Fraction(1, 3), decimal.Decimal("2.5"), np.array(4.0), np.zeros(0)),
            *(np.array([5.0]), np.array([1.0, 2.0]), np.float32(3e38), np.float16(6e4), 10**20),
            *(1e50, 1e100, np.longdouble("1e400"), datetime.timedelta(3)),
        ]
    ),
)


def outcome(call):
    """Return what a call answers, or the kind of its error."""
    try:
        return call()
    except (TypeError, ValueError) as error:
        return type(error)


@examples(100)
@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from([0, 100]), st.randoms())
def test_known_names_in_any_order_are_read_as_at_first_sight(values, n_others, shuffle):
    """Learnt or refused alike, without a warning, and a refused row leaves no trace."""
    values = values + [1.0] * n_others
    names = [f"name {number}" for number in range(len(values))]
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many([dict.fromkeys(names, 1.0 + label) for label in (0, 1, 0)], [0, 1, 0])
    given_row, careful = dict(zip(names, values, strict=True)), copy.deepcopy(model)
    shuffle.shuffle(names)
    x = {name: given_row[name] for name in names}
    for label in (0, 1, 0):
        model.predict_one(dict.fromkeys(given_row, 1.0 + label))
    found = outcome(lambda: model.predict_proba_one(x))
    expected = outcome(lambda: careful.predict_proba_many([x])[0])
    assert found == (pytest.approx(expected) if isinstance(expected, dict) else expected)
    before = pickle.dumps(model)
    refused = outcome(lambda: model.learn_one(x, 1))
    assert refused is outcome(lambda: careful.learn_many([x], [1]))
    assert not refused or pickle.dumps(model) == before
    expected = careful.output_weights
    np.testing.assert_allclose(model.output_weights, expected, rtol=1e-6, atol=1e-12)


# -- names of features -----------------------------------------------------------------------------

ODD = [
    *(None, "", "\0", "a\0", "\u00e9", "e\u0301", "\U0001f600\u200d\U0001f525", "\ud800"),
    *("x" * 100_000, (), (1, "b"), ("h", 0), -1, 10**30, 0.5),
]


@pytest.mark.parametrize(
    "kind", ["gram", "recursive", "folds", "calibrated pipeline", "drift", "stream"]
)
@examples(30)
@given(st.permutations(ODD))
def test_names_are_of_any_type_and_their_order_changes_no_bit(kind, names):
    values = dict(zip(ODD, np.random.default_rng(0).random(len(ODD)).tolist(), strict=True))
    plain, turned = models.CLASSIFIERS[kind](), models.CLASSIFIERS[kind]()
    for model, order in ((plain, ODD), (turned, names)):
        for scale, label in ((1.0, "a"), (2.0, "b"), (3.0, "a"), (4.0, "b")):
            model.learn_one({name: scale * values[name] for name in order}, label)
            model.predict_one({name: values[name] for name in reversed(order)})
    assert plain.predict_proba_one(values) == turned.predict_proba_one(values)
    assert set(getattr(plain, "feature_names", ODD)) == set(ODD)


def test_names_of_one_row_are_sorted_as_numbers_and_texts_are():
    for names in ([2, 9, 10], [("h", 9), ("h", 10)], ["h2", ("a", 1), "b", (1, "a")]):
        model = LeastSquaresRegressor()
        model.learn_one(dict.fromkeys(reversed(names), 1.0), 1.0)
        assert model.feature_names == tuple(names)


def test_rows_of_one_batch_may_name_one_feature_differently():
    rows = [{"h0": 1.0, "b": 2.0}, {0: 3.0}, {"h": as_outputs(np.array([4.0, 5.0]))}]
    X = np.array([[1.0, 2.0, 0, 0], [0, 0, 3.0, 0], [4.0, 0, 0, 5.0]])
    named, plain = (laws.fitted(LeastSquaresRegressor(1.0), each, [1, 2, 4]) for each in (rows, X))
    assert named.feature_names == ("h0", "b", 0, "h1")
    np.testing.assert_allclose(named.output_weights, plain.output_weights, rtol=1e-12)


def test_arrays_in_dicts_keep_their_names_and_their_length():
    """They are no outputs of a layer: "h0" is another feature than the first entry of "h"."""
    model, other = LeastSquaresClassifier(), LeastSquaresClassifier()
    model.learn_one({"h": np.ones(2), "g": np.ones(1), "h0": 2.0}, "low")
    assert set(model.feature_names) == {("h", 0), ("h", 1), ("g", 0), "h0"}
    learn = functools.partial(model.learn_one, {"h": np.ones(3)}, "low")
    laws.assert_refused(learn, model, r"x\['h'\] has 3 values, expected 2")
    other.learn_one({"h": np.ones(3), "bias": 1.0}, "low")
    laws.assert_refused(lambda: model.merge(other), model, "has 3 values, expected 2")


# -- forms of batches, and of their answers --------------------------------------------------------

COLUMNS = {"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 5.0]}
ANSWERING = "gram", "stream", "calibrated", "drift", "pipeline", "regressor", "several"
TARGETS = {"several": {"u": [0.5, 1.5, 2.0, 4.0], "v": COLUMNS["b"]}, "regressor": [0.5, 1, 2, 4]}
LIBRARIES = {
    "pandas": lambda X: pd.DataFrame(X, index=list("wxyz")),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dicts": lambda X: pd.DataFrame(X).to_dict("records"),
}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("kind", ANSWERING)
def test_answers_come_in_the_form_of_the_rows(kind, library):
    model, X, y = models.MODELS[kind](), library(COLUMNS), TARGETS.get(kind, [*"nnyy"])
    y = library(y) if isinstance(y, dict) else y
    model.learn_many(X, y)
    for question in ("predict", "predict_proba", "scores", "margin", "variance"):
        if hasattr(model, f"{question}_many"):
            answer = getattr(model, f"{question}_many")(X)
            assert type(answer).__module__.split(".")[0] == type(X).__module__.split(".")[0]
            one = getattr(model, f"{question}_one")
            expected = [pytest.approx(one(x)) for x in pd.DataFrame(COLUMNS).to_dict("records")]
            assert laws.entries(answer) == expected
            assert not isinstance(X, pd.DataFrame) or answer.index.equals(X.index)
        if hasattr(type(model), f"{question}_learn_many"):
            assert type(getattr(model, f"{question}_learn_many")(X, y)) is type(answer)


def sparse_frame(frame):
    rows = sparse.csr_array(frame.to_numpy())
    return pd.DataFrame.sparse.from_spmatrix(rows, columns=frame.columns)


def twice(X):
    """Return a sparse matrix each entry of which is the sum of two."""
    half = sparse.csr_array(X / 2)
    data, columns = np.repeat(half.data, 2), np.repeat(half.indices, 2)
    return sparse.csr_array((data, columns, 2 * half.indptr), shape=X.shape)


MATRICES = {
    "array": np.asarray,
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo matrix": sparse.coo_matrix,
    "lil": sparse.lil_array,
    "duplicates": twice,
}
FRAMES = {
    "frame": pd.DataFrame,
    "sparse": sparse_frame,
    "sparse about another value": lambda frame: frame.astype(pd.SparseDtype(float, 1.0)),
    "sparse in part": lambda frame: frame.astype({frame.columns[0]: pd.SparseDtype(float, 0.0)}),
    "nullable": lambda frame: frame.convert_dtypes(),
    "of pyarrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "batch of pyarrow": pa.RecordBatch.from_pandas,
}
FORMS = {name: (make, np.asarray) for name, make in MATRICES.items()}
FORMS |= {
    name: (make, lambda X: pd.DataFrame(X, columns=[*"fbadce"][: X.shape[1]]))
    for name, make in FRAMES.items()
}
"""What makes a form of rows of what is made of an array."""


@pytest.mark.filterwarnings("ignore:X (lacks|has fewer)")
@pytest.mark.parametrize("form", FORMS)
@examples(15)
@given(
    strategies.rows(),
    st.sampled_from(["gram", "folds", "orthogonal", "recursive", "stream", "drift", "pipeline"]),
    st.booleans(),
    st.sampled_from([float, float, bool]),
)
def test_rows_of_every_form_are_the_same_rows(form, rows, kind, is_late, dtype):
    """Numbers, or truth values, which are numbers too."""
    make, plain = FORMS[form]
    X = rows.X.astype(dtype)
    same, X = make(plain(X)), plain(X.astype(float))
    model, other = models.CLASSIFIERS[kind](), models.CLASSIFIERS[kind]()
    for each, form_of_rows in ((model, X), (other, same)):
        if is_late:
            # Columns are then put in other places.
            names = [*getattr(X, "columns", range(8)), 8]
            each.learn_many([dict.fromkeys(names, 1.0)], [rows.y[0]])
        each.learn_many(form_of_rows, rows.y)
    for name in ("predict_proba_many", "variance_many")[: 1 + hasattr(model, "variance_many")]:
        for asked, whole in ((same, X), (X[:1], X[:1])):
            found, expected = getattr(other, name)(asked), getattr(model, name)(whole)
            np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=1e-9)
    if hasattr(model, "unlearn_many") and kind != "orthogonal":
        other.unlearn_many(same, rows.y)
        assert other.count == is_late


def test_wide_sparse_rows_are_never_made_dense_at_once(monkeypatch):
    X = sparse.random_array((20_000, 100), density=0.01, format="csr", random_state=0)
    dense = 8 * X.shape[0] * X.shape[1]
    monkeypatch.setattr("onlinels.checks.BLOCK_BYTES", dense // 40)
    names = [f"word {column}" for column in range(100)]
    frame = pd.DataFrame.sparse.from_spmatrix(X, columns=names).fillna(0.0)
    for rows in (X, frame):
        model = laws.fitted(LeastSquaresRegressor(ridge=1.0), rows[:100], np.ones(100))
        assert laws.peak_of(lambda: model.learn_many(rows, np.ones(len(frame)))) < dense / 3  # noqa: B023
        assert laws.peak_of(lambda: model.predict_many(rows)) < dense / 4  # noqa: B023


@pytest.mark.parametrize("names", [(0, 1), (("a", 1), ("b", 2)), ("a", 0), (1, "a")])
def test_names_of_columns_need_not_be_text(names):
    X, y = pd.DataFrame({names[0]: [1.0, 2.0, 3.0], names[1]: ["red", "blue", "red"]}), [1, 0, 1]
    batches, rows = StreamClassifier(), StreamClassifier()
    batches.learn_many(X, y)
    laws.fitted_by_row(rows, X.to_dict("records"), y)
    assert batches.feature_names == (names[0], (names[1], "red"), (names[1], "blue"))
    assert batches.predict_many(X).tolist() == rows.predict_many(X.to_dict("records"))
    with pytest.raises(TypeError, match=re.escape(f"a column {names[1]!r} of type")):
        LeastSquaresClassifier().learn_many(X, y)


def said(call, *arguments, **how):
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **how)
    return [str(each.message) for each in caught]


TABLES = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize(
    ("step", "may_lack"),
    [
        (compose.Select("tier") | preprocessing.OneHotEncoder(), True),
        (compose.Select("tier") | preprocessing.OneHotEncoder(drop_zeros=True), False),
        (feature_extraction.BagOfWords("tier"), False),
    ],
)
def test_frames_of_rivers_encoders_are_read(library, step, may_lack):
    """In silence, unless they drop zeros: of polars and pyarrow, columns are then like others."""
    table, random = TABLES[library], np.random.default_rng(0)
    tiers = random.choice(["low", "mid", "top"], 50)
    frame, y = pd.DataFrame({"tier": tiers, "size": random.random(50)}), random.integers(0, 2, 50)
    first = compose.Select("size") + step
    batches, rows = first.clone() | LeastSquaresClassifier(), first | LeastSquaresClassifier()
    batches.learn_many(table(frame[:30]), y[:30])
    laws.fitted_by_row(rows, frame[:30].to_dict("records"), y[:30].tolist())
    answers = [rows.predict_one(x) for x in frame[30:].to_dict("records")]
    for model in (batches, onlinels.loads(onlinels.dumps(batches))):
        assert laws.entries(model.predict_many(table(frame[30:]))) == answers
    told = said(batches.predict_many, table(frame[:1]))
    assert len(told) == (not may_lack and library != "pandas")


@pytest.mark.parametrize("kind", ["gram", "folds", "drift"])
@pytest.mark.parametrize("way", [list, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("bad", ["age", "net pay", "h7"])
def test_errors_name_features_not_columns(kind, way, bad):
    rows = [dict(zip(["h7", "net pay", "age"], row, strict=True)) for row in np.eye(4, 3) + 1.0]
    y = [1, 2, 1, 2]
    model = laws.fitted(models.CLASSIFIERS[kind](), way(rows), y)
    calls = [(model.learn_many, value, y) for value in (np.nan, np.inf, 1e200)]
    calls += [(model.predict_many, 1e200), (model.learn_many, 1e150, y, 10.0)]
    calls += [(model.unlearn_many, 3.0, y)] if hasattr(model, "unlearn_many") else []
    calls += [(HiddenLayer(3, activation="square", dtype="float32").transform_many, 1e30)]
    for call, value, *others in calls:
        with pytest.raises(ValueError, match=re.escape(repr(bad))) as raised:
            call(way([*rows[:3], rows[3] | {bad: value}]), *others)
        assert not re.search(r"column \d", str(raised.value))


# Columns that a model knows and a frame lacks.


def test_a_warning_of_many_columns_is_short_and_leaves_no_trace():
    X = pd.DataFrame(np.eye(9, 80), columns=[f"c{k}" for k in range(80)])
    model = laws.fitted(LeastSquaresRegressor(1.0), X, np.arange(9.0))
    assert said(model.predict_many, X) == []
    before = onlinels.dumps(model)
    (message,) = said(model.predict_many, X[["c0", "c1"]].assign(new=1.0))
    assert onlinels.dumps(model) == before
    assert message.startswith("X lacks columns that the model has learnt. 78 of 80 columns")
    assert " (X also has ['new'])" in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("width", "asked", "learnt"),
    [
        (2, r"X lacks columns .*1 of 3 .*: \[2\]", "X has fewer .*2 columns, and .*had 3"),
        (5, "X has more columns .*It has 5", "X has more .*5 columns, and .*had 3"),
    ],
)
@pytest.mark.parametrize("make", [LeastSquaresClassifier, LeastSquaresRegressor])
def test_an_array_of_another_width_is_told_and_not_unlearnt(make, width, asked, learnt):
    """Which feature a number belongs to is not known. Sparse rows leave out what is 0."""
    X, y = np.random.default_rng(0).normal(size=(20, 5)), [0, 1] * 10
    model, other, x = laws.fitted(make(1.0), X[:, :3], y), X[:, :width], X[0, :width]
    (expected,) = model.predict_many([dict(enumerate(x.tolist()))])
    alone, many = answers_only(model), x[None]
    asks = (model.predict_one, x), (model.predict_many, many), (alone.predict_many, many)
    for ask, row in asks:
        with pytest.warns(onlinels.DataWarning, match=asked):
            assert np.ravel(ask(row)) == pytest.approx(expected)
    message = f"x has {width} features, expected 3, as the model has learnt"
    laws.assert_refused(lambda: model.unlearn_one(x, 0), model, message)
    for name in ("learn_one", "learn_many", "predict_learn_many"):
        learn = getattr(copy.deepcopy(model), name)
        with pytest.warns(onlinels.DataWarning, match=learnt) as told:
            learn(*((x, 0) if name == "learn_one" else (other, y)))
        assert len(told) == 1
    for rows in (X[:, :3], sparse.csr_array(X[:, :2])):
        assert said(model.predict_many, rows) == []
    model.unlearn_one(X[0, :3], 0)
    assert model.count == 19


@kinds
@given(st.data())
def test_a_row_may_be_an_array(kind, data):
    """It has the columns of an array of many rows, in every method for one sample."""
    rows, make = data.draw(strategies.cases(kind, min_rows=2))
    by_arrays, by_dicts, listed = make(), make(), make()
    for array, x, y, w in zip(rows.X, rows.dicts(), rows.y, rows.w.tolist(), strict=True):
        by_dicts.learn_one(x, y, w)
        by_arrays.learn_one(array, y, w)
    listed.learn_many([*rows.X], rows.y, rows.w)
    assert by_arrays.feature_names == listed.feature_names
    assert by_arrays.difference(by_dicts) == 0.0
    assert by_arrays.difference(listed) <= 1e-12
    for array, x in zip(rows.X, rows.dicts(), strict=True):
        assert by_arrays.predict_one(array) == by_dicts.predict_one(x)
        assert by_arrays.unknown_features(array) == ()
        assert by_arrays.debug_one(array) == by_dicts.debug_one(x)
