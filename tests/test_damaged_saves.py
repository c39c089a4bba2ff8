"""Saved models that were changed on the disk: said once, and their files are closed."""

from __future__ import annotations

import os

import pytest

import onlinels
from onlinels.saving import files


@pytest.fixture
def damaged(tmp_path):
    path = tmp_path / "model.npz"
    onlinels.HiddenLayer(50, bias=True).save(path)
    content = bytearray(path.read_bytes())
    # In the middle of the numbers.
    content[400] ^= 1
    path.write_bytes(content)
    return path


def test_damage_is_said_once(damaged):
    with pytest.raises(ValueError, match="does not match its checksum") as raised:
        onlinels.load(damaged)
    assert str(raised.value).count(str(damaged)) == 1


def test_a_file_that_cannot_be_loaded_is_closed_while_its_error_is_held(damaged, monkeypatch):
    opened = []

    def noting(*values):
        opened.append(open_(*values))
        return opened[-1]

    open_ = os.open
    monkeypatch.setattr(files.os, "open", noting)
    with pytest.raises(ValueError, match="cannot be read") as raised:
        onlinels.load(damaged)
    assert len(opened) == 1, raised
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are those of POSIX")
def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a folder or device, expected a file"):
        onlinels.load(tmp_path / "pipe")


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


def test_files_can_be_read_where_there_is_no_preadv(tmp_path, monkeypatch):
    model = onlinels.HiddenLayer(50, bias=True)
    model.save(tmp_path / "model.npz")
    monkeypatch.delattr(os, "preadv", raising=False)
    assert onlinels.load(tmp_path / "model.npz").n_hidden == 50
