"""What the ridge acts on: features as they are, or standardised over all rows, exactly."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import KFold, LeastSquaresClassifier, LeastSquaresRegressor
from support import laws, strategies

FORMS = [
    {"accumulator": "gram"},
    {"accumulator": "gram", "fit_intercept": False},
    {"accumulator": "orthogonal"},
    {"accumulator": "recursive"},
    {"accumulator": "recursive", "fit_intercept": False},
]


def mixed_rows(seed, n_rows, n_features=6, constants=1, late=1):
    """Return rows of any units: numbers, indicators, constants, features that come late."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) + random.normal(size=n_features)
    X[:, 1] = X[:, 1] > 0.8
    X[:, n_features - constants :] = 0.1
    X[: n_rows // 3, 2 : 2 + late] = 0.0
    y = (X[:, 0] + 2.0 * X[:, 1] + random.normal(size=n_rows) > 0.5).tolist()
    X = X * 10.0 ** random.uniform(-6, 6, n_features)
    return strategies.Rows(X, y, np.ones(n_rows))


def units_of(model, rows):
    """Return every feature's deviation, about 0 without an intercept, as rows weigh."""
    X, weights = rows.X, rows.w / rows.w.sum()
    mean = weights @ X if model.fit_intercept else 0.0
    units = np.sqrt(weights @ (X - mean) ** 2)
    units[np.ptp(X, axis=0) <= 1e-13 * np.abs(X).max(axis=0)] = 0.0
    return units if model.fit_intercept else np.sqrt(weights @ X**2)


@pytest.mark.parametrize("form", FORMS, ids=str)
@strategies.examples(15)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), ridge=st.floats(1e-2, 1e2))
def test_the_ridge_acts_on_features_standardised_over_all_rows(form, data, seed, ridge):
    n_rows = data.draw(st.integers(2, 90))
    rows = mixed_rows(seed, n_rows)
    rows = rows.weighing(np.random.default_rng(seed).integers(1, 4, n_rows) * 0.5)
    model = LeastSquaresClassifier(ridge=ridge, scaling="standard", **form)
    laws.learn_in_batches(model, rows, data, ask=True, singly=True)
    units = units_of(model, rows)
    np.testing.assert_allclose(model.ridge_diagonal, ridge * units**2, rtol=1e-9)
    assert not model.output_weights[units == 0.0].any()
    factors = np.divide(1.0, units, out=np.zeros(len(units)), where=units > 0.0)
    scaled = strategies.Rows(rows.X * factors, rows.y, rows.w)
    plain = LeastSquaresClassifier(ridge=ridge, scaling=None, **form)
    plain.learn_many(scaled.X, scaled.y, scaled.w)
    found, wanted = model.scores_many(rows.X), plain.scores_many(scaled.X)
    np.testing.assert_allclose(found, wanted, atol=1e-8 * (1.0 + np.abs(wanted).max()))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("ridge", ["auto", "paper", 1.0])
@strategies.examples(10)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_units_of_features_do_not_matter(form, ridge, data, seed):
    """Multiplied by anything, and with an intercept shifted, no prediction changes."""
    n_rows = data.draw(st.integers(2, 60))
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(n_rows, 4)), 3)
    X[:, 1] = X[:, 1] > 0.5
    y = (X[:, 0] + random.normal(size=n_rows) > 0.0).tolist()
    factors = 10.0 ** random.uniform(-100, 100, 4)
    shifts = np.zeros(4)
    if form.get("fit_intercept", True):
        # Shifts cost digits of the mean in the deviations.
        shifts = random.uniform(-1, 1, 4) * data.draw(st.sampled_from([0.0, 10.0, 1e6]))
    others = (X + shifts) * factors
    settings = {"ridge": ridge, "scaling": "standard", **form}
    model, other = (LeastSquaresClassifier(**settings) for _ in range(2))
    for batch in data.draw(strategies.splits(n_rows)):
        part = slice(batch.start, batch.stop)
        model.learn_many(X[part], y[part])
        other.learn_many(others[part], y[part])
    found, wanted = other.scores_many(others), model.scores_many(X)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * (1.0 + np.abs(wanted).max()))


