"""The Kafka demo, against the mock broker of librdkafka: kills lose and double nothing."""

import json
import os
import re
import signal
import time

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install '.[kafka]'")

import kafka_stream
from kafka_stream import Learner, MockBroker, Session

from support.killable_demo import Death, outcome, start
from support.processes import PATIENCE

SAVE_EVERY = 40
REFUSED = [b"", b"[" * 10_000, b"[]", b"{}", b'{"x": {"a": "red"}, "y": 1}', None]


@pytest.fixture(scope="module")
def broker():
    """Run a broker in this process, as long as it lives."""
    return MockBroker()


def publish(broker, topic, n_rows, n_partitions):
    """Publish rows, and messages that are none."""
    random = np.random.default_rng(0)
    for number in range(n_rows):
        a, b = random.integers(-9, 10, 2).tolist()
        row = {"x": {"a": a, "b": b, "c": a * b}, "y": "high" if a + b > 2 else "low"}
        broker.producer.produce(topic, json.dumps(row), partition=number % n_partitions)
        if number % 50 == 0:
            value = REFUSED[number // 50 % len(REFUSED)]
            broker.producer.produce(topic, value, partition=number % n_partitions)
    broker.producer.flush(PATIENCE)


def session_of(broker, state, topic):
    settings = {"bootstrap.servers": broker.address}
    return Session(Learner.load(state, topic), state, settings, SAVE_EVERY)


def learn_to_the_end(broker, state, topic):
    session, deadline = session_of(broker, state, topic), time.monotonic() + PATIENCE
    while not session.at_end:
        assert time.monotonic() < deadline
        session.step()
    session.close()
    return session.learner


DEATHS = [
    Death("kafka_stream:Learner.handle", 45, before=True),
    # The second save is not in its place, or just is.
    Death("os:replace", 2, before=True),
    Death("os:replace", 2),
]


@pytest.mark.skipif(os.name != "posix", reason="processes are killed as on POSIX")
def test_kills_change_no_bit_of_what_one_partition_teaches(broker, tmp_path):
    publish(broker, "one", 400, 1)
    words = ["--learn", "--until-end", "--bootstrap", broker.address, "--topic", "one"]
    words += ["--state", tmp_path / "killed", "--save-every", SAVE_EVERY]
    for death in DEATHS:
        code, output = outcome(start(tmp_path, "kafka_stream", words, death))
        assert code == -signal.SIGKILL, (death, output)
    learner = learn_to_the_end(broker, tmp_path / "killed", "one")
    whole = learn_to_the_end(broker, tmp_path / "whole", "one")
    assert (whole.learnt, whole.refused, whole.offsets) == (400, 8, {0: 408})
    assert learner.learnt == 400
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_what_cannot_be_gone_on_with_is_refused(broker, tmp_path, capsys):
    state = tmp_path / "state"
    publish(broker, "few", 3, 1)
    learner = learn_to_the_end(broker, state, "few")
    # The broker has no such offset: the topic was made anew, or has been cut.
    learner.offsets[0] = 1_000
    learner.save(state)
    common = ["--learn", "--until-end", "--state", str(state), "--bootstrap", broker.address]
    (tmp_path / "text").write_text("text")
    for words, message in [
        (["--topic", "few"], "Offset out of range"),
        (["--topic", "other"], "was learnt from the topic 'few'"),
        (["--state", str(tmp_path / "text")], "cannot be read as a saved model"),
        (["--state", str(tmp_path / "new"), "--topic", "none"], "Unknown topic"),
        (["--save-every", "0"], "not a whole number of at least 1"),
    ]:
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        with pytest.raises(SystemExit) as ended:
            kafka_stream.main([*common, *words])
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(number, handler)
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
    assert Learner.load(state, "few").offsets == {0: 1_000}


@pytest.mark.slow
def test_the_demo_as_its_user_runs_it(capsys):
    kafka_stream.main([])
    output = capsys.readouterr().out
    assert output.count("Killed; ") == kafka_stream.KILLS
    assert float(re.search(r"one batch: ([\d.]+e[+-]\d+)", output)[1]) < 1e-6
