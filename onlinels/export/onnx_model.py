"""`onnx`: a model as an ONNX file, for answers outside of Python."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, partialmethod
from importlib.util import find_spec
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, Matrix, check_flag, check_path, ignoring, refusal
from onlinels.core.constants import SPREAD_PROBABILITY
from onlinels.export.predictor import ClassPredictor, Parts, check_seen, labels_of, parts_of
from onlinels.features.convolution import (
    MAX_ROUNDING_ERRORS,
    N_SQUARE_ROOTS,
    NORMALIZATIONS,
    ConvolutionalFeatures,
    grouped,
)
from onlinels.features.filters import for_channels
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import IMAGE, WINDOW, Kind, Shape, check_image_shape
from onlinels.features.input_weights import FixedWeights
from onlinels.features.minirocket import KERNEL_RADIUS, MiniRocketFeatures, minirocket_kernels
from onlinels.features.preprocessing import GREY_WEIGHTS, FixedZCA, ImagePreprocessing
from onlinels.features.transformer import not_made
from onlinels.rows.batch import OUTPUT_NAME, Name
from onlinels.saving import files

# -- the graph -------------------------------------------------------------------------------------

OPSET = 17
"""Version of the operators: that of ONNX 1.12 (2022), which every later runtime reads."""

IR_VERSION = 8
"""Version of the file format, that of ONNX 1.12 too."""


@ignoring("over")
def single(values: Matrix, what: str) -> Matrix:
    """Return numbers in single precision; raise ValueError if one is too large for it."""
    rounded: Matrix = values.astype(np.float32)
    if (np.isfinite(values) & ~np.isfinite(rounded)).any():
        largest = np.abs(values[np.isfinite(values)]).max()
        found, remedy = f"as large as {largest:g} do not fit", "Rescale the features or targets."
        raise refusal(what, found, "numbers of float32", remedy)
    return rounded


def add_node(
    graph: Any, operator: str, *inputs: Any, n_outputs: int = 1, **attributes: Any
) -> GraphValue:
    """Add a node to a graph; return its first output.

    The inputs are values, or arrays, floats (as float32) and shapes, which become constants.
    """
    from onnx import helper, numpy_helper

    names = []
    for given in inputs:
        if isinstance(given, GraphValue):
            names.append(given.name)
        else:
            array = np.asarray(given, np.float32 if isinstance(given, float) else None)
            names.append(f"c{len(graph.initializer)}")
            graph.initializer.append(numpy_helper.from_array(array, names[-1]))
    output = f"v{len(graph.node)}"
    outputs = [output, *(f"{output}_{k}" for k in range(1, n_outputs))]
    graph.node.append(helper.make_node(operator, names, outputs, **attributes))
    return GraphValue(graph, output)


def described(name: str, dtype: Any, *shape: int) -> Any:
    """Return the description of an input or output, a batch of arrays of a shape."""
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, ["batch", *shape])


def write_graph(graph: Any, path: Path, metadata: Mapping[str, str]) -> None:
    """Check a graph and write it to a file, whole or not at all."""
    from onnx import checker, helper

    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="onlinels",
        producer_version=metadata["onlinels_version"],
    )
    helper.set_model_props(model, dict(metadata))
    checker.check_model(model, full_check=True)
    with files.replacing(path) as file:
        file.write(model.SerializeToString())


class GraphValue:
    """A value in a graph. Its methods and arithmetic add the nodes that compute other values."""

    def __init__(self, graph: Any, name: str) -> None:
        self.graph, self.name = graph, name

    def then(self, operator: str, *others: Any, **attributes: Any) -> GraphValue:
        """Return the output of an operator, whose first input is this value."""
        return add_node(self.graph, operator, self, *others, **attributes)

    def output(self, name: str, dtype: Any, *shape: int) -> None:
        """Make the value an output, a batch of arrays of a shape."""
        from onnx import helper

        self.graph.node.append(helper.make_node("Identity", [self.name], [name]))
        self.graph.output.append(described(name, dtype, *shape))

    __add__: partialmethod[GraphValue] = partialmethod(then, "Add")
    __sub__: partialmethod[GraphValue] = partialmethod(then, "Sub")
    __mul__: partialmethod[GraphValue] = partialmethod(then, "Mul")
    __truediv__: partialmethod[GraphValue] = partialmethod(then, "Div")
    __matmul__: partialmethod[GraphValue] = partialmethod(then, "MatMul")

    def cast(self, dtype: Any) -> GraphValue:
        """Return the value in another dtype, float32 or float64."""
        return self.then("Cast", to=11 if dtype == np.float64 else 1)


# -- values, and what images and windows become on their way to columns ----------------------------


class TableValue(NamedTuple):
    """Columns (batch, n_columns) in the graph.

    Attributes
    ----------
    value : GraphValue
    names : sequence of n_columns tuples
        All names of the feature in every column.
    dtype : float32 or float64
    is_exact : bool
        Whether the values are not rounded results of float32.
    """

    value: GraphValue
    names: Sequence[tuple[Name, ...]]
    dtype: Any = np.float32
    is_exact: bool = True

    def arranged(self, names: Sequence[Name], rows: Floats) -> Floats:
        """Return rows (n_names, ...) of a model's features as rows for these columns."""
        places = {name: k for k, each in enumerate(self.names) for name in each}
        unknown = next((name for name in names if name not in places), None)
        if unknown is not None:
            found = f"has learnt the feature {unknown!r}, which no step before it makes"
            remedy = "Train on the same features throughout, and pass their shape as input_shape."
            raise refusal("The model", found, "features of the graph", remedy)
        # A column that the model does not know counts as 0.
        arranged = np.zeros((len(self.names), *rows.shape[1:]), rows.dtype)
        arranged[[places[name] for name in names]] = rows
        return arranged

    def as_table(self) -> TableValue:
        """Return these columns."""
        return self


