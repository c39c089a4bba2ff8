"""What `filters` may be, and the filter bank that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from onlinels.arrays import Matrix
from onlinels.features.filters.bank import FilterBank, Recipe
from onlinels.features.filters.hand_designed import BANKS, check_bank
from onlinels.features.filters.patch_sampling import check_size
from onlinels.features.images import Shape, read_images
from onlinels.labels import read_labels
from onlinels.settings import check_count, check_flag


def check_filters(filters: Any) -> None:
    """Raise unless `filters` is a bank, a name, an array, a recipe or a tuple of these.

    Raises
    ------
    TypeError, ValueError
        If it is not, a name is not known, a tuple is empty, or an array holds no square filters.

    Examples
    --------
    >>> check_filters(("hand-designed", np.eye(5)[None]))
    """
    members = list(_members(filters))
    if not members:
        raise ValueError("filters is an empty tuple, expected at least one bank. Name one.")
    for member in members:
        if isinstance(member, list):
            _check_list(member)
        if isinstance(member, (str, np.ndarray, list)):
            check_bank(member)
        elif not isinstance(member, (FilterBank, Recipe)):
            raise TypeError(
                f"filters holds {member!r}, expected a name, an array, a FilterBank, a recipe such "
                "as Patches(), or a tuple of these. Pass one of them."
            )


def _check_list(filters: list[Any]) -> None:
    """Raise unless a list is of filters of one shape, as an array is."""
    try:
        is_array = np.asarray(filters).dtype.kind not in "OSU"
    except ValueError:
        is_array = False
    if not is_array:
        raise TypeError(
            f"filters is a list of {len(filters)} members, expected filters of one shape. Pass a "
            "tuple to combine banks."
        )


def needs_examples(filters: Any) -> bool:
    """Tell whether there is a recipe among `filters`, which images have to be given for.

    Examples
    --------
    >>> needs_examples("hand-designed")
    False
    """
    return any(isinstance(member, Recipe) for member in _members(filters))


def check_contrast(filters: Any, contrast_offset: float | None) -> None:
    """Raise unless the recipes among `filters` can do with a contrast offset, or with None.

    Raises
    ------
    ValueError
        If patches are to keep a mean that the contrast offset takes.

    Examples
    --------
    >>> check_contrast("hand-designed", 0.1)
    """
    for member in _members(filters):
        if isinstance(member, Recipe):
            member.check_contrast(contrast_offset)


def check_source(filters: Any, shape: Shape) -> None:
    """Raise unless the recipes among `filters` find patches in images of this shape.

    Raises
    ------
    ValueError
        If a patch is larger than the images.

    Examples
    --------
    >>> check_source("hand-designed", (3, 3, 1))
    """
    for member in _members(filters):
        if isinstance(member, Recipe):
            check_size(shape, member.size)


def outline(filters: Any, n_channels: int, joint: bool = False) -> FilterBank:
    """Return the bank that images of so many channels meet, zeros for what needs examples.

    Examples
    --------
    >>> from onlinels.features.filters.patches import Patches
    >>> outline(("hand-designed", Patches(17)), n_channels=1)
    FilterBank(60 filters of 7 x 7, 1 channel)
    """
    return _fitted(map(_without_examples, _members(filters)), n_channels, joint)


def bounding(
    filters: Any,
    largest: float,
    n_channels: int,
    joint: bool = False,
    contrast_offset: float | None = None,
) -> FilterBank:
    """Return a bank that `filters` will not exceed if no pixel is larger than `largest`.

    Examples
    --------
    >>> from onlinels.features.filters.patches import Patches
    >>> bounding(Patches(2), largest=1.0, n_channels=1).filters.max()
    np.float64(1.0)
    """
    normalised = contrast_offset is not None
    members = (
        member.bound(largest, n_channels, normalised) if isinstance(member, Recipe) else member
        for member in _members(filters)
    )
    return _fitted(members, n_channels, joint)


def _without_examples(member: Any) -> Any:
    if not isinstance(member, Recipe):
        return member
    return np.zeros((member.n_filters, member.size, member.size))


def make_bank(
    filters: Any,
    images: Any = None,
    labels: Any = None,
    seed: int = 0,
    joint: bool = False,
    contrast_offset: float | None = None,
) -> FilterBank:
    """Return the filter bank that `filters` stands for: a function of the arguments alone.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]), FilterBank, recipe or tuple
        A tuple is a combination, in order. Smaller filters are padded with zeros to the largest
        size, and where numbers of channels differ, all meet the channels of the images.
    images : ndarray (n, height, width[, n_channels]), optional
        Examples; only recipes need them.
    labels : sequence of n labels, optional
        Only Patches needs them.
    seed : int
        Start of the random numbers. Each place in a tuple has its own.
    joint : bool
        Whether the responses of channels will be summed, so that patches are whitened over all
        channels together, not each channel on its own.
    contrast_offset : float, above 0, optional
        That by which the convolution will normalise the contrast of patches, if it will.

    Returns
    -------
    FilterBank

    Raises
    ------
    TypeError, ValueError
        If `filters` is none of these, a recipe has no images to draw from, or channels do not fit.

    Examples
    --------
    >>> make_bank(("hand-designed", np.ones((2, 9, 9))))
    FilterBank(45 filters of 9 x 9, 1 channel)
    """
    check_filters(filters)
    check_count("seed", seed, 0)
    check_flag("joint", joint)
    values = None if images is None else read_images(images, None).values
    if values is not None and labels is not None:
        read_labels(labels, len(values))
    banks = []
    for place, member in enumerate(_members(filters)):
        if not isinstance(member, Recipe):
            banks.append(_as_bank(member))
        elif values is None:
            raise ValueError(f"There are no images, expected some for {member!r}. Pass images.")
        else:
            random = np.random.default_rng([seed, place + 1])
            banks.append(member.make(values, labels, random, joint, contrast_offset))
    return banks[0] if len(banks) == 1 else _combined(banks, values, joint)


def _members(filters: Any) -> Iterator[Any]:
    """Yield what a combination consists of, tuples in tuples included."""
    if isinstance(filters, tuple):
        for member in filters:
            yield from _members(member)
    else:
        yield filters


def _as_bank(member: Any) -> FilterBank:
    if isinstance(member, FilterBank):
        return member
    values = BANKS[member]() if isinstance(member, str) else np.asarray(member)
    return FilterBank(values if values.ndim == 4 else values[..., None], np.zeros(len(values)))


def _fitted(members: Iterable[Any], n_channels: int, joint: bool) -> FilterBank:
    """Join what meets images of so many channels, each fitted to them by itself.

    Offsets of channels that were summed before could not be fitted to other channels any more.
    """
    banks = [_as_bank(member).for_channels(n_channels) for member in members]
    return banks[0] if len(banks) == 1 else _combined(banks, None, joint)


def _combined(banks: list[FilterBank], images: Matrix | None, joint: bool) -> FilterBank:
    """Join banks of any size and number of channels."""
    numbers = {bank.filters.shape[3] for bank in banks}
    if len(numbers) > 1 and images is not None:
        numbers = {images.shape[3]}
    elif len(numbers - {1}) > 1:
        raise ValueError(
            f"filters combines banks of {sorted(numbers)} channels, expected one number beside 1. "
            "Pass images, whose channels all banks then meet."
        )
    height, width = np.max([bank.filters.shape[1:3] for bank in banks], axis=0)
    fitted = [bank.for_channels(max(numbers)).padded(height, width) for bank in banks]
    offsets = [bank.offsets for bank in fitted]
    if joint:
        offsets = [each if each.ndim == 1 else each.sum(axis=1) for each in offsets]
    elif any(each.ndim == 2 for each in offsets):
        offsets = [np.broadcast_to(each.T, (max(numbers), len(each))).T for each in offsets]
    return FilterBank(np.concatenate([b.filters for b in fitted]), np.concatenate(offsets))
