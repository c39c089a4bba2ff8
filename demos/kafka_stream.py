"""Learn from a Kafka topic; model and offsets are one file, so that no row is learnt twice or lost.

Messages are JSON, {"x": {"a": 1.0, ...}, "y": "label"}, in any number of partitions. Every so many
messages the learner saves its model together with the offsets that the model has come to, in one
file of `onlinels.save`, which is there whole or not at all. It starts from the offsets in that
file, and never from those that a consumer group has committed to the broker. Killed (kill -9) at
any moment and started again, it goes on from its last save: what came after the save was forgotten
by model and offsets alike, and is delivered again. So the weights are those of a run without a kill
(bit for bit from one partition; partitions come in any order, and sums agree to rounding).

It asks of Kafka that the topic keeps messages until they are learnt. If the saved offsets are gone
the learner says so and stops, it skips nothing. One learner has one state file. A partition that is
added to the topic is found at the next start, and read from its beginning.

Without options a mock broker of librdkafka, in this process, plays Kafka, and learners are killed.
That is how this demo is tested, too: not against a broker of its own.

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
"""Messages from one save to the next, at most."""
QUIET = 0.2
"""Seconds without a message, after which the state is saved."""
PATIENCE = 10.0
"""Seconds that the broker may take for its first answer."""
KILLS = 3


def new_model() -> LeastSquaresClassifier:
    """Return what learns the topic: any model, or a pipeline that can be saved."""
    return LeastSquaresClassifier(ridge=1.0)


# -- the learner ----------------------------------------------------------------------------------


class Learner:
    """What must be on the disk together: a model, and the offsets that it has come to."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.model: Any = new_model()
        self.offsets: dict[int, int] = {}
        self.learnt = 0
        self.right = 0
        self.refused = 0
        self.last_refusal = ""

    def handle(self, partition: int, offset: int, value: bytes | None) -> None:
        """Predict and learn a message; one that the model refuses is counted and passed by."""
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
        # The broker may leave out numbers; the next one is after this message in any case.
        self.offsets[partition] = offset + 1

    def save(self, path: Path) -> None:
        """Replace the state on disk, in one piece."""
        onlinels.save(vars(self), path)

    @classmethod
    def load(cls, path: Path, topic: str) -> Self:
        """Return the learner that was saved last, or a new one.

        Raises
        ------
        ValueError
            If the file holds something else, or what was learnt from another topic.
        """
        learner = cls(topic)
        if path.exists():
            found = onlinels.load(path)
            if type(found) is not dict or found.keys() != vars(learner).keys():
                raise ValueError(f"{path} holds no state of this demo. Move it away.")
            if found["topic"] != topic:
                raise ValueError(f"{path} was learnt from the topic {found['topic']!r}. Move it.")
            vars(learner).update(found)
        return learner


class Session:
    """A learner at a topic, in one thread."""

    def __init__(self, learner: Learner, path: Path, settings: dict[str, Any], every: int) -> None:
        self.learner = learner
        self._path = path
        self._every = every
        self._unsaved = 0
        # Kafka asks for a group; it has no offsets, and no members that share its partitions.
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
        """Whether all messages are learnt, and saved, that the topic has."""
        return self._ended == self._partitions and not self._unsaved

    def step(self) -> None:
        """Wait a moment for messages, learn those that came, and save when it is time to.

        Raises
        ------
        KafkaException
            If the saved offsets are gone, or the broker gives up otherwise.
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
        """Save what was learnt since the last time, if anything."""
        if self._unsaved:
            self.learner.save(self._path)
            self._unsaved = 0

    def close(self) -> None:
        """Save and leave."""
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
    add("--learn", action="store_true", help="learn from a broker, until interrupted")
    add("--bootstrap", default="localhost:9092", help="address of a broker (%(default)s)")
    add("--topic", default="rows", help="(%(default)s)")
    add("--state", type=Path, default=Path("kafka_stream.state"), help="file (%(default)s)")
    add("--save-every", type=positive, default=SAVE_EVERY, help="messages, at most (%(default)s)")
    add("--until-end", action="store_true", help="end when all messages are learnt")
    add("--set", type=setting, action="append", default=[], help="of librdkafka: name=value")
    return parser


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def setting(text: str) -> tuple[str, str]:
    """Read a setting of librdkafka, such as security.protocol=SSL."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name, value


def learn(arguments: argparse.Namespace, console: Console) -> None:
    """Learn until a signal comes, or the end of the topic where that is asked for."""
    stopped = heed_signals()
    learner = Learner.load(arguments.state, arguments.topic)
    settings = {"bootstrap.servers": arguments.bootstrap, **dict(arguments.set)}
    session = Session(learner, arguments.state, settings, arguments.save_every)
    with console.status("") as status:
        while not stopped() and not (arguments.until_end and session.at_end):
            session.step()
            status.update(f"{learner.learnt:,} rows learnt")
    session.close()
    share = f"{learner.right / learner.learnt:.1%} predicted right" if learner.learnt else "none"
    console.print(f"{learner.learnt:,} rows learnt, {share}; {learner.refused:,} refused")
    if learner.refused:
        console.print(f"Last refused, of partition/offset {escape(learner.last_refusal)}")


def heed_signals() -> Callable[[], bool]:
    """Return what tells whether SIGINT or SIGTERM has come."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: came.append(number))
    return lambda: bool(came)


# -- without a broker -----------------------------------------------------------------------------


class MockBroker:
    """A broker of librdkafka, in this process and as long as it lives; for tests."""

    def __init__(self) -> None:
        self.producer = KafkaProducer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self.producer.list_topics(timeout=PATIENCE).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def publish(self, topic: str, rows: list[tuple[dict[str, float], Any]]) -> None:
        """Publish rows, to four partitions."""
        for number, (x, y) in enumerate(rows):
            value = json.dumps({"x": x, "y": y})
            self.producer.produce(topic, value, key=str(number))
            self.producer.poll(0)
        self.producer.flush(PATIENCE)


def kill_learners(console: Console) -> None:
    """Publish rows to a mock broker, kill learners amid them, and compare with one batch."""
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
                progress.console.print(f"Killed; {learnt(state):,} rows are on the disk")
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
