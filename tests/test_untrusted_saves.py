"""Saved models that were damaged, or made to do harm, are refused: soon, and by one error."""

import inspect
import io
import json
import os
import pathlib
import struct
import sys
import tracemalloc
import zipfile
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta, timezone
from io import BytesIO
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, drift, feature_extraction, preprocessing

import onlinels
from onlinels import ConvolutionalFeatures, LeastSquaresClassifier, WindowedClassifier
from onlinels.saving import description
from support.laws import saved
from support.strategies import examples
from support.untrusted_files import (
    DESCRIPTION,
    DIRECTORY,
    MODELS,
    READERS,
    Drawn,
    attempt,
    changed,
    genuine,
    lie,
    other_array,
    rewritten,
    stored,
    zip_of,
)

# -- files that were changed on the disk ----------------------------------------------------------


def test_damage_is_said_once_and_the_file_is_closed_while_its_error_is_held(tmp_path, monkeypatch):
    path, opened, open_ = tmp_path / "model.npz", [], pathlib.Path.open
    onlinels.HiddenLayer(50, bias=True).save(path)
    content = bytearray(path.read_bytes())
    # In the middle of the numbers.
    content[400] ^= 1
    path.write_bytes(content)

    def noting(*values):
        opened.append(open_(*values))
        return opened[-1]

    monkeypatch.setattr(pathlib.Path, "open", noting)
    with pytest.raises(ValueError, match=r"cannot be read.*Bad CRC-32") as raised:
        onlinels.load(path)
    assert str(raised.value).count(str(path)) == 1
    assert len(opened) == 1, raised
    assert opened[0].closed


def test_values_that_hold_themselves_are_refused(tmp_path):
    in_list, in_dict, in_tuple = [], {}, ([],)
    in_list.append(in_list)
    in_dict["a"] = in_dict
    in_tuple[0].append(in_tuple)
    for itself in (in_list, in_dict, in_tuple):
        with pytest.raises(TypeError, match="nested too deeply"):
            onlinels.save({"itself": itself}, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


NESTED = {
    "tuples": lambda inner: (inner,),
    "lists": lambda inner: [inner],
    "dicts": lambda inner: {"a": inner},
    "pipelines": lambda inner: compose.Pipeline(inner),
}


@pytest.mark.parametrize("kind", NESTED)
def test_every_version_of_python_nests_equally_deep(kind, monkeypatch):
    """What can be saved can be loaded; Python's limit on recursion, which differs, is not met."""
    nested = [preprocessing.StandardScaler()]
    for _ in range(description.MAX_DEPTH):
        nested.append(NESTED[kind](nested[-1]))
    saves, limit = [], sys.getrecursionlimit()
    refusal = r"nested too deeply, expected .* at most 200 levels"

    def save_all():
        for value in nested:
            saves.append(onlinels.dumps({"nested": value}))

    with pytest.raises(TypeError, match=refusal):
        save_all()
    assert len(saves) >= 40
    # As from the depths of a caller's own calls.
    depth = len(inspect.stack(0))
    sys.setrecursionlimit(depth + 700)
    try:
        assert onlinels.dumps(onlinels.loads(saves[-1])) == saves[-1]
        for value in (nested[-1], nested[len(saves)]):
            with pytest.raises(TypeError, match=refusal):
                onlinels.dumps({"nested": value})
    finally:
        sys.setrecursionlimit(limit)
    monkeypatch.setattr(description, "MAX_DEPTH", 10**9)
    deeper = onlinels.dumps({"nested": nested[len(saves)]})
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"^<bytes> cannot be read .* more than 200 levels"):
        onlinels.loads(deeper)


def state_of(described, kind):
    """Return the state of the first object of a kind in a description."""
    if isinstance(described, dict):
        if described.get("object") == kind:
            return described["state"]
        described = [*described.values()]
    found = (state_of(each, kind) for each in described if isinstance(each, (dict, list)))
    return next(filter(None, found), None)


