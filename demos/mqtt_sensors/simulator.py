"""Sensors of a shuttle: readings, and some rows later their labels, a few twice, early or never.

The rows are river's Statlog (Shuttle) data, which come with it: nine sensors of NASA's space
shuttle, every thirteenth row an anomaly. Faults last: the anomalies of 500 rows follow one another.
The rows are dealt to three shuttles, each with its own count. What is sent in which order depends
on the number of rows and the seed alone.
"""

from __future__ import annotations

import random
import time
from collections import deque
from operator import itemgetter

from paho.mqtt.client import Client, MQTTMessageInfo, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from river import datasets

from mqtt_sensors.learner import NORMAL, Label, LabelValue, Reading, Topics, payload_of

N_SHUTTLES = 3
LABELS = NORMAL, "anomaly"
ROWS_PER_FAULT = 500
DELAYS = 20, 80
"""Rows by which labels come later."""
EARLY_SHARE, NEVER_SHARE, TWICE_SHARE = 0.02, 0.01, 0.05
IN_FLIGHT = 100
"""Messages that may be unacknowledged."""
PATIENCE = 60.0
"""Seconds that the broker may take to acknowledge one of them."""

Message = Reading | Label
Row = tuple[dict[str, float], LabelValue]


def script(n_rows: int, seed: int = 0) -> list[Message]:
    """Return what is sent, in its order."""
    chance = random.Random(seed)  # noqa: S311, nothing secret
    sent: list[tuple[float, Message]] = []
    for place, (values, anomaly) in enumerate(recording(n_rows)):
        key = f"shuttle-{place % N_SHUTTLES}", place // N_SHUTTLES
        sent.append((place, Reading(key, {name: float(value) for name, value in values.items()})))
        at = float(place + chance.randint(*DELAYS))
        if chance.random() < EARLY_SHARE:
            at = place - 1.5
        if chance.random() >= NEVER_SHARE:
            sent.append((at, Label(key, LABELS[anomaly])))
    twice = [each for each in sent if chance.random() < TWICE_SHARE]
    sent += [(at + chance.randint(0, 2 * DELAYS[1]), message) for at, message in twice]
    return [message for _, message in sorted(sent, key=lambda each: each[0])]


def recording(n_rows: int) -> list[tuple[dict[str, float], int]]:
    """Return rows and whether they are anomalies, which come at the end of every so many rows."""
    rows = list(datasets.Shuttle().take(n_rows))
    parts = [rows[at : at + ROWS_PER_FAULT] for at in range(0, n_rows, ROWS_PER_FAULT)]
    return [row for part in parts for row in sorted(part, key=itemgetter(1))]


def labelled_rows(messages: list[Message]) -> list[Row]:
    """Return every row once, in the order of the labels, of which both parts are sent."""
    readings = {each.key: each.values for each in messages if isinstance(each, Reading)}
    labels = {each.key: each.value for each in messages if isinstance(each, Label)}
    return [(readings[key], label) for key, label in labels.items() if key in readings]


def publish(messages: list[Message], topics: Topics, host: str, port: int, rate: float) -> None:
    """Publish all messages, with so many readings a second; return when the broker has them.

    Raises
    ------
    OSError
        If no broker answers, or it stops answering.
    """
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.connect(host, port)
    client.loop_start()
    unanswered: deque[MQTTMessageInfo] = deque()
    due = time.monotonic()
    for message in messages:
        if isinstance(message, Reading):
            due += 1 / rate
            time.sleep(max(0.0, due - time.monotonic()))
            topic, payload = topics.readings, payload_of(message.key, values=message.values)
        else:
            topic, payload = topics.labels, payload_of(message.key, label=message.value)
        unanswered.append(client.publish(topic, payload, qos=1))
        if len(unanswered) > IN_FLIGHT:
            wait_for(unanswered.popleft())
    while unanswered:
        wait_for(unanswered.popleft())
    client.disconnect()
    client.loop_stop()


def wait_for(sent: MQTTMessageInfo) -> None:
    sent.wait_for_publish(PATIENCE)
    if not sent.is_published():
        raise TimeoutError(f"the broker has acknowledged nothing for {PATIENCE:.0f} seconds")
