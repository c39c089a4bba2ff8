"""Filter banks, and the bank that a value of the setting `filters` describes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from onlinels.checks import (
    Floats,
    Integers,
    Matrix,
    as_array,
    check_choice,
    check_count,
    check_positive,
    frozen_copy,
    read_only,
)
from onlinels.features.images import Shape, channels_hint
from onlinels.features.preprocessing import GREY_WEIGHTS, fit_whitening
from onlinels.rows.labels import Classes, Label, read_labels
from onlinels.saving import is_small, savable, settings_hold


def for_channels(bank: Floats, n_channels: int, shape: Shape = ()) -> Floats:
    """Return filters (n_filters, height, width, channels) for images of so many channels.

    =================  ==================  ====================================================
    filter channels    image channels      filters of the bank returned
    =================  ==================  ====================================================
    1                  any number          the same filter for every channel
    n                  n                   the same bank
    3 (RGB)            1 or 2              the grey version 0.299 R + 0.587 G + 0.114 B
    3 (RGB)            4 (RGB and grey)    the three channels and the grey version
    =================  ==================  ====================================================

    Any other number of channels is refused; `shape` is that of an image, for the message.
    """
    own = bank.shape[3]
    if own == n_channels:
        return bank
    if own == 1:
        return np.broadcast_to(bank, (*bank.shape[:3], n_channels))
    if own == 3 and n_channels in (1, 2, 4):
        grey = bank @ np.transpose([GREY_WEIGHTS])
        parts = [bank, grey] if n_channels == 4 else [grey] * n_channels
        return np.concatenate(parts, axis=3)
    problem = f"Images have {n_channels} channels, expected {'1 to 4' if own == 3 else own}"
    remedy = f"Pass other images or filters.{channels_hint(shape)}"
    raise ValueError(f"{problem}, since the filters have {own}. {remedy}")


def zero_mean(bank: Floats) -> Floats:
    """Subtract the mean of every filter, per channel if filters have channels."""
    return np.asarray(bank - bank.mean(axis=(1, 2), keepdims=True))


N_ORIENTATIONS = 20


@cache
def hand_designed() -> Floats:
    """Return the paper's bank (43, 7, 7), section III-B: 20 bars, 20 corners, 3 squares, mean 0."""
    # Bars one pixel wide, in steps of 9 degrees. Corners, in steps of 18 degrees, whose two arms
    # are 4 pixels long and meet in the middle. Centred squares; the edges of the even one cover
    # half a pixel. Lines are anti-aliased: values fall linearly to 0 at a distance of one pixel.
    rows, columns = np.indices((7, 7)) - 3.0

    def ink(distance: Floats) -> Floats:
        return np.clip(1.0 - np.abs(distance), 0.0, 1.0)

    def arm(angle: float) -> Floats:
        along = columns * np.cos(angle) + rows * np.sin(angle)
        across = rows * np.cos(angle) - columns * np.sin(angle)
        return ink(np.hypot(across, along - np.clip(along, 0.0, 3.0)))

    def within(offsets: Floats, side: int) -> Floats:
        return np.clip((side + 1) / 2 - np.abs(offsets), 0.0, 1.0)

    turns = np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    bars = [ink(rows * np.sin(angle) + columns * np.cos(angle)) for angle in turns]
    turns = 2 * np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    corners = [np.maximum(arm(angle), arm(angle + np.pi / 2)) for angle in turns]
    squares = [within(rows, side) * within(columns, side) for side in (3, 4, 5)]
    return frozen_copy(zero_mean(np.stack([*bars, *corners, *squares])))


MAX_EMPTY_LENGTH = 1e-12
"""Length of a patch, relative to its largest pixel, up to which it may be rounding errors."""

SAMPLE_BYTES = 1 << 28
"""Most float64 bytes of the patches that a whitening is fitted to (256 MiB)."""


def draw(random: Generator, n_available: int, n_wanted: int) -> Integers:
    """Draw positions (n_wanted,) below `n_available`, with replacement if there are too few."""
    return random.choice(n_available, n_wanted, replace=n_wanted > n_available)


