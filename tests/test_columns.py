"""Columns and entries of batches: in one form and one order, of every type that libraries have."""

import datetime
import decimal
import inspect
import pickle
import traceback
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dask import delayed
from river import metrics

import onlinels
import onlinels.distributed
import onlinels.pipelines
from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    MiniRocketFeatures,
    WindowedClassifier,
)
from onlinels.images import ImagePreprocessing
from onlinels.sklearn import HiddenLayerTransformer, IncrementalRidge, IncrementalRidgeClassifier
from support import laws, models
from support.slow import pairs_in_turn

N_ROWS = 12
INDEX = [f"row {k}" for k in range(N_ROWS)]
random = np.random.default_rng(0)
FRAME = pd.DataFrame(random.normal(size=(N_ROWS, 2)), INDEX, ["a", "b"])
TARGETS = pd.Series([1, 0] * (N_ROWS // 2), INDEX)
SEVERAL = pd.DataFrame({"u": random.normal(size=N_ROWS), "v": 1.0}, INDEX)
IMAGES = pd.DataFrame(random.random((N_ROWS, 64)), INDEX, [*range(64)])


def methods_of(thing, *arguments):
    """Return the public methods of a model with some arguments, by name."""
    found = {}
    for name, called in inspect.getmembers(type(thing), inspect.isfunction):
        if name[0] != "_" and inspect.signature(called).parameters.keys() >= {*arguments}:
            found[name] = getattr(thing, name)
    return found


# -- the order of rows -----------------------------------------------------------------------------

LINEAR = partial(LeastSquaresClassifier, half_life=9.0)
TAUGHT = {
    **{kind: models.MODELS[kind] for kind in ("gram", "regressor", "several")},
    **{kind: models.MODELS[kind] for kind in ("stream", "stream regressor")},
    "network": partial(models.digits_network, image_shape=(8, 8)),
    "calibrated": lambda: CalibratedClassifier(LINEAR()),
    "drift": lambda: DriftAwareClassifier(LINEAR()),
    "windowed": lambda: WindowedClassifier(LINEAR(), window=2, hop=1),
    "ridge": IncrementalRidge,
    "ridge classifier": IncrementalRidgeClassifier,
    "transformer": HiddenLayerTransformer,
}
OF_EXAMPLES = {
    "hidden": (HiddenLayer, {}),
    "convolution": (ConvolutionalFeatures, {"image_shape": (8, 8)}),
    "preprocessing": (ImagePreprocessing, {"image_shape": (8, 8)}),
    "minirocket": (MiniRocketFeatures, {"window_shape": (64,)}),
}
ENTRIES = {"w": pd.Series(1.0, INDEX), "t": pd.Series(np.arange(12.0), INDEX)}
ENTRIES |= {"y": TARGETS, "sample_weight": ENTRIES["w"]}
OWN_ROWS, OWN_TARGETS = {"network": IMAGES}, {"several": SEVERAL}


def scored(model, X, y, w=None, t=None):
    onlinels.progressive_val_score((X, y), model, metrics.Accuracy(), w=w, t=t)


FUNCTIONS = {
    "progressive_val_score": scored,
    "fit": lambda model, X, y, w: onlinels.distributed.fit(
        LeastSquaresClassifier(), [delayed((X, y, w))]
    ),
    "unlearn_many": onlinels.pipelines.unlearn_many,
}


def taught(kind):
    """Return a model that has learnt rows, and these."""
    model, X = TAUGHT[kind](), OWN_ROWS.get(kind, FRAME)
    getattr(model, "learn_many", getattr(model, "fit", None))(X, OWN_TARGETS.get(kind, TARGETS))
    return model, X


def method_of(kind, name):
    model, X = taught(kind)
    return model, partial(getattr(model, name), X=X)


def examples_of(kind):
    make, settings = OF_EXAMPLES[kind]
    return None, partial(make.from_examples, X=IMAGES, **settings)


def function(name):
    model = laws.fitted(LeastSquaresClassifier(), FRAME, TARGETS)
    return model, partial(FUNCTIONS[name], model=model, X=FRAME)


PARTS = "distributed", "explain", "export", "from_sums", "images", "pipelines", "sites", "sklearn"
MODULES = ["onlinels", *(f"onlinels.{name}" for name in PARTS)]
ENTRANCES = {
    **{
        f"{kind}.{name}": partial(method_of, kind, name)
        for kind, make in TAUGHT.items()
        for name in methods_of(make(), "X", "y")
    },
    **{f"{kind}.from_examples": partial(examples_of, kind) for kind in OF_EXAMPLES},
    **{name: partial(function, name) for name in FUNCTIONS},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENTRANCES)
def test_a_series_in_another_order_is_refused_everywhere(name):
    _, call = ENTRANCES[name]()
    known = inspect.signature(call).parameters
    given = {each: ENTRIES[each] for each in ENTRIES if each in known}
    given |= {"t": ENTRIES["t"]} if "kwargs" in known else {}
    given["y"] = OWN_TARGETS.get(name.split(".")[0], TARGETS)
    for each, entries in given.items():
        thing, call = ENTRANCES[name]()
        before, turned = pickle.dumps(thing), entries.iloc[::-1]
        message = rf"{each} has the index of X in another order.*{each}\.to_numpy\(\)"
        with pytest.raises(ValueError, match=message):
            call(**given | {each: turned})
        assert pickle.dumps(thing) == before
        # By position, or with another index, the same rows are accepted.
        call(**given | {each: turned.set_axis(range(N_ROWS))})


def takes_entries(called):
    """Return whether a function takes rows with an entry for each of them."""
    if not (inspect.isfunction(called) or inspect.ismethod(called)):
        return False
    known = inspect.signature(called).parameters.keys()
    return "X" in known and not known.isdisjoint(ENTRIES)


@pytest.mark.parametrize("name", MODULES)
def test_no_public_name_that_takes_rows_is_left_out(name):
    module, made = import_module(name), [make() for make in TAUGHT.values()]
    known = {(type(model), each) for model in made for each in methods_of(model, "X", "y")}
    known |= {(make, "from_examples") for make, _ in OF_EXAMPLES.values()}
    own = [each for each, thing in vars(module).items() if getattr(thing, "__module__", 0) == name]
    for place in getattr(module, "__all__", own):
        thing = getattr(module, place)
        if inspect.isclass(thing) and not inspect.isabstract(thing):
            methods = [each for each in dir(thing) if each[0] != "_"]
            found = {(thing, each) for each in methods if takes_entries(getattr(thing, each))}
            assert found <= known
        assert place[0] == "_" or place in FUNCTIONS or not takes_entries(thing)


@pytest.mark.parametrize("index", [["a", "a", "b"], [1.0, np.nan, 2.0], [None, 1, 2]])
def test_an_index_may_hold_equal_and_missing_entries(index):
    X, y = pd.DataFrame({"a": [0.0, 1.0, 2.0]}, index), pd.Series([0, 1, 1], index)
    model = LeastSquaresClassifier(1.0)
    with pytest.raises(ValueError, match="index of X in another order"):
        model.learn_many(X, y.iloc[::-1])
    model.learn_many(X, y)
    model.learn_many(X, y.iloc[::-1].to_numpy())
    assert model.count == 6


# -- the form of columns: names, or positions of an array ------------------------------------------

KINDS = "gram", "orthogonal", "folds", "priors", "regressor", "several"
KINDS += "stream", "stream regressor", "calibrated", "drift"
FORMS = {"array": (FRAME.to_numpy(), None), "names": (FRAME, {"a": 1.0, "b": 2.0})}
NOT_ASKED = {
    # Not defined for discriminants.
    "priors": {"variance_many", "variance_one"},
    "orthogonal": {"unlearn_many", "unlearn_one"},
}
# Stream models predict arrays, and warn of the columns that they lack.
PREDICTS = {("stream", "array"), ("stream regressor", "array")}


def calls_with(model, kind, X, x):
    """Return calls of all methods of a model that take rows, by name."""
    y, calls = OWN_TARGETS.get(kind, TARGETS), {}
    rows = {"X": (X, y)}
    if x is not None:
        rows["x"] = x, y.iloc[0] if y.ndim == 1 else y.iloc[0].to_dict()
    for name in rows:
        for method, call in methods_of(model, name).items():
            known = inspect.signature(call).parameters
            given = dict(zip((name, "y"), rows[name], strict=True))
            calls[method] = partial(call, **{each: given[each] for each in given if each in known})
    return {name: call for name, call in calls.items() if name not in NOT_ASKED.get(kind, ())}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("first", "second"), [("array", "names"), ("names", "array")])
@pytest.mark.parametrize("kind", KINDS)
def test_names_and_positions_of_columns_do_not_mix(kind, first, second):
    make, y = models.MODELS[kind], OWN_TARGETS.get(kind, TARGETS)
    other = laws.fitted(make(), FORMS[second][0], y)
    for how in ("learn_many", "predict_learn_many", "predict_proba_learn_many"):
        model = make()
        if not hasattr(model, how):
            continue
        getattr(model, how)(FORMS[first][0], y)
        before = onlinels.pipelines.end_of(model)[1].feature_names, model.count
        calls = calls_with(onlinels.loads(onlinels.dumps(model)), kind, *FORMS[second])
        calls |= calls_with(model, kind, *FORMS[second])
        if hasattr(model, "merge"):
            calls["merge"] = partial(onlinels.merge, model, other)
        for name, call in calls.items():
            if (kind, second) in PREDICTS and "learn" not in name:
                told = pytest.warns(UserWarning, match="X lacks columns")
            else:
                told = pytest.raises(ValueError, match="Learn and predict in one form")
            with told:
                call()
        after = onlinels.pipelines.end_of(model)[1].feature_names, model.count
        assert after == before


TABLES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "dicts": lambda frame: frame.to_dict("records"),
}


