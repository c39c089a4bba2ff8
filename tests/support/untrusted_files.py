"""Hostile files: genuine ones of saved models, changed, or made to do harm."""

import copy
import io
import json
import time
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

import onlinels
from onlinels.saving.classes import MAX_COMPUTED_BYTES
from support import savable_models
from support.laws import saved

NUMBERS = (
    *(0, 1, 2, 3, 7, 32, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 2**24),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Sizes and counts that headers are made to state: small ones, and the ends of number types."""


@dataclass
class Drawn:
    """What decides how a file is changed, drawn so that failing files get simpler.

    Of numpy's random generators it has what is needed here; these decide in long runs.
    """

    draw: Any

    def integers(self, low, high):
        return self.draw(st.integers(low, high - 1))

    def bytes(self, length):
        return self.draw(st.binary(min_size=length, max_size=length))


def one_of(choices, things):
    return things[int(choices.integers(0, len(things)))]


def any_number(choices):
    """Return one of `NUMBERS`, or one beside it."""
    return max(0, one_of(choices, NUMBERS) + int(choices.integers(-1, 2)))


def as_bytes(choices, number):
    """Return a number in a width and an order of bytes, whether it fits or not."""
    width = one_of(choices, (1, 2, 4, 4, 4, 8, 8))
    return (number % 256**width).to_bytes(width, one_of(choices, ("big", "little")))


EDGE = 96  # Bytes at both ends that are changed more often: headers lie there.


def changed(content, choices):
    """Return content changed in one to three ways."""
    for _ in range(int(choices.integers(1, 4))):
        content = change(content, choices)
    return content


def place(content, choices):
    """Return a place in content: near its beginning, near its end, or anywhere."""
    n = len(content)
    start, end = one_of(choices, ((0, min(n, EDGE)), (max(0, n - 4 * EDGE), n), (0, n)))
    return int(choices.integers(start, end + 1))


def some_bytes(choices):
    length = int(choices.integers(1, 17))
    fill = one_of(choices, (b"\0", b"\xff", b"(", b"'", b"9", b""))
    return fill * length if fill else choices.bytes(length)


def change(content, choices):
    """Return content cut, with other bytes or numbers in it, or noise."""
    kind, at = int(choices.integers(0, 11)), place(content, choices)
    before, after, some = content[:at], content[at:], some_bytes(choices)
    if kind >= 8:
        # Where numbers lie in most formats, or anywhere.
        at &= one_of(choices, (-4, -4, -1))
        number = as_bytes(choices, any_number(choices))
        return content[:at] + number + content[at + len(number) :]
    turned = bytes([after[0] ^ 1 << int(choices.integers(0, 8))]) if after else b""
    return (
        before,
        after,
        before + turned + after[1:],
        before + some + after[len(some) :],
        before + some + after,
        before + after[len(some) :],
        content[: at + int(choices.integers(1, 2 * EDGE))] + after,
        content[: int(choices.integers(0, 17))] + choices.bytes(int(choices.integers(0, 300))),
    )[kind]


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


def sizes(choices, most):
    return [any_number(choices) for _ in range(int(choices.integers(0, most + 1)))]


DESCRIPTIONS = (
    *("'<f8'", "'>f4'", "'|u1'", "'|b1'", "'<U2'", "'<U999999999'", "'|S0'", "'|V8'", "'|O'"),
    *("'<M8[ns]'", "[('a', '<f8'), ('b', '|O')]", "('<f8', (1000, 1000, 1000))", "'\\d'", "'<f16'"),
    *("[" * 3000, "-" * 6000 + "1", "(" * 150 + ")" * 150),
    *("__import__('os').abort()", "1if 1else 2"),
)


def npy_of_any_shape(choices):
    """Return an array file with a header of any type, shape, length and version."""
    shape = ", ".join(str(size) for size in sizes(choices, 4))
    shapes = (f"({shape},)", f"({shape},)", "(-1, -1)", "(3L,)", "()", shape, "(" * 99)
    shape, order = one_of(choices, shapes), one_of(choices, ("False", "True", "None", "'C'"))
    description = one_of(choices, DESCRIPTIONS)
    header = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}"
    header += one_of(choices, ("\n", " " * 60_000, "", "#", ", 'more': 1"))
    version, n_length = one_of(choices, ((1, 2), (2, 4), (3, 4), (9, 4)))
    length = one_of(choices, (len(header), len(header), any_number(choices)))
    stated = (length % 256**n_length).to_bytes(n_length, "little")
    start = b"\x93NUMPY" + bytes([version, 0]) + stated + header.encode()
    return start + bytes(one_of(choices, (0, 1, 60, 5000)))


DIRECTORY, END = b"PK\x01\x02", b"PK\x05\x06"
FIELDS = {DIRECTORY: (6, 8, 10, 16, 20, 24, 28, 30, 32, 42), END: (4, 8, 10, 12, 16, 20)}
"""Where the numbers of an entry of a zip file's directory lie, and of what ends it."""


DESCRIPTION = "model.json"
VALUES = (
    *(None, True, -1, 0, 1, 2, 10**6, 2**31, 2**63, 10**30, 0.5, -1.5, 1e308, "text", ""),
    *([], {}, [[]], {"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"int": "0x" + "f" * 5000}),
    *({"tuple": []}, {"dict": [[[], 1]]}, {"set": [[1]]}, {"range": [0, 10**30, 1]}),
    *({"same": 0}, {"same": 10**9}, {"array": "missing"}, {"constant": "unlabelled"}),
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
    *(
        "answers only",
        "hidden, drawn",
        "network",
        "landmarks",
        "minirocket",
        "after OrdinalEncoder",
        "after RobustScaler",
        "numbers that wait",
    ),
)
"""Of those in `savable`."""


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


@cache
def genuine(name):
    """Return the members of the file of a model, which has learnt a little."""
    make, learn = savable_models.MODELS[name]
    random = np.random.default_rng(0)
    model = make(random)
    learn(model, random)
    with zipfile.ZipFile(io.BytesIO(saved(model))) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def rewritten(path, change, others=()):
    """Change a file's description, and other members."""
    with zipfile.ZipFile(path) as file:
        members = {info.filename: file.read(info) for info in file.infolist()}
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


def lie(choices):
    """Return a file whose description has one or two entries replaced or taken out."""
    members = genuine(one_of(choices, MODELS))
    said = json.loads(members[DESCRIPTION])
    for _ in range(int(choices.integers(1, 3))):
        path = one_of(choices, list(places(said)))
        holder, kind = within(said, path[:-1]), int(choices.integers(0, 4))
        if kind == 0:
            del holder[path[-1]]
        else:
            other = within(said, one_of(choices, list(places(said))))
            values = any_number(choices), one_of(choices, VALUES), other
            # Copied, since the next change may be made inside it.
            holder[path[-1]] = copy.deepcopy(values[kind - 1])
    return stored(members | {DESCRIPTION: json.dumps(said).encode()})


def other_array(choices):
    """Return a file of which one array has another shape, type or content."""
    members = genuine(one_of(choices, MODELS))
    name = one_of(choices, sorted(members.keys() - {DESCRIPTION}))
    shape = [int(choices.integers(0, 6)) for _ in range(int(choices.integers(0, 4)))]
    value = one_of(choices, (0, 1, -1, 10**9))
    dtype = one_of(choices, ("<f8", "<i8", "|b1", "<f4", "|u1"))
    return stored(members | {name: npy(np.full(shape, value, float).astype(dtype))})


def other_bytes(choices):
    """Return a file of which some bytes are others."""
    return changed(stored(genuine(one_of(choices, MODELS))), choices)


def zip_oddity(choices):
    """Return an archive that lies in its directory, is a bomb, or holds what is no array."""
    members = genuine(one_of(choices, MODELS))
    kind, name = int(choices.integers(0, 4)), one_of(choices, sorted(members))
    method = one_of(choices, (0, 8, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    if kind == 0:
        return zip_of(members | {name: bytes(8_000_000)}, method or zipfile.ZIP_DEFLATED)
    if kind == 1:
        odd = one_of(choices, (b"", b"no array", npy_of_any_shape(choices)))
        return zip_of(members | {name: odd}, method)
    content, mark = zip_of(members, method), one_of(choices, (DIRECTORY, END))
    at = content.index(mark) + one_of(choices, FIELDS[mark])
    number = as_bytes(choices, any_number(choices))
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
    # Input weights that are not in the file are drawn from a seed, and are checked by a hash.
    drawn = 2 * MAX_COMPUTED_BYTES if b"DrawnWeights" in content else 0
    assert allocated <= FIXED_BYTES + FACTOR * len(content) + drawn
    if refusal is None:
        use(model)
        return "read"
    assert str(path) in str(refusal)
    while refusal is not None:
        assert not isinstance(refusal, MemoryError)
        refusal = refusal.__cause__ or refusal.__context__
    return "refused"
