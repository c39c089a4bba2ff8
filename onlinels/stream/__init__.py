"""Models of streams of dicts without hyperparameters to choose.

A file here imports only from `explain`, and from `linear` and what is below it.
"""

from onlinels.stream.classifier import StreamClassifier
from onlinels.stream.regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamRegressor"]
