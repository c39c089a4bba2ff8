"""What is drawn from the seed: random input weights by feature, and pairs of examples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b

import numpy as np

from onlinels.arrays import Integers, Matrix
from onlinels.memory import check_room

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Matrix]] = {
    "gaussian": lambda random, size: random.standard_normal(size),
    "uniform": lambda random, size: random.uniform(-1.0, 1.0, size),
    "bipolar": lambda random, size: 2.0 * random.integers(0, 2, size) - 1.0,
}

BIAS_KEY = "bias"
"""What the constant feature's weights are drawn by: keys of features all hold a colon."""

FIELDS_KEY = "receptive fields"
"""What receptive fields are drawn by."""


def check_units(n_hidden: int, n_features: int) -> None:
    """Raise ValueError if input weights of so many hidden units can never fit into memory."""
    what, sizes = "n_hidden={:,} with {:,} features", (n_hidden, n_features)
    check_room(8 * n_hidden * n_features, what, *sizes, remedy="Pass a smaller n_hidden.")


def generator_of(seed: int, key: str) -> np.random.Generator:
    """Return a random generator that is a function of seed and key alone.

    Examples
    --------
    >>> bool(generator_of(0, "a").random() == generator_of(0, "a").random())
    True
    """
    digest = blake2b(f"{seed}/{key}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


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
    return DISTRIBUTIONS[distribution](generator_of(seed, key), n_hidden)


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
