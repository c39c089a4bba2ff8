"""From scores to labels and probabilities: the prediction half of every classifier here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base

from onlinels.arrays import Floats
from onlinels.labels import Label
from onlinels.outputs import labels_like, numbers_like, table_like
from onlinels.probabilities import probabilities_of
from onlinels.threads import CopyableLock


class ScoringClassifier(base.MiniBatchClassifier):
    """A classifier whose answers all follow from one score per class.

    Subclasses give the scores of one sample and of a batch. The label is that of the highest
    score, the first of them on a tie; probabilities are the scores projected onto the simplex (see
    `onlinels.probabilities.probabilities_of`).
    """

    _alone: CopyableLock

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    @abstractmethod
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""

    @abstractmethod
    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return the scores of one sample, (1, n_classes)."""

    @abstractmethod
    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        """Return what was read, for an answer in kind, and its scores (n, n_classes)."""

    def scores_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the raw least-squares output of every class for one sample."""
        with self._alone.lock:
            return dict(zip(self.classes, self._row_scores(x)[0].tolist(), strict=True))

    def scores_many(self, X: Any) -> Any:
        """Return the raw least-squares outputs, a column per class, in the kind of `X`."""
        with self._alone.lock:
            source, scores = self._batch_scores(X)
            return table_like(source, self.classes, scores)

    def margin_one(self, x: Mapping[Any, Any]) -> float:
        """Return by how much the highest score of one sample exceeds the next; see `margin_many`.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier(ridge=0.0)
        >>> model.learn_many([{"a": 0.0}, {"a": 1.0}], ["low", "high"])
        >>> round(model.margin_one({"a": 0.9}), 9)
        0.8
        """
        with self._alone.lock:
            return float(margins(self._row_scores(x))[0])

    def margin_many(self, X: Any) -> Any:
        """Return by how much the highest score of every row exceeds the next, in the kind of `X`.

        Of scores and not of probabilities, which do not tell apart scores that are far apart. It is
        0 while fewer than two classes are known: then nothing speaks against another label.

        Parameters
        ----------
        X : as `predict_many` takes it

        Returns
        -------
        array, series or list of n_rows floats
            At least 0, in units of a score: rows of their class have 1, others 0.
        """
        with self._alone.lock:
            source, scores = self._batch_scores(X)
            return numbers_like(source, margins(scores))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample; {} before anything is learnt."""
        with self._alone.lock:
            probabilities = probabilities_of(self._row_scores(x))
            return dict(zip(self.classes, probabilities[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`."""
        with self._alone.lock:
            source, scores = self._batch_scores(X)
            return table_like(source, self.classes, probabilities_of(scores))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of highest score for one sample; None before anything is learnt."""
        with self._alone.lock:
            (scores,) = self._row_scores(x)
            return self.classes[scores.argmax()] if scores.size else None

    def predict_many(self, X: Any) -> Any:
        """Return the label of highest score of every row, in the kind of `X`."""
        with self._alone.lock:
            source, scores = self._batch_scores(X)
            classes = self.classes
            if not classes:
                return labels_like(source, [None] * len(scores))
            return labels_like(source, [classes[column] for column in scores.argmax(axis=1)])


def margins(scores: Floats) -> Floats:
    """Return the difference of the two highest scores of every row, 0 where there are no two.

    Examples
    --------
    >>> margins(np.array([[0.1, 0.9, 0.3], [0.5, 0.2, 0.5]])).round(9)
    array([0.6, 0. ])
    """
    if scores.shape[1] < 2:
        return np.zeros(len(scores))
    highest = np.partition(scores, -2, axis=1)[:, -2:]
    differences: Floats = highest[:, 1] - highest[:, 0]
    return differences
