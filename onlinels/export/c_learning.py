"""What a header in C learns with: functions cut out of the headers of the core, and settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Matrix, refusal
from onlinels.devices import HEAD, device_weights, fingerprint
from onlinels.export.c_text import array_of, explained, filled, listed
from onlinels.linear.model import ready_state
from onlinels.linear.state import choice_of
from onlinels.pipelines import last_step

# -- functions of the core -------------------------------------------------------------------------

COMMENT = re.compile(r"(/\*.*?\*/)", re.DOTALL)

DEFINED = re.compile(
    r"^#define (\w+)|^\} (\w+);|\benum \{([^}]*)\}|^(?:static|INLINE|\w*KERNEL)\b[^({]*?(\w+)\(",
    re.MULTILINE,
)
"""Macros, types, enumerators and functions."""

PORTABLE_WORDS = {
    "SUM_KERNEL": "static inline",
    "KERNEL": "static inline",
    "INLINE": "static inline",
}
PORTABLE_WORDS |= {"static": "static inline", "RESTRICT": "__restrict", "REORDER": ""}
"""What stands for words that choose a compiler's options."""

IN_FLOAT = {
    "EPS": "1.1920929e-7",
    "MIN_EIGENVALUE_SOLVED": "1e-4",
    "MIN_EIGENVALUE_UNPENALISED": "1e-5",
}
"""Constants that depend on the precision: rounding, and the least eigenvalues that it leaves."""


class Piece(NamedTuple):
    """A definition with its comment, the names that it defines, and those that it uses."""

    text: str
    defines: frozenset[str]
    uses: frozenset[str]


def pieces_of(header: str) -> list[Piece]:
    """Return the definitions in a header of the core, except those that choose a compiler."""
    source, pieces = files("onlinels.core").joinpath(header).read_text("utf-8"), list[Piece]()
    for text in re.split(r"\n\n(?=[^\s}])|\n(?=#define)", source):
        code = COMMENT.sub("", text)
        defines = frozenset(re.findall(r"\w+", " ".join(map(" ".join, DEFINED.findall(code)))))
        if "#if" not in code and "#endif" not in code and not defines & PORTABLE_WORDS.keys():
            pieces.append(Piece(text, defines, frozenset(re.findall(r"\w+", code)) - defines))
    return pieces


def cut_out(
    headers: Iterable[str], roots: Iterable[str], prefix: str, names: Mapping[str, str]
) -> str:
    """Return functions of the core and all that they use, with a prefix before their names.

    `names` are those of other things, and other names for functions, without the prefix.
    """
    pieces = [piece for header in headers for piece in pieces_of(header)]
    needed, size = {*roots}, 0
    while size < len(needed):
        size = len(needed)
        needed.update(*(piece.uses for piece in pieces if piece.defines & needed))
    kept = [piece for piece in pieces if piece.defines & needed]
    own = {name for piece in kept for name in piece.defines}
    functions = {name for name in own if name.islower() and not name.endswith("_t")}

    def renamed(match: re.Match[str]) -> str:
        word, call = match.groups()
        if word in functions and not call:  # a field or argument
            return match[0]
        if word not in own and word not in names:
            return PORTABLE_WORDS.get(word, word) + call
        return f"{prefix.upper() if word.isupper() else prefix}_{names.get(word, word)}{call}"

    parts = COMMENT.split("\n\n".join(in_float(piece) for piece in kept))
    parts[::2] = [re.sub(r"\b([A-Za-z_]\w*)\b(\(?)", renamed, code) for code in parts[::2]]
    text = re.sub(r"\n +(?=\n)", "", "".join(parts))
    return re.sub(r"^(#define .*)\n\n(?=#define)", r"\1\n", text, flags=re.MULTILINE)


def in_float(piece: Piece) -> str:
    """Return a definition with its value in single precision."""
    name = next((name for name in piece.defines if name in IN_FLOAT), None)
    return piece.text if name is None else f"#define {name} {IN_FLOAT[name]}"


# -- settings --------------------------------------------------------------------------------------

MAX_FEATURES_LEARNT = 96
"""Features that a device learns at most: with 4 labels, their sums take 22 kB, or 42 kB exactly."""

MAX_FEATURES_SOLVED_THERE = 32
"""Features that a device solves for at most, in 6 kB."""

COLUMNS_AT_ONCE = 4
"""Columns of A'A in a panel, as in recursion.h."""

FUNCTIONS_OF_LABELS = "predict_label copy_label find_or_add"

FUNCTIONS = "begin learn_row seal is_sound send_learnt answers_of slots_of take_weights answering"
FUNCTIONS += " scores"

GIVEN = "value_t real tally_t counted_t expand exported_origin exported_weights exported_intercept"
GIVEN += " exported_labels RIDGE FINGERPRINT"
"""What functions of the core use beside sizes, and the header defines before them."""

RENAMED = {"send_learnt": "send", "predict_label": "predict", "find_or_add": "add_label"}


LABELS_TAKEN = {
    b"s": "have at most 30 bytes, in UTF-8",
    b"i": "are integers of 64 bits, without spaces, plus or leading zeros",
}
"""New labels, by the first letter of their type."""


