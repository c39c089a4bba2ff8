"""Files of images read back as the arrays they were written from; damaged ones raise.

Formats are those in which data sets are published (IDX, CIFAR, SVHN, NORB), and .npz files.
"""

import contextlib
import gzip
import re
import tracemalloc
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from onlinels.datasets import download, read_idx, read_image_data, read_norb, stream_image_data
from support import image_files
from support.image_files import (
    CIFAR_FOLDER,
    NORB_STARTS,
    idx_bytes,
    make_data,
    norb_bytes,
    parts_of,
    svhn_arrays,
    write,
    write_file,
)
from support.strategies import examples, image_data

# -- published formats ----------------------------------------------------------------------------

KINDS = ["idx", "cifar", "svhn", "norb"]

URLS = {
    "idx": "ossci-datasets.*fashion-mnist",
    "cifar": r"kriz/cifar-10-binary\.tar\.gz",
    "svhn": "ufldl.stanford.edu/housenumbers",
    "norb": "norb-v1.0-small",
}


def assert_same_data(read, written):
    for part, own in zip(parts_of(read).values(), parts_of(written).values(), strict=True):
        assert_same_batch(part, own)
        assert part[0].flags.c_contiguous


def assert_same_batch(read, written):
    for array, own in zip(read, written, strict=True):
        assert array.dtype == own.dtype
        np.testing.assert_array_equal(array, own)


@examples(40)
@given(image_data(), st.booleans(), st.integers(1, 20), st.sampled_from(["train", "test"]))
def test_files_read_and_stream_as_they_were_written(drawn, within, batch_size, part):
    kind, zipped, data = drawn
    with TemporaryDirectory() as folder:
        write(kind, Path(folder, "files") if within else folder, data, zipped)
        assert_same_data(read_image_data(folder), data)
        batches = list(stream_image_data(folder, batch_size, part))
    sizes = [len(labels) for _, labels in batches]
    assert all(size == batch_size for size in sizes[:-1])
    assert 1 <= sizes[-1] <= batch_size
    images, labels = zip(*batches, strict=True)
    assert_same_batch((np.concatenate(images), np.concatenate(labels)), parts_of(data)[part])
    assert all(len(some) == size for some, size in zip(images, sizes, strict=True))


def test_extra_images_follow_where_they_lie_or_are_asked_for(tmp_path):
    data = make_data("svhn", 9, 2, 0)
    image_files.write_svhn(tmp_path, data, n_extra=4)
    assert_same_data(read_image_data(tmp_path), data)
    assert_same_data(read_image_data(tmp_path, extra=True), data)
    assert_same_batch(next(stream_image_data(tmp_path, 9)), (data.x_train, data.y_train))
    own = (data.x_train[:5], data.y_train[:5])
    assert_same_batch(next(stream_image_data(tmp_path, 9, extra=False)), own)
    (tmp_path / "extra_32x32.mat").unlink()
    assert len(read_image_data(tmp_path).y_train) == 5
    with pytest.raises(FileNotFoundError, match=r"extra_32x32\.mat"):
        read_image_data(tmp_path, extra=True)


def test_a_folder_with_nothing_known_lists_what_was_sought(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "train_32x32.mat").mkdir()
    with pytest.raises(FileNotFoundError) as error:
        read_image_data(tmp_path)
    for kind in KINDS:
        assert re.search(URLS[kind], str(error.value))
    for name in ("train-images-idx3-ubyte.gz", "test_batch.bin", "extra_32x32.mat", "testing-cat"):
        assert name in str(error.value)


@pytest.mark.parametrize("places", [(".", "."), ("a", "b"), ("a", "a")])
def test_a_folder_with_two_data_sets_is_ambiguous(tmp_path, places):
    write("idx", tmp_path / places[0], make_data("idx", 2, 2, 0))
    write("svhn", tmp_path / places[1], make_data("svhn", 2, 2, 0))
    with pytest.raises(ValueError, match=r"more than one data set: .*MNIST in .*SVHN in "):
        read_image_data(tmp_path)


