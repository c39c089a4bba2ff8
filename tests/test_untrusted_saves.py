"""Saved models that were damaged, or made to do harm, are refused: soon, and by one error."""

import io
import json
import os
import pickle
import sys
import zipfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import LeastSquaresClassifier, WindowedClassifier
from onlinels.saving.description import KINDS_BY_NAME, RIVER
from support import version_4
from support.forged_numbers import all_forgeries, read_all
from support.strategies import examples
from support.untrusted_files import (
    BLOCK,
    DESCRIPTION,
    DIRECTORY,
    MODELS,
    array_nodes,
    arrays_of,
    genuine,
    lie,
    members_of,
    other_array,
    other_bytes,
    read,
    rewritten,
    stored,
    with_arrays,
    zip_oddity,
    zip_of,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="files are read in other processes")

N_PARTS = 20
"""Parts of the exhaustive forgery, which several processes can share."""

CLASSES_WITHOUT_NUMBERS = {"Draft", "Embedding", "Lock", "PackedSymmetric"}
CLASSES_WITHOUT_NUMBERS |= {"LeastSquaresClassifier", "LeastSquaresRegressor"}
CLASSES_WITHOUT_NUMBERS |= {"LeastSquaresMultiTargetRegressor", "FoldedStatistics"}
"""Classes of the package that hold other objects and texts only, or are in files of format 3."""

# -- files that were changed on the disk ----------------------------------------------------------


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


def state_of(described, kind):
    """Return the state of the first object of a kind in a description."""
    if isinstance(described, dict):
        if described.get("object") == kind:
            return described["state"]
        described = [*described.values()]
    found = (state_of(each, kind) for each in described if isinstance(each, (dict, list)))
    return next(filter(None, found), None)


# -- files made by hand ---------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def refused(path, message="cannot be read as a saved model"):
    assert read(path.read_bytes(), path) == "refused"
    with pytest.raises(ValueError, match=message):
        onlinels.load(path)


def resampled():
    settings = {"window": 4, "hop": 1, "timestamp": "t", "sample_rate": 20.0}
    model = WindowedClassifier(LeastSquaresClassifier(), **settings)
    for number in range(4):
        model.learn_one({"t": number / 20, "a": 1.0}, "u")
    return model


RECURSIVE = "recursive, {'ridge': 1.0, 'fit_intercept': False}"

CONTRADICTIONS = [
    # Compiled code is not told to take much memory, nor anything that it did not say.
    ("drift, ADWIN", "river.ADWIN", {"_helper": {"bytes": "00"}}),
    ("drift, ADWIN", "river.ADWIN", {"clock": 2**50}),
    ("drift, ADWIN", "river.ADWIN", {"max_buckets": 2**50}),
    ("drift, ADWIN", "river.ADWIN", {"grace_period": 2**50}),
    ("after RobustScaler", "river.Quantile", {"_quantile": {"bytes": "00"}}),
    ("after RobustScaler", "river.Quantile", {"_quantile": {"bytes": "ff" * 170}}),
    ("after RobustScaler", "river.IQR", {"_iqr": {"bytes": "00" * 400}}),
    ("after RobustScaler", "river.RobustScaler", {"q_inf": -1}),
    # Sizes are compared before anything of that size is made.
    ("hidden, float32", "HiddenLayer", {"bias": False}),
    ("scaled", "river.Pipeline", {"steps": {"object": "river.LDA", "state": {}}}),
    ("gram, {}", "LeastSquaresClassifier", {"_clock": {"odd": 1}}),
    ("gram, {}", "LeastSquaresClassifier", {"_clock": {}}),
    ("gram, {}", "Panel", {"start": 1}),
    *(("gram, {}", "Penalty", {"share": share}) for share in (-1.0, 0.0, 2.0, 1, None)),
    ("numbers that wait", "Waiting", {"_values": {"array": "StreamRegressor._scaler._n_far"}}),
    # No attribute hides a method.
    ("gram, {}", "LeastSquaresClassifier", {"learn_one": {"type": "builtins.str"}}),
    # Ranges stand for no arrays.
    ("convolution", "ConvolutionalFeatures", {"filters": {"range": [0, 60_000_000, 1]}}),
    ("after OneHotEncoder", "river.OneHotEncoder", {"values": {"defaultdict": [], "of": "exec"}}),
    ("after OneHotEncoder", "river.OneHotEncoder", {"unknown": 1}),
    ("after SelectType", "river.SelectType", {"types": {"tuple": [{"type": "os.system"}]}}),
    ("answers only", "ClassPredictor", {"columns": None}),
    ("answers only", "ClassPredictor", {"outputs": {"tuple": [0, 1]}}),
    ("answers only", "ClassPredictor", {"outputs": {"tuple": [0, 1, 1]}}),
    ("answers only", "ClassPredictor", {"intercept": None}),
    ("answers only", "ClassPredictor", {"weights": None}),
    ("answers only", "ClassPredictor", {"softmax": {"tuple": [1.0]}}),
    ("late", "StreamClassifier", {"_numbers": None}),
    ("late", "StreamClassifier", {"_numbers": {"array": "StreamClassifier._errors"}}),
    # Nothing is made of a size that no array bears out.
    ("folds", "KFold", {"n_folds": 10**9}),
    ("folds", "KFold", {"n_folds": 2}),
    ("unfixed Patches", "Patches", {"n_filters": 10**9, "n_sample": 10**9}),
    ("unfixed Patches", "Patches", {"size": 10**5}),
    ("unfixed Patches 2", "Patches", {"n_iterations": 10**9}),
    ("embedding", "IdentifiedFunction", {"probes": {"tuple": [10**5, 10**5]}}),
    ("network that waits", "HiddenLayer", {"n_hidden": 10**12}),
    # Patterns to search for are river's.
    ("after TransformerUnion", "river.BagOfWords", {"tokenizer_pattern": "(a+)+b"}),
    ("network that waits", "WarmUp", {"shape": {"tuple": [10**5, 10**5, 1]}}),
    ("network that waits", "ConvolutionalFeatures", {"padding": 10**6}),
    ("after PolynomialExtender", "river.PolynomialExtender", {"degree": 10**9}),
    ("gram, {}", "Columns", {"lengths": {"dict": [["a", 10**12]]}}),
    # What learns single rows is made of the state.
    ("gram, {}", "Following", {"rows": 7}),
    # A clock is that of its model.
    ("gram, {}", "Clock", {"forgetting_factor": 0.0}),
    ("gram, {}", "Clock", {"forgetting_factor": 0.5}),
    ("gram, {}", "Clock", {"forgetting_factor": 2**2000}),
    ("gram, {}", "Clock", {"half_life": 0}),
]


