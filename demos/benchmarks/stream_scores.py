"""Predict every row, then learn it, and score what was predicted; both are timed, no more."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from river import metrics

FLOOR = 1e-15
"""Log-loss takes no probability for less than this, nor for more than 1."""


class Scores:
    """Accuracy, Cohen's kappa and log-loss of predictions before learning.

    The label predicted is the most probable one. A model that knows no label yet is wrong, and a
    label that it does not know of has the probability `FLOOR`.
    """

    def __init__(self) -> None:
        self._n_rows = 0
        self._n_right = 0
        self._loss = 0.0
        self._kappa: Any = metrics.CohenKappa()  # type: ignore[no-untyped-call]

    def add(self, probabilities: Mapping[Any, float], label: Hashable) -> None:
        """Score one prediction."""
        predicted = max(probabilities, key=probabilities.__getitem__) if probabilities else None
        self._n_rows += 1
        self._n_right += bool(probabilities) and predicted == label
        self._kappa.update(label, predicted)
        self._loss -= math.log(_clip(probabilities.get(label, 0.0)))

    @property
    def figures(self) -> dict[str, float]:
        """The scores of all rows so far, by name."""
        return {
            "accuracy": self._n_right / self._n_rows,
            "kappa": float(self._kappa.get()),
            "log_loss": self._loss / self._n_rows,
        }


def _clip(probability: float) -> float:
    # In this order NaN counts as the floor.
    return min(max(FLOOR, probability), 1.0)


def test_then_train(model: Any, rows: Iterable[tuple[Any, Hashable]]) -> dict[str, float]:
    """Return scores, microseconds a row, and bytes of the pickled model at the end.

    Only `predict_proba_one` and `learn_one` are timed.
    """
    scores, seconds, n_rows = Scores(), 0.0, 0
    for x, label in rows:
        started = time.perf_counter()
        probabilities = model.predict_proba_one(x)
        model.learn_one(x, label)
        seconds += time.perf_counter() - started
        scores.add(probabilities, label)
        n_rows += 1
    figures = {"rows": n_rows, "microseconds": seconds / n_rows * 1e6}
    return scores.figures | figures | {"bytes": pickled_size(model)}


def pickled_size(model: Any) -> float:
    """Return the bytes of a pickled model, NaN if it cannot be pickled."""
    try:
        return len(pickle.dumps(model))
    except (AttributeError, RecursionError, TypeError, pickle.PicklingError):
        return math.nan
