"""Results of long benchmarks, a line of JSON per finished run: an interruption costs one run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onlinels import __version__

Key = Mapping[str, Any]


def data_key(name: str, n_train: int, n_test: int) -> dict[str, Any]:
    """Return what keys tell data by, wherever they lie, and the version that learns them."""
    return {"data": name, "images": [n_train, n_test], "version": __version__}


class ResultsFile:
    """Find and add results of runs by what defines them.

    A line that was cut short by an interruption counts as not there.

    Raises
    ------
    ValueError
        If the file holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = _read(path)

    def find(self, key: Key) -> dict[str, Any] | None:
        """Return the result of the run with this key, None if it has not finished yet."""
        for line in self._lines:
            if line["run"] == dict(key):
                return dict(line["result"])
        return None

    def matching(self, part: Key) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield keys and results of the runs whose keys hold all of this, as they were added."""
        for line in self._lines:
            if all(line["run"].get(name) == value for name, value in part.items()):
                yield dict(line["run"]), dict(line["result"])

    def add(self, key: Key, result: Mapping[str, Any]) -> None:
        """Write down a finished run."""
        line = {"run": dict(key), "result": dict(result)}
        self._lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.read_text("utf-8") if self.path.exists() else ""
        cut_short = bool(written) and not written.endswith("\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * cut_short + json.dumps(line) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = []
    for text in path.read_text("utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            if text.startswith('{"run"'[: len(text)]):
                continue
            line = None
        if not isinstance(line, dict) or line.keys() != {"run", "result"}:
            raise ValueError(f"{path} is no file of results: {text[:60]!r}. Name another.")
        lines.append(line)
    return lines
