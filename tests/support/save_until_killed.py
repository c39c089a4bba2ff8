"""Processes that learn and save in a loop until they are killed; run as a script, it makes them."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

import onlinels
from onlinels import LeastSquaresClassifier
from onlinels.saving import arrays, files

N_FEATURES = 12
SAVING = {module.__file__ for module in (arrays, files)}


def learn_next(model):
    """Learn the batch that follows: a function of how many rows were learnt."""
    random = np.random.default_rng(model.count)
    model.learn_many(random.normal(size=(10, N_FEATURES)), random.integers(0, 3, 10))


def begin():
    return LeastSquaresClassifier(accumulator="recursive", ridge=1.0)


def live(path, line):
    """Go on from the file, if there is one, until so many lines of saving have been run."""
    model = onlinels.load(path) if path.exists() else begin()
    be_killed_at(line)
    while True:
        learn_next(model)
        model.save(path)


def be_killed_at(line):
    """Let this process kill itself when that many lines of saving have been run."""
    left = line

    def count(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in SAVING:
            return None
        left -= event == "line"
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)


def main(path):
    """Make a process for every line that comes, and say when it is dead."""
    for line in sys.stdin:
        number = os.fork()
        if not number:
            live(path, int(line))
        os.waitpid(number, 0)
        print("dead", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
