"""Hostile files: genuine ones of saved models, changed, or made to do harm."""

import copy
import io
import json
import time
import tracemalloc
import zipfile
from contextlib import suppress
from functools import cache

import numpy as np
from hypothesis import strategies as st

import onlinels
from onlinels.saving.description import MAX_COMPUTED_BYTES
from support import savable_models
from support.laws import saved

NUMBERS = (
    *(0, 1, 2, 3, 7, 32, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 2**24),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Sizes and counts that headers are made to state: small ones, and the ends of number types."""


def one_of(draw, things):
    return draw(st.sampled_from(things))


def any_number(draw):
    """Return one of `NUMBERS`, or one beside it."""
    return max(0, one_of(draw, NUMBERS) + draw(st.integers(-1, 1)))


def as_bytes(draw, number):
    """Return a number in a width and an order of bytes, whether it fits or not."""
    width = one_of(draw, (1, 2, 4, 4, 4, 8, 8))
    return (number % 256**width).to_bytes(width, one_of(draw, ("big", "little")))


def npy(array):
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=False)
    return file.getvalue()


def zip_of(members, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def stored(members):
    return zip_of(members, zipfile.ZIP_STORED)


DIRECTORY, END = b"PK\x01\x02", b"PK\x05\x06"
FIELDS = {DIRECTORY: (6, 8, 10, 16, 20, 24, 28, 30, 32, 42), END: (4, 8, 10, 12, 16, 20)}
"""Where the numbers of an entry of a zip file's directory lie, and of what ends it."""


DESCRIPTION = "model.json"
VALUES = (
    *(None, True, -1, 0, 1, 2, 10**6, 2**31, 2**63, 10**30, 0.5, -1.5, 1e308, "text", ""),
    *([], {}, [[]], {"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"int": "0x" + "f" * 5000}),
    *({"tuple": []}, {"dict": [[[], 1]]}, {"set": [[1]]}, {"range": [0, 10**30, 1]}),
    *({"same": 0}, {"same": 10**9}, {"array": "missing"}, {"constant": "unlabelled"}),
    *({"array": f"f8,{size}"} for size in (0, 1, 2**40, 2**62, "1,1,1,1")),
    *({"object": name, "number": 0, "state": {}} for name in ("Thread", "Lock", "Power")),
    {"object": "KFold", "number": 0, "state": {"n_folds": 3}},
    *({"deque": [1], "most": most} for most in (-1, 10**30)),
    *({"defaultdict": [], "of": of, "with": [1, 2]} for of in ("eval", "exec", "dict")),
    *({"bytes": "zz"}, {"bytes": "ff" * 60}, {"scalar": "|O", "is": 1}, {"unknown": 1}),
    *({"scalar": "<i8", "is": 2.5}, {"datetime": "yesterday"}),
)


MODELS = (
    *("hidden, float32", "gram, {}", "orthogonal, {}", "folds", "priors", "stream"),
    *("recursive, {'ridge': 1.0, 'fit_intercept': False}", "drift, ADWIN", "resampled"),
    *("answers only", "hidden, drawn", "network", "landmarks", "minirocket"),
    *("after OrdinalEncoder", "after RobustScaler", "numbers that wait"),
)
"""Of those in `savable_models`."""


@cache
def models_of(kind):
    """Return the names of the models of a class."""
    random = np.random.default_rng(0)
    return [name for name in MODELS if type(savable_models.MODELS[name][0](random)) is kind]


def use(model):
    """Let a model do what it may do: errors of Python are allowed, crashes are not."""
    for name in models_of(type(model)):
        with suppress(Exception):
            savable_models.MODELS[name][1](model, np.random.default_rng(0))


def members_of(content):
    """Return the members of a file by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


@cache
def genuine(name):
    """Return the members of the file of a model, which has learnt a little."""
    return members_of(saved(savable_models.learnt(name)))


BLOCK = "arrays.npy"
"""The member that holds the bytes of all arrays, one after the other, each padded to 8 bytes."""


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


def with_arrays(members, others):
    """Return the members of a file in which arrays, by number, are replaced by others."""
    said, arrays = json.loads(members[DESCRIPTION]), arrays_of(members)
    for number, node in enumerate(array_nodes(said)):
        array = others.get(number)
        if array is not None:
            by_column = array.ndim > 1 and array.flags.f_contiguous
            node["array"] = ",".join((array.dtype.str[1:], *map(str, array.shape)))
            node["array"] += "F" * by_column
            arrays[number] = array
    parts = [each.tobytes("A") + bytes(-each.nbytes % 8) for each in arrays]
    block = np.frombuffer(b"".join(parts), np.uint8)
    return members | {DESCRIPTION: json.dumps(said).encode(), BLOCK: npy(block)}


def rewritten(path, change, others=()):
    """Change a file's description, and other members."""
    members = members_of(path.read_bytes())
    said = json.dumps(change(json.loads(members[DESCRIPTION]))).encode()
    path.write_bytes(stored(members | dict(others) | {DESCRIPTION: said}))


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


def lie(draw):
    """Return a file whose description has one or two entries replaced or taken out."""
    members = genuine(one_of(draw, MODELS))
    said = json.loads(members[DESCRIPTION])
    for _ in range(draw(st.integers(1, 2))):
        path = one_of(draw, list(places(said)))
        holder, kind = within(said, path[:-1]), draw(st.integers(0, 3))
        if kind == 0:
            del holder[path[-1]]
        else:
            other = within(said, one_of(draw, list(places(said))))
            values = any_number(draw), one_of(draw, VALUES), other
            # Copied, since the next change may be made inside it.
            holder[path[-1]] = copy.deepcopy(values[kind - 1])
    return stored(members | {DESCRIPTION: json.dumps(said).encode()})


def other_array(draw):
    """Return a file of which one array has another shape, type or content."""
    members = genuine(one_of(draw, MODELS))
    number = draw(st.integers(0, len(arrays_of(members)) - 1))
    shape = [draw(st.integers(0, 5)) for _ in range(draw(st.integers(0, 3)))]
    value = one_of(draw, (0, 1, -1, 10**9))
    dtype = one_of(draw, ("<f8", "<i8", "|b1", "<f4", "|u1"))
    array = np.full(shape, value, float).astype(dtype)
    return stored(with_arrays(members, {number: array}))


def other_bytes(draw):
    """Return a file in which one to three pieces are replaced, taken out or put in."""
    content = bytearray(stored(genuine(one_of(draw, MODELS))))
    for _ in range(draw(st.integers(1, 3))):
        n = len(content)
        # Headers lie at both ends, where numbers begin at multiples of 4.
        start, end = one_of(draw, ((0, min(n, 96)), (max(0, n - 384), n), (0, n)))
        at = draw(st.integers(start, end)) & one_of(draw, (-4, -1))
        some = one_of(draw, (as_bytes(draw, any_number(draw)), draw(st.binary(max_size=16))))
        content[at : at + one_of(draw, (0, len(some), draw(st.integers(0, n))))] = some
    return bytes(content)


def zip_oddity(draw):
    """Return an archive that lies in its directory, is a bomb, or holds what is no array."""
    members = genuine(one_of(draw, MODELS))
    kind, name = draw(st.integers(0, 3)), one_of(draw, sorted(members))
    method = one_of(draw, (0, 8, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    if kind == 0:
        return zip_of(members | {name: bytes(8_000_000)}, method or zipfile.ZIP_DEFLATED)
    if kind == 1:
        odd = one_of(draw, (b"", b"no array", b"\x93NUMPY\1\0v\0" + b" " * 118))
        return zip_of(members | {name: odd}, method)
    content, mark = zip_of(members, method), one_of(draw, (DIRECTORY, END))
    at = content.index(mark) + one_of(draw, FIELDS[mark])
    number = as_bytes(draw, any_number(draw))
    return content[:at] + number + content[at + len(number) :]


FIXED_BYTES = 2 << 20
"""What may be allocated for any file: pieces of 1 MiB, errors, zlib's windows."""
FACTOR = 50
"""Bytes that may be allocated beside these for each byte of a file: JSON becomes objects."""


def read(content, path):
    """Read a file, and use what it holds: "read" or "refused"; all else is a failure."""
    path.write_bytes(content)
    refusal = model = None
    tracemalloc.start()
    started = time.process_time()
    try:
        model = onlinels.load(path)
    except ValueError as error:
        refusal = error
    finally:
        allocated = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # No assertion on a clock, but on whether it comes back at all.
    assert time.process_time() - started < 60.0
    # Input weights that are not in the file are drawn from a seed, or made of images.
    computes = any(name in content for name in (b"DrawnWeights", b"ImageLandmarks"))
    computed = 2 * MAX_COMPUTED_BYTES if computes else 0
    assert allocated <= FIXED_BYTES + FACTOR * len(content) + computed
    if refusal is None:
        use(model)
        return "read"
    assert str(path) in str(refusal)
    while refusal is not None:
        assert not isinstance(refusal, MemoryError)
        refusal = refusal.__cause__ or refusal.__context__
    return "refused"