@pytest.mark.parametrize(("kind", "table"), pairs_in_turn(KINDS, TABLES, 2))
def test_every_method_that_predicts_or_unlearns_warns_of_missing_columns(kind, table):
    """Once, at the caller's line. Not where rows are learnt; dicts leave out what is 0."""
    make, y = models.MODELS[kind], OWN_TARGETS.get(kind, TARGETS)
    for name in calls_with(make(), kind, FRAME, {}):
        model = laws.fitted(make(), FRAME.assign(b=0.0), y)
        model.learn_many(FRAME.rename(columns={"b": "c"}), y)
        call = calls_with(model, kind, TABLES[table](FRAME[["a"]]), {"a": 1.0})[name]
        with warnings.catch_warnings(record=True, action="always") as caught:
            call()
        told = [each for each in caught if "X lacks columns" in str(each.message)]
        is_told = name.endswith("_many") and name != "learn_many" and table != "dicts"
        assert [each.filename for each in told] == [__file__] * is_told, name
        assert all("2 of 3 columns count as 0: ['b', 'c']. " in str(each.message) for each in told)


# -- columns of every type -------------------------------------------------------------------------

VALUES = [1, 2, 4, 5]
DECIMALS = list(map(decimal.Decimal, VALUES))
DAYS = [datetime.date(2020, 1, day) for day in VALUES]
DURATIONS = [datetime.timedelta(days) for days in VALUES]