SELECTED = [
    {},
    {"fit_intercept": False},
    {"accumulator": "orthogonal"},
    {"accumulator": "recursive"},
    {"ridge": KFold(3)},
    {"forgetting_factor": 0.95},
    {"half_life": 8.0},
    {"accumulator": "recursive", "forgetting_factor": 0.98},
    {"scaling": "standard"},
    {"scaling": "standard", "accumulator": "recursive"},
    {"scaling": "standard", "accumulator": "recursive", "ridge": 1.0},
    {"scaling": "standard", "accumulator": "recursive", "ridge": "paper"},
]


@pytest.mark.parametrize("form", SELECTED, ids=str)
@strategies.examples(12)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_cutting_of_the_stream_changes_ridge_or_units(form, data, seed):
    """However many rows come at once, and whenever somebody asks."""
    n_rows = data.draw(st.integers(1, 150))
    rows = mixed_rows(seed, n_rows)
    random = np.random.default_rng(seed)
    # Features that begin to vary one after the other, and rows that weigh nothing.
    for feature, begin in enumerate(random.integers(0, n_rows, 3)):
        rows.X[:begin, feature] = rows.X[0, feature] if form.get("fit_intercept", True) else 0.0
    rows = rows.weighing(random.integers(0, 4, n_rows).clip(max=data.draw(st.integers(1, 3))) * 1.0)
    assert_cutting_changes_nothing(form, rows, data)


@pytest.mark.parametrize("form", SELECTED, ids=str)
@strategies.examples(40)
@given(data=st.data(), X=strategies.few_rows(), seed=st.integers(0, 2**32 - 1))
def test_no_cutting_of_few_rows_changes_ridge_or_units(form, data, X, seed):
    """Rounding errors do not select between units in which the rows are equally likely."""
    labels = np.random.default_rng(seed).integers(0, data.draw(st.integers(2, 3)), len(X))
    rows = strategies.Rows(X, labels.tolist(), np.ones(len(X)))
    assert_cutting_changes_nothing(form, rows, data)


def assert_cutting_changes_nothing(form, rows, data):
    """Assert that a drawn cutting gives the ridge, the units and the answers of one batch."""
    whole, cut = LeastSquaresClassifier(**form), LeastSquaresClassifier(**form)
    whole.learn_many(rows.X, rows.y, rows.w)
    laws.learn_in_batches(cut, rows, data, ask=True, singly=True)
    assert cut.ridge_ == pytest.approx(whole.ridge_, rel=1e-6)
    np.testing.assert_allclose(cut.ridge_diagonal, whole.ridge_diagonal, rtol=1e-6)
    size = 1.0 + np.abs(whole.scores_many(rows.X)).max()
    close = {"atol": 1e-6 * size, "rtol": 0.0}
    np.testing.assert_allclose(cut.scores_many(rows.X), whole.scores_many(rows.X), **close)
    for model in (whole, cut):
        assert_solves(model, rows.weighing(rows.w * decays(form, len(rows))))


def decays(form, n_rows):
    """Return what rows, one a unit of time, weigh at the end."""
    factor = form.get("forgetting_factor", 0.5 ** (1.0 / form.get("half_life", np.inf)))
    return factor ** np.arange(n_rows - 1.0, -1.0, -1.0)


def assert_solves(model, rows):
    """Assert that weights solve the batch problem of `ridge_diagonal`, in units of the penalty."""
    diagonal = model.ridge_diagonal
    if diagonal.max(initial=0.0) == diagonal.min(initial=np.inf):
        return
    A = laws.weighted_centred(rows.X, rows.X, rows.w, model.fit_intercept)[0]
    varies = (np.linalg.norm(A, axis=0) > 1e-9 * np.abs(rows.X).max(axis=0)) & (diagonal > 0.0)
    units = np.sqrt(diagonal[varies] / model.ridge_)
    scaled = strategies.Rows(rows.X[:, varies] / units, rows.y, rows.w)
    views = {name: getattr(model, name) for name in ("classes", "count", "fit_intercept")}
    views |= {"ridge": model.ridge, "accumulator": model.accumulator, "ridge_": model.ridge_}
    weights = model.output_weights[varies] * units[:, None]
    views |= {"output_weights": weights, "ridge_diagonal": np.full(len(units), model.ridge_)}
    views |= {"feature_names": range(len(units)), "intercept": model.intercept}
    laws.assert_is_batch_solution(SimpleNamespace(**views), scaled)
    assert not model.output_weights[~varies].any()


