"""Saved models that were changed on the disk: said once, and their files are closed."""

import hashlib
import os
import pathlib
import zipfile
from collections import defaultdict
from datetime import date

import numpy as np
import pytest
from river import drift, preprocessing

import onlinels
from onlinels.saving import description
from support.untrusted_files import rewritten


def test_damage_is_said_once_and_the_file_is_closed_while_its_error_is_held(tmp_path, monkeypatch):
    path, opened, open_ = tmp_path / "model.npz", [], pathlib.Path.open
    onlinels.HiddenLayer(50, bias=True).save(path)
    content = bytearray(path.read_bytes())
    # In the middle of the numbers.
    content[400] ^= 1
    path.write_bytes(content)

    def noting(*values):
        opened.append(open_(*values))
        return opened[-1]

    monkeypatch.setattr(pathlib.Path, "open", noting)
    with pytest.raises(ValueError, match=r"cannot be read.*does not match its checksum") as raised:
        onlinels.load(path)
    assert str(raised.value).count(str(path)) == 1
    assert len(opened) == 1, raised
    assert opened[0].closed


def test_values_that_hold_themselves_are_refused(tmp_path):
    itself = []
    itself.append(itself)
    deep = ()
    for _ in range(400):
        deep = (deep,)
    for value in ({"itself": itself}, {"deep": deep}):
        with pytest.raises(TypeError, match="nested too deeply"):
            onlinels.save(value, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


def state_of(described, kind):
    """Return the state of the first object of a kind in a description."""
    if isinstance(described, dict):
        if described.get("object") == kind:
            return described["state"]
        described = [*described.values()]
    found = (state_of(each, kind) for each in described if isinstance(each, (dict, list)))
    return next(filter(None, found), None)


SCALED = preprocessing.StandardScaler() | onlinels.LeastSquaresClassifier()
WARNED = onlinels.DriftAwareClassifier(onlinels.LeastSquaresClassifier())
LEARNT = onlinels.LeastSquaresClassifier(1.0)
LEARNT.learn_many(np.eye(3), ["a", "b", "c"])


def odd_step(steps):
    steps["dict"].insert(0, ["odd", 5])
    return steps


@pytest.mark.parametrize(
    ("model", "kind", "part", "odd", "message"),
    [
        (WARNED, "river.AdaptiveWindowing", "state", lambda _: {"bytes": "00"}, "ADWIN is none"),
        (SCALED, "river.Pipeline", "steps", odd_step, "'odd' is no step of a pipeline"),
        (LEARNT, "LeastSquaresClassifier", "_clock", lambda _: {"odd": 1}, "odd"),
        (LEARNT, "LeastSquaresClassifier", "_clock", lambda _: {}, "describes nothing by {}"),
        (LEARNT, "Panel", "start", lambda _: 1, "Panel"),
    ],
)
def test_parts_that_say_something_else_are_refused(tmp_path, model, kind, part, odd, message):
    path = tmp_path / "model.npz"
    onlinels.save(model, path)

    def change(said):
        state = state_of(said["model"], kind)
        state[part] = odd(state[part])
        return said

    rewritten(path, change)
    with pytest.raises(ValueError, match=f"cannot be read.*{message}"):
        onlinels.load(path)


def test_objects_that_hold_each_other_too_often_are_refused(tmp_path, monkeypatch):
    LEARNT.save(tmp_path / "model.npz")
    monkeypatch.setattr(description, "MOST_VALUES", 1e-3)
    with pytest.raises(ValueError, match="hold each other too often"):
        onlinels.load(tmp_path / "model.npz")


def test_truth_values_are_0_or_1(tmp_path):
    path = tmp_path / "flags.npz"
    onlinels.save({"flags": np.array([True, False])}, path)
    with zipfile.ZipFile(path) as file:
        (name,) = [each for each in file.namelist() if each.endswith(".npy")]
        array = file.read(name)[:-1] + b"\2"

    def change(said):
        said["arrays"][name[:-4]] = hashlib.sha256(array).hexdigest()
        return said

    rewritten(path, change, {name: array})
    with pytest.raises(ValueError, match="other things than truth values"):
        onlinels.load(path)


@pytest.mark.parametrize(
    "value",
    [
        np.array(["text"]),
        np.array([1j]),
        defaultdict(lambda: 0.0),
        {"detector": drift.ADWIN, "names": {1: object()}},
        {date(2020, 1, 1): 1},
        {b"bytes"},
        float,
    ],
)
def test_what_no_file_may_hold_is_refused(tmp_path, value):
    with pytest.raises(TypeError, match="saved"):
        onlinels.save({"value": value}, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []
