"""Models from sums that were computed elsewhere equal models that have learnt the rows."""

import copy
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
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
from onlinels.from_sums import classifier_from_sums, regressor_from_sums
from support.laws import fitted, outputs_of, targets_of
from support.strategies import KINDS, Rows, cases, examples, kinds

WIDE = getattr(pl, "Int128", pl.Int64)  # Not in every version of polars.


@kinds
@examples(60)
@given(st.data())
def test_sums_make_the_model_that_learnt_the_rows(kind, data):
    """About any origin; it answers, merges, unlearns, learns on and is saved as the other."""
    rows, make = data.draw(cases(kind, unlearns=True, min_rows=2, max_rows=40))
    # Without an intercept, a large mean would take the digits.
    offset = data.draw(st.sampled_from([0.0, 0.0, 3.0, 1e6 * make.keywords["fit_intercept"]]))
    X = rows.X.astype(float) + offset
    rows = Rows(X, rows.y, rows.w)
    learnt = fitted(make(ridge=1.0), X, rows.y, rows.w)
    sums, X = learnt.statistics(), X[:, list(learnt.feature_names)]
    targets = targets_of(learnt, rows.y) - sums.target_origin
    about = X - sums.origin
    weighted = rows.w[:, None] * about
    largest = np.abs(X).max() ** 2 + np.abs(targets).max() ** 2
    size = 1e-9 * (1.0 + largest) * len(X)
    centred = learnt.fit_intercept or hasattr(learnt, "classes")
    for found, expected in (
        (sums.gram, weighted.T @ about),
        (sums.cross, weighted.T @ targets),
        (sums.target_squares, rows.w @ targets**2),
        (sums.weight, rows.w.sum()),
        (sums.sums, weighted.sum(axis=0) if centred else sums.sums),
        (sums.target_sums, rows.w @ targets if centred else sums.target_sums),
    ):
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=size)
    assert not any(each.flags.writeable for each in sums if isinstance(each, np.ndarray))
    assume((rows.w @ targets**2 > 0.0).all())
    made = MADE[kind](learnt, sums)
    assert_close(made, learnt)
    again, twice = onlinels.loads(onlinels.dumps(made)), onlinels.merge(made, learnt)
    assert onlinels.dumps(again) == onlinels.dumps(made)
    assert_close(twice, fitted(copy.deepcopy(learnt), rows.X, rows.y, rows.w))
    made.learn_many(rows.X, rows.y, rows.w)
    made.unlearn_many(rows.X, rows.y, rows.w)
    assert_close(made, learnt)


def assert_close(model, other):
    """Assert that weights agree, to the digits that sums about an origin have."""
    for name in ("output_weights", "intercept"):
        found, expected = getattr(model, name), getattr(other, name)
        largest = 1.0 + np.abs(expected).max(initial=0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * largest)


def classifier_of(learnt, sums):
    by_class = sums.cross.T, sums.target_sums, learnt.classes, sums.origin
    names = learnt.feature_names
    return classifier_from_sums(learnt.empty(), sums.gram, *by_class, feature_names=names)


def regressor_of(learnt, sums):
    names = {"feature_names": learnt.feature_names, "target_names": outputs_of(learnt)}
    return regressor_from_sums(learnt.empty(), *sums, **names)


MADE = dict(zip(KINDS, 2 * [classifier_of] + 2 * [regressor_of], strict=True))


@pytest.mark.parametrize("origin", [None, np.full(6, 3.0)])
def test_sums_of_other_systems_are_those_of_rows_by_name(origin):
    """Sums are raw, or about an origin; DuckDB's sum of integers is one of 128 bits."""
    random = np.random.default_rng(0)
    X, y = random.integers(0, 9, (20, 6)), random.integers(0, 9, 20)
    names = ["b", "a", "h10", "h9", 7, "x"]
    learnt = fitted(LeastSquaresRegressor(1.0), [dict(zip(names, x, strict=True)) for x in X], y)
    about = X - (np.zeros(6) if origin is None else origin).astype(int)
    sums = [about.T @ about, about.T @ y, about.sum(axis=0)]
    tables = pl.DataFrame, pl.Series, pl.Series
    wide = [make(each).cast(WIDE) for make, each in zip(tables, sums, strict=True)]
    totals = int(y.sum()), int(y @ y), len(y)
    for each in (sums, wide):
        made = regressor_from_sums(
            LeastSquaresRegressor(1.0), *each, *totals, origin=origin, feature_names=names
        )
        # In the order of `learn_many`, so that both are alike.
        assert made.feature_names == learnt.feature_names
        assert made.count == learnt.count
        assert difference(made, learnt) < 1e-9