def test_a_folder_itself_comes_before_those_within(tmp_path):
    data = make_data("cifar", 5, 1, 0)
    write("cifar", tmp_path, data)
    write("idx", tmp_path / "other", make_data("idx", 2, 2, 0))
    assert_same_data(read_image_data(tmp_path), data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file_is_named_with_its_place(tmp_path, kind):
    write(kind, tmp_path / CIFAR_FOLDER, make_data(kind, 5, 1, 0))
    for path in sorted((tmp_path / CIFAR_FOLDER).glob("*[!o].*")):
        if "info" in path.name:
            continue
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(FileNotFoundError, match=f"{re.escape(path.name)}.*{URLS[kind]}"):
            read_image_data(tmp_path)
        path.write_bytes(content)


def first_label(number):
    return lambda content: bytes([number]) + content[1:]


def words(*numbers):
    return np.array(numbers, "<i4").tobytes()


NORB_IMAGES, NORB_LABELS = (f"{NORB_STARTS['train']}-{kind}.mat" for kind in ("dat", "cat"))

DAMAGES = [
    ("idx", "train-images-idx3-ubyte", lambda content: content[:-1], "expected 88"),
    ("idx", "train-images-idx3-ubyte", lambda _: image_files.idx_bytes(np.ones(6, "u1")), "height"),
    ("idx", "t10k-labels-idx1-ubyte", lambda _: image_files.idx_bytes(np.ones(3, "u1")), r"\(2,\)"),
    ("idx", "t10k-labels-idx1-ubyte", lambda c: c[:-1] + b"\x0a", "0 to 9|to 10, expected"),
    ("idx", "t10k-labels-idx1-ubyte", lambda _: bytes([0, 0, 8, 1, 0, 0, 0, 0]), "sizes above 0"),
    ("cifar", "data_batch_3.bin", lambda content: content[:-1], "multiple of 3073"),
    ("cifar", "data_batch_3.bin", lambda _: b"", "multiple of 3073"),
    ("cifar", "data_batch_5.bin", first_label(10), "expected 0 to 9"),
    ("norb", NORB_IMAGES, lambda content: content[:-1], "expected 110616"),
    ("norb", NORB_IMAGES, lambda content: b"\0" + content[1:], "begins with 00 4c 3d 1e"),
    ("norb", NORB_IMAGES, lambda _: b"", "begins with"),
    ("norb", NORB_IMAGES, lambda c: c[:4] + words(0) + c[8:], "has 0 dimensions"),
    ("norb", NORB_IMAGES, lambda c: c[:4] + words(8) + c[8:24], "has 8 dimensions"),
    ("norb", NORB_IMAGES, lambda c: c[:8] + words(-6) + c[12:], "sizes above 0"),
    ("norb", NORB_IMAGES, lambda c: c[:8] + words(2**31 - 1) + c[12:], "at most 2147483648 bytes"),
    ("norb", NORB_IMAGES, lambda _: norb_bytes(np.ones((6, 1, 96, 96), "u1")), "2, 96, 96"),
    ("norb", NORB_IMAGES, lambda _: norb_bytes(np.ones((6, 2, 96, 96), "i4")), "uint8"),
    ("norb", NORB_LABELS, lambda _: norb_bytes(np.ones(5, "i4")), r"expected \(6,\)"),
    ("norb", NORB_LABELS, lambda c: c[:-4] + words(5), "expected 0 to 4"),
    ("svhn", "train_32x32.mat", lambda content: content[:200], "cannot be read as a MATLAB 5 file"),
    ("svhn", "train_32x32.mat", lambda content: content[:-50], "cannot be read as a MATLAB 5 file"),
    ("svhn", "train_32x32.mat", lambda _: b"", "cannot be read as a MATLAB 5 file"),
]


@pytest.mark.parametrize(("kind", "name", "damage", "message"), DAMAGES)
def test_damaged_files_raise_with_name_and_remedy(tmp_path, kind, name, damage, message):
    write(kind, tmp_path, make_data(kind, 6, 2, 0))
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    for read in (read_image_data, stream_both):
        with pytest.raises(ValueError, match=f"(?s){re.escape(str(path))} .*{message}"):
            read(tmp_path)


def stream_both(folder):
    for part in ("train", "test"):
        list(stream_image_data(folder, 2, part))


def test_small_files_written_by_hand(tmp_path):
    red_then_green = bytes([9]) + bytes([1]) * 1024 + bytes([2]) * 1024 + bytes([3]) * 1024
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (tmp_path / f"{name}.bin").write_bytes(red_then_green)
    data = read_image_data(tmp_path)
    assert data.y_test.tolist() == [9]
    assert data.x_test[0, 31, 0].tolist() == [1, 2, 3]
    content = bytes.fromhex("544c3d1e 01000000 02000000 01000000 01000000")
    (tmp_path / "cat.mat").write_bytes(content + bytes([4, 0, 0, 0, 0, 1, 0, 0]))
    assert read_norb(str(tmp_path / "cat.mat")).tolist() == [4, 256]
    (tmp_path / "labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2]) + b"ab")
    assert read_idx(str(tmp_path / "labels")).tolist() == [97, 98]


@pytest.mark.parametrize("zipped", [False, True])
def test_the_table_of_poses_reads_too(tmp_path, zipped):
    write("norb", tmp_path, make_data("norb", 3, 1, 0), zipped)
    path = tmp_path / f"{NORB_STARTS['train']}-info.mat{'.gz' * zipped}"
    np.testing.assert_array_equal(read_norb(path), np.arange(12).reshape(3, 4))


@pytest.fixture
def idx_files(tmp_path):
    """A folder of IDX files, and an archive of the same arrays in it."""
    data = make_data("idx", 7, 3, 0)
    write("idx", tmp_path, data)
    np.savez(tmp_path / "data.npz", **vars(data))
    return tmp_path, data


def test_npz_arrays_stream_as_they_are_read(idx_files):
    folder, data = idx_files
    for batch_size in (1, 2, 3, 9):
        batches = list(stream_image_data(str(folder / "data.npz"), batch_size, "test"))
        images, labels = map(np.concatenate, zip(*batches, strict=True))
        assert_same_batch((images, labels), (data.x_test, data.y_test))


BAD_CALLS = [
    (lambda folder: stream_image_data(folder, 0), ValueError, "batch_size=0"),
    (lambda folder: stream_image_data(folder, 2.0), TypeError, r"batch_size=2\.0"),
    (lambda folder: stream_image_data(folder, 2, "extra"), ValueError, "part='extra'"),
    (lambda folder: stream_image_data(folder, 1, extra=True), ValueError, "extra=True is only for"),
    (lambda folder: read_image_data(folder, extra=True), ValueError, "extra=True is only for"),
    (lambda folder: read_image_data(folder / "data.npz", extra=True), ValueError, "for SVHN"),
    (lambda folder: stream_image_data(folder / "data.npz", 1, extra=True), ValueError, "for SVHN"),
    (lambda folder: read_image_data(folder, extra="yes"), TypeError, "extra='yes' must be a bool"),
    (lambda folder: download("mnist", 5), TypeError, "^folder=5 must be a path"),
    (lambda folder: stream_image_data(None, 5), TypeError, "^path=None must be a path"),
    (lambda folder: read_image_data(None), TypeError, "^path=None must be a path"),
    (lambda folder: read_norb(None), TypeError, "^path=None must be a path"),
    (lambda folder: read_idx(5), TypeError, "^path=5 must be a path"),
    (read_norb, ValueError, "is a folder, expected a file"),
    (read_idx, ValueError, "is a folder, expected a file"),
    (lambda folder: read_norb(folder / "missing"), FileNotFoundError, "no file .* get .*https?://"),
    (lambda folder: read_idx(folder / "missing"), FileNotFoundError, "no file .* get .*https?://"),
]


def test_bad_arguments(idx_files):
    for call, error, message in BAD_CALLS:
        with pytest.raises(error, match=message):
            call(idx_files[0])


def test_matlab_files_with_other_contents(tmp_path):
    data = make_data("svhn", 3, 1, 0)
    write("svhn", tmp_path, data)
    good, path = svhn_arrays(data.x_test, data.y_test), tmp_path / "test_32x32.mat"
    for arrays, message in [
        ({"X": good["X"]}, "cannot be read as a MATLAB 5 file with X and y: 'y'"),
        (good | {"y": good["y"][:0]}, r"y is uint8 \(0, 1\), expected one number for each of 1"),
        (good | {"y": good["y"] * 0}, "other labels than 1 to 10"),
        (good | {"y": good["y"] * np.nan}, "other labels than 1 to 10"),
        (good | {"y": good["y"] * 1j}, "y is complex128"),
        (good | {"y": "abc"}, "y is <U3"),
        (good | {"X": {"a": 1}}, "X is .*expected uint8"),
        (good | {"X": good["X"].astype(float)}, "X is float64"),
        (good | {"X": good["X"][:, :, :2]}, r"expected uint8 \(32, 32, 3, n\)"),
    ]:
        savemat(path, arrays)
        with pytest.raises(
            ValueError, match=f"(?s){re.escape(str(path))} .*{message}.*{URLS['svhn']}"
        ):
            read_image_data(tmp_path)
    for kind in ("f8", "f4", "i4", "u2"):
        savemat(path, good | {"y": good["y"].astype(kind)})
        assert_same_data(read_image_data(tmp_path), data)


@pytest.mark.parametrize("kind", ["idx", "norb"])
def test_damaged_gzip_files_raise_while_streaming_at_the_latest(tmp_path, kind):
    write(kind, tmp_path, make_data(kind, 6, 2, 0), zipped=True)
    path = tmp_path / {"idx": "train-images-idx3-ubyte.gz", "norb": NORB_IMAGES + ".gz"}[kind]
    content = path.read_bytes()
    for cut in (slice(None, -9), slice(None, 30), slice(5, None)):
        path.write_bytes(content[cut])
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} .*{URLS[kind]}"):
            list(stream_image_data(tmp_path, 2))
    unzipped = gzip.decompress(content)
    for other, held in ((unzipped[:-1], "fewer"), (unzipped + b"x", "more")):
        path.write_bytes(gzip.compress(other))
        with pytest.raises(ValueError, match=f"holds {held} values"):
            read_image_data(tmp_path)


def test_a_small_gzip_file_that_states_gigabytes(tmp_path):
    path = tmp_path / "bomb.mat.gz"
    path.write_bytes(gzip.compress(words(0x1E3D4C55, 4, 2**16, 2, 96, 96) + bytes(10**5)))
    with pytest.raises(ValueError, match="before compression"):
        read_norb(path)


@pytest.mark.parametrize(
    ("kind", "zipped"),
    [("idx", False), ("idx", True), ("cifar", False), ("norb", False), ("norb", True)],
)
def test_streaming_holds_some_batches_and_not_the_whole(tmp_path, kind, zipped, monkeypatch):
    monkeypatch.setitem(image_files.SHAPES, "idx", (96, 192))
    data = make_data(kind, 2000 if kind == "cifar" else 400, 1, 0)
    write(kind, tmp_path, data, zipped)
    n_bytes = data.x_train.nbytes
    del data
    peaks = []
    for read in (read_image_data, lambda folder: deque(stream_image_data(folder, 8), 0)):
        tracemalloc.start()
        read(tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Since Python 3.12, gzip reads larger pieces.
    assert peaks[1] < n_bytes / 5 < n_bytes < peaks[0]


# -- .npz files, and folders of IDX files ---------------------------------------------------------

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
LABELS = np.array([7, 2], dtype=np.uint8)


def write_folder(folder, between="-", zipped=False):
    for part in ("train", "t10k"):
        for kind, array in (("images", IMAGES), ("labels", LABELS)):
            name = f"{part}-{kind}{between}idx{array.ndim}-ubyte"
            write_file(folder / name, idx_bytes(array), zipped)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("between", "-.")
def test_a_folder_of_idx_files(tmp_path, between, zipped):
    write_folder(tmp_path, between, zipped)
    data = read_image_data(tmp_path)
    for images, labels in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        np.testing.assert_array_equal(images, IMAGES)
        np.testing.assert_array_equal(labels, LABELS)


def test_an_npz_file_and_what_is_missing(tmp_path):
    path = tmp_path / "data.npz"
    with pytest.raises(FileNotFoundError, match=r"train-images-idx.*mnist"):
        read_image_data(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_image_data(path)
    np.savez(path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:1], y_test=LABELS[:1])
    np.testing.assert_array_equal(read_image_data(str(path)).x_test, IMAGES[:1])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\0\0\x08",
        b"\0\0\x08\0",
        b"\0\0\x0d\x01" + b"\0\0\0\x02" + b"ab",
        idx_bytes(IMAGES)[:-1],
        idx_bytes(IMAGES) + b"x",
        bytes([0, 0, 8, 3]) + b"\xff" * 12,
        bytes([0, 0, 8, 255]) + b"\xff" * 12,
        b"PK\x03\x04 something else entirely",
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_damaged_idx_files(tmp_path, content, zipped):
    write_file(tmp_path / "images.idx", content, zipped)
    name = "images.idx.gz" if zipped else "images.idx"
    with pytest.raises(ValueError, match=name):
        read_idx(tmp_path / name)


# Without the time of now, which would be part of the test's name.
CUT_SHORT = gzip.compress(b"cut short" * 99, mtime=0)[:-9]


@pytest.mark.parametrize("content", [b"", b"no gzip", CUT_SHORT])
def test_damaged_gzip_files(tmp_path, content):
    path = tmp_path / "images.idx.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"gzip file|begins with"):
        read_idx(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": IMAGES}, "no array y_train"),
        ({"y_train": LABELS[:1]}, r"y_train \(1,\), expected"),
        ({"x_test": IMAGES[0]}, r"x_test has shape \(3, 4\)"),
        ({"x_train": np.array([{}], dtype=object)}, "cannot be read"),
    ],
)
def test_bad_npz_files(tmp_path, arrays, message):
    good = {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES, "y_test": LABELS}
    chosen = arrays if "no array" in message else good | arrays
    np.savez(tmp_path / "data.npz", **chosen)
    with pytest.raises(ValueError, match=message) as raised:
        read_image_data(tmp_path / "data.npz")
    assert "pickle" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04" + b"\0" * 50])
def test_files_that_are_no_npz(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read"):
        read_image_data(tmp_path / "data.npz")


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "array.npy", "text.txt"])
def test_a_file_of_another_format_sends_to_its_folder(tmp_path, name):
    write_folder(tmp_path)
    np.save(tmp_path / "array.npy", IMAGES)
    (tmp_path / "text.txt").write_text("Some words.", "utf-8")
    with pytest.raises(ValueError, match=r"is not an \.npz file\. .* the folder of ") as raised:
        read_image_data(tmp_path / name)
    assert str(raised.value).endswith(f"{tmp_path}.")
    assert "pickle" not in str(raised.value)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_npz_files_with_any_one_byte_changed(tmp_path, write):
    path = tmp_path / "data.npz"
    write(path, x_train=np.eye(3)[None], y_train=[1], x_test=np.eye(3)[None], y_test=[1])
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with contextlib.suppress(ValueError):
            read_image_data(path)
