"""MiniRocketFeatures: proportions of positive responses to dilated kernels, for river."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import (
    PRECISIONS,
    Floats,
    Integers,
    Matrix,
    check_count,
    check_part,
    frozen_copy,
)
from onlinels.features.images import (
    MAX_PIXEL,
    WINDOW,
    ImageTransformer,
    Kind,
    Shape,
    channels_hint,
    check_pixels,
    check_some,
    read_images,
    slices,
)
from onlinels.features.transformer import not_made
from onlinels.numerics import Frozen, in_threads, is_array
from onlinels.rows.batch import matched_by_position
from onlinels.saving import is_small, savable, settings_hold

Flags = NDArray[np.bool_]

MINIROCKET_SIZE = 9


@cache
def minirocket_kernels() -> Floats:
    """Return the 84 kernels of MiniRocket (84, 9): 2 at three of the positions, -1 elsewhere."""
    # Every kernel has mean 0. Reversed kernels are the same set, so convolution and correlation
    # give the same maps in another order.
    places = np.array(list(combinations(range(MINIROCKET_SIZE), 3)))
    kernels = np.full((len(places), MINIROCKET_SIZE), -1.0)
    np.put_along_axis(kernels, places, 2.0, axis=1)
    return frozen_copy(kernels)


N_KERNELS = 84
KERNEL_RADIUS = MINIROCKET_SIZE // 2
MAX_CHANNELS_PER_KERNEL = 9
"""Most channels that one kernel sums over."""

MAX_DILATIONS = 32
"""Most exponents of dilations of a kernel, as published."""

GOLDEN_RATIO = (np.sqrt(5.0) + 1.0) / 2.0


def _kernels_fit(kernels: Any) -> bool:
    # Windows are padded for longer kernels.
    lengths, n_dilations = 2 * KERNEL_RADIUS * kernels.dilations, len(kernels.dilations)
    fits = is_array(kernels.dilations, n_dilations, dtype=np.intp)
    fits = fits and is_array(kernels.n_biases, n_dilations, dtype=np.intp)
    fits = fits and is_array(kernels.biases, N_KERNELS * int(kernels.n_biases.sum()))
    shape = n_dilations, N_KERNELS, kernels.channels.shape[2]
    fits = fits and is_array(kernels.channels, *shape, dtype=np.bool_)
    fits = fits and bool((kernels.n_biases >= 0).all() and kernels.channels.any(axis=2).all())
    return fits and bool(((lengths > 0) & (lengths < kernels.length)).all())


@savable(_kernels_fit)
@dataclass(frozen=True, eq=False, repr=False)
class DilatedKernels(Frozen):
    """The 84 kernels at every dilation, each with its channels and biases."""

    length: int
    dilations: Integers
    n_biases: Integers
    channels: Flags
    biases: Floats

    def __repr__(self) -> str:
        return f"DilatedKernels({len(self.biases)} features of {self.length} samples)"

    def of_dilation(self, number: int) -> tuple[slice, Floats]:
        """Return the positions of a dilation's features, and their biases (84, n_biases)."""
        first = N_KERNELS * int(self.n_biases[:number].sum())
        places = slice(first, first + N_KERNELS * int(self.n_biases[number]))
        return places, self.biases[places].reshape(N_KERNELS, -1)


def make_dilations(length: int, n_features: int, most: int) -> tuple[Integers, Integers]:
    """Return the dilations for windows of a length, and each kernel's number of biases at each."""
    # Dilations are floor(2^e), with e evenly spaced from 0 to log2((length - 1) / 8), so that the
    # longest kernel fits exactly. The number of biases at a dilation is proportional to the number
    # of exponents that lead to it.
    per_kernel = n_features // N_KERNELS
    n_exponents = min(per_kernel, most)
    largest = np.log2((length - 1) / (MINIROCKET_SIZE - 1))
    exponents = np.linspace(0.0, largest, n_exponents)
    dilations, times = np.unique((2.0**exponents).astype(np.intp), return_counts=True)
    n_biases = (times * (per_kernel / n_exponents)).astype(np.intp)
    # The remainder of rounding is distributed over the dilations, from the smallest on.
    n_left = per_kernel - int(n_biases.sum())
    n_biases += n_left // len(dilations)
    n_biases[: n_left % len(dilations)] += 1
    return dilations, n_biases


