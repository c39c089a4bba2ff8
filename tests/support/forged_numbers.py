"""Files of models in which one saved number is another: every number of every class, by name.

Each file is read, and its model used, in a forked process, which may crash, loop, or ask for memory
without end: then the file that it had begun is known.
"""

import copy
import json
import os
import resource
import signal
import traceback
import warnings
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache
from itertools import product
from typing import NamedTuple
from zlib import crc32

import numpy as np

import onlinels
from support import savable_models
from support.laws import saved
from support.untrusted_files import (
    DESCRIPTION,
    array_nodes,
    arrays_of,
    genuine,
    stored,
    with_arrays,
    within,
)

NAN, INFINITE = float("nan"), float("inf")
VERY_NEGATIVE, VERY_LARGE = -(10**12), 10**9

OTHER_NUMBERS = (
    *(VERY_NEGATIVE, VERY_LARGE, -1, 0, 1, 2**40, 2**63, -(2**63), 10**30),
    *(0.5, -1.5, 1e300, NAN, INFINITE, -INFINITE),
)
"""What a number of a description, or of an array, is made to be."""

OTHER_ARRAYS = {
    "float32": lambda array: array.astype(np.float32),
    "int64": lambda array: array.astype(np.int64),
    "float64": lambda array: array.astype(np.float64),
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "other order": lambda array: array.T.copy(order="K").T if array.ndim < 2 else turned(array),
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

VAST = 2**40
"""A side of an array that has no entries."""

PLACES = 0, 1, 2, 3, -1
"""Entries of arrays that are forged: the first ones of a row are often sizes and columns."""


def turned(array):
    by_column = array.flags.f_contiguous
    return np.ascontiguousarray(array) if by_column else np.asfortranarray(array)


class Forgery(NamedTuple):
    """A number of a model's file, by the name of its class and attribute, and what it becomes."""

    model: str
    name: str
    # Keys of a description.
    path: tuple
    # A place in an array, if the number is one of an array.
    place: int | None
    new: object


# -- what there is to forge ------------------------------------------------------------------------


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


@cache
def description(model):
    return json.loads(genuine(model)[DESCRIPTION])


@cache
def arrays(model):
    return arrays_of(genuine(model))


@cache
def number_of(model, path):
    """Return the number of an array in the block of a file."""
    node = within(description(model)["model"], path)
    return next(n for n, each in enumerate(array_nodes(description(model))) if each is node)


def array_of(model, path):
    return arrays(model)[number_of(model, path)]


@cache
def paths_of(model):
    """Return the first and the last path of every name of a number in the file of a model."""
    paths = defaultdict(list)
    for name, path in numbers_in(description(model)["model"]):
        paths[name].append(path)
    return {name: list(dict.fromkeys((found[0], found[-1]))) for name, found in paths.items()}


INDICES = {"Waiting._values[]": "late"}
"""Arrays of float64 in which some numbers are sizes and columns, and a model that has them."""


def cost_of(model, name):
    """Return a number that is smaller for a model that is better to forge a number of."""
    is_array = name.endswith("[]")
    is_empty = is_array and not array_of(model, paths_of(model)[name][0]).size
    return is_empty, sum(map(len, genuine(model).values()))


def forgeries(model, name):
    """Yield the forgeries of a number of a model; those that matter most come first."""
    for path in paths_of(model)[name]:
        if not name.endswith("[]"):
            yield from (Forgery(model, name, path, None, new) for new in OTHER_NUMBERS)
            continue
        array = array_of(model, path)
        if array.size:
            places = dict.fromkeys(place % array.size for place in PLACES)
            pairs = product(OTHER_NUMBERS, places)
            yield from (Forgery(model, name, path, place, new) for new, place in pairs)
        yield from (Forgery(model, name, path, None, new) for new in OTHER_ARRAYS if array.ndim)


def in_short(model, name):
    """Return the forgeries of a number that the short form tries: more if it may be an index."""
    each = list(forgeries(model, name))
    node = within(description(model)["model"], each[0].path)
    if name.endswith("[]"):
        array = array_of(model, each[0].path)
        n_most = 2 if array.dtype.kind == "i" and array.size else 4 if name in INDICES else 0
    else:
        n_most = 2 if type(node) is int else 0
    # By a hash of the name, so that the draw is the same anywhere.
    others = each[n_most:]
    is_drawn = name.endswith("[]") or not n_most
    return [*each[:n_most], *([others[crc32(name.encode()) % len(others)]] if is_drawn else ())]


def all_forgeries(is_short):
    """Return all forgeries; in the short form, a few of every number, in the smallest file."""
    models = defaultdict(list)
    for model in savable_models.MODELS:
        for name in paths_of(model):
            models[name].append(model)
    chosen = []
    for name, among in models.items():
        if is_short:
            model = INDICES.get(name) or min(among, key=lambda model: cost_of(model, name))
            chosen += in_short(model, name)
        else:
            for model in dict.fromkeys((among[0], among[len(among) // 2], among[-1])):
                chosen += forgeries(model, name)
    return chosen


def forged(forgery):
    """Return the file of a model with another number, or another array."""
    model, _, path, place, new = forgery
    members = dict(genuine(model))
    if not forgery.name.endswith("[]"):
        said = json.loads(members[DESCRIPTION])
        within(said["model"], path[:-1])[path[-1]] = new
        return stored(members | {DESCRIPTION: json.dumps(said).encode()})
    array = array_of(model, path)
    if place is None:
        array = OTHER_ARRAYS[new](array)
    else:
        array = array.copy(order="K")
        if array.dtype.kind in "iu":
            # The nearest number of the type.
            limits = np.iinfo(array.dtype)
            new = min(max(int(new), limits.min), limits.max) if abs(new) < INFINITE else limits.max
        array[np.unravel_index(place, array.shape)] = new
    return stored(with_arrays(members, {number_of(model, path): array}))


# -- what becomes of a forged file -----------------------------------------------------------------

SAMPLES = (
    {"a": 1.0, "b": 2.0, "c": 0.5, "d": -1.0},
    {0: 1.0, 1: 0.5, 2: -1.0, 3: 0.1},
    {"a": 0.5, "text": "1", "gap": None},
    {"colour": "red", "other": "blue", "number": 1},
    {"x": 0.1, "y": 0.2, "t": 1e3},
)
"""Samples; every model knows one of them, or images."""


def waiting_rows(model):
    """Return samples with their labels that some of the models have predicted, and not learnt."""
    random = np.random.default_rng(0)
    if isinstance(model, onlinels.StreamClassifier):
        n_rows = savable_models.N_MIXED
        samples, y = savable_models.mixed(random, n_rows)
        # `learn_late` leaves out every fifth row, and the last ones.
        waiting = 4, 9, *range(n_rows - 5, n_rows)
        return [(samples[row], ("class", y[row])) for row in waiting]
    savable_models.mixed(random, 20)
    return [({"a": row[0], "later": row[1]}, 1.0) for row in savable_models.rows(random, 6)[0]]


def asking(model):
    """Yield functions that pass a model each sample, to predict and to learn."""
    for x in SAMPLES:
        for method in ("predict_one", "predict_proba_one", "transform_one"):
            if hasattr(model, method):
                yield lambda method=method, x=x: getattr(model, method)(dict(x))
        if hasattr(model, "learn_one"):
            yield lambda x=x: model.learn_one(dict(x), getattr(model, "classes", (1,))[-1])


def longer_use(model):
    """Yield functions for batches, properties and copies."""
    X = np.random.default_rng(0).normal(size=(5, 4))
    if hasattr(model, "learn_many"):
        yield from (lambda: model.learn_many(X, [0, 1, 2, 0, 1]), lambda: model.predict_many(X))
    for each in dir(type(model)):
        if each[0] != "_" and isinstance(getattr(type(model), each, None), property):
            yield lambda each=each: getattr(model, each)
    yield from (lambda: copy.deepcopy(model), lambda: onlinels.loads(saved(model)))


def acts_on(model, name, is_short):
    """Yield functions that use a model."""
    is_stream = isinstance(model, (onlinels.StreamClassifier, onlinels.StreamRegressor))
    if is_stream:
        yield from (lambda x=x, y=y: model.learn_one(x, y) for x, y in waiting_rows(model))
    yield from asking(model)
    if not (is_short and is_stream):
        yield lambda: savable_models.MODELS[name][1](model, np.random.default_rng(0))
    yield lambda: saved(model)
    if not is_short:
        yield from longer_use(model)


def use(model, name, is_short):
    """Do with a model what it can do; what it raises is its own affair, within limits."""
    for act in acts_on(model, name, is_short):
        try:
            act()
        except (MemoryError, SystemError, RecursionError):
            raise
        except Exception:
            pass


GOOD = "read", "refused"


def outcome(forgery, is_short):
    """Read a file and use its model: "read", "refused", or what went wrong."""
    content = forged(forgery)
    signal.alarm(SECONDS)
    try:
        model = onlinels.loads(content)
    except ValueError as error:
        while error is not None:
            if isinstance(error, (MemoryError, SystemError)):
                return f"refused by {error!r}"
            error = error.__cause__ or error.__context__
        return "refused"
    except Exception as error:
        return f"{error!r} while it was read"
    try:
        use(model, forgery.model, is_short)
    except Exception as error:
        return f"{error!r} while it was used: {traceback.format_exc(limit=-4)}"
    return "read"


SECONDS = 60
"""Time for one file: it comes back at all."""

MOST_BYTES = 1 << 30
"""Memory that a process may ask for beside that which it has."""


def read_all(left, is_short):
    """Read forged files; return counts of outcomes, and faults as pairs (forgery, what happened).

    After a crash, another process goes on with the next file.
    """
    counts, faults = Counter(), []
    while left:
        found, ending = _read_in_process(left, is_short)
        faults += [pair for pair in zip(left, found, strict=False) if pair[1] not in GOOD]
        counts.update(each if each in GOOD else "fault" for each in found)
        if len(found) < len(left):
            faults.append((left[len(found)], ending))
            counts["crash"] += 1
        left = left[len(found) + 1 :]
    return counts, faults


def _read_in_process(left, is_short):
    """Return the outcomes of the first files, and how the process that reads them ended."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        with suppress(BaseException), os.fdopen(writing, "w") as told:
            warnings.simplefilter("ignore")
            np.seterr(all="ignore")
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # It asks for terabytes.
                limit = _bytes_asked_for() + MOST_BYTES
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            for forgery in left:
                told.write(json.dumps(outcome(forgery, is_short)) + "\n")
                told.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = [json.loads(line) for line in told if line.endswith("\n")]
    _, status = os.waitpid(process, 0)
    return found, f"the process ended with signal {status & 127}, code {status >> 8}"


def _bytes_asked_for():
    with open("/proc/self/statm") as said:
        return int(said.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
