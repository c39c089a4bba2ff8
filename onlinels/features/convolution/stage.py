"""What stage 1 does to images: geometry, nonlinearities, channels and contrast."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onlinels.arrays import Matrix
from onlinels.features.contrast import normalize_contrast
from onlinels.features.convolution.nonlinearities import (
    FOURTH_ROOT,
    SQUARE,
    Power,
    TwoSidedRectifier,
)
from onlinels.features.convolution.pooling import Axis
from onlinels.memory import check_room
from onlinels.threads import Scratch

CHANNELS = ("each", "joint")


@dataclass(frozen=True)
class Convolution:
    """What stage 1 does to images, apart from the filters.

    Parameters
    ----------
    rows, columns : Axis
        The geometry along the height and along the width.
    normalization : "map", "image" or None
        What features are divided by.
    before_pooling : Power or TwoSidedRectifier
    after_pooling : Power
    channels : "each" or "joint"
        Whether every channel is convolved and kept apart, or responses are summed over channels.
    contrast_offset : float or None
        Added to the variance of every patch that is brought to mean 0 and variance 1; None
        leaves patches as they are.
    """

    rows: Axis
    columns: Axis
    normalization: str | None = "map"
    before_pooling: Power | TwoSidedRectifier = SQUARE
    after_pooling: Power = FOURTH_ROOT
    channels: str = "each"
    contrast_offset: float | None = None

    def groups(self, n_channels: int) -> list[slice]:
        """Return the channels whose responses are summed: one by one, or all of them."""
        if self.channels == "joint":
            return [slice(0, n_channels)]
        return [slice(channel, channel + 1) for channel in range(n_channels)]

    def pooled_shape(self, image_shape: tuple[int, ...], filters: Matrix) -> tuple[int, int]:
        """Return height and width of the pooled maps, 0 where nothing is left."""
        _, filter_height, filter_width, _ = filters.shape
        return (
            self.rows.pooled_size(image_shape[0], filter_height),
            self.columns.pooled_size(image_shape[1], filter_width),
        )

    def check_room(self, images: Matrix, filters: Matrix) -> None:
        """Raise if features, and what a padded image is turned into, cannot fit into memory."""
        n_images, height, width, n_channels = images.shape
        padded = height + 2 * self.rows.padding, width + 2 * self.columns.padding
        n_maps = len(self.groups(n_channels)) * self.before_pooling.n_maps * len(filters)
        n_features = n_maps * prod(self.pooled_shape((height, width), filters))
        # A line for every column of a filter, and of one filter its response and its maps.
        lines = filters.shape[2] * n_channels + 1 + self.before_pooling.n_maps
        n_bytes = images.itemsize * (prod(padded) * lines + n_images * n_features)
        what = "{:,} images of {:,} x {:,} with their padding, of {:,} features,"
        remedy = "Lower padding, raise stride, or pass fewer images at once."
        check_room(n_bytes, what, n_images, *padded, n_features, remedy=remedy)

    def pooling_matrices(
        self, image_shape: tuple[int, ...], filters: Matrix, dtype: type
    ) -> tuple[Matrix, Matrix]:
        """Return pooling along rows and along columns as matrices."""
        _, filter_height, filter_width, _ = filters.shape
        return (
            self.rows.pooling_matrix(image_shape[0], filter_height, dtype),
            self.columns.pooling_matrix(image_shape[1], filter_width, dtype),
        )

    def patches(
        self, images: Matrix, filter_shape: tuple[int, ...], group: int, scratch: Scratch
    ) -> Matrix:
        """Return the patch under the filters at every position of padded images.

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
        filter_shape : (filter_height, filter_width)
        group : int
            Images whose columns of positions stand beside one another; n is a multiple of it.
        scratch : Scratch
            Holds the result until the next call.

        Returns
        -------
        ndarray (n / group, rows, filter_height * filter_width * n_channels, group * columns)
            A view, or a new array of normalised contrast if there is a contrast offset.

        Notes
        -----
        Only what lies beside one another is copied, a row of the filters for every pixel: patches
        of one row of positions begin where those of the row above go on, a line further down.
        """
        below, beside = self.rows.padding, self.columns.padding
        if below or beside:
            images = np.pad(images, ((0, 0), (below, below), (beside, beside), (0, 0)))
        n_images, height, width, n_channels = images.shape
        filter_height, filter_width = filter_shape
        n_groups, columns = n_images // group, width - filter_width + 1
        by_image, by_row, by_column, by_channel = images.strides
        shape = (n_groups, height, filter_width, n_channels, group, columns)
        strides = (group * by_image, by_row, by_column, by_channel, by_image, by_column)
        lines = scratch.array("lines", shape, images.dtype)
        lines[:] = as_strided(images, shape, strides, writeable=False)
        flat = lines.reshape(n_groups, height, filter_width * n_channels, group * columns)
        patches = _overlapping(flat, filter_height)
        if self.contrast_offset is None:
            return patches
        return normalize_contrast(patches, self.contrast_offset, axis=2)

    def offsets_of_groups(self, offsets: Matrix, n_channels: int) -> Matrix:
        """Return what is added to the responses of every group of channels.

        Parameters
        ----------
        offsets : ndarray (n_filters,), (n_filters, 1) or (n_filters, n_channels)
            One number for every map of a filter, or one for each channel's response; of channels
            whose responses are summed the offsets are as well.

        Returns
        -------
        ndarray (n_groups, n_filters)
        """
        groups = self.groups(n_channels)
        if offsets.ndim == 1:
            return offsets[None].repeat(len(groups), axis=0)
        by_channel = repeat_channel(offsets, n_channels).T
        return np.stack([by_channel[channels].sum(axis=0) for channels in groups])


def _overlapping(lines: Matrix, n_lines: int) -> Matrix:
    """Return every `n_lines` successive ones of lines (..., height, k, n), one below the other.

    Returns
    -------
    ndarray (..., height - n_lines + 1, n_lines * k, n)
        A read-only view.

    Examples
    --------
    >>> _overlapping(np.arange(6).reshape(1, 3, 2, 1), 2)[0, ..., 0]
    array([[0, 1, 2, 3],
           [2, 3, 4, 5]])
    """
    *groups, height, per_line, width = lines.shape
    shape = (*groups, height - n_lines + 1, n_lines * per_line, width)
    return as_strided(lines, shape, lines.strides, writeable=False)


def repeat_channel(values: Matrix, n_channels: int) -> Matrix:
    """Return values (..., 1 or n_channels) as (..., n_channels).

    Examples
    --------
    >>> repeat_channel(np.ones((2, 1)), 3).shape
    (2, 3)
    """
    if values.shape[-1] == n_channels:
        return values
    return np.broadcast_to(values, (*values.shape[:-1], n_channels))