def numbered_outputs(step: Any, value: GraphValue, numbers: Iterable[int]) -> TableValue:
    """Return the outputs of a transformer that have these numbers, by all their names."""
    name = step.prefix + OUTPUT_NAME
    # Columns of plain arrays have no prefix.
    return TableValue(value, [(f"{name}{k}", (name, k), k) for k in numbers], is_exact=False)


class ImagesValue(NamedTuple):
    """Images (batch, n_channels, height, width) in the graph; windows have height 1.

    Attributes
    ----------
    value : GraphValue
    shape : (height, width, n_channels)
    kind : IMAGE or WINDOW
    """

    value: GraphValue
    shape: Shape
    kind: Kind

    def as_table(self) -> TableValue:
        """Return a window or image as the columns that a dict with its array has."""
        n_values = prod(self.shape)
        flat = self.value.then("Transpose", perm=[0, 2, 3, 1]).then("Reshape", [-1, n_values])
        return TableValue(flat, [((self.kind.name, k),) for k in range(n_values)])


def preprocessed(images: ImagesValue, step: ImagePreprocessing) -> ImagesValue:
    """Return images downsampled, scaled, with a grey channel and whitened."""
    if not step.is_fixed:
        raise not_made(f"whitening={step.whitening!r} is", "ImagePreprocessing")
    height, width, n_channels = shape = step.output_shape(images.shape)
    value, size = images.value, [step.downsample] * 2
    if step.downsample > 1:
        value = value.then("AveragePool", kernel_shape=size, strides=size)
    if step.scale is not None:
        value = value / float(step.scale)
    if step.grey_channel:
        weights = np.array(GREY_WEIGHTS, np.float32).reshape(1, 3, 1, 1)
        value = value.then("Concat", value.then("Conv", weights), axis=1)
    if isinstance(step.whitening, FixedZCA):
        means = single(step.whitening.means, "Means of pixels")[:, None]
        matrices = single(step.whitening.matrices, "Whitening matrices")
        # One product of matrices for each channel.
        flat = value.then("Reshape", [-1, n_channels, height * width])
        whitened = (flat.then("Transpose", perm=[1, 0, 2]) - means) @ matrices
        value = whitened.then("Transpose", perm=[1, 0, 2])
        value = value.then("Reshape", [-1, n_channels, height, width])
    return images._replace(value=value, shape=shape)


