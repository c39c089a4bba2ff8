"""Input weights that are differences of examples of distinct classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.features.hidden.draws import draw_pairs
from onlinels.features.hidden.input_weights import FixedWeights, InputWeights
from onlinels.features.hidden.landmarks import LandmarkWeights, landmarks_pay
from onlinels.features.hidden.receptive_fields import ReceptiveFields, Sight
from onlinels.names import Name

DIFFERENCES = ("difference", "centred-difference")
"""Kinds of input weights that are made from examples."""

BLOCK_UNITS = 64
"""Hidden units whose differences are formed at once, to bound memory."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of examples, one a hidden unit, whose differences become input weights.

    Parameters
    ----------
    kind : "difference" or "centred-difference"
    features : ndarray (n, n_features), float32 or float64
    first, second : ndarray (n_hidden,) of int
        Rows of the pairs.
    sight : Sight, optional
        What every unit sees of the features; everything if None.
    """

    kind: str
    features: Matrix
    first: Integers
    second: Integers
    sight: Sight | None = None

    @property
    def centred(self) -> bool:
        """Whether each difference's own mean is removed, and projections are 0 midway."""
        return self.kind == "centred-difference"

    def blocks(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """Iterate over units, their differences (k, n_features) and what scales these (k,)."""
        for start in range(0, len(self.first), BLOCK_UNITS):
            units = slice(start, start + BLOCK_UNITS)
            yield units, *self._differences(units)

    def midpoints(self, units: slice) -> Floats:
        """Return the sums of the units' pairs, halved (k, n_features)."""
        a, b = self._examples(units)
        return (a + b) / 2.0

    def _examples(self, units: slice) -> tuple[Floats, Floats]:
        rows = self.features[self.first[units]], self.features[self.second[units]]
        return rows[0].astype(np.float64), rows[1].astype(np.float64)

    def _differences(self, units: slice) -> tuple[Floats, Floats]:
        a, b = self._examples(units)
        differences = a - b
        seen = np.ones((1, a.shape[1])) if self.sight is None else self.sight.mask(units)
        smallest = np.zeros(len(a))
        if self.centred:
            n_seen = np.maximum(seen.sum(axis=1), 1.0)
            differences -= ((differences * seen).sum(axis=1) / n_seen)[:, None]
            # Examples that differ by a constant leave nothing but what the dtype has rounded.
            sizes = np.linalg.norm(a, axis=1) + np.linalg.norm(b, axis=1)
            smallest = 4.0 * np.finfo(self.features.dtype).eps * sizes
        differences *= seen
        lengths = np.linalg.norm(differences, axis=1)
        kept = lengths > smallest
        return differences, kept / np.where(kept, lengths, 1.0)


def make_differences(
    kind: str,
    names: Sequence[Name],
    features: Matrix,
    labels: Sequence[Hashable],
    n_hidden: int,
    seed: int,
    receptive_fields: ReceptiveFields | None = None,
) -> InputWeights:
    """Return unit-length differences of examples of distinct classes as input weights.

    For a random pair a, b of different labels, one pair a hidden unit, "difference" projects
    features x on w = (x_a - x_b) / |x_a - x_b|. "centred-difference" first removes the mean over
    features from x_a - x_b, and measures from midway: x w - (x_a + x_b) w / 2 is positive on the
    side of a, negative on that of b. A pair of equal examples gives zeros.

    Parameters
    ----------
    kind : "difference" or "centred-difference"
    names : sequence of n_features names
    features : ndarray (n, n_features), float32 or float64
    labels : sequence of n labels
    n_hidden : int
    seed : int
    receptive_fields : ReceptiveFields, optional
        Weights outside a unit's rectangle are 0; lengths and means are of what is inside.

    Returns
    -------
    InputWeights, in the dtype of `features`
        LandmarkWeights where these are less work: where the pairs use clearly fewer examples than
        there are hidden units, and there are no receptive fields. FixedWeights, the formed matrix,
        otherwise. Both project alike up to rounding.

    Raises
    ------
    ValueError
        If all labels are the same, or features have no position on the maps.

    Notes
    -----
    About ``10 L M`` operations.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), section II-B: "C" input weights.

    Examples
    --------
    >>> X = np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> make_differences("difference", "ab", X, [0, 1], n_hidden=1, seed=0)
    FixedWeights(2 features, 1 hidden units)
    """
    first, second = draw_pairs(labels, n_hidden, seed)
    if receptive_fields is None:
        pairs = Pairs(kind, features, first, second)
        n_landmarks = len(np.union1d(first, second))
        if landmarks_pay(n_landmarks, features.shape[1], n_hidden):
            return landmark_differences(names, pairs)
        return formed_differences(names, pairs)
    sight = Sight.draw(receptive_fields, names, n_hidden, seed)
    return formed_differences(names, Pairs(kind, features, first, second, sight))


def formed_differences(names: Sequence[Name], pairs: Pairs) -> FixedWeights:
    """Return the scaled differences of pairs as a matrix (n_features, n_hidden)."""
    dtype, n_hidden = pairs.features.dtype, len(pairs.first)
    weights = np.empty((pairs.features.shape[1], n_hidden), dtype=dtype)
    offsets = np.empty(n_hidden, dtype=dtype)
    for units, differences, scales in pairs.blocks():
        differences *= scales[:, None]
        weights[:, units] = differences.T
        if pairs.centred:
            offsets[units] = -np.vecdot(pairs.midpoints(units), differences)
    return FixedWeights(tuple(names), weights, offsets if pairs.centred else None)


def landmark_differences(names: Sequence[Name], pairs: Pairs) -> LandmarkWeights:
    """Return the scaled differences of pairs that see all features, as pairs of landmarks.

    Own means are removed from the landmarks, and so from their differences: with landmarks l that
    sum to 0, w = l_a - l_b. As l = x - mean - constant, the offset -(x_a + x_b) w / 2 is the
    difference of -(l / 2 + mean) l at a and b.
    """
    dtype = pairs.features.dtype
    used, places = np.unique(np.concatenate([pairs.first, pairs.second]), return_inverse=True)
    landmarks, offsets = pairs.features[used], np.zeros(len(used))
    # Rounded first, so that the very same is taken from all.
    mean = landmarks.mean(axis=0, dtype=np.float64).astype(dtype)
    landmarks -= mean
    if pairs.centred:
        landmarks -= landmarks.mean(axis=1, keepdims=True, dtype=np.float64).astype(dtype)
        offsets -= np.einsum("ij,ij->i", landmarks, landmarks, dtype=np.float64) / 2.0
        offsets -= np.einsum("ij,j->i", landmarks, mean, dtype=np.float64)
    scales = np.concatenate([scales for _, _, scales in pairs.blocks()])
    first, second = np.split(places.astype(np.intp), 2)
    return LandmarkWeights(
        tuple(names), landmarks, offsets.astype(dtype), first, second, scales.astype(dtype)
    )
