"""Least squares on targets that are numbers: what regressors of one and of many targets share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, check_mass, check_weights
from onlinels.facade import LeastSquaresFacade
from onlinels.gathering import LONGEST
from onlinels.rows import Batch, Name, read_batch, read_sample


class RealValuedLeastSquares(LeastSquaresFacade):
    """Linear least squares on real-valued targets, the same ones in every row.

    Subclasses read targets, and say by which names those of two models match.
    """

    _target_names: tuple[Name, ...] = ()

    @property
    def _outputs(self) -> tuple[Name, ...]:
        return self._target_names

    @abstractmethod
    def _read_target(self, y: Any) -> tuple[tuple[Name, ...], Floats]:
        """Return the names of the targets of one row, in this model's order, and their values."""

    @abstractmethod
    def _read_targets(self, y: Any, n_rows: int) -> tuple[tuple[Name, ...], Floats]:
        """Return the names of the targets, in this model's order, and their values by row."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        y : number, or mapping of target names to numbers if the model has several targets
        w : float
            Weight, at least 0: learning with weight 2 equals learning twice.
        t : number or datetime, optional
            Time of the sample, for models with a `half_life`; by default one unit passes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        with self._lock:
            if type(w) is float and w == 1.0 and t is None and self._gather_with(x, y):
                return
            sample = read_sample(x)
            self._learn(sample, self._read_target(y), check_weights(w, 1), t)
            self._remember_names(sample.layouts[0])

    def _gather_with(self, x: Any, y: Any) -> bool:
        """Gather a sample of known names with its targets; tell whether it could be."""
        if self._reader is None or not self._target_names:
            return False
        _, targets = self._read_target(y)
        return bool(np.abs(targets).max() <= LONGEST) and self._gather(x, targets[0])

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch, with the same result as learning its rows one by one.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows numbers
            If the model has several targets: an array (n_rows, n_targets), frame or list of dicts.
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0; 1 by default.
        t : number or datetime, or array, series or list of n_rows of them, optional
            Times of the rows, for models with a `half_life`; by default one unit passes per row.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Notes
        -----
        Whatever is raised, an interrupt from the keyboard or a lack of memory included: nothing has
        changed, or all of it has. The same holds for everything that changes the model.
        """
        with self._lock:
            batch = read_batch(X)
            n_rows = len(batch)
            self._learn(batch, self._read_targets(y, n_rows), check_weights(w, n_rows), t)

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one sample out again; see `unlearn_many`."""
        with self._lock:
            self._unlearn(read_sample(x), self._read_target(y), check_weights(w, 1))

    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Take rows out again: the model is then as if it had never seen them.

        Features stay, without effect.

        Parameters
        ----------
        X, y
            As `learn_many` reads them.
        w : float, or array, series or list of n_rows floats, optional
            Weights as they count now: those the rows were learnt with, times what has decayed
            since. No time passes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be read, or more would be taken out than was learnt, so far as
            that shows; nothing has changed then. The orthogonal form cannot unlearn.

        Notes
        -----
        As cheap as learning. Digits are lost in proportion to how much is taken out beside what
        stays: rows that weighed 1e8 times as much as the rest leave 8 digits less.
        """
        with self._lock:
            batch = read_batch(X)
            n_rows = len(batch)
            self._unlearn(batch, self._read_targets(y, n_rows), check_weights(w, n_rows))

    def _learn(self, batch: Batch, read: Any, w: float | Floats, t: Any) -> None:
        names, targets = read
        check_mass(targets, w)
        columns = self._columns.extended(batch.layouts)
        self._learn_rows(columns, batch, targets, w, t, _target_names=names)

    def _unlearn(self, batch: Batch, read: Any, w: float | Floats) -> None:
        _, targets = read
        check_mass(targets, w)
        self._unlearn_rows(batch, targets, w)

    def _merge(self, other: Self) -> None:
        self._take_in()
        other._take_in()
        places, names = self._matched(other)
        columns = self._columns.extended(other._columns.layouts())
        self._merge_rows(other, columns, places, _target_names=names)

    def _matched(self, other: Self) -> tuple[Any, tuple[Name, ...]]:
        """Return the columns of the other model's targets here, and the targets' names."""
        return np.arange(len(self._target_names)), self._target_names
