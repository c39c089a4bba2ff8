"""Learn from a Kafka topic without losing or repeating a row, even after kill -9.

Messages are JSON, {"x": {"a": 1.0, ...}, "y": "label"}, in any number of partitions. After some
number of messages, the learner saves its model and the offsets of the next messages to one file.
`onlinels.save` writes the file completely or not at all. The learner starts from the offsets in
this file, never from offsets that a consumer group has committed to the broker. After a kill
(kill -9) at any moment, it continues from its last save: both the model and the offsets are those
of the save, so Kafka delivers the later messages again. The weights therefore equal those of a run
without a kill (bit for bit with one partition; up to rounding with several, which arrive in any
order).

The topic must keep messages until they are learnt. If the saved offsets no longer exist, the
learner reports an error and stops; it never skips messages. Each learner needs its own state file.
After a restart, the learner finds new partitions of the topic and reads them from the beginning.

Without options, the demo starts a mock broker of librdkafka in its own process and kills learners.
The tests use the mock broker, too, not a Kafka broker.

python demos/kafka_stream.py                                               # some 15 seconds
python demos/kafka_stream.py --learn --bootstrap localhost:9092 --topic rows  # until interrupted
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as KafkaProducer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from river.datasets import ImageSegments

import onlinels
from onlinels import LeastSquaresClassifier

SAVE_EVERY = 200
"""Largest number of messages between two saves."""
QUIET = 0.2
"""Seconds without a message after which the learner saves its state."""
PATIENCE = 10.0
"""Longest time for the first answer of the broker, in seconds."""
KILLS = 3


def new_model() -> LeastSquaresClassifier:
    """Return the model that learns the topic: any model or pipeline that can be saved."""
    return LeastSquaresClassifier(ridge=1.0)


# -- the learner ----------------------------------------------------------------------------------


class Learner:
    """The state that is saved as one file: a model, and the offsets of the next messages."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.model: Any = new_model()
        self.offsets: dict[int, int] = {}
        self.learnt = 0
        self.right = 0
        self.refused = 0
        self.last_refusal = ""

    def handle(self, partition: int, offset: int, value: bytes | None) -> None:
        """Predict and learn a message; count and skip a message that the model rejects."""
        try:
            if value is None:
                raise ValueError("a message without a value")
            row = json.loads(value)
            x, y = row["x"], row["y"]
            predicted = self.model.predict_one(x)
            self.model.learn_one(x, y)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            self.refused += 1
            self.last_refusal = f"{partition}/{offset}: {error!r}"[:200]
        else:
            self.learnt += 1
            self.right += predicted == y
        # The broker may skip offsets; the next offset is after this message in any case.
        self.offsets[partition] = offset + 1

    def save(self, path: Path) -> None:
        """Replace the state on disk, completely or not at all."""
        onlinels.save(vars(self), path)

    @classmethod
    def load(cls, path: Path, topic: str) -> Self:
        """Return the saved learner, or a new learner if the file does not exist.

        Raises
        ------
        ValueError
            If the file contains other data, or a learner of another topic.
        """
        learner = cls(topic)
        if path.exists():
            found = onlinels.load(path)
            if type(found) is not dict or found.keys() != vars(learner).keys():
                raise ValueError(f"{path} is not a state file of this demo. Move it away.")
            if found["topic"] != topic:
                raise ValueError(f"{path} was learnt from the topic {found['topic']!r}. Move it.")
            vars(learner).update(found)
        return learner


