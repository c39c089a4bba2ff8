"""Models of streams of dicts without hyperparameters to choose."""

from onlinels.stream.classifier import StreamClassifier
from onlinels.stream.regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamRegressor"]
