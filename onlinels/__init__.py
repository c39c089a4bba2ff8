"""Exact online least squares for streams of rows and images."""

from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.calibrated import CalibratedClassifier
from onlinels.classifier import LeastSquaresClassifier
from onlinels.features.convolution.shallow import ConvolutionalFeatures
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.multi_target import LeastSquaresMultiTargetRegressor
from onlinels.network import ShallowConvClassifier
from onlinels.regressor import LeastSquaresRegressor
from onlinels.ridge import KFold

__all__ = [
    "CalibratedClassifier",
    "ConvolutionalFeatures",
    "GramAccumulator",
    "HiddenLayer",
    "KFold",
    "LeastSquaresClassifier",
    "LeastSquaresMultiTargetRegressor",
    "LeastSquaresRegressor",
    "OrthogonalAccumulator",
    "RecursiveAccumulator",
    "ShallowConvClassifier",
]
__version__ = "0.1.0"
