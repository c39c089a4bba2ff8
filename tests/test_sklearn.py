"""scikit-learn's interface: chunks give what scikit-learn's models give of all rows."""

import copy
import inspect
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import sparse

import onlinels
from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from support import strategies

pytest.importorskip("sklearn", reason="scikit-learn comes with an extra")

import joblib
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from onlinels.sklearn import HiddenLayerTransformer, IncrementalRidge, IncrementalRidgeClassifier

SOLVERS = ["gram", "orthogonal", "recursive"]


def cut(data, n_rows):
    """Draw how rows come: slices of chunks, of one row or more."""
    stops = data.draw(st.lists(st.integers(1, n_rows - 1), max_size=4, unique=True))
    edges = [0, *sorted(stops), n_rows]
    return [slice(*pair) for pair in pairwise(edges)]


def drawn_rows(data, n_rows, n_features):
    seed = data.draw(st.integers(0, 2**16))
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) + random.normal(size=n_features)
    weights = data.draw(st.sampled_from([None, "whole", "real"]))
    if weights == "whole":
        weights = random.integers(0, 4, n_rows).astype(float)
        weights[0] = 1.0
    elif weights == "real":
        weights = random.uniform(0.1, 3.0, n_rows)
    return random, X, weights


def in_kind(data, X):
    kind = data.draw(st.sampled_from(["array", "sparse", "frame", "float32"]))
    if kind == "frame":
        return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    if kind == "float32":
        return np.asfortranarray(X)
    return sparse.csr_array(X) if kind == "sparse" else X


def learn_in_chunks(model, data, X, y, weights):
    """Learn rows in drawn chunks; one without weight cannot be the first."""
    for chunk in cut(data, len(y)):
        rows = X.iloc[chunk] if isinstance(X, pd.DataFrame) else X[chunk]
        w = None if weights is None else weights[chunk]
        if w is None or w.any() or hasattr(model, "_model"):
            model.partial_fit(rows, y[chunk], sample_weight=w)


