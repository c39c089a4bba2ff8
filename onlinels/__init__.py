"""Exact online least squares for streams of rows and images."""

from onlinels.accumulators.gram import GramAccumulator
from onlinels.calibrated import CalibratedClassifier
from onlinels.classifier import LeastSquaresClassifier
from onlinels.features.hidden import HiddenLayer
from onlinels.features.shallow import ConvolutionalFeatures
from onlinels.network import ShallowConvClassifier

__all__ = [
    "CalibratedClassifier",
    "ConvolutionalFeatures",
    "GramAccumulator",
    "HiddenLayer",
    "LeastSquaresClassifier",
    "ShallowConvClassifier",
]
__version__ = "0.1.0"