class Session:
    """A learner that reads a topic, in one thread."""

    def __init__(self, learner: Learner, path: Path, settings: dict[str, Any], every: int) -> None:
        self.learner = learner
        self._path = path
        self._every = every
        self._unsaved = 0
        # Kafka requires a group. It has no offsets, and no members that share partitions.
        own = {
            "group.id": "onlinels",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        self._consumer = Consumer({"log_level": 0, **settings, **own})
        self._partitions = self._find()
        places = [
            TopicPartition(learner.topic, each, learner.offsets.get(each, OFFSET_BEGINNING))
            for each in self._partitions
        ]
        self._ended: set[int] = set()
        self._consumer.assign(places)

    @property
    def at_end(self) -> bool:
        """Whether all messages of the topic are learnt and saved."""
        return self._ended == self._partitions and not self._unsaved

    def step(self) -> None:
        """Wait shortly for messages, learn the new messages, and save when a save is due.

        Raises
        ------
        KafkaException
            If the saved offsets no longer exist, or the broker reports a fatal error.
        OSError
            If the state cannot be saved.
        """
        messages: list[Any] = self._consumer.consume(self._every, QUIET)
        for message in messages:
            error, partition = message.error(), message.partition()
            if error is None:
                self._ended.discard(partition)
                self.learner.handle(partition, message.offset(), message.value())
                self._unsaved += 1
                if self._unsaved >= self._every:
                    self.save()
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(partition)
            elif not error.retriable():
                raise KafkaException(error)
        if not messages:
            self.save()

    def save(self) -> None:
        """Save the state if messages were learnt since the last save."""
        if self._unsaved:
            self.learner.save(self._path)
            self._unsaved = 0

    def close(self) -> None:
        """Save and close the consumer."""
        self.save()
        self._consumer.close()

    def _find(self) -> set[int]:
        """Return the partitions of the topic."""
        found = self._consumer.list_topics(self.learner.topic, timeout=PATIENCE)
        topic = found.topics[self.learner.topic]
        if topic.error is not None:
            raise KafkaException(topic.error)
        return set(topic.partitions)


# -- the command ----------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> None:
    parser = parser_of_options()
    arguments = parser.parse_args(argv)
    try:
        if arguments.learn:
            learn(arguments, Console())
        else:
            kill_learners(Console())
    except KafkaException as error:
        parser.error(f"{arguments.bootstrap}, topic {arguments.topic!r}: {error.args[0].str()}")
    except (OSError, ValueError) as error:
        parser.error(str(error))


def parser_of_options() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--learn", action="store_true", help="learn from a broker until interrupted")
    add("--bootstrap", default="localhost:9092", help="address of a broker (%(default)s)")
    add("--topic", default="rows", help="topic with the messages (%(default)s)")
    add("--state", type=Path, default=Path("kafka_stream.state"), help="state file (%(default)s)")
    add("--save-every", type=positive, default=SAVE_EVERY, help="messages per save (%(default)s)")
    add("--until-end", action="store_true", help="stop when all messages are learnt")
    add("--set", type=setting, action="append", default=[], help="of librdkafka: name=value")
    return parser


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def setting(text: str) -> tuple[str, str]:
    """Read a setting of librdkafka, such as security.protocol=SSL."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name, value


def learn(arguments: argparse.Namespace, console: Console) -> None:
    """Learn until a signal arrives or, with --until-end, until the end of the topic."""
    stopped = heed_signals()
    learner = Learner.load(arguments.state, arguments.topic)
    settings = {"bootstrap.servers": arguments.bootstrap, **dict(arguments.set)}
    session = Session(learner, arguments.state, settings, arguments.save_every)
    with console.status("") as status:
        while not stopped() and not (arguments.until_end and session.at_end):
            session.step()
            status.update(f"{learner.learnt:,} rows learnt")
    session.close()
    share = f"{learner.right / learner.learnt:.1%} correct" if learner.learnt else "none"
    console.print(f"{learner.learnt:,} rows learnt, {share}; {learner.refused:,} rejected")
    if learner.refused:
        console.print(f"Last rejected message, partition/offset {escape(learner.last_refusal)}")


def heed_signals() -> Callable[[], bool]:
    """Return a function that tells whether SIGINT or SIGTERM has arrived."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: came.append(number))
    return lambda: bool(came)


# -- without a broker -----------------------------------------------------------------------------


class MockBroker:
    """A mock broker of librdkafka that lives in this process; for tests."""

    def __init__(self) -> None:
        self.producer = KafkaProducer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self.producer.list_topics(timeout=PATIENCE).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def publish(self, topic: str, rows: list[tuple[dict[str, float], Any]]) -> None:
        """Publish rows to four partitions."""
        for number, (x, y) in enumerate(rows):
            value = json.dumps({"x": x, "y": y})
            self.producer.produce(topic, value, key=str(number))
            self.producer.poll(0)
        self.producer.flush(PATIENCE)


def kill_learners(console: Console) -> None:
    """Publish rows to a mock broker, kill learners, and compare the weights with one batch."""
    broker, rows = MockBroker(), list(ImageSegments())  # type: ignore[no-untyped-call]
    broker.publish("rows", rows)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "kafka_stream.state"
        words = ["--learn", "--until-end", "--bootstrap", broker.address, "--state", str(state)]
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=len(rows))
            for number in range(1, KILLS + 1):
                last = number * len(rows) // (KILLS + 1)
                command = [sys.executable, __file__, *words]
                with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603
                    while process.poll() is None and learnt(state) < last:
                        time.sleep(0.01)
                    process.kill()
                progress.console.print(f"Killed; {learnt(state):,} rows are saved")
                progress.update(bar, completed=learnt(state))
            subprocess.run([sys.executable, __file__, *words], check=True)  # noqa: S603
            progress.update(bar, completed=learnt(state))
        learner = Learner.load(state, "rows")
    whole = new_model()
    whole.learn_many([x for x, _ in rows], [y for _, y in rows])
    order = [learner.model.classes.index(each) for each in whole.classes]
    online, batch = learner.model.output_weights[:, order], whole.output_weights
    difference = np.abs(online - batch).max() / np.abs(batch).max()
    console.print(f"Largest difference to the weights of one batch: {difference:.1e}")


def learnt(state: Path) -> int:
    """Return how many rows the state on disk has learnt."""
    return Learner.load(state, "rows").learnt


if __name__ == "__main__":
    main()
