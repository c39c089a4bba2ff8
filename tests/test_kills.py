"""A process that is killed at any moment leaves a file that is whole."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onlinels
from support import save_until_killed

N_KILLS = 50
MOST_LINES = 1_000
"""Lines of saving until a kill: those of a few saves."""


@pytest.fixture
def kill_one(tmp_path):
    """Return what lets a process learn and save until it has run some lines, and is killed."""
    command = [sys.executable, save_until_killed.__file__, str(tmp_path / "model.npz")]
    # The package that is tested, wherever another one may be installed.
    here = {**os.environ, "PYTHONPATH": str(Path(onlinels.__file__).parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=here
    ) as lives:

        def kill(line):
            lives.stdin.write(f"{line}\n")
            assert lives.stdout.readline() == "dead\n"

        yield kill
        lives.stdin.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed as on POSIX")
def test_every_kill_leaves_a_state_that_was_saved(tmp_path, kill_one):
    path, random = tmp_path / "model.npz", np.random.default_rng(0)
    expected, model, n_left_over = {}, save_until_killed.begin(), 0
    for _ in range(N_KILLS):
        kill_one(random.integers(1, MOST_LINES))
        # What one kill has left is not taken away: the next save does that.
        left_over = set(os.listdir(tmp_path)) - {"model.npz"}
        assert all(name.startswith(".") and name.endswith(".saving") for name in left_over)
        assert len(left_over) <= 1
        n_left_over += len(left_over)
        if not path.exists():
            continue
        count = onlinels.load(path).count
        while model.count < count:
            save_until_killed.learn_next(model)
            model.save(tmp_path / "expected")
            expected[model.count] = (tmp_path / "expected").read_bytes()
            (tmp_path / "expected").unlink()
        # The bytes say it all: an uninterrupted model of as many rows writes the same ones.
        assert path.read_bytes() == expected[count]
    assert len(expected) > N_KILLS / 4
    assert n_left_over > N_KILLS / 20
    onlinels.load(path).save(path)
    assert os.listdir(tmp_path) == ["model.npz"]
