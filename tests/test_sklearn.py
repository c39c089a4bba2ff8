"""scikit-learn's interface: chunks give what scikit-learn's models give of all rows."""

import copy
import inspect
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import sparse

import onlinels
from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
)
from support import strategies
from support.laws import fitted
from support.slow import the_rest_slow

pytest.importorskip("sklearn", reason="scikit-learn comes with an extra")

import joblib
import onnxruntime
import sklearn
from skl2onnx import to_onnx
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from onlinels.export import to_sklearn
from onlinels.sklearn import HiddenLayerTransformer, IncrementalRidge, IncrementalRidgeClassifier

SOLVERS = ["gram", "orthogonal", "recursive"]


def drawn_rows(data, most_features):
    """Draw rows and their weights, of which those of the first rows are above 0."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    shape = data.draw(st.integers(4, 60)), data.draw(st.integers(1, most_features))
    X = random.normal(size=shape) + random.normal(size=shape[1])
    w = random.integers(0, 4, len(X)).astype(float) + (np.arange(len(X)) < 4)
    return random, X, data.draw(st.sampled_from([None, w, w / 3.0]))


def frame_of(X):
    """Return rows in a frame; river's models sort the names of its columns."""
    return pd.DataFrame(X, columns=[f"x{k}" for k in reversed(range(X.shape[1]))])


def labels_of(*labels):
    """Return what gives rows labels, each of which comes in the first rows."""
    return lambda random, X: np.array(labels)[
        np.append(np.arange(len(labels)), random.integers(0, len(labels), len(X)))[: len(X)]
    ]


NUMBERS = IncrementalRidge, Ridge, "predict", LeastSquaresRegressor
COLUMNS = *NUMBERS[:3], LeastSquaresMultiTargetRegressor
LABELLED = IncrementalRidgeClassifier, RidgeClassifier, "decision_function", LeastSquaresClassifier
TARGETS = {
    "numbers": (*NUMBERS, (), lambda random, X: X[:, 0] + random.normal(size=len(X))),
    # Of one target in a column scikit-learn's versions differ: here two dimensions stay two.
    "a column": (*COLUMNS, (1,), lambda random, X: X[:, :1] + random.normal(size=(len(X), 1))),
    "three columns": (*COLUMNS, (3,), lambda random, X: random.normal(size=(len(X), 3)) - 9.0),
    "two labels": (*LABELLED, (1,), labels_of("b", "a")),
    "three labels": (*LABELLED, (3,), labels_of("dog", "cat", "cow")),
    "four labels": (*LABELLED, (4,), labels_of(3, 1, 2, 7)),
}
"""Both estimators, the method that answers, river's model, the outputs, what makes targets."""


