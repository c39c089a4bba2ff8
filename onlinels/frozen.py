"""Values that are made once and never written to, so that copies may share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from onlinels.arrays import read_only


@dataclass(frozen=True, eq=False)
class Frozen:
    """A dataclass whose arrays nobody can write to, unpickled ones neither.

    It is its own deep copy. What it was made from can still be written to: pass what nobody else
    has.

    Examples
    --------
    >>> @dataclass(frozen=True, eq=False)
    ... class Pair(Frozen):
    ...     values: np.ndarray
    >>> Pair(np.ones(2)).values.flags.writeable
    False
    """

    def __post_init__(self) -> None:
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a pickled state; numpy's own does not say that an array is read-only."""
        vars(self).update(state)
        self._freeze()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the very same: nobody writes to it."""
        return self

    def _freeze(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))
