"""The readers of files, and hostile files for them. Another reader is one more entry."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import hostile_attacks as attacks
import hostile_formats as formats
import hostile_models as models
from hostile_changes import Choices, changed, one_of
from hostile_formats import METHODS, gzipped, matlab, plain, zipped
from hostile_reading import Reader

from onlinels.datasets import read_idx, read_image_data, read_norb, stream_image_data
from onlinels.datasets.norb import PARTS as NORB_STARTS
from onlinels.features.filters import OVERFEAT_FILES, read_filters
from onlinels.saving.arrays import LARGEST_RATIO

IMAGES = 16
"""Bytes allocated for each byte of images: read whole, in mini-batches, and printed."""

FILTERS = 64
"""The same of filters: a boolean is a byte in the file, and some copies of a float64 after."""

MODEL = 50
"""The same of models: JSON becomes objects of Python."""

IDX = {
    f"{part}-{kind}-ubyte": content
    for part in ("train", "t10k")
    for kind, content in (("images-idx3", formats.IDX_IMAGES), ("labels-idx1", formats.IDX_LABELS))
}
CIFAR = dict.fromkeys(
    (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"), formats.CIFAR
)
NORB = {
    f"{start}-{kind}.mat": content
    for start in NORB_STARTS.values()
    for kind, content in (("dat", formats.NORB_IMAGES), ("cat", formats.NORB_LABELS))
}
SVHN = {f"{part}_32x32.mat": matlab(compressed=False)(bytes) for part in ("train", "test")}


def without(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {each: content for each, content in files.items() if each != name}


def read_folder(path: Path) -> list[Any]:
    return read_images(path.parent)


def read_images(path: Path) -> list[Any]:
    """Read image data whole and in mini-batches; what is refused once must be refused twice."""
    try:
        whole = read_image_data(path)
    except ValueError:
        _stream(path)
        raise AssertionError("the stream reads what is refused as a whole") from None
    return [whole, _stream(path)]


def _stream(path: Path) -> list[Any]:
    return [list(stream_image_data(path, 2, part)) for part in ("train", "test")]


def _idx_oddity(choices: Choices) -> bytes:
    honest = bytes([0, 0, 8, 1]) + formats.big_endian(attacks.BOMB)
    return attacks.gzip_oddity(choices, formats.IDX_IMAGES, honest)


def _norb_oddity(choices: Choices) -> bytes:
    honest = formats.words(formats.NORB_BYTES, 1, attacks.BOMB, 1, 1)
    return attacks.gzip_oddity(choices, formats.NORB_LABELS, honest)


def _filters_in_zip(choices: Choices) -> bytes:
    return formats.zip_of({"weights.npy": attacks.npy_of_any_shape(choices)}, METHODS[1])


IDX_CRAFTED = (attacks.in_gzip(attacks.idx_of_any_shape), _idx_oddity)
NORB_CRAFTED = (attacks.in_gzip(attacks.norb_of_any_shape), _norb_oddity)
NORB_DAT = f"{NORB_STARTS['train']}-dat.mat"
OVERFEAT_SIZE = min(OVERFEAT_FILES)

READERS = (
    Reader(
        "IDX",
        "images.idx",
        (plain(formats.IDX_IMAGES), plain(formats.IDX_LABELS)),
        read_idx,
        IMAGES,
        (attacks.idx_of_any_shape,),
    ),
    Reader(
        "IDX, gzip",
        "images.idx.gz",
        (gzipped(formats.IDX_IMAGES), gzipped(formats.IDX_LABELS)),
        read_idx,
        IMAGES * LARGEST_RATIO,
        IDX_CRAFTED,
    ),
    Reader(
        "folder of MNIST",
        "train-images-idx3-ubyte.gz",
        (gzipped(formats.IDX_IMAGES),),
        read_folder,
        IMAGES * LARGEST_RATIO,
        IDX_CRAFTED,
        without(IDX, "train-images-idx3-ubyte"),
    ),
    Reader(
        "folder of MNIST, labels",
        "t10k-labels-idx1-ubyte",
        (plain(formats.IDX_LABELS),),
        read_folder,
        IMAGES,
        (attacks.idx_of_any_shape,),
        without(IDX, "t10k-labels-idx1-ubyte"),
    ),
    Reader(
        "folder of CIFAR-10",
        "data_batch_2.bin",
        (plain(formats.CIFAR),),
        read_folder,
        IMAGES,
        others=without(CIFAR, "data_batch_2.bin"),
    ),
    Reader(
        "folder of SVHN",
        "train_32x32.mat",
        (matlab(compressed=False),),
        read_folder,
        IMAGES * LARGEST_RATIO,
        (attacks.matlab_of_any_shape,),
        without(SVHN, "train_32x32.mat"),
    ),
    Reader(
        "folder of SVHN, compressed",
        "test_32x32.mat",
        (matlab(compressed=True),),
        read_folder,
        IMAGES * LARGEST_RATIO,
        (attacks.matlab_of_any_shape,),
        without(SVHN, "test_32x32.mat"),
    ),
    Reader(
        "NORB",
        "matrix.mat",
        (plain(formats.NORB_LABELS), plain(formats.NORB_IMAGES)),
        read_norb,
        IMAGES,
        (attacks.norb_of_any_shape,),
    ),
    Reader(
        "NORB, gzip",
        "matrix.mat.gz",
        (gzipped(formats.NORB_LABELS), gzipped(formats.NORB_IMAGES)),
        read_norb,
        IMAGES * LARGEST_RATIO,
        NORB_CRAFTED,
    ),
    Reader(
        "folder of NORB",
        NORB_DAT,
        (plain(formats.NORB_IMAGES),),
        read_folder,
        IMAGES,
        (attacks.norb_of_any_shape,),
        without(NORB, NORB_DAT),
    ),
    Reader(
        "images, npz",
        "data.npz",
        tuple(zipped(formats.IMAGE_ARRAYS, method) for method in METHODS[:2]),
        read_images,
        IMAGES * LARGEST_RATIO,
        (attacks.zip_oddity,),
    ),
    Reader(
        "filters, npy",
        "bank.npy",
        (plain(formats.FILTERS),),
        read_filters,
        FILTERS,
        (attacks.npy_of_any_shape,),
        refusals=(ValueError, TypeError),
    ),
    Reader(
        "filters, npz",
        "bank.npz",
        tuple(zipped({"weights.npy": formats.FILTERS}, method) for method in METHODS[:2]),
        read_filters,
        FILTERS * LARGEST_RATIO,
        (attacks.zip_oddity, _filters_in_zip),
        refusals=(ValueError, TypeError),
    ),
    Reader(
        "filters, OverFeat",
        "net_weight_1",
        (plain(formats.OVERFEAT),),
        read_filters,
        FILTERS,
        size=OVERFEAT_SIZE,
    ),
    Reader(
        "saved models",
        "model.npz",
        tuple(map(models.described, range(len(models.MODELS)))),
        models.read_model,
        MODEL,
        (models.lie, models.lie, models.other_array),
    ),
)


def hostile(reader: Reader, choices: Choices) -> bytes:
    """Return a genuine file changed within, without or both, another's, or one made to do harm."""
    way = int(choices.integers(0, 8))
    if way == 0:
        return one_of(choices, one_of(choices, READERS).forms)(bytes)
    if way < 4 and reader.crafted:
        content = one_of(choices, reader.crafted)(choices)
        return changed(content, choices) if way == 1 and len(content) < 10_000 else content
    within = partial(_changed_at_times, choices=choices) if way < 6 else bytes
    content = one_of(choices, reader.forms)(within)
    return content if way == 5 else changed(content, choices)


def _changed_at_times(content: bytes, choices: Choices) -> bytes:
    return changed(content, choices) if choices.integers(0, 2) else content
