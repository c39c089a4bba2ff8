"""Models from sums that were computed elsewhere equal models that have learnt the rows."""

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
)
from onlinels.from_sums import classifier_from_sums, regressor_from_sums
from support.laws import assert_is_batch_solution, fitted, targets_of
from support.strategies import Rows, cases, classifier_settings, examples, kinds

FORMS = st.sampled_from(["gram", "recursive"])
NAMES = ["b", "a", "h10", "h9", 7, "x"]


def sums_about(X, Y, origin, target_origin):
    """Return raw sums about origins."""
    A, B = X - origin, Y - target_origin
    return A.T @ A, A.T @ B, A.sum(axis=0), B.sum(axis=0), (B * B).sum(axis=0)


@st.composite
def drawn_rows(draw, n_targets=1):
    """Draw rows at small or large offsets, targets, an origin for both, and settings."""
    n_rows, n_features = draw(st.integers(2, 40)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = float(draw(st.sampled_from([0, 3, 1000, 10**6])))
    X = offset + random.integers(-5, 6, (n_rows, n_features))
    if draw(st.booleans()):
        X[:, random.integers(n_features)] = offset + 4.0
    Y = random.integers(-9, 10, (n_rows, n_targets)) + offset
    origin = np.full(n_features, offset)
    if draw(st.booleans()) and offset:
        # Sums of numbers that are not whole keep digits only about an origin.
        X, Y = X + 0.1 * random.normal(size=X.shape), Y * 0.1
    elif draw(st.booleans()):
        origin = None
    settings = draw(classifier_settings(FORMS).filter(lambda s: not isinstance(s["ridge"], KFold)))
    return X, Y, origin, settings


def assert_goes_on(made, learnt, X, y):
    """Assert that a model from sums answers, merges, unlearns, learns and is saved as the other."""
    size = float(np.abs(X).max()) ** 2 * len(X)
    again = onlinels.loads(onlinels.dumps(made))
    assert onlinels.dumps(again) == onlinels.dumps(made)
    assert again.feature_names == learnt.feature_names
    assert again.count == learnt.count
    for each in (made, again):
        merged = onlinels.merge(each, learnt)
        assert merged.count == 2 * len(X)
        rows = Rows(np.vstack([X, X]), [*y, *y], np.ones(2 * len(X)))
        assert_is_batch_solution(merged, rows, size=size)
        # Rounding errors of removed rows may hide dependent features of the one that is left.
        each.ridge = max(1.0, 1e-6 * size)
        each.unlearn_many(X[1:], y[1:])
        each.learn_many(X[1:], y[1:])
        assert_is_batch_solution(each, Rows(X, y, np.ones(len(X))), size=4.0 * size)


@examples(40)
@given(drawn_rows(), st.integers(1, 3))
def test_classifiers(case, n_classes):
    X, _, origin, settings = case
    y = [f"class {k}" for k in np.arange(len(X)) % n_classes]
    labels = sorted(set(y))
    priors = "learnt" if len(X) % 2 else None
    learnt = fitted(LeastSquaresClassifier(**settings, priors=priors), X, y)
    one_hot = np.array([[float(label == other) for other in labels] for label in y])
    gram, cross, *_ = sums_about(X, one_hot, 0.0 if origin is None else origin, 0.0)
    counts = one_hot.sum(axis=0)
    made = classifier_from_sums(
        learnt.empty(), gram, cross.T, counts.tolist(), labels, origin=origin
    )
    assert made.classes == tuple(labels)
    assert_is_batch_solution(made, Rows(X, y, np.ones(len(X))), size=np.abs(X).max() ** 2)
    assert_goes_on(made, learnt, X, y)


@examples(40)
@given(drawn_rows(n_targets=2), st.booleans())
def test_regressors(case, is_single):
    X, Y, origin, settings = case
    Y = Y[:, :1] if is_single else Y
    kind = LeastSquaresRegressor if is_single else LeastSquaresMultiTargetRegressor
    learnt = kind(**settings)
    names = NAMES[: X.shape[1]]
    y = (
        Y[:, 0].tolist()
        if is_single
        else [dict(zip(["v", "u"], row, strict=True)) for row in Y.tolist()]
    )
    samples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    learnt.learn_many(samples, y)
    at = (0.0, 0.0) if origin is None else (origin, Y[0])
    made = regressor_from_sums(
        kind(**settings),
        *sums_about(X, Y, *at),
        len(X),
        origin=origin,
        target_origin=None if origin is None else Y[0],
        feature_names=names,
        target_names=None if is_single else ["v", "u"],
    )
    # In the order of `learn_many`, so that both are alike.
    assert made.feature_names == learnt.feature_names
    columns = [names.index(name) for name in made.feature_names]
    rows = Rows(X, y, np.ones(len(X)))
    size = max(np.abs(X).max(), np.abs(Y).max()) ** 2 * len(X)
    assert_is_batch_solution(made, rows, columns, size=size)
    merged = onlinels.merge(made, learnt)
    twice = Rows(np.vstack([X, X]), y + y, np.ones(2 * len(X)))
    assert_is_batch_solution(merged, twice, columns, size=4.0 * size)


@kinds
@examples(40)
@given(st.data())
def test_statistics_are_sums_of_the_rows_and_make_the_model_again(kind, data):
    rows, make = data.draw(cases(kind, unlearns=True, max_rows=40))
    model = fitted(make(ridge=1.0), rows.X, rows.y, rows.w)
    sums = model.statistics()
    X = rows.X[:, [*map(int, model.feature_names)]].astype(float)
    targets = targets_of(model, rows.y) - sums.target_origin
    about = X - sums.origin
    size = 1e-9 * (1.0 + np.abs(X).max() ** 2 + np.abs(targets).max() ** 2) * len(X)
    weighted = rows.w[:, None] * about
    for found, expected in (
        (sums.gram, weighted.T @ about),
        (sums.cross, weighted.T @ targets),
        (sums.target_squares, rows.w @ targets**2),
        (sums.weight, rows.w.sum()),
    ):
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=size)
    if model.fit_intercept or hasattr(model, "classes"):
        np.testing.assert_allclose(sums.sums, weighted.sum(axis=0), rtol=0.0, atol=size)
        np.testing.assert_allclose(sums.target_sums, rows.w @ targets, rtol=0.0, atol=size)
    assert not any(each.flags.writeable for each in sums if isinstance(each, np.ndarray))
    assume((rows.w @ targets**2 > 0.0).all())
    names = {"feature_names": model.feature_names}
    if hasattr(model, "classes"):
        by_class = sums.cross.T, sums.target_sums, model.classes, sums.origin
        again = classifier_from_sums(model, sums.gram, *by_class, **names)
    else:
        if hasattr(model, "target_names"):
            names["target_names"] = model.target_names
        again = regressor_from_sums(model, *sums, **names)
    largest = np.abs(model.output_weights).max()
    weights = again.output_weights
    np.testing.assert_allclose(weights, model.output_weights, rtol=1e-6, atol=1e-6 * largest)
    np.testing.assert_allclose(again.intercept, model.intercept, rtol=1e-6, atol=1e-6 * largest)


