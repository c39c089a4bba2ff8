"""Predict every reading, learn it when its label is there: a pure function of the messages.

Messages are JSON objects with the key of their row:

    readings     {"sensor": "shuttle-0", "number": 17, "values": {"f1": 50.0, ...}}
    labels       {"sensor": "shuttle-0", "number": 17, "label": "normal"}
    predictions  {"sensor": "shuttle-0", "number": 17, "label": "anomaly"}

A key is a sensor and a number that it never uses twice: it counts on, also after it was switched
off. A label is a text or a whole number; the prediction is null before anything is learnt.

The learner knows nothing of networks or clocks. Its whole state follows from the messages handled
so far, in their order, and duplicates change nothing but their count. So a learner that was saved,
and is handed the messages after that save again, becomes what it was.
"""

from __future__ import annotations

import json
import reprlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from river.compose import Pipeline

import onlinels
from onlinels import HiddenLayer, LeastSquaresClassifier

Key = tuple[str, int]
LabelValue = str | int

NORMAL = "normal"
"""The label of a reading without a fault; every other label is a fault."""
USUAL: dict[str, float] = {"f1": 43.0, "f3": 83.0, "f5": 42.0, "f7": 40.0}
"""What the shuttle's sensors usually read; 0 of all others."""
UNIT = 100.0
"""By how much most readings differ from the usual one, at most."""
N_HIDDEN, RIDGE = 100, 0.1
RECENT = 500
"""Rows that the recent accuracy looks back on."""
MOST_WAITING, MOST_GAPS = 10_000, 10_000
LONGEST_REFUSAL = 200
"""Characters that are kept of a refusal, which quotes what was sent."""


# -- messages -------------------------------------------------------------------------------------


class Topics:
    """Where readings and labels come from, and predictions go."""

    def __init__(self, prefix: str = "sensors") -> None:
        self.prefix = prefix
        names = "readings", "labels", "predictions"
        self.readings, self.labels, self.predictions = (f"{prefix}/{name}" for name in names)


class Reading(NamedTuple):
    """What a sensor measured."""

    key: Key
    values: dict[str, float]


class Label(NamedTuple):
    """What a reading turned out to be."""

    key: Key
    value: LabelValue


def payload_of(key: Key, **fields: Any) -> str:
    """Return the text of a message."""
    return json.dumps({"sensor": key[0], "number": key[1], **fields})


def read_message(topic: str, payload: bytes | bytearray, topics: Topics) -> Reading | Label:
    """Read a reading or a label.

    Raises
    ------
    ValueError
        If the topic is another one, or the payload is neither, whatever is in it.
    """
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a payload on {topic} is no JSON text: {error}") from error
    match fields:
        case {"sensor": str(sensor), "number": number, "label": label} if (
            topic == topics.labels and is_count(number) and type(label) in (str, int)
        ):
            return Label((sensor, number), label)
        case {"sensor": str(sensor), "number": number, "values": dict(values)} if (
            topic == topics.readings and is_count(number) and values
        ):
            return Reading((sensor, number), {n: read_number(n, v) for n, v in values.items()})
    found = f"a message on {topic} is {reprlib.repr(fields)}"
    raise ValueError(f"{found}, expected a sensor, a number, and values or a label")


def is_count(number: Any) -> bool:
    return type(number) is int and number >= 0


def read_number(name: str, value: Any) -> float:
    # No bool, and no whole number beyond all floats.
    if type(value) in (int, float) and abs(value) < float("inf"):
        with suppress(OverflowError):
            return float(value)
    raise ValueError(f"value {name!r} is {reprlib.repr(value)}, expected a finite number")


# -- each key once --------------------------------------------------------------------------------


class Numbers:
    """A set of whole numbers, kept as its ranges; the lowest gaps close when there are too many.

    Sensors count, so a stream without losses is one range, however long it is.
    """

    def __init__(self) -> None:
        self.given_up = 0
        self.first: list[int] = []
        self.last: list[int] = []

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.first, number) - 1
        return place >= 0 and number <= self.last[place]

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self.first)

    def add(self, number: int) -> None:
        """Add a number, and close the lowest gap if there are too many."""
        if number in self:
            return
        place = bisect_right(self.first, number)
        self.first.insert(place, number)
        self.last.insert(place, number)
        for gap in (place + 1, place):
            if 0 < gap < len(self) and self.last[gap - 1] + 1 == self.first[gap]:
                self._close(gap)
        if len(self) - 1 > MOST_GAPS:
            self.given_up += self.first[1] - self.last[0] - 1
            self._close(1)

    def _close(self, place: int) -> None:
        """Make one of the range at a place and the one before."""
        del self.first[place], self.last[place - 1]


