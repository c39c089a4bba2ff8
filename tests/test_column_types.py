"""Columns of every type that libraries have: numbers, or an error of this package."""

import datetime
import decimal
import pickle
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import onlinels
from onlinels import (
    LeastSquaresRegressor,
)
from onlinels.from_sums import regressor_from_sums
from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier
from support import laws, models
from support.slow import pairs_in_turn

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
    "polars time": pl.Series([datetime.time(hour) for hour in VALUES]),
    "polars categories": pl.Series(list("xyxy"), dtype=pl.Categorical),
    "polars enum": pl.Series(list("xyxy"), dtype=pl.Enum(["x", "y"])),
    "polars lists": pl.Series([[1], [2], [3], [4]]),
    "polars arrays": pl.Series([[1, 2]] * 4, dtype=pl.Array(pl.Int64, 2)),
    "polars dicts": pl.Series([{"x": 1, "y": 2}] * 4),
    "polars bytes": pl.Series([b"x"] * 4),
    "polars objects": pl.Series([object()] * 4, dtype=pl.Object),
    "arrow null": pa.nulls(4),
    "arrow gap": pa.array([DECIMALS[0], None, *DECIMALS[2:]], pa.decimal128(9, 2)),
    "arrow durations": pa.array(DURATIONS),
    "arrow dates": pa.array(DAYS),
    "arrow categories": pa.array(list("xyxy")).dictionary_encode(),
    "arrow lists": pa.array([[1], [2], [3], [4]]),
    "arrow dicts": pa.array([{"x": 1}] * 4),
    "arrow bytes": pa.array([b"x"] * 4),
    "arrow intervals": pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()),
    "arrow maps": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "polars NaN": pl.Series([1.0, np.nan, 4.0, 5.0]),
    "polars no truth": pl.Series([True, None, True, True]),
    "pandas gap": pd.Series([1, None, 4, 5], dtype="Int64"),
    "pandas NaN": pd.Series([1, np.nan, 4, 5], dtype="double[pyarrow]"),
    "pandas no truth": pd.Series([True, None, True, True], dtype="boolean"),
    "pandas sparse gap": pd.Series(pd.arrays.SparseArray([0.0, np.nan, 4.0, 5.0], fill_value=0.0)),
    "pandas timedeltas": pd.Series(pd.to_timedelta(VALUES, unit="D")),
    "pandas periods": pd.Series(pd.period_range("2020", periods=4, freq="D")),
    "pandas intervals": pd.Series(pd.interval_range(0, 4)),
    "pandas null": pd.Series([None] * 4, dtype=pd.ArrowDtype(pa.null())),
    "pandas lists": pd.Series([[1]] * 4, dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
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


def is_refused_in_style(call):
    """Check that a call raises an error of this package that says what to do."""
    with pytest.raises((TypeError, ValueError), match=r"expected (.|\n)*\. (.|\n)*\.$") as caught:
        call()
    last = traceback.extract_tb(caught.tb)[-1].filename
    return Path(last).is_relative_to(Path(onlinels.__file__).parent)


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
        assert is_refused_in_style(partial(learn, *arguments(OTHERS[name])))
    assert pickle.dumps(model) == before


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="a version of polars without these integers")
def test_wide_integers_of_databases_in_sums_and_estimators_of_scikit_learn():
    """DuckDB's sum of integers is one of 128 bits."""
    X, y = np.array([[1, 3], [2, 1], [4, 2], [5, 0]]), np.array([3, 1, 2, 2])
    wide, of_y = pl.DataFrame(X, schema=["a", "b"]).cast(pl.Int128), pl.Series(y).cast(pl.Int128)
    answers = IncrementalRidge(1.0).fit(wide, of_y, of_y).unlearn(wide[:1], of_y[:1]).predict(wide)
    plain = IncrementalRidge(1.0).fit(X, y, y).unlearn(X[:1], y[:1]).predict(X)
    assert (answers == plain).all()
    classes = IncrementalRidgeClassifier(1.0).fit(wide, of_y).predict(wide)
    assert (classes == IncrementalRidgeClassifier(1.0).fit(X, y).predict(X)).all()
    assert IncrementalRidge(1.0).fit(X, wide).coef_.shape == (2, 2)

    sums, totals = (X.T @ X, X.T @ y, X.sum(0)), (int(y.sum()), int(y @ y), len(y))
    of_wide = [
        (pl.Series if each.ndim == 1 else pl.DataFrame)(each).cast(pl.Int128) for each in sums
    ]
    first, second = (
        regressor_from_sums(LeastSquaresRegressor(1.0), *each, *totals) for each in (of_wide, sums)
    )
    assert (first.output_weights == second.output_weights).all()
