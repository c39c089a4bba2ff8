"""What the models of dict streams have in common: columns as they come, rows learnt in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from onlinels.checks import check_not_empty, checked_assignment
from onlinels.numerics import Calls, Lock, State, Update, apply, apply_in_blocks, becoming
from onlinels.rows import Name, check_aligned, source_of
from onlinels.saving import locked_copy, locked_state, save_method
from onlinels.stream.features import Activations
from onlinels.stream.rows import Sample, StreamColumns, read_stream_batch

AHEAD = 256
"""Rows of a batch that are laid out and learnt together at most."""

SHORTEST = 4
"""Rows from which a block costs less than its rows one by one."""


class StreamModel(ABC):
    """A model of a stream of dicts, to which rows come in an order that matters."""

    _lock: Lock
    _columns: StreamColumns
    _activations: Activations
    _count: int
    label_delay: int

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
        """Learn a mini-batch row by row, as `learn_one` would, to rounding.

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
            batch = self._read_batch(X, y)
            apply_in_blocks(batch.blocks(), lambda block: batch.plan(block)[0])

    def _answered(self, X: Any, y: Any) -> tuple[Any, Self, list[Any]]:
        """Return what was read, for an answer in kind, and a copy that has learnt the batch.

        After them come the answers of all blocks of rows, each row before it is learnt.
        """
        later = self._independent()
        batch, answers = later._read_batch(X, y), []
        # What predicts a row is not what the row is learnt with, where labels are late.
        for block in batch.blocks(singly=self.label_delay > 0):
            answer = batch.answer(block) if block.stop - block.start == 1 else None
            update, answered = batch.plan(block)
            apply(update)
            answers.append(answered if answer is None else answer)
        return source_of(X), later, answers

    def _read_batch(self, X: Any, y: Any) -> StreamBatch:
        """Read a batch; raises if a row does not fit, alone or beside the others."""
        check_aligned(X, y=y)
        samples = read_stream_batch(X)
        check_not_empty("X", len(samples))
        return self._planner(samples, y)

    @abstractmethod
    def _planner(self, samples: list[Sample], y: Any) -> StreamBatch:
        """Return what learns rows; raises if one does not fit, alone or beside the others."""

    @abstractmethod
    def _independent(self) -> Self:
        """Return a copy that learns on its own, with the lock of this model."""


class StreamBatch(NamedTuple):
    """Rows of a batch as they are learnt: together, but for those that bring something new.

    Attributes
    ----------
    n_rows : int
    new : list of int
        Rows that are learnt singly, in ascending order.
    plan : callable
        Returns the update that learns a block of rows after those before it, and its answers, None
        for a single row.
    answer : callable
        Returns the answer for a block of one row before it is learnt.
    """

    n_rows: int
    new: Sequence[int]
    plan: Callable[[slice], tuple[tuple[Calls, State], Any]]
    answer: Callable[[slice], Any]

    def blocks(self, singly: bool = False) -> Iterator[slice]:
        """Return blocks of rows, in their order, of which those of one row are learnt singly."""
        if singly:
            yield from single_rows(0, self.n_rows)
            return
        start = 0
        for stop in (*self.new, self.n_rows):
            while start < stop:
                end = min(start + AHEAD, stop)
                if end - start < SHORTEST:
                    yield from single_rows(start, end)
                else:
                    yield slice(start, end)
                start = end
            if stop < self.n_rows:
                yield slice(stop, stop + 1)
                start = stop + 1


def single_rows(start: int, stop: int) -> Iterator[slice]:
    """Return slices of one row each."""
    return (slice(row, row + 1) for row in range(start, stop))


def put_in_place(model: StreamModel, later: StreamModel) -> None:
    """Let a model become its copy that has learnt more, all at once."""
    apply(Update(state=becoming(model, later)))
