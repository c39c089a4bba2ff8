"""Image data from .npz files and folders of IDX files; damaged ones are clear errors."""

import contextlib
import gzip

import numpy as np
import pytest

from onlinels.datasets import read_idx, read_image_data
from support.image_files import idx_bytes, write_file

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
    with pytest.raises(ValueError, match=r"is no \.npz file\. .* their folder: ") as raised:
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
