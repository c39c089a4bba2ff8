"""The MQTT demo at a real broker: killed in the middle, it becomes what it would have been."""

from __future__ import annotations

import io
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("rich")
pytest.importorskip("paho.mqtt", reason="needs paho-mqtt: pip install '.[mqtt]'")

from mqtt_learner import Learner
from mqtt_messages import Reading, Topics, read_message, write_reading
from mqtt_model import classifier_of
from mqtt_sensors import make_parser, watch
from mqtt_session import MOST_AT_ONCE, WINDOW, Session
from mqtt_simulator import labelled_rows, publish, script
from mqtt_state import load_state
from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from rich.console import Console

from mortal import CONTEXT, Death, live

SYSTEM = os.pathsep.join(["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"])
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path=SYSTEM)
pytestmark = [
    pytest.mark.skipif(MOSQUITTO is None, reason="needs a broker: apt-get install mosquitto"),
    pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX"),
]

DEMO = [sys.executable, str(Path(__file__).parents[1] / "demos" / "mqtt_sensors.py")]
PATIENCE = 60.0
TOPICS = Topics("kills")
LAST = Reading(("the end", 0), {"f1": 1.0})
"""Sent last of all; it waits for its label from then on."""

DEATHS = [
    # Handled, neither saved nor acknowledged; then with two saves behind it.
    Death("mqtt_learner:Learner.handle", 25),
    Death("mqtt_learner:Learner.handle", 105, before=True),
    # Predictions are out that the state knows nothing of.
    Death("paho.mqtt.client:Client.publish", 19),
    # The first save is of no message. The second does not begin, or ends in the middle: a file has
    # some twenty arrays.
    Death("onlinels:save", 2, before=True),
    Death("zipfile:ZipFile.open", 40),
    # The new state is written but not on the disk, or there but not in its place.
    Death("os:fsync", 3, before=True),
    Death("os:replace", 2, before=True),
    # It is in its place, on the disk or not, and nothing is acknowledged; or some messages are.
    Death("os:replace", 2),
    Death("os:fsync", 4),
    Death("paho.mqtt.client:Client.ack", 57, before=True),
    Death("paho.mqtt.client:Client.ack", 80),
]


@contextmanager
def running_broker(folder, settings="allow_anonymous true", port=0):
    """Run a broker at a free port, or at one that has become free."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
        port = free.getsockname()[1]
    conf = folder / "mosquitto.conf"
    conf.write_text(f"listener {port} 127.0.0.1\n{settings}\nmax_queued_messages 0\n")
    broker = subprocess.Popen([MOSQUITTO, "-c", str(conf)], stderr=subprocess.DEVNULL)
    try:
        while not answers(port):
            assert broker.poll() is None, "the broker does not start"
            time.sleep(0.02)
        yield port
    finally:
        broker.terminate()
        broker.wait()


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as port:
        yield port


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start lives of the demo, and end what is left of them."""
    # For the process that all of them are copies of.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    lives = []

    def begin(words, death=None):
        output = tmp_path / f"output {len(lives)}"
        life = CONTEXT.Process(target=live, args=(words, output, death))
        life.output = output
        life.start()
        lives.append(life)
        return life

    yield begin
    for life in lives:
        kill(life)


def options(port, state, topics=TOPICS):
    words = ["--port", port, "--state", state, "--client-id", state.name]
    return [str(word) for word in [*words, "--prefix", topics.prefix, "--save-every", 40]]


def wait_until(condition, lives):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for life in lives:
            assert life.exitcode is None, life.output.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(life):
    life.kill()
    life.join()


def outcome(life):
    """Return how a life ended, and all that it said, in one line."""
    life.join(PATIENCE)
    return life.exitcode, " ".join(life.output.read_text().split())


def finish(life, number=signal.SIGTERM):
    os.kill(life.pid, number)
    code, output = outcome(life)
    assert code == 0, output
    return output


