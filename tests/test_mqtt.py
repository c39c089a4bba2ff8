"""The MQTT demo: nothing is lost or doubled, killed in the middle or not."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("paho.mqtt", reason="needs paho-mqtt: pip install '.[mqtt]'")

from alarms import AlarmLog
from mqtt_sensors.__main__ import watched
from mqtt_sensors.learner import Label, Learner, Reading, Topics, read_message, scaled
from mqtt_sensors.simulator import labelled_rows, publish, script

from onlinels.explain import feature_effects
from support.killable_demo import Death, outcome, start
from support.pictures import is_drawn
from support.processes import PATIENCE, started

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
needs_broker = pytest.mark.skipif(
    MOSQUITTO is None or os.name != "posix", reason="needs a broker: apt-get install mosquitto"
)
TOPICS = Topics()
LAST = Reading(("the end", 0), {"f1": 1.0})
"""Sent last of all; it waits for its label from then on."""


def essence(learner):
    """Return what duplicates and saves must not change, weights to the last bit."""
    classifier = learner.classifier
    weights = (classifier.classes, classifier.output_weights.tobytes()) if learner.learnt else None
    waiting = list(learner.join.readings.items()), list(learner.join.labels.items())
    return weights, waiting, learner.learnt, learner.right, list(learner.recent)


KEY = b'"sensor": "a", "number": 1'
NO_MESSAGES = [
    *(b"", b"[]", b"{}", b"\xff", b"[" * 10_000, b"{%s}" % KEY),
    # As deep as JSON is read, but deeper than it is written by repr().
    *(b'{"sensor":' * depth + b"1" + b"}" * depth for depth in (100, 300, 500, 700)),
    *(b'{"sensor": %s, "number": 1, "label": "x"}' % each for each in (b"1", b"null", b"[]")),
    *(b'{"sensor": "a", "number": %s, "label": 1}' % each for each in (b"-1", b"true", b"1.0")),
    *(b'{%s, "label": %s}' % (KEY, each) for each in (b"true", b"1.5", b"null", b"{}")),
    *(b'{%s, "values": %s}' % (KEY, each) for each in (b"{}", b"[1]", b"1", b'{"f": "1"}')),
    *(b'{%s, "values": {"f": %s}}' % (KEY, each) for each in (b"NaN", b"9" * 400, b"true")),
]


def test_what_is_no_message_is_refused():
    for content in NO_MESSAGES:
        for topic in (TOPICS.readings, TOPICS.labels):
            with pytest.raises(ValueError, match=r"a (payload|message) on|value 'f' is"):
                read_message(topic, content, TOPICS)
    content = b'{%s, "values": {"f": 2}, "label": 1}' % KEY
    assert read_message(TOPICS.readings, content, TOPICS) == (("a", 1), {"f": 2.0})
    assert read_message(TOPICS.labels, content, TOPICS) == (("a", 1), 1)
    with pytest.raises(ValueError, match="a message on another is"):
        read_message("another", content, TOPICS)


def test_what_is_no_state_is_refused(tmp_path, monkeypatch):
    (tmp_path / "state").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="move it away"):
        Learner.load(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == b"damaged"
    Learner().save(tmp_path / "state")
    monkeypatch.setattr("mqtt_sensors.learner.UNIT", 1.0)
    with pytest.raises(ValueError, match="another USUAL or UNIT"):
        Learner.load(tmp_path / "state")


def test_what_waits_too_long_is_dropped_and_counted(tmp_path, monkeypatch):
    """Gaps that close count as settled, but what waits in them is learnt, after saves too."""
    monkeypatch.setattr("mqtt_sensors.learner.MOST_WAITING", 3)
    monkeypatch.setattr("mqtt_sensors.learner.MOST_GAPS", 2)
    readings = [Reading(("a", number), {"f1": 1.0}) for number in range(10)]
    labels = [Label(("a", number), "x") for number in range(10)]
    learner = Learner()
    for message in (*readings[::2], *labels[:9], readings[3], labels[9], *readings[1::2]):
        learner.handle(message)
        learner.save(tmp_path / "state")
        learner = Learner.load(tmp_path / "state")
    # Readings 0 and 2 and label 1 are dropped; the gaps at 1 and 3 close.
    assert (learner.join.dropped, learner.join.given_up) == (3, 2)
    assert (learner.learnt, learner.duplicates) == (7, 4)


def test_a_watched_learner_logs_forecasts_labels_and_the_last_alarm():
    learner, alone = Learner(), Learner()
    log = watched(learner, AlarmLog())
    messages, effects = script(1000), {}
    for message in messages:
        learner.handle(message)
        if isinstance(message, Reading) and alone.learnt:
            effects[message.key] = feature_effects(alone.model, scaled(message.values))
        alone.handle(message)
    assert essence(learner) == essence(alone)
    readings = {each.key: each.values for each in messages if isinstance(each, Reading)}
    faults = {each.key: each.value == "anomaly" for each in messages if isinstance(each, Label)}
    found = {key: each.fault for key, each in log.forecasts.items()}
    assert found == {key: faults.get(key) for key in readings}
    assert all(each.label_time >= each.time >= 0.0 for each in log.labelled())
    right = sum((each.probability >= log.threshold) == each.fault for each in log.labelled())
    # Before the first label, the learner predicts nothing, which is no alarm.
    assert 0 <= right - learner.right <= 80
    last = next(key for key in reversed(log.forecasts) if log.forecasts[key] is log.last_alarm)
    values, reasons = log.reasons
    assert values == readings[last]
    assert reasons == pytest.approx(effects[last]["anomaly"])


DEATHS = [
    Death("mqtt_sensors.learner:Learner.handle", 25),
    Death("mqtt_sensors.learner:Learner.handle", 105, before=True),
    Death("paho.mqtt.client:Client.publish", 19),
    # The second save does not begin, or is not in its place; nothing is acknowledged, or some.
    Death("onlinels:save", 2, before=True),
    Death("os:replace", 2, before=True),
    Death("os:replace", 2),
    Death("paho.mqtt.client:Client.ack", 57, before=True),
    Death("paho.mqtt.client:Client.ack", 80),
]


@contextmanager
def free_port():
    """Hold a port at which nobody listens: brokers may, which allow to use it again, as this does.

    No other process is given the port before the broker has it, or after.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("", 0))
        yield held.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running_broker(folder, port, settings="allow_anonymous true"):
    conf = folder / "mosquitto.conf"
    conf.write_text(f"listener {port} 127.0.0.1\n{settings}\nmax_queued_messages 0\n")
    with started([MOSQUITTO, "-c", str(conf)], stderr=subprocess.DEVNULL):
        wait_until(lambda: answers(port))
        yield