@strategies.examples(60)
@given(st.data(), st.sampled_from(SOLVERS), st.booleans())
def test_chunks_give_ridge(data, solver, fit_intercept):
    n_rows, n_features = data.draw(st.integers(3, 60)), data.draw(st.integers(1, 6))
    random, X, weights = drawn_rows(data, n_rows, n_features)
    n_targets = data.draw(st.sampled_from([None, 1, 3]))
    alpha = data.draw(st.sampled_from([0.1, 1.0, 30.0]))
    y = random.normal(size=n_rows if n_targets is None else (n_rows, n_targets)) + X[:, :1].reshape(
        (n_rows, 1) if n_targets else n_rows
    )
    model = IncrementalRidge(alpha, fit_intercept=fit_intercept, solver=solver)
    rows = in_kind(data, X)
    learn_in_chunks(model, data, rows, y, weights)
    expected = Ridge(alpha, fit_intercept=fit_intercept, solver="cholesky")
    expected.fit(X, y, sample_weight=weights)
    # Of one target in a column scikit-learn's versions differ: here two dimensions stay two.
    assert model.coef_.shape == (n_features,) if n_targets is None else (n_targets, n_features)
    known = expected.coef_.reshape(model.coef_.shape)
    np.testing.assert_allclose(model.coef_, known, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    known = expected.predict(X).reshape(y.shape)
    np.testing.assert_allclose(model.predict(rows), known, rtol=1e-6, atol=1e-8)
    assert model.alpha_ == alpha
    assert model.n_samples_seen_ == n_rows


@strategies.examples(60)
@given(st.data(), st.sampled_from(SOLVERS), st.booleans())
def test_chunks_give_ridge_classifier(data, solver, fit_intercept):
    n_rows, n_features = data.draw(st.integers(4, 60)), data.draw(st.integers(1, 6))
    random, X, weights = drawn_rows(data, n_rows, n_features)
    labels = np.array(data.draw(st.sampled_from([["b", "a"], ["dog", "cat", "cow"], [3, 1, 2, 7]])))
    y = labels[random.integers(0, len(labels), n_rows)]
    y[: len(labels)] = labels
    alpha = data.draw(st.sampled_from([0.1, 1.0, 30.0]))
    settings = {"fit_intercept": fit_intercept}
    if weights is not None:
        weights[: len(labels)] = 1.0
    model = IncrementalRidgeClassifier(alpha, solver=solver, **settings)
    rows = in_kind(data, X)
    learn_in_chunks(model, data, rows, y, weights)
    expected = RidgeClassifier(alpha, solver="cholesky", **settings)
    expected.fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    assert model.coef_.shape == (1 if len(labels) == 2 else len(labels), n_features)
    known = np.atleast_2d(expected.coef_)
    np.testing.assert_allclose(model.coef_, known, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    scores = expected.decision_function(X)
    np.testing.assert_allclose(model.decision_function(rows), scores, rtol=1e-6, atol=1e-8)
    proba = model.predict_proba(rows)
    assert proba.shape == (n_rows, len(labels))
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(rows)).mean() > 0.99


@strategies.examples(30)
@given(
    st.data(), st.sampled_from(["gram", "orthogonal"]), st.sampled_from([None, "standard", "auto"])
)
def test_auto_is_a_function_of_the_rows(data, solver, scaling):
    """However they were cut, weighted or repeated, merged, or taken out again."""
    n_rows, n_features = data.draw(st.integers(6, 50)), data.draw(st.integers(1, 8))
    random, X, _ = drawn_rows(data, n_rows, n_features)
    if data.draw(st.booleans()):
        X = data.draw(strategies.few_rows(min_rows=4))
        n_rows = len(X)
    # Rows that are fitted without an error are the likelier the smaller the ridge is, to rounding.
    assume(np.linalg.matrix_rank(X - X.mean(axis=0)) < n_rows - 1)
    w = random.integers(1, 4, n_rows)
    y = X[:, 0] + random.normal(size=n_rows)
    model = IncrementalRidge(solver=solver, scaling=scaling)
    once = clone(model).fit(X.repeat(w, axis=0), y.repeat(w))
    parts = []
    for chunk in cut(data, n_rows):
        model.partial_fit(X[chunk], y[chunk], sample_weight=w[chunk])
        parts.append(clone(model).fit(X[chunk], y[chunk], sample_weight=w[chunk]))
    models = [model, sum(parts)]
    if solver == "gram":
        more = copy.deepcopy(model).partial_fit(X[:3] + 1.0, y[:3])
        models.append(more.unlearn(X[:3] + 1.0, y[:3]))
    for each in models:
        assert each.alpha_ == pytest.approx(once.alpha_, rel=0.02)
        np.testing.assert_allclose(each.predict(X), once.predict(X), rtol=1e-3, atol=1e-3)
    scaled = make_pipeline(StandardScaler(), Ridge(once.alpha_))
    if scaling == "standard":
        scaled.fit(X.repeat(w, axis=0), y.repeat(w))
        np.testing.assert_allclose(once.predict(X), scaled.predict(X), rtol=1e-6, atol=1e-8)


def test_classes_come_at_any_time_and_go_with_their_rows():
    X, y = load_iris(return_X_y=True)
    order = np.argsort(y, kind="stable")
    X, y = X[order], np.array(["c", "b", "a"])[y[order]]
    model = IncrementalRidgeClassifier(1.0)
    shapes = []
    for start in range(0, 150, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
        shapes.append((len(model.classes_), model.coef_.shape, model.decision_function(X).shape))
    assert shapes == [(1, (1, 4), (150,)), (2, (1, 4), (150,)), (3, (3, 4), (150, 3))]
    assert model.classes_.tolist() == ["a", "b", "c"]
    model.unlearn(X[:50], y[:50])
    assert model.classes_.tolist() == ["a", "b"]
    rest = RidgeClassifier(1.0).fit(X[50:], y[50:])
    np.testing.assert_allclose(model.coef_, np.atleast_2d(rest.coef_), rtol=1e-7)
    declared = IncrementalRidgeClassifier(1.0).partial_fit(X[:50], y[:50], classes=["z", "c", "a"])
    assert declared.classes_.tolist() == ["a", "c", "z"]
    assert declared.predict_proba(X[:2]).shape == (2, 3)
    assert set(declared.predict(X)) == {"c"}
    assert declared.fit(X, y).classes_.tolist() == ["a", "b", "c"]


def test_fit_starts_anew_and_parameters_that_must_stay_do():
    X, y = load_diabetes(return_X_y=True)
    model = IncrementalRidge(1.0).fit(X, y).fit(X[:100], y[:100])
    assert model.n_samples_seen_ == 100
    before = model.coef_
    model.set_params(alpha=2.0)
    np.testing.assert_allclose(model.coef_, Ridge(2.0).fit(X[:100], y[:100]).coef_, rtol=1e-7)
    np.testing.assert_array_equal(model.set_params(alpha=1.0).coef_, before)
    others = {"solver": "orthogonal", "fit_intercept": False, "forgetting_factor": 0.9}
    for name, value in [*others.items(), ("scaling", "standard")]:
        changed = copy.deepcopy(model).set_params(**{name: value})
        for call in (lambda: changed.partial_fit(X, y), lambda: changed.predict(X)):  # noqa: B023
            with pytest.raises(ValueError, match=f"^{name} has changed"):
                call()
        assert changed.fit(X, y).n_samples_seen_ == len(X)
    recursive = IncrementalRidge(1.0, solver="recursive").fit(X, y).set_params(alpha=3.0)
    np.testing.assert_allclose(recursive.coef_, Ridge(3.0).fit(X, y).coef_, rtol=1e-7)


@pytest.mark.parametrize("several", [False, True])
def test_deviations_are_those_of_river(several):
    X, y = load_diabetes(return_X_y=True)
    X = X * np.logspace(0, 2, X.shape[1])
    y = np.column_stack([y, y**2]) if several else y
    model = IncrementalRidge(2.0, scaling="standard").fit(X, y)
    river = model.to_river()
    found, expected = model.predict(X, return_std=True), river.predict_many(X, with_dist=True)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    ends, expected = model.predict_interval(X, 0.8), river.predict_interval_many(X, 0.8)
    np.testing.assert_allclose(ends, expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"level=1\.0"):
        model.predict_interval(X, level=1.0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [0.5, "auto"])
@pytest.mark.parametrize("named", [False, True])
def test_to_river(solver, alpha, named):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["c", "b", "a"])[y]
    rows = pd.DataFrame(X, columns=["w", "z", "x", "y"]) if named else X
    model = IncrementalRidgeClassifier(alpha, solver=solver).fit(rows[:100], labels[:100])
    river = model.to_river()
    assert isinstance(river, LeastSquaresClassifier)
    sample = dict(zip(["w", "z", "x", "y"], X[0], strict=True)) if named else dict(enumerate(X[0]))
    assert river.predict_one(sample) == labels[0]
    river.learn_one({}, "new")
    assert model.classes_.tolist() == ["b", "c"]
    for targets in (X[:, 0], X[:, :2]):
        regressor = IncrementalRidge(alpha, solver=solver).fit(rows, targets)
        kinds = LeastSquaresRegressor, LeastSquaresMultiTargetRegressor
        other = regressor.to_river()
        assert isinstance(other, kinds[targets.ndim - 1])
        predicted = np.asarray(other.predict_many(rows))
        np.testing.assert_allclose(predicted, regressor.predict(rows), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*is multi-threaded:DeprecationWarning")
def test_it_goes_with_the_rest_of_scikit_learn():
    X, y = load_digits(return_X_y=True)
    for step in (RBFSampler(gamma=0.001, random_state=0), HiddenLayerTransformer(50)):
        model = make_pipeline(step, IncrementalRidgeClassifier()).fit(X[:500], y[:500])
        assert model.score(X[500:], y[500:]) > 0.75
    search = GridSearchCV(IncrementalRidgeClassifier(), {"alpha": [0.1, 100.0, "auto"]}, cv=3)
    assert search.fit(X[:300], y[:300]).best_score_ > 0.8
    # Processes of joblib's own take seconds to start.
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        scores = cross_val_score(IncrementalRidgeClassifier(), X[:300], y[:300])
    assert scores.mean() > 0.8
    frame = pd.DataFrame({"city": ["a", "b", "a", "c"] * 5, "age": np.arange(20.0)})
    columns = ColumnTransformer(
        [("city", OneHotEncoder(), ["city"]), ("age", PolynomialFeatures(2), ["age"])]
    )
    tabular = make_pipeline(columns, IncrementalRidge(0.1)).fit(frame, frame["age"] ** 2)
    assert tabular.score(frame, frame["age"] ** 2) > 0.99
    layer = HiddenLayerTransformer(3).set_output(transform="pandas").fit(frame[["age"]])
    names = [f"hiddenlayertransformer{k}" for k in range(3)]
    assert layer.transform(frame[["age"]]).columns.tolist() == names
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        fit = joblib.delayed(clone(tabular).fit)
        (again,) = joblib.Parallel()([fit(frame, frame["age"])])
    assert again.score(frame, frame["age"]) > 0.99
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = IncrementalRidge(1.0).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        w = np.linspace(0.1, 2.0, len(X))
        piped = make_pipeline(scaler, weighted).fit(X, y, sample_weight=w)
    scaled = StandardScaler().fit_transform(X)
    expected = Ridge(1.0).fit(scaled, y, sample_weight=w)
    np.testing.assert_allclose(piped[-1].coef_, expected.coef_, rtol=1e-6, atol=1e-9)


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [IncrementalRidge, IncrementalRidgeClassifier])
def test_threads_lose_no_rows(kind, solver, many_switches):
    """From the very first rows on; also while rows are taken out and estimators are added up."""
    X = np.random.default_rng(0).normal(size=(240, 5))
    y = X[:, 0] if kind is IncrementalRidge else np.where(X[:, 0] > 0.0, "b", "a")
    parts = [slice(at, at + 3) for at in range(0, 240, 3)]
    model, expected = kind(1.0, solver=solver), kind(1.0, solver=solver).fit(X, y)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: model.partial_fit(X[part], y[part]), parts))
        assert model.n_samples_seen_ == 240
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
        other = kind(1.0, solver=solver).fit(X[:60], y[:60])
        jobs = [lambda: model.merge(other), lambda: other + model, lambda: model.predict(X)]
        if solver != "orthogonal":
            jobs += [lambda part=part: model.unlearn(X[part], y[part]) for part in parts[:20]]
        for job in [pool.submit(each) for each in jobs]:
            job.result()
    assert model.n_samples_seen_ == (300 if solver == "orthogonal" else 240)
    assert other.n_samples_seen_ == 60
    whole = kind(1.0, solver=solver).fit(np.vstack([X, X[:60]]), np.append(y, y[:60]))
    expected = whole if solver == "orthogonal" else expected
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_who_asks_while_another_teaches_sees_the_rows_up_to_a_moment(copied, many_switches):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(120, 4)), random.integers(0, 2, 120) * 5 - 2
    parts = [slice(at, at + 4) for at in range(0, 120, 4)]
    alone, known = IncrementalRidgeClassifier(1.0), set()
    for part in parts:
        alone.partial_fit(X[part], y[part])
        known.add((alone.n_samples_seen_, alone.coef_.tobytes()))
    model = IncrementalRidgeClassifier(1.0).partial_fit(X[parts[0]], y[parts[0]])

    def ask(_):
        taken = copied(model)
        assert set(model.predict(X[:2])) <= {-2, 3}
        return taken.n_samples_seen_, taken.coef_.tobytes()

    with ThreadPoolExecutor(3) as pool:
        asked = pool.map(ask, range(100))
        for part in parts[1:]:
            model.partial_fit(X[part], y[part])
        assert set(asked) <= known


