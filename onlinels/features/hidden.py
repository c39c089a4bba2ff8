"""HiddenLayer: fixed input weights and an activation, as a river transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from river import base
from scipy.special import expit

from onlinels.arrays import Matrix
from onlinels.columns import Columns
from onlinels.encoding import ArrayFeature, Layout, read_batch, read_row
from onlinels.features.input_weights import (
    DISTRIBUTIONS,
    FixedWeights,
    difference_weights,
    draw_row,
)
from onlinels.labels import read_labels
from onlinels.names import feature_key, key_text
from onlinels.outputs import output_row, output_table
from onlinels.settings import DTYPES, check_choice, check_count

ACTIVATIONS: dict[str, Callable[..., Matrix]] = {
    "square": np.square,
    "relu": lambda projections, out: np.maximum(projections, 0.0, out=out),
    "logistic": expit,
}


class HiddenLayer(base.MiniBatchTransformer):
    """Expand features into hidden activations g(x W_in) with fixed input weights W_in.

    Stage 2 of the paper up to its linear layer. The input weights are never learnt. Random ones
    are drawn feature by feature from the seed and the feature's name, so a feature that appears
    later changes nothing else, and an absent feature counts as 0.

    Parameters
    ----------
    n_hidden : int
        Number M of hidden units.
    input_weights : "gaussian", "uniform", "bipolar" or "difference"
        Standard normal, uniform on [-1, 1], -1 or 1; or differences of examples of distinct
        classes, which are made by `from_examples` before use.
    activation : "square", "relu" or "logistic"
        g.
    seed : int
        Start of the random numbers.
    dtype : "float64" or "float32"
        Precision of weights and activations. float32 is about twice as fast, and its rounding
        depends on how many rows are transformed together.

    Notes
    -----
    ``2 n L M`` operations for n rows of L features; ``8 L M`` bytes for the input weights in
    float64. On a sample of numbers `transform_one` returns {"h0": …, "h1": …}, the names of the
    columns that `transform_many` gives frames; on a sample with an array it returns {"h": array}.
    Arrays in give arrays out.

    In a TransformerUnion give each layer names of its own with river's compose.Prefixer: all call
    their outputs "h0", "h1", …

    Scale features first where they differ in size: no ridge can undo what a large feature does to
    every hidden unit. With "logistic", sums of many features saturate unless these are small.

    Examples
    --------
    >>> layer = HiddenLayer(n_hidden=2, input_weights="bipolar")
    >>> layer.transform_one({"a": 3.0})
    {'h0': 9.0, 'h1': 9.0}
    >>> layer.transform_many([{"a": 1.0}, {"b": 0.0}])
    [{'h0': 1.0, 'h1': 1.0}, {'h0': 0.0, 'h1': 0.0}]
    """

    def __init__(
        self,
        n_hidden: int = 300,
        input_weights: str | FixedWeights = "gaussian",
        activation: str = "square",
        seed: int = 0,
        dtype: str = "float64",
    ) -> None:
        check_count("n_hidden", n_hidden, 1)
        if not isinstance(input_weights, FixedWeights):
            check_choice("input_weights", input_weights, [*DISTRIBUTIONS, "difference"])
        check_choice("activation", activation, ACTIVATIONS)
        check_count("seed", seed, 0)
        check_choice("dtype", dtype, DTYPES)
        self.n_hidden = n_hidden
        self.input_weights = input_weights
        self.activation = activation
        self.seed = seed
        self.dtype = dtype
        self._columns = Columns()
        self._n_drawn = 0
        self._weights = np.empty((0, n_hidden), dtype=DTYPES[dtype])
        if isinstance(input_weights, FixedWeights):
            _check_width(input_weights, n_hidden)
            self._columns = Columns.in_order(input_weights.names)
            self._weights = np.asarray(input_weights.weights, dtype=DTYPES[dtype])

    @classmethod
    def from_examples(
        cls,
        X: Any,
        y: Any,
        n_hidden: int = 300,
        input_weights: str = "difference",
        activation: str = "square",
        seed: int = 0,
        dtype: str = "float64",
    ) -> Self:
        """Return a layer whose input weights are differences of examples of distinct classes.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Examples, of at least two classes.
        y : array, series or list of n_rows labels
        n_hidden, input_weights, activation, seed, dtype
            As for the class.

        Returns
        -------
        HiddenLayer
            Its input weights are fixed. Features that are not in `X` get no weight.

        Raises
        ------
        TypeError, ValueError
            If the examples cannot be read, or are all of one class.

        Examples
        --------
        >>> layer = HiddenLayer.from_examples(np.eye(3), ["a", "b", "b"], n_hidden=4)
        >>> layer.transform_many(np.eye(3)).shape
        (3, 4)
        """
        layer = cls(n_hidden, input_weights, activation, seed, dtype)
        batch = read_batch(X)
        labels = read_labels(y, len(batch.values))
        if input_weights != "difference":
            return layer
        columns = Columns().extended(batch.layouts)
        features = columns.place(batch.layouts, batch.values).astype(DTYPES[dtype])
        weights = difference_weights(features, labels, n_hidden, seed)
        return cls(n_hidden, FixedWeights(columns.names, weights), activation, seed, dtype)

    @property
    def is_fixed(self) -> bool:
        """Whether the layer can transform; only "difference" without examples cannot."""
        return self.input_weights != "difference"

    def check_width(self, n_features: int) -> None:
        """Raise if the input weights were made from examples of another number of features.

        Raises
        ------
        ValueError
            If they were.
        """
        fixed = self.input_weights
        if isinstance(fixed, FixedWeights) and len(fixed.names) != n_features:
            raise ValueError(
                f"There are {n_features} features, expected {len(fixed.names)} as in the examples "
                "that the input weights were made from. Make new ones with from_examples."
            )

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the activations of one sample: {"h0": …} for numbers, {"h": array} for arrays."""
        layout, values = read_row(x)
        activations = self._activate((layout,), values[None])
        return output_row(activations[0], _holds_array(layout))

    def transform_many(self, X: Any) -> Any:
        """Return the activations of a mini-batch, in the kind of `X`."""
        batch = read_batch(X)
        activations = self._activate(batch.layouts, batch.values)
        return output_table(batch.source, activations, _holds_array(batch.layouts[-1]))

    def _activate(self, layouts: tuple[Layout, ...], values: Matrix) -> Matrix:
        self._check_fixed()
        if not isinstance(self.input_weights, FixedWeights):
            columns = self._columns.extended(layouts)
            self._draw_missing(columns)
            self._columns = columns
        placed = self._columns.place(layouts, values)
        projections = (
            placed.astype(DTYPES[self.dtype], copy=False) @ self._weights[: placed.shape[1]]
        )
        return ACTIVATIONS[self.activation](projections, out=projections)

    def _check_fixed(self) -> None:
        if not self.is_fixed:
            raise ValueError(
                'input_weights="difference" is made from examples, and none were given. Use '
                "HiddenLayer.from_examples(X, y, ...) before the first row."
            )

    def _draw_missing(self, columns: Columns) -> None:
        """Draw weights for features that became known, reserving room for half as many again."""
        known, needed = self._n_drawn, len(columns)
        if known == needed:
            return
        texts = [key_text(feature_key(name)) for name in columns.names[known:]]
        if needed > len(self._weights):
            capacity = max(needed, len(self._weights) * 3 // 2)
            room = np.zeros((capacity, self.n_hidden), dtype=DTYPES[self.dtype])
            room[:known] = self._weights[:known]
            self._weights = room
        for row, text in enumerate(texts, start=known):
            self._weights[row] = draw_row(str(self.input_weights), self.seed, text, self.n_hidden)
        self._n_drawn = needed


def _check_width(fixed: FixedWeights, n_hidden: int) -> None:
    if fixed.weights.shape[1] != n_hidden:
        raise ValueError(
            f"n_hidden={n_hidden} does not fit {fixed}. "
            "Make new ones with HiddenLayer.from_examples."
        )


def _holds_array(layout: Layout) -> bool:
    return any(isinstance(entry, ArrayFeature) for entry in layout)
