"""Published image files: read as they were written, downloaded once, verified."""

import gzip
import hashlib
import tarfile

import image_data
import numpy as np
import pytest
from image_data import ImageData, download, read_image_data

SHAPES = {"mnist": (4, 3), "cifar10": (32, 32, 3), "norb": (96, 96, 2)}


def idx_bytes(array):
    sizes = np.array(array.shape, ">u4")
    return bytes([0, 0, 8, array.ndim]) + sizes.tobytes() + array.tobytes()


def norb_bytes(array):
    magic = {"u": 0x1E3D4C55, "i": 0x1E3D4C54}[array.dtype.kind]
    shape = (*array.shape, 1, 1)[: max(3, array.ndim)]
    return np.array([magic, array.ndim, *shape], "<u4").tobytes() + array.tobytes()


def cifar_bytes(images, labels):
    return np.column_stack([labels, channels_first(images).reshape(-1, 3072)]).tobytes()


def channels_first(images):
    return images.transpose(0, 3, 1, 2)


def files_of(name, data):
    """Return the published files of a small data set."""
    train, test = (data.x_train, data.y_train), (data.x_test, data.y_test)
    if name == "cifar10":
        parts = zip(*(np.array_split(each, 5) for each in train), strict=True)
        files = {f"data_batch_{k}.bin": cifar_bytes(*part) for k, part in enumerate(parts, 1)}
        return files | {"test_batch.bin": cifar_bytes(*test)}
    if name == "mnist":
        return {
            f"{start}-{kind}-ubyte": idx_bytes(array)
            for start, part in (("train", train), ("t10k", test))
            for kind, array in zip(("images-idx3", "labels-idx1"), part, strict=True)
        }
    return {
        f"smallnorb-5x1-{start}ing-{kind}.mat": norb_bytes(array)
        for start, (images, labels) in (("train", train), ("test", test))
        for kind, array in (("dat", channels_first(images)), ("cat", labels))
    }


def make(name):
    random, label_type = np.random.default_rng(0), np.int32 if name == "norb" else np.uint8
    images = [random.integers(0, 256, (n, *SHAPES[name]), dtype=np.uint8) for n in (7, 2)]
    labels = [random.integers(0, 5, n).astype(label_type) for n in (7, 2)]
    return ImageData(images[0], labels[0], images[1], labels[1])


def write(folder, files, ending="", pack=bytes):
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}{ending}").write_bytes(pack(content))


def assert_refused(path, message, error=ValueError):
    with pytest.raises(error, match=message):
        read_image_data(path)


def assert_same(read, written):
    for name, array in vars(written).items():
        np.testing.assert_array_equal(getattr(read, name), array)
        assert getattr(read, name).dtype == array.dtype


@pytest.mark.parametrize(
    ("name", "ending", "pack"),
    [
        *((name, "", bytes) for name in SHAPES),
        *((name, ".gz", gzip.compress) for name in ("mnist", "norb")),
    ],
)
def test_files_are_read_as_they_were_written(tmp_path, name, ending, pack):
    data, folder = make(name), tmp_path / "inside"
    write(folder, files_of(name, data), ending, pack)
    for path in (tmp_path, str(folder)):
        assert_same(read_image_data(path), data)


def test_files_that_cannot_be_read(tmp_path):
    data, path, folder = make("mnist"), tmp_path / "data.npz", tmp_path / "inside"
    np.savez(path, **vars(data))
    assert_same(read_image_data(path), data)
    np.savez(path, **vars(data) | {"y_test": data.y_test[:1]})
    assert_refused(path, "expected one label per image")
    np.savez(path, x_train=data.x_train)
    assert_refused(path, r"data\.npz cannot be read: .*y_train")
    assert_refused(tmp_path, "none of the files train-images")
    write(folder, files_of("mnist", data))
    images = folder / "t10k-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    assert_refused(folder, f"{folder} cannot be read")
    images.unlink()
    assert_refused(folder, r"no file t10k-images\?idx\*", FileNotFoundError)


def test_a_download_is_verified_and_unpacked(tmp_path, monkeypatch):
    data, archive, folder = make("cifar10"), tmp_path / "cifar.tar.gz", tmp_path / "own" / "cifar10"
    write(tmp_path / "inside", files_of("cifar10", data))
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "inside", "inside")
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = f"{tmp_path.as_uri()}/", {archive.name: checksum}
    monkeypatch.setitem(image_data.PUBLISHED, "cifar10", source)
    download("cifar10", folder)
    archive.unlink()  # The second time it is there.
    download("cifar10", folder)
    assert_same(read_image_data(folder), data)
    (folder / archive.name).write_bytes(b"from elsewhere")
    with pytest.raises(ValueError, match=r"cifar\.tar\.gz is not the published file.*Delete it"):
        download("cifar10", folder)
    (folder / archive.name).unlink()
    archive.write_bytes(b"not what was published")
    with pytest.raises(ValueError, match="is not the published file"):
        download("cifar10", folder)
    assert not (folder / archive.name).exists()
