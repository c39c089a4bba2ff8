"""Files that claim to be models: damaged by chance, or made by somebody to do harm."""

import hashlib
import io
import json
import struct
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinels
from support.laws import saved
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
    packed,
)

(READER,) = [reader for reader in READERS if reader.name == "saved models"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
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
@settings(max_examples=150)
def test_bytes_that_changed(path, data):
    members = genuine(data.draw(st.sampled_from(MODELS)))
    content = changed(packed(members), Drawn(data.draw))
    if read(content, path) == "read":
        # Only what nobody reads has changed, such as the time of a member.
        with zipfile.ZipFile(io.BytesIO(saved(onlinels.loads(content)))) as file:
            assert file.read(DESCRIPTION) == members[DESCRIPTION]
    else:
        with pytest.raises(ValueError, match=r"^<bytes> (cannot be read|is of format)"):
            onlinels.loads(content)


@given(data=st.data())
@settings(max_examples=460)
def test_descriptions_that_lie_and_arrays_of_other_shapes(path, data):
    craft = data.draw(st.sampled_from([lie] * 6 + [other_array]))
    read(craft(Drawn(data.draw)), path)


def described(members, said):
    """Return a file with a description, as it is or to be written in JSON."""
    said = said if isinstance(said, bytes) else json.dumps(said).encode()
    return packed(members | {DESCRIPTION: said})


def with_model(members, model):
    """Return a file whose description tells of another model."""
    return described(members, json.loads(members[DESCRIPTION]) | {"model": model})


def large(members):
    said, header = json.loads(members[DESCRIPTION]), io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (2**62, 2**62)}
    np.lib.format.write_array_header_1_0(header, shape)
    absurd = {f"{name}.npy": header.getvalue() for name in said["arrays"]}
    checksum = hashlib.sha256(header.getvalue()).hexdigest()
    return described(members | absurd, said | {"arrays": dict.fromkeys(said["arrays"], checksum)})


def lying_size(members):
    content = bytearray(packed(members))
    struct.pack_into("<II", content, content.rindex(DIRECTORY) + 20, 2**31, 2**31)
    return bytes(content)


def overlapping(members):
    content = bytearray(packed(members))
    first = content.index(DIRECTORY)
    second = content.index(DIRECTORY, first + 4)
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
    "no members": lambda members: packed({}),
    "only a description": lambda members: packed({DESCRIPTION: members[DESCRIPTION]}),
    "one more member": lambda members: packed(members | {"more.npy": b""}),
    "a bomb": lambda members: packed(members | {DESCRIPTION: b" " * 10**7}, zipfile.ZIP_DEFLATED),
    "a deep description": lambda members: described(members, b"[" * 10**5),
    "a description that is a list": lambda members: described(members, b"[" * 900 + b"]" * 900),
    "absurd dimensions": large,
    "a member larger than the file": lying_size,
    "members that overlap": overlapping,
    "members twice": twice,
    "a pickle": pickled,
    "no JSON": lambda members: described(members, b"\xff\xfe"),
    "not a number": lambda members: described(members, b'{"format": NaN}'),
    "objects that hold each other": shared,
    "a name that is a lock": lambda members: with_model(members, {"dict": [[LOCK, 1]]}),
    "a name that is a list": lambda members: with_model(members, {"dict": [[{"tuple": [[]]}, 1]]}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks(path, attack):
    content = ATTACKS[attack](genuine("gram, {}"))
    assert read(content, path) == "refused"
    for call in (lambda: onlinels.loads(content), lambda: onlinels.load(io.BytesIO(content))):
        with pytest.raises(ValueError, match=r"^<(bytes|file)> cannot be read as a saved model"):
            call()


@pytest.mark.parametrize(
    ("name", "within", "value"),
    [
        # Compiled code is not told to take much memory.
        ("drift, ADWIN", ("detector", "state", "max_buckets"), 2**50),
        ("drift, ADWIN", ("detector", "state", "clock"), 2**50),
        ("drift, ADWIN", ("detector", "state", "grace_period"), 2**50),
        # Sizes are compared before anything of that size is made.
        ("stream", ("_activations", "state", "n_wide"), 6_000_000),
        ("stream", ("_activations", "state", "n_wide"), 10**12),
        ("hidden, float32", ("bias",), False),
    ],
)
def test_sizes_that_lie_are_refused(path, name, within, value):
    said = json.loads(genuine(name)[DESCRIPTION])
    holder = said["model"]["state"]
    for key in within[:-1]:
        holder = holder[key]
    holder[within[-1]] = value
    assert read(described(genuine(name), said), path) == "refused"