def change_state(path, kind, parts):
    """Let the state of the first object of a kind in a file say something else."""

    def change(said):
        state_of(said["model"], kind).update(parts)
        return said

    rewritten(path, change)


@pytest.mark.parametrize(("name", "kind", "parts"), CONTRADICTIONS, ids=str)
def test_parts_that_contradict_others_are_refused(path, name, kind, parts):
    path.write_bytes(stored(genuine(name)))
    change_state(path, kind, parts)
    refused(path)


@pytest.mark.parametrize("name", ["gram, {}", "orthogonal, {}", RECURSIVE])
@pytest.mark.parametrize("change", [np.float32, np.int64, np.ascontiguousarray])
def test_arrays_that_blas_would_write_to_as_copies_are_refused(path, name, change):
    """The rows that are learnt later would be lost in silence."""
    members = genuine(name)
    for number, array in enumerate(arrays_of(members)):
        if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
            path.write_bytes(stored(with_arrays(members, {number: change(array)})))
            refused(path)


@pytest.mark.parametrize("parts", [{"start": -1e5}, {"start": 1e9}, {"time": 1e9}, {"time": 0.1}])
def test_no_position_in_a_stream_lets_many_samples_be_drawn(path, parts):
    model = resampled()
    for odd in (float("-inf"), float("nan"), 2**2000):
        model.save(path)
        change_state(path, "StreamState", dict.fromkeys(parts, odd))
        refused(path)
    model.save(path)
    change_state(path, "StreamState", parts)
    again = onlinels.load(path)
    again.learn_one({"t": 0.05 + again._state.time, "a": 1.0}, "u")
    assert again.n_windows <= 3
    model.save(path)
    again = onlinels.load(path)
    again.learn_one({"t": 0.2, "a": 1.0}, "u")
    assert again.n_windows == 2


def test_names_of_one_hash_are_few(path):
    modulus = sys.hash_info.modulus
    few = {number * modulus: 1 for number in range(8, 60)}
    onlinels.save(few, path)
    assert onlinels.load(path) == few
    pairs = [[modulus * number, 1] for number in range(8, 20_000)]
    for model in ({"dict": pairs}, {"set": [key for key, _ in pairs]}):
        rewritten(path, lambda said, model=model: said | {"model": model})
        refused(path, "names have the same hash")


def test_statistics_are_numbers(path):
    members = genuine("gram, {}")
    said = json.loads(members[DESCRIPTION])
    node = state_of(said["model"], "GramSums")["cross"]
    number = next(n for n, each in enumerate(array_nodes(said)) if each is node)
    cross = arrays_of(members)[number].copy(order="K")
    cross.flat[0] = np.nan
    path.write_bytes(stored(with_arrays(members, {number: cross})))
    loaded = onlinels.load(path)
    with pytest.raises(ValueError, match="infinite or NaN sums"):
        loaded.learn_many(np.ones((20, 4)), [0, 1] * 10)


