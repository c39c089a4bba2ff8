"""What is answered for a reading: what the classifier says of the window that ends in it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
from river import base

from onlinels.labels import Label
from onlinels.names import Name
from onlinels.outputs import labels_like, table_like
from onlinels.threads import CopyableLock
from onlinels.windowed.following import Follower, ReadingState
from onlinels.windowed.readings import Readings, read_reading, read_readings
from onlinels.windowed.sliding import UNLABELLED
from onlinels.windowed.together import answers

BLOCK = 256
"""Readings that are answered together: as many windows are held at a time."""


class WindowedAnswers(base.MiniBatchClassifier):
    """The answering half of `WindowedClassifier`."""

    _alone: CopyableLock
    classifier: base.Classifier
    window: int
    timestamp: Name | None
    _follower: Follower
    _state: ReadingState

    def __getstate__(self) -> dict[str, Any]:
        with self._alone.to_look():
            return vars(self).copy()

    def _answers(self, method: str, readings: Readings, nothing: Any) -> list[Any]:
        """Return what the wrapped classifier answers for each reading, if its window is full."""
        unlabelled = [UNLABELLED] * len(readings.values)
        steps = self._follower.follow(self._state, readings, unlabelled)
        windows = (state.latest(self.window) for state, _ in steps)
        given: list[Any] = []
        while block := list(islice(windows, BLOCK)):
            given += answers(self.classifier, method, block, nothing)
        return given

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of the window that ends in a reading; None before it is full."""
        with self._alone.to_look():
            return self._answers("predict", read_reading(x, self.timestamp), None)[0]

    def predict_many(self, X: Any) -> Any:
        """Return the label of the window that ends in each reading, in the kind of `X`."""
        with self._alone.to_look():
            readings = read_readings(X, self.timestamp)
            return labels_like(readings.source, self._answers("predict", readings, None))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class; {} before the window is full."""
        with self._alone.to_look():
            table: dict[Label, float]
            (table,) = self._answers("predict_proba", read_reading(x, self.timestamp), {})
            return table

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities in the kind of `X`; in tables 0 where the window is not full."""
        with self._alone.to_look():
            readings = read_readings(X, self.timestamp)
            rows = self._answers("predict_proba", readings, {})
            if isinstance(readings.source, (list, tuple)):
                return rows
            classes = list(dict.fromkeys(label for row in rows for label in row))
            values = [[row.get(label, 0.0) for label in classes] for row in rows]
            return table_like(readings.source, classes, np.array(values).reshape(len(rows), -1))
