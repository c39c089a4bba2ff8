"""The cropped digits of SVHN in MATLAB 5 files, which scipy reads whole.

Such a file is not streamed, and not safe from strangers: damaged ones have crashed scipy's reader.

Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and A. Y. Ng, "Reading digits in natural images
with unsupervised feature learning", NIPS workshop 2011.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from onlinels.datasets.reading import Format, Source, find_file, slices_of

URL = "http://ufldl.stanford.edu/housenumbers/"
WHERE = f"get SVHN's cropped digits from {URL}"
PARTS = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
EXTRA = "extra_32x32.mat"
NAMES = (*PARTS.values(), EXTRA)
IMAGE = (32, 32, 3)
ADVICE = f"Pass the file as it was published; {WHERE}"
LABEL_OF_ZERO = 10


def svhn_sources(folder: Path, part: str, extra: bool | None = None) -> tuple[Source, ...]:
    """Read a part's files in a folder: images (32, 32, 3), labels from 0 to 9."""
    names = [PARTS[part]]
    if part == "train" and (extra or (extra is None and (folder / EXTRA).is_file())):
        names.append(EXTRA)
    return tuple(_source(find_file(folder, (name,), WHERE)) for name in names)


def _source(path: Path) -> Source:
    try:
        arrays = loadmat(path, variable_names=["X", "y"])
        images, numbers = arrays["X"], arrays["y"]
    except Exception as error:
        # Damaged files raise what nobody lists: of zlib, of numpy, of Python and scipy's own.
        raise ValueError(
            f"{path} is no MATLAB 5 file or damaged, or lacks X or y: {error}. {ADVICE}"
        ) from error
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != IMAGE or not images.size:
        raise ValueError(
            f"{path} holds X of {images.dtype} {images.shape}, expected uint8 (32, 32, 3, n). "
            f"{ADVICE}"
        )
    n_images = images.shape[3]
    if numbers.dtype.kind not in "fiu" or numbers.shape != (n_images, 1):
        raise ValueError(
            f"{path} holds y of {numbers.dtype} {numbers.shape}, expected one number for each of "
            f"{n_images} images. {ADVICE}"
        )
    if not np.isin(numbers, np.arange(1, LABEL_OF_ZERO + 1)).all():
        raise ValueError(f"{path} holds labels other than 1 to 9, and 10 for zero. {ADVICE}")
    labels = np.where(numbers[:, 0] == LABEL_OF_ZERO, 0, numbers[:, 0]).astype(np.uint8)
    return partial(slices_of, images.transpose(3, 0, 1, 2), labels)


SVHN = Format("SVHN", NAMES, WHERE, svhn_sources)
