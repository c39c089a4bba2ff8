"""Processes that run a demo of a stream, and may die in a chosen call of a chosen function."""

import importlib
import multiprocessing
import os
import signal
from dataclasses import dataclass

CONTEXT = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
# Imported once, not in every life.
CONTEXT.set_forkserver_preload(["mqtt_sensors.__main__", "kafka_stream"])


@dataclass(frozen=True)
class Death:
    """Before or after the so many-th call of "module:function" or "module:Class.function"."""

    function: str
    call: int
    before: bool = False


def live(words, output, death, demo="mqtt_sensors.__main__"):
    """Run the demo, with what it prints in a file."""
    with open(output, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    main = importlib.import_module(demo).main
    if death is not None:
        arrange(death)
    main(words)


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
