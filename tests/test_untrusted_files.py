"""Saved models that were damaged, or made to do harm, are refused: soon, and by one error."""

import copy
import io
import json
import os
import pickle
import sys
import tracemalloc
import zipfile
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels.saving.description import KINDS_BY_NAME, MAX_COMPUTED_BYTES, RIVER
from support import savable_models, version_4
from support.forged_numbers import all_forgeries, some_forgeries
from support.laws import saved
from support.processes import forked
from support.strategies import examples
from support.untrusted_files import (
    BLOCK,
    DESCRIPTION,
    array_nodes,
    arrays_of,
    genuine,
    members_of,
    places,
    with_array,
    within,
    zip_of,
)

# -- files that are read, and models that are used, within bounds ----------------------------------

FIXED_BYTES = 2 << 20
"""What may be allocated for any file: pieces of 1 MiB, errors, zlib's windows."""
FACTOR = 50
"""Bytes that may be allocated beside these for each byte of a file: JSON becomes objects."""


class Trying:
    """A model whose errors of Python are its own affair, call by call."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        value = getattr(self.model, name)
        return (lambda *given, **named: tried(value, *given, **named)) if callable(value) else value


def tried(call, *given, **named):
    try:
        return call(*given, **named)
    except (MemoryError, SystemError, RecursionError):
        raise
    except Exception:
        return None


def use(model, name):
    """Let a model do what one of its name can do: errors are allowed, crashes are not."""
    learn = savable_models.MODELS[name][1]
    tried(learn, Trying(model), np.random.default_rng(0))
    for act in (saved, copy.deepcopy):
        tried(act, model)
    for each in dir(type(model)):
        if each[0] != "_" and isinstance(getattr(type(model), each, None), property):
            tried(getattr, model, each)


def outcome(load, source, name):
    """Load a file and use what it holds; return "read", or why it is refused: all else fails."""
    try:
        model = load(source)
    except ValueError as refusal:
        error = refusal
        while error is not None:
            assert not isinstance(error, (MemoryError, SystemError))
            error = error.__cause__ or error.__context__
        return str(refusal)
    use(model, name)
    return "read"


def load_within_bounds(path):
    """Load a file; fail if that takes much memory, or leaves the file open while errors live."""
    content = path.read_bytes()
    # Input weights that are not in the file are drawn from a seed, or made of images.
    computes = any(name in content for name in (b"DrawnWeights", b"ImageLandmarks"))
    computed = 2 * MAX_COMPUTED_BYTES if computes else 0
    tracemalloc.start()
    try:
        return onlinels.load(path)
    finally:
        allocated = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert allocated <= FIXED_BYTES + FACTOR * len(content) + computed
        assert n_open_within(path.parent) == 0


def n_open_within(folder):
    """Return how many files of a folder are open; those of other tests come and go."""
    numbers = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    paths = [os.path.realpath(f"/proc/self/fd/{number}") for number in numbers]
    return sum(path.startswith(os.path.realpath(folder) + os.sep) for path in paths)


def is_read(content, path, name="gram, {}"):
    """Tell whether a file is read, or else refused by an error that names it once."""
    path.write_bytes(content)
    found = outcome(load_within_bounds, path, name)
    assert found == "read" or (found.startswith(f"{path} ") and found.count(str(path)) == 1)
    return found == "read"


@pytest.fixture(scope="module")
def one_path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "model.npz"


# -- files changed at random -----------------------------------------------------------------------

MODELS = (
    *("hidden, float32", "gram, {}", "orthogonal, {}", "folds", "priors", "stream"),
    *("recursive, {'ridge': 1.0, 'fit_intercept': False}", "drift, ADWIN", "resampled"),
    *("answers only", "hidden, drawn", "network", "landmarks", "minirocket"),
    *("after OrdinalEncoder", "after RobustScaler", "numbers that wait"),
)
NUMBERS = (
    *(0, 1, 2, 3, 7, 32, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 2**24),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Sizes and counts that headers are made to state: small ones, and the ends of number types."""
