"""Files that are replaced: amid signals, in private, with long names, and as Windows does it."""

from __future__ import annotations

import errno
import os
import signal
import stat
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import onlinels
from injection import run_traced
from onlinels import LeastSquaresClassifier
from onlinels.saving import replacing
from onlinels.saving.replacing import replace_file

LOCKED = pytest.mark.skipif(replacing.fcntl is None, reason="files are locked as on POSIX")
MODES = pytest.mark.skipif(os.name != "posix", reason="files have modes as on POSIX")

OLD, OUTER, INNER = b"old" * 9, b"outer" * 99, b"inner" * 9_999


def write(path, content):
    replace_file(path, lambda file: file.write(content))


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _no_one_waits_for_ever():
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_):
        pytest.fail("somebody waits for ever")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(OLD)
    return path


@pytest.fixture
def handle():
    """Return what sets the handler of a signal."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda handler: signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGTERM, before)


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
def no_disk(monkeypatch):
    """Wait for no disk, where files are written by the hundred."""
    monkeypatch.setattr(replacing.os, "fsync", lambda _: None)


# A handler that saves amid a save.


class Interrupting:
    """Calls a function at a line of the module, as a signal's handler might be called there."""

    def __init__(self, line, function):
        self.left, self.function = line, function

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename != replacing.__file__:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                self.function()
        return self

    def run(self, function):
        run_traced(self, function)
        return self.left <= 0


def at_every_line(interrupt, check, function):
    """Check what a function leaves that was interrupted at every line, and return how many."""
    line, reached = 0, True
    while reached:
        line += 1
        reached = Interrupting(line, interrupt).run(function)
        check()
    return line - 1


@LOCKED
@pytest.mark.usefixtures("no_disk")
@pytest.mark.parametrize("name", ["model.npz", "other.npz"])
def test_a_handler_may_save_at_every_line_of_a_save(path, name):
    came = []

    def handle():
        came.append(name)
        write(path.with_name(name), INNER)
        assert path.with_name(name).read_bytes() == INNER

    def check():
        assert set(os.listdir(path.parent)) <= {path.name, name}
        assert path.read_bytes() in (OUTER, INNER)
        path.write_bytes(OLD)

    n_lines = at_every_line(handle, check, lambda: write(path, OUTER))
    assert len(came) == n_lines > 50


@LOCKED
@pytest.mark.usefixtures("no_disk")
def test_a_handler_may_save_and_end_the_save_at_every_line(path):
    def leave():
        write(path, INNER)
        raise SystemExit

    def save():
        with suppress(SystemExit):
            write(path, OUTER)

    left_over = []

    def check():
        assert path.read_bytes() in (OUTER, INNER)
        left_over.extend(set(os.listdir(path.parent)) - {path.name})
        write(path, OLD)
        assert os.listdir(path.parent) == [path.name]

    assert at_every_line(leave, check, save) > 50
    # Only where the file is there and nobody knows yet: after it was created, before it is held.
    assert len(left_over) <= 3


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_handler_that_saves_a_model_and_exits(path, handle, monkeypatch, place):
    model = LeastSquaresClassifier()
    model.learn_one({"x": 1.0}, "a")

    def interrupted(*values):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGTERM)
        return getattr(os, place)(*values)

    def save_and_exit(*_):
        model.save(path)
        raise SystemExit

    handle(save_and_exit)
    monkeypatch.setattr(replacing.os, place, interrupted)
    with pytest.raises(SystemExit):
        model.save(path)
    assert os.listdir(path.parent) == [path.name]
    assert onlinels.load(path).count == 1


@LOCKED
def test_a_handler_may_save_while_its_thread_waits_for_another(path, handle):
    written, go_on = threading.Event(), threading.Event()

    def write_slowly(file):
        file.write(OUTER)
        written.set()
        go_on.wait()

    def save(*_):
        write(path, INNER)
        assert path.read_bytes() == INNER
        go_on.set()

    handle(save)
    slow = threading.Thread(target=replace_file, args=(path, write_slowly))
    slow.start()
    written.wait()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    write(path, b"last")
    slow.join()
    assert path.read_bytes() == b"last"
    assert os.listdir(path.parent) == [path.name]


@LOCKED
def test_another_thread_waits_while_a_handler_saves(path):
    events = []
    other = threading.Thread(target=lambda: (write(path, b"other"), events.append("other")))

    def write_slowly(file):
        file.write(OUTER)
        other.start()
        write(path, INNER)
        other.join(0.1)
        assert set(os.listdir(path.parent)) == {path.name, ".model.npz.saving"}
        events.append("outer")

    replace_file(path, write_slowly)
    other.join()
    assert events == ["outer", "other"]
    assert path.read_bytes() == b"other"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are those of POSIX")