def quantiles(n: int) -> Floats:
    """Return n numbers spread evenly in [0, 1): fractional parts of k times the golden ratio."""
    return np.asarray((np.arange(1, n + 1) * GOLDEN_RATIO) % 1.0)


def make_kernels(windows: Matrix, n_features: int, seed: int) -> DilatedKernels:
    """Return kernels whose biases are quantiles of responses to windows (n, length, n_channels)."""
    random = np.random.default_rng(seed)
    dilations, n_biases = make_dilations(windows.shape[1], n_features, MAX_DILATIONS)
    shape, n_channels = (len(dilations), N_KERNELS), windows.shape[2]
    # Every kernel at every dilation has floor(2^u) channels, with u uniform, so that few channels
    # are as likely as many.
    largest = np.log2(min(n_channels, MAX_CHANNELS_PER_KERNEL) + 1)
    n_chosen = (2.0 ** random.uniform(0.0, largest, shape)).astype(np.intp)
    channels = random.random((*shape, n_channels)).argsort(axis=-1) < n_chosen[..., None]
    examples = random.integers(len(windows), size=shape)
    wanted = quantiles(N_KERNELS * int(n_biases.sum()))
    kernels = DilatedKernels(windows.shape[1], dilations, n_biases, channels, wanted)
    biases: list[Floats] = []
    for (number, kernel), example in np.ndenumerate(examples):
        samples, chosen = windows[example][..., None], np.array([kernel])
        found = responses(samples, int(dilations[number]), chosen, channels[number][chosen])
        _, shares = kernels.of_dilation(number)
        biases.append(np.quantile(found.astype(np.float64), shares[kernel]))
    return replace(kernels, biases=np.concatenate(biases))


TILE_RESPONSES = 1 << 17
"""Responses of kernels computed at once.

Measured: with a quarter of this number, windows of 64 samples take twice as long.
"""

TILE_COMPARISONS = 1 << 18
"""Comparisons made at once; their results, as bytes, fit the cache."""

MAX_BYTE = 255