X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 3.0]])
GIVEN = {
    "gram": X.T @ X,
    "sums_by_class": [[2.0, 2.0], [5.0, 3.0]],
    "counts": [2, 1],
    "labels": ["a", "b"],
}
NAN, INDEFINITE = [[np.nan, 17.0], [17.0, 11.0]], [[29.0, -17.0], [-17.0, 11.0]]
WRONG = [
    ({"gram": np.eye(3)}, r"gram has the shape \(3, 3\), expected a shape \(2, 2\)"),
    ({"gram": [["a", "b"], ["c", "d"]]}, "^gram is not an array of numbers: could not convert"),
    ({"gram": [[1.0, 2.0], [3.0]]}, "^gram is not an array of numbers: .*inhomogeneous"),
    ({"gram": NAN}, r"gram\[0, 0\] is nan, expected a finite number"),
    ({"gram": [[np.inf, 17.0], [17.0, 11.0]]}, r"gram\[0, 0\] is inf"),
    ({"gram": [[29.0, 17.0], [16.0, 11.0]]}, "gram is not symmetric"),
    ({"gram": [[29.0, 18.0], [18.0, 11.0]]}, "gram is indefinite"),
    ({"gram": INDEFINITE}, "gram is indefinite, expected sums of products of rows"),
    ({"sums_by_class": [[2.0, 2.0]]}, r"has the shape \(1, 2\), expected a shape \(2, n_f"),
    ({"sums_by_class": [[2.0, 2.0], [9.0, 3.0]]}, "gram is indefinite"),
    ({"sums_by_class": [[2.0, 20.0], [5.0, -15.0]]}, "The sums with target 0 explain"),
    ({"sums_by_class": np.zeros((0, 2)), "counts": []}, r"has the shape \(0, 2\)"),
    ({"counts": [2, 0]}, r"counts=\[2.0, 0.0\], expected numbers above 0"),
    ({"counts": [1]}, r"counts has the shape \(1,\), expected a shape \(2,\)"),
    ({"counts": ["a", "b"]}, r"^counts is not an array of numbers"),
    ({"labels": ["a", "a"]}, "holds a label twice"),
    ({"labels": ["a", None]}, r"^labels\[1\] is None, expected a label. Leave the row out"),
    ({"labels": "ab"}, "^labels is of type str, expected .* one label per class. Pass a list"),
    ({"origin": 1000.0}, r"^origin has the shape \(1,\), expected a shape \(2,\)"),
    ({"origin": [0.0, np.nan]}, r"^origin\[1\] is nan"),
    ({"origin": [0.0, 1e200]}, "origin"),
    ({"feature_names": ["x"]}, "expected 2 different names"),
    ({"feature_names": ["x", "x"]}, "expected 2 different names"),
    ({"model": LeastSquaresClassifier}, "^model is of .*expected a LeastSquaresClassifier. For a"),
    ({"model": LeastSquaresRegressor()}, "expected a LeastSquaresClassifier"),
    ({"model": HiddenLayer(2) | LeastSquaresClassifier()}, "expected .* pass its last step"),
    ({"model": LeastSquaresClassifier(accumulator="orthogonal")}, "need the rows"),
    ({"model": LeastSquaresClassifier(KFold(3))}, "need the rows"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=lambda each: str(each)[:40])
def test_sums_of_no_rows_are_refused(change, message):
    given_ = {"model": LeastSquaresClassifier()} | GIVEN
    assert classifier_from_sums(**given_).count == 3
    with pytest.raises((TypeError, ValueError), match=message):
        classifier_from_sums(**given_ | change)


def test_targets_that_features_explain_more_than_wholly_are_refused():
    X = np.random.default_rng(0).normal(size=(100, 2))
    X -= X.mean(axis=0)
    gram = X.T @ X
    # Each within its Cauchy-Schwarz inequality, but not both together.
    cross = np.array([0.7, 0.9]) * np.sqrt(gram.diagonal() * 100.0)
    sums = gram, cross, X.sum(axis=0), 0.0, 100.0, 100
    with pytest.raises(ValueError, match=r"explain 1.*expected at most 100"):
        regressor_from_sums(LeastSquaresRegressor(), *sums)
    regressor_from_sums(LeastSquaresRegressor(), gram, 0.7 * cross, *sums[2:])


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


def test_one_target_is_for_the_regressor_of_one():
    y = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
    sums = X.T @ X, X.T @ y, X.sum(axis=0), y.sum(axis=0), (y**2).sum(axis=0), 3
    message = r"cross has the shape \(2, 2\), expected a shape \(2, 1\)"
    with pytest.raises(ValueError, match=message):
        regressor_from_sums(LeastSquaresRegressor(), *sums)
    with pytest.raises(ValueError, match=r"^count=.*, expected numbers above 0"):
        regressor_from_sums(LeastSquaresMultiTargetRegressor(), *sums[:5], 0)
    made = regressor_from_sums(LeastSquaresMultiTargetRegressor(1.0), *sums)
    assert made.target_names == (0, 1)


@pytest.mark.parametrize("connect", [duckdb.connect, sqlite3.connect], ids=["duckdb", "sqlite"])
def test_the_query_of_the_guide(connect):
    guide = Path(__file__).parents[1] / "demos" / "guide" / "deploy.md"
    _, _, after = guide.read_text().partition("```sql\n")
    query, _, _ = after.partition("```")
    random = np.random.default_rng(0)
    rows = [
        (float(a), float(b), "wet" if a + b > 0 else "dry")
        for a, b in random.normal(size=(500, 2)).round(3)
    ]
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
    learnt = LeastSquaresClassifier(ridge=1.0)
    learnt.learn_many(
        pl.DataFrame([row[:2] for row in rows], schema=["a", "b"], orient="row"),
        [row[2] for row in rows],
    )
    order = [made.classes.index(label) for label in learnt.classes]
    np.testing.assert_allclose(made.output_weights[:, order], learnt.output_weights, rtol=1e-12)
    assert made.count == 500
