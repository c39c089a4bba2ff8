"""scikit-learn's own checks, none of them expected to fail."""

import pytest

sklearn = pytest.importorskip("onlinels.sklearn", reason="scikit-learn comes with an extra")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

ESTIMATORS = [
    sklearn.IncrementalRidge(),
    sklearn.IncrementalRidge(1.0, solver="recursive"),
    sklearn.IncrementalRidgeClassifier(),
    sklearn.HiddenLayerTransformer(20),
]
OTHERS = [
    sklearn.IncrementalRidge(1.0, fit_intercept=False),
    sklearn.IncrementalRidge(1.0, solver="orthogonal"),
    sklearn.IncrementalRidge(solver="orthogonal", scaling="standard"),
    sklearn.IncrementalRidge(solver="recursive", scaling="auto"),
    sklearn.IncrementalRidgeClassifier(0.5, scaling="standard"),
    sklearn.IncrementalRidgeClassifier(0.5, solver="recursive"),
    sklearn.IncrementalRidgeClassifier(solver="orthogonal", scaling="auto"),
    sklearn.HiddenLayerTransformer(20, activation="square", bias=False, standardize=False),
]


@parametrize_with_checks(ESTIMATORS)
def test_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS)
def test_checks_of_other_settings(estimator, check):
    check(estimator)
