"""Processes that run a demo of a stream, and may die in a chosen call of a chosen function."""

import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from support.processes import PATIENCE, ended

CONTEXT = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
# Imported once, not in every life.
CONTEXT.set_forkserver_preload(["mqtt_sensors.__main__"])


@dataclass(frozen=True)
class Death:
    """Before or after the so many-th call of "module:function" or "module:Class.function"."""

    function: str
    call: int
    before: bool = False


def start(folder, demo, words, death=None):
    """Start a process that runs a demo, with what it prints in a file of a folder."""
    output = Path(tempfile.mkdtemp(dir=folder)) / "output"
    life = CONTEXT.Process(target=live, args=(demo, words, output, death), daemon=True)
    life.output = output
    # For the process that all of them are copies of.
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        life.start()
    return life


def outcome(life, number=0):
    """Return how a life ended, after a signal, and all that it said, in one line."""
    os.kill(life.pid, number)
    return ended(life), " ".join(life.output.read_text().split())


def live(demo, words, output, death):
    """Run the demo in a process of its own."""
    with open(output, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    main = importlib.import_module(demo).main
    # A busy broker takes its time to acknowledge the last predictions.
    importlib.import_module("mqtt_sensors.session").PATIENCE = PATIENCE
    if death is not None:
        arrange(death)
    main([str(word) for word in words])


def arrange(death):
    """Have the process killed, as `kill -9` does."""
    module, _, path = death.function.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    function, calls = getattr(owner, name), iter(range(1, death.call))

    def mortal(*values, **options):
        alive = next(calls, None) is not None
        if alive or not death.before:
            answer = function(*values, **options)
        if not alive:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, name, mortal)