# -- labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "later"), [([True, False], [0, 1]), ([0, 1], ["a", "b"])])
def test_labels_of_two_types_are_refused_by_their_types(first, later):
    types = " and ".join(type(labels[0]).__name__ for labels in (first, later))
    model = IncrementalRidgeClassifier(1.0).partial_fit(np.eye(2), first)
    other = IncrementalRidgeClassifier(1.0).partial_fit(np.eye(2), later)
    for call in (
        lambda: model.partial_fit(np.eye(2), later),
        lambda: model.merge(other),
        lambda: IncrementalRidgeClassifier(1.0).partial_fit(np.eye(2), later, classes=first),
    ):
        with pytest.raises(ValueError, match=f"of type {types}, .* labels that one array"):
            call()


LABELS = [
    *(np.array([False, True]), np.array([3, 1, 7], np.int8), np.array([-5, 7, 0])),
    *(np.array([2**63 + 1, 2**63 + 5, 2], np.uint64), np.array([2**53 + 1, 2**53, -(2**53) - 1])),
    *(np.array([2.0, 9.0], np.float32), np.array(["b", "a", "1"]), np.array([b"a", b"b"])),
    *(np.array(["b", "longer", "True"], object), np.array([1, "a"], object)),
    *(np.array(["2020-01-01", "NaT"], "M8[D]"), np.array([1.0, np.nan])),
    *(np.ma.array([1, 2], mask=[False, True]), [2**63 + 5, -5], [1, "a"], [(1, 2), (3, 4)]),
    *(["a", None], ["a", float("nan")], pd.Series(["x", "a"], dtype="string")),
    *(pd.Series([4, -5], dtype="Int64"), pd.Series([2**53 + 1, 2**53], dtype="Int64")),
    *(pd.Series(["a", "c"], dtype="category"), pd.Series([2**53 + 1, 5], dtype="int64[pyarrow]")),
    *(pd.Series([True, False], dtype="boolean"), pd.Series(["a", pd.NA], dtype=object)),
    pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])),
]
"""Labels of every type: those that an array holds exactly, and others."""


