"""Local contrast: every patch of an image brought to mean 0 and to about the same variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels.arrays import Matrix
from onlinels.settings import check_positive


def normalize_contrast(patches: Matrix, contrast_offset: float | None, axis: int = -1) -> Matrix:
    """Remove every patch's mean and divide it by sqrt(variance + contrast_offset).

    Parameters
    ----------
    patches : ndarray (..., patch_size), float32 or float64
        Or the pixels of a patch along another axis.
    contrast_offset : float, above 0, or None
        In squared units of the pixels. Patches of less variance are hardly amplified. None only
        removes the mean.
    axis : int
        That of the pixels of a patch.

    Returns
    -------
    ndarray, shape of `patches`
        A new array. An even patch gives zeros, exactly.

    Notes
    -----
    Five passes over the patches. The variance is that of the patch's pixels (divided by their
    number), a sum of squares of differences and so never negative; the difference of box sums of
    squares and squared box sums would be cheaper, but nothing of it is left beside brightness of
    1/sqrt(eps) times the contrast. The middle pixel is subtracted first: what is left is small
    where contrast is, and exactly 0 in even patches.

    References
    ----------
    A. Coates, H. Lee and A. Y. Ng (2011), "An Analysis of Single-Layer Networks in Unsupervised
    Feature Learning".

    Examples
    --------
    >>> normalize_contrast(np.array([[1.0, 3.0], [7.0, 7.0]]), 1e-12)
    array([[-1.,  1.],
           [ 0.,  0.]])
    """
    patch_size = patches.shape[axis]
    middle = patches.take([patch_size // 2], axis=axis)
    centred: Matrix = patches - middle
    centred -= centred.mean(axis=axis, keepdims=True)
    if contrast_offset is None:
        return centred
    variance = np.square(centred).mean(axis=axis, keepdims=True)
    variance += centred.dtype.type(contrast_offset)
    centred /= np.sqrt(variance)
    return centred


def check_contrast_offset(contrast_offset: Any, dtype: str) -> None:
    """Raise unless the offset is None or a number above 0 in this precision.

    Raises
    ------
    TypeError, ValueError
        If it is not.
    """
    if contrast_offset is None:
        return
    check_positive("contrast_offset", contrast_offset)
    smallest = float(np.finfo(dtype).tiny)
    if contrast_offset < smallest:
        raise ValueError(
            f"contrast_offset={contrast_offset!r} is 0 in {dtype}, expected at least "
            f"{smallest:g}. Pass a larger one, for instance 1e-9 times the squared brightness."
        )
