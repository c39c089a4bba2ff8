"""Files that are replaced: whole or not at all, in private, with long names."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import onlinels
from onlinels import LeastSquaresClassifier
from onlinels.saving import files
from onlinels.saving.files import replace_file

MODES = pytest.mark.skipif(os.name != "posix", reason="files have modes as on POSIX")

OLD, NEW = b"old" * 9, b"new" * 9_999


def write(path, content):
    replace_file(path, lambda file: file.write(content))


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def plain_user():
    """Be a user whom permissions bind, and return a folder of theirs."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(OLD)
    return path


@MODES
@pytest.mark.parametrize("umask", [0o022, 0o007, 0o077, 0])
def test_new_files_have_the_mode_of_new_files(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "model.npz", NEW)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "model.npz") == 0o666 & ~umask


@MODES
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o444, 0o400])
def test_nobody_can_read_the_file_that_takes_the_place_of_another(path, mode):
    path.chmod(mode)
    modes = []

    def write_and_look(file):
        file.write(NEW)
        modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))

    with open(path, "rb") as seen_before:
        replace_file(path, write_and_look)
        assert seen_before.read() == OLD
    assert modes == [0o600]
    assert mode_of(path) == mode
    assert path.read_bytes() == NEW


@MODES
def test_a_file_that_is_made_private_meanwhile_stays_so(path):
    path.chmod(0o644)

    def write_slowly(file):
        file.write(NEW)
        path.chmod(0o600)

    replace_file(path, write_slowly)
    assert mode_of(path) == 0o600


@MODES
def test_a_file_that_is_read_only_may_be_saved_to_by_several():
    with plain_user() as folder:
        path = folder / "model.npz"
        path.write_bytes(OLD)
        path.chmod(0o444)
        failed = []

        def save(content):
            try:
                for _ in range(50):
                    write(path, content)
            except OSError as error:
                failed.append(error)

        threads = [threading.Thread(target=save, args=(bytes([n]) * 99,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert mode_of(path) == 0o444
        assert os.listdir(folder) == ["model.npz"]


@MODES
def test_folders_that_may_not_be_written_say_so():
    with plain_user() as folder:
        folder.chmod(0o500)
        with pytest.raises(PermissionError, match="save where files can be written"):
            write(folder / "model.npz", NEW)
        folder.chmod(0o700)
        assert os.listdir(folder) == []


@pytest.mark.parametrize("name", ["m" * n for n in (1, 127, 248, 255)] + ["é" * 127])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    path = tmp_path / name
    write(path, NEW)
    assert path.read_bytes() == NEW
    assert os.listdir(tmp_path) == [name]


def test_who_saves_last_has_the_file(path):
    def write_slowly(file):
        file.write(NEW)
        write(path, b"amid")
        assert path.read_bytes() == b"amid"

    replace_file(path, write_slowly)
    assert path.read_bytes() == NEW
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("raised", [OSError(errno.ENOSPC, "No space"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file(path, raised):
    def failing(file):
        file.write(NEW)
        raise raised

    with pytest.raises(type(raised)):
        replace_file(path, failing)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]


def test_a_file_that_cannot_be_moved_leaves_the_old_one(path, monkeypatch):
    def denied(*_):
        raise PermissionError(errno.EACCES, "Access is denied")

    monkeypatch.setattr(files.os, "replace", denied)
    with pytest.raises(PermissionError, match="as it was"):
        write(path, NEW)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]


def test_an_interrupt_amid_saving_a_model_comes_out_as_what_it_is(path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.zipfile.ZipInfo, "FileHeader", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LeastSquaresClassifier().save(path)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]
    LeastSquaresClassifier().save(path)
    assert onlinels.load(path).count == 0