def test_moments_keep_their_time_zone_or_are_refused(path):
    noon = datetime(2024, 10, 26, 12)
    kept = [noon, noon.replace(tzinfo=UTC), noon.replace(tzinfo=timezone(timedelta(hours=2)))]
    onlinels.save(kept, path)
    assert [each.isoformat() for each in onlinels.load(path)] == [each.isoformat() for each in kept]
    for odd in (noon.replace(tzinfo=ZoneInfo("Europe/Berlin")), noon.replace(fold=1)):
        with pytest.raises(TypeError, match="expected UTC, a fixed offset or no time zone"):
            onlinels.save({"t": odd}, path)


# -- bytes changed at random, and known attacks ---------------------------------------------------


@pytest.fixture(scope="module")
def one_path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "model.npz"


@given(data=st.data())
@examples(250)
def test_hostile_files_are_read_or_refused_within_their_bounds(one_path, data):
    crafts = [lie] * 6 + [other_bytes] * 3 + [other_array] * 2 + [zip_oddity]
    craft = data.draw(st.sampled_from(crafts))
    content = craft(data.draw)
    if read(content, one_path) == "read":
        if craft is other_bytes:
            # Only what nobody reads has changed, such as the time of a member.
            again = members_of(onlinels.dumps(onlinels.loads(content)))[DESCRIPTION]
            assert again in [genuine(name)[DESCRIPTION] for name in MODELS]
    else:
        with pytest.raises(ValueError, match=r"^<bytes> (cannot be read|is of format)"):
            onlinels.loads(content)
    assert n_open_within(one_path.parent) == 0


