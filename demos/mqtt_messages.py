"""What travels: readings, labels and predictions, JSON objects with the key of their row.

    readings     {"sensor": "shuttle-0", "number": 17, "values": {"f1": 50.0, ...}}
    labels       {"sensor": "shuttle-0", "number": 17, "label": "normal"}
    predictions  {"sensor": "shuttle-0", "number": 17, "label": "anomaly"}

A key is a sensor and a number that it never uses twice: it counts on, also after it was switched
off. Whoever loses count takes another name. A label is a text or a whole number; the prediction is
null before anything is learnt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any

Key = tuple[str, int]
LabelValue = str | int


@dataclass(frozen=True)
class Topics:
    """Where readings and labels come from, and predictions go."""

    prefix: str = "sensors"

    @property
    def readings(self) -> str:
        """Return where readings come from."""
        return f"{self.prefix}/readings"

    @property
    def labels(self) -> str:
        """Return where labels come from."""
        return f"{self.prefix}/labels"

    @property
    def predictions(self) -> str:
        """Return where predictions go."""
        return f"{self.prefix}/predictions"


@dataclass(frozen=True)
class Reading:
    """What a sensor measured."""

    key: Key
    values: dict[str, float]


@dataclass(frozen=True)
class Label:
    """What a reading turned out to be."""

    key: Key
    value: LabelValue


def read_message(topic: str, payload: bytes | bytearray, topics: Topics) -> Reading | Label:
    """Read a reading or a label.

    Raises
    ------
    ValueError
        If the topic is another one, or the payload is neither, whatever is in it.
    """
    if topic not in (topics.readings, topics.labels):
        raise ValueError(f"a message on another topic, {topic!r}")
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a payload on {topic} is no JSON text: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"a payload on {topic} is {fields!r}, expected a JSON object")
    key = _read_key(fields)
    if topic == topics.readings:
        return Reading(key, _read_values(fields))
    label = fields.get("label")
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise ValueError(f"label of {key} is {label!r}, expected a text or a whole number")
    return Label(key, label)


def write_reading(reading: Reading) -> str:
    return _write(reading.key, values=reading.values)


def write_label(key: Key, label: LabelValue | None) -> str:
    """Return the payload of a label or of a prediction."""
    return _write(key, label=label)


def _write(key: Key, **fields: Any) -> str:
    return json.dumps({"sensor": key[0], "number": key[1], **fields})


def _read_key(fields: dict[str, Any]) -> Key:
    sensor, number = fields.get("sensor"), fields.get("number")
    if not isinstance(sensor, str):
        raise ValueError(f"sensor is {sensor!r}, expected a text")
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"number of {sensor!r} is {number!r}, expected a whole number, at least 0")
    return sensor, number


def _read_values(fields: dict[str, Any]) -> dict[str, float]:
    values = fields.get("values")
    if not isinstance(values, dict) or not values:
        raise ValueError(f"values are {values!r}, expected an object of numbers")
    return {name: _read_number(name, value) for name, value in values.items()}


def _read_number(name: str, value: Any) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if isfinite(number):
            return number
    raise ValueError(f"value {name!r} is {value!r}, expected a finite number")
