"""Input weights of the hidden layer: drawn by feature name, or differences of examples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np

from onlinels.arrays import Integers, Matrix
from onlinels.names import Name

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Matrix]] = {
    "gaussian": lambda random, size: random.standard_normal(size),
    "uniform": lambda random, size: random.uniform(-1.0, 1.0, size),
    "bipolar": lambda random, size: 2.0 * random.integers(0, 2, size) - 1.0,
}


@dataclass(frozen=True, eq=False)
class FixedWeights:
    """Input weights that were made from examples and change no more.

    Parameters
    ----------
    names : tuple
        Names of the features, a row of `weights` each.
    weights : ndarray (n_features, n_hidden)
    """

    names: tuple[Name, ...]
    weights: Matrix

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the very same weights: they are never written to."""
        return self

    def __repr__(self) -> str:
        n_features, n_hidden = self.weights.shape
        return f"FixedWeights({n_features} features, {n_hidden} hidden units)"


def draw_row(distribution: str, seed: int, key: str, n_hidden: int) -> Matrix:
    """Draw one feature's input weights (n_hidden,), a function of seed and key alone.

    Notes
    -----
    The generator is Philox, keyed by a hash: about 10 microseconds and 10 ns a weight. The first
    units are the same whatever their number.

    Examples
    --------
    >>> bool((draw_row("bipolar", 0, "age", 5) == draw_row("bipolar", 0, "age", 9)[:5]).all())
    True
    """
    digest = blake2b(f"{seed}/{key}".encode(), digest_size=16).digest()
    random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
    return DISTRIBUTIONS[distribution](random, n_hidden)


def draw_pairs(labels: Sequence[Hashable], n_pairs: int, seed: int) -> tuple[Integers, Integers]:
    """Draw pairs of rows with different labels, uniformly among the first row's possible mates.

    Returns
    -------
    first, second : ndarray (n_pairs,) of int

    Raises
    ------
    ValueError
        If all labels are the same.

    Examples
    --------
    >>> first, second = draw_pairs(["a", "b", "a"], n_pairs=4, seed=0)
    >>> bool(((first == 1) != (second == 1)).all())
    True
    """
    codes: dict[Hashable, int] = {}
    column = np.array([codes.setdefault(label, len(codes)) for label in labels])
    if len(codes) < 2:
        raise ValueError(
            f"y holds only the label {labels[0]!r}, expected examples of at least two classes. "
            "Pass more examples, or use random input weights."
        )
    random = np.random.default_rng(seed)
    by_class = np.argsort(column, kind="stable")
    sizes = np.bincount(column)
    starts = np.cumsum(sizes) - sizes
    first = random.integers(0, len(column), n_pairs)
    own = column[first]
    # Count through the rows sorted by class, jumping over the first row's own class.
    mate = random.integers(0, len(column) - sizes[own])
    mate += np.where(mate >= starts[own], sizes[own], 0)
    return first, by_class[mate]


def difference_weights(
    features: Matrix, labels: Sequence[Hashable], n_hidden: int, seed: int
) -> Matrix:
    """Return unit-length differences of examples of distinct classes.

    w = (x_a - x_b) / |x_a - x_b| for a random pair a, b of different labels, one pair per hidden
    unit. A pair of equal examples gives zeros.

    Parameters
    ----------
    features : ndarray (n, n_features), float32 or float64
    labels : sequence of n labels
    n_hidden : int
    seed : int

    Returns
    -------
    ndarray (n_features, n_hidden), dtype of `features`

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), section II-B: "C" input weights.

    Examples
    --------
    >>> difference_weights(np.array([[3.0, 0.0], [0.0, 4.0]]), [0, 1], n_hidden=1, seed=0).shape
    (2, 1)
    """
    first, second = draw_pairs(labels, n_hidden, seed)
    differences = features[first] - features[second]
    lengths = np.linalg.norm(differences, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0
    differences /= lengths
    return np.ascontiguousarray(differences.T)