def polars(dtype):
    return pl.Series(VALUES).cast(dtype)


def arrow(dtype):
    return pa.array(DECIMALS if "decimal" in str(dtype) else VALUES, dtype)


def pandas(dtype):
    return pd.Series(VALUES, dtype=dtype)


NUMBERS = {
    **{f"polars {kind}": polars(kind) for kind in (pl.Int8, pl.UInt64, pl.Decimal(38, 3))},
    **{
        f"polars {name}": polars(getattr(pl, name))
        for name in ("Int128", "UInt128", "Float16")  # Not in every version of polars.
        if hasattr(pl, name)
    },
    **{f"arrow {kind}": arrow(kind) for kind in (pa.int8(), pa.uint64(), pa.decimal128(9, 2))},
    "arrow chunks": pa.chunked_array([VALUES[:1], VALUES[1:]]),
    "arrow halffloat": pa.array(np.array(VALUES, np.float16)),
    **{f"pandas {kind}": pandas(kind) for kind in ("int8", "UInt64", "Float32", "double[pyarrow]")},
    "pandas decimal": pd.Series(DECIMALS, dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
    "pandas sparse": pd.Series(pd.arrays.SparseArray(VALUES)),
}
"""The numbers 1, 2, 4, 5 as columns of every type of numbers."""

OTHERS = {
    "polars null": pl.Series([None] * 4),
    "polars gap": pl.Series([1, None, 4, 5]).cast(getattr(pl, "Int128", pl.Int64)),
    "polars duration": pl.Series(DURATIONS),
    "polars date": pl.Series(DAYS),
    "polars categories": pl.Series(list("xyxy"), dtype=pl.Categorical),
    "polars enum": pl.Series(list("xyxy"), dtype=pl.Enum(["x", "y"])),
    "polars arrays": pl.Series([[1, 2]] * 4, dtype=pl.Array(pl.Int64, 2)),
    "polars bytes": pl.Series([b"x"] * 4),
    "polars objects": pl.Series([object()] * 4, dtype=pl.Object),
    "arrow null": pa.nulls(4),
    "arrow categories": pa.array(list("xyxy")).dictionary_encode(),
    "arrow bytes": pa.array([b"x"] * 4),
    "arrow intervals": pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()),
    "arrow maps": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "polars NaN": pl.Series([1.0, np.nan, 4.0, 5.0]),
    "pandas gap": pd.Series([1, None, 4, 5], dtype="Int64"),
    "pandas NaN": pd.Series([1, np.nan, 4, 5], dtype="double[pyarrow]"),
    "pandas no truth": pd.Series([True, None, True, True], dtype="boolean"),
    "pandas sparse gap": pd.Series(pd.arrays.SparseArray([0.0, np.nan, 4.0, 5.0], fill_value=0.0)),
    "pandas timedeltas": pd.Series(pd.to_timedelta(VALUES, unit="D")),
    "pandas intervals": pd.Series(pd.interval_range(0, 4)),
    "pandas complex": pd.Series(VALUES, dtype=complex),
}
"""Columns that are no numbers, or lack one."""


