"""How large pixels may be, and how faint a map is that holds nothing but rounding errors."""

from __future__ import annotations

from math import log10

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.features.convolution.stage import Convolution
from onlinels.features.pixels import LARGEST_PIXEL

ROUNDINGS = 16.0
"""Rounding errors of a convolution, relative to the brightest pixel times the filter's size."""

LARGEST_SHARE = {"float32": 1e30, "float64": 1e120}
"""Largest feature of a map that is divided by its sum, of up to 100 million positions."""

LARGEST_FEATURE = {"float32": 1e13, "float64": 1e60}
"""Largest feature whose hidden activations, and their squares, still fit the precision."""


def faintest_maps(images: Matrix, filters: Matrix, offsets: Matrix, stage: Convolution) -> Floats:
    """Return how large maps may be by rounding errors alone.

    (16 eps s)^(p q), with s the largest sum of products that a response may consist of, p the
    power before pooling (1 of a rectifier) and q that after it.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
    filters : ndarray (n_filters, filter_height, filter_width, n_channels)
    offsets : ndarray (n_groups, n_filters)
    stage : Convolution

    Returns
    -------
    ndarray (n, n_groups, n_filters), float64
    """
    groups = [
        _sizes(images[..., channels], filters[..., channels], stage)
        for channels in stage.groups(images.shape[3])
    ]
    sums = np.stack(groups, axis=1) + np.abs(offsets, dtype=np.float64)
    exponent = stage.before_pooling.exponent * stage.after_pooling.exponent
    faintest: Floats = (ROUNDINGS * np.finfo(images.dtype).eps * sums) ** exponent
    return faintest


def _sizes(images: Matrix, filters: Matrix, stage: Convolution) -> Floats:
    """Return the largest sum of products (n, n_filters) of pixels and filters.

    That is the brightest pixel times the filter's absolute sum, by channel. After normalisation no
    pixel of a patch is over the difference of the image's brightest and darkest divided by
    sqrt(contrast_offset): 0 of an image that is even throughout.
    """
    if stage.contrast_offset is None:
        brightest = np.abs(images).max(axis=(1, 2)).astype(np.float64)
        # Not by a product of matrices: its last digits depend on how many images there are.
        strengths = np.abs(filters).sum(axis=(1, 2))
        sizes: Floats = (brightest[:, None] * strengths).sum(axis=-1)
        return sizes
    low = images.min(axis=(1, 2, 3)).astype(np.float64)
    high = images.max(axis=(1, 2, 3)).astype(np.float64)
    if stage.rows.padding or stage.columns.padding:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    by_range = (high - low) / np.sqrt(stage.contrast_offset)
    strengths = np.abs(filters).sum(axis=(1, 2, 3))
    return np.minimum(np.outer(by_range, strengths), _longest_responses(filters))


def _longest_responses(filters: Matrix) -> Floats:
    """Return the largest responses (n_filters,) to normalised patches, of length sqrt(K)."""
    flat = filters.reshape(len(filters), -1)
    longest: Floats = np.sqrt(flat.shape[1]) * np.linalg.norm(flat, axis=1)
    return longest


def largest_pixel(
    filters: Matrix, offsets: Matrix, stage: Convolution, dtype: str, next_dtype: str
) -> float:
    """Return the largest magnitude of a pixel for which nothing leaves the range of a precision.

    With r the largest response, its power r^p before pooling must stay below 1e34 in float32 and
    1e120 in float64, and the feature r^(p q) below 1e13 and 1e60, so that hidden activations and
    their squares fit as well (or below 1e30 and 1e120, if it is divided by its map's sum).

    Parameters
    ----------
    filters : ndarray (n_filters, filter_height, filter_width, n_channels)
    offsets : ndarray (n_groups, n_filters)
    stage : Convolution
    dtype, next_dtype : "float32" or "float64"
        The precision of the features, and of what takes them.

    Raises
    ------
    ValueError
        If the filters themselves are too large: their offsets, or their responses to patches of
        normalised contrast, which do not depend on the pixels.
    """
    largest = LARGEST_PIXEL[dtype]
    before, after = stage.before_pooling.exponent, stage.after_pooling.exponent
    feature = LARGEST_FEATURE[next_dtype]
    if stage.normalization is not None:
        feature = LARGEST_SHARE[dtype] if stage.normalization == "map" else LARGEST_FEATURE[dtype]
    room = (log10(largest), log10(largest) * 2.0 / before, log10(feature) / (before * after))
    allowed = 10.0 ** min(room)
    groups = [filters[..., channels] for channels in stage.groups(filters.shape[3])]
    fixed = float(np.abs(offsets).max())
    if stage.contrast_offset is not None:
        fixed += max(float(_longest_responses(bank).max()) for bank in groups)
    if fixed > allowed:
        raise ValueError(
            f"filters and their offsets give responses as large as {fixed:g}, expected at most "
            f"{allowed:g} for {stage.before_pooling}, {stage.after_pooling} and dtype={dtype!r}. "
            "Rescale them."
        )
    if stage.contrast_offset is not None:
        return largest / float(np.sqrt(groups[0][0].size))
    strength = max(float(np.abs(bank).sum(axis=(1, 2, 3)).max()) for bank in groups)
    return min((allowed - fixed) / strength, largest**2) if strength else largest**2