class Join:
    """Join readings with the labels that come later, or earlier, or twice: each key once.

    A key is unseen, then waits (its reading came and its label did not, or the other way round),
    then is settled: both came and the row was handed out, or its reading waited too long and was
    dropped. Whatever comes for a settled key, and a second reading or label for one that waits, is
    a duplicate. Of two labels that contradict each other the first one counts.

    At most MOST_WAITING readings, and as many labels, wait; the one that has waited longest is
    dropped for a new one, and counted. A label that is dropped is forgotten, and its key unseen
    again: its reading may still come. The settled numbers of a sensor have at most MOST_GAPS gaps.
    Past these the lowest gap closes: what has not come by then counts as settled. So memory is
    bounded for each sensor.
    """

    def __init__(self) -> None:
        self.dropped = 0
        # In the order in which they came: the first one has waited longest.
        self.readings: dict[Key, Any] = {}
        self.labels: dict[Key, LabelValue] = {}
        self.settled: dict[str, Numbers] = {}

    @property
    def given_up(self) -> int:
        """Numbers that lay in gaps that were closed."""
        return sum(numbers.given_up for numbers in self.settled.values())

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
        return sensor in self.settled and number in self.settled[sensor]

    def add_reading(self, key: Key, reading: Any) -> LabelValue | None:
        """Add a new reading; return its label if that has come before, and settle the key."""
        if key in self.labels:
            self._settle(key)
            return self.labels.pop(key)
        self.readings[key] = reading
        if len(self.readings) > MOST_WAITING:
            oldest = next(iter(self.readings))
            del self.readings[oldest]
            self.dropped += 1
            self._settle(oldest)
        return None

    def add_label(self, key: Key, label: LabelValue) -> Any:
        """Add a new label; return its reading if that has come before, and settle the key."""
        if key in self.readings:
            self._settle(key)
            return self.readings.pop(key)
        self.labels[key] = label
        if len(self.labels) > MOST_WAITING:
            # Its key is not settled: its reading is still to be predicted.
            del self.labels[next(iter(self.labels))]
            self.dropped += 1
        return None

    def _settle(self, key: Key) -> None:
        sensor, number = key
        self.settled.setdefault(sensor, Numbers()).add(number)


# -- the learner ----------------------------------------------------------------------------------


def scaled(values: dict[str, float]) -> dict[str, float]:
    """Return the differences to the usual values, in the unit: the features of the model."""
    return {name: (value - USUAL.get(name, 0.0)) / UNIT for name, value in values.items()}


COUNTS = "learnt", "right", "duplicates", "refused", "last_refusal"


class Predicted(NamedTuple):
    """A reading that waits for its label, and what was predicted of it."""

    values: dict[str, float]
    label: LabelValue | None