SCALED = preprocessing.StandardScaler() | onlinels.LeastSquaresClassifier()
ODD = {"object": "river.LDA", "state": {}}
WARNED = onlinels.DriftAwareClassifier(onlinels.LeastSquaresClassifier())
LEARNT = onlinels.LeastSquaresClassifier(1.0)
LEARNT.learn_many(np.eye(3), ["a", "b", "c"])


@pytest.mark.parametrize(
    ("model", "kind", "part", "odd", "message"),
    [
        (WARNED, "river.ADWIN", "_helper", lambda _: {"bytes": "00"}, "ADWIN is invalid"),
        (WARNED, "river.ADWIN", "clock", lambda _: 2**50, "clock=.* not at most 10000"),
        (SCALED, "river.Pipeline", "steps", lambda _: ODD, "unknown class river.LDA"),
        (LEARNT, "LeastSquaresClassifier", "_clock", lambda _: {"odd": 1}, "odd"),
        (LEARNT, "LeastSquaresClassifier", "_clock", lambda _: {}, "an unknown value {}"),
        (LEARNT, "Panel", "start", lambda _: 1, "Panel"),
    ],
)
def test_parts_that_say_something_else_are_refused(tmp_path, model, kind, part, odd, message):
    path = tmp_path / "model.npz"
    onlinels.save(model, path)

    def change(said):
        state = state_of(said["model"], kind)
        state[part] = odd(state[part])
        return said

    rewritten(path, change)
    with pytest.raises(ValueError, match=f"cannot be read.*{message}"):
        onlinels.load(path)


def test_objects_that_hold_each_other_too_often_are_refused(tmp_path, monkeypatch):
    LEARNT.save(tmp_path / "model.npz")
    monkeypatch.setattr(description, "MAX_VALUES_PER_BYTE", 1e-3)
    with pytest.raises(ValueError, match="hold each other too often"):
        onlinels.load(tmp_path / "model.npz")


