"""What one browser has taught: a model, and a journal of lessons from which it comes back.

The journal holds one JSON line per event, flushed to the disk before an event is answered. It also
holds the drawings, also those taken back: a model needs none of them, but to take a lesson back, its
drawing is needed. To delete the drawings, delete the folder.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import onlinels
from onlinels import ShallowConvClassifier
from teach.drawing import SIDE, Image, digits

SAVED_EVERY = 100
"""Events from one save of the model to the next."""
MAX_CLASSES, MAX_LABEL = 50, 30

Event = dict[str, Any]


def untaught() -> ShallowConvClassifier:
    """Return a network whose features need no images: it learns and merges from the first image."""
    return ShallowConvClassifier.from_preset(
        "mnist",
        filters="hand-designed",
        input_weights="gaussian",
        n_hidden=500,
        ridge=40.0,
        priors="equal",
    )


@cache
def taught_digits() -> ShallowConvClassifier:
    """Return a network that has learnt scikit-learn's digits."""
    model = untaught()
    model.learn_many(*digits())
    return model


def read_model(content: bytes) -> ShallowConvClassifier:
    """Return the model in a file of this application; ValueError if it is none."""
    model = onlinels.loads(content)
    if type(model) is not ShallowConvClassifier:
        raise ValueError(f"The file holds a {type(model).__name__}, expected a model saved here.")
    for label in model.classes:
        read_label(label)
    check_classes(model.classes)
    model = untaught().merge(model)
    model.predict_proba_one(np.ones((SIDE, SIDE), dtype=np.uint8))  # It takes such images.
    return model


def read_label(label: Any) -> str:
    """Return the name of a class without spaces around it, checked."""
    name = " ".join(label.split()) if isinstance(label, str) else ""
    if not 1 <= len(name) <= MAX_LABEL or not name.isprintable():
        problem = f"The name is {label!r:.50}, expected 1 to {MAX_LABEL} printable characters."
        raise ValueError(problem)
    return name


def check_classes(classes: Any) -> None:
    if len(set(classes)) > MAX_CLASSES:
        raise ValueError(f"There would be {len(set(classes))} classes, expected {MAX_CLASSES}.")


@dataclass(frozen=True)
class Lesson:
    """A drawing, the label that was taught, and the label predicted before."""

    image: Image
    label: str
    guess: str | None


class Session:
    """The model and the lessons of a browser, kept in a folder.

    `own` has learnt the lessons of this browser alone. `model`, which predicts, is the sum of three
    kinds of models: the one at the start, `own`, and for every browser merged the latest copy of
    its `own`. So whoever merges twice, or in a circle, counts no lesson twice, a merge is taken back
    by leaving its copy out, and lessons are taken back by unlearning, before and after merges.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.n_events, self.start = 0, "empty"
        self.own = untaught()
        self.lessons: dict[int, Lesson] = {}
        self.merged: dict[int, ShallowConvClassifier] = {}
        self._read_journal()

    def _read_journal(self) -> None:
        """Repeat the events of the journal; the model has learnt those before its last save."""
        journal, save = self.folder / "journal.jsonl", self.folder / "own.npz"
        content = journal.read_bytes() if journal.exists() else b""
        # A kill may have torn the last line, which was never answered.
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(journal, len(whole))
        lines = whole.splitlines()
        saved = onlinels.load(save) if save.exists() else {"n_events": 0}
        if saved["n_events"] > len(lines):
            raise ValueError(f"{save} is newer than {journal}. Delete it, or restore the journal.")
        for line in lines:
            self._apply(json.loads(line), learn=self.n_events >= saved["n_events"])
            if self.n_events == saved["n_events"]:
                self.own = saved["own"]
        self._sum_up()

    def teach(self, image: Image, label: str) -> None:
        """Learn a drawing under a label."""
        check_classes((*self.model.classes, label))
        drawing = base64.b64encode(image.tobytes()).decode()
        guess = self.model.predict_one(image)
        self._commit({"do": "teach", "label": label, "guess": guess, "image": drawing})

    def take_back(self, number: int) -> None:
        """Unlearn a lesson."""
        if number not in self.lessons:
            raise ValueError("This lesson is already taken back.")
        self._commit({"do": "take back", "lesson": number})

    def merge(self, browser: int, other: Session) -> None:
        """Add what another browser has taught, in place of an earlier copy of it."""
        check_classes((*self.model.classes, *other.own.classes))
        name = self._save_copy(other.own)
        self._commit({"do": "merge", "browser": browser, "file": name})

    def part(self, browser: int) -> None:
        """Leave out what another browser has taught."""
        if browser not in self.merged:
            raise ValueError("This browser is not merged.")
        self._commit({"do": "part", "browser": browser})

    def start_over(self, start: str, model: ShallowConvClassifier | None = None) -> None:
        """Forget all lessons, and start with a model: "empty", "digits", or that of a file."""
        name = None if model is None else self._save_copy(model)
        self._commit({"do": "start", "with": start, "file": name})

    def _save_copy(self, model: ShallowConvClassifier) -> str:
        name = f"model-{self.n_events}.npz"
        onlinels.save(model, self.folder / name)
        return name

    def _commit(self, event: Event) -> None:
        """Carry out an event, and return once it is on the disk."""
        self._apply(event)
        if event["do"] == "teach":
            self.model.learn_one(self.lessons[self.n_events - 1].image, event["label"])
        else:
            self._sum_up()
        with (self.folder / "journal.jsonl").open("ab") as file:
            file.write(json.dumps(event).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if self.n_events % SAVED_EVERY == 0:
            state = {"n_events": self.n_events, "own": self.own}
            onlinels.save(state, self.folder / "own.npz")

    def _apply(self, event: Event, learn: bool = True) -> None:
        """Carry out an event in memory; without `learn`, the model has learnt it already."""
        do = event["do"]
        if do == "teach":
            pixels = np.frombuffer(base64.b64decode(event["image"]), dtype=np.uint8)
            lesson = Lesson(pixels.reshape(SIDE, SIDE), event["label"], event["guess"])
            self.lessons[self.n_events] = lesson
            if learn:
                self.own.learn_one(lesson.image, lesson.label)
        elif do == "take back":
            lesson = self.lessons[event["lesson"]]
            if learn:
                self.own.unlearn_one(lesson.image, lesson.label)
            del self.lessons[event["lesson"]]
        elif do == "merge":
            self.merged[event["browser"]] = onlinels.load(self.folder / event["file"])
        elif do == "part":
            del self.merged[event["browser"]]
        else:
            self.start, self.file = event["with"], event["file"]
            self.lessons, self.merged, self.own = {}, {}, untaught()
        self.n_events += 1

    def _sum_up(self) -> None:
        """Make the model that predicts from its parts."""
        if self.start == "empty":
            first = untaught()
        elif self.start == "digits":
            first = taught_digits()
        else:
            first = onlinels.load(self.folder / self.file)
        self.model = onlinels.merge(first, self.own, *self.merged.values())
