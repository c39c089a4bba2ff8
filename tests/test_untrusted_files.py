"""Whatever the bytes of a file are: it is read or refused, within bounds, and nothing else.

Started by hand: ``ONLINELS_LONG=100000 pytest -m slow -s tests/test_untrusted_files.py``.
Printed are a reader's files, those read and refused, milliseconds of the slowest and kB of the
largest allocation.
"""

import io
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels.saving.arrays import READ_BYTES, ArrayArchive, read_npy
from support.laws import peak_of
from support.strategies import examples
from support.untrusted_files import (
    ARRAYS,
    DIRECTORY,
    END,
    READERS,
    attempt,
    hostile,
    hostile_files,
    prepare,
    ran_out,
    read_arrays,
    zip_of,
)

# -- all readers, and attacks by format -----------------------------------------------------------

FEW = 4 * READ_BYTES
"""Bytes that a refusal may take, where the file states gigabytes."""
NAMES = [reader.name for reader in READERS]
each_reader = pytest.mark.parametrize("reader", READERS, ids=NAMES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


def path_of(reader, folder):
    return prepare(reader, folder / str(NAMES.index(reader.name)))


def n_open_within(folder):
    """Return how many files of a folder are open; those of other tests come and go."""
    numbers = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    paths = [os.path.realpath(f"/proc/self/fd/{number}") for number in numbers]
    return sum(path.startswith(os.path.realpath(folder) + os.sep) for path in paths)


@each_reader
def test_genuine_files_are_read_and_those_cut_anywhere_refused(reader, folder):
    path = path_of(reader, folder)
    for form in reader.forms:
        content = form(bytes)
        assert attempt(reader, path, content, True).kind == "read"
        n_bytes = len(content)
        for end in {*range(0, n_bytes, max(1, n_bytes // 60)), *range(n_bytes - 9, n_bytes)}:
            assert attempt(reader, path, content[:end], False).kind == "refused", end


@each_reader
@given(data=st.data())
@examples(40)
def test_hostile_files_are_read_or_refused_within_their_bounds(reader, folder, data):
    content = data.draw(hostile_files(reader))
    assert attempt(reader, path_of(reader, folder), content, True).kind in ("read", "refused")
    assert n_open_within(folder) == 0


def peak(read, path, match=r"cannot be read|damaged|bytes"):
    """Return the most bytes that a refusal takes."""

    def refused():
        with pytest.raises(ValueError, match=match):
            read(path)

    return peak_of(refused)


def header(description="'|u1'", shape="(3,)", order="False"):
    text = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        header(shape=f"({2**31},)"),
        header(shape=f"({2**28},)") + bytes(100),
        header("'<U500000000'", "()"),
        b"\x93NUMPY\2\0" + (2**31).to_bytes(4, "little") + b"{}",
        b"\x93NUMPY\3\0" + (2**32 - 1).to_bytes(4, "little") + header()[10:] + b"abc",
    ],
)
def test_an_array_file_takes_no_more_than_it_has(folder, content):
    archive = zip_of(ARRAYS | {"x_train.npy": content}, zipfile.ZIP_DEFLATED)
    (folder / "stated.npz").write_bytes(archive)
    assert peak(read_arrays, folder / "stated.npz") < FEW


@pytest.mark.parametrize(
    "content",
    [
        header(shape=f"({2**32}, {2**32})"),
        header(shape=f"({2**63},)"),
        header(shape=f"(0, {2**63})"),
        header(shape=f"(0, {10**30})"),
        header(shape="(" + "9" * 5000 + ",)"),
        header(shape="(" + "1, " * 65 + ")") + b"a",
        header(shape="(-1,)"),
        *(header(shape=shape) + b"abc" for shape in ("3.0", "(3")),
        header("'|S0'", "(9,)"),
        *(header(kind, "(1,)") + bytes(8) for kind in ("'|V8'", "[('a', '<f8')]", "'<M8[ns]'")),
        header("'|O'", "(1,)") + pickle.dumps([1]),
        header("'<i3'") + bytes(9),
        *(header(kind) + b"abc" for kind in ("'\\d'", "-" * 5000 + "1", "[" * 5000)),
        *(header(kind) + b"abc" for kind in ("'|u1' if 1else 2", "__import__('os').abort()")),
        header(order="'C'") + b"abc",
        header().replace(b"descr", b"dtype") + b"abc",
        header().replace(b"}", b", 'a': 1}") + b"abc",
        header().replace(b", }", b", 'a': True}") + b"abc",
        header() + b"abcd",
        header() + b"ab",
        header().replace(b"NUMPY\1", b"NUMPY\4") + b"abc",
        b"\x93NUMPY\1\0" + (60_000).to_bytes(2, "little") + b" " * 60_000,
        header("'<U1'", "(1,)") + b"\0\0\x11\0",
        header("'>U1'", "(1,)") + b"\0\x11\0\0",
    ],
)
def test_array_files_that_are_refused(content):
    with pytest.raises(ValueError, match=r"^it|dimension") as raised:
        read_npy(io.BytesIO(content), len(content))
    assert "pickle" not in str(raised.value)
    assert not ran_out(raised.value)


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.eye(2, dtype=">f4"), "text", 1j])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_array_files_of_any_version_read_as_they_were_written(array, order, version):
    array, file = np.asarray(array, order=order), io.BytesIO()
    np.lib.format.write_array(file, array, version)
    read = read_npy(io.BytesIO(file.getvalue()), len(file.getvalue()))
    assert (read.dtype, read.flags.f_contiguous) == (array.dtype, array.flags.f_contiguous)
    np.testing.assert_array_equal(read, array)