@pytest.mark.parametrize("name", TARGETS)
@strategies.examples(25)
@given(st.data(), st.sampled_from(SOLVERS), st.booleans(), st.sampled_from([0.1, 1.0, 30.0]))
def test_chunks_give_what_scikit_learn_gives_of_all_rows(name, data, solver, fit_intercept, alpha):
    make, peer, method, kind, outputs, targets = TARGETS[name]
    random, X, w = drawn_rows(data, 6)
    form = data.draw(st.sampled_from([np.array, np.asfortranarray, sparse.csr_array, frame_of]))
    y, rows = targets(random, X), form(X)
    model = make(alpha, fit_intercept=fit_intercept, solver=solver)
    for part in data.draw(strategies.splits(len(y))):
        weights = None if w is None else w[part]
        model.partial_fit(form(X[part]), y[part], sample_weight=weights)
    expected = peer(alpha, fit_intercept=fit_intercept, solver="cholesky")
    expected.fit(X, y, sample_weight=w)
    assert model.coef_.shape == (*outputs, X.shape[1])
    known = np.reshape(expected.coef_, model.coef_.shape)
    np.testing.assert_allclose(model.coef_, known, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    answers = getattr(model, method)(rows)
    known = getattr(expected, method)(X).reshape(answers.shape)
    np.testing.assert_allclose(answers, known, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(getattr(model, "classes_", ()), getattr(expected, "classes_", ()))
    assert (model.alpha_, model.scaling_, model.n_samples_seen_) == (alpha, None, len(y))
    river, before = model.to_river(), model.coef_
    assert type(river) is kind
    for each in (river, onlinels.loads(onlinels.dumps(river))):
        np.testing.assert_array_equal(np.asarray(each.predict_many(rows)), model.predict(rows))
    river.learn_many(rows, y)
    np.testing.assert_array_equal(model.coef_, before)


@strategies.examples(30)
@given(
    st.data(), st.sampled_from(["gram", "orthogonal"]), st.sampled_from([None, "standard", "auto"])
)
def test_auto_is_a_function_of_the_rows(data, solver, scaling):
    """However they were cut, weighted or repeated, merged, or taken out again."""
    random, X, _ = drawn_rows(data, 8)
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
    for chunk in data.draw(strategies.splits(n_rows)):
        model.partial_fit(X[chunk], y[chunk], sample_weight=w[chunk])
        parts.append(clone(model).fit(X[chunk], y[chunk], sample_weight=w[chunk]))
    models = [model, sum(parts)]
    if solver == "gram":
        more = copy.deepcopy(model).partial_fit(X[:3] + 1.0, y[:3])
        models.append(more.unlearn(X[:3] + 1.0, y[:3]))
    for each in models:
        assert each.alpha_ == pytest.approx(once.alpha_, rel=0.02)
        np.testing.assert_allclose(each.predict(X), once.predict(X), rtol=1e-3, atol=1e-3)


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
    proba = declared.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (declared.classes_[proba.argmax(axis=1)] == declared.predict(X)).mean() > 0.99


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


@pytest.mark.parametrize("n_targets", [1, 2])
def test_deviations_are_those_of_river(n_targets):
    X, y = load_diabetes(return_X_y=True)
    X, Y = X * np.logspace(0, 2, X.shape[1]), np.column_stack([y, y**2])[:, :n_targets]
    model = IncrementalRidge(2.0, scaling="standard").fit(X, Y)
    river = model.to_river()
    found, expected = model.predict(X, return_std=True), river.predict_many(X, with_dist=True)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    ends, expected = model.predict_interval(X, 0.8), river.predict_interval_many(X, 0.8)
    np.testing.assert_allclose(ends, expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"level=1\.0"):
        model.predict_interval(X, level=1.0)


@pytest.mark.filterwarnings("ignore:.*is multi-threaded:DeprecationWarning")
def test_it_goes_with_the_rest_of_scikit_learn():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(HiddenLayerTransformer(50), IncrementalRidgeClassifier())
    assert model.fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.75
    search = GridSearchCV(IncrementalRidgeClassifier(), {"alpha": [0.1, 100.0, "auto"]}, cv=3)
    # Processes of joblib's own take seconds to start.
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        assert search.fit(X[:300], y[:300]).best_score_ > 0.8
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = IncrementalRidge(1.0).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        w = np.linspace(0.1, 2.0, len(X))
        piped = make_pipeline(scaler, weighted).fit(X, y, sample_weight=w)
    scaled = StandardScaler().fit_transform(X)
    expected = Ridge(1.0).fit(scaled, y, sample_weight=w)
    np.testing.assert_allclose(piped[-1].coef_, expected.coef_, rtol=1e-6, atol=1e-9)


SETTINGS = [
    IncrementalRidge(),
    IncrementalRidge(1.0, solver="recursive"),
    IncrementalRidgeClassifier(),
    HiddenLayerTransformer(20),
]
OTHERS = [
    IncrementalRidge(1.0, solver="orthogonal", fit_intercept=False),
    IncrementalRidge(solver="orthogonal", scaling="standard"),
    IncrementalRidgeClassifier(0.5, solver="recursive"),
    IncrementalRidgeClassifier(solver="orthogonal", scaling="auto"),
    HiddenLayerTransformer(20, activation="square", bias=False, standardize=False),
]


@parametrize_with_checks(SETTINGS)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS)
def test_every_check_passes_for_other_settings(estimator, check):
    check(estimator)


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", the_rest_slow(["gram", "recursive", "orthogonal"], 2))
@pytest.mark.parametrize("kind", [IncrementalRidge, IncrementalRidgeClassifier])
def test_threads_lose_no_rows(kind, solver, many_switches):
    """From the very first rows on; also while rows are taken out and estimators are added up."""
    X = np.random.default_rng(0).normal(size=(240, 5))
    y = np.where(X[:, 0] > 0.0, 1, 2)
    parts = [slice(at, at + 3) for at in range(0, 240, 3)]
    model, other = kind(1.0, solver=solver), kind(1.0, solver=solver).fit(X[:60], y[:60])
    removed = parts[:20] if solver != "orthogonal" else []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: model.partial_fit(X[part], y[part]), parts))
        assert model.n_samples_seen_ == 240
        jobs = [lambda: model.merge(other), lambda: other + model, lambda: model.predict(X)]
        jobs += [lambda part=part: model.unlearn(X[part], y[part]) for part in removed]
        for job in [pool.submit(each) for each in jobs]:
            job.result()
    rows = [*range(3 * len(removed), 240), *range(60)]
    assert (model.n_samples_seen_, other.n_samples_seen_) == (len(rows), 60)
    whole = kind(1.0, solver=solver).fit(X[rows], y[rows])
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8, atol=1e-10)


