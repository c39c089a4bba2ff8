"""What one browser has taught: a model, and a journal of lessons from which it comes back.

The journal holds one JSON line per event, flushed to the disk before an event is answered. It also
holds the drawings or photos, even those taken back: a model needs none of them, but to take a
lesson back, its drawing is needed. To delete the drawings, delete the folder.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import onlinels
from onlinels.lessons import suspects_of
from teach.kinds import DRAWINGS, Kind

MAX_CLASSES, MAX_LABEL = 50, 30
"""Most classes, and most characters of a label."""


def read_model(kind: Kind, content: bytes) -> Any:
    """Return the model in a file of this application; ValueError if it is none of this kind."""
    model = onlinels.loads(content)
    try:
        model = empty(kind).merge(model)
        row = kind.row(np.zeros(kind.shape, np.uint8))
        model.predict_many(row[None])  # Refuses images of another shape.
        if row.ndim == 1 and len(model.feature_names) not in (0, len(row)):
            raise ValueError("The model has learnt other embeddings.")
    except (TypeError, ValueError) as error:
        raise ValueError("The file holds no model that was downloaded here.") from error
    check_classes(model.classes)
    return model


def empty(kind: Kind) -> Any:
    """Return a model of a kind that has learnt nothing."""
    return kind.starts["empty"]().empty()


def check_classes(labels: Any) -> None:
    """Raise ValueError if there are too many classes, or one has no readable name."""
    for label in labels:
        # Emoji and some scripts join characters with these two, which are not printable.
        seen = str(label).replace("\u200c", "").replace("\u200d", "").strip()
        if not (seen.isprintable() and 1 <= len(seen) <= MAX_LABEL and isinstance(label, str)):
            raise ValueError(f"Name {label!r:.50}, expected 1 to {MAX_LABEL} readable characters.")
    if len(set(labels)) > MAX_CLASSES:
        raise ValueError(f"There are {len(set(labels))} classes, expected {MAX_CLASSES} at most.")


class Lesson(NamedTuple):
    """A label that was taught, the label predicted before, and the pixels in base64."""

    label: str
    guess: str | None
    image: str

    def pixels(self, kind: Kind) -> Any:
        """Return the image."""
        return np.frombuffer(b64decode(self.image), np.uint8).reshape(kind.shape)

    def shown(self, kind: Kind) -> dict[str, Any]:
        """Return what the page shows of the lesson."""
        return self._asdict() | kind.shown(self.pixels(kind))


class Session:
    """The model and the lessons of a browser, kept in a folder.

    `own` has learnt the lessons of this browser alone. `model`, which predicts, is the sum of the
    model at the start, `own`, and for every browser merged the latest copy of its `own`. So whoever
    merges twice, or in a circle, counts no lesson twice. To undo a merge, its copy is left out; to
    undo a lesson, `own` unlearns it, before and after merges.
    """

    def __init__(self, folder: Path, kind: Kind = DRAWINGS) -> None:
        self.kind = kind
        self.folder, self.number, self.in_doubt = folder, int(folder.name[:3]), False
        self.n_events = self.n_saved = 0
        self._carry_out("start", "empty")
        try:
            self._recover(folder / "journal.jsonl", folder / "own.npz")
        except Exception as error:
            raise ValueError(f"{folder} is damaged ({error!r}): restore or delete it") from error

    def _recover(self, journal: Path, save: Path) -> None:
        """Repeat the events of the journal; `own` has learnt those before its last save."""
        content = journal.read_bytes() if journal.exists() else b""
        # A kill may have torn the last line, which was never answered.
        *lines, torn = content.split(b"\n")
        self.n_bytes = len(content) - len(torn)
        saved: dict[str, Any] = onlinels.load(save) if save.exists() else {"n_events": 0}
        self.n_saved = saved["n_events"]
        if self.n_saved > len(lines):
            raise ValueError(f"{save.name} is newer than {journal.name}")
        for line in lines:
            self._carry_out(*json.loads(line))
            self.n_events += 1
            if self.n_events == self.n_saved:
                self.own = saved["own"]
        self._sum_up()
        if torn:
            os.truncate(journal, self.n_bytes)

    def commit(self, do: str, *values: Any, copy: Any = None) -> None:
        """Carry out an event, perhaps with a copy of a model, and return once it is on the disk.

        If this fails, the session is in doubt: only the journal knows what has happened.
        """
        self.in_doubt = True
        if copy is not None:
            values = *values, f"model-{self.n_events}.npz"
            onlinels.save(copy, self.folder / values[-1])
        self._carry_out(do, *values)
        if do == "teach":
            self.model.learn_one(self._row(self.lessons[self.n_events]), values[0])
        else:
            self._sum_up()
        with (self.folder / "journal.jsonl").open("ab") as file:
            if file.tell() != self.n_bytes:
                raise OSError("another server has written to the journal")
            self.n_bytes += file.write(json.dumps([do, *values]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.n_events += 1
        self.in_doubt = False

    def _carry_out(self, do: str, *values: Any) -> None:
        if do == "teach":
            self._put(self.n_events, Lesson(*values))
        elif do == "take back":
            self._put(values[0], None)
        elif do == "correct":
            self._put(values[0], self.lessons[values[0]]._replace(label=values[1]))
        elif do == "merge":
            self.merged[values[0]] = onlinels.load(self.folder / values[1])
        elif do == "part":
            del self.merged[values[0]]
        else:
            start = self.kind.starts.get(values[0])
            start = start or partial(onlinels.load, self.folder / values[0])
            self.first, self.own = start(), empty(self.kind)
            self.lessons: dict[int, Lesson] = {}
            self.merged: dict[int, Any] = {}

    def _put(self, number: int, lesson: Lesson | None) -> None:
        """Put a lesson, or none, in the place of a number, and of the lesson that is there."""
        old = self.lessons.get(number)
        if self.n_events >= self.n_saved:  # Otherwise, the save has learnt it.
            if lesson is not None:
                self.own.learn_one(self._row(lesson), lesson.label)
            if old is not None:
                self.own.unlearn_one(self._row(old), old.label)
        if lesson is None:
            del self.lessons[number]
        else:
            self.lessons[number] = lesson

    def _sum_up(self) -> None:
        """Make the model that predicts from its parts."""
        self.model = onlinels.merge(self.first, self.own, *self.merged.values())

    def _row(self, lesson: Lesson) -> Any:
        return self.kind.row(lesson.pixels(self.kind))

    def suspects(self) -> list[tuple[Any, ...]]:
        """Return the numbers of lessons that the others contradict, with labels and margins."""
        rows: Any = {number: (self._row(each), each.label) for number, each in self.lessons.items()}
        return [*suspects_of(self.model, rows)]