def sizes_of(m: int, n: int, most: int, is_whole: bool) -> dict[str, int]:
    """Return numbers of features and outputs, and the sizes of sums and of memory to solve in."""
    starts = range(0, m, COLUMNS_AT_ONCE)
    size = sum(min(COLUMNS_AT_ONCE, m - k) * min(m, k + COLUMNS_AT_ONCE) for k in starts)
    memory = m + most + m * (m + most + 2 + COLUMNS_AT_ONCE)
    memory += is_whole * (m * m + m * most + 3 * most + 2 * m)
    return {"M": m, "N": n, "MOST": most, "N_PANELS": len(starts), "SIZE": size, "MEMORY": memory}


def bytes_of_sums(sizes: Mapping[str, int], is_whole: bool) -> int:
    """Return the bytes of the sums, but for padding."""
    m, most = sizes["M"], sizes["MOST"]
    n_columns, n_products, rest = m + most, m * most + most, 28 + sizes["ROOM_FOR_LABELS"]
    if is_whole:
        return rest + 12 * n_columns + 8 * (m * (m + 1) // 2 + n_products)
    return rest + 8 * n_columns + 4 * (sizes["SIZE"] + n_products)


def bytes_of_stack(sizes: Mapping[str, int], is_whole: bool, solves: bool) -> int:
    """Return about the bytes of the stack that solving or learning takes on a Cortex-M4."""
    m, most = sizes["M"], sizes["MOST"]
    if is_whole:
        return 12 * (m + most) + 550 if solves else 4 * (m + most) + 150
    return 16 * m + 12 * most + 500


class Export(NamedTuple):
    """A model in parts that a device needs to learn on."""

    sizes: dict[str, int]
    arrays: dict[str, Matrix]
    labels: bytes
    ridge: float
    solves: bool


def export_of(model: Any, room: int, is_whole: bool) -> Export:
    """Return the parts of a model; raise ValueError if a device cannot learn them."""
    last, content = last_step(model), device_weights(model, model, 1)
    _, _, _, m, n, flags, _, _, size = HEAD.unpack_from(content)
    labels = content[-4 - size : -4]
    if m > MAX_FEATURES_LEARNT:
        found, remedy = f"has {m} features", "Learn fewer, or pass learn=False."
        raise refusal("model", found, f"at most {MAX_FEATURES_LEARNT} to learn", remedy)
    if room and labels[:1] not in (b"s", b"i"):
        found, remedy = "came with a model that takes no new labels", "Pass room=0."
        raise refusal(f"room={room}", found, "labels that are str or int", remedy)
    with last._lock:
        ridge, units = choice_of(ready_state(last))
    numbers = np.frombuffer(content, "<f4", m + m * n + n, HEAD.size).astype(np.float32)
    parts: list[Matrix] = np.split(numbers, (m, m + m * n))
    arrays = dict(zip(("origin", "weights", "intercept"), parts, strict=True))
    arrays["labels"] = known = np.frombuffer(labels or b"\0", np.uint8)
    sizes = sizes_of(m, n, n + room, is_whole)
    sizes |= {"IS_CENTRED": flags & 1, "IS_CLASSIFIER": int(size > 0), "LETTER": int(known[0])}
    sizes |= {"IS_SCALED": int(units is not None), "SIZE_OF_LABELS": size}
    sizes |= {"ROOM_FOR_LABELS": len(known) + 32 * room}
    solves = m <= MAX_FEATURES_SOLVED_THERE and getattr(last, "priors", None) is None
    return Export(sizes, arrays, labels, ridge, solves)


def learning(
    model: Any, prefix: str, rows: str, room: int, expand: str, stack: int
) -> tuple[str, str]:
    """Return how to call what learns, and its code.

    `expand` is the code that makes features of a row, with arrays of `stack` bytes.
    """
    is_whole, given = rows == "int16", export_of(model, room, rows == "int16")
    kind, solves = "label" if given.labels else "target", ["solve"] * given.solves
    functions = [*FUNCTIONS.split(), *(FUNCTIONS_OF_LABELS.split() * bool(given.labels)), *solves]
    names = RENAMED | ({} if given.labels else {"scores": "predict"})
    names |= {name: name for name in (*given.sizes, *GIVEN.split())}
    headers = "recursion.h", "solve.h", "portable.h", "device.h"
    own = "device_whole.h" if is_whole else "device_single.h"
    values = {
        "prefix": prefix,
        "PREFIX": prefix.upper(),
        "value": "int16_t" if is_whole else "float",
        "m": given.sizes["M"],
        "numbers": listed(f"{prefix.upper()}_{name} = {n}" for name, n in given.sizes.items()),
        "ridge": repr(given.ridge),
        "mark": hex(fingerprint(model)),
        "ram": f"{bytes_of_sums(given.sizes, is_whole):,}",
        "stack": f"{bytes_of_stack(given.sizes, is_whole, given.solves) + stack:,}",
        "taken": LABELS_TAKEN.get(given.labels[:1]),
        "target": "label" if given.labels else "y",
    }
    parts = ["\n" + filled("settings", **values)]
    parts += [array_of(f"{prefix}_exported_{key}", each) for key, each in given.arrays.items()]
    parts += [expand or "\n" + filled("copy", **values), "\n"]
    parts += [cut_out([*headers, own], functions, prefix, names), "\n\n"]
    calls = ["calls_to_learn", f"calls_of_{kind}", *(["calls_to_solve"] * given.solves)]
    calls_of_all = "".join(filled(each, **values) for each in (*calls, "calls_of_slots"))
    notes = filled("notes_to_learn", **values)
    if room:
        notes += filled("note_of_labels", **values)
    code = "".join([*parts, filled(f"learn_{kind}", **values)])
    return explained(calls_of_all) + notes.rstrip("\n"), code
