"""Names, texts and numbers in C."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, count
from string import Template
from typing import Any

import numpy as np

from onlinels.checks import Matrix, refusal


@cache
def _templates() -> dict[str, Template]:
    text = files("onlinels.export").joinpath("header.template").read_text("utf-8")
    _, *parts = re.split(r"^==== (\w+) ====\n", text, flags=re.MULTILINE)
    return {name: Template(part) for name, part in zip(parts[::2], parts[1::2], strict=True)}


def filled(template: str, **values: Any) -> str:
    """Return a text of header.template with names replaced by values."""
    return _templates()[template].substitute(values)


def explained(calls: str) -> str:
    """Return calls, with what they do in a column beside them, as lines of a comment."""
    pairs = [line.split(" |") for line in calls.splitlines()]
    width = max(len(call) for call, _ in pairs)
    return "\n".join(f" *     {call:{width}} {what}".rstrip() for call, what in pairs)


UNQUOTED = re.compile(r"[A-Za-z0-9 _.,:;()+=<>@#/-]")
"""What stands for itself in strings and comments: no trigraph begins, and no comment ends."""


def quoted(text: str) -> str:
    r"""Return a text as a string of C, which may also stand in a comment.

    Examples
    --------
    >>> print(quoted('a "*/" 1'))
    "a \042\052/\042 1"
    """
    if re.search("[\0\ud800-\udfff]", text):
        found, remedy = "holds a NUL or half a character", "Rename the feature, label or target."
        raise refusal(f"The name {text!r}", found, "text that C and UTF-8 can hold", remedy)
    # Three octal digits are a whole escape, whatever follows.
    characters = (chr(byte) for byte in text.encode())
    return '"' + "".join(c if UNQUOTED.match(c) else f"\\{ord(c):03o}" for c in characters) + '"'


def enumerators(stem: str, texts: Iterable[str]) -> list[str]:
    """Return distinct names of C for texts: a stem, and what the text has of letters and digits.

    Examples
    --------
    >>> enumerators("fan_label", ["off", "Off!", "-1", "?"])
    ['FAN_LABEL_OFF', 'FAN_LABEL_OFF_2', 'FAN_LABEL_MINUS_1', 'FAN_LABEL']
    """
    names = dict[str, None]()
    for text in texts:
        words = re.findall("[A-Z0-9]+", re.sub(r"^-(?=\d)", "MINUS ", text.upper()))
        own = "_".join([stem.upper(), *words])
        candidates = chain([own], (f"{own}_{number}" for number in count(2)))
        names[next(name for name in candidates if name not in names)] = None
    return [*names]


def listed(items: Iterable[str], indent: str = "    ") -> str:
    """Return items with commas between them, in lines of at most 100 characters if they fit."""
    lines = [indent]
    for item in items:
        if len(lines[-1]) + len(item) > 98 and lines[-1] != indent:
            lines.append(indent)
        lines[-1] += f"{item}, "
    return "\n".join(line[:-1] for line in lines)[:-1]


TYPES_OF_C = {
    "float32": ("float", "f"),
    "int8": ("int8_t", ""),
    "uint8": ("uint8_t", ""),
    "uint32": ("uint32_t", "u"),
}
"""Types of C, and what ends their numbers."""


def array_of(name: str, values: Matrix) -> str:
    """Return the definition of a constant array: a row of a matrix begins a new line."""
    kind, suffix = TYPES_OF_C[values.dtype.name]
    rows = [listed(f"{number!s}{suffix}" for number in row) for row in np.atleast_2d(values)]
    numbers = ",\n".join(rows).replace("-inff", "-INFINITY")
    return f"\nstatic const {kind} {name}[{values.size}] = {{\n{numbers}\n}};\n"


def named(prefix: str, kind: str, texts: Sequence[str]) -> str:
    """Return the texts of features, labels or targets as an array, and names for their numbers."""
    strings, size = listed(map(quoted, texts)), f"{prefix}_n_{kind}s".upper()
    array = f"static const char *const {prefix}_{kind}s[{size}] = {{\n{strings}\n}};\n"
    text = f"\nenum {{ {size} = {len(texts)} }};\n{array}"
    if kind != "feature":
        numbers = listed(enumerators(f"{prefix}_{kind}", texts))
        text += f"enum {prefix}_{kind} {{\n{numbers}\n}};\n"
    return text
