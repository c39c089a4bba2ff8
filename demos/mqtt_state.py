"""One file holds the whole state; after a kill or a power cut it is the old one or the new one.

`onlinels.save` sees to that: it brings a new file to the disk and then puts it in the place of the
old one, so model and counts are always of the same moment. The file holds numbers and text, no
code: the function before the layers is not in it, and the pipeline is made anew around them. A
lock, which the system releases when its process ends, keeps a second learner from the same file
(on POSIX systems). Only `save_state` and `load_state` know what is in the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mqtt_join import Join
from mqtt_learner import Learner, Predicted
from mqtt_messages import Key
from mqtt_model import layers_of, make_pipeline

import onlinels

COUNTS = {"learnt": int, "right": int, "duplicates": int, "refused": int, "last_refusal": str}
PARTS: dict[str, type] = {
    "hidden": onlinels.HiddenLayer,
    "classifier": onlinels.LeastSquaresClassifier,
    "outbox": dict,
    "recent": list,
    "join": dict,
    **COUNTS,
}
"""What is in a state, all of it on the disk together."""


def save_state(path: Path, learner: Learner) -> None:
    """Replace the state on disk; when this returns, it would outlive a power cut.

    Raises
    ------
    OSError
        If it cannot be written; the old state is untouched.
    """
    hidden, classifier = layers_of(learner.model)
    parts = {
        "hidden": hidden,
        "classifier": classifier,
        "outbox": learner.outbox,
        "recent": list(learner.recent),
        "join": learner.join.parts(_write_waiting),
    }
    onlinels.save(parts | {name: getattr(learner, name) for name in COUNTS}, path)


def load_state(path: Path) -> Learner | None:
    """Return the state that was saved last, or None if there is none yet.

    Raises
    ------
    ValueError
        If the file holds something else.
    """
    try:
        found = onlinels.load(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{error} Or move it away, to begin anew.") from error
    if not _is_state(found):
        raise ValueError(
            f"{path} holds {type(found).__name__}, expected a dict of a learner's parts: "
            f"{', '.join(PARTS)}. Move it away."
        )
    learner = Learner()
    learner.model = make_pipeline(found["hidden"], found["classifier"])
    learner.outbox = found["outbox"]
    learner.recent.extend(found["recent"])
    learner.join = Join.of(found["join"], _read_waiting)
    for name in COUNTS:
        setattr(learner, name, found[name])
    return learner


def _write_waiting(readings: dict[Key, Predicted]) -> str:
    # Of what a file may hold, one text is the fastest: 10,000 readings value by value, a quarter of
    # a million of them, take a third of a second, which is too long for every save.
    return json.dumps([[*key, each.values, each.label] for key, each in readings.items()])


def _read_waiting(text: str) -> dict[Key, Predicted]:
    return {
        (sensor, number): Predicted(values, label)
        for sensor, number, values, label in json.loads(text)
    }


def _is_state(found: Any) -> bool:
    return (
        type(found) is dict
        and found.keys() == PARTS.keys()
        and all(type(found[name]) is expected for name, expected in PARTS.items())
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the state for this process alone.

    Raises
    ------
    BlockingIOError
        If another process holds it.
    """
    with open(path.with_name(path.name + ".lock"), "w") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
