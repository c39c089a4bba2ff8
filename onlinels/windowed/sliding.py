"""The window that slides over evenly spaced samples, and the label that it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onlinels.arrays import Floats
from onlinels.labels import Label


class _Unlabelled:
    """The label of samples that have none; None can be a label."""

    def __repr__(self) -> str:
        return "UNLABELLED"

    def __reduce__(self) -> str:
        return "UNLABELLED"


UNLABELLED = _Unlabelled()


def _last(labels: Sequence[Label]) -> Label:
    return labels[-1]


def _majority(labels: Sequence[Label]) -> Label:
    # The most frequent, on a tie the one that came last: counters keep the order of arrival.
    return Counter(reversed(labels)).most_common(1)[0][0]


def _unanimous(labels: Sequence[Label]) -> Label:
    return labels[-1] if all(label == labels[-1] for label in labels) else UNLABELLED


LABEL_RULES: dict[str, Callable[[Sequence[Label]], Label]] = {
    "last": _last,
    "majority": _majority,
    "unanimous": _unanimous,
}
"""From the labels of a window's samples to its own; samples without a label count as one class."""


@dataclass(frozen=True, eq=False)
class Sliding:
    """The last samples of a stream, which may not fill a window yet. Values never change.

    Parameters
    ----------
    values : ndarray (n_samples, n_channels)
    labels : tuple of n_samples labels
    since : int, optional
        Samples since the last window that was learnt; None before the first of the stream, or of
        what came after a gap.

    Examples
    --------
    >>> sliding = Sliding.begin(1)
    >>> for value in (1.0, 2.0, 3.0):
    ...     sliding = sliding.followed_by(np.array([value]), "walk", window=2)
    >>> sliding.values.ravel(), sliding.is_due(window=2, hop=5)
    (array([2., 3.]), True)
    >>> sliding.learnt().is_due(window=2, hop=5)
    False
    """

    values: Floats
    labels: tuple[Label, ...]
    since: int | None = None

    @classmethod
    def begin(cls, n_channels: int) -> Sliding:
        """Return the window before the first sample."""
        return cls(np.empty((0, n_channels)), ())

    def followed_by(self, sample: Floats, label: Label, window: int) -> Sliding:
        """Return the window, of `window` samples at most, after one more sample (n_channels,)."""
        values = np.concatenate([self.values, sample[None]])[-window:]
        since = None if self.since is None else self.since + 1
        return Sliding(values, (*self.labels, label)[-window:], since)

    def learnt(self) -> Sliding:
        """Return the same window, from which the samples to the next one count."""
        return replace(self, since=0)

    def is_due(self, window: int, hop: int) -> bool:
        """Tell whether this window is full, and the first or `hop` samples on from the last."""
        return len(self.values) >= window and (self.since is None or self.since >= hop)
