"""Exact online least squares for streams of rows and images."""

from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.calibrated import CalibratedClassifier
from onlinels.classifier import LeastSquaresClassifier
from onlinels.drift import DriftAwareClassifier
from onlinels.features.convolution.minirocket import MiniRocketFeatures
from onlinels.features.convolution.nonlinearities import Power, TwoSidedRectifier, lp_pooling
from onlinels.features.convolution.shallow import ConvolutionalFeatures
from onlinels.features.convolution.windows import WindowFeatures
from onlinels.features.distortion.distortion import Distortion
from onlinels.features.filters.bank import FilterBank
from onlinels.features.filters.patches import KMeansPatches, Patches, WhitenedPatches
from onlinels.features.filters.pretrained import read_filters
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.features.hidden.receptive_fields import ReceptiveFields
from onlinels.features.preprocessing.image_whitening import ZCA
from onlinels.features.preprocessing.preprocessing import ImagePreprocessing
from onlinels.multi_target import LeastSquaresMultiTargetRegressor
from onlinels.network import ShallowConvClassifier
from onlinels.plots import plot_filters
from onlinels.regressor import LeastSquaresRegressor
from onlinels.ridge import KFold
from onlinels.states import load, save
from onlinels.stream import StreamClassifier
from onlinels.version import __version__
from onlinels.windowed import WindowedClassifier

__all__ = [
    "ZCA",
    "CalibratedClassifier",
    "ConvolutionalFeatures",
    "Distortion",
    "DriftAwareClassifier",
    "FilterBank",
    "GramAccumulator",
    "HiddenLayer",
    "ImagePreprocessing",
    "KFold",
    "KMeansPatches",
    "LeastSquaresClassifier",
    "LeastSquaresMultiTargetRegressor",
    "LeastSquaresRegressor",
    "MiniRocketFeatures",
    "OrthogonalAccumulator",
    "Patches",
    "Power",
    "ReceptiveFields",
    "RecursiveAccumulator",
    "ShallowConvClassifier",
    "StreamClassifier",
    "TwoSidedRectifier",
    "WhitenedPatches",
    "WindowFeatures",
    "WindowedClassifier",
    "__version__",
    "load",
    "lp_pooling",
    "plot_filters",
    "read_filters",
    "save",
]