def filtered(images: ImagesValue, step: ConvolutionalFeatures) -> TableValue:
    """Return convolutional features: responses, powers, pooling and normalisation."""
    height, width, n_channels = images.shape
    filters = grouped(for_channels(step.bank, n_channels), step.channels)
    n_filters, side, _, n_groups, _ = filters.shape
    n_features, divisor = step.n_features(images.shape), NORMALIZATIONS[step.normalize]
    rows, columns = (
        single(step._pooling_matrix(size, side, np.float64), "Pooling weights")
        for size in (height, width)
    )
    # As rows of values, turned by 180 degrees as a convolution turns them: (n_groups, n_filters,
    # channels of a group, height, width).
    turned = np.moveaxis(filters[:, ::-1, ::-1], (3, 4), (0, 2))
    kernels = single(turned.reshape(n_groups * n_filters, -1, side, side), "Filters")
    value = images.value.then("Conv", kernels, group=n_groups, pads=[step.padding] * 4)
    value = value.then("Reshape", [-1, n_groups, n_filters, rows.shape[1], columns.shape[1]])
    value = _power(value, step.before_pooling) @ np.ascontiguousarray(columns.T)
    value = _power(add_node(value.graph, "MatMul", rows, value), step.after_pooling)
    if divisor is not None:
        n_maps = n_groups * n_filters
        value = value.then("Reshape", [-1, n_maps, n_features // n_maps])
        value = _normalized(value, _faintest(images.value, filters, step._exponent), divisor)
    return numbered_outputs(step, value.then("Reshape", [-1, n_features]), range(n_features))


def _power(value: GraphValue, exponent: float) -> GraphValue:
    if exponent == 2.0:
        return value * value
    value = value.then("Abs")
    if exponent not in N_SQUARE_ROOTS:
        return value.then("Pow", float(exponent))
    for _ in range(N_SQUARE_ROOTS[exponent]):
        value = value.then("Sqrt")
    return value


def _faintest(value: GraphValue, filters: Floats, exponent: float) -> GraphValue:
    """Return how large maps (batch, n_maps, 1) may be by rounding, as `rounding_bounds` does."""
    n_filters, *_, n_groups, n_channels = filters.shape
    strengths = single(np.abs(filters).sum(axis=(1, 2)).transpose(1, 2, 0), "Filters")
    brightest = value.then("Abs").then("ReduceMax", axes=[2, 3], keepdims=0)
    # (batch, n_groups, 1, n_channels) times (n_groups, n_channels, n_filters).
    sums = brightest.then("Reshape", [-1, n_groups, 1, n_channels]) @ strengths
    errors = (sums * float(MAX_ROUNDING_ERRORS * np.finfo(np.float32).eps)).then("Pow", exponent)
    return errors.then("Reshape", [-1, n_groups * n_filters, 1])


def _normalized(maps: GraphValue, faintest: GraphValue, by: str) -> GraphValue:
    """Return maps (batch, n_maps, positions) divided by their sum, or images by their length."""
    is_clear = maps.then("ReduceMax", axes=[2]).then("Greater", faintest)
    maps = is_clear.then("Where", maps, 0.0)
    sizes = maps.then("ReduceSum", [2]) if by == "map" else maps.then("ReduceL2", axes=[1, 2])
    return maps / sizes.then("Equal", 0.0).then("Where", 1.0, sizes)


def rocketed(images: ImagesValue, step: MiniRocketFeatures) -> TableValue:
    """Return the shares of samples at which responses exceed each bias."""
    kernels = step.kernels
    if kernels is None:
        raise not_made("The biases are", "MiniRocketFeatures")
    expected = (1, kernels.length, kernels.channels.shape[2])
    if images.shape != expected:
        found, wanted = f"have shape {images.shape[1:]}", f"{expected[1:]} as the examples"
        raise refusal("Windows", found, wanted, "Leave input_shape out.")
    shares, order = list[GraphValue](), list[int]()
    for number, dilation in enumerate(kernels.dilations.tolist()):
        places, biases = kernels.of_dilation(number)
        weights = kernels.channels[number][:, :, None] * minirocket_kernels()[:, None]
        features = np.arange(places.start, places.stop).reshape(biases.shape)
        limits = single(biases, "Biases")
        if step.dtype == "float64":
            # Rounded down: a response in float32 exceeds this if and only if it exceeds the bias.
            limits = np.where(limits > biases, np.nextafter(limits, np.float32(-np.inf)), limits)
        # Every second kernel sees zeros around the window, the others only what lies inside.
        for first, edge in ((number % 2, KERNEL_RADIUS * dilation), (1 - number % 2, 0)):
            some = weights[first::2, :, None].astype(np.float32)
            pads = [0, edge, 0, edge]
            responses = images.value.then("Conv", some, dilations=[1, dilation], pads=pads)
            over = responses.then("Greater", limits[first::2, :, None]).cast(np.float32)
            shares.append(over.then("ReduceMean", axes=[3], keepdims=0).then("Flatten"))
            order += features[first::2].ravel().tolist()
    return numbered_outputs(step, shares[0].then("Concat", *shares[1:], axis=1), order)


# -- the model -------------------------------------------------------------------------------------


def onnx(
    model: Any,
    path: str | PathLike[str],
    *,
    input_shape: tuple[int, ...] | None = None,
    store_images: bool = False,
) -> None:
    """Write a trained model to an ONNX file, which predicts without Python.

    Parameters
    ----------
    model : trained model
        LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor,
        ShallowConvClassifier, WindowedClassifier, CalibratedClassifier or DriftAwareClassifier, or
        a river pipeline that ends in one, whose other steps are StandardScaler, HiddenLayer,
        ImagePreprocessing, ConvolutionalFeatures or MiniRocketFeatures. The model
        does not change.
    path : str or PathLike
        Path of the file. An existing file is replaced as a whole.
    input_shape : tuple of int, optional
        Shape of one image or window, if no step of a pipeline has an `image_shape` or a
        `window_shape`.
    store_images : bool
        Whether the file of a ShallowConvClassifier holds the images whose features its input
        weights are differences of, in place of these features. Files get 1.8 to 50 times as small,
        least if images are whitened. onnxruntime computes the features when it loads the file, and
        needs the memory of all filter responses meanwhile, often 1 GB; other runtimes may compute
        them for every prediction.

    Raises
    ------
    ImportError
        If onnx is not installed: ``pip install 'onlinels[onnx]'``.
    ValueError
        If the model has learnt nothing, or if a part cannot be exported: other transformers, a
        network that still predicts from pixels, labels of mixed types, or weights outside the range
        of float32: the message names the part. Or if the weights take 2 GiB or more, the limit of
        an ONNX file. No file is written then.
    OSError
        If the file cannot be written. An existing file at `path` stays unchanged.

    Notes
    -----
    Names, types and shapes of inputs and outputs:

    ===============  ======================================  ==================================
    name             type and shape                          order of the columns
    ===============  ======================================  ==================================
    X                float32 (batch, n_features)             metadata "feature_names"; a missing
                                                             feature is 0
    X                uint8 or float32 (batch, height,        images; no rows of pixels
                     width[, n_channels])
    X                float32 (batch, length[, n_channels])   windows; metadata "channels", of a
                                                             WindowedClassifier
    label            int64, string, bool or double (batch,)
    probabilities,   float32 (batch, n_classes)              metadata "classes"
    scores
    values           float32 (batch, n_targets)              metadata "targets", of regressors
    ===============  ======================================  ==================================

    Images are uint8 if a ShallowConvClassifier has learnt uint8 images and made its input weights
    from them; otherwise they are float32. Lists in the metadata are JSON. For a WindowedClassifier,
    the caller must store the last `window` samples and pass them as X. A row with NaN has NaN as
    scores and probabilities, and the label of the first class.

    The file uses version 17 of the operators and computes in float32. Scores are (x - m) W + b
    about the mean m of the features, so a large mean costs no further digits once the rows are
    float32. Converting a row to float32 costs them: a feature of mean m and standard deviation s
    keeps 7 - log10(m / s) digits. Therefore subtract an origin before learning and before the
    conversion if means are large. For rows that float32 holds exactly, scores differ from the
    scores of the model by about 1e-7 of the sum of the absolute products. StandardScaler and a
    HiddenLayer of dtype "float64" behind at most a scaler project in float64, with 8 bytes per
    weight. A layer of dtype "float32" takes half of this, with the errors of float32.

    Features of images are float32. The fourth root of a faint response has half as many digits. The
    response of a filter to uniform brightness counts as 0 below 2e-6 of the brightness instead of
    4e-15. MiniRocket's features are shares of comparisons, so one rounded comparison changes a
    share by one sample. Writing a file takes the time and the memory of one solution.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np
    >>> from onlinels import LeastSquaresClassifier, export
    >>> model = LeastSquaresClassifier(ridge=1.0)
    >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
    >>> export.onnx(model, pathlib.Path(tempfile.mkdtemp()) / "model.onnx")
    """
    if find_spec("onnx") is None:
        raise ImportError("onnx is not installed. Run: pip install 'onlinels[onnx]'")
    from onnx import GraphProto

    path, parts, graph = check_path("path", path), parts_of(model), GraphProto(name="onlinels")
    predictor, value, lists = parts.predictor, _input(graph, parts, input_shape), dict[str, Any]()
    if isinstance(value, TableValue):
        lists["feature_names"] = [names[0] for names in value.names]
    if parts.channels:
        lists["channels"] = parts.channels
    check_flag("store_images", store_images)
    for name, step in parts.steps:
        value = _step(value, name, step, store_images)
    scores = _scores(value.as_table(), parts)
    if isinstance(predictor, ClassPredictor):
        _classify(scores, predictor)
        lists["classes"] = predictor.outputs
    else:
        lists["targets"] = targets = predictor.outputs or ("y",)
        scores.output("values", np.float32, len(targets))
    metadata = {name: json.dumps(each, default=str) for name, each in lists.items()}
    version = sys.modules["onlinels"].__version__
    write_graph(
        graph, path, metadata | {"onlinels_version": version, "model": type(model).__name__}
    )


def _input(graph: Any, parts: Parts, input_shape: Shape | None) -> TableValue | ImagesValue:
    """Return the value of the input: an image, a window, or columns."""
    first = parts.steps[0][1] if parts.steps else None
    takes_images = isinstance(first, tuple(IMAGE_STEPS))
    if not takes_images and parts.shape is None:
        if input_shape is not None:
            given, found = f"input_shape={input_shape!r}", "came with a model of named columns"
            raise refusal(given, found, "None", "Leave it out.")
        layers = _layers(parts)
        names = layers[0]._made.names if layers else parts.predictor.feature_names
        graph.input.append(described("X", np.float32, len(names)))
        return TableValue(GraphValue(graph, "X"), [(name,) for name in names])
    shape = input_shape or parts.shape or _shape_of(first)
    # ImagePreprocessing has no kind, and without a step for images the model is windowed.
    kind = getattr(first, "kind", IMAGE) if takes_images else WINDOW
    check_image_shape("input_shape", shape, kind)
    full = (*shape, 1)[: kind.n_axes + 1]
    sides = (1, *full)[-3:]
    dtypes = [step._made.origin.dtype for step in _layers(parts) if step._made.origin is not None]
    dtype = np.uint8 if dtypes == ["uint8"] else np.float32
    graph.input.append(described("X", dtype, *(full if full[-1] > 1 else full[:-1])))
    by_pixel = GraphValue(graph, "X").cast(np.float32).then("Reshape", [-1, *sides])
    return ImagesValue(by_pixel.then("Transpose", perm=[0, 3, 1, 2]), sides, kind)


def _layers(parts: Parts) -> list[HiddenLayer]:
    return [step for _, step in parts.steps if isinstance(step, HiddenLayer)]


def _shape_of(step: Any) -> Shape:
    """Return the shape of one image or window as a step knows it; raise if it does not."""
    kernels = getattr(step, "kernels", None)
    if kernels is not None:
        return kernels.length, kernels.channels.shape[2]
    shape: Shape | None = getattr(step, "image_shape", getattr(step, "window_shape", None))
    if shape is None:
        problem = f"The shape of what {type(step).__name__} takes is not known"
        raise ValueError(f"{problem}. Pass input_shape to onlinels.export.onnx, such as (28, 28).")
    return shape


IMAGE_STEPS: dict[type, Callable[..., Any]] = {
    ImagePreprocessing: preprocessed,
    ConvolutionalFeatures: filtered,
    MiniRocketFeatures: rocketed,
}
"""What computes the values after a transformer of images or windows."""


def _step(
    value: TableValue | ImagesValue, name: str, step: Any, store_images: bool
) -> TableValue | ImagesValue:
    """Return the value after a transformer; raise ValueError if it cannot be exported."""
    # Imported when it is used: river.preprocessing takes twice as long as all of this package.
    from river.preprocessing import StandardScaler

    hidden = partial(_hidden, store_images=store_images)
    makers = IMAGE_STEPS | {HiddenLayer: hidden, StandardScaler: _standardized}
    if type(step) not in makers:
        kind = type(step).__name__
        found = f"is of type {kind}, which ONNX export does not know"
        known = "one of " + ", ".join(each.__name__ for each in makers)
        remedy = "Export the last step alone, model[name], and apply the steps before it yourself."
        raise refusal(f"The step {name!r}", found, known, remedy)
    if type(step) not in IMAGE_STEPS:
        value = value.as_table()
    elif isinstance(value, TableValue):
        found, remedy = "comes after a table", "Put it first in the pipeline."
        raise refusal(f"The step {name!r}", found, "images or windows before it", remedy)
    after: TableValue | ImagesValue = makers[type(step)](value, step)
    return after


def _standardized(table: TableValue, scaler: Any) -> TableValue:
    """Return columns less their mean, divided by their deviation, in double precision."""

    def numbers(statistics: Any) -> Floats:
        found = [statistics.get(names[0], 0.0) for names in table.names]
        return np.array([float(each.get() if hasattr(each, "get") else each) for each in found])

    value = table.value.cast(np.float64) - numbers(scaler.means)
    if scaler.with_std:
        variances = numbers(scaler.vars)
        varies = variances > 0.0
        value = value * (varies / np.sqrt(np.where(varies, variances, 1.0)))
    return table._replace(value=value, dtype=np.float64)


ACTIVATIONS: dict[str, Callable[[GraphValue], GraphValue]] = {
    "square": lambda u: u * u,
    "relu": lambda u: u.then("Relu"),
    "rectified-square": lambda u: u.then("Relu") * u,
    "logistic": lambda u: u.then("Sigmoid"),
    "tanh": lambda u: u.then("Tanh"),
    "softplus": lambda u: u.then("Softplus"),
    "absolute": lambda u: u.then("Abs"),
    "cube": lambda u: u * u * u,
    "cosine": lambda u: u.then("Cos"),
    "gaussian": lambda u: (u * u).then("Neg").then("Exp"),
    "linear": lambda u: u,
}


def _matrix_of_images(graph: Any, made: Any) -> GraphValue:
    """Return the landmarks, or the weights, of input weights as they follow from images."""
    origin = made.origin
    images = add_node(graph, "Cast", np.moveaxis(origin.images, 3, 1).copy(), to=1)
    value = ImagesValue(images, origin.images.shape[1:], IMAGE)
    rows = filtered(preprocessed(value, origin.preprocessing), origin.features).value
    rows = rows - rows.then("ReduceMean", axes=[0])
    if origin.kind.startswith("centred"):
        rows = rows - rows.then("ReduceMean", axes=[1])
    if isinstance(made, FixedWeights):
        first, second = (rows.then("Gather", k, axis=0) for k in (origin.first, origin.second))
        rows = first - second
        lengths = rows.then("ReduceL2", axes=[1])
        rows = rows / lengths.then("Equal", 0.0).then("Where", 1.0, lengths)
    return rows.then("Transpose", perm=[1, 0])


def _hidden(table: TableValue, layer: HiddenLayer, store_images: bool) -> TableValue:
    """Return hidden activations; projections are in the precision of the layer."""
    made: Any = layer._made
    # What is single precision already gains nothing from wider weights.
    is_double = layer.dtype == "float64" and table.is_exact

    def rounded(values: Any) -> Any:
        return np.asarray(values, np.float64) if is_double else single(values, "Input weights")

    x = table.value.cast(np.float64 if is_double else np.float32)
    is_formed = isinstance(made, FixedWeights)
    if store_images and made.origin is not None:
        matrix = _matrix_of_images(table.value.graph, made)
    else:
        values = made.weights if is_formed else made.landmarks.T
        matrix = rounded(table.arranged(made.names, values))
    u = x @ matrix
    if not is_formed:
        u = u + rounded(made.landmark_offsets)
        first, second = (u.then("Gather", k, axis=1) for k in (made.first, made.second))
        u = (first - second) * rounded(made.scales)
    if made.offsets is not None:
        u = u + rounded(made.offsets)
    activations = ACTIVATIONS[layer.activation](u.cast(np.float32))
    return numbered_outputs(layer, activations, range(layer.n_hidden))


def _scores(table: TableValue, parts: Parts) -> GraphValue:
    """Return the scores (batch, n_outputs): (x - m) W + b, about the mean of the features."""
    predictor = parts.predictor
    weights = table.arranged(predictor.feature_names, predictor.weights)
    centre = table.arranged(predictor.feature_names, parts.centre)
    if table.dtype == np.float32:
        centre = single(centre, "Means of features")
    intercept = predictor.intercept + centre.astype(np.float64) @ weights
    value = (table.value - centre if centre.any() else table.value).cast(np.float32)
    return value.then("Gemm", single(weights, "Output weights"), single(intercept, "Intercepts"))


def _classify(scores: GraphValue, predictor: ClassPredictor) -> None:
    """Add the outputs of a classifier: label, probabilities and scores."""
    labels = labels_of(predictor.outputs, "an ONNX file")
    check_seen(predictor, "an ONNX file")
    if predictor.softmax is None:
        probabilities = _projected(scores, len(labels))
    else:
        scale, share, least = predictor.softmax
        probabilities = (scores * scale).then("Softmax", axis=1) * share + least
    best = scores.then("ArgMax", axis=1, keepdims=0)
    add_node(scores.graph, "Gather", labels, best, axis=0).output("label", labels.dtype)
    probabilities.output("probabilities", np.float32, len(labels))
    scores.output("scores", np.float32, len(labels))


def _projected(scores: GraphValue, n_classes: int) -> GraphValue:
    """Return the nearest probabilities to scores (`onlinels.linear.scoring.probabilities_of`)."""
    # The threshold t for which max(s - t, 0) sums to 1 is the largest (s_1 + ... + s_k - 1) / k
    # for descending s (Duchi et al. 2008). Scores are relative to the highest.
    share = 1.0 - SPREAD_PROBABILITY
    relative = (scores - scores.then("ReduceMax", axes=[1])) / share
    descending = relative.then("TopK", [n_classes], axis=1, n_outputs=2)
    sums = descending.then("CumSum", 1)
    thresholds = (sums - 1.0) / np.arange(1, n_classes + 1, dtype=np.float32)
    shares = (relative - thresholds.then("ReduceMax", axes=[1])).then("Relu")
    return shares * share + SPREAD_PROBABILITY / n_classes