def proportions(windows: Matrix, kernels: DilatedKernels) -> Matrix:
    """Return the proportion of samples whose response exceeds each bias, (n, n_features)."""
    # About 13 s + 2 b operations for every window, kernel, dilation and sample, for s channels and
    # b biases, in tiles that fit the cache. There is no BLAS product, so a window's features do not
    # depend on the other windows of a batch.
    features = np.empty((len(windows), len(kernels.biases)), dtype=windows.dtype)

    def fill(tile: slice) -> None:
        """Write the features of a tile of windows."""
        # The windows are the last axis, so that they are side by side in memory in every step.
        samples = np.ascontiguousarray(windows[tile].transpose(1, 2, 0))
        for number, dilation in enumerate(kernels.dilations.tolist()):
            places, biases = kernels.of_dilation(number)
            # A view: a slice of columns is divided by kernel and bias.
            shares = features[tile, places].reshape(-1, *biases.shape)
            n_channels = kernels.channels[number].sum(axis=1)
            # Every second kernel is applied with zero padding, the others only inside the window.
            for first, edge in ((number % 2, 0), (1 - number % 2, KERNEL_RADIUS * dilation)):
                numbers = np.arange(first, N_KERNELS, 2)
                chosen = numbers[np.argsort(-n_channels[numbers], kind="stable")]
                found = responses(samples, dilation, chosen, kernels.channels[number][chosen])
                kept = found[edge : len(found) - edge]
                shares[:, chosen] = _shares(kept, biases[chosen].astype(windows.dtype))

    together = max(1, 2 * TILE_RESPONSES // (kernels.length * N_KERNELS))
    in_threads(fill, slices(0, len(windows), together))
    return features


def responses(samples: Matrix, dilation: int, chosen: Integers, channels: Flags) -> Matrix:
    """Return the responses (length, n_chosen, n) of kernels to windows padded with zeros."""
    # c_t = sum over channels of (3 (x_{t+id} + x_{t+jd} + x_{t+kd}) - sum over m of x_{t+md}), with
    # i, j, k the positions of weight 2, and m from -4 to 4. Kernels are sorted by their number of
    # channels, in descending order.
    length, n_channels, n = samples.shape
    edge = KERNEL_RADIUS * dilation
    around = np.zeros((length + 2 * edge, n_channels, n), dtype=samples.dtype)
    around[edge : edge + length] = samples
    shifted = [around[m * dilation : m * dilation + length] for m in range(MINIROCKET_SIZE)]
    negative = -sum(shifted[1:], start=shifted[0])
    tripled, times = (3 * around).reshape(-1, n), np.arange(length)[:, None]
    counts = channels.sum(axis=1)
    ordered = np.argsort(~channels, axis=1, kind="stable")
    places = np.argwhere(minirocket_kernels()[chosen] > 0.0)[:, 1].reshape(-1, 3) * dilation
    found = np.zeros((length, len(chosen), n), dtype=samples.dtype)
    for rank in range(int(counts[0])):
        some = slice(0, int((counts > rank).sum()))
        channel = ordered[some, rank]
        found[:, some] += negative.take(channel, axis=1)
        for place in places[some].T:
            found[:, some] += tripled.take((times + place) * n_channels + channel, axis=0)
    return found


def _shares(found: Matrix, biases: Matrix) -> Matrix:
    """Return the proportions (n, n_kernels, n_biases) of responses that exceed each bias."""
    length, n_kernels, n = found.shape
    rows = found.reshape(length, -1)
    # One bias per column: comparing along short rows takes several times as long.
    limits = np.repeat(biases.T, n, axis=1)
    counts = np.zeros(limits.shape, dtype=np.intp)
    together = max(1, TILE_COMPARISONS // rows.size)
    for some in slices(0, len(limits), together):
        over = (rows > limits[some, None]).view(np.uint8)
        # Adding bytes is many times as fast as adding wider numbers; 255 of them cannot overflow.
        for part in slices(0, length, MAX_BYTE):
            counts[some] += np.add.reduce(over[:, part], axis=1, dtype=np.uint8)
    return np.transpose(counts.reshape(-1, n_kernels, n) / length, (2, 1, 0))


@savable(lambda features: is_small(*(features.window_shape or ())) and settings_hold(features))
@dataclass(eq=False, repr=False)
class MiniRocketFeatures(ImageTransformer):
    """Turn windows of sensor values into proportions of positive responses to dilated kernels.

    There are 84 kernels of length 9 with the weights -1 and 2, each at several dilations. A feature
    is the proportion of samples at which the response of a kernel at a dilation exceeds a bias.
    Every second kernel is applied with zero padding, the others only inside the window. With
    several channels, every kernel at every dilation sums over some of them, drawn from the seed.
    Biases are quantiles of responses to examples, so `from_examples` makes them before use.

    Parameters
    ----------
    n_features : int, at least 84
        Number of features, rounded down to a multiple of 84. The default gives 9,996, as published.
    window_shape : (length,) or (length, n_channels), optional
        Shape of a window. Required for dicts of numbers, frames and flat arrays; for other input it
        is checked.
    dtype : "float64" or "float32"
        Precision of responses and features. float32 is up to twice as fast.
    seed : int
        Seed of the random channels of kernels, and of the examples that biases are taken from.
    kernels : DilatedKernels, optional
        Kernels made before.
    prefix : str
        Prefix of the output names in a TransformerUnion: ``"u_"`` gives ``u_h0``, ``u_h1``, …

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these.

    Notes
    -----
    Proportions are between 0 and 1 for any scale of the channels. Where channels are summed, only
    their relative sizes matter, so standardise channels in different units. For a constant window,
    rounding decides features whose bias is 0. A window's features do not depend on the other
    windows of a batch, to the last bit.

    Measured with 9,996 features, in float32 on one core, for windows of 64 samples in 6 channels:
    0.4 ms per window in batches of 256, and 4 ms for a single window.

    A sample {"window": array} gives {"h": array}; a dict of numbers gives {"h0": …, "h1": …}.

    References
    ----------
    A. Dempster, D. F. Schmidt and G. I. Webb (2021), "MiniRocket: A Very Fast (Almost)
    Deterministic Transform for Time Series Classification", KDD; the choice of channels is that of
    the multivariate code the authors published with it.

    Examples
    --------
    >>> examples = np.random.default_rng(0).normal(size=(20, 50, 3))
    >>> features = MiniRocketFeatures.from_examples(examples, n_features=1000)
    >>> features.kernels, features.transform_one({"window": examples[0]})["h"].shape
    (DilatedKernels(924 features of 50 samples), (924,))
    """

    kind: ClassVar[Kind] = WINDOW

    n_features: int = 10_000
    window_shape: Shape | None = None
    dtype: str = "float64"
    seed: int = 0
    kernels: DilatedKernels | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        check_count("n_features", self.n_features, N_KERNELS)
        check_part("kernels", self.kernels, DilatedKernels)
        self._check_settings()

    @classmethod
    @matched_by_position
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return a transformer whose biases are quantiles of responses to examples.

        Parameters
        ----------
        X : ndarray (n, length[, n_channels]), or (n, n_values), frame or list of dicts
            Windows in the form of those to transform. One window is drawn for every kernel at every
            dilation.
        y : object, optional
            Ignored.
        **settings
            Settings of the class.

        Returns
        -------
        MiniRocketFeatures
            A transformer that is ready for use.

        Raises
        ------
        TypeError, ValueError
            If a setting is invalid, or windows cannot be read or are shorter than 9 samples.

        Examples
        --------
        >>> MiniRocketFeatures.from_examples(np.eye(9), n_features=200).kernels
        DilatedKernels(168 features of 9 samples)
        """
        model = cls(**settings)
        if model.is_fixed:
            return model
        windows = model._values(check_some(read_images(X, model.window_shape, WINDOW), WINDOW))
        if windows.shape[1] < MINIROCKET_SIZE:
            problem = f"Windows have {windows.shape[1]} samples, expected at least"
            remedy = f"Pass longer windows.{channels_hint(windows.shape[1:], WINDOW)}"
            raise ValueError(f"{problem} {MINIROCKET_SIZE}. {remedy}")
        made = make_kernels(windows, model.n_features, model.seed)
        return cls(**{**settings, "kernels": made})

    @property
    def is_fixed(self) -> bool:
        """Whether the features can transform: whether their kernels are made."""
        return self.kernels is not None

    def features_of(self, images: Matrix) -> Matrix:
        """Return the features (n, n_features) of windows (n, 1, length, n_channels)."""
        if self.kernels is None:
            raise not_made("The biases are", "MiniRocketFeatures")
        windows = self._values(images)
        expected = (self.kernels.length, self.kernels.channels.shape[2])
        if windows.shape[1:] != expected:
            found, hint = windows.shape[1:], channels_hint(windows.shape[1:], WINDOW)
            remedy = f"Resize it, or use from_examples again.{hint}"
            raise ValueError(f"A window has shape {found}, expected {expected}. {remedy}")
        return proportions(windows, self.kernels)

    def _values(self, images: Matrix) -> Matrix:
        """Return windows (n, length, n_channels) in the precision of the responses, checked."""
        check_pixels(images, MAX_PIXEL[self.dtype], f"dtype={self.dtype!r}", WINDOW)
        return images[:, 0].astype(PRECISIONS[self.dtype], copy=False)