VALUES = (
    *(None, True, -1, 10**30, 0.5, 1e308, "text", "", [], {}, [[]], {"float": "nan"}),
    *({"tuple": []}, {"dict": [[[], 1]]}, {"set": [[1]]}, {"range": [0, 10**30, 1]}),
    *({"same": 0}, {"same": 10**9}, {"array": "missing"}, {"deque": [1], "most": 10**30}),
    *({"array": f"f8,{size}"} for size in (0, 1, 2**40, 2**62, "1,1,1,1")),
    *({"object": name, "state": {}} for name in ("Thread", "Lock", "Power")),
    *({"bytes": "zz"}, {"bytes": "ff" * 60}, {"scalar": ["|O", 1]}, {"datetime": "yesterday"}),
)
any_number = st.builds(
    lambda number, beside: max(0, number + beside), st.sampled_from(NUMBERS), st.integers(-1, 1)
)
any_bytes = st.builds(
    # In a width and an order of bytes, whether it fits or not.
    lambda number, width, order: (number % 256**width).to_bytes(width, order),
    any_number,
    st.sampled_from((1, 2, 4, 4, 4, 8, 8)),
    st.sampled_from(("big", "little")),
)


def lie(draw, members):
    """Return a file whose description has one or two entries replaced or taken out."""
    said = json.loads(members[DESCRIPTION])
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([*places(said)]))
        holder, is_kept = within(said, path[:-1]), draw(st.integers(0, 3))
        if is_kept:
            others = st.sampled_from([*places(said)]).map(lambda path: within(said, path))
            new = draw(st.one_of(any_number, st.sampled_from(VALUES), others))
            # Copied, since the next change may be made inside it.
            holder[path[-1]] = copy.deepcopy(new)
        else:
            del holder[path[-1]]
    return described(members, said)


