"""Exact online least squares for streams of rows and images."""

from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.classifier import LeastSquaresClassifier
from onlinels.features.hidden import HiddenLayer
from onlinels.features.shallow import ConvolutionalFeatures
from onlinels.network import ShallowConvClassifier

__all__ = [
    "ConvolutionalFeatures",
    "GramAccumulator",
    "HiddenLayer",
    "LeastSquaresClassifier",
    "OrthogonalAccumulator",
    "ShallowConvClassifier",
]
__version__ = "0.1.0"