def test_headers_that_other_programs_write_and_sizes_that_are_not_reached():
    for text in ('{"shape":(3,),"fortran_order":False,"descr":"|u1"}', header()[10:].decode()):
        content = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode() + b"abc"
        np.testing.assert_array_equal(read_npy(io.BytesIO(content), len(content)), list(b"abc"))
    with pytest.raises(ValueError, match=r"ends after .* of .* bytes"):
        read_npy(io.BytesIO(header() + b"ab"), len(header()) + 3)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_bombs_in_archives_take_no_memory(folder, method):
    # What is stated is a tenth of what comes.
    bomb = header("'|O'", "(1,)") + bytes(9_000_000)
    (folder / "bomb.npz").write_bytes(zip_of(ARRAYS | {"x_train.npy": bomb}, method))
    assert peak(read_arrays, folder / "bomb.npz") < FEW


@pytest.mark.parametrize("field", [20, 24])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_whose_directory_lies_about_sizes(folder, field, method):
    content = bytearray(zip_of(ARRAYS, method))
    at = content.rindex(DIRECTORY) + field
    content[at : at + 4] = (2**31 - 1).to_bytes(4, "little")
    (folder / "lying.npz").write_bytes(content)
    assert peak(read_arrays, folder / "lying.npz") < FEW


@pytest.mark.parametrize("odd", [b"", b"no array", pickle.dumps([1]), b"\x93NUMPY"])
def test_members_that_are_no_arrays(folder, odd):
    path = folder / "odd.npz"
    path.write_bytes(zip_of(ARRAYS | {"x_train.npy": odd}, 8))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} cannot be read: it holds other"):
        read_arrays(path)


@pytest.mark.parametrize("field", [20, 24, 42])
@pytest.mark.parametrize("number", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_an_archive_whose_directory_states_numbers_of_64_bits(folder, field, number):
    content = zip_of(ARRAYS, zipfile.ZIP_STORED)
    start, end = content.rindex(DIRECTORY), content.rindex(END)
    entry, last = bytearray(content[start:end]), bytearray(content[end:])
    entry[field : field + 4] = b"\xff" * 4
    entry[30] = 12
    entry += bytes([1, 0, 8, 0]) + number.to_bytes(8, "little")
    last[12] = len(entry)
    (folder / "large.npz").write_bytes(content[:start] + entry + last)
    assert peak(read_arrays, folder / "large.npz") < FEW


def test_members_that_overlap(folder):
    inner = zip_of({"inner.npy": header(shape="(500,)") + bytes(500)}, zipfile.ZIP_STORED)
    outer = zip_of({"outer.npy": inner}, zipfile.ZIP_STORED)
    start = outer.index(inner)
    directories = b"".join(
        content[content.rindex(DIRECTORY) : content.rindex(END)] for content in (outer, inner)
    )
    directories = directories[:-13] + start.to_bytes(4, "little") + b"inner.npy"
    at = outer.rindex(DIRECTORY)
    end = b"PK\5\6" + bytes(4) + bytes([2, 0, 2, 0])
    end += len(directories).to_bytes(4, "little") + at.to_bytes(4, "little") + bytes(2)
    content = outer[:at] + directories + end
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["outer.npy", "inner.npy"]
    with pytest.raises(ValueError, match="overlap"):
        ArrayArchive(io.BytesIO(content))


class Harm:
    def __reduce__(self):
        return Path.touch, (Path("harm"),)


def test_nothing_is_unpickled(folder, monkeypatch):
    monkeypatch.chdir(folder)
    harm = np.array([Harm()], dtype=object)
    np.savez("data.npz", x_train=harm)
    with pytest.raises(ValueError, match="other things than arrays"):
        read_arrays(Path("data.npz"))
    assert not Path("harm").exists()


# -- many more files, in long runs ----------------------------------------------------------------

N_FILES = int(os.environ.get("ONLINELS_LONG", "2000"))
"""Of all readers together."""
SEED = int(os.environ.get("ONLINELS_SEED", "0"))
MEASURED_EVERY = 4
"""Allocations of one file in so many are traced, which makes its reading several times slower."""


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_every_file_is_read_or_refused(reader, tmp_path):
    path, outcomes = prepare(reader, tmp_path / "files"), []
    for number in range(N_FILES // len(READERS)):
        # So that a file can be made again by itself.
        content = hostile(reader, np.random.default_rng([SEED, READERS.index(reader), number]))
        outcomes.append(attempt(reader, path, content, number % MEASURED_EVERY == 0))
        kind = outcomes[-1].kind
        assert kind in ("read", "refused"), f"file {number} of seed {SEED}: {kind}"
    kinds = [outcome.kind for outcome in outcomes]
    slowest = 1000 * max(outcome.seconds for outcome in outcomes)
    largest = max(outcome.allocated for outcome in outcomes) / 1000
    print(
        f"\n| {reader.name} | {len(kinds):,} | {kinds.count('read'):,} | "
        f"{kinds.count('refused'):,} | {slowest:.1f} | {largest:,.0f} |"
    )
    assert {"read", "refused"} <= set(kinds)