def test_signals_at_any_moment(path, handle):
    came, handled, done = [], threading.Event(), threading.Event()
    main = threading.main_thread().ident

    def save(*_):
        came.append(1)
        write(path, INNER)
        handled.set()

    def interrupt():
        while not done.wait(0.001):
            signal.pthread_kill(main, signal.SIGTERM)
            # Then handlers are interrupted too.
            if len(came) % 3:
                handled.wait()
            handled.clear()

    handle(save)
    interrupter = threading.Thread(target=interrupt, daemon=True)
    other = threading.Thread(target=lambda: [write(path, OLD) for _ in range(50)], daemon=True)
    interrupter.start()
    other.start()
    while other.is_alive() or len(came) < 20:
        write(path, OUTER)
        assert path.read_bytes() in (OLD, OUTER, INNER)
    done.set()
    handled.set()
    interrupter.join()
    assert os.listdir(path.parent) == [path.name]


@LOCKED
def test_what_a_killed_handler_left_is_swept_away_unless_it_is_being_written(path):
    left = path.with_name(".model.npz.saving.1")
    left.write_bytes(INNER)
    with open(left, "rb") as file:
        replacing.fcntl.flock(file, replacing.fcntl.LOCK_EX)
        write(path, OUTER)
        assert left.exists()
    write(path, OUTER)
    assert os.listdir(path.parent) == [path.name]


# Who may read it.


@MODES
@pytest.mark.parametrize("umask", [0o022, 0o007, 0o077, 0])
def test_new_files_have_the_mode_of_new_files(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "model.npz", OUTER)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "model.npz") == 0o666 & ~umask


@MODES
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o444, 0o400])
@pytest.mark.parametrize("left", [False, True])
def test_nobody_can_read_the_file_that_takes_the_place_of_another(path, mode, left, monkeypatch):
    path.chmod(mode)
    beside, modes = path.with_name(".model.npz.saving"), []
    if left:
        beside.write_bytes(b"half")
        beside.chmod(0o666)

    def note(function):
        def noting(*values):
            modes.append(mode_of(beside))
            return function(*values)

        return noting

    for name in ("fsync", "chmod"):
        monkeypatch.setattr(replacing.os, name, note(getattr(os, name)))
    monkeypatch.setattr(replacing.os, "supports_fd", {*os.supports_fd, replacing.os.chmod})
    with open(beside if left else path, "rb") as seen_before:
        replace_file(path, note(lambda file: file.write(OUTER)))
        assert seen_before.read() == (b"half" if left else OLD)
    monkeypatch.undo()
    assert set(modes) == {0o600}
    assert mode_of(path) == mode
    assert path.read_bytes() == OUTER


@MODES
def test_a_file_that_is_made_private_meanwhile_stays_so(path):
    path.chmod(0o644)

    def write_slowly(file):
        file.write(OUTER)
        path.chmod(0o600)

    replace_file(path, write_slowly)
    assert mode_of(path) == 0o600


@MODES
def test_a_name_of_another_file_in_the_way_leaves_that_one_alone(path):
    precious = path.with_name("precious")
    precious.write_bytes(b"precious")
    os.link(precious, path.with_name(".model.npz.saving"))
    write(path, OUTER)
    assert precious.read_bytes() == b"precious"
    assert set(os.listdir(path.parent)) == {"model.npz", "precious"}


# What others have left, or take away.


@MODES
@pytest.mark.parametrize("mode", [0o444, 0o400, 0o200, 0])
def test_what_was_left_and_may_not_be_written_is_taken_away(mode):
    with plain_user() as folder:
        left = folder / ".model.npz.saving"
        left.write_bytes(b"half")
        left.chmod(mode)
        write(folder / "model.npz", OUTER)
        assert (folder / "model.npz").read_bytes() == OUTER
        assert os.listdir(folder) == ["model.npz"]


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
        for names in ([], [".model.npz.saving"]):
            for name in names:
                (folder / name).write_bytes(b"half")
            folder.chmod(0o500)
            with pytest.raises(PermissionError, match="save where files can be written"):
                write(folder / "model.npz", OUTER)
            folder.chmod(0o700)
            assert os.listdir(folder) == names


@LOCKED
def test_what_was_left_and_cannot_be_locked_is_taken_away(path, monkeypatch):
    flock = replacing.fcntl.flock
    left = path.with_name(".model.npz.saving")
    left.write_bytes(b"half")

    def like_nfs(descriptor, how):
        flags = replacing.fcntl.fcntl(descriptor, replacing.fcntl.F_GETFL)
        if flags & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, how)

    def like_read_only(path, flags, *mode):
        if flags & os.O_RDWR and not flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_(path, flags, *mode)

    open_ = os.open
    monkeypatch.setattr(replacing.fcntl, "flock", like_nfs)
    monkeypatch.setattr(replacing.os, "open", like_read_only)
    write(path, OUTER)
    assert os.listdir(path.parent) == [path.name]


