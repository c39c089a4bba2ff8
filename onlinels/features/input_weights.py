"""Fixed input weights: random ones by feature name, or differences of examples of two classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from onlinels.checks import Floats, Integers, Matrix, check_room
from onlinels.core.constants import EPS
from onlinels.features.images import slices
from onlinels.numerics import Frozen, is_array, product
from onlinels.rows.batch import Name
from onlinels.rows.labels import Classes
from onlinels.saving import savable

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Matrix]] = {
    "gaussian": lambda random, size: random.standard_normal(size),
    "uniform": lambda random, size: random.uniform(-1.0, 1.0, size),
    "bipolar": lambda random, size: 2.0 * random.integers(0, 2, size) - 1.0,
}

BIAS_KEY = "bias"
"""Key that the bias is drawn by. Keys of features contain a colon, so none is equal to it."""


def check_units(n_hidden: int, n_features: int) -> None:
    """Raise ValueError if the input weights of so many hidden units exceed the memory."""
    what, sizes = "A hidden layer of n_hidden={:,} with {:,} features", (n_hidden, n_features)
    check_room(8 * n_hidden * n_features, what, *sizes, remedy="Pass a smaller n_hidden.")


def generator_of(seed: int, key: str) -> np.random.Generator:
    """Return a random generator determined by seed and key."""
    digest = blake2b(f"{seed}/{key}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def draw_row(distribution: str, seed: int, key: str, n_hidden: int) -> Matrix:
    """Draw the weights (n_hidden,) of one feature; the first ones are the same for any n_hidden."""
    return DISTRIBUTIONS[distribution](generator_of(seed, key), n_hidden)


@dataclass(frozen=True, eq=False, repr=False)
class InputWeights(Frozen, ABC):
    """Fixed input weights of the features `names`, which are the columns that `project` reads."""

    names: tuple[Name, ...]
    # Constants (n_hidden,) added to every projection.
    offsets: Matrix | None = field(default=None, kw_only=True)
    # The images that the weights are made of (ImageLandmarks), if they are.
    origin: Any = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def n_hidden(self) -> int:
        """Number M of hidden units."""

    @abstractmethod
    def products(self, features: Matrix) -> Matrix:
        """Return the projections without the offsets, as a new array."""

    def project(self, features: Matrix) -> Matrix:
        """Return the projections (n, n_hidden) of features (n, n_features), as a new array."""
        projections = self.products(features)
        if self.offsets is not None:
            projections += self.offsets
        return projections

    @abstractmethod
    def of_standardized(self, means: Floats, factors: Floats) -> Self:
        """Return weights that project x to the projection of (x - means) * factors by these."""

    def shifted(self, by: Floats) -> Self:
        """Return the same weights with constants (n_hidden,) added to all projections."""
        return replace(self, offsets=by if self.offsets is None else self.offsets + by)

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same weights in another precision; this object if nothing changes."""
        changed: dict[str, Any] = {}
        for name, each in vars(self).items():
            if isinstance(each, np.ndarray) and each.dtype.kind == "f" and each.dtype != dtype:
                changed[name] = each.astype(dtype)
        return replace(self, **changed, origin=None) if changed else self

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        arrays = [each for each in vars(self).values() if isinstance(each, np.ndarray)]
        return all(bool(np.isfinite(each).all()) for each in arrays)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)} features, {self.n_hidden} hidden units)"


def standardization(values: Matrix) -> tuple[Floats, Floats]:
    """Return the mean of every column, and 1 over its population standard deviation.

    The second is 0 for columns that are constant up to rounding.
    """
    values = values.astype(np.float64, copy=False)
    means, deviations = values.mean(axis=0), values.std(axis=0)
    varies = deviations > 4.0 * EPS * np.abs(values).max(axis=0)
    return means, varies / np.where(varies, deviations, 1.0)


def _matrix_fits(made: Any) -> bool:
    rows, columns = made.weights.shape
    return rows == len(made.names) and (made.offsets is None or made.offsets.shape == (columns,))