class Learner:
    """All that must be on disk before a message may be acknowledged.

    `outbox` holds predictions until the broker has acknowledged them. It is saved with the rest, so
    that what was not sent before an end is sent after it.

    `watch` is called with every reading when it is predicted, and again, with its label, when it is
    learnt.

    The model's hidden units are agreed on, not estimated: so its weights are those of one batch of
    all rows learnt, whatever their order. tanh saturates where a sensor reads a thousand times more
    than usual.
    """

    def __init__(self) -> None:
        hidden = HiddenLayer(N_HIDDEN, activation="tanh", bias=True, seed=0)
        self.model: Pipeline = hidden | LeastSquaresClassifier(ridge=RIDGE)
        self.join = Join()
        self.outbox: dict[Key, LabelValue | None] = {}
        self.recent: deque[bool] = deque(maxlen=RECENT)
        self.learnt = 0
        self.right = 0
        self.duplicates = 0
        self.refused = 0
        self.last_refusal = ""
        self.watch: Callable[[Key, Predicted, LabelValue | None], None] = lambda *_: None

    @property
    def classifier(self) -> LeastSquaresClassifier:
        """The last step of the model."""
        last: LeastSquaresClassifier = list(self.model.steps.values())[-1]
        return last

    def handle(self, message: Reading | Label) -> Key | None:
        """Take a message in; return the key of a new prediction, which is in `outbox`.

        What the model refuses is counted: whoever raised would be sent the same message again.
        """
        try:
            if isinstance(message, Reading):
                return self._handle_reading(message)
            self._handle_label(message)
        except ValueError as error:
            self.refuse(error)
        return None

    def refuse(self, error: ValueError) -> None:
        """Count a message that nobody can learn from."""
        self.refused += 1
        self.last_refusal = str(error)[:LONGEST_REFUSAL]

    def _handle_reading(self, reading: Reading) -> Key | None:
        key = reading.key
        if not self.join.is_new_reading(key):
            self.duplicates += 1
            return None
        # First of all, as the model may refuse it.
        predicted = Predicted(reading.values, self.model.predict_one(scaled(reading.values)))
        self.outbox[key] = predicted.label
        label = self.join.add_reading(key, predicted)
        self.watch(key, predicted, None)
        if label is not None:
            self._learn(key, predicted, label)
        return key

    def _handle_label(self, label: Label) -> None:
        if not self.join.is_new_label(label.key):
            self.duplicates += 1
            return
        predicted = self.join.add_label(label.key, label.value)
        if predicted is not None:
            self._learn(label.key, predicted, label.value)

    def _learn(self, key: Key, predicted: Predicted, label: LabelValue) -> None:
        self.model.learn_one(scaled(predicted.values), label)
        self.learnt += 1
        self.right += predicted.label == label
        self.recent.append(predicted.label == label)
        self.watch(key, predicted, label)

    # One file holds the whole state: `onlinels.save` brings a new one to the disk and then puts it
    # in the place of the old one, so that model and counts are always of the same moment.

    def save(self, path: Path) -> None:
        """Replace the state on disk; when this returns, it would outlive a power cut.

        Raises
        ------
        OSError
            If it cannot be written; the old state is untouched.
        """
        join = self.join
        waiting = ([*key, each.values, each.label] for key, each in join.readings.items())
        settled = {
            sensor: [numbers.given_up, numbers.first, numbers.last]
            for sensor, numbers in join.settled.items()
        }
        state = {
            "scale": [USUAL, UNIT],
            "counts": [getattr(self, name) for name in COUNTS],
            "recent": list(self.recent),
            "outbox": [[*key, label] for key, label in self.outbox.items()],
            "dropped": join.dropped,
            "readings": list(waiting),
            "labels": [[*key, label] for key, label in join.labels.items()],
            "settled": settled,
        }
        onlinels.save({"model": self.model, "state": json.dumps(state)}, path)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Return the learner that was saved last, or None if there is none yet.

        Raises
        ------
        ValueError
            If the file holds something else.
        """
        try:
            found = onlinels.load(path)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error} Or move it away, to begin anew.") from error
        if type(found) is not dict or found.keys() != {"model", "state"}:
            kind = type(found).__name__
            raise ValueError(f"{path} holds {kind}, expected a learner's state. Move it away.")
        state = json.loads(found["state"])
        if state.get("scale") != [USUAL, UNIT]:
            raise ValueError(f"{path} was learnt with another USUAL or UNIT. Move it away.")
        learner = cls()
        learner.model = found["model"]
        for name, value in zip(COUNTS, state["counts"], strict=True):
            setattr(learner, name, value)
        learner.recent.extend(state["recent"])
        learner.outbox = {(sensor, number): label for sensor, number, label in state["outbox"]}
        join = learner.join
        join.dropped = state["dropped"]
        for sensor, number, values, label in state["readings"]:
            join.readings[sensor, number] = Predicted(values, label)
        join.labels = {(sensor, number): label for sensor, number, label in state["labels"]}
        for sensor, parts in state["settled"].items():
            numbers = join.settled[sensor] = Numbers()
            numbers.given_up, numbers.first, numbers.last = parts
        return learner
