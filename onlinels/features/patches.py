"""Filters made from patches of example images: as they are, whitened, or whitened and clustered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator
from scipy.cluster.vq import kmeans2

from onlinels.checks import Floats, Integers, Matrix, check_count, check_flag, check_positive
from onlinels.features.filters import FilterBank, Recipe, zero_mean
from onlinels.features.preprocessing import fit_whitening, normalize_contrast
from onlinels.labels import Classes, read_labels
from onlinels.saving import savable_settings

Whiten = Callable[[Floats], Floats]

MAX_ROUNDING_LENGTH = 1e-12
"""Length of a patch, relative to its largest pixel, that is nothing but rounding errors."""


def draw(random: Generator, n_available: int, n_wanted: int) -> Integers:
    """Draw positions (n_wanted,) below `n_available`, with replacement only if they are too few."""
    return random.choice(n_available, n_wanted, replace=n_wanted > n_available)


@savable_settings()
@dataclass(frozen=True)
class Patches(Recipe):
    """The paper's filters from training data: central patches of random images of each class.

    Parameters
    ----------
    n_filters : int
        Number P of filters: P/N for each of the N classes. A remainder is dealt to the classes
        whose labels come first.
    size : int
        Side W of the patches, in pixels.

    Raises
    ------
    TypeError, ValueError
        If a setting is no whole number of at least 1.

    Notes
    -----
    Each patch is the W x W pixels in the middle of an image, less its mean in every channel, and
    brought to length 1: beside hand-designed filters, patches of bytes would outweigh all others,
    and patches of shares of 1 count for little. An even patch gives zeros. No
    image of a class is taken twice, unless the class has fewer than are needed: then they are drawn
    with replacement. The filters have the channels of the images, and offsets of 0.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), section III-B.

    Examples
    --------
    >>> images = np.arange(200.0).reshape(2, 10, 10, 1) % 7
    >>> Patches(5).make(images, ["a", "b"], np.random.default_rng(0))
    FilterBank(5 filters of 7 x 7, 1 channel)
    """

    n_filters: int = 17
    size: int = 7

    def make(
        self,
        images: Matrix,
        labels: Any,
        random: Generator,
        joint: bool = False,
        contrast_offset: float | None = None,
    ) -> FilterBank:
        """Return the bank made from images (n, height, width, n_channels) and their labels.

        Raises
        ------
        TypeError, ValueError
            If there are no labels, or the images are smaller than the patches.
        """
        if labels is None:
            raise ValueError("Patches draws from each class, and there are no labels. Pass labels.")
        self.check_size(images.shape[1:])
        rows = self._draw_rows(read_labels(labels, len(images)), random)
        top, left = ((side - self.size) // 2 for side in images.shape[1:3])
        middle = images[rows, top : top + self.size, left : left + self.size].astype(np.float64)
        filters = zero_mean(middle)
        lengths = np.linalg.norm(filters.reshape(len(filters), -1), axis=1)
        even = lengths <= MAX_ROUNDING_LENGTH * np.abs(middle).max(axis=(1, 2, 3))
        filters[even], lengths[even] = 0.0, 1.0
        return FilterBank(filters / lengths[:, None, None, None], np.zeros(len(rows)))

    def _draw_rows(self, labels: list[Any], random: Generator) -> Integers:
        """Draw the images, class by class."""
        classes = Classes().extended(labels)
        columns = classes.columns(labels)
        each, remainder = divmod(self.n_filters, len(classes))
        drawn = []
        for column in range(len(classes)):
            members = np.flatnonzero(columns == column)
            drawn.append(members[draw(random, len(members), each + (column < remainder))])
        return np.concatenate(drawn)


SAMPLE_BYTES = 1 << 28
"""Float64 bytes of the patches that a whitening is fitted to (256 MiB)."""


def choose(patches: Floats, n_wanted: int, random: Generator, joint: bool) -> Integers:
    """Choose rows (n_wanted,) of patches (n, size, size, n_channels) that are not even, if any."""
    spread = np.ptp(patches, axis=(1, 2))
    # Of channels that are kept apart, none should be even; of joint ones, not all.
    groups = [spread.any(axis=1)] if joint else [spread.all(axis=1), spread.any(axis=1)]
    uneven = [np.flatnonzero(group) for group in groups if group.any()]
    rows = uneven[0] if uneven else np.arange(len(patches))
    return np.asarray(rows[draw(random, len(rows), n_wanted)])


@savable_settings()
@dataclass(frozen=True)
class WhitenedPatches(Recipe):
    """Filters that multiply whitened patches of the image with whitened patches of examples.

    response = d . whiten(c), with c a patch of the image of normalised contrast and d the whitened
    patch of an example, of unit length. With whiten(c) = (c - mean) M this is c . (M d) + offset,
    so the filter is M d and the offset -mean . (M d): no patch is whitened later.

    Parameters
    ----------
    n_filters : int
        Number P of filters.
    size : int
        Side W of the patches, in pixels.
    variance_offset : float, above 0
        Added to the variance of patches along every direction when they are whitened; the default
        suits patches of normalised contrast.
    n_sample : int
        Patches drawn to fit the whitening, fewer if the images have no more or they would take
        more than 256 MiB. At least `n_filters`.
    keep_mean : bool
        Whether patches keep their mean: filters then respond to brightness and, of joint channels,
        to colour. Only where the convolution has no contrast offset. `variance_offset` is then in
        squared units of the pixels: 0.1 suits pixels divided by 64.

    Raises
    ------
    TypeError, ValueError
        If a setting is none of these.

    Notes
    -----
    Patches come from random places of random images, none from one place twice, and have their
    mean removed unless they keep it. Where the convolution has a contrast offset, they are divided
    by sqrt(variance + contrast_offset) as the patches that the filters will meet. Those that become
    filters are drawn from the sample, with replacement if it holds fewer than are needed; patches
    of even brightness (in any channel that is kept apart) are left out, unless there are no
    others. With channels kept apart each has
    a whitening and offsets of its own, and mean and variance of a patch are its channel's;
    otherwise they are those of all its channels. A filter of size W that is padded with zeros in a
    combination meets patches whose contrast is normalised over more than its own W x W pixels.

    ``n v^2 + 9 v^3`` operations for n patches of v values, and a few times their memory.

    References
    ----------
    A. Coates, H. Lee and A. Y. Ng, "An Analysis of Single-Layer Networks in Unsupervised Feature
    Learning", AISTATS 2011; A. Coates and A. Y. Ng, "The Importance of Encoding Versus Training
    with Sparse Coding and Vector Quantization", ICML 2011 (patches as they come for filters).

    Examples
    --------
    >>> images = np.random.default_rng(0).random((9, 8, 8, 3))
    >>> WhitenedPatches(5, n_sample=50).make(images, None, np.random.default_rng(0), joint=True)
    FilterBank(5 filters of 6 x 6, 3 channels)
    """

    n_filters: int = 100
    size: int = 6
    variance_offset: float = 0.1
    n_sample: int = 100_000
    keep_mean: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("variance_offset", self.variance_offset)
        check_count("n_sample", self.n_sample, self.n_filters)
        check_flag("keep_mean", self.keep_mean)

    def make(
        self,
        images: Matrix,
        labels: Any,
        random: Generator,
        joint: bool = False,
        contrast_offset: float | None = None,
    ) -> FilterBank:
        """Return the bank made from images (n, height, width, n_channels); labels do not count.

        Raises
        ------
        ValueError
            If the images are smaller than the patches, or the patches are to keep a mean that
            the contrast offset takes from all that the filters will meet.
        """
        self.check_size(images.shape[1:])
        self.check_contrast(contrast_offset)
        bound = SAMPLE_BYTES // (8 * images.shape[3] * self.size**2)
        windows = sliding_window_view(images, (self.size, self.size), axis=(1, 2))
        n_places = int(np.prod(windows.shape[:3]))
        # Every place at most once.
        n_patches = min(n_places, self.n_sample, max(self.n_filters, bound))
        drawn = np.unravel_index(draw(random, n_places, n_patches), windows.shape[:3])
        patches = np.ascontiguousarray(np.moveaxis(windows[drawn], 1, 3), np.float64)
        chosen = choose(patches, self.n_filters, random, joint)
        parts = [patches] if joint else np.split(patches, patches.shape[3], axis=3)
        made = []
        for part in parts:
            # As the filters will meet them.
            rows = part.reshape(len(part), -1)
            rows = rows if self.keep_mean else normalize_contrast(rows, contrast_offset)
            made.append(self._fold(rows, chosen))
        shape = (self.n_filters, *parts[0].shape[1:])
        filters = np.concatenate([weights.reshape(shape) for weights, _ in made], axis=3)
        offsets = np.stack([offset for _, offset in made], axis=1)
        return FilterBank(filters[:, ::-1, ::-1], offsets if len(made) > 1 else offsets[:, 0])

    @property
    def largest(self) -> float:
        """A bound of filters and offsets: whitening amplifies by 1/sqrt(variance_offset)."""
        # Offsets weigh as much as filters on pixels twice as large.
        return 3.0 / float(np.sqrt(self.variance_offset))

    def _fold(self, rows: Floats, chosen: Integers) -> tuple[Floats, Floats]:
        """Return weights and offsets such that row . weight + offset = d . whitened row."""
        mean, matrix = fit_whitening(rows, self.variance_offset)
        directions = self._directions(rows, chosen, lambda some: (some - mean) @ matrix)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        lengths[lengths == 0.0] = 1.0
        weights = (directions / lengths) @ matrix
        if not self.keep_mean:
            # Rows have no mean and do not see the weights', which is nothing but rounding errors.
            weights -= weights.mean(axis=1, keepdims=True)
        return weights, -(weights @ mean)

    def _directions(self, rows: Floats, chosen: Integers, whiten: Whiten) -> Floats:
        """Return directions (n_filters, n_values) in the space of whitened rows, of any length."""
        return whiten(rows[chosen])


@savable_settings()
@dataclass(frozen=True)
class KMeansPatches(WhitenedPatches):
    """Filters that multiply whitened patches of the image with centroids of whitened patches.

    As WhitenedPatches, but d is a centroid that k-means finds, of unit length.

    Parameters
    ----------
    n_filters : int
        Number of clusters.
    size, variance_offset, n_sample, keep_mean
        As for WhitenedPatches.
    n_iterations : int
        Rounds of k-means. They start from patches drawn from the sample.

    Raises
    ------
    TypeError, ValueError
        If a setting is none of these.

    Notes
    -----
    A cluster that loses all its patches keeps its last centroid. Each round takes
    ``2 n v n_filters`` operations for n patches of v values.

    References
    ----------
    A. Coates, H. Lee and A. Y. Ng (2011), as for WhitenedPatches.

    Examples
    --------
    >>> images = np.random.default_rng(0).random((9, 8, 8, 1))
    >>> KMeansPatches(5, n_sample=50).make(images, None, np.random.default_rng(0))
    FilterBank(5 filters of 6 x 6, 1 channel)
    """

    n_iterations: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_iterations", self.n_iterations, 1)

    def _directions(self, rows: Floats, chosen: Integers, whiten: Whiten) -> Floats:
        whitened = whiten(rows)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "One of the clusters is empty")
            centroids, _ = kmeans2(whitened, whitened[chosen], self.n_iterations, minit="matrix")
        return np.asarray(centroids)
