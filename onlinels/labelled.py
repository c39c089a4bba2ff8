"""Least squares on labels: classes come with their first row and go with their last."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.arrays import Floats, Integers
from onlinels.balance import Balance, balancing_factors
from onlinels.decay import HalfLife
from onlinels.encoding import Batch
from onlinels.facade import LeastSquaresFacade
from onlinels.labels import Classes, Label
from onlinels.ridge import Ridge


class LabelledLeastSquares(LeastSquaresFacade):
    """Linear least squares on one-hot labels, a column per class.

    Every class is counted in rows, so that it can leave when the last of them is taken out.
    """

    def __init__(
        self,
        ridge: Ridge,
        accumulator: str,
        fit_intercept: bool,
        forgetting_factor: float,
        half_life: HalfLife,
        balance: Balance,
    ) -> None:
        super().__init__(ridge, accumulator, fit_intercept, forgetting_factor, half_life, balance)
        self.balance = balance
        self._classes = Classes()
        self._class_counts = np.zeros(0, dtype=np.int64)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order of the columns of `output_weights`."""
        return self._classes.labels

    @property
    def _outputs(self) -> tuple[Label, ...]:
        return self.classes

    def _corrected(self, output_weights: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        if self.balance != "priors":
            return output_weights, intercept
        factors = balancing_factors(self._statistics._held_squares)
        return output_weights * factors, intercept * factors

    def _scores_at_hand(self, row: Floats) -> Floats | None:
        return None if self.balance == "priors" else super()._scores_at_hand(row)

    def _gather_labelled(self, x: Any, y: Any) -> bool:
        """Gather a sample of a known class; tell whether it could be."""
        column = self._classes.column(y)
        if column is None or not self._gather(x, column):
            return False
        self._class_counts[column] += 1
        return True

    def _learn(self, batch: Batch, labels: list[Label], w: float | Floats, t: Any) -> None:
        columns, classes = self._columns.extended(batch.layouts), self._classes.extended(labels)
        targets = classes.columns(labels)
        self._learn_rows(columns, batch, targets, len(classes), w, t)
        self._classes = classes
        self._count_rows(targets, 1)

    def _unlearn(self, batch: Batch, labels: list[Label], w: float | Floats) -> None:
        targets = self._columns_to_take_from(labels)
        self._unlearn_rows(batch, targets, w)
        self._count_rows(targets, -1)
        self._drop_classes_without_rows()

    def _columns_to_take_from(self, labels: list[Label]) -> Integers:
        known = set(self.classes)
        unknown = [label for label in labels if label not in known]
        if unknown:
            raise ValueError(
                f"y holds {unknown[0]!r}, expected labels that were learnt. "
                "Take out only rows that are in."
            )
        targets = self._classes.columns(labels)
        removed = np.bincount(targets, minlength=len(known))
        if (removed > self._class_counts).any():
            column = int((removed > self._class_counts).argmax())
            raise ValueError(
                f"y holds {self.classes[column]!r} {removed[column]} times, expected at most the "
                f"{self._class_counts[column]} rows learnt. Take out only rows that are in."
            )
        return targets

    def _count_rows(self, columns: Integers, added: Any) -> None:
        """Add a number, or one for each, to the row counts of classes."""
        self._class_counts = lengthened(self._class_counts, len(self._classes))
        np.add.at(self._class_counts, columns, added)

    def _drop_classes_without_rows(self) -> None:
        # What was taken out with less weight than it had stays, and so does its class.
        kept = np.flatnonzero((self._class_counts > 0) | ~self._statistics._weightless)
        if len(kept) < len(self._classes):
            self._statistics.keep_targets(kept)
            self._classes = Classes().extended(self.classes[column] for column in kept)
            self._class_counts = self._class_counts[kept]

    def _merge(self, other: Self) -> None:
        columns = self._columns.extended(other._columns.layouts())
        classes = self._classes.extended(other.classes)
        places = classes.columns(other.classes)
        counts = other._class_counts.copy()
        self._merge_rows(other, columns, places, len(classes))
        self._classes = classes
        self._count_rows(places, counts)
