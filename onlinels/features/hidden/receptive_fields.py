"""Receptive fields: every hidden unit sees a rectangle of the maps, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onlinels.arrays import Floats, Integers
from onlinels.batch import ArrayFeature, Layout
from onlinels.features.hidden.draws import FIELDS_KEY, generator_of
from onlinels.names import Name, feature_key
from onlinels.settings import check_count


@dataclass(frozen=True)
class ReceptiveFields:
    """Let every hidden unit see a random rectangle of the maps; its weights outside are 0.

    Features are maps of one shape, one after the other, each row by row, as the pixels of a grey
    image or the output of `ConvolutionalFeatures`: feature p lies at position
    ``p % (rows * columns)`` of its map. A unit sees the same rectangle of all maps. Its rows are an
    interval drawn uniformly from all those of at least `smallest` rows, and so are its columns.

    Parameters
    ----------
    map_shape : (rows, columns)
        Shape of one map.
    smallest : int
        Smallest side of a rectangle, in positions.

    Notes
    -----
    Features need positions: columns of plain arrays, or names as "h12", ("h", 12) or 12.
    The source asks for an area above 10 pixels, and keeps off the border of the images, which is
    blank there.

    References
    ----------
    M. D. McDonnell, M. D. Tissera, T. Vladusich, A. van Schaik and J. Tapson (2015), "Fast, simple
    and accurate handwritten digit classification by training shallow neural network classifiers
    with the 'extreme learning machine' algorithm", PLoS ONE 10(8): e0134254.

    Examples
    --------
    >>> fields = ReceptiveFields((2, 3), smallest=2)
    >>> fields.see(fields.rectangles(1, seed=0), fields.positions(range(6))).reshape(2, 3)
    array([[ True,  True, False],
           [ True,  True, False]])
    """

    map_shape: tuple[int, int]
    smallest: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.map_shape, tuple) or len(self.map_shape) != 2:
            raise ValueError(
                f"map_shape={self.map_shape!r} is no shape of a map. Pass (rows, columns)."
            )
        for side in self.map_shape:
            check_count("map_shape", side, 1)
        check_count("smallest", self.smallest, 1)
        if self.smallest > min(self.map_shape):
            raise ValueError(
                f"smallest={self.smallest} is more than a side of map_shape={self.map_shape}, "
                f"expected at most {min(self.map_shape)}. Pass a smaller int."
            )

    def check_width(self, n_features: int) -> None:
        """Raise unless a number of features is that of whole maps.

        Raises
        ------
        ValueError
            If it is not.
        """
        rows, columns = self.map_shape
        if n_features % (rows * columns):
            raise ValueError(
                f"There are {n_features} features, expected a multiple of {rows * columns} as of "
                f"maps of {rows} x {columns} positions. Set map_shape of ReceptiveFields to the "
                "shape of one map."
            )

    def check_maps(self, map_shape: tuple[int, int]) -> None:
        """Raise unless features come as maps of this shape.

        Raises
        ------
        ValueError
            If they come as maps of another.
        """
        if map_shape != self.map_shape:
            raise ValueError(
                f"map_shape={self.map_shape} of ReceptiveFields is not that of the features' maps, "
                f"expected {map_shape}. Pass ReceptiveFields({map_shape})."
            )

    def check_layouts(self, layouts: Iterable[Layout]) -> None:
        """Raise unless arrays among the columns are whole maps.

        Raises
        ------
        ValueError
            If one is not.
        """
        for layout in layouts:
            if isinstance(layout, range):
                self.check_width(len(layout))
                continue
            for entry in layout:
                if isinstance(entry, ArrayFeature):
                    self.check_width(entry.length)

    def positions(self, names: Iterable[Name]) -> Integers:
        """Return where on its map each feature lies, ``row * columns + column``.

        Raises
        ------
        ValueError
            If a name is no position.
        """
        places = []
        for name in names:
            key = feature_key(name)
            if not isinstance(key, int) or key < 0:
                raise ValueError(
                    f"Feature {name!r} has no position on a map, expected numbered features for "
                    'receptive_fields. Pass plain arrays, {"h": array}, or names "h0", "h1", ...'
                )
            places.append(key % (self.map_shape[0] * self.map_shape[1]))
        return np.array(places, dtype=np.intp)

    def rectangles(self, n_hidden: int, seed: int) -> Integers:
        """Draw one rectangle a hidden unit, (n_hidden, 4): top, bottom, left and right.

        The first units' are the same whatever their number. Bottom and right are not seen any more.
        """
        uniform = generator_of(seed, FIELDS_KEY).random((n_hidden, 2))
        drawn = []
        for axis, side in enumerate(self.map_shape):
            starts, stops = np.triu_indices(side - self.smallest + 1)
            chosen = (uniform[:, axis] * len(starts)).astype(np.intp)
            drawn += [starts[chosen], stops[chosen] + self.smallest]
        return np.stack(drawn, axis=1)

    def see(self, rectangles: Integers, positions: Integers) -> NDArray[np.bool_]:
        """Tell which rectangle (n, 4) holds which position, (n, n_positions)."""
        top, bottom, left, right = rectangles.T[:, :, None]
        row, column = np.divmod(positions, self.map_shape[1])
        held: NDArray[np.bool_] = (row >= top) & (row < bottom)
        held &= (column >= left) & (column < right)
        return held

    def __repr__(self) -> str:
        return f"ReceptiveFields({self.map_shape}, smallest={self.smallest})"


@dataclass(frozen=True, eq=False)
class Sight:
    """What every hidden unit sees of the features.

    Parameters
    ----------
    fields : ReceptiveFields
    rectangles : ndarray (n_hidden, 4)
    positions : ndarray (n_features,)
        Where the features lie on their maps.
    """

    fields: ReceptiveFields
    rectangles: Integers
    positions: Integers

    @classmethod
    def draw(
        cls, fields: ReceptiveFields, names: Iterable[Name], n_hidden: int, seed: int
    ) -> Sight:
        """Draw every unit's rectangle.

        Raises
        ------
        ValueError
            If a name is no position.
        """
        return cls(fields, fields.rectangles(n_hidden, seed), fields.positions(names))

    def mask(self, units: slice) -> Floats:
        """Return 1 where units see a feature, 0 elsewhere (n_units, n_features)."""
        return self.fields.see(self.rectangles[units], self.positions).astype(np.float64)

    def column(self, feature: int) -> NDArray[np.bool_]:
        """Tell which units see a feature (n_hidden,)."""
        return self.fields.see(self.rectangles, self.positions[feature : feature + 1])[:, 0]
