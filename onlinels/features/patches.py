"""Filters made from patches of example images: unchanged, whitened, or whitened and clustered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from onlinels.checks import Floats, Integers, Matrix, check_count, check_flag, check_positive
from onlinels.features.filters import FilterBank, Recipe, zero_mean
from onlinels.features.preprocessing import fit_whitening, normalize_contrast
from onlinels.labels import Classes, read_labels
from onlinels.saving import savable, settings_hold

Whiten = Callable[[Floats], Floats]

MAX_EMPTY_LENGTH = 1e-12
"""Length of a patch, relative to its largest pixel, up to which it may be rounding errors."""


def draw(random: Generator, n_available: int, n_wanted: int) -> Integers:
    """Draw positions (n_wanted,) below `n_available`, with replacement if there are too few."""
    return random.choice(n_available, n_wanted, replace=n_wanted > n_available)


@savable(settings_hold)
@dataclass(frozen=True)
class Patches(Recipe):
    """Make filters of the central patches of random images of each class, as in the paper.

    Parameters
    ----------
    n_filters : int
        Number P of filters: P/N for each of the N classes. The remainder is distributed over the
        classes whose labels occur first.
    size : int
        Side W of the patches, in pixels.

    Raises
    ------
    TypeError, ValueError
        If a setting is not a whole number of at least 1.

    Notes
    -----
    A patch is the W x W pixels in the middle of an image, minus the mean of every channel, scaled
    to length 1. Without scaling, patches of bytes would outweigh hand-designed filters, and patches
    of pixels in [0, 1] would count for little. A patch of even brightness gives zeros. Images of a
    class are drawn without replacement, or with replacement if the class has too few. The filters
    have the channels of the images, and offsets of 0.

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
            reason = "Patches draws from each class"
            raise ValueError(f"labels is None, expected one per image: {reason}. Pass labels.")
        self.check_size(images.shape[1:])
        rows = self._draw_rows(read_labels(labels, len(images)), random)
        top, left = ((side - self.size) // 2 for side in images.shape[1:3])
        middle = images[rows, top : top + self.size, left : left + self.size].astype(np.float64)
        filters = zero_mean(middle)
        lengths = np.linalg.norm(filters.reshape(len(filters), -1), axis=1)
        even = lengths <= MAX_EMPTY_LENGTH * np.abs(middle).max(axis=(1, 2, 3))
        filters[even], lengths[even] = 0.0, 1.0
        return FilterBank(filters / lengths[:, None, None, None], np.zeros(len(rows)))

    def _draw_rows(self, labels: list[Any], random: Generator) -> Integers:
        """Draw the rows of images, class by class."""
        classes = Classes().extended(labels)
        columns = classes.columns(labels)
        each, remainder = divmod(self.n_filters, len(classes))
        drawn = []
        for column in range(len(classes)):
            members = np.flatnonzero(columns == column)
            drawn.append(members[draw(random, len(members), each + (column < remainder))])
        return np.concatenate(drawn)


SAMPLE_BYTES = 1 << 28
"""Most float64 bytes of the patches that a whitening is fitted to (256 MiB)."""


def choose(patches: Floats, n_wanted: int, random: Generator, joint: bool) -> Integers:
    """Choose rows (n_wanted,) of patches (n, size, size, n_channels), uneven ones if possible."""
    spread = np.ptp(patches, axis=(1, 2))
    # With separate channels, no channel should be even; with joint channels, not all of them.
    groups = [spread.any(axis=1)] if joint else [spread.all(axis=1), spread.any(axis=1)]
    uneven = [np.flatnonzero(group) for group in groups if group.any()]
    rows = uneven[0] if uneven else np.arange(len(patches))
    return np.asarray(rows[draw(random, len(rows), n_wanted)])


@savable(settings_hold)
@dataclass(frozen=True)
class WhitenedPatches(Recipe):
    """Make filters that multiply whitened patches of the image by whitened patches of examples.

    response = d . whiten(c), where c is a patch of the image with normalised contrast, and d is the
    whitened patch of an example, scaled to unit length. With whiten(c) = (c - mean) M, the response
    is c . (M d) + offset: the filter is M d and the offset is -mean . (M d), so no patch has to be
    whitened later.

    Parameters
    ----------
    n_filters : int
        Number P of filters.
    size : int
        Side W of the patches, in pixels.
    variance_offset : float, above 0
        Constant added to the variance of patches along every direction before whitening. The
        default suits patches of normalised contrast.
    n_sample : int, at least `n_filters`
        Number of patches drawn to fit the whitening. Fewer are drawn if the images have fewer, or
        if they would take more than 256 MiB.
    keep_mean : bool
        Whether patches keep their mean, so that filters respond to brightness and, with joint
        channels, to colour. Allowed only if the convolution has no contrast offset.
        `variance_offset` is then in squared units of the pixels: 0.1 suits pixels divided by 64.

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these.

    Notes
    -----
    Patches are drawn at random from all positions of all images, without replacement. Their mean is
    removed unless `keep_mean` is True. If the convolution has a contrast offset, they are divided
    by sqrt(variance + contrast_offset), like the patches that the filters are applied to.

    The patches that become filters are drawn from this sample, with replacement if it is too small.
    Patches of even brightness (in any channel, if channels are separate) are used only if there are
    no others.

    With separate channels, every channel has its own whitening and offsets, and the mean and
    variance of a patch are computed per channel; with joint channels, over all channels. If a
    combination of banks pads a filter of size W with zeros, the contrast under the filter is
    normalised over more than its own W x W pixels.

    Cost: ``n v^2 + 9 v^3`` operations for n patches of v values, and a few times their memory.

    References
    ----------
    A. Coates, H. Lee and A. Y. Ng, "An Analysis of Single-Layer Networks in Unsupervised Feature
    Learning", AISTATS 2011; A. Coates and A. Y. Ng, "The Importance of Encoding Versus Training
    with Sparse Coding and Vector Quantization", ICML 2011 (unchanged patches as filters).

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
        """Return the bank made from images (n, height, width, n_channels); labels are ignored.

        Raises
        ------
        ValueError
            If the images are smaller than the patches, or `keep_mean` is True and there is a
            contrast offset, which removes the mean from all patches.
        """
        self.check_size(images.shape[1:])
        self.check_contrast(contrast_offset)
        bound = SAMPLE_BYTES // (8 * images.shape[3] * self.size**2)
        windows = sliding_window_view(images, (self.size, self.size), axis=(1, 2))
        n_places = int(np.prod(windows.shape[:3]))
        # Without replacement: every position at most once.
        n_patches = min(n_places, self.n_sample, max(self.n_filters, bound))
        drawn = np.unravel_index(draw(random, n_places, n_patches), windows.shape[:3])
        patches = np.ascontiguousarray(np.moveaxis(windows[drawn], 1, 3), np.float64)
        chosen = choose(patches, self.n_filters, random, joint)
        parts = [patches] if joint else np.split(patches, patches.shape[3], axis=3)
        made = []
        for part in parts:
            # Normalised like the patches that the filters are applied to.
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
        # The offsets add as much as filters on pixels twice as large.
        return 3.0 / float(np.sqrt(self.variance_offset))

    def _fold(self, rows: Floats, chosen: Integers) -> tuple[Floats, Floats]:
        """Return weights and offsets such that row . weight + offset = d . whitened row."""
        mean, matrix = fit_whitening(rows, self.variance_offset)
        directions = self._directions(rows, chosen, lambda some: (some - mean) @ matrix)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        lengths[lengths == 0.0] = 1.0
        weights = (directions / lengths) @ matrix
        if not self.keep_mean:
            # Rows have mean 0, so the mean of the weights is nothing but rounding errors.
            weights -= weights.mean(axis=1, keepdims=True)
        return weights, -(weights @ mean)

    def _directions(self, rows: Floats, chosen: Integers, whiten: Whiten) -> Floats:
        """Return directions (n_filters, n_values) in the space of whitened rows, of any length."""
        return whiten(rows[chosen])


@savable(settings_hold)
@dataclass(frozen=True)
class KMeansPatches(WhitenedPatches):
    """Make filters that multiply whitened patches of the image by centroids of whitened patches.

    Like `WhitenedPatches`, except that d is a centroid of k-means, scaled to unit length.

    Parameters
    ----------
    n_filters : int
        Number of clusters.
    size, variance_offset, n_sample, keep_mean
        Settings of the patches and their whitening; see `WhitenedPatches`.
    n_iterations : int
        Number of iterations of k-means, which starts from patches drawn from the sample.

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these.

    Notes
    -----
    A cluster that loses all its patches keeps its last centroid. Each iteration takes
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
        # Imported here, because it takes a tenth of the time of importing this package.
        from scipy.cluster.vq import kmeans2

        whitened = whiten(rows)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "One of the clusters is empty")
            centroids, _ = kmeans2(whitened, whitened[chosen], self.n_iterations, minit="matrix")
        return np.asarray(centroids)
