"""LeastSquaresClassifier: exact online least squares behind river's classifier interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinels.arrays import Floats, check_mass, check_weights
from onlinels.encoding import Batch, read_batch, read_row
from onlinels.labels import Classes, Label, read_label, read_labels
from onlinels.linear import LinearLeastSquares
from onlinels.merging import check_mergeable
from onlinels.scoring import ScoringClassifier

DEBUG_FEATURES = 10
"""Features that `debug_one` shows per class."""


class LeastSquaresClassifier(LinearLeastSquares, ScoringClassifier):
    """Classify by ridge regression on one-hot labels, learnt online and exactly.

    After any sequence of `learn_one`, `learn_many` and `merge`, the output weights equal those of
    the batch solution W = (A'A + c I)^-1 A'Y on all rows learnt (equation 3 of the paper, with
    samples as rows), in any order and however the stream was cut. There is no learning rate and
    no row is kept.

    Parameters
    ----------
    ridge : float or "paper"
        The ridge c >= 0, on all features but not on the intercept; 0.0 gives the minimum-norm
        (pseudo-inverse) solution. "paper" is the heuristic (N/M)^2 min(diag(A'A)) for N classes
        and M features (sums of squares about the mean where there is an intercept). The ridge
        enters when the weights are solved, so it may be changed at any time.
    accumulator : "gram"
        What is remembered of the stream: A'A and A'Y in float64.
    fit_intercept : bool
        Whether every class has a constant, exact and without ridge (by means and co-moments).

    Notes
    -----
    Learning n rows of M features costs ``n M^2`` operations and the model takes ``8 M^2`` bytes.
    The weights are solved when they are first needed after learning, for ``M^3 / 3`` operations,
    so ask for predictions a mini-batch at a time when M is large.

    A feature that is absent from a sample counts as 0, whether it was never seen or is missing
    today. New features and new classes may come at any time; the weights are then those that
    had resulted if they had been known from the start. Order of dict keys and of frame columns
    never matters.

    `X` may be an array (n_rows, n_features), a pandas, polars or pyarrow frame, or a list of
    dicts, and answers come in kind. A dict's values are numbers or arrays: an array under "h"
    counts as the features ("h", 0), ("h", 1), … Columns of a plain array are named 0, 1, …

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LeastSquaresClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 88.79%
    """

    def __init__(
        self, ridge: float | str = "paper", accumulator: str = "gram", fit_intercept: bool = True
    ) -> None:
        super().__init__(ridge, accumulator, fit_intercept)
        self._classes = Classes()

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order of the columns of `output_weights`."""
        return self._classes.labels

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        y : hashable
            The label; new ones at any time.
        w : float
            Weight, at least 0: learning with weight 2 equals learning twice.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> model = LeastSquaresClassifier()
        >>> model.learn_one({"age": 3.0}, "young")
        >>> model.predict_one({"age": 4.0})
        'young'
        """
        layout, values = read_row(x)
        weight = check_weights(w, 1)
        self._learn(Batch(values[None], (layout,), None), [read_label(y)], weight)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn a mini-batch, with the same result as learning its rows one by one.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> model = LeastSquaresClassifier()
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
        >>> model.predict_many(np.array([[-1.0], [3.0]]))
        array(['low', 'high'], dtype='<U4')
        """
        batch = read_batch(X)
        weights = check_weights(w, len(batch.values))
        self._learn(batch, read_labels(y, len(batch.values)), weights)

    def _learn(self, batch: Batch, labels: list[Label], w: float | Floats) -> None:
        columns, classes = self._columns.extended(batch.layouts), self._classes.extended(labels)
        activations = columns.place(batch.layouts, batch.values)
        check_mass(activations, w)
        self._make_room(columns, len(classes))
        self._classes = classes
        self._statistics.update(activations, classes.columns(labels), w)

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        layout, values = read_row(x)
        return self._scores((layout,), values[None])

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        batch = read_batch(X)
        return batch.source, self._scores(batch.layouts, batch.values)

    def merge(self, other: Self) -> Self:
        """Add what another model has learnt, in place, matching features and classes by name.

        Parameters
        ----------
        other : LeastSquaresClassifier
            A model of the same settings. It stays as it is.

        Returns
        -------
        LeastSquaresClassifier
            This model, as if it had learnt the rows of both. A model that has learnt nothing
            changes nothing.

        Raises
        ------
        TypeError, ValueError
            If the models' kinds or settings differ; nothing has changed then.

        Examples
        --------
        >>> a, b = LeastSquaresClassifier(), LeastSquaresClassifier()
        >>> a.learn_one({"x": 1.0}, "one")
        >>> b.learn_one({"y": 2.0}, "two")
        >>> a.merge(b).classes, a.feature_names, a.count
        (('one', 'two'), ('x', 'y'), 2)
        """
        check_mergeable(self, other)
        columns = self._columns.extended(other._columns.layouts())
        classes = self._classes.extended(other.classes)
        places = columns.locate(other.feature_names), classes.columns(other.classes)
        placed = other._statistics.placed(*places, len(columns), len(classes))
        self._make_room(columns, len(classes))
        self._classes = classes
        self._statistics.merge(placed)
        return self

    def __add__(self, other: Self) -> Self:
        """Return a new model that has learnt the rows of both."""
        return copy.deepcopy(self).merge(other)

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the score of every class and what the ten strongest features add to it."""
        layout, values = read_row(x)
        scores = self.scores_one(x)
        activations = self._columns.place((layout,), values[None])[0]
        lines = []
        for column, (label, score) in enumerate(scores.items()):
            parts = activations * self.output_weights[:, column]
            lines.append(f"{label}: score {score:.5f}, intercept {self.intercept[column]:.5f}")
            strongest = np.argsort(-np.abs(parts), kind="stable")[:DEBUG_FEATURES]
            lines += [
                f"    {self.feature_names[feature]}: {activations[feature]:.5f} * "
                f"{self.output_weights[feature, column]:.5f} = {parts[feature]:.5f}"
                for feature in strongest
            ]
        return "\n".join(lines)
