"""Files of models in which one saved number is another: every number of every class, by name."""

import json
from collections import defaultdict
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple
from zlib import crc32

import numpy as np

from support import savable_models
from support.untrusted_files import (
    DESCRIPTION,
    array_nodes,
    arrays_of,
    genuine,
    with_array,
    within,
    zip_of,
)

INFINITE = float("inf")
OTHER_NUMBERS = (
    *(-(10**12), 10**9, -1, 0, 1, 2**40, 2**63, -(2**63), 10**30),
    *(0.5, -1.5, 1e300, float("nan"), INFINITE, -INFINITE),
)
"""What a number of a description, or of an array, is made to be."""

VAST = 2**40
"""A side of an array that has no entries."""

OTHER_ARRAYS = {
    "float32": lambda array: array.astype(np.float32),
    "int64": lambda array: array.astype(np.int64),
    "float64": lambda array: array.astype(np.float64),
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "other order": lambda array: np.array(array, order="C" if array.flags.f_contiguous else "F"),
    "transposed": lambda array: array.T,
    "flat": np.ravel,
    "shorter": lambda array: array[:-1],
    "longer": lambda array: np.concatenate((array, array[-1:])),
    "narrower": lambda array: array[..., :-1],
    "without rows": lambda array: array[:0],
    "without rows, vast": lambda array: np.zeros((0, *array.shape[1:-1], VAST), array.dtype),
    "without columns, vast": lambda array: np.zeros((VAST, *array.shape[1:-1], 0), array.dtype),
}
"""What an array is made to be."""

PLACES = 0, 1, 2, 3, -1
"""Entries of arrays that are forged: the first ones of a row are often sizes and columns."""


class Forgery(NamedTuple):
    """A number of a model's file, by the name of its class and attribute, and what it becomes."""

    model: str
    name: str
    # Keys of a description.
    path: tuple
    # A place in an array, if the number is one of an array.
    place: int | None
    new: object

    def content(self):
        """Return the file of a model with another number, or another array."""
        said = json.loads(genuine(self.model)[DESCRIPTION])
        if not self.name.endswith("[]"):
            within(said["model"], self.path[:-1])[self.path[-1]] = self.new
            return zip_of(genuine(self.model) | {DESCRIPTION: json.dumps(said).encode()})
        node = within(said["model"], self.path)
        number = next(k for k, each in enumerate(array_nodes(said)) if each is node)
        array, new = arrays(self.model)[number], self.new
        if self.place is None:
            array = OTHER_ARRAYS[new](array)
        else:
            array = array.copy(order="K")
            if array.dtype.kind in "iu":
                # The nearest number of the type.
                limits = np.iinfo(array.dtype)
                new = limits.max if abs(new) == INFINITE or new != new else int(new)
                new = min(max(new, limits.min), limits.max)
            array[np.unravel_index(self.place, array.shape)] = new
        return with_array(genuine(self.model), number, array)


@cache
def arrays(model):
    return arrays_of(genuine(model))


@cache
def description(model):
    return json.loads(genuine(model)[DESCRIPTION])["model"]


def numbers_in(node, name="", path=()):
    """Yield (name, path) of every number and array of a description; a name has no places."""
    if isinstance(node, dict) and "object" in node:
        for attribute, part in node["state"].items():
            named = f"{node['object']}.{attribute}"
            yield from numbers_in(part, named, (*path, "state", attribute))
    elif isinstance(node, dict) and "array" in node:
        yield f"{name}[]", path
    elif isinstance(node, (dict, list)) and "same" not in node:
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            yield from numbers_in(part, name, (*path, key))
    elif type(node) in (int, float):
        yield name, path


def forgeries(model, name, path):
    """Return the forgeries of a number of a model; those that matter most come first."""
    if not name.endswith("[]"):
        return [Forgery(model, name, path, None, new) for new in OTHER_NUMBERS]
    word = within(description(model), path)["array"]
    shape = [int(side) for side in word.rstrip("F").split(",")[1:]]
    places = dict.fromkeys(place % prod(shape) for place in PLACES if prod(shape))
    return [
        *(Forgery(model, name, path, place, new) for new, place in product(OTHER_NUMBERS, places)),
        *(Forgery(model, name, path, None, new) for new in OTHER_ARRAYS if shape),
    ]


def all_forgeries():
    """Return all forgeries of every number, in the first, the middle and the last of its models."""
    return [
        forgery
        for found in numbers_by_name().values()
        for model, name, path in dict.fromkeys((found[0], found[len(found) // 2], found[-1]))
        for forgery in forgeries(model, name, path)
    ]


def some_forgeries(n_first=2):
    """Return a few forgeries of every number, in the smallest file that has it.

    Others are drawn by a hash of the name, so that the draw is the same anywhere.
    """
    chosen = []
    for found in numbers_by_name().values():
        each = min((forgeries(*one) for one in found), key=cost_of)
        chosen += [*each[:n_first], each[crc32(each[0].name.encode()) % len(each)]]
    return chosen


def cost_of(forgeries):
    """Return a number that is smaller for a model that is better to forge a number of."""
    is_empty = len(forgeries) <= len(OTHER_ARRAYS)
    return is_empty, sum(map(len, genuine(forgeries[0].model).values()))


@cache
def numbers_by_name():
    """Return the models and paths (model, name, path) of all numbers, by the numbers' names."""
    numbers = defaultdict(list)
    for model in savable_models.MODELS:
        # The first place of each.
        for name, path in dict(reversed([*numbers_in(description(model))])).items():
            numbers[name].append((model, name, path))
    return numbers
