"""Seconds by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Add up the time of stages.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> with watch.stage("waiting"):
    ...     pass
    >>> list(watch.rounded())
    ['waiting', 'all']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of what is done in this context to a stage."""
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def rounded(self) -> dict[str, float]:
        """Return the seconds of every stage, and of all together."""
        seconds = self.seconds | {"all": sum(self.seconds.values())}
        return {name: round(value, 2) for name, value in seconds.items()}
