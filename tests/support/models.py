"""Models of every kind that learns rows, by name, untrained."""

import functools

from river import base, compose

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)

LINEAR = {
    "gram": LeastSquaresClassifier,
    "no intercept": lambda: LeastSquaresClassifier(0.1, fit_intercept=False),
    "orthogonal": lambda: LeastSquaresClassifier(0.1, "orthogonal"),
    "recursive": lambda: LeastSquaresClassifier(1.0, "recursive"),
    "recursive, auto": lambda: LeastSquaresClassifier(accumulator="recursive"),
    "folds": lambda: LeastSquaresClassifier(KFold(2)),
    "priors": lambda: LeastSquaresClassifier(0.1, priors={"red": 2.0, 1: 3.0}),
    "half-life": lambda: LeastSquaresClassifier(half_life=9.0),
}
CLASSIFIERS = LINEAR | {
    "stream": StreamClassifier,
    "pipeline": lambda: HiddenLayer(5) | LeastSquaresClassifier(0.1),
    "calibrated": lambda: CalibratedClassifier(LeastSquaresClassifier(0.1)),
    "calibrated pipeline": lambda: CalibratedClassifier(
        HiddenLayer(5) | LeastSquaresClassifier(0.1)
    ),
    "drift": lambda: DriftAwareClassifier(LeastSquaresClassifier(0.1)),
    "drift of a pipeline": lambda: DriftAwareClassifier(
        HiddenLayer(5) | LeastSquaresClassifier(0.1)
    ),
    "windowed": lambda: WindowedClassifier(LeastSquaresClassifier(0.1), window=2, hop=1),
}
REGRESSORS = {
    "regressor": LeastSquaresRegressor,
    "regressor of folds": lambda: LeastSquaresRegressor(KFold(3)),
    "stream regressor": StreamRegressor,
    "regressor behind hidden units": lambda: HiddenLayer(7) | LeastSquaresRegressor(0.1),
    "several": LeastSquaresMultiTargetRegressor,
    "several of folds": lambda: LeastSquaresMultiTargetRegressor(KFold(3)),
}
MODELS = CLASSIFIERS | REGRESSORS

QUESTIONS = "predict", "predict_proba", "scores", "margin", "variance", "predict_interval"


def questions_of(model):
    """Return the methods that answer batches, by name."""
    names = [f"{name}_many" for name in QUESTIONS if hasattr(type(model), f"{name}_many")]
    if isinstance(model, compose.Pipeline):
        names = ["predict_many", "predict_proba_many", "transform_many"]
    if getattr(model, "priors", None) is not None:
        names.remove("variance_many")
    found = {name: getattr(model, name) for name in names}
    if hasattr(type(model), "predict_interval_many"):
        found["with_dist"] = functools.partial(model.predict_many, with_dist=True)
    return found


def digits_network(warm_up=2, **settings):
    """Return a small network of the preset for digits."""
    return ShallowConvClassifier.from_preset("digits", n_hidden=9, warm_up=warm_up, **settings)


class Scheduled(base.DriftDetector):
    """Alarm at given updates, counted from 1."""

    def __init__(self, alarms=()):
        super().__init__()
        self.alarms = alarms
        self.seen = []

    def update(self, x):
        self.seen.append(x)
        self._drift_detected = len(self.seen) in self.alarms