@pytest.fixture
def port(tmp_path):
    with free_port() as port, running_broker(tmp_path, port):
        yield port


def wait_until(condition, lives=()):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for life in lives:
            assert life.exitcode is None, life.output.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begin(port, state, *words, death=None):
    """Start the demo with a file of its state, which is also its name at the broker."""
    words += "--port", port, "--state", state, "--client-id", state.name, "--save-every", 40
    words += "--output", state.parent / "picture.png"
    return start(state.parent, "mqtt_sensors.__main__", words, death)


@needs_broker
def test_kills_lose_and_double_nothing(tmp_path, port):
    messages = script(500)
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def learner_of(state, death=None):
        return begin(port, state, "--learn", death=death)

    def send(some, rate=300):
        publish(some, TOPICS, "127.0.0.1", port, rate)

    uninterrupted, learner = learner_of(whole), learner_of(killed)
    wait_until(lambda: whole.exists() and killed.exists(), [uninterrupted, learner])
    outcome(learner, signal.SIGKILL)
    send(messages[:700], 1000)
    for death in DEATHS:
        code, output = outcome(learner_of(killed, death))
        assert code == -signal.SIGKILL, (death, output)
    learner = learner_of(killed)
    send(messages[700:900])
    outcome(learner, signal.SIGKILL)
    learner = learner_of(killed)
    send([*messages[900:], LAST])
    for state in (whole, killed):
        wait_until(
            lambda state=state: LAST.key in Learner.load(state).join.readings,
            [learner, uninterrupted],
        )
    code, output = outcome(learner, signal.SIGTERM)
    assert (code, "rows learnt" in output) == (0, True), output
    assert outcome(uninterrupted, signal.SIGINT)[0] == 0
    first, second = Learner.load(whole), Learner.load(killed)
    assert essence(first)[1:] == essence(second)[1:]
    assert second.learnt == len(labelled_rows(messages)) == second.classifier.count
    np.testing.assert_allclose(second.classifier.output_weights, first.classifier.output_weights)
    assert second.duplicates > first.duplicates > 0
    assert not second.outbox
    assert second.refused == 0


@needs_broker
def test_the_demo_as_its_user_runs_it(tmp_path, port):
    words = port, tmp_path / "demo", "--prefix", "demo", "--rows", 400, "--rate", 60000
    code, output = outcome(begin(*words))
    assert code == 0, output
    assert f"{len(labelled_rows(script(400)))}; 0" in output
    found = re.search(r"Difference to batch weights ([\d.]+e[+-]\d+)", output)
    assert float(found[1]) < 1e-8
    assert is_drawn(tmp_path / "picture.png")
    code, output = outcome(begin(*words))
    assert code == 0, output
    assert "No new reading came" in output


@needs_broker
def test_brokers_that_are_not_there_or_refuse_are_one_sentence(tmp_path):
    with free_port() as port:
        words = port, tmp_path / "state", "--learn"
        with running_broker(tmp_path, port, "allow_anonymous false"):
            refused = outcome(begin(*words))
        alone = outcome(begin(*words))
    assert (refused[0], alone[0]) == (2, 2)
    assert "the broker refuses this client: Not authorized" in refused[1]
    assert f"no broker answers at localhost:{port}. Start one: mosquitto -c" in alone[1]