def has_it_all(state):
    learner = load_state(state)
    return learner is not None and LAST.key in learner.join.readings


def listen(port, topics):
    """Return a client, and predictions by their keys, as they come."""
    found = {}

    def note(_client, _data, message):
        label = read_message(topics.labels, message.payload.replace(b"null", b'"none"'), topics)
        found.setdefault(label.key, []).append(label.value)

    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.on_message = note
    client.connect("127.0.0.1", port)
    client.subscribe(topics.predictions, qos=1)
    client.loop_start()
    return client, found


def weights_of(learner):
    classifier = classifier_of(learner.model)
    return classifier.classes, classifier.output_weights.tobytes()


def test_kills_change_no_bit(tmp_path, port, start):
    messages = script(500)
    assert len(messages) > 1000
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    client, predictions = listen(port, TOPICS)

    def learner_of(state):
        learner = start(["--learn", *options(port, state)])
        wait_until(state.exists, [learner])
        return learner

    uninterrupted = learner_of(whole)
    kill(learner_of(killed))
    publish(messages[:700], TOPICS, "127.0.0.1", port, 1000)
    for death in DEATHS:
        code, output = outcome(start(["--learn", *options(port, killed)], death))
        assert code == -signal.SIGKILL, (death, output)
    # Now while messages come in.
    learner = learner_of(killed)
    publish(messages[700:900], TOPICS, "127.0.0.1", port, 300)
    kill(learner)
    learner = learner_of(killed)
    publish([*messages[900:], LAST], TOPICS, "127.0.0.1", port, 300)
    wait_until(lambda: has_it_all(killed) and has_it_all(whole), [learner, uninterrupted])
    assert "rows learnt" in finish(learner)
    finish(uninterrupted, signal.SIGINT)
    client.disconnect()
    client.loop_stop()
    check(load_state(whole), load_state(killed), messages, predictions)


def check(whole, killed, messages, predictions):
    assert weights_of(whole) == weights_of(killed)
    assert whole.learnt == killed.learnt == len(labelled_rows(messages))
    assert classifier_of(killed.model).count == killed.learnt
    assert (whole.right, list(whole.recent)) == (killed.right, list(killed.recent))
    assert list(whole.join.readings.items()) == list(killed.join.readings.items())
    assert killed.duplicates > whole.duplicates > 0
    assert not killed.outbox
    assert killed.refused == 0
    # Two learners and all their lives said the same of every reading.
    assert set(predictions) == {each.key for each in [*messages, LAST] if isinstance(each, Reading)}
    assert all(len(set(each)) == 1 for each in predictions.values())


def test_the_demo_as_its_user_runs_it(tmp_path, port):
    words = [*options(port, tmp_path / "demo", Topics("demo")), "--rows", "400", "--rate", "60000"]
    learnt = len(labelled_rows(script(400)))
    output = run_demo(words)
    assert number(output, "Rows learnt; before this start") == learnt
    assert number(output, "Difference to batch weights") < 1e-8
    assert number(output, "Predicted right") > 80
    # Once more: all of it is known.
    output = run_demo(words)
    assert f"{learnt}; {learnt}" in output
    assert number(output, "Difference to batch weights") < 1e-8


