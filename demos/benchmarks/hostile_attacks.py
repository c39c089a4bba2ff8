"""Files that were made to do harm: bombs, sizes that are not true, types that are no numbers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache

import numpy as np
from hostile_changes import NUMBERS, Choices, any_number, as_bytes, one_of
from hostile_formats import (
    FILTERS,
    IMAGE_ARRAYS,
    METHODS,
    NORB_BYTES,
    NORB_NUMBERS,
    big_endian,
    deflated_element,
    npy,
    words,
    zip_of,
)

Crafted = Callable[[Choices], bytes]

BOMB = 8_000_000
"""Zeros that some compressed files hold in a few thousand bytes."""


def sizes(choices: Choices, most: int) -> list[int]:
    return [any_number(choices) for _ in range(int(choices.integers(0, most + 1)))]


def idx_of_any_shape(choices: Choices) -> bytes:
    shape = one_of(choices, (sizes(choices, 4), sizes(choices, 4), [1] * 255))
    n_dimensions = one_of(choices, (len(shape), 0, 255))
    return bytes([0, 0, 8, n_dimensions]) + big_endian(*shape) + data(choices)


def norb_of_any_shape(choices: Choices) -> bytes:
    shape = sizes(choices, 8)
    n_dimensions = one_of(choices, (len(shape), 0, -1, 8, 2**31))
    magic = one_of(choices, (NORB_BYTES, NORB_NUMBERS))
    return words(magic, n_dimensions, *shape, 1, 1) + data(choices)


def data(choices: Choices) -> bytes:
    return bytes(one_of(choices, (0, 1, 60, 5000)))


def in_gzip(craft: Crafted) -> Crafted:
    return lambda choices: gzip.compress(craft(choices), 1, mtime=0)


@cache
def gzip_bomb(start: bytes) -> bytes:
    return gzip.compress(start + bytes(BOMB), 1, mtime=0)


def gzip_oddity(choices: Choices, start: bytes, honest: bytes) -> bytes:
    """Return a bomb whose header states less or as much, many members, or gzip in gzip."""
    kind = int(choices.integers(0, 5))
    if kind < 2:
        return gzip_bomb((start, honest)[kind])
    member = gzip.compress(b"", mtime=0)
    if kind == 2:
        return gzip.compress(start[:4], mtime=0) + member * int(choices.integers(0, 500))
    if kind == 3:
        return gzip.compress(gzip_bomb(start), mtime=0)
    # A name that never ends.
    return member[:3] + b"\x08" + member[4:10] + b"x" * one_of(choices, NUMBERS[:14])


MATLAB_HEADER = b"MATLAB 5.0 MAT-file".ljust(124) + bytes([0, 1]) + b"IM"


def matlab_of_any_shape(choices: Choices) -> bytes:
    """Return elements that state what they like, compressed or not, or thousands of them."""
    element = matlab_element(choices, b"X")
    kind = int(choices.integers(0, 4))
    if kind == 0:
        return MATLAB_HEADER + deflated_element(element + bytes(one_of(choices, (0, 9, 10**6))))
    if kind == 1:
        return MATLAB_HEADER + (words(14, 16) + bytes(16)) * one_of(choices, NUMBERS[:11])
    return MATLAB_HEADER + element + matlab_element(choices, b"y")


def matlab_element(choices: Choices, name: bytes) -> bytes:
    shape = [32, 32, 3, any_number(choices)] if name == b"X" else [any_number(choices), 1]
    stated = one_of(choices, (int(np.prod(shape, dtype=object)), any_number(choices)))
    parts = [
        words(6, 8, 9, 0),
        words(5, 4 * len(shape)) + words(*shape),
        words(1, any_number(choices) if choices.integers(0, 4) == 0 else 1) + name.ljust(8, b"\0"),
        words(one_of(choices, (2, 2, 9, 0, 99)), stated) + data(choices),
    ]
    content = b"".join(parts)
    length = one_of(choices, (len(content), len(content), any_number(choices)))
    return words(14, length) + content


DESCRIPTIONS = (
    *("'<f8'", "'>f4'", "'|u1'", "'|b1'", "'<U2'", "'<U999999999'", "'|S0'", "'|V8'", "'|O'"),
    *("'<M8[ns]'", "[('a', '<f8'), ('b', '|O')]", "('<f8', (1000, 1000, 1000))", "'\\d'", "'<f16'"),
    *(
        "[" * 3000,
        "-" * 6000 + "1",
        "(" * 150 + ")" * 150,
        "__import__('os').abort()",
        "1if 1else 2",
    ),
)


def npy_of_any_shape(choices: Choices) -> bytes:
    """Return an array file with a header of any type, shape, length and version."""
    shape = ", ".join(str(size) for size in sizes(choices, 4))
    shape = one_of(
        choices, (f"({shape},)", f"({shape},)", "(-1, -1)", "(3L,)", "()", shape, "(" * 99)
    )
    order = one_of(choices, ("False", "True", "None", "'C'"))
    description = one_of(choices, DESCRIPTIONS)
    header = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}"
    header += one_of(choices, ("\n", " " * 60_000, "", "#", ", 'more': 1"))
    version = one_of(choices, ((1, 2), (2, 4), (3, 4), (9, 4)))
    length = one_of(choices, (len(header), len(header), any_number(choices)))
    n_length = version[1]
    stated: bytes = (length % 256**n_length).to_bytes(n_length, "little")
    start = b"\x93NUMPY" + bytes([version[0], 0]) + stated
    return start + header.encode() + data(choices)


@cache
def npy_bomb() -> bytes:
    return npy(np.zeros((1, BOMB), np.uint8))


@cache
def bombed(name: str, method: int) -> bytes:
    return zip_of(IMAGE_ARRAYS | {"weights.npy": npy_bomb(), name: npy_bomb()}, method)


DIRECTORY, END = b"PK\x01\x02", b"PK\x05\x06"
FIELDS = {DIRECTORY: (6, 8, 10, 16, 20, 24, 28, 30, 32, 42), END: (4, 8, 10, 12, 16, 20)}
"""Where the numbers of an entry of a zip file's directory lie, and of what ends it."""


def zip_oddity(choices: Choices) -> bytes:
    """Return an archive that lies in its directory, is a bomb, or holds what is no array."""
    kind, name = int(choices.integers(0, 8)), one_of(choices, (*IMAGE_ARRAYS, "weights.npy"))
    if kind == 0:
        return bombed(name, one_of(choices, METHODS[1:]))
    members = IMAGE_ARRAYS if name != "weights.npy" else {"weights.npy": FILTERS}
    if kind == 1:
        odd = one_of(choices, (b"", b"no array", npy_of_any_shape(choices)))
        return zip_of(members | {name: odd}, one_of(choices, METHODS))
    if kind == 2:
        return zip_of({"x_train.npy": zip_of(members, METHODS[1])}, METHODS[1])
    return in_directory(zip_of(members, one_of(choices, METHODS)), choices)


def in_directory(content: bytes, choices: Choices) -> bytes:
    mark = one_of(choices, (DIRECTORY, DIRECTORY, END))
    at = content.index(mark)
    for _ in range(int(choices.integers(0, 4))):
        at = max(at, content.find(mark, at + 1))
    at += one_of(choices, FIELDS[mark])
    number = as_bytes(choices, any_number(choices))
    return content[:at] + number + content[at + len(number) :]
