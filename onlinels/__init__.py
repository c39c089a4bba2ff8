"""Exact online least squares for streams of rows and images."""

from importlib import import_module
from types import ModuleType

from onlinels.evaluate import progressive_val_score
from onlinels.features.convolution import ConvolutionalFeatures
from onlinels.features.embedding import Embedding
from onlinels.features.hidden import HiddenLayer
from onlinels.features.minirocket import MiniRocketFeatures
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.linear.ridge import KFold
from onlinels.meta import CalibratedClassifier, DriftAwareClassifier
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import difference, merge
from onlinels.saving import dumps, load, loads, save
from onlinels.stream import StreamClassifier, StreamRegressor
from onlinels.versions import show_versions
from onlinels.windowed import WindowedClassifier

__version__ = "0.2.0"

__all__ = [
    "CalibratedClassifier",
    "ConvolutionalFeatures",
    "DriftAwareClassifier",
    "Embedding",
    "HiddenLayer",
    "KFold",
    "LeastSquaresClassifier",
    "LeastSquaresMultiTargetRegressor",
    "LeastSquaresRegressor",
    "MiniRocketFeatures",
    "ShallowConvClassifier",
    "StreamClassifier",
    "StreamRegressor",
    "WindowedClassifier",
    "__version__",
    "difference",
    "dumps",
    "load",
    "loads",
    "merge",
    "progressive_val_score",
    "save",
    "show_versions",
]

LATE_SUBMODULES = ("export", "from_sums", "images", "sites")
"""Submodules that are imported when they are used."""


def __getattr__(name: str) -> ModuleType:
    if name in LATE_SUBMODULES:
        return import_module(f"onlinels.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