def run_demo(words):
    done = subprocess.run([*DEMO, *words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(output, name):
    found = re.search(re.escape(name) + r"\D+?([\d.]+(?:e[+-]\d+)?)", output)
    assert found, output
    return float(found[1])


def test_what_nobody_can_learn_is_counted_and_stops_nothing(tmp_path, port, start):
    state, topics = tmp_path / "odd", Topics("odd")
    learner = start(["--learn", *options(port, state, topics)])
    wait_until(state.exists, [learner])
    client, predictions = listen(port, topics)
    for payload in ("", "[]", "{}"):
        client.publish(topics.readings, payload, qos=1)
    # Not acknowledged, as the publisher wants it, but learnt from.
    client.publish(topics.readings, write_reading(LAST), qos=0)
    wait_until(lambda: LAST.key in predictions, [learner])
    # Words that would be markup on a terminal.
    client.publish(topics.readings, '{"sensor": "[/red]", "number": -1}', qos=1)
    wait_until(lambda: load_state(state).refused == 4, [learner])
    client.disconnect()
    client.loop_stop()
    finish(learner)
    # Acknowledged all the same: the broker does not send them for ever.
    learner = start(["--learn", *options(port, state, topics)])
    publish([Reading(("later", 0), {"f1": 1.0})], topics, "127.0.0.1", port, 1000)
    wait_until(lambda: ("later", 0) in load_state(state).join.readings, [learner])
    finish(learner)
    assert load_state(state).refused == 4


def test_a_broker_that_comes_back_without_its_memory_is_noticed(tmp_path, start):
    state = tmp_path / "state"
    with running_broker(tmp_path) as port:
        learner = start(["--learn", *options(port, state)])
        wait_until(state.exists, [learner])
    later = Reading(("later", 0), {"f1": 1.0})

    def heard():
        # What comes before the learner is back goes nowhere.
        publish([later], TOPICS, "127.0.0.1", port, 1000)
        return later.key in load_state(state).join.readings

    with running_broker(tmp_path, port=port):
        wait_until(heard, [learner])
        assert "what came while it was away is lost" in finish(learner)


def test_a_cut_connection_changes_no_bit_and_nothing_is_acknowledged_on_another(port):
    messages, topics = [*script(150), LAST], Topics("cuts")
    session = Session(Learner(), pickle.dumps, topics, "cuts", window=40)
    received, strange = set(), []
    note_acknowledgements(session._client, received, strange)
    session.connect("127.0.0.1", port)
    while not session.ready:
        session.step()
    deadline, cut = time.monotonic() + PATIENCE, None
    for place in range(0, len(messages), 90):
        publish(messages[place : place + 90], topics, "127.0.0.1", port, 60_000)
        while not session._owed or session._client.socket() in (None, cut):
            assert time.monotonic() < deadline
            session.step()
        cut = session._client.socket()
        cut.shutdown(socket.SHUT_RDWR)
    while LAST.key not in session.learner.join.readings or not session.quiet_for(0.2):
        assert time.monotonic() < deadline
        session.step()
    session.close()
    whole = Learner()
    for message in messages:
        whole.handle(message)
    assert session.learner.duplicates > whole.duplicates
    assert strange == []
    assert weights_of(session.learner) == weights_of(whole)
    assert session.learner.learnt == whole.learnt == len(labelled_rows(messages))
    assert not session.learner.outbox


def note_acknowledgements(client, received, strange):
    """Note what is acknowledged that this connection has not received."""
    acknowledge, reconnect, on_message = client.ack, client.reconnect, client.on_message

    def ack(number, quality):
        strange.extend({number} - received)
        received.discard(number)
        return acknowledge(number, quality)

    def connect_again():
        received.clear()
        return reconnect()

    def receive(client, data, message):
        received.add(message.mid)
        on_message(client, data, message)

    client.ack, client.reconnect, client.on_message = ack, connect_again, receive


@pytest.mark.parametrize("part", ["--learn", "--simulate"])
def test_no_broker_is_one_sentence(tmp_path, start, part):
    with running_broker(tmp_path) as port:
        pass
    code, output = outcome(start([part, *options(port, tmp_path / "state")]))
    assert code == 2
    assert f"no broker answers at localhost:{port}. Start one: mosquitto -c" in output


def test_a_broker_that_refuses_is_an_error(tmp_path, start):
    with running_broker(tmp_path, "allow_anonymous false") as port:
        code, output = outcome(start(["--learn", *options(port, tmp_path / "state")]))
    assert code == 2
    assert "the broker refuses this client: Not authorized" in output


def test_a_second_learner_does_not_touch_the_state(tmp_path, port, start):
    words = ["--learn", *options(port, tmp_path / "state")]
    learner = start(words)
    wait_until((tmp_path / "state").exists, [learner])
    code, output = outcome(start(words))
    assert code == 2
    assert "is in use by another learner" in output
    finish(learner)


def test_a_flood_is_handled_in_parts_that_are_saved():
    saved = []
    session = Session(Learner(), lambda learner: saved.append(learner.refused), TOPICS, "flood")
    session._inbox.extend(MQTTMessage(mid) for mid in range(2 * WINDOW + 50))
    for message in session._inbox:
        message.qos = 1
    # Without a connection: nothing must be read before all is handled.
    for _ in range((2 * WINDOW + 50) // MOST_AT_ONCE):
        session.step()
        assert not session.quiet_for(0.0)
    assert saved == [WINDOW, 2 * WINDOW]
    assert session.learner.refused == 2 * WINDOW


def test_another_prefix_is_another_client_at_the_broker(port):
    for name in ("old", "new", "old"):
        session = Session(Learner(), pickle.dumps, Topics(name), "moved", known=True)
        session.connect("127.0.0.1", port)
        while not session.ready or not session.quiet_for(0.2):
            session.step()
        # Of the old prefix, while a learner with the new one is there: it waits for the old one.
        if name == "new":
            publish([LAST], Topics("old"), "127.0.0.1", port, 1000)
            for _ in range(20):
                session.step()
        session.close()
        assert session.learner.refused == 0
    assert list(session.learner.join.readings) == [LAST.key]


def test_predictions_that_are_left_are_sent_in_their_order(monkeypatch):
    session = Session(Learner(), pickle.dumps, TOPICS, "left", known=True)
    keys = [("north", number) for number in range(50)]
    session.learner.outbox = dict.fromkeys(keys)
    session._sent = {1: keys[7]}
    published = []
    monkeypatch.setattr(session, "_publish", published.append)
    reason = SimpleNamespace(is_failure=False)
    session._on_connect(session._client, None, SimpleNamespace(session_present=True), reason, None)
    assert published == [*keys[:7], *keys[8:]]


def test_notes_are_shown_in_their_order():
    notes, output = ["first", "second"], io.StringIO()
    session = SimpleNamespace(notes=notes, learner=Learner(), step=lambda: None)
    answers = iter([False, True])
    watch(session, None, lambda: next(answers), Console(file=output))
    assert "first\nsecond\n" in output.getvalue()


def test_an_end_before_the_subscription_leaves_nothing(tmp_path, start):
    state = tmp_path / "state"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        life = start(options(silent.getsockname()[1], state))
        connection, _ = silent.accept()
        with connection:
            # The request to connect, which nobody answers.
            assert connection.recv(1)
            output = finish(life)
            assert "before the broker answered" in output
            silent.settimeout(0)
            # No sensors either.
            with pytest.raises(BlockingIOError):
                silent.accept()
    assert not state.exists()


def test_ports_and_windows_have_16_bits_and_the_rest_has_not():
    read = make_parser().parse_args
    assert (read(["--rate", "70000"]).rate, read(["--rows", "70000"]).rows) == (70_000, 70_000)
    for name in ("--port", "--save-every"):
        with pytest.raises(SystemExit):
            read([name, "70000"])
    for name in ("--port", "--save-every", "--rows", "--rate"):
        with pytest.raises(SystemExit):
            read([name, "0"])


def test_damage_is_refused(tmp_path, start):
    (tmp_path / "state").write_bytes(b"damaged")
    code, output = outcome(start(["--learn", *options(1, tmp_path / "state")]))
    assert code == 2
    assert "cannot be read as a saved model: File is not a zip file" in output
    assert "move it away" in output
    assert (tmp_path / "state").read_bytes() == b"damaged"
