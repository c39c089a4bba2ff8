"""HiddenLayer: fixed input weights and an activation, as a river transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from river import base
from scipy.special import expit

from onlinels.checks import DTYPES, Matrix, check_choice, check_count, check_flag, check_part
from onlinels.features.images import not_made
from onlinels.features.input_weights import (
    BIAS_KEY,
    DIFFERENCES,
    DISTRIBUTIONS,
    FixedWeights,
    InputWeights,
    LandmarkWeights,
    ReceptiveFields,
    check_units,
    draw_row,
    extend_random,
    make_differences,
)
from onlinels.labels import read_labels
from onlinels.numerics import Lock, Update, apply, product
from onlinels.rows import (
    Columns,
    Layout,
    holds_array,
    output_row,
    output_table,
    read_batch,
    read_row,
)
from onlinels.saving import (
    ANY_MATRIX,
    ANY_VECTOR,
    locked_copy,
    made_of,
    maybe,
    savable_settings,
    save_method,
    settings_hold,
)


def _rectified(projections: Matrix, out: Matrix) -> Matrix:
    return np.maximum(projections, 0.0, out=out)


ACTIVATIONS: dict[str, Callable[..., Matrix]] = {
    "square": np.square,
    "relu": _rectified,
    "rectified-square": lambda u, out: np.square(_rectified(u, out), out=out),
    "logistic": expit,
    "tanh": np.tanh,
    "softplus": lambda u, out: np.logaddexp(0.0, u, out=out),
    "absolute": np.abs,
    # Two products: a power takes many times as long.
    "cube": lambda u, out: np.multiply(np.square(u), u, out=out),
    "cosine": np.cos,
    "gaussian": lambda u, out: np.exp(-np.square(u, out=out), out=out),
    "linear": np.positive,
}
"""Functions of projections and `out`, which may be one array."""


def activate(activation: str, projections: Matrix, features: Matrix) -> Matrix:
    """Return the activations of projections of features, written over them, if all are finite."""
    # Overflow on the way may lead to a limit, as of e^(-u^2): only what comes out counts.
    with np.errstate(over="ignore", invalid="ignore"):
        activations = ACTIVATIONS[activation](projections, out=projections)
        # Both pass NaN on.
        extremes = (activations.min(), activations.max())
    if not np.isfinite(extremes).all():
        largest = float(np.abs(features).max())
        remedy = "" if projections.dtype == np.float64 else ', or set dtype="float64"'
        raise ValueError(
            f"activation={activation!r} leaves the range of {projections.dtype} with features as "
            f"large as {largest:g}, expected finite activations. Rescale the features{remedy}."
        )
    return activations


def check_input_weights(
    input_weights: str | InputWeights,
    n_hidden: int,
    bias: bool,
    receptive_fields: ReceptiveFields | None,
) -> None:
    """Raise unless input weights are known, of the right width, and go with the other settings."""
    check_units(n_hidden, 1)
    if not isinstance(input_weights, InputWeights):
        check_choice("input_weights", input_weights, [*DISTRIBUTIONS, *DIFFERENCES])
    elif input_weights.n_hidden != n_hidden:
        raise ValueError(f"n_hidden={n_hidden} does not fit {input_weights}. Make new ones.")
    elif receptive_fields is not None:
        raise ValueError(
            f"receptive_fields={receptive_fields} came with input weights that are made already, "
            "expected None. Pass both to HiddenLayer.from_examples."
        )
    if bias and input_weights not in DISTRIBUTIONS:
        raise ValueError(
            f"bias=True came with input_weights={input_weights!r}, expected random ones. Leave it "
            'out; "centred-difference" has offsets of its own.'
        )


def _layer_fits(layer: Any) -> bool:
    rows, columns = layer._weights.shape
    offsets = layer._offsets
    fits = columns == layer.n_hidden and (layer._fixed or len(layer._columns) <= rows)
    # That is checked first: whoever is made with a bias draws as many numbers as it says.
    fits = fits and (offsets is None) == (layer.bias is False)
    fits = fits and (offsets is None or offsets.shape == (columns,))
    return bool(fits and settings_hold(layer))


@savable_settings(
    _layer_fits,
    _columns=made_of(Columns),
    _fixed=maybe(made_of(FixedWeights, LandmarkWeights)),
    _lock=made_of(Lock),
    _weights=ANY_MATRIX,
    _offsets=maybe(ANY_VECTOR),
)
@dataclass(eq=False, repr=False)
class HiddenLayer(base.MiniBatchTransformer):
    """Expand features into hidden activations g(x W_in) with fixed input weights W_in.

    Stage 2 of the paper up to its linear layer. The input weights are never learnt. Random ones
    are drawn feature by feature from the seed and the feature's name, so a feature that appears
    later changes nothing else, and an absent feature counts as 0.

    Parameters
    ----------
    n_hidden : int
        Number M of hidden units.
    input_weights : "gaussian", "uniform", "bipolar", "difference" or "centred-difference"
        Standard normal, uniform on [-1, 1], -1 or 1; or unit-length differences of examples of
        distinct classes, which are made by `from_examples` before use. Centred ones have mean 0
        over features, and the projection is 0 midway between the two examples.
    activation : str
        g, of a projection u: "square" (u^2), "relu" (max(0, u)), "rectified-square" (max(0, u)^2),
        "logistic", "tanh", "softplus" (log(1 + e^u)), "absolute", "cube", "cosine" (cos u: with
        "gaussian" weights and a bias, random Fourier features), "gaussian" (e^(-u^2)) or "linear".
    seed : int
        Start of the random numbers.
    dtype : "float64" or "float32"
        Precision of weights and activations. float32 is about twice as fast, and its rounding
        depends on how many rows are transformed together.
    bias : bool
        Whether random input weights have one for a constant feature 1 too.
    receptive_fields : ReceptiveFields, optional
        Lets every unit see only a random rectangle of features that are maps.

    Notes
    -----
    ``2 n L M`` operations for n rows of L features; ``8 L M`` bytes for the input weights in
    float64. Differences of m examples, m well below M, are not formed: ``2 n L m`` operations and
    ``8 L m`` bytes, and a little for each unit (not with receptive fields). On a sample of numbers
    `transform_one` returns {"h0": …, "h1": …}, the names of the columns that `transform_many` gives
    frames; on a sample with an array it returns {"h": array}. Arrays in give arrays out.

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

    save = save_method
    __copy__ = locked_copy

    n_hidden: int = 300
    input_weights: str | InputWeights = "gaussian"
    activation: str = "square"
    seed: int = 0
    dtype: str = "float64"
    bias: bool = False
    receptive_fields: ReceptiveFields | None = None

    def __post_init__(self) -> None:
        n_hidden, input_weights, seed = self.n_hidden, self.input_weights, self.seed
        check_count("n_hidden", n_hidden, 1)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_count("seed", seed, 0)
        check_choice("dtype", self.dtype, DTYPES)
        check_flag("bias", self.bias)
        check_part("receptive_fields", self.receptive_fields, ReceptiveFields)
        check_input_weights(input_weights, n_hidden, self.bias, self.receptive_fields)
        self._lock = Lock()
        dtype = DTYPES[self.dtype]
        self._columns, self._fixed = Columns(), None
        # Random ones, a row for every known column, and room for more.
        self._weights = np.empty((0, n_hidden), dtype)
        self._offsets: Matrix | None = None
        if self.bias:
            self._offsets = draw_row(str(input_weights), seed, BIAS_KEY, n_hidden).astype(dtype)
        if isinstance(input_weights, InputWeights):
            self._columns = Columns(input_weights.names)
            self._fixed = input_weights.astype(dtype)

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
        bias: bool = False,
        receptive_fields: ReceptiveFields | None = None,
    ) -> Self:
        """Return a layer whose input weights are differences of examples of distinct classes.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Examples, of at least two classes.
        y : array, series or list of n_rows labels
        n_hidden, input_weights, activation, seed, dtype, bias, receptive_fields
            As for the class.

        Returns
        -------
        HiddenLayer
            Its input weights are fixed; features that are not in `X` get no weight.

        Raises
        ------
        TypeError, ValueError
            If the examples cannot be read, are all of one class, or are no maps of the receptive
            fields' shape.

        Examples
        --------
        >>> layer = HiddenLayer.from_examples(np.eye(3), ["a", "b", "b"], n_hidden=4)
        >>> layer.transform_many(np.eye(3)).shape
        (3, 4)
        """
        layer = cls(n_hidden, input_weights, activation, seed, dtype, bias, receptive_fields)
        batch = read_batch(X)
        labels = read_labels(y, len(batch.values))
        if layer.is_fixed:
            return layer
        columns = layer._extended(batch.layouts)
        features = columns.place(batch.layouts, batch.values).astype(DTYPES[dtype], copy=False)
        examples = (columns.names, features, labels)
        made = make_differences(input_weights, *examples, n_hidden, seed, receptive_fields)
        return cls(n_hidden, made, activation, seed, dtype)

    @property
    def is_fixed(self) -> bool:
        """Whether the layer can transform; only differences without examples cannot."""
        return self.input_weights not in DIFFERENCES

    def check_width(self, n_features: int) -> None:
        """Raise unless the layer can take so many features.

        Raises
        ------
        ValueError
            If its input weights were made from examples of another number of features, or these
            are no maps of the receptive fields' shape.
        """
        if self.receptive_fields is not None:
            self.receptive_fields.check_width(n_features)
        if self._fixed is not None and len(self._fixed.names) != n_features:
            raise ValueError(
                f"There are {n_features} features, expected {len(self._fixed.names)} as in the "
                "examples that the input weights were made from. Make new ones with from_examples."
            )

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the activations of one sample: {"h0": …} for numbers, {"h": array} for arrays."""
        layout, values = read_row(x)
        activations = self._activate((layout,), values[None])
        return output_row(activations[0], holds_array(layout))

    def transform_many(self, X: Any) -> Any:
        """Return the activations of a mini-batch, in the kind of `X`."""
        batch = read_batch(X)
        activations = self._activate(batch.layouts, batch.values)
        return output_table(batch.source, activations, holds_array(batch.layouts[-1]))

    def _activate(self, layouts: tuple[Layout, ...], values: Matrix) -> Matrix:
        if not self.is_fixed:
            raise not_made(f"input_weights={self.input_weights!r} is", "HiddenLayer")
        with self._lock:
            columns, weights = self._columns, self._weights
            if self._fixed is None:
                columns = self._extended(layouts)
                if len(columns) > len(self._columns):
                    drawn = (len(self._columns), columns.names, str(self.input_weights), self.seed)
                    weights = extend_random(weights, *drawn, self.receptive_fields)
            with np.errstate(over="ignore", invalid="ignore"):  # Shows in what comes out.
                features = columns.place(layouts, values).astype(DTYPES[self.dtype], copy=False)
                projections = self._project(features, weights)
            activations = activate(self.activation, projections, values)
            apply(Update(state=((self, "_columns", columns), (self, "_weights", weights))))
            return activations

    def _project(self, features: Matrix, weights: Matrix) -> Matrix:
        if self._fixed is not None:
            return self._fixed.project(features)
        projections = product(features, weights[: features.shape[1]])
        if self._offsets is not None:
            projections += self._offsets
        return projections

    def _extended(self, layouts: tuple[Layout, ...]) -> Columns:
        """Return columns that know the layouts too, which must be of whole maps."""
        if self.receptive_fields is not None:
            self.receptive_fields.check_layouts(layouts)
        return self._columns.extended(layouts)
