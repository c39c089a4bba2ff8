"""What classifiers and regressors do alike whatever their targets are: merge, add, explain."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from onlinels.checks import check_between, check_mergeable
from onlinels.commit import Commit
from onlinels.explain import explain
from onlinels.rows import read_sample
from onlinels.saving.files import Savable
from onlinels.threads import merged
from onlinels.uncertain import UncertainLeastSquares


class LeastSquaresFacade(UncertainLeastSquares, Savable, ABC):
    """Linear least squares whose models join; subclasses match their targets by name."""

    @property
    @abstractmethod
    def _outputs(self) -> Sequence[Any]:
        """Names of the columns of `output_weights`."""

    @abstractmethod
    def _merge(self, other: Self) -> None:
        """Add what a model of the same settings has learnt, all or nothing."""

    def merge(self, other: Self) -> Self:
        """Add what another model has learnt, in place, matching features and outputs by name.

        Parameters
        ----------
        other : model of the same kind
            A model of the same settings. It stays as it is.

        Returns
        -------
        model
            This model, as if it had learnt the rows of both. A model that has learnt nothing
            changes nothing.

        Raises
        ------
        TypeError, ValueError
            If the models' kinds or settings differ; nothing has changed then.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> a, b = LeastSquaresClassifier(), LeastSquaresClassifier()
        >>> a.learn_one({"x": 1.0}, "one")
        >>> b.learn_one({"y": 2.0}, "two")
        >>> a.merge(b).classes, a.feature_names, a.count
        (('one', 'two'), ('x', 'y'), 2)
        """
        check_mergeable(self, other)
        return merged(self, other)

    def __add__(self, other: Self) -> Self:
        """Return a new model that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    def fade(self, keep: float) -> None:
        """Multiply the weight of every row learnt so far, in place: the past counts less.

        From then on the weights solve (k A'A + c I) W = k A'Y on the rows learnt, k being what is
        kept: the batch solution on rows of k times their weights, and ridges as before.

        Parameters
        ----------
        keep : float
            From 0 to 1. At 0 this is `empty()`, in place: classes and features are forgotten too,
            so `predict_one` answers as before the first row. Otherwise they and `count` stay.

        Raises
        ------
        TypeError, ValueError
            If it is none; nothing has changed then.

        Notes
        -----
        ``M^2`` operations, and up to ``3 M^3`` in the recursive form, whose ridge is inside; it is
        c everywhere afterwards. A ridge that is selected, but not held inside, is selected anew.

        Examples
        --------
        >>> from onlinels import LeastSquaresRegressor
        >>> model = LeastSquaresRegressor(ridge=1.0, fit_intercept=False)
        >>> model.learn_one({"x": 2.0}, 4.0)
        >>> model.fade(keep=0.25)
        >>> round(model.output_weights.item(), 9), model.count
        (1.0, 1)
        """
        with self._lock:
            check_between("keep", keep, 0.0, 1.0)
            if keep == 0.0:
                commit = Commit()
                commit.then(vars(self).clear)
                # The lock stays: others may wait for it.
                commit.then(vars(self).update, vars(self.empty()) | {"_lock": self._lock})
                commit.make()
            elif keep < 1.0:
                self._fade_rows(float(keep))

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the score of every output and what the ten strongest features add to it."""
        with self._lock:
            row = read_sample(x)
            activations = self._columns.place(row.layouts, row.values)[0]
            return explain(self, self._outputs, activations)