class FilterRecipe(ABC):
    """What makes filters from example images, for the setting `filters`.

    A recipe is a frozen dataclass. One that is to be saved is `savable`, with a check that also
    bounds what `make` may take, as that of `Patches`.
    """

    n_filters: int
    size: int

    def check_size(self, shape: Shape) -> None:
        """Raise ValueError unless filters fit into images of shape (height, width, n_channels)."""
        if self.size > min(shape[:2]):
            problem = f"size={self.size} exceeds images of {shape[0]} x {shape[1]} pixels"
            remedy = f"Pass a smaller size.{channels_hint(shape)}"
            raise ValueError(f"{problem}, expected at most {min(shape[:2])}. {remedy}")

    def outline(self) -> Floats:
        """Return ones in place of the filters, which take no memory."""
        return np.broadcast_to(1.0, (self.n_filters, self.size, self.size, 1))

    @abstractmethod
    def make(self, images: Matrix, labels: Any, random: Generator, joint: bool = False) -> Floats:
        """Return filters (n_filters, size, size, n_channels) made from images of this many axes.

        `labels` may be None. `joint` tells whether the responses of channels are summed. The
        convolution turns filters by 180 degrees: turn them here if they are to respond to what they
        show.

        Raises
        ------
        TypeError, ValueError
            If no filters can be made of these images.
        """


MAX_ITERATIONS = 10_000
"""Most iterations of k-means that a file may ask for."""


def _recipe_is_small(patches: Any) -> bool:
    """Return whether what a file asks for, without an array to show for it, is small."""
    fits = settings_hold(patches) and patches.n_iterations <= MAX_ITERATIONS
    return fits and is_small(patches.n_filters, patches.size, patches.size)


