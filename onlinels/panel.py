"""Some columns of the upper triangle of a symmetric matrix, and how products enter them."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.linalg.blas import dgemm, dsyr2k, dsyrk

from onlinels.arrays import Floats
from onlinels.commit import Commit
from onlinels.saving.unread import ReadLater


@dataclass
class Panel(ReadLater):
    """Some columns of the upper triangle.

    Parameters
    ----------
    start : int
        The first column.
    above : ndarray (start, n), float64, Fortran order
        The rows above the diagonal block.
    corner : ndarray (n, n), float64, Fortran order
        The diagonal block, of which only the upper triangle means anything.
    """

    start: int
    above: Floats
    corner: Floats

    @property
    def columns(self) -> slice:
        """The columns in the whole matrix, reserved ones too."""
        return slice(self.start, self.start + len(self.corner))

    def add_to_corner(self, own: Floats, w: float | Floats, commit: Commit) -> None:
        """Add sum_k w_k a_k a_k' to the diagonal block, in place, when the commit is made.

        Parameters
        ----------
        own : ndarray (n, n_columns), float64
            These columns of the rows a_k, in either order.
        w : float, or ndarray (n,)
        commit : Commit
        """
        # As they lie in memory, transposed if need be, BLAS takes them without a copy.
        trans = int(own.flags.f_contiguous)
        rows = own if trans else own.T
        if isinstance(w, float):
            # By position: names cost half a microsecond. The 0 is for the upper triangle.
            commit.then(dsyrk, w, rows, 1.0, self.corner, trans, 0, 1)
            return
        # w a a' as half of a (wa)' + (wa) a'.
        weighted = rows * (w[:, None] if trans else w)
        commit.then(dsyr2k, 0.5, rows, weighted, 1.0, self.corner, trans, 0, 1)

    def add_above(self, by_column: Floats, w: float | Floats, commit: Commit) -> None:
        """Add the products of these columns with those before them, when the commit is made.

        Parameters
        ----------
        by_column : ndarray (n, size), float64, Fortran order
            The rows a_k.
        w : float, or ndarray (n,)
        commit : Commit
        """
        if not self.start:
            return
        left, own = by_column[:, : self.start], by_column[:, self.columns]
        factor, weighted = (w, own) if isinstance(w, float) else (1.0, own * w[:, None])
        commit.then(dgemm, factor, left, weighted, 1.0, self.above, trans_a=1, overwrite_c=1)