@savable(_matrix_fits)
@dataclass(frozen=True, eq=False, repr=False)
class FixedWeights(InputWeights):
    """Input weights as a matrix (n_features, n_hidden): x W + offsets."""

    weights: Matrix

    @property
    def n_hidden(self) -> int:
        """Number M of hidden units."""
        return int(self.weights.shape[1])

    def products(self, features: Matrix) -> Matrix:
        """Return the projections without the offsets: n L M multiply-adds."""
        return product(features, self.weights)

    def of_standardized(self, means: Floats, factors: Floats) -> Self:
        """Return weights that project x to the projection of (x - means) * factors by these."""
        weights = self.weights * factors[:, None]
        return replace(self, weights=weights).shifted(-product(means[None], weights)[0])


GATHER_COST_IN_PRODUCTS = 100
"""Multiply-adds that take the time of one gathered difference.

Measured for 1,000 rows of 6,000 features, 12,000 units, float32, one thread, medians of 7: with
2,000 (4,000) landmarks the product takes 228 (448) ms, and the differences take 36 (35) ms with
np.take or 51 (67) ms with indexing. The product with the full matrix takes 1,330 ms.
"""


BLOCK_UNITS = 64
"""Hidden units whose differences are computed at once, to bound memory."""


def are_places(size: int, n: int, *arrays: Any) -> bool:
    """Return whether loaded arrays hold n places each, from 0 to below `size`."""
    fits = all(is_array(each, n, dtype=np.intp) for each in arrays)
    return fits and all(bool(((each >= 0) & (each < size)).all()) for each in arrays)


def _landmarks_fit(made: Any) -> bool:
    n_landmarks, n_features = made.landmarks.shape
    fits = made.scales.shape == (made.n_hidden,) and n_features == len(made.names)
    fits = fits and made.landmark_offsets.shape == (n_landmarks,)
    return fits and are_places(n_landmarks, made.n_hidden, made.first, made.second)


@savable(_landmarks_fit)
@dataclass(frozen=True, eq=False, repr=False)
class LandmarkWeights(InputWeights):
    """Input weights as scaled differences of landmark examples, without the matrix of weights."""

    # Unit k has its own pair a, b of landmarks and projects features x on
    # w_k = scale_k (l_a - l_b): the projection is
    # scale_k ((x l_a + offset_a) - (x l_b + offset_b)). scale_k is 0 if both examples are equal.

    # Subtracting one vector from all landmarks changes no difference, only the rounding errors. In
    # float32, for 2,000 features whose means are 30 standard deviations, the relative error was
    # 4e-7 with landmarks of mean 0, as with the full matrix, and 2e-4 with the mean left in.
    landmarks: Matrix
    landmark_offsets: Matrix
    first: Integers
    second: Integers
    scales: Matrix

    @property
    def n_hidden(self) -> int:
        """Number M of hidden units."""
        return len(self.scales)

    @property
    def weights(self) -> Matrix:
        """The matrix (n_features, n_hidden), computed on each access."""
        weights = np.empty((self.landmarks.shape[1], self.n_hidden), self.landmarks.dtype)
        for units in slices(0, self.n_hidden, BLOCK_UNITS):
            a, b = self.landmarks[self.first[units]], self.landmarks[self.second[units]]
            weights[:, units] = (self.scales[units, None] * (a - b)).T
        return weights

    def formed(self) -> FixedWeights:
        """Return the same input weights as a matrix."""
        offsets = self.landmark_offsets[self.first] - self.landmark_offsets[self.second]
        made = FixedWeights(self.names, self.weights, offsets=self.offsets)
        return made.shifted(self.scales * offsets) if self.landmark_offsets.any() else made

    def in_cheaper_form(self) -> InputWeights:
        """Return the same input weights in the form whose products take less time."""
        n_landmarks, n_features = self.landmarks.shape
        n_gathered = n_features * n_landmarks + GATHER_COST_IN_PRODUCTS * self.n_hidden
        return self if n_gathered < n_features * self.n_hidden else self.formed()

    def products(self, features: Matrix) -> Matrix:
        """Return the projections without the offsets: n L m multiply-adds and n M differences."""
        products = product(features, self.landmarks.T)
        products += self.landmark_offsets
        # Measured: faster than indexing.
        projections: Matrix = np.take(products, self.first, axis=1)
        projections -= np.take(products, self.second, axis=1)
        projections *= self.scales
        return projections

    def of_standardized(self, means: Floats, factors: Floats) -> Self:
        """Return weights that project x to the projection of (x - means) * factors by these."""
        landmarks = self.landmarks * factors
        offsets = self.landmark_offsets - product(landmarks, means[:, None])[:, 0]
        return replace(self, landmarks=landmarks, landmark_offsets=offsets)