@savable(_recipe_is_small)
@dataclass(frozen=True)
class Patches(FilterRecipe):
    """Make filters of patches of example images.

    Without whitening, as in the paper: of the W x W pixels in the middle of random images of each
    class, minus the mean of every channel, scaled to length 1.

    With whitening: the response to a patch c of an image is d . M c, where M whitens patches and d
    is the whitened patch of an example, scaled to length 1. So the filter is M d. With
    `n_iterations`, d is a centroid of k-means of whitened patches instead.

    Parameters
    ----------
    n_filters : int
        Number P of filters. Without whitening, P/N for each of the N classes; the remainder is
        distributed over the classes whose labels occur first.
    size : int
        Side W of the patches, in pixels.
    whitening : float, above 0, optional
        Constant added to the variance of patches along every direction before whitening, in
        squared units of the pixels: 0.01 suits pixels in [0, 1].
    n_iterations : int
        Number of iterations of k-means, which starts from patches drawn from the sample.
    n_sample : int, at least `n_filters`
        Number of patches drawn to fit the whitening. Fewer are drawn if the images have fewer, or
        if they would take more than 256 MiB.

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these, or `n_iterations` is above 0 without whitening.

    Notes
    -----
    Without whitening, images of a class are drawn without replacement, or with replacement if the
    class has too few, and a patch of even brightness gives zeros.

    For a whitening, patches are drawn at random from all positions of all images, without
    replacement, and their mean is removed. Those that become filters are drawn from this sample,
    with replacement if it is too small; patches of even brightness only if there are no others.
    Every channel has its own whitening unless channels are joint. A cluster that loses all its
    patches keeps its last centroid. Cost: ``n v^2 + 9 v^3`` operations for n patches of v values,
    and ``2 n v n_filters`` for each iteration.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), section III-B; A. Coates, H. Lee and A. Y. Ng, "An
    Analysis of Single-Layer Networks in Unsupervised Feature Learning", AISTATS 2011.

    Examples
    --------
    >>> images = np.random.default_rng(0).random((9, 8, 8, 3))
    >>> Patches(5).make(images, list("ababababa"), np.random.default_rng(0)).shape
    (5, 7, 7, 3)
    >>> Patches(5, whitening=0.01, n_sample=50).make(images, None, np.random.default_rng(0)).shape
    (5, 7, 7, 3)
    """

    n_filters: int = 17
    size: int = 7
    whitening: float | None = field(default=None, kw_only=True)
    n_iterations: int = field(default=0, kw_only=True)
    n_sample: int = field(default=100_000, kw_only=True)

    def __post_init__(self) -> None:
        check_count("n_filters", self.n_filters, 1)
        check_count("size", self.size, 1)
        check_count("n_iterations", self.n_iterations, 0)
        check_count("n_sample", self.n_sample, self.n_filters)
        if self.whitening is not None:
            check_positive("whitening", self.whitening)
        elif self.n_iterations:
            problem = f"n_iterations={self.n_iterations} without whitening, expected 0"
            raise ValueError(f"{problem}. Pass whitening=0.01 for pixels in [0, 1].")

    def make(self, images: Matrix, labels: Any, random: Generator, joint: bool = False) -> Floats:
        """Return filters (n_filters, size, size, n_channels) made from images of this many axes.

        Labels are needed only without whitening. `joint` tells whether the responses of channels
        are summed.

        Raises
        ------
        TypeError, ValueError
            If there are no labels, or the images are smaller than the patches.
        """
        self.check_size(images.shape[1:])
        names = None if labels is None else read_labels(labels, len(images))
        if self.whitening is None:
            return self._middles(images, names, random)
        windows = sliding_window_view(images, (self.size, self.size), axis=(1, 2))
        n_places, most = prod(windows.shape[:3]), SAMPLE_BYTES // (8 * prod(windows.shape[3:]))
        # Without replacement: every position at most once.
        n_patches = min(n_places, self.n_sample, max(self.n_filters, most))
        places = np.unravel_index(draw(random, n_places, n_patches), windows.shape[:3])
        patches = np.moveaxis(windows[places], 1, 3).astype(np.float64)
        uneven = np.flatnonzero(np.ptp(patches, axis=(1, 2)).any(axis=1))
        uneven = uneven if len(uneven) else np.arange(n_patches)
        chosen = uneven[draw(random, len(uneven), self.n_filters)]
        groups = [patches] if joint else np.split(patches, patches.shape[3], axis=3)
        filters = np.concatenate([self._whitened(group, chosen) for group in groups], axis=3)
        # A convolution turns filters by 180 degrees.
        return filters[:, ::-1, ::-1]

    def _middles(self, images: Matrix, labels: list[Label] | None, random: Generator) -> Floats:
        """Return central patches of images drawn class by class, not turned: as in the paper."""
        if labels is None:
            reason = "Patches draws from each class"
            raise ValueError(f"labels is None, expected one per image: {reason}. Pass labels.")
        classes = Classes().extended(labels)
        columns = classes.columns(labels)
        each, remainder = divmod(self.n_filters, len(classes))
        groups = [np.flatnonzero(columns == column) for column in range(len(classes))]
        rows = [own[draw(random, len(own), each + (n < remainder))] for n, own in enumerate(groups)]
        top, left = ((side - self.size) // 2 for side in images.shape[1:3])
        middle = images[np.concatenate(rows), top : top + self.size, left : left + self.size]
        middle = middle.astype(np.float64)
        filters = zero_mean(middle)
        lengths = np.linalg.norm(filters.reshape(len(filters), -1), axis=1)
        even = lengths <= MAX_EMPTY_LENGTH * np.abs(middle).max(axis=(1, 2, 3))
        filters[even], lengths[even] = 0.0, 1.0
        return np.asarray(filters / lengths[:, None, None, None])

    def _whitened(self, patches: Floats, chosen: Integers) -> Floats:
        """Return filters M d, (n_filters, size, size, n_channels), of directions d of patches."""
        rows = patches.reshape(len(patches), -1)
        # The middle pixel is subtracted first, so that even patches become exactly 0.
        rows = rows - rows[:, [rows.shape[1] // 2]]
        rows -= rows.mean(axis=1, keepdims=True)
        mean, matrix = fit_whitening(rows, float(self.whitening or 0.0))
        if self.n_iterations:
            whitened = (rows - mean) @ matrix
            directions = means_of_clusters(whitened, whitened[chosen], self.n_iterations)
        else:
            directions = (rows[chosen] - mean) @ matrix
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        filters = (directions / np.where(lengths == 0.0, 1.0, lengths)) @ matrix
        # Rows have mean 0, so the mean of a filter is nothing but rounding errors.
        filters -= filters.mean(axis=1, keepdims=True)
        return filters.reshape(-1, *patches.shape[1:])


def means_of_clusters(points: Floats, centres: Floats, n_iterations: int) -> Floats:
    """Return the means of k-means clusters; the centre of a cluster without points stays.

    scipy's `kmeans2` does the same and warns of such a cluster, and Python's filters of warnings,
    by which it could be silenced, belong to all threads.

    Examples
    --------
    >>> points, centres = np.array([[0.0], [1.0], [8.0]]), np.array([[0.0], [9.0], [99.0]])
    >>> means_of_clusters(points, centres, n_iterations=3).ravel()
    array([ 0.5,  8. , 99. ])
    """
    # Imported here, because it takes a tenth of the time of importing this package.
    from scipy.cluster.vq import vq
    from scipy.sparse import csr_array

    places = np.arange(len(points))
    for _ in range(n_iterations):
        nearest, _ = vq(points, centres)
        members = csr_array((np.ones(len(points)), (nearest, places)), (len(centres), len(points)))
        counts = np.bincount(nearest, minlength=len(centres))[:, None]
        centres = np.where(counts > 0, (members @ points) / np.maximum(counts, 1), centres)
    return centres


def banks_of(filters: Any) -> list[Floats | FilterRecipe]:
    """Return the banks (n_filters, height, width, n_channels) and recipes of `filters`."""
    if isinstance(filters, FilterRecipe):
        return [filters]
    if isinstance(filters, tuple):
        if not filters:
            raise ValueError("filters is an empty tuple, expected at least one bank. Add a bank.")
        return [part for member in filters for part in banks_of(member)]
    if isinstance(filters, str):
        check_choice("filters", filters, ("hand-designed",))
        return [hand_designed()[..., None]]
    if not isinstance(filters, (np.ndarray, list)):
        expected = "a name, an array, Patches(), or a tuple of these"
        raise TypeError(f"filters holds {filters!r}, expected {expected}. Pass one of these.")
    bank = as_array("filters", filters)
    if bank.ndim not in (3, 4) or bank.shape[1] != bank.shape[2] or 0 in bank.shape:
        expected = "square filters (n_filters, W, W[, n_channels]). Pad or transpose them"
        raise ValueError(f"filters has shape {bank.shape}, expected {expected}.")
    return [(bank if bank.ndim == 4 else bank[..., None]).astype(np.float64, copy=False)]


def recipes(filters: Any) -> list[FilterRecipe]:
    """Return the recipes among `filters`, whose banks are made from examples."""
    return [part for part in banks_of(filters) if not isinstance(part, np.ndarray)]


def frozen_filters(filters: Any) -> Any:
    """Return read-only filters; in a tuple, each of them."""
    if isinstance(filters, tuple):
        return tuple(map(frozen_filters, filters))
    return frozen_copy(filters) if isinstance(filters, (np.ndarray, list)) else filters


def make_bank(
    filters: Any,
    n_channels: int | None = None,
    make: Callable[[FilterRecipe, int], Floats] = lambda recipe, place: recipe.outline(),
) -> Floats:
    """Return the bank of `filters`, adapted to the channels of the images if they are known.

    `make` returns the filters of a recipe, given its place in a tuple from 1 on; by default ones.
    """
    parts = enumerate(banks_of(filters), start=1)
    banks = [part if isinstance(part, np.ndarray) else make(part, place) for place, part in parts]
    bank = banks[0]
    if len(banks) > 1:
        numbers = {each.shape[3] for each in banks}
        if n_channels is None and len(numbers - {1}) > 1:
            problem = f"filters combines banks of {sorted(numbers)} channels"
            remedy = "Pass filters of as many channels as the images have."
            raise ValueError(f"{problem}, expected one number, or 1 and one other number. {remedy}")
        n_channels, size = n_channels or max(numbers), max(each.shape[1] for each in banks)
        bank = np.concatenate([padded(for_channels(each, n_channels), size) for each in banks])
    # A bank that was made before stays the same object, which is saved once.
    return read_only(bank) if bank.flags.writeable else bank


def padded(bank: Floats, size: int) -> Floats:
    """Return square filters of this size, padded with zeros around their middle."""
    # An odd number of zeros leaves one more row or column at the end.
    extra = size - bank.shape[1]
    margin = (extra // 2, extra - extra // 2)
    return np.pad(bank, ((0, 0), margin, margin, (0, 0)))
