"""Saved models that were damaged, or made to do harm, are refused: soon, and by one error."""

import copy
import io
import json
import os
import pickle
import signal
import sys
import time
import traceback
import tracemalloc
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels.saving.description import KINDS_BY_NAME, MAX_COMPUTED_BYTES, RIVER
from support import savable_models, version_4
from support.forged_numbers import all_forgeries, some_forgeries
from support.laws import saved
from support.strategies import examples
from support.untrusted_files import (
    BLOCK,
    DESCRIPTION,
    array_nodes,
    arrays_of,
    genuine,
    members_of,
    places,
    rewritten,
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


def read(content, path, name):
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
        use(model, name)
        return "read"
    assert str(refusal).startswith(f"{path} ")
    assert_no_crash(refusal)
    return "refused"


def assert_no_crash(error):
    """Assert that no error, and none that it came from, is one of memory or of compiled code."""
    while error is not None:
        assert not isinstance(error, (MemoryError, SystemError))
        error = error.__cause__ or error.__context__


def assert_refused(content, path):
    assert read(content, path, "gram, {}") == "refused"


@pytest.fixture(scope="module")
def one_path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "model.npz"


def n_open_within(folder):
    """Return how many files of a folder are open; those of other tests come and go."""
    numbers = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    paths = [os.path.realpath(f"/proc/self/fd/{number}") for number in numbers]
    return sum(path.startswith(os.path.realpath(folder) + os.sep) for path in paths)


def test_damage_is_said_once_and_the_file_is_closed_while_its_error_is_held(tmp_path):
    path = tmp_path / "model.npz"
    onlinels.HiddenLayer(50, bias=True).save(path)
    content = bytearray(path.read_bytes())
    # In the middle of the numbers.
    content[400] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read.*Bad CRC-32") as raised:
        onlinels.load(path)
    assert str(raised.value).count(str(path)) == 1
    assert n_open_within(tmp_path) == 0


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


def one_of(draw, things):
    return draw(st.sampled_from(things))


def any_number(draw):
    """Return one of `NUMBERS`, or one beside it."""
    return max(0, one_of(draw, NUMBERS) + draw(st.integers(-1, 1)))


def as_bytes(draw, number):
    """Return a number in a width and an order of bytes, whether it fits or not."""
    width = one_of(draw, (1, 2, 4, 4, 4, 8, 8))
    return (number % 256**width).to_bytes(width, one_of(draw, ("big", "little")))


def lie(draw, members):
    """Return a file whose description has one or two entries replaced or taken out."""
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
    return described(members, said)


def other_bytes(draw, members):
    """Return a file in which one to three pieces are replaced, taken out or put in."""
    content = bytearray(zip_of(members))
    for _ in range(draw(st.integers(1, 3))):
        n = len(content)
        # Headers lie at both ends, where numbers begin at multiples of 4.
        start, end = one_of(draw, ((0, min(n, 96)), (max(0, n - 384), n), (0, n)))
        at = draw(st.integers(start, end)) & one_of(draw, (-4, -1))
        some = one_of(draw, (as_bytes(draw, any_number(draw)), draw(st.binary(max_size=16))))
        content[at : at + one_of(draw, (0, len(some), draw(st.integers(0, n))))] = some
    return bytes(content)


@given(data=st.data())
@examples(150)
def test_hostile_files_are_read_or_refused_within_their_bounds(one_path, data):
    name, craft = one_of(data.draw, MODELS), one_of(data.draw, [lie, lie, other_bytes])
    content = craft(data.draw, genuine(name))
    if read(content, one_path, name) == "refused":
        with pytest.raises(ValueError, match=r"^<bytes> (cannot be read|is of format)"):
            onlinels.loads(content)
    elif craft is other_bytes:
        # Only what nobody reads has changed, such as the time of a member.
        again = members_of(onlinels.dumps(onlinels.loads(content)))
        assert again[DESCRIPTION] == genuine(name)[DESCRIPTION]
    assert n_open_within(one_path.parent) == 0


@pytest.mark.parametrize("name", MODELS)
def test_genuine_files_are_read_and_those_cut_anywhere_refused(one_path, name):
    content = zip_of(genuine(name))
    assert read(content, one_path, name) == "read"
    n_bytes = len(content)
    for end in {*range(0, n_bytes, max(1, n_bytes // 20)), *range(n_bytes - 9, n_bytes)}:
        assert read(content[:end], one_path, name) == "refused", end


# -- every saved number of every class -------------------------------------------------------------

N_PARTS = 20
"""Parts of the exhaustive forgery, which several processes can share."""
SECONDS = 600
"""Time for all of a part: it comes back at all."""
MOST_BYTES = 1 << 30
"""Memory that a process may ask for beside that which it has."""

CLASSES_WITHOUT_NUMBERS = {"Draft", "Embedding", "Lock", "PackedSymmetric"}
CLASSES_WITHOUT_NUMBERS |= {"LeastSquaresClassifier", "LeastSquaresRegressor"}
CLASSES_WITHOUT_NUMBERS |= {"LeastSquaresMultiTargetRegressor", "FoldedStatistics"}
"""Classes of the package that hold other objects and texts only, or are in files of format 3."""


def outcome(forgery):
    """Read a file and use its model: tell whether it was read or refused."""
    refusal = None
    try:
        model = onlinels.loads(forgery.content())
    except ValueError as error:
        refusal = error
    if refusal is not None:
        assert_no_crash(refusal)
        return "refused"
    use(model, forgery.model)
    return "read"


def read_in_a_process(forgeries, path):
    """Read files in a process that may crash, loop, or ask for memory; return the outcomes."""
    process = os.fork()
    if process:
        assert os.waitpid(process, 0)[1] == 0, path.read_text()
        return Counter(json.loads(path.read_text()))
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        np.seterr(all="ignore")
        limit_memory()
        counts = Counter()
        for forgery in forgeries:
            # What it had begun is known then.
            path.write_text(str(forgery))
            counts[outcome(forgery)] += 1
        path.write_text(json.dumps(counts))
    except BaseException:
        path.write_text(f"{forgery}: {traceback.format_exc()}")
        os._exit(1)
    os._exit(0)


def limit_memory():
    import resource

    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # It asks for terabytes.
        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = n_pages * os.sysconf("SC_PAGE_SIZE") + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="files are read in other processes")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "part", [None, *(pytest.param(part, marks=pytest.mark.slow) for part in range(N_PARTS))]
)
def test_every_saved_number_of_every_class_may_be_forged(tmp_path, part):
    forgeries = some_forgeries() if part is None else all_forgeries()[part::N_PARTS]
    classes = {each.name.rpartition(".")[0] for each in forgeries}
    own = {name for name in KINDS_BY_NAME if not name.startswith(RIVER)}
    assert own - classes == CLASSES_WITHOUT_NUMBERS
    counts = read_in_a_process(forgeries, tmp_path / "begun")
    # Neither reading nor refusing everything would be right.
    assert min(counts["read"], counts["refused"]) > 0


# -- parts that contradict others ------------------------------------------------------------------


def state_of(described, kind):
    """Return the state of the first object of a kind in a description."""
    nodes = (within(described, path) for path in places(described))
    return next(n["state"] for n in nodes if isinstance(n, dict) and n.get("object") == kind)


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
    state_of(said, kind).update(parts)
    assert_refused(described(genuine(name), said), one_path)


@pytest.mark.parametrize("name", ["gram, {}", "orthogonal, {}", MODELS[6]])
@pytest.mark.parametrize("change", [np.float32, np.int64, np.ascontiguousarray])
def test_arrays_that_blas_would_write_to_as_copies_are_refused(one_path, name, change):
    """The rows that are learnt later would be lost in silence."""
    for number, array in enumerate(arrays_of(genuine(name))):
        if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
            assert_refused(with_array(genuine(name), number, change(array)), one_path)


@pytest.mark.parametrize("change", [np.float32, lambda each: each[:-1], lambda each: each[:1]])
def test_an_inverse_without_rows_that_does_not_fit_its_factor_is_refused(one_path, change):
    name = "few rows, followed"
    said = json.loads(genuine(name)[DESCRIPTION])
    node = state_of(said, "LowRank")["without_rows"]
    number = next(k for k, each in enumerate(array_nodes(said)) if each is node)
    forged = change(arrays_of(genuine(name))[number])
    assert_refused(with_array(genuine(name), number, forged), one_path)


def test_names_of_one_hash_are_few(one_path):
    modulus = sys.hash_info.modulus
    few = {number * modulus: 1 for number in range(8, 60)}
    onlinels.save(few, one_path)
    assert onlinels.load(one_path) == few
    pairs = [[modulus * number, 1] for number in range(8, 9_000)]
    for model in ({"dict": pairs}, {"set": [key for key, _ in pairs]}):
        rewritten(one_path, lambda said, model=model: said | {"model": model})
        with pytest.raises(ValueError, match="names have the same hash"):
            onlinels.load(one_path)


def test_moments_keep_their_time_zone_or_are_refused():
    noon = datetime(2024, 10, 26, 12)
    kept = [noon, noon.replace(tzinfo=UTC), noon.replace(tzinfo=timezone(timedelta(hours=2)))]
    found = onlinels.loads(onlinels.dumps(kept))
    assert [each.isoformat() for each in found] == [each.isoformat() for each in kept]
    for odd in (noon.replace(tzinfo=ZoneInfo("Europe/Berlin")), noon.replace(fold=1)):
        with pytest.raises(TypeError, match="expected UTC, a fixed offset or no time zone"):
            onlinels.dumps({"t": odd})


# -- known attacks ---------------------------------------------------------------------------------


def described(members, said):
    """Return a file with a description, as it is or to be written in JSON."""
    said = said if isinstance(said, bytes) else json.dumps(said).encode()
    return zip_of(members | {DESCRIPTION: said})


def with_model(members, model):
    """Return a file whose description tells of another model."""
    return described(members, json.loads(members[DESCRIPTION]) | {"model": model})


def overlapping(members):
    content = bytearray(zip_of(members))
    # Entries of the zip file's directory, each of which says where a member begins.
    first = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", first + 4)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    return bytes(content)


def shared(members):
    """Objects that hold each other again and again."""
    nodes = [{"object": "Power", "state": {"exponent": 2.0}}]
    for number in range(1, 60):
        both = {"tuple": [{"same": number - 1}, {"same": number - 1}]}
        state = {"forgetting_factor": 1.0, "half_life": None, "now": None, "timed": both}
        nodes.append({"object": "Clock", "state": state})
    return with_model(members, nodes)


LOCK = {"object": "Lock", "state": {}}
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
    **{
        f"compressed, {method}": lambda members, method=method: zip_of(members, method)
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
    "something before it": lambda members: bytes(9) + zip_of(members),
    "an empty description": lambda members: described(members, {}),
    "no JSON": lambda members: described(members, b"\xff\xfe"),
    "not a number": lambda members: described(members, b'{"format": NaN}'),
    "objects that hold each other": shared,
    "a name that is a lock": lambda members: with_model(members, {"dict": [[LOCK, 1]]}),
    "a name that is a list": lambda members: with_model(members, {"dict": [[{"tuple": [[]]}, 1]]}),
    **{
        f"block {number}": lambda members, change=change: zip_of(
            members | {BLOCK: change(members[BLOCK])}
        )
        for number, change in enumerate(BLOCKS)
    },
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks_are_refused(one_path, attack):
    assert_refused(ATTACKS[attack](genuine("gram, {}")), one_path)


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
        assert_refused(described(genuine("gram, {}"), said), one_path)
        node["array"] = before


def header(description="'<f8'", shape="(3,)", order="False"):
    text = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text


class Harm:
    def __reduce__(self):
        return Path.touch, (Path("harm"),)


ARRAYS = [
    *(
        b"",
        b"no array",
        pickle.dumps([1]),
        b"\x93NUMPY",
        header() + bytes(25),
        header() + bytes(23),
    ),
    *(header(shape=shape) for shape in (f"({2**63},)", f"({2**32}, {2**32})", f"(0, {10**30})")),
    *(header(shape=shape) + bytes(24) for shape in ("3.0", "(3", "(-1,)", f"({'1, ' * 65})")),
    *(
        header(kind, "(1,)") + bytes(8)
        for kind in ("'|V8'", "'<M8[ns]'", "__import__('os').abort()")
    ),
    *(header("'<U500000000'", "()"), header("'<i3'") + bytes(9), header(order="'C'") + bytes(24)),
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
    assert read(zip_of(members), one_path, "gram, {}") == "read"
    named = [name for name in members if name.endswith(".npy")]
    for name in {np.load(io.BytesIO(members[name])).ndim: name for name in named}.values():
        assert_refused(zip_of(members | {name: content}), one_path)
    assert not Path("harm").exists()