@LOCKED
@pytest.mark.parametrize("another", [False, True])
def test_what_was_taken_away_meanwhile_is_not_put_in_place(path, another):
    beside = path.with_name(".model.npz.saving")

    def robbed(file):
        file.write(OUTER)
        beside.unlink()
        if another:
            beside.write_bytes(b"half")

    with pytest.raises(OSError, match=r"was taken away while it was written .*as it was"):
        replace_file(path, robbed)
    assert path.read_bytes() == OLD
    assert set(os.listdir(path.parent)) == {path.name, *([beside.name] if another else [])}


@pytest.mark.parametrize("locks", [True, False])
def test_folders_and_links_in_the_way_are_left_there(path, monkeypatch, locks):
    if not locks:
        monkeypatch.setattr(replacing, "fcntl", None)
    beside = path.with_name(".model.npz.saving")
    beside.mkdir()
    with pytest.raises(FileExistsError, match="is in the way, and no file"):
        write(path, OUTER)
    beside.rmdir()
    if os.name == "posix":
        for target in (path, path.with_name("missing")):
            beside.symlink_to(target)
            with pytest.raises(FileExistsError, match="is in the way, and no file"):
                write(path, OUTER)
            assert beside.is_symlink()
            beside.unlink()
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]


# Names, and systems.


@pytest.mark.parametrize("name", ["m" * n for n in (1, 127, 135, 136, 247, 248, 255)] + ["é" * 127])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    path = tmp_path / name

    def write_both(file):
        write(path, INNER)
        for each in os.listdir(tmp_path):
            assert each == name or len(os.fsencode(each)) <= replacing.LONGEST
        file.write(OUTER)

    replace_file(path, write_both)
    assert path.read_bytes() == OUTER
    assert os.listdir(tmp_path) == [name]


def test_long_names_that_differ_are_written_beside_each_other(tmp_path):
    paths = [tmp_path / ("m" * 250 + end) for end in "ab"]

    def write_other(file):
        file.write(OUTER)
        thread = threading.Thread(target=write, args=(paths[1], INNER))
        thread.start()
        thread.join()

    replace_file(paths[0], write_other)
    assert [path.read_bytes() for path in paths] == [OUTER, INNER]


class Windows:
    """Lets no file be moved, replaced or taken away that is open here, or read-only."""

    def __init__(self):
        self.opened, self.functions = [], (os.open, os.replace, os.unlink)

    def check(self, path):
        for descriptor in self.opened:
            with suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    raise RuntimeError(f"{path} is open")

    def open(self, *values):
        self.opened.append(self.functions[0](*values))
        return self.opened[-1]

    def replace(self, source, target):
        self.check(source)
        self.check(target)
        self.functions[1](source, target)

    def unlink(self, path):
        self.check(path)
        if not os.stat(path).st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "Access is denied")
        self.functions[2](path)


@pytest.fixture
def windows(monkeypatch):
    system = Windows()
    monkeypatch.setattr(replacing, "fcntl", None)
    for name in ("open", "replace", "unlink"):
        monkeypatch.setattr(replacing.os, name, getattr(system, name))
    monkeypatch.setattr(replacing.os, "supports_fd", set())
    for flag in ("O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.setattr(replacing, "FLAGS", replacing.FLAGS & ~getattr(os, flag, 0))


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("left", [None, 0o666, 0o444])
def test_files_are_closed_before_windows_moves_them(path, left):
    if left is not None:
        path.with_name(".model.npz.saving").write_bytes(b"half")
        path.with_name(".model.npz.saving").chmod(left)
    write(path, OUTER)
    write(path, INNER)
    assert path.read_bytes() == INNER
    assert os.listdir(path.parent) == [path.name]
    LeastSquaresClassifier().save(path)
    assert onlinels.load(path).count == 0


@pytest.mark.usefixtures("windows")
def test_what_fails_leaves_nothing_on_windows_either(path, monkeypatch):
    def failing(file):
        file.write(OUTER)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="free some space"):
        replace_file(path, failing)
    assert os.listdir(path.parent) == [path.name]

    def denied(*_):
        raise PermissionError(errno.EACCES, "Access is denied")

    monkeypatch.setattr(replacing.os, "replace", denied)
    with pytest.raises(PermissionError, match="as it was"):
        write(path, OUTER)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.usefixtures("windows")
def test_a_handler_may_save_on_windows(path):
    replace_file(path, lambda file: (file.write(OUTER), write(path, INNER)))
    assert path.read_bytes() == OUTER
    assert os.listdir(path.parent) == [path.name]
