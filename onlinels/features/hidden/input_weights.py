"""Input weights that are fixed: made from examples once, and never changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

from numpy.typing import DTypeLike

from onlinels.arrays import Matrix
from onlinels.frozen import Frozen
from onlinels.names import Name
from onlinels.products import product


@dataclass(frozen=True, eq=False, repr=False)
class InputWeights(Frozen, ABC):
    """What every kind of fixed input weights has.

    Parameters
    ----------
    names : tuple
        Names of the L features, in the order in which `project` takes them.
    """

    names: tuple[Name, ...]

    @property
    @abstractmethod
    def n_hidden(self) -> int:
        """Number M of hidden units."""

    @abstractmethod
    def project(self, features: Matrix) -> Matrix:
        """Return the projections (n, n_hidden) of features (n, n_features), a new array."""

    @abstractmethod
    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same in another precision; this very object if it has it already."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)} features, {self.n_hidden} hidden units)"


@dataclass(frozen=True, eq=False, repr=False)
class FixedWeights(InputWeights):
    """Input weights as a matrix: x W + offsets.

    Parameters
    ----------
    names : tuple
        Names of the features, a row of `weights` each.
    weights : ndarray (n_features, n_hidden)
    offsets : ndarray (n_hidden,), optional
        Added to the projections.

    Notes
    -----
    ``n L M`` multiply-adds for n rows.

    Examples
    --------
    >>> import numpy as np
    >>> FixedWeights(("a", "b"), np.eye(2), np.ones(2)).project(np.array([[3.0, 5.0]]))
    array([[4., 6.]])
    """

    weights: Matrix
    offsets: Matrix | None = None

    @property
    def n_hidden(self) -> int:
        """Number M of hidden units."""
        return int(self.weights.shape[1])

    def project(self, features: Matrix) -> Matrix:
        """Return the projections (n, n_hidden) of features (n, n_features), a new array."""
        projections = product(features, self.weights)
        if self.offsets is not None:
            projections += self.offsets
        return projections

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same in another precision; this very object if it has it already."""
        if self.weights.dtype == dtype:
            return self
        offsets = None if self.offsets is None else self.offsets.astype(dtype)
        return replace(self, weights=self.weights.astype(dtype), offsets=offsets)
