"""Files of image data sets in their genuine formats, written from drawn arrays."""

import gzip
from pathlib import Path

import numpy as np
from scipy.io import savemat

from onlinels.datasets import ImageData

SHAPES = {"idx": (4, 3), "cifar": (32, 32, 3), "svhn": (32, 32, 3), "norb": (96, 96, 2)}
N_CLASSES = {"idx": 10, "cifar": 10, "svhn": 10, "norb": 5}
CIFAR_FOLDER = "cifar-10-batches-bin"
NORB_STARTS = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}


def parts_of(data):
    return {"train": (data.x_train, data.y_train), "test": (data.x_test, data.y_test)}


def make_data(kind, n_train, n_test, seed):
    """Make images and labels as a data set of this kind has them."""
    rng = np.random.default_rng(seed)
    label_type = np.int32 if kind == "norb" else np.uint8
    parts = []
    for n in (n_train, n_test):
        parts.append(rng.integers(0, 256, (n, *SHAPES[kind]), dtype=np.uint8))
        parts.append(rng.integers(0, N_CLASSES[kind], n).astype(label_type))
    return ImageData(*parts)


def write(kind, folder, data, zipped=False):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    {"idx": write_idx, "cifar": write_cifar, "svhn": write_svhn, "norb": write_norb}[kind](
        folder, data, zipped
    )


def write_file(path, content, zipped=False):
    if zipped:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content, 1))
    else:
        path.write_bytes(content)


def idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def write_idx(folder, data, zipped=False, mark="-"):
    for part, start in (("train", "train"), ("test", "t10k")):
        for kind, array in zip(("images", "labels"), parts_of(data)[part], strict=True):
            path = folder / f"{start}-{kind}{mark}idx{array.ndim}-ubyte"
            write_file(path, idx_bytes(array), zipped)


def cifar_bytes(images, labels):
    rows = images.transpose(0, 3, 1, 2).reshape(len(labels), 3072)
    return np.column_stack([labels, rows]).astype(np.uint8).tobytes()


def write_cifar(folder, data, zipped=False):
    """Write the training images into five files of hardly different size."""
    assert not zipped
    for number, rows in enumerate(np.array_split(np.arange(len(data.y_train)), 5), 1):
        content = cifar_bytes(data.x_train[rows], data.y_train[rows])
        (folder / f"data_batch_{number}.bin").write_bytes(content)
    (folder / "test_batch.bin").write_bytes(cifar_bytes(data.x_test, data.y_test))


def svhn_arrays(images, labels):
    return {"X": images.transpose(1, 2, 3, 0), "y": np.where(labels == 0, 10, labels)[:, None]}


def write_svhn(folder, data, zipped=False, n_extra=0):
    """Write SVHN's files; the last `n_extra` training images are the extra ones."""
    n_train = len(data.y_train) - n_extra
    parts = {
        "train": (data.x_train[:n_train], data.y_train[:n_train]),
        "extra": (data.x_train[n_train:], data.y_train[n_train:]),
        "test": (data.x_test, data.y_test),
    }
    for part, (images, labels) in parts.items():
        if len(labels):
            path = folder / f"{part}_32x32.mat"
            savemat(path, svhn_arrays(images, labels), do_compression=zipped)


def norb_bytes(array):
    magic = {"u": 0x1E3D4C55, "i": 0x1E3D4C54}[array.dtype.kind]
    shape = (*array.shape, 1, 1)[: max(3, array.ndim)]
    little = array.astype(array.dtype.newbyteorder("<"))
    return np.array([magic, array.ndim, *shape], "<u4").tobytes() + little.tobytes()


def write_norb(folder, data, zipped=False):
    for part, (images, labels) in parts_of(data).items():
        infos = np.arange(4 * len(labels), dtype=np.int32).reshape(-1, 4)
        kinds = {"dat": images.transpose(0, 3, 1, 2), "cat": labels, "info": infos}
        for kind, array in kinds.items():
            path = folder / f"{NORB_STARTS[part]}-{kind}.mat"
            write_file(path, norb_bytes(array), zipped)
