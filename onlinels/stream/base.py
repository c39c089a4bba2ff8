"""What the models of dict streams have in common: columns as they come, rows learnt one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from onlinels.checks import check_not_empty, checked_assignment
from onlinels.numerics import Calls, Lock, State, apply_in_blocks
from onlinels.rows import Name, check_aligned
from onlinels.saving import locked_copy, locked_state, save_method
from onlinels.stream.features import Activations
from onlinels.stream.rows import Sample, StreamColumns, read_stream_batch


class StreamModel(ABC):
    """A model of a stream of dicts, to which rows come in an order that matters."""

    _lock: Lock
    _columns: StreamColumns
    _activations: Activations
    _count: int

    save = save_method
    __copy__ = locked_copy
    __setattr__ = checked_assignment

    def __getstate__(self) -> dict[str, Any]:
        return locked_state(self) | {"_seen": None}

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        return self._count

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a mini-batch row by row, as `learn_one` would.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels, or numbers

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        with self._lock:
            check_aligned(X, y=y)
            samples = read_stream_batch(X)
            check_not_empty("X", len(samples))
            plan = self._planner(samples, y)
            rows = (slice(row, row + 1) for row in range(len(samples)))
            apply_in_blocks(rows, lambda row: plan(row.start))

    @abstractmethod
    def _planner(self, samples: list[Sample], y: Any) -> Callable[[int], tuple[Calls, State]]:
        """Return what plans to learn a row by its number, after those before it.

        Raises if a row does not fit, alone or beside the others.
        """
