"""Published image files: read as they were written, downloaded once, verified."""

import gzip
import hashlib
import tarfile

import image_data
import numpy as np
import pytest
from image_data import ImageData, download, read_image_data

SHAPES = {"mnist": (4, 3), "cifar10": (32, 32, 3), "svhn": (32, 32, 3), "norb": (96, 96, 2)}
NORB_MAGIC = {"u": 0x1E3D4C55, "i": 0x1E3D4C54}


def idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def norb_bytes(array):
    shape = (*array.shape, 1, 1)[: max(3, array.ndim)]
    header = np.array([NORB_MAGIC[array.dtype.kind], array.ndim, *shape], "<u4")
    return header.tobytes() + array.tobytes()


def cifar_bytes(images, labels):
    rows = images.transpose(0, 3, 1, 2).reshape(len(labels), 3072)
    return np.column_stack([labels, rows]).astype(np.uint8).tobytes()


def files_of(name, data):
    """Return the published files of a small data set."""
    files = {}
    for part, images, labels in (
        ("train", data.x_train, data.y_train),
        ("test", data.x_test, data.y_test),
    ):
        if name == "mnist":
            start = {"train": "train", "test": "t10k"}[part]
            files[f"{start}-images-idx3-ubyte"] = idx_bytes(images)
            files[f"{start}-labels-idx1-ubyte"] = idx_bytes(labels)
        elif name == "norb":
            for kind, array in (("dat", images.transpose(0, 3, 1, 2)), ("cat", labels)):
                files[f"smallnorb-5x1-{part}ing-{kind}.mat"] = norb_bytes(array)
        elif part == "test":
            files["test_batch.bin"] = cifar_bytes(images, labels)
        else:
            for number, rows in enumerate(np.array_split(np.arange(len(labels)), 5), 1):
                files[f"data_batch_{number}.bin"] = cifar_bytes(images[rows], labels[rows])
    return files


def make(name):
    random = np.random.default_rng(0)
    label_type = np.int32 if name == "norb" else np.uint8
    parts = []
    for n in (7, 2):
        parts.append(random.integers(0, 256, (n, *SHAPES[name]), dtype=np.uint8))
        parts.append(random.integers(0, 5, n).astype(label_type))
    return ImageData(*parts)


def assert_same(read, written):
    for name, array in vars(written).items():
        np.testing.assert_array_equal(getattr(read, name), array)
        assert getattr(read, name).dtype == array.dtype


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["mnist", "cifar10", "norb"])
def test_files_are_read_as_they_were_written(tmp_path, name, zipped):
    data, folder = make(name), tmp_path / "inside"
    folder.mkdir()
    for file_name, content in files_of(name, data).items():
        if zipped and name != "cifar10":
            (folder / f"{file_name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / file_name).write_bytes(content)
    assert_same(read_image_data(tmp_path), data)
    assert_same(read_image_data(str(folder)), data)


def test_files_that_cannot_be_read(tmp_path):
    data, path, folder = make("mnist"), tmp_path / "data.npz", tmp_path / "inside"
    np.savez(path, **vars(data))
    assert_same(read_image_data(path), data)
    np.savez(path, **vars(data) | {"y_test": data.y_test[:1]})
    with pytest.raises(ValueError, match="expected one label per image"):
        read_image_data(path)
    np.savez(path, x_train=data.x_train)
    with pytest.raises(ValueError, match=r"data\.npz cannot be read: .*y_train"):
        read_image_data(path)
    folder.mkdir()
    with pytest.raises(ValueError, match="none of the files train-images"):
        read_image_data(folder)
    for name, content in files_of("mnist", data).items():
        (folder / name).write_bytes(content)
    (folder / "t10k-images-idx3-ubyte").write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"{folder} cannot be read"):
        read_image_data(folder)
    (folder / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file t10k-images\?idx\*"):
        read_image_data(folder)


def test_a_download_is_verified_and_unpacked(tmp_path, monkeypatch):
    data, published, folder = make("cifar10"), tmp_path / "published", tmp_path / "own" / "cifar10"
    published.mkdir()
    archive = published / "cifar.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for name, content in files_of("cifar10", data).items():
            (published / name).write_bytes(content)
            packed.add(published / name, f"inside/{name}")
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = f"{published.as_uri()}/", {archive.name: checksum}
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
