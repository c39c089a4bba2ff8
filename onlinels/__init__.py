"""Exact online least squares for streams of rows and images."""

import onlinels.export
import onlinels.from_sums  # noqa: F401
from onlinels.evaluate import ProgressiveScore, progressive_val_score
from onlinels.features.embedding import Embedding
from onlinels.features.filters import Patches
from onlinels.features.hidden import HiddenLayer
from onlinels.features.minirocket import MiniRocketFeatures
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.features.transformers import ConvolutionalFeatures
from onlinels.linalg.selection import KFold
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import merge, unlearn_many, unlearn_one
from onlinels.plots import plot_filters
from onlinels.saving import dumps, load, loads, save
from onlinels.stream import StreamClassifier, StreamRegressor
from onlinels.windowed import WindowedClassifier, windows_of
from onlinels.wrappers import CalibratedClassifier, DriftAwareClassifier

__version__ = "0.2.0"

__all__ = [
    "CalibratedClassifier",
    "ConvolutionalFeatures",
    "DriftAwareClassifier",
    "Embedding",
    "HiddenLayer",
    "ImagePreprocessing",
    "KFold",
    "LeastSquaresClassifier",
    "LeastSquaresMultiTargetRegressor",
    "LeastSquaresRegressor",
    "MiniRocketFeatures",
    "Patches",
    "ProgressiveScore",
    "ShallowConvClassifier",
    "StreamClassifier",
    "StreamRegressor",
    "WindowedClassifier",
    "__version__",
    "dumps",
    "load",
    "loads",
    "merge",
    "plot_filters",
    "progressive_val_score",
    "save",
    "unlearn_many",
    "unlearn_one",
    "windows_of",
]