@pytest.mark.parametrize(
    "value",
    [
        np.array(["text"]),
        np.array([1j]),
        defaultdict(int),
        {"detector": drift.ADWIN, "names": {1: object()}},
        {date(2020, 1, 1): 1},
        {b"bytes"},
        bytes,
    ],
)
def test_what_no_file_may_hold_is_refused(tmp_path, value):
    with pytest.raises(TypeError, match="saved"):
        onlinels.save({"value": value}, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


# -- files made by hand ---------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def refused(path, message="cannot be read as a saved model"):
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        onlinels.load(path)
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert allocated < 4 * 2**20 + 50 * path.stat().st_size


def encoded():
    model = preprocessing.OneHotEncoder() | LeastSquaresClassifier()
    for colour in ("red", "blue"):
        model.learn_one({"colour": colour}, colour)
    return model


def after(step):
    def make():
        model = step | LeastSquaresClassifier()
        model.learn_one({"a": 1.0, "text": "red"}, "x")
        return model

    return make


def resampled():
    settings = {"window": 4, "hop": 1, "timestamp": "t", "sample_rate": 20.0}
    model = WindowedClassifier(LeastSquaresClassifier(), **settings)
    for number in range(4):
        model.learn_one({"t": number / 20, "a": 1.0}, "u")
    return model


CONTRADICTIONS = [
    # Ranges stand for no arrays.
    (ConvolutionalFeatures, "ConvolutionalFeatures", {"filters": {"range": [0, 60_000_000, 1]}}),
    (encoded, "river.OneHotEncoder", {"values": {"defaultdict": [], "of": "exec"}}),
    (encoded, "river.OneHotEncoder", {"unknown": 1}),
    # Compiled code is told nothing that it did not say, and patterns to search for are river's.
    *(
        (after(compose.Select("a") | preprocessing.RobustScaler()), f"river.{kind}", parts)
        for kind, parts in (
            ("Quantile", {"_quantile": {"bytes": "00"}}),
            ("Quantile", {"_quantile": {"bytes": "ff" * 170}}),
            ("IQR", {"_iqr": {"bytes": "00" * 400}}),
        )
    ),
    (
        after(compose.SelectType(float)),
        "river.SelectType",
        {"types": {"tuple": [{"type": "os.system"}]}},
    ),
    (
        after(feature_extraction.BagOfWords("text")),
        "river.BagOfWords",
        {"tokenizer_pattern": "(a+)+b"},
    ),
    # A clock is that of its model.
    *(
        (LeastSquaresClassifier, "Clock", parts)
        for parts in (
            {"forgetting_factor": 0.0},
            {"forgetting_factor": 0.5},
            {"forgetting_factor": 2**2000},
            {"half_life": 0},
        )
    ),
]


def save_changed(model, path, kind, parts):
    """Save a model, and let the state of its first object of a kind say something else."""
    onlinels.save(model, path)

    def change(said):
        state_of(said["model"], kind).update(parts)
        return said

    rewritten(path, change)


@pytest.mark.parametrize(("make", "kind", "parts"), CONTRADICTIONS)
def test_parts_that_contradict_others_are_refused(path, make, kind, parts):
    save_changed(make(), path, kind, parts)
    refused(path)


@pytest.mark.parametrize("parts", [{"start": -1e5}, {"start": 1e9}, {"time": 1e9}, {"time": 0.1}])
def test_no_position_in_a_stream_lets_many_samples_be_drawn(path, parts):
    model = resampled()
    for odd in (float("-inf"), float("nan"), 2**2000):
        save_changed(model, path, "StreamState", dict.fromkeys(parts, odd))
        refused(path)
    save_changed(model, path, "StreamState", parts)
    again = onlinels.load(path)
    again.learn_one({"t": 0.05 + again._state.time, "a": 1.0}, "u")
    assert again.n_windows <= 3
    model.save(path)
    again = onlinels.load(path)
    again.learn_one({"t": 0.2, "a": 1.0}, "u")
    assert again.n_windows == 2


def test_ranges_and_dates_as_labels_are_refused(path):
    with pytest.raises(TypeError, match=r"range\(0, 5\) of type range. It cannot be saved"):
        onlinels.save({"rows": range(5)}, path)
    model = LeastSquaresClassifier()
    model.learn_one({"a": 1.0}, date(2026, 1, 1))
    with pytest.raises(TypeError, match=r"_classes holds datetime.date.*pass str\(label\)"):
        onlinels.save(model, path)


def test_names_of_one_hash_are_few(path):
    modulus = sys.hash_info.modulus
    few = {number * modulus: 1 for number in range(8, 60)}
    onlinels.save(few, path)
    assert onlinels.load(path) == few
    pairs = [[modulus * number, 1] for number in range(8, 20_000)]
    for model in ({"dict": pairs}, {"set": [key for key, _ in pairs]}):
        rewritten(path, lambda said, model=model: said | {"model": model})
        refused(path, "names have the same hash")


def with_array(model, path, name, value):
    """Save a model, and put another number in the first place of one of its arrays."""
    model.save(path)
    with np.load(path) as file:
        changed = next(each for each in file.files if each.endswith(name))
        array = file[changed]
    array.flat[0] = value
    member = BytesIO()
    np.save(member, array)
    rewritten(path, lambda said: said, {f"{changed}.npy": member.getvalue()})


def test_statistics_are_numbers(path):
    model = LeastSquaresClassifier()
    for number in range(20):
        model.learn_one({"a": float(number), "b": float(number % 3)}, "xy"[number % 2])
    with_array(model, path, "corner", -1.0)
    refused(path, "A'A is indefinite")
    with_array(model, path, "cross", np.nan)
    loaded = onlinels.load(path)
    with pytest.raises(ValueError, match="infinite or NaN sums"):
        loaded.learn_many([{"a": 1.0}] * 20, ["x", "y"] * 10)


def test_moments_keep_their_time_zone_or_are_refused(path):
    noon = datetime(2024, 10, 26, 12)
    kept = [noon, noon.replace(tzinfo=UTC), noon.replace(tzinfo=timezone(timedelta(hours=2)))]
    onlinels.save(kept, path)
    assert [each.isoformat() for each in onlinels.load(path)] == [each.isoformat() for each in kept]
    for odd in (noon.replace(tzinfo=ZoneInfo("Europe/Berlin")), noon.replace(fold=1)):
        with pytest.raises(TypeError, match="expected UTC, a fixed offset or no time zone"):
            onlinels.save({"t": odd}, path)


def test_a_description_of_nothing_is_refused(path):
    onlinels.save({}, path)
    rewritten(path, lambda said: {})
    refused(path)


# -- bytes changed at random, and known attacks ---------------------------------------------------

(READER,) = [reader for reader in READERS if reader.name == "saved models"]


@pytest.fixture(scope="module")
def one_path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "model.npz"


def read(content, path):
    """Tell whether a file is "read" or "refused"; whatever else happens is a failure."""
    outcome = attempt(READER, path, content, measured=True)
    # No assertion on a clock, but on whether it comes back at all.
    assert outcome.seconds < 60.0
    kind = outcome.kind.partition(" after RecursionError")[0]
    assert kind in ("read", "refused"), outcome.kind
    return kind


@given(data=st.data())
@examples(150)
def test_bytes_that_changed(one_path, data):
    members = genuine(data.draw(st.sampled_from(MODELS)))
    content = changed(stored(members), Drawn(data.draw))
    if read(content, one_path) == "read":
        # Only what nobody reads has changed, such as the time of a member.
        with zipfile.ZipFile(io.BytesIO(saved(onlinels.loads(content)))) as file:
            assert file.read(DESCRIPTION) == members[DESCRIPTION]
    else:
        with pytest.raises(ValueError, match=r"^<bytes> (cannot be read|is of format)"):
            onlinels.loads(content)


@given(data=st.data())
@examples(460)
def test_descriptions_that_lie_and_arrays_of_other_shapes(one_path, data):
    craft = data.draw(st.sampled_from([lie] * 6 + [other_array]))
    read(craft(Drawn(data.draw)), one_path)


def described(members, said):
    """Return a file with a description, as it is or to be written in JSON."""
    said = said if isinstance(said, bytes) else json.dumps(said).encode()
    return stored(members | {DESCRIPTION: said})


def with_model(members, model):
    """Return a file whose description tells of another model."""
    return described(members, json.loads(members[DESCRIPTION]) | {"model": model})


def large(members):
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (2**62, 2**62)}
    np.lib.format.write_array_header_1_0(header, shape)
    return stored(members | dict.fromkeys(members.keys() - {DESCRIPTION}, header.getvalue()))