def test_who_asks_while_another_teaches_sees_the_rows_up_to_a_moment(many_switches):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(120, 4)), random.integers(0, 2, 120) * 5 - 2
    parts = [slice(at, at + 4) for at in range(0, 120, 4)]
    alone, known = IncrementalRidgeClassifier(1.0), set()
    for part in parts:
        alone.partial_fit(X[part], y[part])
        known.add((alone.n_samples_seen_, alone.coef_.tobytes()))
    model = IncrementalRidgeClassifier(1.0).partial_fit(X[parts[0]], y[parts[0]])

    def ask(number):
        taken = copy.deepcopy(model) if number % 2 else pickle.loads(pickle.dumps(model))
        assert set(model.predict(X[:2])) <= {-2, 3}
        return taken.n_samples_seen_, taken.coef_.tobytes()

    with ThreadPoolExecutor(3) as pool:
        asked = pool.map(ask, range(100))
        for part in parts[1:]:
            model.partial_fit(X[part], y[part])
        assert set(asked) <= known


# -- labels ----------------------------------------------------------------------------------------


LABELS = [
    *(np.array([False, True]), np.array([3, 1, 7], np.int8), np.array([2**53 + 1, 2**53, -5])),
    *(np.array([2**63 + 1, 2], np.uint64), np.array([2.0, 9.0], np.float32), np.array(["b", "1"])),
    *(
        np.array([b"a", b"b"]),
        np.array(["b", "longer", "True"], object),
        np.array([1, "a"], object),
    ),
    *(np.array(["2020-01-01", "NaT"], "M8[D]"), np.array([1.0, np.nan]), [2**63 + 5, -5]),
    *(np.ma.array([1, 2], mask=[False, True]), [1, "a"], [(1, 2), (3, 4)], ["a", float("nan")]),
    *(pd.Series(["x", "a"], dtype="string"), pd.Series([2**53 + 1, -5], dtype="Int64")),
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
    return {each.item() if isinstance(each, np.generic) else each for each in y}


def state_of(estimator):
    """Return the state of an estimator but for its lock, which its first call makes."""
    return pickle.dumps({name: each for name, each in vars(estimator).items() if name != "_lock"})


@strategies.examples(60)
@given(
    kinds=st.lists(st.sampled_from(LABELS), min_size=1, max_size=3),
    declared=st.sampled_from([None, *LABELS]),
    seed=st.integers(0, 99),
)
@example(kinds=[LABELS[0], LABELS[2]], declared=None, seed=0)
def test_labels_are_learnt_exactly_or_refused(kinds, declared, seed):
    random = np.random.default_rng(seed)
    model, known = IncrementalRidgeClassifier(1.0), set()
    for number, labels in enumerate(kinds):
        X, y = random.normal(size=(9, 2)), chosen_from(labels, random, 9)
        classes, before = None if number else declared, state_of(model)
        try:
            model.partial_fit(X, y, classes=classes)
        except (TypeError, ValueError) as error:
            refusal = str(error)
            assert re.search(r"label|class|y |NaN", refusal)
            assert state_of(model) == before
            continue
        known |= plainly(y) | plainly(() if classes is None else classes)
        assert sorted(model.classes_.tolist()) == sorted(known)
        assert plainly(model.predict(X)) <= known
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


# -- refusals --------------------------------------------------------------------------------------

OWN = {"fit_intercept", "forgetting_factor", "scaling"}
FOREIGN = {"w", "t", "seed", "learn_many", "learn_one", "unlearn_many"} - OWN
FOREIGN |= {*inspect.signature(LeastSquaresClassifier).parameters} - OWN
"""Parameters and methods of river's faces."""


CALLS = [
    ("X has 3 features", lambda e, X, y: e.fitted.partial_fit(X[:, :3], y)),
    (r"Save model.to_river\(\)", lambda e, X, y: onlinels.dumps(e.fitted)),
    ("at least 0", lambda e, X, y: e.fitted.partial_fit(X, y, sample_weight=[-1.0] * 150)),
    ("sample_weight", lambda e, X, y: e.fitted.partial_fit(X, y, sample_weight=[1.0] * 3)),
    ("scikit-learn's SimpleImputer", lambda e, X, y: e.fitted.partial_fit(X * 1e200, y)),
    ("X", lambda e, X, y: e.fitted.partial_fit(sparse.csr_array(X * 1e200), y)),
    ("sample_weight", lambda e, X, y: e().fit(X * 1e100, y, np.full(150, 1e140))),
    (r"y.* shape \(150, 2\)", lambda e, X, y: e.fitted.partial_fit(X, np.column_stack([y, y]))),
    ("feature", lambda e, X, y: e.fitted.merge(e().fit(X[:, :2], y))),
    (
        r"different settings.* Make all estimators with sklearn\.base\.clone",
        lambda e, X, y: e.fitted + e(fit_intercept=False).fit(X, y),
    ),
]
UNKNOWN = {
    "alpha": (-1.0, "best", KFold(3), [1.0], None, True, {"a": 1.0}, 1j),
    "solver": ("svd",),
    "forgetting_factor": (1.5,),
    "scaling": ("robust",),
    "fit_intercept": ("yes",),
}
CALLS += [
    (f"^{name}=", lambda e, X, y, given={name: value}: e(**given).fit(X, y))
    for name, values in UNKNOWN.items()
    for value in values
]
REMOVALS = [
    ("expected at most the", lambda e, X, y: e.fitted.unlearn(np.vstack([X, X]), np.append(y, y))),
    (".", lambda e, X, y: e.fitted.unlearn(X[:9] * 1e3, y[:9])),
    (".", lambda e, X, y: e.fitted.unlearn(X[:5], y[:5], np.full(5, 1e3))),
]
NO_REMOVALS = [
    (r'cannot remove rows.*solver="gram"', lambda e, X, y: e.fitted.unlearn(X[:1], y[:1])),
    ("'orthogonal' and 'gram'", lambda e, X, y: e.fitted.merge(e(solver="gram").fit(X, y))),
]
OF_NUMBERS = [
    # Their Gram matrix takes 2 TB.
    (
        r"scikit-learn's HashingVectorizer\(n_features=1024\)",
        lambda e, X, y: e().fit(sparse.csr_array((4, 1 << 19)), np.arange(4.0)),
    ),
    ("y", lambda e, X, y: e().fit(X, y * 1e200)),
    ("targets y of shape", lambda e, X, y: e().fit(X, ["red"] * 150)),
    ("fit an estimator per target", lambda e, X, y: e(alpha="Auto").fit(X, y)),
]
OF_LABELS = [
    ("holds the labels", lambda e, X, y: e.fitted.partial_fit(X, np.where(y > 0, "x", "y"))),
    ("X", lambda e, X, y: e.fitted.partial_fit(X[:1] * 1e200, y[:1], classes=[0, 1, 2, 5])),
    ("IncrementalRidgeClassifier", lambda e, X, y: e.fitted.merge(IncrementalRidge())),
    *(
        ("classes|labels", lambda e, X, y, given=given: e.fitted.partial_fit(X, y, classes=given))
        for given in (["q"], [None, 3], [[1, 2]], [0.0, np.nan])
    ),
]
REFUSED = [
    (IncrementalRidge, "gram", CALLS + REMOVALS + OF_NUMBERS),
    (IncrementalRidge, "orthogonal", CALLS + NO_REMOVALS),
    (IncrementalRidge, "recursive", REMOVALS),
    (IncrementalRidgeClassifier, "gram", CALLS + REMOVALS + OF_LABELS),
    (IncrementalRidgeClassifier, "orthogonal", NO_REMOVALS),
]


@pytest.mark.parametrize(("kind", "solver", "calls"), REFUSED)
def test_refused_calls_change_nothing_and_name_parameters_of_the_estimator(kind, solver, calls):
    X, y = load_iris(return_X_y=True)

    def new(**settings):
        return kind(**({"alpha": 1.0, "solver": solver} | settings))

    new.fitted = new().fit(X[:140], y[:140])
    before = state_of(new.fitted)
    for text, call in calls:
        with pytest.raises((TypeError, ValueError), match=text) as raised:
            call(new, X, y)
        assert not FOREIGN & set(re.findall(r"[A-Za-z_]+", str(raised.value))), raised.value
        assert state_of(new.fitted) == before


def test_refused_first_rows_leave_no_trace():
    fresh = IncrementalRidge()
    with pytest.raises(ValueError, match="NaN"):
        fresh.partial_fit(np.full((2, 3), np.nan), [0, 1])
    assert vars(fresh).keys() - {"_lock"} == fresh.get_params().keys()


@pytest.mark.parametrize("kind", ["gaussian", "difference"])
def test_features_are_those_of_a_hidden_layer(kind):
    X, y = load_iris(return_X_y=True)
    settings = {"n_hidden": 5, "input_weights": kind, "activation": "square", "bias": True}
    found = HiddenLayerTransformer(**settings, random_state=3).fit_transform(X, y)
    layer = HiddenLayer.from_examples(X, y if kind == "difference" else None, **settings, seed=3)
    np.testing.assert_array_equal(found, layer.transform_many(X))
    # Without a seed every layer is another.
    unseeded = HiddenLayerTransformer(**settings, random_state=None)
    assert not np.allclose(unseeded.fit_transform(X, y), unseeded.fit_transform(X, y))


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
    same = IncrementalRidge(model.alpha_, scaling=model.scaling_).fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9)