def other_bytes(draw, members):
    """Return a file in which one to three pieces are replaced, taken out or put in."""
    content = bytearray(zip_of(members))
    for _ in range(draw(st.integers(1, 3))):
        n = len(content)
        # Headers lie at both ends, where numbers begin at multiples of 4.
        start, end = draw(st.sampled_from([(0, min(n, 96)), (max(0, n - 384), n), (0, n)]))
        at = draw(st.integers(start, end)) & draw(st.sampled_from((-4, -1)))
        some = draw(st.one_of(any_bytes, st.binary(max_size=16)))
        content[at : at + draw(st.sampled_from((0, len(some), n // 2)) | st.integers(0, n))] = some
    return bytes(content)


@given(data=st.data())
@examples(150)
def test_hostile_files_are_read_or_refused_within_their_bounds(one_path, data):
    name = data.draw(st.sampled_from(MODELS))
    craft = data.draw(st.sampled_from([lie, lie, other_bytes]))
    content = craft(data.draw, genuine(name))
    if not is_read(content, one_path, name):
        with pytest.raises(ValueError, match=r"^<bytes> (cannot be read|is of format)"):
            onlinels.loads(content)
    elif craft is other_bytes:
        # Only what nobody reads has changed, such as the time of a member.
        again = members_of(onlinels.dumps(onlinels.loads(content)))
        assert again[DESCRIPTION] == genuine(name)[DESCRIPTION]


@pytest.mark.parametrize("name", MODELS)
def test_genuine_files_are_read_and_those_cut_anywhere_refused(one_path, name):
    content = zip_of(genuine(name))
    assert is_read(content, one_path, name)
    n_bytes = len(content)
    for end in {*range(0, n_bytes, max(1, n_bytes // 20)), *range(n_bytes - 9, n_bytes)}:
        assert not is_read(content[:end], one_path, name), end


# -- every saved number of every class -------------------------------------------------------------

MOST_BYTES = 1 << 30
"""Memory that a process may ask for beside that which it has."""

CLASSES_WITHOUT_NUMBERS = {"Draft", "Embedding", "Lock", "PackedSymmetric"}
CLASSES_WITHOUT_NUMBERS |= {"LeastSquaresClassifier", "LeastSquaresRegressor"}
CLASSES_WITHOUT_NUMBERS |= {"LeastSquaresMultiTargetRegressor", "FoldedStatistics"}
"""Classes of the package that hold other objects and texts only, or are in files of format 3."""


PARTS = [slice(part, None, 20) for part in range(20)]
FORGED = [
    (some_forgeries, slice(None)),
    *(pytest.param(all_forgeries, part, marks=pytest.mark.slow) for part in PARTS),
]
"""What makes the forgeries, and which of them: several processes can share all of them."""


def limit_memory():
    import resource

    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # It asks for terabytes.
        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = n_pages * os.sysconf("SC_PAGE_SIZE") + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="files are read in other processes")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("made", "part"), FORGED)
def test_every_saved_number_of_every_class_may_be_forged(tmp_path, made, part):
    """Files are read in a process that may crash, loop, or ask for memory."""
    forgeries = made()
    classes = {each.name.rpartition(".")[0] for each in forgeries}
    own = {name for name in KINDS_BY_NAME if not name.startswith(RIVER)}
    assert own - classes == CLASSES_WITHOUT_NUMBERS
    begun = tmp_path / "begun"

    def read_all():
        np.seterr(all="ignore")
        limit_memory()
        counts = Counter()
        for each in forgeries[part]:
            begun.write_text(str(each))
            counts[outcome(onlinels.loads, each.content(), each.model) == "read"] += 1
        # Neither reading nor refusing everything would be right.
        assert min(counts[True], counts[False]) > 0

    assert forked(read_all) == 0, begun.read_text()


# -- known attacks ---------------------------------------------------------------------------------


def described(members, said):
    """Return a file with a description, as it is or to be written in JSON."""
    said = said if isinstance(said, bytes) else json.dumps(said).encode()
    return zip_of(members | {DESCRIPTION: said})


def with_model(model):
    """Return what makes the description of a file tell of another model."""
    return lambda members: described(members, json.loads(members[DESCRIPTION]) | {"model": model})


def overlapping(members):
    content = bytearray(zip_of(members))
    # Entries of the zip file's directory, each of which says where a member begins.
    first = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", first + 4)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    return bytes(content)


def damaged(members):
    content = bytearray(zip_of(members))
    content[content.index(members[BLOCK]) + len(members[BLOCK]) // 2] ^= 1
    return bytes(content)


def shared():
    """Describe objects that hold each other again and again."""
    nodes = [{"object": "Power", "state": {"exponent": 2.0}}]
    for number in range(1, 60):
        both = {"tuple": [{"same": number - 1}, {"same": number - 1}]}
        state = {"forgetting_factor": 1.0, "half_life": None, "now": None, "timed": both}
        nodes.append({"object": "Clock", "state": state})
    return nodes


LOCK = {"object": "Lock", "state": {}}
OF_ONE_HASH = [[sys.hash_info.modulus * number, 1] for number in range(8, 9_000)]
BLOCKS = (
    *(lambda block: b"", lambda block: block[:9], lambda block: block[:64]),
    *(lambda block: block[:-8], lambda block: block + bytes(8)),
    lambda block: block.replace(b"NUMPY", b"numpy"),
    *(lambda block: block[:8] + b"\xff\xff" + block[10:], lambda block: block[:8] + b"\0\0"),
)
ATTACKS = {
    "nothing": lambda members: b"",
    "no members": lambda members: zip_of({}),
    "only a description": lambda members: zip_of({DESCRIPTION: members[DESCRIPTION]}),
    "a bomb": lambda members: zip_of(members | {DESCRIPTION: b" " * 10**7}, zipfile.ZIP_DEFLATED),
    "a deep description": lambda members: described(members, b"[" * 10**5),
    "a description that is a list": lambda members: described(members, b"[" * 900 + b"]" * 900),
    "members that overlap": overlapping,
    "damaged numbers": damaged,
    **{
        f"compressed, {method}": partial(zip_of, method=method)
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
    "something before it": lambda members: bytes(9) + zip_of(members),
    "an empty description": lambda members: described(members, {}),
    "no JSON": lambda members: described(members, b"\xff\xfe"),
    "not a number": lambda members: described(members, b'{"format": NaN}'),
    "objects that hold each other": with_model(shared()),
    "a name that is a lock": with_model({"dict": [[LOCK, 1]]}),
    "a name that is a list": with_model({"dict": [[{"tuple": [[]]}, 1]]}),
    "names of one hash": with_model({"dict": OF_ONE_HASH}),
    "names of one hash, in a set": with_model({"set": [key for key, _ in OF_ONE_HASH]}),
    **{
        f"block {number}": lambda members, change=change: zip_of(
            members | {BLOCK: change(members[BLOCK])}
        )
        for number, change in enumerate(BLOCKS)
    },
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks_are_refused(one_path, attack):
    assert not is_read(ATTACKS[attack](genuine("gram, {}")), one_path)


CONTRADICTIONS = [
    # Compiled code is told nothing that it did not say.
    ("drift, ADWIN", "river.ADWIN", {"_helper": {"bytes": "00"}}),
    ("after RobustScaler", "river.Quantile", {"_quantile": {"bytes": "00"}}),
    ("after RobustScaler", "river.Quantile", {"_quantile": {"bytes": "ff" * 170}}),
    ("after RobustScaler", "river.IQR", {"_iqr": {"bytes": "00" * 400}}),
    # Sizes are compared before anything of that size is made.
    ("hidden, float32", "HiddenLayer", {"bias": False}),
    ("hidden", "HiddenLayer", {"activation": "none"}),
    ("folds", "KFold", {"n_folds": 2}),
    ("embedding", "IdentifiedFunction", {"probes": {"tuple": [10**5, 10**5]}}),
    ("gram, {}", "Columns", {"lengths": {"dict": [["a", 10**12]]}}),
    # No attribute hides a method, and ranges stand for no arrays.
    ("gram, {}", "LeastSquaresClassifier", {"learn_one": {"type": "builtins.str"}}),
    ("convolution", "ConvolutionalFeatures", {"filters": {"range": [0, 60_000_000, 1]}}),
    # Classes, types, and patterns to search for are known ones.
    ("scaled", "river.Pipeline", {"steps": {"object": "river.LDA", "state": {}}}),
    ("after OneHotEncoder", "river.OneHotEncoder", {"unknown": 1}),
    ("after SelectType", "river.SelectType", {"types": {"tuple": [{"type": "os.system"}]}}),
    ("after TransformerUnion", "river.BagOfWords", {"tokenizer_pattern": "(a+)+b"}),
    ("answers only", "ClassPredictor", {"columns": None}),
    ("answers only", "ClassPredictor", {"outputs": {"tuple": [0, 1, 1]}}),
    ("answers only", "ClassPredictor", {"softmax": {"tuple": [1.0]}}),
    ("late", "StreamClassifier", {"_numbers": None}),
    # A clock is that of its model, and what learns single rows is made of the state.
    ("gram, {}", "LeastSquaresClassifier", {"_clock": {}}),
    ("gram, {}", "Clock", {"forgetting_factor": 0.5}),
    ("gram, {}", "Clock", {"forgetting_factor": 2**2000}),
    ("gram, {}", "Clock", {"half_life": 0}),
    ("gram, {}", "Following", {"rows": 7}),
    ("gram, {}", "Panel", {"start": 1}),
    # No position in a stream lets samples be drawn without end.
    *(
        ("resampled", "StreamState", {name: odd})
        for name in ("start", "time")
        for odd in (float("nan"), float("-inf"), 2**2000)
    ),
    *(("gram, {}", "Penalty", {"share": share}) for share in (-1.0, 0.0, 2.0, 1, None)),
]


@pytest.mark.parametrize(("name", "kind", "parts"), CONTRADICTIONS, ids=str)
def test_parts_that_contradict_others_are_refused(one_path, name, kind, parts):
    said = json.loads(genuine(name)[DESCRIPTION])
    nodes = (within(said, path) for path in places(said))
    state = next(n["state"] for n in nodes if isinstance(n, dict) and n.get("object") == kind)
    state.update(parts)
    assert not is_read(described(genuine(name), said), one_path)


def is_by_column(array):
    return array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous


MISFITS = [
    # BLAS would write to copies of these: rows that are learnt later would be lost in silence.
    *product(
        ("gram, {}", "orthogonal, {}", MODELS[6]),
        [is_by_column],
        (np.float32, np.int64, np.ascontiguousarray),
    ),
    # The units of a factor, and the inverse without rows.
    *product(
        ["few rows, followed"],
        [lambda array: array.shape == (130,) and array.any()],
        (np.float32, lambda each: each[:-1], lambda each: each[:1]),
    ),
]


@pytest.mark.parametrize(("name", "is_meant", "change"), MISFITS)
def test_arrays_that_do_not_fit_are_refused(one_path, name, is_meant, change):
    meant = {k: array for k, array in enumerate(arrays_of(genuine(name))) if is_meant(array)}
    assert meant
    for number, array in meant.items():
        assert not is_read(with_array(genuine(name), number, change(array)), one_path)


WORDS = [
    *("", "f8", "f8,", "f8,3.0", "f8,-1", "f8,+3", "f8, 3", "f8,3\n", "f8,\u0663", "F", "f8,3FF"),
    *("O,1", "O8,1", "V8,1", "m8,1", "M8,1", "U5,1", "S0,3", "c16,1", "f3,3", "i3,3", "x8,1"),
    *(f"f8,{n}" for n in (2**31, 2**63, 10**18, "9" * 5000, ",".join("1" * 65))),
    *(f"f8,{a},{b}F" for a, b in ((2**32, 2**32), (0, 2**63), (0, 10**18), (10**18, 0))),
]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: repr(word[:90]))
def test_words_that_describe_no_arrays_of_the_model_are_refused(one_path, word):
    said = json.loads(genuine("gram, {}")[DESCRIPTION])
    nodes = [*array_nodes(said)]
    for node in (nodes[0], nodes[-1]):
        before, node["array"] = node["array"], word
        assert not is_read(described(genuine("gram, {}"), said), one_path)
        node["array"] = before


def header(description="'<f8'", shape="(3,)", order="False"):
    text = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text


class Harm:
    def __reduce__(self):
        return Path.touch, (Path("harm"),)


SHAPES = "3.0", "(3", "(-1,)", f"({'1, ' * 65})"
VAST_SHAPES = f"({2**63},)", f"({2**32}, {2**32})", f"(0, {10**30})"
DTYPES = "'|V8'", "'<M8[ns]'", "'<i3'", "__import__('os').abort()"
ARRAYS = [b"", b"no array", pickle.dumps([1]), b"\x93NUMPY", header("'<U500000000'", "()")]
ARRAYS += [header(shape=shape) + bytes(24) for shape in SHAPES]
ARRAYS += [header(shape=shape) for shape in VAST_SHAPES]
ARRAYS += [header(dtype, "(1,)") + bytes(8) for dtype in DTYPES]
ARRAYS += [header() + bytes(23), header() + bytes(25), header(order="'C'") + bytes(24)]
ARRAYS += [
    header("'|O'", "(1,)") + pickle.dumps(np.array([Harm()], dtype=object)),
    header().replace(b"NUMPY\1", b"NUMPY\4") + bytes(24),
    b"\x93NUMPY\1\0" + (60_000).to_bytes(2, "little") + b" " * 60_000,
]


@pytest.mark.parametrize("content", ARRAYS, ids=lambda content: repr(content[:90]))
def test_members_that_are_no_arrays_of_the_model_are_refused(one_path, content, monkeypatch):
    """In files of format 4, where every array was a member, in numpy's format."""
    monkeypatch.chdir(one_path.parent)
    one_path.write_bytes(zip_of(genuine("gram, {}")))
    version_4.in_version_4(one_path)
    members = members_of(one_path.read_bytes())
    assert is_read(zip_of(members), one_path)
    named = [name for name in members if name.endswith(".npy")]
    for name in {np.load(io.BytesIO(members[name])).ndim: name for name in named}.values():
        assert not is_read(zip_of(members | {name: content}), one_path)
    assert not Path("harm").exists()