@pytest.mark.parametrize("name", MODELS)
def test_genuine_files_are_read_and_those_cut_anywhere_refused(one_path, name):
    content = stored(genuine(name))
    assert read(content, one_path) == "read"
    n_bytes = len(content)
    for end in {*range(0, n_bytes, max(1, n_bytes // 20)), *range(n_bytes - 9, n_bytes)}:
        assert read(content[:end], one_path) == "refused", end


def n_open_within(folder):
    """Return how many files of a folder are open; those of other tests come and go."""
    numbers = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    paths = [os.path.realpath(f"/proc/self/fd/{number}") for number in numbers]
    return sum(path.startswith(os.path.realpath(folder) + os.sep) for path in paths)


def described(members, said):
    """Return a file with a description, as it is or to be written in JSON."""
    said = said if isinstance(said, bytes) else json.dumps(said).encode()
    return stored(members | {DESCRIPTION: said})


def with_model(members, model):
    """Return a file whose description tells of another model."""
    return described(members, json.loads(members[DESCRIPTION]) | {"model": model})


def overlapping(members):
    content = bytearray(stored(members))
    first = content.index(DIRECTORY)
    second = content.index(DIRECTORY, first + 4)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    return bytes(content)


def shared(members):
    """Objects that hold each other again and again."""
    nodes = [{"object": "Power", "number": 0, "state": {"exponent": 2.0}}]
    for number in range(1, 60):
        both = {"tuple": [{"same": number - 1}, {"same": number - 1}]}
        state = {"forgetting_factor": 1.0, "half_life": None, "now": None, "timed": both}
        nodes.append({"object": "Clock", "number": number, "state": state})
    return with_model(members, nodes)


LOCK = {"object": "Lock", "number": 0, "state": {}}
ATTACKS = {
    "nothing": lambda members: b"",
    "no members": lambda members: stored({}),
    "only a description": lambda members: stored({DESCRIPTION: members[DESCRIPTION]}),
    "a bomb": lambda members: zip_of(members | {DESCRIPTION: b" " * 10**7}, zipfile.ZIP_DEFLATED),
    "a deep description": lambda members: described(members, b"[" * 10**5),
    "a description that is a list": lambda members: described(members, b"[" * 900 + b"]" * 900),
    "members that overlap": overlapping,
    "an empty description": lambda members: described(members, {}),
    "no JSON": lambda members: described(members, b"\xff\xfe"),
    "not a number": lambda members: described(members, b'{"format": NaN}'),
    "objects that hold each other": shared,
    "a name that is a lock": lambda members: with_model(members, {"dict": [[LOCK, 1]]}),
    "a name that is a list": lambda members: with_model(members, {"dict": [[{"tuple": [[]]}, 1]]}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks(one_path, attack):
    content = ATTACKS[attack](genuine("gram, {}"))
    assert read(content, one_path) == "refused"
    with pytest.raises(ValueError, match=r"^<bytes> cannot be read as a saved model"):
        onlinels.loads(content)


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
    *(header(shape=f"({n},)") for n in (2**31, 2**63, "9" * 5000, "1, " * 65, -1)),
    *(header(shape=f"({a}, {b})") for a, b in ((2**32, 2**32), (0, 2**63), (0, 10**30))),
    *(header(shape=shape) + bytes(24) for shape in ("3.0", "(3", "(1, 3)", "()")),
    *(header(kind, "(1,)") + bytes(8) for kind in ("'|V8'", "[('a', '<f8')]", "'<M8[ns]'")),
    *(
        header(kind) + bytes(24)
        for kind in ("'\\d'", "[" * 5000, "'|S0'", "__import__('os').abort()")
    ),
    *(header("'<U500000000'", "()"), header("'<i3'") + bytes(9), header(order="'C'") + bytes(24)),
    header("'|O'", "(1,)") + pickle.dumps(np.array([Harm()], dtype=object)),
    header().replace(b"descr", b"dtype") + bytes(24),
    header().replace(b"NUMPY\1", b"NUMPY\4") + bytes(24),
    b"\x93NUMPY\1\0" + (60_000).to_bytes(2, "little") + b" " * 60_000,
    b"\x93NUMPY\3\0" + (2**32 - 1).to_bytes(4, "little") + header()[10:] + bytes(24),
]


@pytest.mark.parametrize("content", ARRAYS, ids=lambda content: repr(content[:90]))
def test_members_that_are_no_arrays_of_the_model(one_path, content, monkeypatch):
    """In files of format 4, where every array was a member, in numpy's format."""
    monkeypatch.chdir(one_path.parent)
    one_path.write_bytes(stored(genuine("gram, {}")))
    version_4.in_version_4(one_path)
    members = members_of(one_path.read_bytes())
    assert read(stored(members), one_path) == "read"
    # One array of each number of dimensions.
    named = [name for name in members if name.endswith(".npy")]
    arrays = {np.load(io.BytesIO(members[name])).ndim: name for name in named}
    for name in arrays.values():
        assert read(stored(members | {name: content}), one_path) == "refused"
    assert not Path("harm").exists()


WORDS = [
    *("", "f8", "f8,", "f8,3.0", "f8,-1", "f8,+3", "f8, 3", "f8,3\n", "f8,\u0663", "F", "f8,3FF"),
    *("O,1", "O8,1", "V8,1", "m8,1", "M8,1", "U5,1", "S0,3", "c16,1", "f3,3", "i3,3", "x8,1"),
    *(f"f8,{n}" for n in (2**31, 2**63, 10**18, "9" * 5000, ",".join("1" * 65))),
    *(f"f8,{a},{b}F" for a, b in ((2**32, 2**32), (0, 2**63), (0, 10**18), (10**18, 0))),
]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: repr(word[:90]))
def test_words_that_describe_no_arrays_of_the_model(one_path, word):
    members = genuine("gram, {}")
    said = json.loads(members[DESCRIPTION])
    # The first and the last array of each number of dimensions.
    nodes = {(each["array"].count(","), 0): each for each in reversed([*array_nodes(said)])}
    nodes |= {(each["array"].count(","), 1): each for each in array_nodes(said)}
    for node in nodes.values():
        before, node["array"] = node["array"], word
        assert read(described(members, said), one_path) == "refused"
        node["array"] = before


@pytest.mark.parametrize(
    "change",
    [
        lambda block: b"",
        lambda block: block[:9],
        lambda block: block[:64],
        lambda block: block[:-8],
        lambda block: block + bytes(8),
        lambda block: block.replace(b"NUMPY", b"numpy"),
        lambda block: block[:8] + b"\xff\xff" + block[10:],
        lambda block: block[:8] + b"\0\0" + block[10:],
    ],
)
def test_blocks_that_do_not_hold_the_arrays(one_path, change):
    members = genuine("gram, {}")
    assert read(stored(members | {BLOCK: change(members[BLOCK])}), one_path) == "refused"
    assert read(stored({DESCRIPTION: members[DESCRIPTION]}), one_path) == "refused"


# -- every saved number of every class ------------------------------------------------------------


def forged_files_are_read_or_refused(forgeries, is_short):
    counts, faults = read_all(forgeries, is_short)
    assert not faults, faults[:5]
    assert counts.total() == len(forgeries)
    # Neither reading nor refusing everything would be right.
    assert min(counts["read"], counts["refused"]) > 0


@needs_fork
def test_every_saved_number_may_be_forged():
    forgeries = all_forgeries(is_short=True)
    classes = {each.name.rpartition(".")[0] for each in forgeries}
    own = {name for name in KINDS_BY_NAME if not name.startswith(RIVER)}
    assert own - classes == CLASSES_WITHOUT_NUMBERS
    forged_files_are_read_or_refused(forgeries, is_short=True)


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("part", range(N_PARTS))
def test_every_saved_number_may_be_forged_in_any_way(part):
    forged_files_are_read_or_refused(all_forgeries(is_short=False)[part::N_PARTS], is_short=False)
