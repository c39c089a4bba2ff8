"""Join readings with the labels that come later, or earlier, or twice: each key once.

A key is in one of three states and moves down this list, whatever comes in what order:

    unseen
    waiting    its reading came and its label did not, or the other way round
    settled    both came, and the row was handed out; or its reading waited too long and was dropped

Whatever comes for a settled key, and a second reading or label for one that waits, is a duplicate.
Of two labels that contradict each other the first one counts.

At most `most_waiting` readings wait, and as many labels; the one that has waited longest is dropped
for a new one, and counted (`dropped`). A label that is dropped is forgotten, and its key unseen
again: its reading may still come, and is then as new as any. (So is a copy of the label: only where
labels are dropped, what comes again after a kill may change which.) Settled keys are kept as ranges
of numbers, sensor by sensor: sensors count, so a stream without losses is one range, however long
it is. A number that never comes splits a range in two. Past `most_gaps` of a sensor the lowest gap
is closed: what has not come by then counts as settled (`given_up` numbers). A bounded set of recent
keys would forget keys, and learn a late duplicate twice; a high-water mark alone would give up all
that overtakes, and all sensors for one wrong number. A gap takes 44 to 72 bytes (CPython 3.11,
numbers below 2**30), so memory is bounded for each sensor. It is not in the number of sensors: a
name, once settled, is never forgotten, and takes some 400 bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from mqtt_messages import Key, LabelValue

MOST_WAITING = 10_000
MOST_GAPS = 10_000

Payload = TypeVar("Payload")
Value = TypeVar("Value")


class Numbers:
    """A set of whole numbers, kept as its ranges; the lowest gaps close when there are too many."""

    def __init__(self, most_gaps: int = MOST_GAPS) -> None:
        self.most_gaps = most_gaps
        self.given_up = 0
        self._first: list[int] = []
        self._last: list[int] = []

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._first, number) - 1
        return place >= 0 and number <= self._last[place]

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._first)

    def parts(self) -> tuple[int, list[int], list[int]]:
        """Return the numbers given up, and the first and last ones of all ranges."""
        return self.given_up, self._first, self._last

    @classmethod
    def of(cls, most_gaps: int, parts: tuple[int, list[int], list[int]]) -> Numbers:
        """Return the set that has these parts."""
        numbers = cls(most_gaps)
        numbers.given_up, numbers._first, numbers._last = parts
        return numbers

    def add(self, number: int) -> None:
        """Add a number, and close the lowest gap if there are too many."""
        if number in self:
            return
        place = bisect_right(self._first, number)
        follows = place > 0 and self._last[place - 1] == number - 1
        precedes = place < len(self) and self._first[place] == number + 1
        if follows and precedes:
            self._close_gap(place)
        elif follows:
            self._last[place - 1] = number
        elif precedes:
            self._first[place] = number
        else:
            self._first.insert(place, number)
            self._last.insert(place, number)
        if len(self) - 1 > self.most_gaps:
            self.given_up += self._first[1] - self._last[0] - 1
            self._close_gap(1)

    def _close_gap(self, place: int) -> None:
        """Make one of the range at a place and the one before."""
        del self._first[place], self._last[place - 1]


class Join(Generic[Payload]):
    """Readings and labels that wait for each other, and the keys that are settled.

    Parameters
    ----------
    most_waiting : int
        How many readings, and how many labels, may wait.
    most_gaps : int
        How many gaps the settled numbers of a sensor may have.
    """

    def __init__(self, most_waiting: int = MOST_WAITING, most_gaps: int = MOST_GAPS) -> None:
        self.most_waiting = most_waiting
        self.most_gaps = most_gaps
        self.dropped = 0
        # In the order in which they came: the first one has waited longest.
        self.readings: dict[Key, Payload] = {}
        self.labels: dict[Key, LabelValue] = {}
        self._settled: dict[str, Numbers] = {}

    def parts(self, plain: Callable[[dict[Key, Payload]], Any]) -> dict[str, Any]:
        """Return all of it in plain values, given a function that makes such of readings."""
        return {
            "most_waiting": self.most_waiting,
            "most_gaps": self.most_gaps,
            "dropped": self.dropped,
            "readings": plain(self.readings),
            "labels": self.labels,
            "settled": {sensor: numbers.parts() for sensor, numbers in self._settled.items()},
        }

    @classmethod
    def of(
        cls, parts: dict[str, Any], readings: Callable[[Any], dict[Key, Payload]]
    ) -> Join[Payload]:
        """Return the join that has these parts, given a function that makes readings of theirs."""
        join = cls(parts["most_waiting"], parts["most_gaps"])
        join.dropped, join.labels = parts["dropped"], parts["labels"]
        join.readings = readings(parts["readings"])
        for sensor, numbers in parts["settled"].items():
            join._settled[sensor] = Numbers.of(join.most_gaps, numbers)
        return join

    @property
    def given_up(self) -> int:
        """Numbers that lay in gaps that were closed."""
        return sum(numbers.given_up for numbers in self._settled.values())

    def is_new_reading(self, key: Key) -> bool:
        """Return whether a reading with this key is no duplicate."""
        # What waits comes first: its gap may have been closed in the meantime.
        return key in self.labels or not (key in self.readings or self.is_settled(key))

    def is_new_label(self, key: Key) -> bool:
        """Return whether a label with this key is no duplicate."""
        return key in self.readings or not (key in self.labels or self.is_settled(key))

    def is_settled(self, key: Key) -> bool:
        """Return whether the row was handed out, dropped or given up."""
        sensor, number = key
        return sensor in self._settled and number in self._settled[sensor]

    def add_reading(self, key: Key, reading: Payload) -> LabelValue | None:
        """Add a new reading; return its label if that has come before, and settle the key."""
        if key in self.labels:
            self._settle(key)
            return self.labels.pop(key)
        dropped = self._add(self.readings, key, reading)
        if dropped is not None:
            self._settle(dropped)
        return None

    def add_label(self, key: Key, label: LabelValue) -> Payload | None:
        """Add a new label; return its reading if that has come before, and settle the key."""
        if key in self.readings:
            self._settle(key)
            return self.readings.pop(key)
        # If that drops one, its key is not settled: its reading is still to be predicted.
        self._add(self.labels, key, label)
        return None

    def _add(self, waiting: dict[Key, Value], key: Key, value: Value) -> Key | None:
        """Let one more wait; return the key of the one that is dropped for it."""
        waiting[key] = value
        if len(waiting) <= self.most_waiting:
            return None
        oldest = next(iter(waiting))
        del waiting[oldest]
        self.dropped += 1
        return oldest

    def _settle(self, key: Key) -> None:
        sensor, number = key
        self._settled.setdefault(sensor, Numbers(self.most_gaps)).add(number)
