"""The cropped digits of SVHN in MATLAB 5 files, which scipy reads as a whole.

The files are not streamed. Do not read files from untrusted sources: damaged files have crashed
scipy's reader.

Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and A. Y. Ng, "Reading digits in natural images
with unsupervised feature learning", NIPS workshop 2011.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from onlinels.datasets.reading import PUBLISHED, Format, Source, damaged, slices_of

SVHN_REMEDY = f"get SVHN's cropped digits from {PUBLISHED['svhn'][0]}"
SVHN_FILES = {part: [(f"{part}_32x32.mat",)] for part in ("train", "test", "extra")}


def _source(path: Path) -> Source:
    """Read a file of images (32, 32, 3) and labels from 0 to 9."""
    try:
        arrays = loadmat(path, variable_names=["X", "y"])
        images, numbers = arrays["X"], arrays["y"]
        if images.dtype != np.uint8 or images.shape[:-1] != (32, 32, 3) or not images.size:
            found = f"X is {images.dtype} {images.shape}"
            raise ValueError(f"{found}, expected uint8 (32, 32, 3, n)")
        if numbers.dtype.kind not in "fiu" or numbers.shape != (images.shape[3], 1):
            expected = f"one number for each of {images.shape[3]} images"
            raise ValueError(f"y is {numbers.dtype} {numbers.shape}, expected {expected}")
        if not np.isin(numbers, np.arange(1, 11)).all():
            raise ValueError("y holds other labels than 1 to 10 (10 is the digit 0)")
    except Exception as error:
        # Damaged files raise undocumented errors of zlib, numpy, Python and scipy.
        problem = f"cannot be read as a MATLAB 5 file with X and y: {error}"
        raise damaged(path, problem, SVHN_REMEDY) from error
    labels = (numbers[:, 0] % 10).astype(np.uint8)
    return partial(slices_of, images.transpose(3, 0, 1, 2), labels)


SVHN = Format("SVHN", SVHN_REMEDY, SVHN_FILES, lambda *paths: map(_source, paths))
