"""Shares of positive responses to dilated kernels: what MiniRocket makes of a window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.features.filters.dilated import (
    N_KERNELS,
    DilatedKernels,
    centres,
    draw_channels,
    make_dilations,
    quantiles,
)
from onlinels.features.filters.kernels import MINIROCKET_SIZE
from onlinels.threads import even_parts, in_threads

TILE_VALUES = 1 << 17
"""Responses of kernels that are dealt with at once.

Measured: with a quarter of them windows of 64 samples take twice as long.
"""

PART_WINDOWS = 256
"""Windows, at most, that one thread deals with before it takes others."""

COMPARED_VALUES = 1 << 18
"""Comparisons that are made at once, and fit the cache as bytes."""

LARGEST_BYTE = 255


def proportions(windows: Matrix, kernels: DilatedKernels) -> Matrix:
    """Return the share of samples at which each kernel's response is over each bias.

    Parameters
    ----------
    windows : ndarray (n, length, n_channels), float32 or float64
    kernels : DilatedKernels

    Returns
    -------
    ndarray (n, n_features), dtype of `windows`
        Ordered by dilation, kernel and bias.

    Notes
    -----
    For each window some ``13 s + 2 b`` operations for every kernel, dilation and sample, with s the
    channels and b the biases: sums of shifted windows, then comparisons, in tiles that fit
    the cache. No product by BLAS: a window's features are the same alone and among others.
    """
    features = np.empty((len(windows), len(kernels.biases)), dtype=windows.dtype)
    together = max(1, 2 * TILE_VALUES // (kernels.length * N_KERNELS))

    def work(part: slice) -> None:
        """Write the features of some of the windows."""
        for start in range(part.start, part.stop, together):
            tile = slice(start, min(start + together, part.stop))
            _fill(features[tile], windows[tile], kernels)

    in_threads(work, even_parts(len(windows), together, PART_WINDOWS))
    return features


def _fill(features: Matrix, windows: Matrix, kernels: DilatedKernels) -> None:
    """Write the features (n, n_features) of windows (n, length, n_channels)."""
    # Windows last: they lie side by side in memory in every step.
    samples = np.ascontiguousarray(windows.transpose(1, 2, 0))
    for number, dilation in enumerate(kernels.dilations.tolist()):
        places, biases = kernels.of_dilation(number)
        padded = kernels.is_padded(number)
        edge = (MINIROCKET_SIZE // 2) * dilation
        shares = features[:, places].reshape(len(windows), *biases.shape)
        for inside, edges in ((padded, 0), (~padded, edge)):
            chosen = _by_channels(kernels.channels[number], inside)
            found = responses(samples, dilation, chosen, kernels.channels[number][chosen])
            kept = found[edges : len(found) - edges]
            shares[:, chosen] = _shares(kept, biases[chosen].astype(windows.dtype))
        features[:, places] = shares.reshape(len(windows), -1)


def _by_channels(channels: Matrix, inside: Matrix) -> Integers:
    """Return the numbers of kernels, those that sum over most channels first."""
    numbers = np.flatnonzero(inside)
    order = np.argsort(-channels[numbers].sum(axis=1), kind="stable")
    sorted_numbers: Integers = numbers[order]
    return sorted_numbers


def responses(samples: Matrix, dilation: int, chosen: Integers, channels: Matrix) -> Matrix:
    """Return the responses of kernels at one dilation, zeros taken to lie around the window.

    c_t = sum over channels of (3 (x_{t+id} + x_{t+jd} + x_{t+kd}) - sum over m of x_{t+md}), with
    i, j and k the places of weight 2, and m from -4 to 4.

    Parameters
    ----------
    samples : ndarray (length, n_channels, n)
    dilation : int
        d.
    chosen : ndarray (n_chosen,)
        Numbers of the kernels, those of most channels first.
    channels : ndarray (n_chosen, n_channels), bool

    Returns
    -------
    ndarray (length, n_chosen, n), dtype of `samples`
    """
    length, n_channels, n = samples.shape
    edge = (MINIROCKET_SIZE // 2) * dilation
    around = np.zeros((length + 2 * edge, n_channels, n), dtype=samples.dtype)
    around[edge : edge + length] = samples
    shifted = [around[m * dilation : m * dilation + length] for m in range(MINIROCKET_SIZE)]
    negative = -sum(shifted[1:], start=shifted[0])
    tripled, times = (3 * around).reshape(-1, n), np.arange(length)[:, None]
    counts = channels.sum(axis=1)
    ordered = np.argsort(~channels, axis=1, kind="stable")
    places = centres()[chosen] * dilation
    found = np.zeros((length, len(chosen), n), dtype=samples.dtype)
    for rank in range(int(counts[0])):
        some = slice(0, int((counts > rank).sum()))
        channel = ordered[some, rank]
        found[:, some] += negative.take(channel, axis=1)
        for place in places[some].T:
            found[:, some] += tripled.take((times + place) * n_channels + channel, axis=0)
    return found


def _shares(found: Matrix, biases: Matrix) -> Matrix:
    """Return the share of responses over each bias, (n, n_kernels, n_biases).

    Parameters
    ----------
    found : ndarray (length, n_kernels, n)
    biases : ndarray (n_kernels, n_biases)
    """
    length, n_kernels, n = found.shape
    rows = found.reshape(length, -1)
    # A bias for each column: comparing along short rows takes several times as long.
    limits = np.repeat(biases.T, n, axis=1)
    counts = np.zeros(limits.shape, dtype=np.intp)
    together = max(1, COMPARED_VALUES // rows.size)
    for first in range(0, len(limits), together):
        some = slice(first, first + together)
        over = (rows > limits[some, None]).view(np.uint8)
        # Bytes add up many times as fast as wider numbers, and 255 of them cannot overflow.
        for start in range(0, length, LARGEST_BYTE):
            part = over[:, start : start + LARGEST_BYTE]
            counts[some] += np.add.reduce(part, axis=1, dtype=np.uint8)
    shares: Matrix = counts.reshape(-1, n_kernels, n) / length
    return shares.transpose(2, 1, 0)


def make_kernels(windows: Matrix, n_features: int, max_dilations: int, seed: int) -> DilatedKernels:
    """Return kernels whose biases are quantiles of their responses to examples.

    Parameters
    ----------
    windows : ndarray (n, length, n_channels), float32 or float64
        The examples, of which one is drawn for each kernel and dilation.
    n_features, max_dilations
        See `onlinels.features.filters.dilated.make_dilations`.
    seed : int

    Returns
    -------
    DilatedKernels
    """
    random = np.random.default_rng(seed)
    dilations, n_biases = make_dilations(windows.shape[1], n_features, max_dilations)
    channels = draw_channels(len(dilations), windows.shape[2], random)
    examples = random.integers(len(windows), size=channels.shape[:2])
    wanted = quantiles(channels.shape[1] * int(n_biases.sum()))
    kernels = DilatedKernels(windows.shape[1], dilations, n_biases, channels, wanted)
    biases: list[Floats] = []
    for number, dilation in enumerate(dilations.tolist()):
        _, shares = kernels.of_dilation(number)
        for kernel, example in enumerate(examples[number]):
            samples, chosen = windows[example][..., None], np.array([kernel])
            found = responses(samples, dilation, chosen, channels[number][chosen])
            biases.append(np.quantile(found.astype(np.float64), shares[kernel]))
    return replace(kernels, biases=np.concatenate(biases))
