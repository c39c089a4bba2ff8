"""Windows of sensors' readings that come one at a time, in the order in which a reading goes."""

from onlinels.windowed.classifier import WindowedClassifier

__all__ = ["WindowedClassifier"]