# -- to_sklearn ------------------------------------------------------------------------------------

ESTIMATORS = {
    "labels": RidgeClassifier,
    "labels with priors": LinearDiscriminantAnalysis,
    "numbers": Ridge,
    "several numbers": Ridge,
}


def rounding_of(model, X):
    """Return what answers of a model and an estimator may differ by."""
    sizes = np.abs(X) @ np.abs(model.output_weights)
    if getattr(model, "priors", None) is not None:
        # The model maps least-squares scores to discriminants, the estimator has one matrix.
        sizes += np.abs(X) @ np.abs(model._solved().output_weights) @ np.abs(model._rule().matrix)
    return 1e-13 * (sizes + np.abs(np.nan_to_num(model.intercept, neginf=0.0)))


@pytest.mark.parametrize("kind", ["numbers", "several numbers"])
@strategies.examples(20)
@given(st.data())
def test_exported_regressors_predict_as_the_model(kind, data):
    trained = data.draw(strategies.trained_models(kind))
    model, X = trained.model, trained.others.astype(np.float64)
    estimator, own = to_sklearn(model), model.predict_many(X)
    assert type(estimator) is ESTIMATORS[kind]
    answers, bound = estimator.predict(X), rounding_of(model, X)
    assert answers.shape == own.shape
    assert (np.abs(answers - own).reshape(bound.shape) <= bound).all()