DIFFERENCE_KINDS = ("difference", "centred-difference")
"""Kinds of input weights made from examples."""


def draw_pairs(labels: Sequence[Hashable], n_pairs: int, seed: int) -> tuple[Integers, Integers]:
    """Draw pairs of rows with different labels; the second row is uniform given the first."""
    classes = Classes().extended(labels)
    column = classes.columns(labels)
    if len(classes) < 2:
        problem = f"y holds only the label {labels[0]!r}, expected at least two classes"
        raise ValueError(f"{problem}. Pass more examples, or use random input weights.")
    random = np.random.default_rng(seed)
    by_class = np.argsort(column, kind="stable")
    sizes = np.bincount(column)
    starts = np.cumsum(sizes) - sizes
    first = random.integers(0, len(column), n_pairs)
    own = column[first]
    # Positions among the rows sorted by class, without those of the first row's class.
    second = random.integers(0, len(column) - sizes[own])
    second += np.where(second >= starts[own], sizes[own], 0)
    return first, by_class[second]


def landmark_differences(
    names: Sequence[Name], features: Matrix, first: Integers, second: Integers, centred: bool
) -> LandmarkWeights:
    """Return unit-length differences of examples of distinct classes as input weights."""
    # For a random pair a, b of different labels, one pair a hidden unit, "difference" projects
    # features x on w = (x_a - x_b) / |x_a - x_b|. "centred-difference" first removes the mean over
    # features from x_a - x_b, and shifts the projection: x w - (x_a + x_b) w / 2 is positive on the
    # side of a and negative on the side of b. See section II-B of the paper: "C" input weights.

    # If pairs are centred, every landmark's own mean is removed, and so is that of the differences:
    # with landmarks l that sum to 0, w = l_a - l_b. Since l = x - mean - constant, the offset
    # -(x_a + x_b) w / 2 is the difference of -(l / 2 + mean) l at a and b.
    dtype = features.dtype
    used, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    first, second = np.split(places.astype(np.intp), 2)
    landmarks, offsets = features[used], np.zeros(len(used))
    sizes = np.linalg.norm(landmarks, axis=1)
    # Rounded first, so that exactly the same vector is subtracted from all landmarks.
    mean = landmarks.mean(axis=0, dtype=np.float64).astype(dtype)
    landmarks -= mean
    if centred:
        landmarks -= landmarks.mean(axis=1, keepdims=True, dtype=np.float64).astype(dtype)
        offsets -= np.einsum("ij,ij->i", landmarks, landmarks, dtype=np.float64) / 2.0
        offsets -= np.einsum("ij,j->i", landmarks, mean, dtype=np.float64)
    scales = np.zeros(len(first))
    for units in slices(0, len(first), BLOCK_UNITS):
        a, b = first[units], second[units]
        lengths = np.linalg.norm(landmarks[a].astype(np.float64) - landmarks[b], axis=1)
        # The difference of examples that differ by a constant is nothing but rounding.
        smallest = 4.0 * np.finfo(dtype).eps * (sizes[a] + sizes[b]) if centred else 0.0
        np.divide(1.0, lengths, out=scales[units], where=lengths > smallest)
    return LandmarkWeights(tuple(names), landmarks, offsets, first, second, scales).astype(dtype)
