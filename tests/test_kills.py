"""A process that is killed at any moment leaves a file that is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import onlinels
import saving_life

N_KILLS = 200


@pytest.fixture
def kill_one(tmp_path):
    """Return what lets a process learn and save for some seconds, and kills it."""
    command = [sys.executable, saving_life.__file__, str(tmp_path / "model.npz")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as lives:

        def kill(seconds):
            lives.stdin.write("another\n")
            number = int(lives.stdout.readline())
            time.sleep(seconds)
            os.kill(number, signal.SIGKILL)
            assert lives.stdout.readline() == "dead\n"

        yield kill
        lives.stdin.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed as on POSIX")
def test_every_kill_leaves_a_state_that_was_saved(tmp_path, kill_one):
    path, random = tmp_path / "model.npz", np.random.default_rng(0)
    expected, model, left_over = {}, saving_life.begin(), 0
    for _ in range(N_KILLS):
        # At any point of loading, learning and saving.
        kill_one(random.exponential(0.02))
        assert set(os.listdir(tmp_path)) <= {"model.npz", ".model.npz.saving"}
        left_over += (tmp_path / ".model.npz.saving").exists()
        if not path.exists():
            continue
        count = onlinels.load(path).count
        while model.count < count:
            saving_life.learn_next(model)
            model.save(tmp_path / "expected")
            expected[model.count] = (tmp_path / "expected").read_bytes()
            (tmp_path / "expected").unlink()
        # The bytes say it all: an uninterrupted model of as many rows writes the same ones.
        assert path.read_bytes() == expected[count]
    assert len(expected) > N_KILLS / 4
    assert left_over > N_KILLS / 20
    onlinels.load(path).save(path)
    assert os.listdir(tmp_path) == ["model.npz"]