@pytest.mark.parametrize("kind", ["labels", "labels with priors"])
@strategies.examples(20)
@given(st.data())
def test_exported_classifiers_decide_as_the_model(kind, data):
    trained = data.draw(strategies.trained_models(kind))
    model, X = trained.model, trained.others.astype(np.float64)
    assume(len(model.classes) > 1)
    estimator, largest = to_sklearn(model), rounding_of(model, X).max(axis=1)
    assert type(estimator) is ESTIMATORS[kind]
    assert list(estimator.classes_) == sorted(model.classes)
    clear = model.margin_many(X) > 4.0 * largest
    assert (estimator.predict(X) == model.predict_many(X))[clear].all()
    order = [model.classes.index(label) for label in estimator.classes_]
    scores, decisions = model.scores_many(X)[:, order], estimator.decision_function(X)
    # Of two classes decisions are one column, of others in units of their own.
    found = np.column_stack([0.0 * decisions, decisions]) if decisions.ndim == 1 else decisions
    apart = [np.diff(each[:, [0, -1]])[:, 0] for each in (found, scores)]
    unit = 2.0 if kind == "labels" and decisions.ndim == 2 else 1.0
    finite = np.isfinite(apart[1])
    assert (np.abs(apart[0] - unit * apart[1])[finite] <= 8.0 * largest[finite]).all()