def frame(column):
    """Return the column "a" beside a column of plain numbers."""
    library = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame}.get(type(column), pa.table)
    return library({"a": column, "b": [1.0, 0.0, 3.0, 1.0]})


X, Y = np.array([[1.0], [2.0], [4.0], [3.0]]), [1.0, 3.0, 2.0, 5.0]
LABELS = ["low", "high", "low", "high"]
PLACES = {
    "X": ("regressor", lambda column: (frame(column), Y)),
    "y": ("regressor", lambda column: (X, column)),
    "w": ("regressor", lambda column: (X, Y, column)),
    "t": ("half-life", lambda column: (X, LABELS, None, column)),
    "targets": ("several", lambda column: (X, frame(column))),
    "X of a stream": ("stream regressor", lambda column: (frame(column), Y)),
    "y of a stream": ("stream regressor", lambda column: (X, column)),
    "w of a stream": ("stream regressor", lambda column: (X, Y, column)),
    "w, calibrated": ("calibrated", lambda column: (X, LABELS, column)),
    "w with alarms": ("drift", lambda column: (X, LABELS, column)),
}
"""Models, and the arguments with which they learn a column in some place."""


@pytest.mark.parametrize(("name", "place"), pairs_in_turn(NUMBERS, PLACES, 3))
def test_numbers_of_every_type_are_numbers(name, place):
    (kind, arguments), column, answers = PLACES[place], NUMBERS[name], []
    is_arrow = type(column).__module__ == "pyarrow.lib"
    like = pa.array(VALUES, pa.float64()) if is_arrow else type(column)(VALUES, dtype=float)
    for each in (column, like):
        model = laws.fitted(models.MODELS[kind](), *arguments(each))
        model.predict_learn_many(*arguments(each))
        answers.append(np.asarray(model.predict_many(arguments(column)[0])))
    assert (answers[0] == answers[1]).all()


SAYS_WHAT_TO_DO = r"expected (.|\n)*\. (.|\n)*\.$"


# Texts are features of streams, and gaps are known to be gaps.
@pytest.mark.parametrize(
    ("name", "place"),
    pairs_in_turn(OTHERS, [place for place in PLACES if place != "X of a stream"], 3),
)
def test_all_else_is_refused_by_a_message_of_this_package(name, place):
    kind, arguments = PLACES[place]
    model = laws.fitted(models.MODELS[kind](), *arguments(pl.Series([1.0, 2.0, 4.0, 5.0])))
    before = pickle.dumps(model)
    for learn in (model.learn_many, model.predict_learn_many):
        with pytest.raises((TypeError, ValueError), match=SAYS_WHAT_TO_DO) as caught:
            learn(*arguments(OTHERS[name]))
        raised_in = Path(traceback.extract_tb(caught.tb)[-1].filename)
        assert raised_in.is_relative_to(Path(onlinels.__file__).parent)
    assert pickle.dumps(model) == before
