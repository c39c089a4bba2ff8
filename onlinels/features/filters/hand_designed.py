"""Banks of convolution filters, as arrays of shape (n_filters, filter_size, filter_size)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from onlinels.arrays import Floats, check_values, frozen_copy, plain_array
from onlinels.settings import check_choice

HAND_DESIGNED_SIZE = 7
N_ORIENTATIONS = 20
CORNER_ARM = 4
SQUARE_SIDES = (3, 4, 5)


@cache
def hand_designed() -> Floats:
    """Return the paper's hand-designed bank: 20 bars, 20 corners and 3 squares, 7x7, zero mean.

    Returns
    -------
    ndarray (43, 7, 7), float64, read-only
        Bars one pixel wide, turned in steps of 9 degrees; corners whose two arms are 4 pixels
        long and meet in the middle, turned in steps of 18 degrees; centred squares of side 3, 4
        and 5. Turned lines are anti-aliased: a pixel's value falls linearly to 0 at a distance
        of one pixel. Every filter's mean is 0, so even brightness has no response.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), section III-B.

    Examples
    --------
    >>> bank = hand_designed()
    >>> bank.shape, bool(abs(bank.mean(axis=(1, 2))).max() < 1e-15)
    ((43, 7, 7), True)
    """
    return frozen_copy(zero_mean(np.concatenate([_bars(), _corners(), _squares()])))


def zero_mean(bank: Floats) -> Floats:
    """Return the bank with every filter's mean removed (per channel, if it has channels)."""
    centred: Floats = bank - bank.mean(axis=(1, 2), keepdims=True)
    return centred


def _offsets() -> tuple[Floats, Floats]:
    """Return the pixels' vertical and horizontal distances from the middle of a 7x7 filter."""
    middle = (HAND_DESIGNED_SIZE - 1) / 2
    distances = np.arange(HAND_DESIGNED_SIZE, dtype=np.float64) - middle
    rows, columns = np.meshgrid(distances, distances, indexing="ij")
    return rows, columns


def _bars() -> Floats:
    rows, columns = _offsets()
    angles = np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    return np.stack([_ink(rows * np.sin(a) + columns * np.cos(a)) for a in angles])


def _corners() -> Floats:
    angles = 2 * np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    return np.stack([np.maximum(_arm(a), _arm(a + np.pi / 2)) for a in angles])


def _arm(angle: float) -> Floats:
    """Draw a line of 4 pixels, the first of them in the middle of the filter."""
    rows, columns = _offsets()
    along = columns * np.cos(angle) + rows * np.sin(angle)
    across = rows * np.cos(angle) - columns * np.sin(angle)
    beyond = along - np.clip(along, 0.0, CORNER_ARM - 1)
    return _ink(np.hypot(across, beyond))


def _ink(distance: Floats) -> Floats:
    """Shade pixels by their distance from a line one pixel wide."""
    return np.clip(1.0 - np.abs(distance), 0.0, 1.0)


def _squares() -> Floats:
    """Fill squares about the middle; the edges of the even one cover half a pixel on every side."""
    rows, columns = _offsets()
    return np.stack([_within(rows, side) * _within(columns, side) for side in SQUARE_SIDES])


def _within(offsets: Floats, side: int) -> Floats:
    """Return the share of a pixel's width that lies within half a side of the middle."""
    return np.clip((side + 1) / 2 - np.abs(offsets), 0.0, 1.0)


BANKS: dict[str, Callable[[], Floats]] = {"hand-designed": hand_designed}


def check_bank(filters: Any) -> None:
    """Raise unless `filters` names a bank or is an array of square filters.

    Raises
    ------
    TypeError
        If it is neither a name nor numbers.
    ValueError
        If the name is not known, the shape is not (n_filters, filter_size, filter_size) with or
        without channels, or a value is not finite.
    """
    if isinstance(filters, str):
        check_choice("filters", filters, BANKS)
        return
    bank = plain_array("filters", filters)
    check_values("filters", bank)
    if bank.ndim not in (3, 4) or bank.shape[1] != bank.shape[2] or 0 in bank.shape:
        raise ValueError(
            f"filters has shape {bank.shape}, expected (n_filters, filter_size, filter_size[, "
            "n_channels]) with square filters. Reshape or pad them."
        )
