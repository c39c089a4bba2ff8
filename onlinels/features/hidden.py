"""HiddenLayer: fixed input weights and an activation, as a river transformer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple, Self, cast

import numpy as np

from onlinels.checks import (
    PRECISIONS,
    Floats,
    Integers,
    Matrix,
    check_choice,
    check_count,
    check_flag,
    check_not_empty,
    ignoring,
    plain_value,
)
from onlinels.features.convolution import ConvolutionalFeatures, convolution_bytes
from onlinels.features.input_weights import (
    BIAS_KEY,
    DIFFERENCE_KINDS,
    DISTRIBUTIONS,
    FixedWeights,
    InputWeights,
    are_places,
    check_units,
    draw_pairs,
    draw_row,
    landmark_differences,
    standardization,
)
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.features.transformer import FixedTransformer, check_common_settings, not_made
from onlinels.locks import Lock
from onlinels.numerics import Frozen
from onlinels.rows.answers import output_row, output_table
from onlinels.rows.batch import (
    Columns,
    Layout,
    Name,
    holds_array,
    matched_by_position,
    name_text,
    names_of,
    read_batch,
    read_sample,
)
from onlinels.rows.labels import read_labels
from onlinels.saving import (
    is_small,
    locked_deepcopy,
    locked_state,
    savable,
    settings_hold,
    unpacked_state,
)
from onlinels.saving.description import SavedState, state_of


@ignoring("over", "invalid")
def standardized(made: Any, means: Floats, factors: Floats, dtype: Any) -> Any:
    """Return input weights for rows that are not standardised, in a precision."""
    return made.of_standardized(means, factors).astype(dtype)


def _pairs_fit(landmarks: Any) -> bool:
    pairs, offsets = (landmarks.first, landmarks.second), landmarks.offsets
    fits = are_places(len(landmarks.images), len(landmarks.first), *pairs)
    fits = fits and (offsets is None or offsets.shape == landmarks.first.shape)
    return fits and landmarks.images.ndim == 4


@savable(_pairs_fit)
@dataclass(frozen=True, eq=False, repr=False)
class ImageLandmarks(Frozen):
    """Pairs of images of distinct classes, one for each hidden unit.

    Files hold these images in place of input weights, which take 10 to 200 times as many bytes.

    Attributes
    ----------
    preprocessing, features
        Both fixed: the functions from images to features.
    images : ndarray (n, height, width, n_channels)
        The images before any step; uint8 if all pixels are bytes.
    first, second : ndarray (n_hidden,)
        Numbers of the images of every pair.
    kind : "difference" or "centred-difference"
    dtype : str
        Dtype of the images when the network learnt them.
    offsets : ndarray (n_hidden,), optional
        The bias.
    """

    preprocessing: ImagePreprocessing
    features: ConvolutionalFeatures
    images: Matrix
    first: Integers
    second: Integers
    kind: str
    dtype: str
    offsets: Matrix | None = None

    @classmethod
    @ignoring("invalid")
    def draw(
        cls,
        preprocessing: ImagePreprocessing,
        features: ConvolutionalFeatures,
        images: Matrix,
        labels: Sequence[Hashable],
        n_hidden: int,
        seed: int,
        kind: str,
    ) -> ImageLandmarks:
        """Return pairs of images with distinct labels, and only the images in these pairs."""
        used, places = np.unique(draw_pairs(labels, n_hidden, seed), return_inverse=True)
        images, dtype = images[used], str(images.dtype)
        as_bytes = images.astype(np.uint8)
        if np.array_equal(as_bytes, images):
            images = as_bytes
        first, second = places.reshape(2, -1)
        return cls(preprocessing, features, images, first, second, kind, dtype)

    def rows(self, images: Matrix) -> Matrix:
        """Return the features (n, n_features) of images."""
        return np.asarray(self.features.transform_many(self.preprocessing.transform_many(images)))

    def weights(self, dtype: str) -> InputWeights:
        """Return the input weights; on one machine, they are the same to the last bit."""
        rows, centred = self.rows(self.images), self.kind.startswith("centred")
        rows, names = rows.astype(PRECISIONS[dtype], copy=False), range(rows.shape[1])
        made = landmark_differences(names, rows, self.first, self.second, centred).in_cheaper_form()
        made = made if self.offsets is None else made.shifted(self.offsets)
        return replace(made, origin=self)

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that `weights` needs for features, at most."""
        shape = self.preprocessing.output_shape(self.images.shape[1:])
        features = convolution_bytes((len(self.images), *shape), self.features)
        # Preprocessing makes up to four channels of three, twice.
        return features + 3 * 8 * self.images.size


