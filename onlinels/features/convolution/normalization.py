"""What features are divided by: the sum of their map, or the length of all of an image's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onlinels.arrays import Matrix


def normalize_maps(features: Matrix) -> None:
    """Divide every map (each side of a rectifier on its own) by its sum, in place.

    Parameters
    ----------
    features : ndarray (n, ..., n_positions)
        Not negative. A map of zeros stays.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), Algorithm 1.

    Examples
    --------
    >>> maps = np.array([[[1.0, 3.0], [0.0, 0.0]]])
    >>> normalize_maps(maps)
    >>> maps
    array([[[0.25, 0.75],
            [0.  , 0.  ]]])
    """
    totals = features.sum(axis=-1, keepdims=True)
    totals[totals == 0.0] = 1.0
    features /= totals


def normalize_images(features: Matrix) -> None:
    """Divide all features of an image by their length, in place.

    Parameters
    ----------
    features : ndarray (n, ...)
        Those of an image without any but zeros stay.

    Examples
    --------
    >>> images = np.array([[[3.0, 0.0], [0.0, 4.0]]])
    >>> normalize_images(images)
    >>> images
    array([[[0.6, 0. ],
            [0. , 0.8]]])
    """
    rows = features.reshape(len(features), -1)
    lengths = np.sqrt(np.vecdot(rows, rows))
    lengths[lengths == 0.0] = 1.0
    rows /= lengths[:, None]


NORMALIZATIONS: dict[str, Callable[[Matrix], None]] = {
    "map": normalize_maps,
    "image": normalize_images,
}


def check_normalize(normalize: Any) -> None:
    """Raise unless `normalize` is known.

    Raises
    ------
    ValueError
        If it is no bool and no name of a normalisation.
    """
    known = isinstance(normalize, (bool, np.bool_))
    if not known and not (isinstance(normalize, str) and normalize in NORMALIZATIONS):
        raise ValueError(
            f"normalize={normalize!r} is not known. Pass True, False, "
            f"{' or '.join(map(repr, NORMALIZATIONS))}."
        )
