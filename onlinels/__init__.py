"""Exact online least squares for streams of rows and images."""

from onlinels.accumulators.gram import GramAccumulator
from onlinels.classifier import LeastSquaresClassifier
from onlinels.features.hidden import HiddenLayer
from onlinels.features.shallow import ConvolutionalFeatures
from onlinels.network import ShallowConvClassifier
from onlinels.ridge import KFold

__all__ = [
    "ConvolutionalFeatures",
    "GramAccumulator",
    "HiddenLayer",
    "KFold",
    "LeastSquaresClassifier",
    "ShallowConvClassifier",
]
__version__ = "0.1.0"