def _logistic(u: Matrix, out: Matrix) -> Matrix:
    # Imported here, because scipy.special takes long to import and few need it.
    from scipy.special import expit

    return np.asarray(expit(u, out=out))


ACTIVATIONS: dict[str, Callable[..., Matrix]] = {
    "square": np.square,
    "relu": lambda u, out: np.maximum(u, 0.0, out=out),
    "rectified-square": lambda u, out: np.square(np.maximum(u, 0.0, out=out), out=out),
    "logistic": _logistic,
    "tanh": np.tanh,
    "softplus": lambda u, out: np.logaddexp(0.0, u, out=out),
    "absolute": np.abs,
    # Two products: np.power takes many times as long.
    "cube": lambda u, out: np.multiply(np.square(u), u, out=out),
    "cosine": np.cos,
    "gaussian": lambda u, out: np.exp(-np.square(u, out=out), out=out),
    "linear": np.positive,
}
"""Functions of the projections and of `out`, which may be the same array."""


MAX_PROJECTED_EXAMPLES = 1000
"""Approximate number of examples that the spread of the projections is computed from."""


def some_of(examples: Matrix) -> Matrix:
    """Return a sample of all parts of the examples, since they may be sorted."""
    return examples[:: max(1, len(examples) // MAX_PROJECTED_EXAMPLES)]


MIN_OMITTED_BYTES = 1 << 20
"""Bytes of drawn input weights from which a file leaves them out: 1 MiB.

A file with smaller ones does not depend on how numpy draws.
"""


@savable()
class DrawnWeights(NamedTuple):
    """Input weights in a file that leaves them out: the layer's seed draws them again.

    Attributes
    ----------
    sha256 : str
        Of the weights rounded to float32: logarithms of another system may differ in the last digit
        of float64.
    numpy : str
        The version of numpy that drew them.
    """

    names: tuple[Name, ...]
    offsets: Matrix | None
    sha256: str
    numpy: str


def _digest(weights: Matrix) -> str:
    return sha256(weights.astype("<f4", order="C").data).hexdigest()


def _without_made(layer: Any) -> SavedState:
    """Return the state of a layer, without weights that its seed draws or images make."""
    state, made = state_of(layer), layer._made
    if made.origin is not None:
        # The columns are those of the features.
        state |= {"input_weights": made.origin, "_made": None, "_columns": None}
    elif layer.input_weights in DISTRIBUTIONS and made.weights.nbytes >= MIN_OMITTED_BYTES:
        digest = _digest(made.weights)
        state["_made"] = DrawnWeights(made.names, made.offsets, digest, np.__version__)
    return state


def _left_out_bytes(state: SavedState) -> int:
    """Return the bytes of the input weights that a state leaves out."""
    origin = state["input_weights"]
    if isinstance(origin, ImageLandmarks):
        return origin.n_bytes
    held, dtype = state["_made"], np.dtype(PRECISIONS[state["dtype"]])
    if not isinstance(held, DrawnWeights):
        return 0
    return len(held.names) * check_count("n_hidden", state["n_hidden"], 1) * dtype.itemsize


def _with_made(state: SavedState) -> Any:
    """Return the layer of a state; input weights that are left out are made again."""
    layer, held = HiddenLayer.__new__(HiddenLayer), state["_made"]
    vars(layer).update(state)
    if isinstance(layer.input_weights, ImageLandmarks):
        made = layer.input_weights.weights(layer.dtype)
        vars(layer).update(
            input_weights=made, _made=made, _columns=Columns(made.names).as_numbered()
        )
    if isinstance(held, DrawnWeights):
        none = np.empty((0, layer.n_hidden), dtype=PRECISIONS[layer.dtype])
        layer._made = layer._drawn(FixedWeights((), none, offsets=held.offsets), layer._columns)
        if _digest(layer._made.weights) != held.sha256:
            raise ValueError(
                f"it leaves out input weights, which numpy {np.__version__} draws otherwise than "
                f"numpy {held.numpy}, with which it was saved. Load it with numpy {held.numpy}"
            )
    return layer


def _layer_fits(layer: Any) -> bool:
    made = layer._made
    fits = (len(made.names), made.n_hidden) == (len(layer._columns), layer.n_hidden)
    if not made.names:
        # No number has been drawn, so no array bears the size out.
        fits = fits and is_small(layer.n_hidden)
    if layer.input_weights in DISTRIBUTIONS:
        # Checked before `settings_hold`, which draws n_hidden numbers for a layer with a bias.
        fits = fits and (made.offsets is None) == (layer.bias is False)
    return bool(fits and settings_hold(layer))


@savable(_layer_fits, take=_without_made, make=_with_made, computed=_left_out_bytes)
@dataclass(eq=False, repr=False)
class HiddenLayer(FixedTransformer):
    """Expand features into hidden activations g(x W_in) with fixed input weights W_in.

    This is stage 2 of the paper before its linear layer. The input weights are never learnt. Random
    input weights are drawn feature by feature from the seed and the feature's name, so that a
    feature that appears later changes no other weights. An absent feature counts as 0.

    Parameters
    ----------
    n_hidden : int
        Number M of hidden units.
    input_weights : "gaussian", "uniform", "bipolar", "difference" or "centred-difference"
        Kind of the input weights. "gaussian" draws from the standard normal distribution, "uniform"
        from [-1, 1], and "bipolar" -1 or 1. "difference" uses unit-length differences of two
        examples of distinct classes, which `from_examples` makes before use.
        "centred-difference" also removes the mean over features from every difference, and shifts
        the projection so that it is 0 midway between the two examples.
    activation : str
        Activation g of a projection u: "square" (u^2), "relu" (max(0, u)), "rectified-square"
        (max(0, u)^2), "logistic", "tanh", "softplus" (log(1 + e^u)), "absolute", "cube", "cosine"
        (cos u: with "gaussian" weights and a bias, random Fourier features), "gaussian" (e^(-u^2))
        or "linear".
    seed : int
        Seed of the random numbers.
    dtype : "float64" or "float32"
        Precision of weights and activations. float32 is about twice as fast, and its rounding
        depends on how many rows are transformed together.
    bias : bool
        Whether every unit has a random offset. With random input weights it is the weight of a
        constant feature 1. With differences it is gaussian, with the standard deviation of the
        unit's projections of the examples, and is fixed together with the differences.
    prefix : str
        Prefix of the output names: ``"u_"`` gives ``u_h0``, ``u_h1``, …

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these, or input weights made before do not fit the others.

    Notes
    -----
    For n rows of L features, in float64:

    ===========================================  ==========  =========================
    input weights                                operations  bytes
    ===========================================  ==========  =========================
    random                                       2 n L M     8 L M
    differences of m examples, m well below M    2 n L m     8 L m, and a few per unit
    ===========================================  ==========  =========================

    A sample of numbers gives {"h0": …, "h1": …}, with the names of the columns that frames get. A
    sample with an array gives {"h": array}. Arrays give arrays.

    In a TransformerUnion, all layers but one need a `prefix`, because every layer calls its outputs
    "h0", "h1", ….

    Features in different units need a common scale: no ridge can undo the effect of a large feature
    on every hidden unit. `from_examples` standardises them; without examples, put river's
    StandardScaler in front. With "logistic", sums of many features saturate unless the features
    are small. An even activation such as "square" needs a bias, or features that are not centred,
    to distinguish signs.

    Examples
    --------
    >>> layer = HiddenLayer(n_hidden=2, input_weights="bipolar", activation="square", bias=False)
    >>> layer.transform_one({"a": 3.0})
    {'h0': 9.0, 'h1': 9.0}
    >>> layer.transform_many([{"a": 1.0}, {"b": 0.0}])
    [{'h0': 1.0, 'h1': 1.0}, {'h0': 0.0, 'h1': 0.0}]
    """

    n_hidden: int = 300
    input_weights: str | InputWeights = "gaussian"
    activation: str = "relu"
    seed: int = 0
    dtype: str = "float64"
    bias: bool = True
    prefix: str = ""

    # The last known row and its output: a pipeline transforms a row to predict and to learn it.
    # It has no annotation, which would make it a setting.
    _last = cast("tuple[Any, dict[Any, Any]] | None", None)

    __deepcopy__, __getstate__, __setstate__ = locked_deepcopy, locked_state, unpacked_state

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved."""
        return {name: value for name, value in vars(self).items() if name != "_last"}

    def __post_init__(self) -> None:
        check_count("n_hidden", self.n_hidden, 1)
        check_units(self.n_hidden, 1)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_flag("bias", self.bias)
        check_common_settings(self)
        given = self.input_weights
        if not isinstance(given, InputWeights):
            check_choice("input_weights", given, [*DISTRIBUTIONS, *DIFFERENCE_KINDS])
            # Random input weights get a row for every new column.
            drawn = self.bias and given in DISTRIBUTIONS
            offsets = draw_row(given, self.seed, BIAS_KEY, self.n_hidden) if drawn else None
            given = FixedWeights((), np.empty((0, self.n_hidden)), offsets=offsets)
        elif given.n_hidden != self.n_hidden:
            problem, own = f"n_hidden={self.n_hidden} does not fit {given}", given.n_hidden
            raise ValueError(f"{problem}, expected {own}. Pass n_hidden={own}.")
        self._lock, self._columns = Lock(), Columns(given.names)
        if given.origin is not None:  # The columns are those of image features.
            self._columns = self._columns.as_numbered()
        self._made = given.astype(PRECISIONS[self.dtype])

    @classmethod
    @matched_by_position
    def from_examples(
        cls,
        X: Any,
        y: Any = None,
        n_hidden: int = 300,
        input_weights: str | None = None,
        *,
        standardize: bool = True,
        **settings: Any,
    ) -> Self:
        """Return a layer whose feature scales and class differences are fixed by examples.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Examples in the form of the rows to transform; a few hundred are enough.
        y : array, series or list of n_rows labels, optional
            Labels of at least two classes. Only differences need them.
        n_hidden, input_weights
            Settings of the class. By default, `input_weights` is "difference" if `y` is given, and
            "gaussian" otherwise.
        standardize : bool
            Whether every feature x is standardised, (x - mean) / standard deviation, with the
            moments of the examples, where absent features count as 0. Pass False for pixels and
            other features in the same unit, where small features matter less.
        **settings
            Other settings of the class: `activation`, `seed`, `dtype`, `bias` and `prefix`.

        Returns
        -------
        HiddenLayer
            A layer with fixed input weights, in which features that are not in `X`, or are constant
            there, have no weight. Without standardising, random input weights are not fixed.

        Raises
        ------
        TypeError, ValueError
            If the examples cannot be read, are all of one class, or lack the labels that
            differences need.

        Notes
        -----
        The scales are part of the input weights and offsets. Nothing else is stored, and, unlike
        behind a scaler that learns, nothing changes during the stream.

        Measured accuracy with 300 units, half the rows learnt and 200 of them examples:

        ===========================  ================  ============
        data                         not standardised  standardised
        ===========================  ================  ============
        image segments               90.7%             95.0%
        breast cancer                93.6%             96.3%
        WISDM                        73.8%             77.1%
        Bananas                      90.1%             90.0%
        MNIST, pixels of 28 x 28     88.2%             85.1%
        ===========================  ================  ============

        Examples
        --------
        >>> X = np.array([[1.0, 5e6], [2.0, 3e6], [3.0, 4e6]])
        >>> HiddenLayer.from_examples(X, n_hidden=4).transform_many(X).shape
        (3, 4)
        >>> HiddenLayer.from_examples(X, ["a", "b", "b"], n_hidden=4).input_weights
        FixedWeights(2 features, 4 hidden units)
        """
        if input_weights is None:
            input_weights = "gaussian" if y is None else "difference"
        layer = cls(n_hidden, input_weights, **settings)
        dtype = PRECISIONS[layer.dtype]
        check_flag("standardize", standardize)
        batch = read_batch(X)
        check_not_empty("X", len(batch))
        labels = None if y is None else read_labels(y, len(batch))
        if layer.is_fixed and not standardize:
            return layer
        if isinstance(input_weights, InputWeights):
            problem = f"standardize=True with input_weights={input_weights}, expected a name"
            raise ValueError(f'{problem}. Pass a name such as "gaussian", or standardize=False.')
        columns = layer._columns.extended(batch.layouts)
        features = columns.place(batch.layouts, batch.values)
        scaling = standardization(features) if standardize else None
        made: Any = layer._made
        if layer.is_fixed:
            made = layer._drawn(made, columns)
        else:
            if scaling is not None:
                features = (features - scaling[0]) * scaling[1]
            made = layer._differences(columns.names, features.astype(dtype, copy=False), labels)
        if scaling is not None:
            made = standardized(made, *scaling, dtype)
            if not made.is_finite:
                found = f"standard deviations down to {1.0 / scaling[1].max():g}"
                problem = f"Input weights for {found} overflow {layer.dtype}"
                raise ValueError(f"{problem}, expected finite input weights. Rescale X.")
        return cls(n_hidden, made, **settings)

    @property
    def is_fixed(self) -> bool:
        """Whether the layer can transform: False only for differences without examples."""
        return self.input_weights not in DIFFERENCE_KINDS

    def check_width(self, n_features: int) -> None:
        """Raise ValueError unless the layer fits rows of so many features.

        Raises
        ------
        ValueError
            If the input weights were made from examples with another number of features.
        """
        made = self.input_weights
        if isinstance(made, InputWeights) and len(made.names) != n_features:
            problem = f"There are {n_features} features, expected {len(made.names)}"
            remedy = "Make new input weights with HiddenLayer.from_examples."
            raise ValueError(f"{problem} as in the examples of the input weights. {remedy}")

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the activations of one sample: {"h0": …} for numbers, {"h": array} for arrays."""
        with self._lock:
            row = self._columns.row(x)
            if row is not None:
                as_array = len(x) == 1 and isinstance(next(iter(x.values())), np.ndarray)
                key = as_array, row.tobytes()
                if self._last is None or self._last[0] != key:
                    found = self._activated(self._made, row[None])[0]
                    # An activation that is not finite has no finite square.
                    fits = found.dot(found) < np.inf
                    self._last = (key, output_row(found, as_array, self.prefix)) if fits else None
                if self._last is not None:
                    output = self._last[1]
                    if as_array:
                        return {name: values.copy() for name, values in output.items()}
                    return output.copy()
            batch = read_sample(x)
            activations = self._activate(batch.layouts, batch.values)[0]
            self._columns.note(batch.layouts[0])
        return output_row(activations, holds_array(batch.layouts[0]), self.prefix)

    def _take_form(self, layout: Layout) -> None:
        """Note whether rows that are transformed one by one, as dicts, come from a plain array."""
        vars(self).update(_columns=self._columns.in_form(layout))

    def transform_many(self, X: Any) -> Any:
        """Return the activations of a mini-batch, in the kind of `X`."""
        batch = read_batch(X)
        as_array = holds_array(batch.layouts[-1])
        activations = self._activate(batch.layouts, batch.values)
        return output_table(batch.source, activations, as_array, self.prefix)

    def activations_of(self, features: Matrix) -> Matrix:
        """Return the activations (n, n_hidden) of the features of images (n, n_features)."""
        self.check_width(features.shape[1])
        return self._activate((range(features.shape[1]),), features)

    def _activate(self, layouts: Sequence[Layout], values: Matrix) -> Matrix:
        if not self.is_fixed:
            raise not_made(f"input_weights={self.input_weights!r} is", "HiddenLayer")
        if not len(values):
            return np.zeros((0, self.n_hidden), PRECISIONS[self.dtype])
        with self._lock:
            columns, made = self._columns, self._made
            if isinstance(made, FixedWeights) and isinstance(self.input_weights, str):
                columns = self._columns.extended(layouts)
                if len(columns) > len(made.names):
                    made = self._drawn(made, columns)
            features = columns.place(layouts, values)
            activations = self._activated(made, features)
            # Minimum and maximum are NaN if any activation is.
            if not np.isfinite((activations.min(), activations.max())).all():
                sizes = np.abs(values).max(axis=0)
                name = [*names_of(layouts[-1])][int(sizes.argmax())]
                problem = f"activation={self.activation!r} overflows {self.dtype} for a feature"
                expected = "expected finite activations. Rescale the features."
                raise ValueError(f"{problem} {name!r} as large as {sizes.max():g}, {expected}")
            # One call of the interpreter, which no interrupt divides.
            vars(self).update(_columns=columns, _made=made)
            return activations

    # Overflow inside is allowed, as in e^(-u^2): only the activations must be finite.
    @ignoring("over", "invalid")
    def _activated(self, made: InputWeights, features: Matrix) -> Matrix:
        """Return the activations of features in the columns of input weights."""
        projections = made.project(features.astype(PRECISIONS[self.dtype], copy=False))
        return ACTIVATIONS[self.activation](projections, out=projections)

    def from_images(
        self,
        preprocessing: ImagePreprocessing,
        features: ConvolutionalFeatures,
        images: Matrix,
        labels: Sequence[Hashable],
    ) -> HiddenLayer:
        """Return the layer with differences of the features of images as input weights."""
        settings = self.n_hidden, self.seed, plain_value(self.input_weights)
        landmarks = ImageLandmarks.draw(preprocessing, features, images, labels, *settings)
        made = landmarks.weights(self.dtype)
        if self.bias:
            offsets = self._bias(made, landmarks.rows(some_of(images)))
            made = replace(made.shifted(offsets), origin=replace(landmarks, offsets=offsets))
        return self.clone({"input_weights": made})

    def _differences(
        self, names: tuple[Name, ...], features: Matrix, labels: Sequence[Hashable] | None
    ) -> InputWeights:
        """Return differences of examples of distinct classes as input weights."""
        kind = plain_value(self.input_weights)
        if labels is None:
            problem = f"input_weights={kind!r} without y, expected labels of the examples"
            raise ValueError(f"{problem}. Pass y, or random input weights.")
        rows = draw_pairs(labels, self.n_hidden, self.seed)
        landmarks = landmark_differences(names, features, *rows, kind.startswith("centred"))
        made = landmarks.in_cheaper_form()
        return made.shifted(self._bias(made, some_of(features))) if self.bias else made

    def _bias(self, made: InputWeights, features: Matrix) -> Matrix:
        """Return a random offset for every unit, of the spread of its projections."""
        spread = made.project(features.astype(PRECISIONS[self.dtype], copy=False)).std(axis=0)
        offsets = spread * draw_row("gaussian", self.seed, BIAS_KEY, self.n_hidden)
        return np.asarray(offsets, PRECISIONS[self.dtype])

    def _drawn(self, made: FixedWeights, columns: Columns) -> FixedWeights:
        """Return the random input weights extended by a row for every new name."""
        kind, n_made, names = plain_value(self.input_weights), len(made.names), columns.names
        check_units(self.n_hidden, len(names))
        weights = np.empty((len(names), self.n_hidden), dtype=made.weights.dtype)
        weights[:n_made] = made.weights
        for row, name in zip(weights[n_made:], names[n_made:], strict=True):
            row[:] = draw_row(kind, self.seed, name_text(columns.key_of(name)), self.n_hidden)
        return FixedWeights(names, weights, offsets=made.offsets)