@pytest.mark.parametrize("ridge", [2.0, "auto"])
def test_variances_of_the_recursive_form_are_those_of_the_others(ridge):
    """Also of features that are new, or vary for the first time, in any unit."""
    X = np.random.default_rng(0).normal(size=(256, 3))
    X[:, 2] = 5.0
    gram, recursive = (
        LeastSquaresRegressor(ridge=ridge, accumulator=kind, scaling="standard")
        for kind in ("gram", "recursive")
    )
    asked = [{2: 5.0 + far, 9: new} for far in (0.0, 1e-3, 1e3) for new in (0.0, 1e-3, 1e3)]
    for model in (gram, recursive):
        model.learn_many(X, X[:, 0] + np.sin(np.arange(256.0)))
    deviations = [[each.sigma for each in m.predict_many(asked, True)] for m in (gram, recursive)]
    np.testing.assert_allclose(*deviations, rtol=1e-6)


@pytest.mark.parametrize("form", [{}, {"accumulator": "orthogonal"}])
def test_variances_are_those_of_standardised_rows(form):
    """A feature that has not varied counts as of the size that it would have with the row."""
    rows = mixed_rows(3, 80, late=0)
    model = LeastSquaresClassifier(ridge=2.0, scaling="standard", **form)
    model.learn_many(rows.X, rows.y)
    units = units_of(model, rows)
    factors = np.divide(1.0, units, out=np.zeros(len(units)), where=units > 0.0)
    plain = LeastSquaresClassifier(ridge=2.0, scaling=None, **form)
    plain.learn_many(rows.X * factors, rows.y)
    wanted = plain.variance_many(rows.X * factors)
    np.testing.assert_allclose(model.variance_many(rows.X), wanted, rtol=1e-6)
    known, beside, far = (np.append(rows.X[0, :-1], last) for last in (rows.X[0, -1], 0.3, 3e5))
    variances = model.variance_many(np.array([known, beside, far]))
    assert (variances[1] > variances[0]).all()
    np.testing.assert_allclose(variances[2], variances[1], rtol=1e-9)


def test_folds_have_scales_of_their_training_rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5)) * [1e-3, 1.0, 1e3, 1.0, 1.0]
    y = X @ [2e3, 1.0, 1e-3, 0.0, 0.0] + random.normal(size=300)
    ridges = []
    for scaling in ("auto", "standard", None):
        model = LeastSquaresRegressor(ridge=KFold(4), scaling=scaling)
        model.learn_many(X[:243], y[:243])
        ridges.append(model.ridge_)
        units = X[:243].std(axis=0) if scaling else np.ones(5)
        np.testing.assert_allclose(model.ridge_diagonal, model.ridge_ * units**2)
    assert ridges[0] == ridges[1] != ridges[2]


def test_settings_that_do_not_fit_are_refused():
    for kind in (LeastSquaresClassifier, LeastSquaresRegressor):
        for scaling in ("Standard", 1.0, True, "minmax"):
            with pytest.raises(ValueError, match=r'scaling=.*Pass "auto", "standard" or None'):
                kind(scaling=scaling)
        with pytest.raises(
            ValueError, match="without a ridge, the units of features do not matter"
        ):
            kind(ridge=0.0, scaling="standard")
        model = kind(ridge=1.0, scaling="standard")
        with pytest.raises(ValueError, match="do not go together"):
            model.ridge = 0.0
        assert model.ridge == 1.0


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_models_of_other_features_merge_while_they_are_standardised(accumulator, tmp_path):
    """The merged model is saved, and learns on in a batch, before anybody asks it."""
    random, sizes = np.random.default_rng(0), 10.0 ** np.arange(0, 10, 2)
    X = random.normal(size=(440, 5)) * sizes
    X[:70, 3:], X[70:140, :2] = 0.0, 0.0
    y = (X[:, 2] / sizes[2] + random.normal(size=440) > 0.0).tolist()
    parts = []
    for rows, names in ((slice(70), range(3)), (slice(70, 140), range(2, 5))):
        samples = [{name: row[name] for name in names} for row in X[rows].tolist()]
        parts.append(laws.fitted(LeastSquaresClassifier(accumulator=accumulator), samples, y[rows]))
        parts[-1].predict_one(samples[0])
    merged = parts[0] + parts[1]
    merged.save(tmp_path / "model.npz")
    for model in (merged, onlinels.load(tmp_path / "model.npz")):
        model.learn_many(X[140:], y[140:])
        assert model.count == 440
        assert_solves(model, strategies.Rows(X, y, np.ones(440)))
