"""What one browser has taught: a model, and a journal of lessons from which it comes back.

The journal holds one JSON line per event, flushed to the disk before an event is answered. It also
holds the drawings, even those taken back: a model needs none of them, but to take a lesson back,
its drawing is needed. To delete the drawings, delete the folder.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import onlinels
from onlinels import ShallowConvClassifier
from teach.drawing import SIDE, digits

SAVED_EVERY, MAX_CLASSES, MAX_LABEL = 100, 50, 30
"""Events from one save to the next; most classes; most characters of a label."""


@cache
def blank() -> ShallowConvClassifier:
    """Return a network that predicts from the first image, because no feature is made of images."""
    settings: dict[str, Any] = {
        "filters": "hand-designed",
        "input_weights": "gaussian",
        "n_hidden": 500,
    }
    model = ShallowConvClassifier.from_preset("mnist", **settings, ridge=100.0, priors="equal")
    model.transform_many(np.zeros((1, SIDE, SIDE)))  # Draws the input weights, which empty() keeps.
    return model


@cache
def taught_digits() -> ShallowConvClassifier:
    """Return a network that has learnt scikit-learn's digits."""
    model = blank().empty()
    model.learn_many(*digits())
    return model


def read_model(content: bytes) -> ShallowConvClassifier:
    """Return the model in a file of this application; ValueError if it is none."""
    model = onlinels.loads(content)
    if type(model) is not ShallowConvClassifier:
        raise ValueError(f"The file holds a {type(model).__name__}, expected a model saved here.")
    check_classes(model.classes)
    model = blank().empty().merge(model)
    model.predict_many(np.zeros((1, SIDE, SIDE)))  # Refuses images of another shape.
    return model


def check_classes(labels: Any) -> None:
    """Raise ValueError if there are too many classes, or one has no readable name."""
    for label in labels:
        text = label if isinstance(label, str) else ""
        if not (text.isprintable() and 1 <= len(text.strip()) <= MAX_LABEL):
            problem = f"The name of a class is {label!r:.50}, expected 1 to {MAX_LABEL} readable"
            raise ValueError(f"{problem} characters. Choose another name.")
    if len(set(labels)) > MAX_CLASSES:
        raise ValueError(f"There are {len(set(labels))} classes, expected {MAX_CLASSES} at most.")


class Lesson(NamedTuple):
    """A label that was taught, the label predicted before, and the pixels in base64."""

    label: str
    guess: str | None
    image: str

    @property
    def pixels(self) -> Any:
        """The image (28, 28)."""
        return np.frombuffer(b64decode(self.image), np.uint8).reshape(SIDE, SIDE)


class Session:
    """The model and the lessons of a browser, kept in a folder.

    `own` has learnt the lessons of this browser alone. `model`, which predicts, is the sum of the
    model at the start, `own`, and for every browser merged the latest copy of its `own`. So whoever
    merges twice, or in a circle, counts no lesson twice. To undo a merge, its copy is left out; to
    undo a lesson, `own` unlearns it, before and after merges.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.n_events = folder, 0
        self._start("empty", None)
        self._recover(folder / "journal.jsonl", folder / "own.npz")

    def _recover(self, journal: Path, save: Path) -> None:
        """Repeat the events of the journal; `own` has learnt those before its last save."""
        content = journal.read_bytes() if journal.exists() else b""
        # A kill may have torn the last line, which was never answered.
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(journal, len(whole))
        self.n_bytes, lines = len(whole), whole.splitlines()
        saved: dict[str, Any] = onlinels.load(save) if save.exists() else {"n_events": 0}
        if saved["n_events"] > len(lines):
            raise ValueError(
                f"{save} is newer than {journal}. Restore the journal, or delete both."
            )
        for self.n_events, line in enumerate(lines):
            self._carry_out(*json.loads(line), learns=self.n_events >= saved["n_events"])
            if self.n_events + 1 == saved["n_events"]:
                self.own = saved["own"]
        self.n_events = len(lines)
        self._sum_up()

    def commit(self, do: str, *values: Any) -> None:
        """Carry out an event, and return once it is on the disk."""
        self._carry_out(do, *values)
        if do == "teach":
            self.model.learn_one(self.lessons[self.n_events].pixels, values[0])
        else:
            self._sum_up()
        with (self.folder / "journal.jsonl").open("ab") as file:
            if file.tell() != self.n_bytes:
                raise OSError("another server has written to the journal")
            self.n_bytes += file.write(json.dumps([do, *values]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.n_events += 1
        if self.n_events % SAVED_EVERY == 0:
            onlinels.save({"n_events": self.n_events, "own": self.own}, self.folder / "own.npz")

    def commit_copy(self, do: str, name: Any, model: ShallowConvClassifier) -> None:
        """Carry out an event with a model, of which a copy is saved before."""
        file = f"model-{self.n_events}.npz"
        onlinels.save(model, self.folder / file)
        self.commit(do, name, file)

    def _carry_out(self, do: str, *values: Any, learns: bool = True) -> None:
        if do == "teach":
            lesson = self.lessons[self.n_events] = Lesson(*values)
            if learns:
                self.own.learn_one(lesson.pixels, lesson.label)
        elif do == "take back":
            if values[0] not in self.lessons:
                raise ValueError("This lesson is already taken back.")
            if learns:
                self.own.unlearn_one(self.lessons[values[0]].pixels, self.lessons[values[0]].label)
            del self.lessons[values[0]]
        elif do == "merge":
            self.merged[values[0]] = onlinels.load(self.folder / values[1])
        elif do == "part":
            self.merged.pop(values[0], None)
        else:
            self._start(*values)

    def _start(self, start: str, file: str | None) -> None:
        """Forget all lessons, and start "empty", with "digits", or with the model of a "file"."""
        if file is None:
            self.first = taught_digits() if start == "digits" else blank()
        else:
            self.first = onlinels.load(self.folder / file)
        self.own = blank().empty()
        self.lessons: dict[int, Lesson] = {}
        self.merged: dict[int, ShallowConvClassifier] = {}

    def _sum_up(self) -> None:
        """Make the model that predicts from its parts."""
        self.model: ShallowConvClassifier = onlinels.merge(
            self.first, self.own, *self.merged.values()
        )
