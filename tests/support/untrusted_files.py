"""Hostile files: genuine ones of every format that is read, changed, or made to do harm."""

import copy
import io
import json
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import onlinels
from onlinels.saving.arrays import READ_ERRORS, ArrayArchive
from support import savable_models
from support.laws import saved

NUMBERS = (
    *(0, 1, 2, 3, 7, 32, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 2**24),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Sizes and counts that headers are made to state: small ones, and the ends of number types."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
"""Of compression in zip files; numpy writes the first two."""
BOMB = 8_000_000
"""Zeros that some compressed files hold in a few thousand bytes."""


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


@st.composite
def hostile_files(draw, reader):
    return hostile(reader, Drawn(draw))


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


def plain(content):
    """Return a form: a file of content that went through a change before it is compressed."""
    return lambda change: change(content)


def zipped(members, method):
    return lambda change: zip_of({name: change(each) for name, each in members.items()}, method)


ARRAYS = {
    "x_train.npy": npy(np.arange(24, dtype=np.uint8).reshape(2, 3, 4)),
    "y_train.npy": npy(["cat", "dog"]),
    "x_test.npy": npy(np.asfortranarray(np.ones((1, 3, 4), "<f4"))),
    "y_test.npy": npy([True]),
}


def sizes(choices, most):
    return [any_number(choices) for _ in range(int(choices.integers(0, most + 1)))]


def data(choices):
    return bytes(one_of(choices, (0, 1, 60, 5000)))


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
    return b"\x93NUMPY" + bytes([version, 0]) + stated + header.encode() + data(choices)


DIRECTORY, END = b"PK\x01\x02", b"PK\x05\x06"
FIELDS = {DIRECTORY: (6, 8, 10, 16, 20, 24, 28, 30, 32, 42), END: (4, 8, 10, 12, 16, 20)}
"""Where the numbers of an entry of a zip file's directory lie, and of what ends it."""


@cache
def bombed(name, method):
    zeros = npy(np.zeros((1, BOMB), np.uint8))
    return zip_of(ARRAYS | {name: zeros}, method)


def zip_oddity(choices):
    """Return an archive that lies in its directory, is a bomb, or holds what is no array."""
    kind, name = int(choices.integers(0, 8)), one_of(choices, list(ARRAYS))
    if kind == 0:
        return bombed(name, one_of(choices, METHODS[1:]))
    if kind == 1:
        odd = one_of(choices, (b"", b"no array", npy_of_any_shape(choices)))
        return zip_of(ARRAYS | {name: odd}, one_of(choices, METHODS))
    if kind == 2:
        return zip_of({"x_train.npy": zip_of(ARRAYS, METHODS[1])}, METHODS[1])
    content, mark = zip_of(ARRAYS, one_of(choices, METHODS)), one_of(choices, (DIRECTORY, END))
    at = content.index(mark) + one_of(choices, FIELDS[mark])
    number = as_bytes(choices, any_number(choices))
    return content[:at] + number + content[at + len(number) :]


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


def described(name):
    """Return the file of a model as a form: what changes is its description."""
    return lambda change: stored(genuine(name) | {DESCRIPTION: change(genuine(name)[DESCRIPTION])})


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


def read_arrays(path):
    """Read the arrays of an archive, as files of models are read."""
    try:
        with path.open("rb") as file:
            archive = ArrayArchive(file)
            return [archive.read(name.removesuffix(".npy")) for name in ARRAYS]
    except READ_ERRORS as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


FIXED_BYTES = 4 << 20
"""What any reader may allocate, however small the file: pieces of 1 MiB, errors, zlib's windows."""
COMPRESSED = 1032
"""Times as many as compressed bytes: deflate's largest ratio."""


@dataclass(frozen=True)
class Reader:
    """A reader, the file it reads and what may come of it."""

    name: str
    file_name: str
    forms: tuple[Callable[..., bytes], ...]
    """Genuine files, of a change of what they hold before it is compressed."""
    read: Callable[[Path], Any]
    """Of the file's path: arrays of all that it holds, in lists and tuples, or a model."""
    factor: int
    """Bytes that may be allocated for each byte of the files."""
    crafted: tuple[Callable[..., bytes], ...] = ()
    """Files made to do harm, of choices."""
    fixed: int = FIXED_BYTES
    """Bytes that may be allocated for any file."""


# Bytes for each byte of arrays, and of models (JSON becomes objects).
ARRAY, MODEL = 16, 50
READERS = (
    Reader(
        *("arrays", "data.npz", tuple(zipped(ARRAYS, method) for method in METHODS[:2])),
        *(read_arrays, ARRAY * COMPRESSED, (zip_oddity,)),
    ),
    Reader(
        *("saved models", "model.npz", tuple(map(described, MODELS)), onlinels.load, MODEL),
        crafted=(lie, lie, other_array),
        fixed=FIXED_BYTES // 2,
    ),
)


def hostile(reader, choices):
    """Return a genuine file changed within, without or both, another's, or one made to do harm."""
    way = int(choices.integers(0, 8))
    if way == 0:
        return one_of(choices, one_of(choices, READERS).forms)(bytes)
    if way < 4 and reader.crafted:
        content = one_of(choices, reader.crafted)(choices)
        return changed(content, choices) if way == 1 and len(content) < 10_000 else content
    form = one_of(choices, reader.forms)
    content = form(partial(changed, choices=choices)) if way < 6 else form(bytes)
    return content if way == 5 else changed(content, choices)


@dataclass(frozen=True)
class Outcome:
    """What came of a file: "read", "refused", or in words what should not have come."""

    kind: str
    seconds: float
    allocated: int


def prepare(reader, folder):
    """Return the path of a reader's hostile file."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / reader.file_name


def attempt(reader, path, content, measured):
    """Read a file of any content, and tell what came of it; allocations are traced if asked."""
    path.write_bytes(content)
    if measured:
        tracemalloc.start()
    started = time.process_time()
    try:
        kind, result = outcome_of(reader, path)
        seconds = time.process_time() - started
        allocated = tracemalloc.get_traced_memory()[1] if measured else 0
    finally:
        tracemalloc.stop()
    if allocated > reader.fixed + reader.factor * len(content):
        kind = f"allocated {allocated:,} bytes for a file of {len(content):,}"
    if reader.read is onlinels.load:
        use(result)
    return Outcome(kind, seconds, allocated)


def outcome_of(reader, path):
    try:
        result = reader.read(path)
    except ValueError as error:
        if str(path.parent) not in str(error):
            return f"a refusal that does not name the file: {error}", None
        return ran_out(error) or "refused", None
    except Exception as error:
        return f"{type(error).__name__}: {error}", None
    for array in arrays_in(result):
        # Values that cannot be printed or copied are no values.
        repr(array[:1])
        array.tobytes()
    return "read", result


def ran_out(error):
    """Say whether an error came of one of too little memory or stack, "" if not."""
    while error is not None:
        if isinstance(error, (MemoryError, RecursionError)):
            return f"refused after {type(error).__name__}: {error}"
        error = error.__cause__ or error.__context__
    return ""


def arrays_in(result):
    """Yield the arrays of what a reader returned."""
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, (list, tuple)):
        for each in result:
            yield from arrays_in(each)
