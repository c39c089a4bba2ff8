"""Files of saved models, taken apart, and put together with other parts."""

import io
import json
import zipfile
from functools import cache

import numpy as np

from support import savable_models
from support.laws import saved

DESCRIPTION = "model.json"
BLOCK = "arrays.npy"
"""The member that holds the bytes of all arrays, one after the other, each padded to 8 bytes."""


def npy(array):
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=False)
    return file.getvalue()


def zip_of(members, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def members_of(content):
    """Return the members of a file by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


@cache
def genuine(name):
    """Return the members of the file of a model, which has learnt a little."""
    return members_of(saved(savable_models.learnt(name)))


def array_nodes(node):
    """Yield what a description says of every array, in the order of the block."""
    if isinstance(node, dict) and isinstance(node.get("array"), str):
        yield node
    elif isinstance(node, (dict, list)):
        for part in node.values() if isinstance(node, dict) else node:
            yield from array_nodes(part)


def arrays_of(members):
    """Return the arrays of a file, in the order of its block."""
    block, start, found = np.load(io.BytesIO(members[BLOCK])).tobytes(), 0, []
    for node in array_nodes(json.loads(members[DESCRIPTION])):
        code, *sides = node["array"].removesuffix("F").split(",")
        order = "F" if node["array"].endswith("F") else "C"
        found.append(np.ndarray(tuple(map(int, sides)), code, block, start, None, order))
        start += found[-1].nbytes + -found[-1].nbytes % 8
    assert start == len(block)
    return found


def with_array(members, number, array):
    """Return a file in which an array, by its number, is replaced by another."""
    said, arrays = json.loads(members[DESCRIPTION]), arrays_of(members)
    node, arrays[number] = [*array_nodes(said)][number], array
    by_column = array.ndim > 1 and array.flags.f_contiguous
    node["array"] = ",".join((array.dtype.str[1:], *map(str, array.shape))) + "F" * by_column
    parts = [each.tobytes("A") + bytes(-each.nbytes % 8) for each in arrays]
    block = npy(np.frombuffer(b"".join(parts), np.uint8))
    return zip_of(members | {DESCRIPTION: json.dumps(said).encode(), BLOCK: block})


def rewritten(path, change):
    """Change the description in a file."""
    members = members_of(path.read_bytes())
    said = json.dumps(change(json.loads(members[DESCRIPTION]))).encode()
    path.write_bytes(zip_of(members | {DESCRIPTION: said}))


def places(node, path=()):
    """Yield the paths to all that a description holds."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def within(said, path):
    for key in path:
        said = said[key]
    return said
