"""Processes that learn and save in a loop until they are killed; run as a script, it makes them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import onlinels
from onlinels import LeastSquaresClassifier

N_FEATURES = 12


def learn_next(model):
    """Learn the batch that follows: a function of how many rows were learnt."""
    random = np.random.default_rng(model.count)
    model.learn_many(random.normal(size=(10, N_FEATURES)), random.integers(0, 3, 10))


def begin():
    return LeastSquaresClassifier(accumulator="recursive", ridge=1.0)


def live(path):
    """Go on from the file, if there is one, for ever."""
    model = onlinels.load(path) if path.exists() else begin()
    while True:
        learn_next(model)
        model.save(path)


def main(path):
    """Make a process for every line that comes, say its number, and say when it is dead."""
    for _ in sys.stdin:
        number = os.fork()
        if not number:
            live(path)
        print(number, flush=True)
        os.waitpid(number, 0)
        print("dead", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