def lying_size(members):
    content = bytearray(stored(members))
    struct.pack_into("<II", content, content.rindex(DIRECTORY) + 20, 2**31, 2**31)
    return bytes(content)


def overlapping(members):
    content = bytearray(stored(members))
    first = content.index(DIRECTORY)
    second = content.index(DIRECTORY, first + 4)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    return bytes(content)


def pickled(members):
    name = next(name for name in members if name.endswith(".npy"))
    held = io.BytesIO()
    np.lib.format.write_array(held, np.array([{}], dtype=object), allow_pickle=True)
    return stored(members | {name: held.getvalue()})


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
    "absurd dimensions": large,
    "a member larger than the file": lying_size,
    "members that overlap": overlapping,
    "a pickle": pickled,
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
    for call in (lambda: onlinels.loads(content), lambda: onlinels.load(io.BytesIO(content))):
        with pytest.raises(ValueError, match=r"^<(bytes|file)> cannot be read as a saved model"):
            call()


@pytest.mark.parametrize(
    ("name", "within", "value"),
    [
        # Compiled code is not told to take much memory.
        ("drift, ADWIN", ("detector", "state", "max_buckets"), 2**50),
        ("drift, ADWIN", ("detector", "state", "grace_period"), 2**50),
        # Sizes are compared before anything of that size is made.
        ("hidden, float32", ("bias",), False),
    ],
)
def test_sizes_that_lie_are_refused(one_path, name, within, value):
    said = json.loads(genuine(name)[DESCRIPTION])
    holder = said["model"]["state"]
    for key in within[:-1]:
        holder = holder[key]
    holder[within[-1]] = value
    assert read(described(genuine(name), said), one_path) == "refused"
