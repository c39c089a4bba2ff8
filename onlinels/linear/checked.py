"""Rows of a batch that are read and checked, and placed in the columns of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

from onlinels.checks import Floats, Matrix
from onlinels.rows.batch import Columns


class Targets(NamedTuple):
    """The targets of rows, read and checked.

    Attributes
    ----------
    values : ndarray (n,) of int, or (n, n_targets)
        Column of the label, or targets, of every row.
    outputs : Classes, or tuple of names
        Names of the outputs of the model, with those of the rows.
    """

    values: Matrix
    outputs: Any


class Checked(NamedTuple):
    """Rows of a batch, checked and placed in the columns of the model.

    Attributes
    ----------
    values : array or csr_array (n, n_features)
        Values of the features, with new columns of the model.
    targets : ndarray (n,) of int, or (n, n_targets) of float
        Column of the label, or targets, of every row.
    w : float or ndarray (n,)
        Weights when the rows are learnt.
    times : ndarray (n,), or None
        Times of the rows.
    columns : Columns
        Columns of the model after these rows.
    outputs : Classes, or tuple of names
        Names of the outputs of the model after these rows.
    """

    values: Any
    targets: Matrix
    w: float | Floats
    times: Floats | None
    columns: Columns
    outputs: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Number of features and of targets of the model after these rows."""
        return len(self.columns), len(self.outputs)

    def part(self, rows: slice) -> Checked:
        """Return some of the rows."""
        return self._replace(
            values=self.values[rows],
            targets=self.targets[rows],
            w=self.w if isinstance(self.w, float) else self.w[rows],
            times=None if self.times is None else self.times[rows],
        )
