"""Files that claim to be models: damaged by chance, or made by somebody to do harm."""

import copy
import hashlib
import io
import json
import struct
import time
import tracemalloc
import warnings
import zipfile
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinels
import savable

HEADROOM = 1 << 21
"""Bytes that reading may allocate besides 50 times the file: modules and caches made only once."""

TRIED = [
    "hidden, float32",
    "gram, {}",
    "orthogonal, {}",
    "recursive, {'ridge': 1.0, 'fit_intercept': False}",
    "folds",
    "classwise",
    "stream",
    "drift, ADWIN",
    "resampled",
    "network",
    "landmarks",
    "minirocket",
    "after OrdinalEncoder",
]


@cache
def genuine(name, folder):
    """Return the members of a file that was saved."""
    make, learn = savable.MODELS[name]
    random = np.random.default_rng(0)
    model = make(random)
    learn(model, random)
    onlinels.save(model, folder / "genuine.npz")
    with zipfile.ZipFile(folder / "genuine.npz") as file:
        return {info.filename: file.read(info) for info in file.infolist()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


def packed(members, **options):
    """Return the bytes of a file of members, with a checksum that is right."""
    content = io.BytesIO()
    members = dict(members)
    if "model.json" in members:
        checksum = hashlib.sha256(members["model.json"]).hexdigest()
        members["model.sha256"] = checksum.encode()
    with zipfile.ZipFile(content, "w", **options) as file:
        for name, held in members.items():
            file.writestr(name, held)
    return content.getvalue()


def read(content, folder):
    """Return what is loaded, or None; whatever else happens than a ValueError is a failure."""
    path = folder / "hostile.npz"
    path.write_bytes(content)
    tracemalloc.start()
    started = time.perf_counter()
    try:
        return onlinels.load(path)
    except ValueError as error:
        if str(path) not in str(error):
            raise
        return None
    finally:
        seconds = time.perf_counter() - started
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # No assertion on a clock, but on whether it comes back at all.
        assert seconds < 60.0
        assert peak < 50 * len(content) + HEADROOM


def used(model):
    """Let a model do what it may do: errors of Python are allowed, crashes are not."""
    random = np.random.default_rng(0)
    for name, (make, learn) in savable.MODELS.items():
        if name in TRIED and type(make(np.random.default_rng(0))) is type(model):
            try:
                learn(model, random)
            except Exception:
                return


@given(data=st.data())
@settings(max_examples=150)
def test_bytes_that_changed(folder, data):
    content = bytearray(packed(genuine(data.draw(st.sampled_from(TRIED)), folder)))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "swap", "zero", "noise"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if kind == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del content[at:]
    elif kind == "insert":
        content[at:at] = data.draw(st.binary(max_size=50))
    elif kind == "swap":
        there = data.draw(st.integers(0, len(content) - 1))
        content[at], content[there] = content[there], content[at]
    elif kind == "zero":
        content[at : at + data.draw(st.integers(1, 500))] = b""
    else:
        content[at : at + 40] = data.draw(st.binary(min_size=40, max_size=40))
    loaded = read(bytes(content), folder)
    if loaded is not None:
        # Only what nobody reads has changed, such as the time of a member.
        onlinels.save(loaded, folder / "again.npz")
        again = (folder / "again.npz").read_bytes()
        assert json_of(again) == json_of(packed(genuine_of(loaded, folder)))


def json_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return file.read("model.json")


def genuine_of(model, folder):
    onlinels.save(model, folder / "same.npz")
    with zipfile.ZipFile(folder / "same.npz") as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def places(node, path=()):
    """Yield the path of every node of a description."""
    yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inner:
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


NODES = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2,
        10**6,
        2**31,
        2**63,
        10**30,
        0.5,
        -1.5,
        1e308,
        "text",
        "",
        [],
        {},
        [[]],
        {"float": "nan"},
        {"float": "inf"},
        {"float": "x"},
        {"int": "0xf" + "f" * 5000},
        {"tuple": []},
        {"dict": [[[], 1]]},
        {"range": [0, 10**30, 1]},
        {"same": 0},
        {"same": 10**9},
        {"array": "missing"},
        {"object": "Thread", "number": 0, "state": {}},
        {"object": "KFold", "number": 0, "state": {"n_folds": 3}},
        {"object": "Lock", "number": 0, "state": {}},
        {"constant": "unlabelled"},
        {"deque": [], "most": -1},
        {"deque": [1], "most": 10**30},
        {"defaultdict": [], "of": "exec", "with": []},
        {"defaultdict": [], "of": "dict", "with": [1, 2, 3]},
        {"bytes": "zz"},
        {"bytes": "ff" * 60},
        {"scalar": "|O", "is": 1},
        {"scalar": "<i8", "is": 2.5},
        {"datetime": "yesterday"},
        {"unknown": 1},
        {"set": [[1]]},
    ]
)


@given(data=st.data())
@settings(max_examples=400)
def test_descriptions_that_lie(folder, data):
    members = genuine(data.draw(st.sampled_from(TRIED)), folder)
    said = json.loads(members["model.json"])
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(said))[1:]))
        holder = said
        for key in path[:-1]:
            holder = holder[key]
        action = data.draw(st.sampled_from(["replace", "remove", "copy"]))
        if action == "remove":
            del holder[path[-1]]
        elif action == "replace":
            holder[path[-1]] = data.draw(NODES)
        else:
            other = said
            for key in data.draw(st.sampled_from(list(places(said)))):
                other = other[key]
            holder[path[-1]] = copy.deepcopy(other)
    loaded = read(packed(members | {"model.json": json.dumps(said).encode()}), folder)
    if loaded is not None:
        used(loaded)