def test_names_of_frames_are_those_of_the_model():
    frame = pd.DataFrame({"size": [1.0, 2.0, 4.0], "age": [5.0, 3.0, 2.0]})
    model = fitted(LeastSquaresRegressor(1.0), frame, [1.0, 2.0, 3.0])
    estimator = to_sklearn(model)
    assert list(estimator.feature_names_in_) == ["age", "size"]
    ordered = frame[list(model.feature_names)]
    np.testing.assert_allclose(estimator.predict(ordered), model.predict_many(frame))


@pytest.mark.parametrize("y", ["abcabc", "ababab", [2, 0, 2, 0, 1, 1]])
@pytest.mark.parametrize("priors", [None, "learnt"])
def test_skl2onnx_converts_classifiers(y, priors):
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    model = fitted(LeastSquaresClassifier(0.1, priors=priors), X, list(y))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # Shapes that skl2onnx writes for two classes are others.
    content = to_onnx(to_sklearn(model), X[:1]).SerializeToString()
    answers = onnxruntime.InferenceSession(content, options).run(None, {"X": X})
    assert answers[0].tolist() == model.predict_many(X).tolist()


ONE_LABEL = "knows only the class .* Learn rows of another"
CALIBRATED = CalibratedClassifier(LeastSquaresClassifier())
OTHER_MODELS = [
    (LeastSquaresClassifier(), [], "The LeastSquaresClassifier has learnt nothing"),
    (LeastSquaresClassifier(), ["a", "a"], ONE_LABEL),
    (LeastSquaresClassifier(), [(1, 2), "b"], r"The labels \(\(1, 2\), 'b'\) do not fit"),
    (LeastSquaresClassifier(), ["a\0", "b"], "The labels .* do not fit scikit-learn.* NUL"),
    (LeastSquaresClassifier(), [1, 2**64], "The labels .*18446744073709551616.* do not fit"),
    (HiddenLayer(5) | LeastSquaresClassifier(), ["a", "b"], "type Pipeline.*export.onnx"),
    (CALIBRATED, ["a", "b"], "of type CalibratedClassifier.*export.onnx"),
    (ShallowConvClassifier(), [], "model is of type ShallowConvClassifier.*export.onnx"),
    (LeastSquaresClassifier, [], r"model is of type \w+, expected"),
    (IncrementalRidge(), [], "of type IncrementalRidge, .* has to_river"),
    (None, [], "model is of type NoneType, expected .* has to_river"),
]


@pytest.mark.parametrize(("model", "y", "said"), OTHER_MODELS)
def test_other_models_are_refused_by_name(model, y, said):
    if y:
        model.learn_many(np.eye(2), y)
    with pytest.raises(ValueError, match=said):
        to_sklearn(model)