def chosen_from(labels, random, n_rows):
    """Return labels of rows, each at least once, in the kind that they are in."""
    which = np.concatenate([np.arange(len(labels)), random.integers(0, len(labels), n_rows)])
    which = which[:n_rows]
    if isinstance(labels, list):
        return [labels[k] for k in which]
    return labels.iloc[which] if isinstance(labels, pd.Series) else labels[which]


def plainly(y):
    """Return labels as Python's values."""
    return [each.item() if isinstance(each, np.generic) else each for each in y]


def refusal_of(call):
    """Return what a call is refused with, None if it is not."""
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error)


def state_of(estimator):
    """Return the state of an estimator but for its lock, which its first call makes."""
    return pickle.dumps({name: each for name, each in vars(estimator).items() if name != "_lock"})


@strategies.examples(60)
@given(
    kinds=st.lists(st.sampled_from(LABELS), min_size=1, max_size=3),
    declared=st.sampled_from([None, *LABELS]),
    seed=st.integers(0, 99),
)
@example(kinds=[LABELS[0], LABELS[3]], declared=None, seed=0)
def test_labels_are_learnt_exactly_or_refused(kinds, declared, seed):
    random = np.random.default_rng(seed)
    model, known = IncrementalRidgeClassifier(1.0), set()
    for number, kind in enumerate(kinds):
        X, y = random.normal(size=(9, 2)), chosen_from(kind, random, 9)
        classes = None if number else declared
        before = state_of(model)
        refusal = refusal_of(lambda c=classes, X=X, y=y: model.partial_fit(X, y, classes=c))
        if refusal is not None:
            assert re.search(r"label|class|y |NaN", refusal)
            assert state_of(model) == before
            continue
        known |= set(plainly(y)) | set(() if classes is None else plainly(classes))
        assert set(model.classes_.tolist()) == known
        assert len(model.classes_) == len(known)
        assert set(plainly(model.predict(X))) <= known
        river = model.to_river()
        assert set(river.classes) <= known
        np.testing.assert_array_equal(river.predict_many(X), model.predict(X))


