"""Dict streams without choices, in the order in which a row goes through the modules."""

from onlinels.stream.classifier import StreamClassifier
from onlinels.stream.regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamRegressor"]