X, Y = np.array([[0.0, 1], [2, 1], [5, 3]]), np.array([[1.0, 2], [3, 4], [0, 1]])
OF_LABELS = {"gram": X.T @ X, "sums_by_class": [[2.0, 2.0], [5.0, 3.0]], "counts": [2, 1]}
OF_LABELS |= {"model": LeastSquaresClassifier(), "labels": ["a", "b"]}
SUMS = X.T @ X, X.T @ Y, X.sum(axis=0), Y.sum(axis=0), (Y**2).sum(axis=0), 3
NAMES = "gram", "cross", "sums", "target_sums", "target_squares", "count"
OF_NUMBERS = {"model": LeastSquaresMultiTargetRegressor(), **dict(zip(NAMES, SUMS, strict=True))}
# Each target within its Cauchy-Schwarz inequality with each feature, but not with both together.
SUMS = 100.0 * np.eye(2), [[70.0, 0.0], [90.0, 0.0]], np.zeros(2), np.zeros(2), [100.0, 1.0], 100
EXPLAINED = dict(zip(NAMES, SUMS, strict=True))
NAN, INDEFINITE = [[np.nan, 17.0], [17.0, 11.0]], [[29.0, -17.0], [-17.0, 11.0]]
WRONG = [
    ({"gram": np.eye(3)}, r"gram has the shape \(3, 3\), expected a shape \(2, 2\)"),
    ({"gram": [[1.0, 2.0], [3.0]]}, "^gram is not an array of numbers: .*inhomogeneous"),
    ({"gram": NAN}, r"gram\[0, 0\] is nan, expected a finite number"),
    ({"gram": [[29.0, 17.0], [16.0, 11.0]]}, "gram is not symmetric"),
    ({"gram": INDEFINITE}, "gram is indefinite, expected sums of products of rows"),
    ({"sums_by_class": [[2.0, 2.0]]}, r"has the shape \(1, 2\), expected a shape \(2, n_f"),
    ({"sums_by_class": [[2.0, 20.0], [5.0, -15.0]]}, "The sums with target 0 explain"),
    ({"sums_by_class": np.zeros((0, 2)), "counts": []}, r"has the shape \(0, 2\)"),
    ({"counts": [2, 0]}, r"counts=\[2.0, 0.0\], expected numbers above 0"),
    ({"labels": ["a", "a"]}, "holds a label twice"),
    ({"labels": ["a", None]}, r"^labels\[1\] is None, expected a label. Leave the row out"),
    ({"labels": "ab"}, "^labels is of type str, expected .* one label per class. Pass a list"),
    ({"origin": 1000.0}, r"^origin has the shape \(1,\), expected a shape \(2,\)"),
    ({"origin": [0.0, np.nan]}, r"^origin\[1\] is nan"),
    ({"origin": [0.0, 1e200]}, "origin"),
    *(({"feature_names": each}, "expected 2 different names") for each in (["x"], ["x", "x"])),
    ({"model": LeastSquaresClassifier}, "^model is of .*expected a LeastSquaresClassifier. For a"),
    ({"model": LeastSquaresRegressor()}, "expected a LeastSquaresClassifier"),
    ({"model": HiddenLayer(2) | LeastSquaresClassifier()}, "expected .* pass its last step"),
    ({"model": LeastSquaresClassifier(accumulator="orthogonal")}, "need the rows"),
    ({"model": LeastSquaresClassifier(KFold(3))}, "need the rows"),
]


WRONG_NUMBERS = [
    ({"model": LeastSquaresRegressor()}, r"cross has the shape \(2, 2\), expected a shape \(2, 1"),
    ({"count": 0}, r"^count=.*, expected numbers above 0"),
    (EXPLAINED, "The sums with target 0 explain 130 .*expected at most 100"),
]
REFUSED = [(classifier_from_sums, OF_LABELS, *each) for each in WRONG]
REFUSED += [(regressor_from_sums, OF_NUMBERS, *each) for each in WRONG_NUMBERS]


@pytest.mark.parametrize(("make", "given_", "change", "message"), REFUSED)
def test_sums_of_no_rows_are_refused(make, given_, change, message):
    assert make(**given_).count == 3
    with pytest.raises((TypeError, ValueError), match=message):
        make(**given_ | change)


def test_targets_without_names_are_numbered():
    assert regressor_from_sums(**OF_NUMBERS).target_names == (0, 1)


def test_large_means_want_an_origin():
    random = np.random.default_rng(0)
    A = random.normal(size=(50, 1)) @ np.ones((1, 9)) + 1e-7 * random.normal(size=(50, 9))
    X, y = A + 2e6, A[:, 0]

    def made(X, origin=None):
        sums = X.T @ X, X.T @ y, X.sum(axis=0), y.sum(), y @ y, 50
        return regressor_from_sums(LeastSquaresRegressor(1e-9), *sums, origin=origin)

    with pytest.raises(ValueError, match=r"gram is indefinite.*subtract an origin"):
        made(X)
    about = made(X - 2e6, np.full(9, 2e6))
    np.testing.assert_allclose(about.predict_many(X), y, atol=1e-6)


@pytest.mark.parametrize("connect", [duckdb.connect, sqlite3.connect], ids=["duckdb", "sqlite"])
def test_the_query_of_the_guide(connect):
    guide = Path(__file__).parents[1] / "demos" / "guide" / "deploy.md"
    _, _, after = guide.read_text().partition("```sql\n")
    query, _, _ = after.partition("```")
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 2)).round(3)
    rows = [(a, b, "wet" if a + b > 0 else "dry") for a, b in X.tolist()]
    missing = [(None, 1.0, "wet"), (1.0, None, "dry"), (1.0, 1.0, None)]
    with closing(connect(":memory:")) as database:
        database.execute("CREATE TABLE readings (a DOUBLE, b DOUBLE, label VARCHAR(9))")
        database.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows + missing)
        labels, counts, a, b, aa, ab, bb = zip(*database.execute(query).fetchall(), strict=True)
    made = classifier_from_sums(
        LeastSquaresClassifier(ridge=1.0),
        np.array([[sum(aa), sum(ab)], [sum(ab), sum(bb)]]),
        np.column_stack([a, b]),
        counts,
        labels,
        feature_names=["a", "b"],
    )
    frame = pl.DataFrame(rows, schema=["a", "b", "label"], orient="row")
    learnt = fitted(LeastSquaresClassifier(ridge=1.0), frame[["a", "b"]], frame["label"])
    assert made.count == 500
    assert difference(made, learnt) < 1e-12
