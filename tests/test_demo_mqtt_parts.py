"""The parts of the MQTT demo that need no broker: joining, learning, saving, reading messages."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mqtt_join import Join, Numbers
from mqtt_learner import Learner
from mqtt_messages import Label, Reading, Topics, read_message, write_label, write_reading
from mqtt_model import classifier_of
from mqtt_state import load_state, locked, save_state

import onlinels
from strategies import deliveries

TOPICS = Topics("plant")


def message_of(delivery):
    kind, key = delivery
    sensor, number = key
    value = 100.0 * math.sin(number) + (sensor == "south")
    if kind == "label":
        return Label(key, ["low", "high"][value > 0])
    return Reading(key, {"heat": value, "speed": float(number)})


def keys_of(sent, kind):
    return {key for each, key in sent if each == kind}


def essence(learner):
    """Return what duplicates must not change, weights to the last bit."""
    classifier = classifier_of(learner.model)
    weights = (classifier.classes, classifier.output_weights.tobytes()) if learner.learnt else None
    waiting = list(learner.join.readings.items()), list(learner.join.labels.items())
    return weights, waiting, learner.learnt, learner.right, list(learner.recent)


# -- numbers ----------------------------------------------------------------------------------


@given(numbers=st.lists(st.integers(0, 40)))
def test_numbers_are_a_set_in_as_few_ranges_as_it_has(numbers):
    ranges = Numbers()
    for number in numbers:
        ranges.add(number)
    held = set(numbers)
    assert {number for number in range(-1, 42) if number in ranges} == held
    assert len(ranges) == sum(number - 1 not in held for number in held)
    assert ranges.given_up == 0


@given(numbers=st.lists(st.integers(0, 200)), most_gaps=st.integers(0, 4))
def test_numbers_of_bounded_gaps_forget_nothing(numbers, most_gaps):
    ranges = Numbers(most_gaps)
    for number in numbers:
        ranges.add(number)
        assert len(ranges) <= most_gaps + 1
    filled = {number for number in range(202) if number in ranges}
    assert set(numbers) <= filled
    # A number that was given up may still come, and is a duplicate then.
    assert ranges.given_up >= len(filled - set(numbers))


# -- joining ----------------------------------------------------------------------------------


def settle(join, sent):
    """Return the keys of the rows that the join hands out."""
    rows = []
    for kind, key in sent:
        if kind == "reading" and join.is_new_reading(key):
            found = join.add_reading(key, key)
            assert found in (None, f"label of {key}")
        elif kind == "label" and join.is_new_label(key):
            found = join.add_label(key, f"label of {key}")
            assert found in (None, key)
        else:
            found = None
        rows += [key] if found is not None else []
    return rows


@given(sent=deliveries())
def test_rows_are_joined_once_and_none_is_missing(sent):
    join = Join()
    rows = settle(join, sent)
    readings, labels = keys_of(sent, "reading"), keys_of(sent, "label")
    assert len(rows) == len(set(rows))
    assert set(rows) == readings & labels
    assert set(join.readings) == readings - labels
    assert set(join.labels) == labels - readings
    assert join.dropped == join.given_up == 0
    # Once more, all of it: nothing new.
    assert settle(join, sent) == []


@given(sent=deliveries(), most_waiting=st.integers(0, 4), most_gaps=st.integers(0, 4))
def test_bounds_hold_and_what_is_lost_is_counted(sent, most_waiting, most_gaps):
    join = Join(most_waiting, most_gaps)
    rows = settle(join, sent)
    assert max(len(join.readings), len(join.labels)) <= most_waiting
    assert len(rows) == len(set(rows))
    possible = keys_of(sent, "reading") & keys_of(sent, "label")
    lost = possible - set(rows)
    assert set(rows) <= possible
    assert len(lost) <= join.dropped + join.given_up
    assert not set(rows) & (set(join.readings) | set(join.labels))


def test_the_one_that_has_waited_longest_is_dropped():
    join = Join(most_waiting=2)
    for number in (5, 3, 4):
        join.add_reading(("north", number), "values")
    assert [number for _, number in join.readings] == [3, 4]
    assert join.dropped == 1
    assert not join.is_new_label(("north", 5))
    assert join.add_label(("north", 3), "low") == "values"


def test_a_label_that_is_dropped_takes_no_reading_with_it():
    join = Join(most_waiting=1)
    for number in (5, 6):
        join.add_label(("north", number), "low")
    assert (list(join.labels), join.dropped) == ([("north", 6)], 1)
    assert join.is_new_reading(("north", 5))
    assert join.add_reading(("north", 5), "values") is None
    # Its label may come twice, and counts once.
    assert join.add_label(("north", 5), "low") == "values"
    assert not join.is_new_label(("north", 5))
    assert not join.is_new_reading(("north", 5))


def test_what_waits_in_a_gap_that_closes_is_still_joined():
    join = Join(most_gaps=0)
    assert settle(join, [("reading", ("north", 1))]) == []
    both = [(kind, ("north", number)) for number in (0, 2) for kind in ("reading", "label")]
    assert settle(join, both) == [("north", 0), ("north", 2)]
    assert settle(join, [("reading", ("north", 1))]) == []
    assert settle(join, [("label", ("north", 1))] * 2) == [("north", 1)]


def test_one_wrong_number_closes_nothing():
    join = Join()
    assert len(settle(join, [(kind, ("n", 10**15)) for kind in ("reading", "label")])) == 1
    right = [(kind, ("n", number)) for number in range(50) for kind in ("reading", "label")]
    assert len(settle(join, right)) == 50


# -- learning ---------------------------------------------------------------------------------


def learn(learner, sent):
    for delivery in sent:
        learner.handle(message_of(delivery))
    return learner


@st.composite
def lives(draw, n_messages):
    """Draw processes that die: each handles, saves and acknowledges so many messages at most."""
    steps = st.integers(0, n_messages)
    each = st.lists(st.tuples(steps, steps), max_size=3)
    return draw(st.lists(st.tuples(each, steps), max_size=4))


def survive(sent, processes, disk):
    """Return what is on disk after processes that die and one that does not.

    A process has `saves`, each after so many messages more, of which it then acknowledges so many
    (a save whose acknowledgements all get lost, among them), and `unsaved`, handled last.
    """
    save_state(disk, Learner())
    acknowledged = 0
    for saves, unsaved in processes:
        learner = load_state(disk)
        handled = acknowledged
        for more, answered in saves:
            learn(learner, sent[handled : handled + more])
            handled = min(handled + more, len(sent))
            save_state(disk, learner)
            acknowledged = min(acknowledged + answered, handled)
            if acknowledged < handled:
                # It died while it acknowledged.
                break
        else:
            learn(learner, sent[handled : handled + unsaved])
    return learn(load_state(disk), sent[acknowledged:])


@given(sent=deliveries(), data=st.data())
@settings(max_examples=60)
def test_kills_at_any_moment_change_no_bit(sent, data):
    processes = data.draw(lives(len(sent)))
    whole = learn(Learner(), sent)
    with tempfile.TemporaryDirectory() as folder:
        survived = survive(sent, processes, Path(folder) / "state")
    assert essence(survived) == essence(whole)
    assert survived.duplicates >= whole.duplicates
    both = keys_of(sent, "reading") & keys_of(sent, "label")
    assert whole.learnt == len(both) == (classifier_of(whole.model).count if both else 0)
    assert set(survived.outbox) == keys_of(sent, "reading")


@pytest.mark.parametrize("size", [3, 10])
def test_saving_between_labels_in_a_row_changes_no_bit(tmp_path, size):
    starts = range(0, 210, size)
    keys = [[("north", start + place) for place in range(size)] for start in starts]
    sent = [(kind, key) for block in keys for kind in ("reading", "label") for key in block]
    saved = Learner()
    for place, delivery in enumerate(sent):
        saved.handle(message_of(delivery))
        if place % 5 == 0:
            save_state(tmp_path / "state", saved)
    assert saved.learnt == 210
    assert essence(saved) == essence(learn(Learner(), sent))


@given(sent=deliveries(), random=st.randoms())
@settings(max_examples=30)
def test_another_order_changes_rounding_only(sent, random):
    one = learn(Learner(), sent)
    other = learn(Learner(), random.sample(sent, len(sent)))
    assert one.learnt == other.learnt
    if one.learnt:
        first, second = classifier_of(one.model), classifier_of(other.model)
        columns = [second.classes.index(each) for each in first.classes]
        difference = first.output_weights - second.output_weights[:, columns]
        assert np.abs(difference).max() < 1e-9 * max(1.0, np.abs(first.output_weights).max())


def test_what_the_model_refuses_is_counted_and_the_rest_is_learnt():
    learner = Learner()
    assert learner.handle(Reading(("north", 0), {"heat": 1e308, "speed": -1e308})) in (
        None,
        ("north", 0),
    )
    learner = Learner()
    learner.model = Refusing()
    assert learner.handle(Reading(("north", 1), {"heat": 1.0})) is None
    assert (learner.refused, learner.last_refusal) == (1, "no such heat")
    assert not learner.outbox
    assert learner.join.is_new_reading(("north", 1))


def test_of_a_long_refusal_the_beginning_is_kept():
    learner = Learner()
    learner.refuse(ValueError("no such heat: " + "9" * 10_000_000))
    assert learner.last_refusal.startswith("no such heat: 999")
    assert len(learner.last_refusal) == 200


class Refusing:
    def predict_one(self, values):
        raise ValueError("no such heat")


# -- saving -----------------------------------------------------------------------------------


def test_a_saved_state_is_the_same(tmp_path):
    path = tmp_path / "state"
    assert load_state(path) is None
    learner = learn(Learner(), [(kind, ("n", 1)) for kind in ("reading", "label")])
    save_state(path, learner)
    assert essence(load_state(path)) == essence(learner)
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_odd_names_and_numbers_are_saved_as_they_are(tmp_path):
    learner = learn(Learner(), [(kind, ("n", 1)) for kind in ("reading", "label")])
    learner.handle(Reading(("\ud800", 10**30), {"é": 5e-324, "": -0.0}))
    learner.handle(Label(("\n", 0), -(10**30)))
    save_state(tmp_path / "state", learner)
    again = load_state(tmp_path / "state")
    assert repr(again.join.readings) == repr(learner.join.readings)
    assert repr(again.join.labels) == repr(learner.join.labels)
    assert again.outbox == learner.outbox


@given(sent=deliveries(), most_waiting=st.integers(0, 4), most_gaps=st.integers(0, 4))
def test_parts_of_a_join_make_it_again(sent, most_waiting, most_gaps):
    join = Join(most_waiting, most_gaps)
    settle(join, sent)
    again = Join.of(join.parts(list), lambda keys: {key: key for key in keys})
    for kind, key in sent:
        assert again.is_settled(key) == join.is_settled(key), (kind, key)
    assert again.parts(list) == join.parts(list)
    assert (again.dropped, again.given_up) == (join.dropped, join.given_up)
    assert settle(again, sent) == settle(join, sent)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_state(tmp_path, monkeypatch, step):
    path = tmp_path / "state"
    save_state(path, Learner())
    old = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(OSError, match="No space"):
            save_state(path, learn(Learner(), [("reading", ("n", 1))]))
    assert path.read_bytes() == old
    # What it left behind does not disturb the next one.
    save_state(path, learn(Learner(), [("reading", ("n", 1))]))
    assert len(load_state(path).join.readings) == 1


@pytest.mark.parametrize("content", [b"", b"model"])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"state cannot be read.* Or move it away"):
        load_state(path)


@pytest.mark.parametrize("model", [{}, {"learnt": 3}, onlinels.HiddenLayer(3)])
def test_another_model_is_refused(tmp_path, model):
    path = tmp_path / "state"
    onlinels.save(model, path)
    with pytest.raises(ValueError, match=rf"holds {type(model).__name__}, expected .* learner's"):
        load_state(path)


def test_a_part_of_another_type_is_refused(tmp_path):
    path = tmp_path / "state"
    save_state(path, Learner())
    onlinels.save(onlinels.load(path) | {"learnt": "3"}, path)
    with pytest.raises(ValueError, match="holds dict, expected"):
        load_state(path)


@pytest.mark.skipif(os.name != "posix", reason="locks are those of POSIX")
def test_a_state_is_held_by_one_alone(tmp_path):
    with locked(tmp_path / "state"), pytest.raises(BlockingIOError), locked(tmp_path / "state"):
        pass
    with locked(tmp_path / "state"):
        pass


# -- messages ---------------------------------------------------------------------------------


@given(
    sensor=st.text(),
    number=st.integers(0),
    values=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    label=st.text() | st.integers(),
)
def test_messages_come_back_as_they_were(sensor, number, values, label):
    reading = Reading((sensor, number), values)
    assert read_message(TOPICS.readings, write_reading(reading).encode(), TOPICS) == reading
    payload = write_label((sensor, number), label).encode()
    assert read_message(TOPICS.labels, payload, TOPICS) == Label((sensor, number), label)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "expected a JSON object"),
        (b"{}", "sensor is None"),
        (b'{"sensor": "n", "number": -1}', "number of 'n' is -1"),
        (b'{"sensor": "n", "number": true}', "is True"),
        (b'{"sensor": "n", "number": 1.0}', "is 1.0"),
        (b'{"sensor": "n", "number": 1}', "values are None"),
        (b'{"sensor": "n", "number": 1, "values": {}}', "values are {}"),
        (b'{"sensor": "n", "number": 1, "values": {"a": NaN}}', "value 'a' is nan"),
        (b'{"sensor": "n", "number": 1, "values": {"a": "1"}}', "value 'a' is '1'"),
        (b'{"sensor": "n", "number": 1, "values": {"a": true}}', "value 'a' is True"),
        (b'{"sensor": "n", "number": 1, "values": {"a": 1' + b"0" * 400 + b"}}", "value 'a'"),
    ],
)
def test_what_is_no_reading_is_refused(payload, message):
    with pytest.raises(ValueError, match=message):
        read_message(TOPICS.readings, payload, TOPICS)


@pytest.mark.parametrize("label", ["null", "1.5", "true", "[]"])
def test_what_is_no_label_is_refused(label):
    payload = f'{{"sensor": "n", "number": 1, "label": {label}}}'.encode()
    with pytest.raises(ValueError, match="expected a text or a whole number"):
        read_message(TOPICS.labels, payload, TOPICS)


@pytest.mark.parametrize("topic", ["another/readings", "another/labels", TOPICS.predictions])
def test_other_topics_are_neither_readings_nor_labels(topic):
    with pytest.raises(ValueError, match=f"a message on another topic, '{topic}'"):
        read_message(topic, write_label(("n", 1), "high").encode(), TOPICS)
