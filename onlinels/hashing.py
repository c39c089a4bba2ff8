"""Rows are dealt to folds by hashes of their features' names and values."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Integers, Matrix, check_matrix
from onlinels.rows import Name, feature_key, key_text

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 1 << 16
"""Values hashed at once: they stay in the cache."""

MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
SHIFTS = np.array([30, 27, 31], dtype=np.uint64)
"""Both of the finaliser of SplitMix64."""

DROPPED = np.uint64(29)
"""Binary digits of a float64 that a float32 lacks."""

HALF = np.uint64(1 << 28)
"""Half of the last digit that is kept."""


def fold_of_rows(names: Iterable[Name], values: Matrix, n_folds: int) -> Integers:
    """Return the fold of every row: a function of its features' names and values alone.

    A row's hash is the sum over its features that are not 0 of a mixed 64-bit hash of name and
    value, modulo 2^64. So neither the order of the columns counts, nor features that are absent or
    0, nor label and weight. Values count to 24 binary digits, so neither does the dtype (float32 or
    float64), nor the last digits in which a row transformed alone differs from one in a batch.

    Parameters
    ----------
    names : iterable of n_features names
        See `onlinels.rows.feature_key` for which of them stand for one feature.
    values : ndarray (n, n_features), any real dtype
    n_folds : int

    Returns
    -------
    ndarray (n,) of int
        From 0 to below `n_folds`.

    Raises
    ------
    TypeError, ValueError
        If the values are no matrix of finite numbers, or a name has no fixed spelling.

    Notes
    -----
    Equal rows come into one fold, as a row and its repetition should: held-out rows are then not
    among those trained on. 5 to 15 ns a value.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014 (the mixing function).

    Examples
    --------
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> fold_of_rows(["a", "b"], rows, n_folds=3)
    array([0, 0, 1, 2, 0, 0])
    >>> fold_of_rows(["b", "absent", "a"], rows[:2, [1, 1, 0]] * [1, 0, 1], n_folds=3)
    array([0, 0])
    """
    return hashed_folds(name_hashes(names), check_matrix("values", values), n_folds)


def name_hashes(names: Iterable[Name]) -> Hashes:
    """Return a 64-bit hash of every feature's name, the same in every process."""
    texts = (key_text(feature_key(name)) for name in names)
    digests = [blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def hashed_folds(hashes: Hashes, values: Matrix, n_folds: int) -> Integers:
    """Return the fold of every row (n,), given the hashes (n_features,) of its features' names."""
    sums = np.zeros(len(values), dtype=np.uint64)
    step = max(1, BLOCK_VALUES // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        block = np.ascontiguousarray(values[start : start + step], dtype=np.float64)
        # Bits of values rounded to the 24 digits of a float32, in a float64's range.
        rounded = (block.view(np.uint64) + HALF) >> DROPPED
        mixed = _mixed(_mixed(rounded) + hashes)
        mixed[block == 0.0] = 0
        sums[start : start + step] = mixed.sum(axis=1, dtype=np.uint64)
    folds: Integers = (_mixed(sums) % np.uint64(n_folds)).astype(np.intp)
    return folds


def _mixed(bits: Hashes) -> Hashes:
    """Return bits spread over all 64 places."""
    bits = (bits ^ (bits >> SHIFTS[0])) * MULTIPLIERS[0]
    bits = (bits ^ (bits >> SHIFTS[1])) * MULTIPLIERS[1]
    mixed: Hashes = bits ^ (bits >> SHIFTS[2])
    return mixed