@given(data=st.data())
@settings(max_examples=60)
def test_arrays_of_other_shapes(folder, data):
    members = dict(genuine(data.draw(st.sampled_from(TRIED)), folder))
    said = json.loads(members["model.json"])
    name = data.draw(st.sampled_from(sorted(said["arrays"])))
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    dtype = data.draw(st.sampled_from(["<f8", "<f4", "<i8", "|b1", "|u1"]))
    array = np.full(shape, data.draw(st.sampled_from([0, 1, -1, 10**9])), float).astype(dtype)
    held = io.BytesIO()
    np.lib.format.write_array(held, array, version=(1, 0))
    said["arrays"][name] = hashlib.sha256(held.getvalue()).hexdigest()
    loaded = read(
        packed(members | {"model.json": json.dumps(said).encode(), f"{name}.npy": held.getvalue()}),
        folder,
    )
    if loaded is not None:
        used(loaded)


def bomb(members):
    return packed(members | {"model.json": b" " * 10**7}, compression=zipfile.ZIP_DEFLATED)


def deep(members):
    return packed(members | {"model.json": b"[" * 10**5})


def deep_but_valid(members):
    return packed(members | {"model.json": b"[" * 900 + b"]" * 900})


def large(members):
    said = json.loads(members["model.json"])
    for name in said["arrays"]:
        held = io.BytesIO()
        header = {"descr": "<f8", "fortran_order": False, "shape": (2**62, 2**62)}
        np.lib.format.write_array_header_1_0(held, header)
        members[f"{name}.npy"] = held.getvalue()
        said["arrays"][name] = hashlib.sha256(held.getvalue()).hexdigest()
    return packed(members | {"model.json": json.dumps(said).encode()})


def lying_size(members):
    content = bytearray(packed(members))
    end = content.rindex(b"PK\x01\x02")
    struct.pack_into("<II", content, end + 20, 2**31, 2**31)
    return bytes(content)


def overlapping(members):
    content = bytearray(packed(members))
    first, second = (
        content.index(b"PK\x01\x02", start) for start in (0, content.index(b"PK\x01\x02") + 4)
    )
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    return bytes(content)


def twice(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, held in [*members.items(), *members.items()]:
            file.writestr(name, held)
    return content.getvalue()


def pickled(members):
    name = next(name for name in members if name.endswith(".npy"))
    held = io.BytesIO()
    np.lib.format.write_array(held, np.array([{}], dtype=object), allow_pickle=True)
    return packed(members | {name: held.getvalue()})


ATTACKS = {
    "nothing": lambda members: b"",
    "no members": lambda members: packed({}),
    "only a description": lambda members: packed({"model.json": members["model.json"]}),
    "one more member": lambda members: packed(members | {"more.npy": b""}),
    "a bomb": bomb,
    "a deep description": deep,
    "a description that is a list": deep_but_valid,
    "absurd dimensions": large,
    "a member larger than the file": lying_size,
    "members that overlap": overlapping,
    "members twice": twice,
    "a pickle": pickled,
    "no JSON": lambda members: packed(members | {"model.json": b"\xff\xfe"}),
    "not a number": lambda members: packed(members | {"model.json": b'{"format": NaN}'}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks(folder, attack):
    content = ATTACKS[attack](dict(genuine("gram, {}", folder)))
    assert read(content, folder) is None


def changed(members, path, value):
    """Return a file of a model with an entry of its description replaced."""
    said = json.loads(members["model.json"])
    holder = said["model"]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return packed(members | {"model.json": json.dumps(said).encode()})


@pytest.mark.parametrize("setting", ["max_buckets", "clock", "grace_period"])
def test_compiled_code_is_not_told_to_take_much_memory(folder, setting):
    members = genuine("drift, ADWIN", folder)
    path = ("state", "detector", "state", setting)
    assert read(changed(members, path, 2**50), folder) is None


@pytest.mark.parametrize("size", [6_000_000, 10**12])
def test_sizes_are_compared_before_anything_of_that_size_is_made(folder, size):
    stream, hidden = genuine("stream", folder), genuine("hidden, float32", folder)
    path = ("state", "_activations", "state", "n_wide")
    assert read(changed(stream, path, size), folder) is None
    assert read(changed(hidden, ("state", "bias"), True), folder) is None


def test_objects_that_hold_each_other_again_and_again_are_refused(folder):
    members = genuine("gram, {}", folder)
    power = {"object": "Power", "number": 0, "state": {"exponent": 2.0}}
    nodes = [power]
    for number in range(1, 60):
        both = {"tuple": [{"same": number - 1}, {"same": number - 1}]}
        state = {"forgetting_factor": 1.0, "half_life": None, "now": None, "timed": both}
        nodes.append({"object": "Clock", "number": number, "state": state})
    said = json.loads(members["model.json"])
    said["model"] = nodes
    assert read(packed(members | {"model.json": json.dumps(said).encode()}), folder) is None


@pytest.mark.parametrize("key", [{"object": "Lock", "number": 0, "state": {}}, {"tuple": [[]]}])
def test_names_are_plain(folder, key):
    members = genuine("gram, {}", folder)
    said = json.loads(members["model.json"])
    said["model"] = {"dict": [[key, 1]]}
    assert read(packed(members | {"model.json": json.dumps(said).encode()}), folder) is None