@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_after_everything_was_unlearnt_other_labels_come(alpha):
    X = np.array([[0.0], [1.0], [3.0]])
    model = IncrementalRidgeClassifier(alpha)
    model.partial_fit(X, [0, 1, 1]).unlearn(X, [0, 1, 1])
    assert model.coef_.size == model.intercept_.size == len(model.classes_) == 0
    with pytest.raises(ValueError, match="unlearnt"):
        model.predict(X)
    assert model.to_river().predict_one({0: 1.0}) is None
    model.partial_fit(X, ["a", "b", "b"])
    fresh = clone(model).fit(X, ["a", "b", "b"])
    np.testing.assert_array_equal(model.classes_, ["a", "b"])
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-9)
    regressor = IncrementalRidge(alpha).partial_fit(X, X[:, 0]).unlearn(X, X[:, 0])
    for ask in (regressor.predict, regressor.predict_interval):
        with pytest.raises(ValueError, match="Every row has been unlearnt"):
            ask(X)


# -- what the penalty and the messages depend on ---------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda X, y: IncrementalRidge(1.0).fit(X, ["red"] * 4), "targets y of shape (n_samples"),
        (lambda X, y: IncrementalRidge(1.0).fit(X * 1e198, y), "scikit-learn's SimpleImputer"),
        (lambda X, y: IncrementalRidge("Auto").fit(X, y), "fit an estimator per target"),
        (
            lambda X, y: IncrementalRidge(1.0).fit(X, y) + IncrementalRidge(2.0).fit(X, y),
            "Make all estimators with sklearn.base.clone.",
        ),
        (
            lambda X, y: IncrementalRidge(1.0).fit(sparse.csr_array((4, 1 << 20)), y),
            "scikit-learn's HashingVectorizer(n_features=1024)",
        ),
    ],
)
def test_messages_name_what_estimators_have(call, expected):
    X, y = np.array([[1.0], [2.0], [4.0], [8.0]]), np.arange(4.0)
    with pytest.raises((TypeError, ValueError), match=re.escape(expected)):
        call(X, y)


