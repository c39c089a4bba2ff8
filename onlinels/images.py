"""What `ShallowConvClassifier` is made of: filters from patches, preprocessing, and drawings.

Drawings need matplotlib: ``pip install 'onlinels[demos]'``.
"""

from __future__ import annotations

import os
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinels.checks import Floats, check_count
from onlinels.evaluate import axes_at
from onlinels.features.filters import Patches, make_bank, recipes
from onlinels.features.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ImagePreprocessing", "Patches", "plot_filters"]

PIXEL_INCHES = 0.08
"""Side length of a filter's pixel in a new figure."""


def plot_filters(
    filters: Any,
    path_or_axes: str | os.PathLike[str] | Axes | None = None,
    n_columns: int | None = None,
) -> Axes:
    """Draw a bank of filters as a grid of tiles, each scaled to its own range.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]) or tuple of these
        The filters. Filters with three channels are drawn in colour, with one channel in grey. With
        other numbers, each channel is a grey tile, and the tiles of a filter are side by side. A
        filter with a single value is half grey.
    path_or_axes : path, Axes or None
        Path of the picture to save, or axes to draw on. None opens a pyplot figure.
    n_columns : int, optional
        Number of filters in a row, by default about the number of rows.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError, ValueError
        If `filters` is not a bank, or contains `Patches`, whose filters do not exist yet. If
        `path_or_axes` is neither a path nor axes, or matplotlib does not know the file type.
    OSError
        If the picture cannot be saved at the path.

    Notes
    -----
    Filters are drawn as they are stored; a convolution rotates them by 180 degrees.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axes = plot_filters("hand-designed", Figure().add_subplot())
    >>> axes.images[0].get_array().shape
    (57, 57, 3)
    """
    if recipes(filters):
        fault = f"filters={filters!r} are made from examples, but no examples were given"
        raise ValueError(f"{fault}. Pass the `bank` of ConvolutionalFeatures.from_examples(X, y).")
    picture = mosaic(make_bank(filters), n_columns)
    inches = (picture.shape[1] * PIXEL_INCHES, picture.shape[0] * PIXEL_INCHES)
    axes: Axes
    with axes_at(path_or_axes, inches, position=(0.0, 0.0, 1.0, 1.0)) as axes:
        axes.imshow(picture, interpolation="nearest")
        axes.set_axis_off()
    return axes


def mosaic(filters: Floats, n_columns: int | None = None) -> Floats:
    """Return a picture (height, width, 3) of filters as tiles, separated by white lines."""
    if n_columns is None:
        n_columns = ceil(sqrt(len(filters)))
    n_columns = min(check_count("n_columns", n_columns, 1), len(filters))
    lowest = filters.min(axis=(1, 2, 3), keepdims=True)
    ranges = filters.max(axis=(1, 2, 3), keepdims=True) - lowest
    # Filters with a single value are half grey.
    level = ranges == 0.0
    tiles = (filters - lowest) / (ranges + level) + 0.5 * level
    n_channels = tiles.shape[3]
    if n_channels not in (1, 3):
        tiles = np.moveaxis(tiles, 3, 1).reshape(-1, *tiles.shape[1:3], 1)
        n_columns *= n_channels
    n_tiles, height, width, _ = tiles.shape
    n_rows = ceil(n_tiles / n_columns)
    # Every tile has a white line above it and one on its left.
    lined = np.ones((n_rows * n_columns, height + 1, width + 1, 3))
    lined[:n_tiles, 1:, 1:] = tiles
    picture = np.vstack([np.hstack(row) for row in lined.reshape(n_rows, -1, *lined.shape[1:])])
    return np.pad(picture, ((0, 1), (0, 1), (0, 0)), constant_values=1.0)
