"""The kernels of MiniRocket: dilations, channels and padding of each, and how many biases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onlinels.arrays import Floats, Integers
from onlinels.features.filters.kernels import MINIROCKET_SIZE, minirocket_kernels
from onlinels.frozen import Frozen

Flags = NDArray[np.bool_]

N_KERNELS = 84
MOST_CHANNELS = 9
"""Channels that one kernel sums over, at most."""

GOLDEN_RATIO = (np.sqrt(5.0) + 1.0) / 2.0


@dataclass(frozen=True, eq=False, repr=False)
class DilatedKernels(Frozen):
    """The 84 kernels at every dilation, each with its channels and biases.

    Parameters
    ----------
    length : int
        Samples in a window.
    dilations : ndarray (n_dilations,), int
        Samples between neighbouring weights.
    n_biases : ndarray (n_dilations,), int
        Biases for each kernel of a dilation.
    channels : ndarray (n_dilations, 84, n_channels), bool
        The channels that responses are summed over.
    biases : ndarray (n_features,), float64
        Ordered by dilation, kernel, and bias.
    """

    length: int
    dilations: Integers
    n_biases: Integers
    channels: Flags
    biases: Floats

    def __repr__(self) -> str:
        return (
            f"DilatedKernels({len(self.biases)} features of {self.length} samples, "
            f"{self.n_channels} channel{'s' * (self.n_channels > 1)})"
        )

    @property
    def n_channels(self) -> int:
        """Channels of a window."""
        return int(self.channels.shape[2])

    def of_dilation(self, number: int) -> tuple[slice, Floats]:
        """Return where features of a dilation are, and their biases (84, n_biases)."""
        first = N_KERNELS * int(self.n_biases[:number].sum())
        places = slice(first, first + N_KERNELS * int(self.n_biases[number]))
        return places, self.biases[places].reshape(N_KERNELS, -1)

    def is_padded(self, number: int) -> Flags:
        """Return which kernels (84,) of a dilation see zeros around the window: every second."""
        padded: Flags = (np.arange(N_KERNELS) + number) % 2 == 0
        return padded


def centres() -> Integers:
    """Return the three places (84, 3), 0 to 8, at which each kernel weighs 2 and not -1."""
    return np.argwhere(minirocket_kernels() > 0.0)[:, 1].reshape(N_KERNELS, 3)


def make_dilations(length: int, n_features: int, max_dilations: int) -> tuple[Integers, Integers]:
    """Return the dilations for windows of a length, and the biases of each kernel at each.

    Dilations are floor(2^e), e evenly spaced from 0 to log2((length - 1) / 8), so that the longest
    kernel just fits the window. Each stands for as many biases as exponents fall on it.

    Parameters
    ----------
    length : int, at least 9
    n_features : int, at least 84
        Of which the multiple of 84 below is made.
    max_dilations : int, at least 1

    Examples
    --------
    >>> make_dilations(100, 10_000, 32)
    (array([ 1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12]), array([...]))
    """
    per_kernel = n_features // N_KERNELS
    n_exponents = min(per_kernel, max_dilations)
    largest = np.log2((length - 1) / (MINIROCKET_SIZE - 1))
    exponents = np.linspace(0.0, largest, n_exponents)
    dilations, times = np.unique((2.0**exponents).astype(np.intp), return_counts=True)
    n_biases = (times * (per_kernel / n_exponents)).astype(np.intp)
    # What rounding left over goes to the smallest dilations, one by one.
    n_left = per_kernel - int(n_biases.sum())
    n_biases += n_left // len(dilations)
    n_biases[: n_left % len(dilations)] += 1
    return dilations, n_biases


def draw_channels(n_dilations: int, n_channels: int, random: np.random.Generator) -> Flags:
    """Draw the channels of every kernel and dilation: floor(2^u) of them, as few more likely.

    u is uniform from 0 to log2(min(n_channels, 9) + 1).

    Returns
    -------
    ndarray (n_dilations, 84, n_channels), bool
    """
    shape = (n_dilations, N_KERNELS)
    largest = np.log2(min(n_channels, MOST_CHANNELS) + 1)
    n_chosen = (2.0 ** random.uniform(0.0, largest, shape)).astype(np.intp)
    ranks = random.random((*shape, n_channels)).argsort(axis=-1)
    chosen: Flags = ranks < n_chosen[..., None]
    return chosen


def quantiles(n: int) -> Floats:
    """Return n numbers in [0, 1) that are spread evenly: the fractions of k times the golden ratio.

    Examples
    --------
    >>> quantiles(3).round(3)
    array([0.618, 0.236, 0.854])
    """
    return np.asarray((np.arange(1, n + 1) * GOLDEN_RATIO) % 1.0)