def test_saving_names_the_river_model():
    for estimator in (IncrementalRidge(), IncrementalRidgeClassifier()):
        with pytest.raises(TypeError, match=r"Save model.to_river\(\)"):
            onlinels.dumps(estimator)
    X, y = load_diabetes(return_X_y=True)
    model = IncrementalRidge().fit(X, y)
    river = onlinels.loads(onlinels.dumps(model.to_river()))
    np.testing.assert_allclose(river.predict_many(X), model.predict(X), rtol=1e-9)


OWN = {"fit_intercept", "forgetting_factor", "scaling"}
FOREIGN = {"w", "t", "seed", "learn_many", "learn_one", "unlearn_many"} - OWN
FOREIGN |= {*inspect.signature(LeastSquaresClassifier).parameters} - OWN
"""Parameters and methods of river's faces."""


def refused_calls(kind, solver):
    """Return an estimator, and calls of it and of others that are refused, with what is said."""
    X, y = load_iris(return_X_y=True)

    def made(**settings):
        return kind(**({"alpha": 1.0, "solver": solver} | settings))

    model, twice = made().fit(X[:140], y[:140]), (np.vstack([X, X]), np.append(y, y))
    bad = np.where(np.arange(4) == 2, np.nan, X)
    calls = [
        ("nan|NaN", lambda: model.partial_fit(bad, y)),
        ("X has 3 features", lambda: model.partial_fit(X[:, :3], y)),
        ("features", lambda: model.predict(X[:, :2])),
        ("negative|at least 0", lambda: model.partial_fit(X, y, sample_weight=[-1.0] * 150)),
        ("sample_weight", lambda: model.partial_fit(X, y, sample_weight=[1.0] * 3)),
        ("X", lambda: model.partial_fit(X * 1e200, y)),
        ("X", lambda: model.partial_fit(sparse.csr_array(X * 1e200), y)),
        ("sample_weight|weight", lambda: made().fit(X * 1e100, y, np.full(150, 1e140))),
        (r"y.* shape \(150, 2\)", lambda: model.partial_fit(X, np.column_stack([y, y]))),
        ("features|feature", lambda: model.merge(made().fit(X[:, :2], y))),
        ("different settings", lambda: model.merge(made(fit_intercept=False).fit(X, y))),
        ("solver='svd'", lambda: made(solver="svd").fit(X, y)),
        ("forgetting_factor=1.5", lambda: made(forgetting_factor=1.5).fit(X, y)),
        ("scaling='robust'", lambda: made(scaling="robust").fit(X, y)),
        ("fit_intercept", lambda: made(fit_intercept="yes").fit(X, y)),
    ]
    for alpha in (-1.0, "best", KFold(3), [1.0], None, True, {"a": 1.0}, 1j):
        text = r'^alpha=.*expected a number of at least 0, or "auto"'
        calls.append((text, lambda alpha=alpha: made(alpha=alpha).fit(X, y)))
    if solver == "orthogonal":
        calls += [
            (r'cannot remove rows.*solver="gram"', lambda: model.unlearn(X[:1], y[:1])),
            (
                r"solver: 'orthogonal' and 'gram'",
                lambda: model.merge(made(solver="gram").fit(X, y)),
            ),
        ]
    else:
        calls += [
            ("expected at most the (140|50)", lambda: model.unlearn(*twice)),
            (".", lambda: model.unlearn(X[:9] * 1e3, y[:9])),
            (".", lambda: model.unlearn(X[:5], y[:5], np.full(5, 1e3))),
        ]
    if kind is IncrementalRidgeClassifier:
        calls += [
            ("holds the labels", lambda: model.partial_fit(X, np.where(y > 0, "x", "y"))),
            ("X", lambda: model.partial_fit(X[:1] * 1e200, y[:1], classes=[0, 1, 2, 5])),
            ("IncrementalRidgeClassifier", lambda: model.merge(IncrementalRidge())),
        ]
        for classes in (["q"], [None, 3], [[1, 2]], [0.0, np.nan]):
            call = lambda classes=classes: model.partial_fit(X, y, classes=classes)  # noqa: E731
            calls.append(("classes|labels", call))
    else:
        calls.append(("y", lambda: made().fit(X, y * 1e200)))
    return model, calls


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [IncrementalRidge, IncrementalRidgeClassifier])
def test_refused_calls_change_nothing_and_name_parameters_of_the_estimator(kind, solver):
    model, calls = refused_calls(kind, solver)
    before = state_of(model)
    for text, call in calls:
        with pytest.raises((TypeError, ValueError), match=text) as raised:
            call()
        assert not FOREIGN & set(re.findall(r"[A-Za-z_]+", str(raised.value))), raised.value
        assert state_of(model) == before
    fresh = kind(solver=solver)
    with pytest.raises(ValueError, match=r"nan|NaN"):
        fresh.partial_fit(np.full((2, 3), np.nan), [0, 1])
    assert not hasattr(fresh, "n_features_in_")


