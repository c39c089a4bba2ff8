"""A file that is saved is whole or as it was, and private: after kills, and on full disks, too."""

import errno
import os
import signal
import stat
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import onlinels
from onlinels import LeastSquaresClassifier
from onlinels.saving import files
from support.laws import assert_not_saved

# -- files that are replaced, hidden files, and permissions ---------------------------------------

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
def test_nobody_can_read_the_file_that_takes_the_place_of_another(path, mode, monkeypatch):
    path.chmod(mode)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda file: modes.append(os.fstat(file).st_mode & 0o777))
    with open(path, "rb") as seen_before:
        MODEL.save(path)
        assert seen_before.read() == OLD
    assert modes[0] == 0o600
    assert mode_of(path) == mode
    assert onlinels.load(path).count == 0


@MODES
def test_a_file_that_is_read_only_may_be_saved_to_by_several():
    with plain_user() as folder:
        path = folder / "model.npz"
        path.write_bytes(OLD)
        path.chmod(0o444)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: MODEL.save(path), range(60)))
        assert mode_of(path) == 0o444
        assert os.listdir(folder) == ["model.npz"]


@MODES
def test_folders_that_may_not_be_written_say_so():
    with plain_user() as folder:
        folder.chmod(0o500)
        with pytest.raises(PermissionError, match="pass a folder that exists, can be written"):
            MODEL.save(folder / "model.npz")
        folder.chmod(0o700)
        assert os.listdir(folder) == []


@pytest.mark.parametrize("name", ["m" * n for n in (1, 127, 248, 255)] + ["é" * 127])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    MODEL.save(tmp_path / name)
    assert onlinels.load(tmp_path / name).count == 0
    assert os.listdir(tmp_path) == [name]


def hidden_in(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")]


def forked(act):
    """Start a process that does something and ends; return its number."""
    number = os.fork()
    if not number:
        try:
            act()
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    return number


def save_and_be_killed(path, before="replace"):
    """Let a process save and be killed just before a call of the system."""

    def act():
        setattr(os, before, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        MODEL.save(path)

    os.waitpid(forked(act), 0)


@MODES
@pytest.mark.parametrize("before", ["replace", "fsync"])
@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_what_kills_leave_is_removed_when_it_is_old_by_saves_to_the_same_path(before, mode):
    with plain_user() as folder:
        path, other = (folder / ("model" * 10 + end) for end in "ab")
        path.write_bytes(OLD)
        path.chmod(mode)
        for each in (path, other):
            save_and_be_killed(each, before)
        assert path.read_bytes() == OLD
        MODEL.save(path)
        assert mode_of(path) == mode
        assert len(hidden_in(folder)) == 2
        for name in hidden_in(folder):
            times = (os.lstat(folder / name).st_mtime - files.LEFT_OVER_SECONDS - 1.0,) * 2
            os.utime(folder / name, times)
        # A running save goes on.
        with files.written_aside(path) as file:
            MODEL.save(path)
            file.write(b"last")
        assert path.read_bytes() == b"last"
        assert len(hidden_in(folder)) == 1
        MODEL.save(other)
        assert sorted(os.listdir(folder)) == [path.name, other.name]


@pytest.mark.parametrize(
    ("owner", "name", "raised", "message"),
    [
        (zipfile.ZipInfo, "FileHeader", KeyboardInterrupt(), None),
        (os, "fsync", KeyboardInterrupt(), None),
        (os, "fsync", OSError(errno.ENOSPC, "No space left on device"), "that .* has space"),
        (os, "replace", PermissionError(errno.EACCES, "Access is denied"), "path has changed"),
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


# -- full disks, links, pipes, and threads --------------------------------------------------------


def test_folders_that_are_not_there_and_links(tmp_path):
    model, held = LeastSquaresClassifier(), tmp_path / "there" / "model.npz"
    with pytest.raises(FileNotFoundError, match="pass a folder that exists"):
        model.save(held)
    assert_not_saved(model, tmp_path, "at the path has changed")
    assert os.listdir(tmp_path) == []
    held.parent.mkdir()
    link = tmp_path / "link.npz"
    link.symlink_to(held)
    model.save(link)
    assert link.is_symlink()
    held.chmod(0o640)
    model.save(str(link))
    assert held.stat().st_mode & 0o777 == 0o640
    assert os.listdir(held.parent) == ["model.npz"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are those of POSIX")
def test_what_is_no_file_is_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert_not_saved(LeastSquaresClassifier(), path, "folder, a device or a pipe")
    assert path.is_fifo()
    with pytest.raises(ValueError, match="a device or a pipe, expected a file"):
        onlinels.load(path)


# -- processes that are killed --------------------------------------------------------------------

N_KILLS = 12
MOST_LINES = 1_000
"""Lines of saving until a kill: those of a few saves."""


def learn_next(model):
    """Learn the batch that follows: a function of how many rows were learnt."""
    random = np.random.default_rng(model.count)
    model.learn_many(random.normal(size=(10, 12)), random.integers(0, 3, 10))


def begin():
    return LeastSquaresClassifier(accumulator="recursive", ridge=1.0)


def live(path, left):
    """Go on from the file, if there is one; be killed when so many lines of saving were run."""
    model = onlinels.load(path) if path.exists() else begin()

    def count(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != files.__file__:
            return None
        left -= event == "line"
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)
    while True:
        learn_next(model)
        model.save(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed as on POSIX")
def test_every_kill_leaves_a_state_that_was_saved(tmp_path):
    path, random = tmp_path / "model.npz", np.random.default_rng(0)
    expected, model = {}, begin()
    for _ in range(N_KILLS):
        line = int(random.integers(1, MOST_LINES))
        os.waitpid(forked(lambda line=line: live(path, line)), 0)
        left_over = set(os.listdir(tmp_path)) - {"model.npz"}
        assert all(name.startswith(".") and name.endswith(".saving") for name in left_over)
        if not path.exists():
            continue
        count = onlinels.load(path).count
        while model.count < count:
            learn_next(model)
            model.save(tmp_path / "expected")
            expected[model.count] = (tmp_path / "expected").read_bytes()
            (tmp_path / "expected").unlink()
        # The bytes say it all: an uninterrupted model of as many rows writes the same ones.
        assert path.read_bytes() == expected[count]
    assert len(expected) > N_KILLS / 4
    assert len(left_over) > N_KILLS / 20
