"""Files that are replaced by saving: whole or not at all, in private, with long names."""

import errno
import os
import stat
import tempfile
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

import onlinels
from onlinels import LeastSquaresClassifier

MODES = pytest.mark.skipif(os.name != "posix", reason="files have modes as on POSIX")
OLD, MODEL = b"old" * 9, LeastSquaresClassifier()


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


@pytest.fixture
def meanwhile(monkeypatch):
    """Have something done when a file is written and not yet in its place."""

    def arrange(act):
        monkeypatch.setattr(os, "fsync", lambda file: (monkeypatch.undo(), act(file)))

    return arrange


@MODES
@pytest.mark.parametrize("umask", [0o022, 0o007, 0o077, 0])
def test_new_files_have_the_mode_of_new_files(tmp_path, umask):
    before = os.umask(umask)
    try:
        MODEL.save(tmp_path / "model.npz")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "model.npz") == 0o666 & ~umask


@MODES
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o444, 0o400])
def test_nobody_can_read_the_file_that_takes_the_place_of_another(path, mode, meanwhile):
    path.chmod(mode)
    modes = []
    meanwhile(lambda file: modes.append(stat.S_IMODE(os.fstat(file).st_mode)))
    with open(path, "rb") as seen_before:
        MODEL.save(path)
        assert seen_before.read() == OLD
    assert modes == [0o600]
    assert mode_of(path) == mode
    assert onlinels.load(path).count == 0


@MODES
def test_a_file_that_is_made_private_meanwhile_stays_so(path, meanwhile):
    path.chmod(0o644)
    meanwhile(lambda _: path.chmod(0o600))
    MODEL.save(path)
    assert mode_of(path) == 0o600


@MODES
def test_a_file_that_is_read_only_may_be_saved_to_by_several():
    with plain_user() as folder:
        path = folder / "model.npz"
        path.write_bytes(OLD)
        path.chmod(0o444)
        failed = []

        def save():
            try:
                for _ in range(50):
                    MODEL.save(path)
            except OSError as error:
                failed.append(error)

        threads = [threading.Thread(target=save) for _ in range(4)]
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
            MODEL.save(folder / "model.npz")
        folder.chmod(0o700)
        assert os.listdir(folder) == []


@pytest.mark.parametrize("name", ["m" * n for n in (1, 127, 248, 255)] + ["é" * 127])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    MODEL.save(tmp_path / name)
    assert onlinels.load(tmp_path / name).count == 0
    assert os.listdir(tmp_path) == [name]


def test_who_saves_last_has_the_file(path, meanwhile):
    amid = LeastSquaresClassifier()
    amid.learn_one({"a": 1.0}, "x")

    def save_amid(_):
        amid.save(path)
        assert onlinels.load(path).count == 1

    meanwhile(save_amid)
    MODEL.save(path)
    assert onlinels.load(path).count == 0
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("owner", "name", "raised", "message"),
    [
        (zipfile.ZipInfo, "FileHeader", KeyboardInterrupt(), None),
        (os, "fsync", KeyboardInterrupt(), None),
        (os, "replace", PermissionError(errno.EACCES, "Access is denied"), "as it was"),
    ],
)
def test_what_fails_leaves_the_old_file(path, monkeypatch, owner, name, raised, message):
    def failing(*_):
        raise raised

    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(type(raised), match=message):
        MODEL.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]
    MODEL.save(path)
    assert onlinels.load(path).count == 0