def test_the_seed_of_a_layer_settles_it():
    layers = [HiddenLayerTransformer(5, random_state=seed) for seed in (None, None, 3, 3)]
    a, b, c, d = (layer.fit_transform(np.eye(3)) for layer in layers)
    assert not np.allclose(a, b)
    assert np.array_equal(c, d)


def test_a_refused_layer_names_its_parameters():
    for settings in (
        *({"input_weights": "x"}, {"activation": "x"}, {"bias": "x"}, {"standardize": "x"}),
        *({"n_hidden": 0}, {"random_state": -1}, {"input_weights": "difference"}),
        {"input_weights": np.eye(3)},
    ):
        with pytest.raises((TypeError, ValueError), match=next(iter(settings))) as raised:
            HiddenLayerTransformer(**({"n_hidden": 5} | settings)).fit(np.eye(3))
        assert not FOREIGN & set(re.findall(r"[A-Za-z_]+", str(raised.value)))


def test_what_a_selected_alpha_acts_on_is_told():
    random = np.random.default_rng(3)
    X = random.normal(size=(400, 6)) * np.array([1e4, 1e-3, 1.0, 1.0, 1.0, 1.0])
    y = X @ (1.0 / X.std(axis=0)) + random.normal(size=400)
    model = IncrementalRidge().fit(X, y)
    assert model.scaling_ == "standard"
    assert IncrementalRidge(1.0).fit(X, y).scaling_ is None
    same = IncrementalRidge(model.alpha_, scaling=model.scaling_).fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9)
