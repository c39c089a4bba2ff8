"""Files that are replaced by saving: whole or not at all, in private, with long names."""

import errno
import functools
import os
import signal
import stat
import sys
import tempfile
import threading
import zipfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import LeastSquaresClassifier
from onlinels.saving import files
from support.strategies import examples

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


@MODES
def test_processes_that_save_to_one_path_leave_a_whole_file(tmp_path):
    path, seen, codes = tmp_path / "model.npz", set(), []

    def save(label):
        model = LeastSquaresClassifier()
        model.learn_many(np.eye(9), [label] * 9)
        for _ in range(150):
            model.save(path)

    processes = [forked(functools.partial(save, label)) for label in "abc"]
    while processes:
        with suppress(FileNotFoundError):
            seen.update(onlinels.load(path).classes)
        assert len(hidden_in(tmp_path)) <= 3
        number, code = os.waitpid(processes[0], os.WNOHANG)
        if number:
            codes.append(code)
            processes.pop(0)
    assert codes == [0, 0, 0]
    assert len(seen) > 1
    assert os.listdir(tmp_path) == ["model.npz"]


@pytest.fixture(scope="module")
def killed():
    """Return what lets a process save and be killed just before a call of the system."""

    def kill(path, before="replace"):
        def act():
            setattr(os, before, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            MODEL.save(path)

        os.waitpid(forked(act), 0)

    return kill


@MODES
@pytest.mark.parametrize("before", ["replace", "fsync"])
@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_any_number_of_kills_leaves_one_hidden_file(before, mode, killed):
    with plain_user() as folder:
        path = folder / "model.npz"
        path.write_bytes(OLD)
        path.chmod(mode)
        for _ in range(4):
            killed(path, before)
            assert len(hidden_in(folder)) == 1
            assert path.read_bytes() == OLD
        MODEL.save(path)
        assert mode_of(path) == mode
        assert os.listdir(folder) == ["model.npz"]


@MODES
def test_the_next_save_removes_what_several_saves_at_once_have_left(tmp_path, killed):
    path = tmp_path / "model.npz"
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(files.written_aside(path)).write(b"other")
            killed(path)
        assert len(hidden_in(tmp_path)) == 4
    MODEL.save(path)
    assert os.listdir(tmp_path) == ["model.npz"]


@MODES
def test_what_is_left_over_beside_one_path_is_no_business_of_another(tmp_path, killed):
    paths = [tmp_path / ("model" * 10 + end) for end in "ab"]
    for path in paths:
        killed(path)
    assert len(hidden_in(tmp_path)) == 2
    paths[0].touch()
    MODEL.save(paths[0])
    left = hidden_in(tmp_path)
    assert len(left) == 1
    MODEL.save(paths[1])
    assert sorted(os.listdir(tmp_path)) == [path.name for path in paths]


@given(st.lists(st.sampled_from(["a", "b", "save", "kill"]), max_size=12))
@examples(15)
@MODES
def test_saves_that_begin_amid_others_and_kills(killed, steps):
    """Saves nest in any way, as those of threads may; none takes the file of another."""
    with tempfile.TemporaryDirectory() as name:
        folder, most = Path(name), 0
        with ExitStack() as stack:
            for number, step in enumerate(steps):
                path = folder / ("model" * 9 + ("b" if step == "b" else "a"))
                if step == "save":
                    MODEL.save(path)
                elif step == "kill":
                    killed(path, "fsync")
                else:
                    stack.enter_context(files.written_aside(path)).write(b"%d" % number)
                most += step != "save"
                assert len(hidden_in(folder)) <= most
        for step in {"a", "b"} & set(steps):
            path = folder / ("model" * 9 + step)
            first = next(n for n, each in enumerate(steps) if each == step)
            # Contexts end in the reverse order: the first to begin ends last.
            assert path.read_bytes() == b"%d" % first
            MODEL.save(path)
        assert len(hidden_in(folder)) <= steps.count("kill")


@MODES
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_lies_at_the_hidden_name_is_neither_followed_nor_written(path, kind, meanwhile):
    names, target = [], path.with_name("target")
    target.write_bytes(OLD)
    meanwhile(lambda _: names.extend(hidden_in(path.parent)))
    MODEL.save(path)
    hidden = path.with_name(names[0])
    make = {"link": lambda: hidden.symlink_to(target), "folder": hidden.mkdir}
    make.get(kind, lambda: os.mkfifo(hidden))()
    MODEL.save(path)
    assert onlinels.load(path).count == 0
    assert target.read_bytes() == OLD


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks available"), None])
def test_folders_without_locks(path, monkeypatch, error):
    class NoLocks:
        LOCK_EX = LOCK_NB = 0

        def flock(self, *_):
            raise error

    monkeypatch.setattr(files, "LOCKS", error and NoLocks())
    with files.written_aside(path) as file:
        MODEL.save(path)
        file.write(b"last")
    assert path.read_bytes() == b"last"
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
