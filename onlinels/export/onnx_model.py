"""`onnx`: a model as an ONNX file, for answers outside of Python."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import PRECISIONS, Floats, Matrix, check_path
from onlinels.export.predictor import ClassPredictor, Parts, labels_of, parts_of
from onlinels.features.convolution import (
    MAX_ROUNDING_ERRORS,
    N_SQUARE_ROOTS,
    NORMALIZATIONS,
    ConvolutionalFeatures,
    grouped,
)
from onlinels.features.filters import for_channels
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import IMAGE, WINDOW, Kind, Shape, check_image_shape, not_made
from onlinels.features.input_weights import FixedWeights, LandmarkWeights
from onlinels.features.minirocket import KERNEL_RADIUS, MiniRocketFeatures, minirocket_kernels
from onlinels.features.preprocessing import GREY_WEIGHTS, FixedZCA, ImagePreprocessing
from onlinels.linear.scoring import SPREAD_PROBABILITY
from onlinels.rows.batch import OUTPUT_NAME, Name, feature_key
from onlinels.saving import files

# -- the graph -------------------------------------------------------------------------------------

OPSET = 17
"""Version of the operators: that of ONNX 1.12 (2022), which every later runtime reads."""

IR_VERSION = 8
"""Version of the file format, that of ONNX 1.12 too."""


def single(values: Any, what: str) -> Matrix:
    """Return numbers in single precision; raise ValueError if one is too large for it."""
    values = np.asarray(values)
    with np.errstate(over="ignore"):
        rounded: Matrix = values.astype(np.float32)
    if (np.isfinite(values) & ~np.isfinite(rounded)).any():
        largest = np.abs(values[np.isfinite(values)]).max()
        problem = f"{what} as large as {largest:g} do not fit float32, expected numbers that do"
        raise ValueError(f"{problem}. Rescale the features or targets.")
    return rounded


def tensor(name: str, dtype: Any, shape: tuple[int | None, ...]) -> Any:
    """Return the description of an input or an output; None in its shape is the batch."""
    from onnx import TensorProto, helper

    dtype = np.dtype(dtype)
    kind = TensorProto.STRING if dtype.kind in "UO" else helper.np_dtype_to_tensor_dtype(dtype)
    sizes = ["batch" if size is None else size for size in shape]
    return helper.make_tensor_value_info(name, kind, sizes)


class Graph:
    """Nodes and constants, in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Matrix] = {}

    def add(
        self,
        operator: str,
        *inputs: str | Matrix,
        name: str | None = None,
        n_outputs: int = 1,
        **attributes: Any,
    ) -> str:
        """Add a node; return the name of its first output. Arrays become constants."""
        from onnx import helper

        number = len(self.nodes)
        names = []
        for place, given in enumerate(inputs):
            if not isinstance(given, str):
                constant = f"c{number}_{place}"
                self.constants[constant] = given
                given = constant
            names.append(given)
        output = name or f"v{number}"
        outputs = [output, *(f"{output}_{k}" for k in range(1, n_outputs))]
        self.nodes.append(helper.make_node(operator, names, outputs, **attributes))
        return output

    def cast(self, value: str, dtype: Any) -> str:
        """Return the name of a value in another dtype, float32 or float64."""
        return self.add("Cast", value, to=11 if dtype == np.float64 else 1)

    def write(
        self, path: Path, inputs: list[Any], outputs: list[Any], metadata: Mapping[str, str]
    ) -> None:
        """Check the graph and write it to a file, whole or not at all."""
        from onnx import checker, helper, numpy_helper

        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "onlinels", inputs, outputs, constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="onlinels",
            producer_version=metadata["onlinels_version"],
        )
        helper.set_model_props(model, dict(metadata))
        checker.check_model(model, full_check=True)
        content = model.SerializeToString()
        with files.replacing(path) as file:
            file.write(content)


# -- values, and what images and windows become on their way to columns ----------------------------


class TableValue(NamedTuple):
    """Columns (batch, n_columns) in the graph.

    Attributes
    ----------
    value : str
    places : dict
        The column of every key of a feature.
    names : tuple of n_columns names
    dtype : float32 or float64
    is_exact : bool
        Whether the values are not rounded results of float32.
    """

    value: str
    places: dict[Name, int]
    names: tuple[Name, ...]
    dtype: Any
    is_exact: bool

    @classmethod
    def of_names(cls, value: str, names: tuple[Name, ...]) -> TableValue:
        """Return an input with columns of these names."""
        places = {feature_key(name): column for column, name in enumerate(names)}
        return cls(value, places, names, np.float32, True)

    @classmethod
    def of_outputs(
        cls, value: str, n_columns: int, prefix: str, order: Sequence[int] | None = None
    ) -> TableValue:
        """Return the outputs of a transformer, which stand in this order, by all their names."""
        numbers = range(n_columns) if order is None else order
        name = prefix + OUTPUT_NAME
        places = {feature_key(f"{name}{number}"): k for k, number in enumerate(numbers)}
        places |= {feature_key((name, number)): k for k, number in enumerate(numbers)}
        # Columns of plain arrays have no prefix.
        places |= {number: k for k, number in enumerate(numbers)}
        return cls(value, places, tuple(f"{name}{k}" for k in numbers), np.float32, False)

    def arranged(self, names: Sequence[Name], rows: Floats) -> Floats:
        """Return rows (n_names, ...) of a model's features as rows for these columns."""
        keys = {name: feature_key(name) for name in names}
        unknown = next((name for name, key in keys.items() if key not in self.places), None)
        if unknown is not None:
            problem = f"The model has learnt the feature {unknown!r}, which no step before it makes"
            raise ValueError(
                f"{problem} in the exported graph. Train on the same features throughout; if you "
                "pass input_shape, pass the shape of the images that the model has learnt."
            )
        # A column that the model does not know counts as 0.
        arranged = np.zeros((len(self.names), *rows.shape[1:]), rows.dtype)
        arranged[[self.places[key] for key in keys.values()]] = rows
        return arranged


class ImagesValue(NamedTuple):
    """Images (batch, n_channels, height, width) in the graph; windows have height 1.

    Attributes
    ----------
    value : str
    shape : (height, width, n_channels)
    given : shape of one image or window in the input
    kind : IMAGE or WINDOW
    """

    value: str
    shape: tuple[int, int, int]
    given: Shape
    kind: Kind


def shape_of(steps: Sequence[Any]) -> Shape:
    """Return the shape of one image or window as the first step knows it; raise if it does not."""
    first = steps[0]
    kernels = getattr(first, "kernels", None)
    if kernels is not None:
        return kernels.length, kernels.channels.shape[2]
    shape: Shape | None = getattr(first, "image_shape", None) or getattr(
        first, "window_shape", None
    )
    if shape is None:
        problem = f"The shape of what {type(first).__name__} takes is not known"
        raise ValueError(f"{problem}. Pass input_shape to onlinels.export.onnx, such as (28, 28).")
    return shape


def input_of_images(graph: Graph, name: str, shape: Shape, kind: Kind) -> ImagesValue:
    """Return the input as images with channels first."""
    check_image_shape("input_shape", shape, kind)
    full = (*shape, 1)[: kind.n_axes + 1]
    height, width, n_channels = (1, *full)[-3:]
    given = full if n_channels > 1 else full[:-1]
    if n_channels == 1:
        value = graph.add("Reshape", name, np.array([-1, 1, height, width]))
    else:
        value = graph.add("Reshape", name, np.array([-1, height, width, n_channels]))
        value = graph.add("Transpose", value, perm=[0, 3, 1, 2])
    return ImagesValue(value, (height, width, n_channels), given, kind)


def preprocessed(graph: Graph, images: ImagesValue, step: ImagePreprocessing) -> ImagesValue:
    """Return images downsampled, scaled, with a grey channel and whitened."""
    if not step.is_fixed:
        raise not_made(f"whitening={step.whitening!r} is", "ImagePreprocessing")
    height, width, n_channels = step.output_shape(images.shape)
    value, size = images.value, [step.downsample] * 2
    if step.downsample > 1:
        value = graph.add("AveragePool", value, kernel_shape=size, strides=size)
    if step.scale is not None:
        value = graph.add("Div", value, single([step.scale], "scale"))
    if step.grey_channel:
        grey = graph.add("Conv", value, np.array(GREY_WEIGHTS, np.float32).reshape(1, 3, 1, 1))
        value = graph.add("Concat", value, grey, axis=1)
    if isinstance(step.whitening, FixedZCA):
        means = single(step.whitening.means, "Means of pixels")[:, None]
        matrices = single(step.whitening.matrices, "Whitening matrices")
        # One product of matrices for each channel.
        flat = graph.add("Reshape", value, np.array([-1, n_channels, height * width]))
        by_channel = graph.add("Sub", graph.add("Transpose", flat, perm=[1, 0, 2]), means)
        whitened = graph.add("MatMul", by_channel, matrices)
        value = graph.add("Transpose", whitened, perm=[1, 0, 2])
        value = graph.add("Reshape", value, np.array([-1, n_channels, height, width]))
    return images._replace(value=value, shape=(height, width, n_channels))


def filtered(graph: Graph, images: ImagesValue, step: ConvolutionalFeatures) -> TableValue:
    """Return convolutional features: responses, powers, pooling and normalisation."""
    height, width, n_channels = images.shape
    filters = for_channels(step.bank, n_channels)
    n_filters, side = len(filters), filters.shape[1]
    n_groups = 1 if step.channels == "joint" else n_channels
    n_features, divisor = step.n_features(images.shape), NORMALIZATIONS[step.normalize]
    pooling = [
        single(step._pooling_matrix(size, side, np.float64), "Pooling weights")
        for size in (height, width)
    ]
    # As rows of values, turned by 180 degrees as a convolution turns them: (n_groups, n_filters,
    # channels of a group, height, width).
    turned = np.moveaxis(grouped(filters, step.channels)[:, ::-1, ::-1], (3, 4), (0, 2))
    kernels = single(turned.reshape(n_groups * n_filters, -1, side, side), "Filters")
    value = graph.add("Conv", images.value, kernels, group=n_groups, pads=[step.padding] * 4)
    shape = np.array([-1, n_groups, n_filters, *(matrix.shape[1] for matrix in pooling)])
    value = graph.add("Reshape", value, shape)
    value = _power(graph, value, step.before_pooling)
    value = graph.add("MatMul", value, np.ascontiguousarray(pooling[1].T))
    value = graph.add("MatMul", pooling[0], value)
    value = _power(graph, value, step.after_pooling)
    if divisor is not None:
        n_maps = n_groups * n_filters
        faintest = _faintest(graph, images.value, filters, step)
        value = graph.add("Reshape", value, np.array([-1, n_maps, n_features // n_maps]))
        value = _normalized(graph, value, faintest, divisor)
    value = graph.add("Reshape", value, np.array([-1, n_features]))
    return TableValue.of_outputs(value, n_features, step.prefix)


def _power(graph: Graph, value: str, exponent: float) -> str:
    if exponent == 2.0:
        return graph.add("Mul", value, value)
    value = graph.add("Abs", value)
    if exponent not in N_SQUARE_ROOTS:
        return graph.add("Pow", value, np.array([exponent], np.float32))
    for _ in range(N_SQUARE_ROOTS[exponent]):
        value = graph.add("Sqrt", value)
    return value


def _faintest(graph: Graph, value: str, filters: Floats, step: ConvolutionalFeatures) -> str:
    """Return how large maps (batch, n_maps, 1) may be by rounding, as `rounding_bounds` does."""
    by_group = grouped(filters, step.channels)
    n_filters, n_groups, n_channels = len(filters), *by_group.shape[3:]
    strengths = np.abs(by_group).sum(axis=(1, 2)).transpose(1, 2, 0)
    brightest = graph.add("ReduceMax", graph.add("Abs", value), axes=[2, 3], keepdims=0)
    brightest = graph.add("Reshape", brightest, np.array([-1, n_groups, 1, n_channels]))
    # (batch, n_groups, 1, n_channels) times (n_groups, n_channels, n_filters).
    sums = graph.add("MatMul", brightest, single(strengths, "Filters"))
    eps = MAX_ROUNDING_ERRORS * np.finfo(np.float32).eps
    errors = graph.add("Mul", sums, np.array([eps], np.float32))
    if step._exponent != 1.0:
        errors = graph.add("Pow", errors, np.array([step._exponent], np.float32))
    return graph.add("Reshape", errors, np.array([-1, n_groups * n_filters, 1]))


def _normalized(graph: Graph, maps: str, faintest: str, by: str) -> str:
    """Return maps (batch, n_maps, positions) divided by their sum, or images by their length."""
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    largest = graph.add("ReduceMax", maps, axes=[2], keepdims=1)
    maps = graph.add("Where", graph.add("Greater", largest, faintest), maps, zero)
    if by == "map":
        sizes = graph.add("ReduceSum", maps, np.array([2]), keepdims=1)
    else:
        sizes = graph.add("ReduceL2", maps, axes=[1, 2], keepdims=1)
    sizes = graph.add("Where", graph.add("Equal", sizes, zero), one, sizes)
    return graph.add("Div", maps, sizes)


def rocketed(graph: Graph, images: ImagesValue, step: MiniRocketFeatures) -> TableValue:
    """Return the shares of samples at which responses exceed each bias."""
    kernels = step.kernels
    if kernels is None:
        raise not_made("The biases are", "MiniRocketFeatures")
    expected = (1, kernels.length, kernels.channels.shape[2])
    if images.shape != expected:
        problem = f"Windows have shape {images.shape[1:]}, expected {expected[1:]} as the examples"
        raise ValueError(f"{problem} of MiniRocketFeatures. Leave input_shape out.")
    shares, order = [], list[int]()
    weights = minirocket_kernels()
    for number, dilation in enumerate(kernels.dilations.tolist()):
        places, biases = kernels.of_dilation(number)
        used = kernels.channels[number][:, :, None] * weights[:, None]
        features = np.arange(places.start, places.stop).reshape(biases.shape)
        # Every second kernel sees zeros around the window, the others only what lies inside.
        for first, edge in ((number % 2, KERNEL_RADIUS * dilation), (1 - number % 2, 0)):
            value = graph.add(
                "Conv",
                images.value,
                used[first::2].astype(np.float32)[:, :, None],
                dilations=[1, dilation],
                pads=[0, edge, 0, edge],
            )
            limits = _limits(biases[first::2], step.dtype)[..., None]
            over = graph.add("Greater", value, limits)
            shares.append(
                graph.add("ReduceMean", graph.cast(over, np.float32), axes=[3], keepdims=0)
            )
            shares[-1] = graph.add("Flatten", shares[-1], axis=1)
            order += features[first::2].ravel().tolist()
    value = graph.add("Concat", *shares, axis=1)
    return TableValue.of_outputs(value, len(order), step.prefix, order)


def _limits(biases: Floats, dtype: str) -> Any:
    """Return biases in single precision over which the same float32 responses are."""
    limits = single(biases, "Biases")
    if dtype == "float64":
        # Rounded down: a response in float32 exceeds this if and only if it exceeds the bias.
        limits = np.where(limits > biases, np.nextafter(limits, np.float32(-np.inf)), limits)
    return limits


# -- the model -------------------------------------------------------------------------------------


INPUT = "X"


def onnx(
    model: Any, path: str | PathLike[str], *, input_shape: tuple[int, ...] | None = None
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

    Raises
    ------
    ImportError
        If onnx is not installed: ``pip install 'onlinels[onnx]'``.
    ValueError
        If the model has learnt nothing, or if a part cannot be exported: other
        transformers, labels of mixed types, or weights outside the range of float32: the
        message names the part. Or if the weights take 2 GiB or more, the limit of an ONNX file.
        No file is written then.
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
    X                float32 (batch, height, width[,         images; no rows of pixels
                     n_channels])
    X                float32 (batch, length[, n_channels])   windows; metadata "channels", of a
                                                             WindowedClassifier
    label            int64, string, bool or double (batch,)
    probabilities,   float32 (batch, n_classes)              metadata "classes"
    scores
    values           float32 (batch, n_targets)              metadata "targets", of regressors
    ===============  ======================================  ==================================

    Lists in the metadata are JSON. For a WindowedClassifier, the caller must store the last
    `window` samples and pass them as X. A row with NaN has NaN as scores and probabilities, and the
    label of the first class.

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
    path, parts, graph = check_path("path", path), parts_of(model), Graph()
    predictor = parts.predictor
    value, given, names = _input(graph, parts, input_shape)
    for name, step in parts.steps:
        value = _step(graph, value, name, step)
    scores = _scores(graph, _as_table(graph, value), parts)
    version = sys.modules["onlinels"].__version__
    metadata = {"onlinels_version": version, "model": type(model).__name__}
    if names is not None:
        metadata["feature_names"] = json.dumps(names, default=str)
    if parts.channels:
        metadata["channels"] = json.dumps(parts.channels, default=str)
    if isinstance(predictor, ClassPredictor):
        outputs = _classification(graph, scores, predictor)
        metadata["classes"] = json.dumps(predictor.outputs)
    else:
        graph.add("Identity", scores, name="values")
        targets = predictor.outputs or ("y",)
        outputs = [tensor("values", np.float32, (None, len(targets)))]
        metadata["targets"] = json.dumps(targets, default=str)
    graph.write(path, [given], outputs, metadata)


def _input(
    graph: Graph, parts: Parts, input_shape: tuple[int, ...] | None
) -> tuple[TableValue | ImagesValue, Any, tuple[Name, ...] | None]:
    """Return the first value, the input, and the names of its columns if it has columns."""
    first = parts.steps[0][1] if parts.steps else None
    takes_images = isinstance(first, IMAGE_STEPS)
    if takes_images or parts.shape is not None:
        shape = input_shape or parts.shape or shape_of([step for _, step in parts.steps])
        # ImagePreprocessing has no kind, and without a step for images the model is windowed.
        kind = getattr(first, "kind", IMAGE) if takes_images else WINDOW
        images = input_of_images(graph, INPUT, shape, kind)
        return images, tensor(INPUT, np.float32, (None, *images.given)), None
    if input_shape is not None:
        problem = f"input_shape={input_shape!r} came with a model of named columns, expected None"
        raise ValueError(f"{problem}. Leave it out.")
    names = parts.predictor.feature_names
    for _, step in parts.steps:
        if isinstance(step, HiddenLayer):
            with step._lock:
                names = step._made.names
            break
    table = TableValue.of_names(INPUT, names)
    return table, tensor(INPUT, np.float32, (None, len(names))), names


def _as_table(graph: Graph, value: TableValue | ImagesValue) -> TableValue:
    """Return a window or image as the columns that a dict with its array has."""
    if isinstance(value, TableValue):
        return value
    n_values = prod(value.shape)
    by_pixel = graph.add("Transpose", value.value, perm=[0, 2, 3, 1])
    flat = graph.add("Reshape", by_pixel, np.array([-1, n_values]))
    return TableValue.of_names(flat, tuple((value.kind.name, k) for k in range(n_values)))


def _step(
    graph: Graph, value: TableValue | ImagesValue, name: str, step: Any
) -> TableValue | ImagesValue:
    """Return the value after a transformer; raise ValueError if it cannot be exported."""
    # Imported when it is used: river.preprocessing takes twice as long as all of this package.
    from river.preprocessing import StandardScaler

    makers = STEPS | {StandardScaler: (_standardized, TableValue)}
    if type(step) not in makers:
        kind = type(step).__name__
        problem = f"The step {name!r} is of type {kind}, which ONNX export does not know"
        raise ValueError(
            f"{problem}, expected StandardScaler, HiddenLayer, ImagePreprocessing, "
            "ConvolutionalFeatures or MiniRocketFeatures. Export the last step alone, "
            'with onlinels.export.onnx(model["LeastSquaresClassifier"], path) for instance, and '
            "apply the steps before it yourself."
        )
    make, wanted = makers[type(step)]
    value = _as_table(graph, value) if wanted is TableValue else value
    if not isinstance(value, wanted):
        problem = f"The step {name!r} takes images or windows, and a table comes before it"
        raise ValueError(f"{problem}. Put it first in the pipeline.")
    after: TableValue | ImagesValue = make(graph, value, step)
    return after


def _standardized(graph: Graph, table: TableValue, scaler: Any) -> TableValue:
    """Return columns less their mean, divided by their deviation, in double precision."""

    def number(statistics: Any, name: Name) -> float:
        value = statistics.get(name, 0.0)
        return float(value.get() if hasattr(value, "get") else value)

    names = table.names
    means = np.array([number(scaler.means, name) for name in names])
    value = graph.add("Sub", graph.cast(table.value, np.float64), means)
    if scaler.with_std:
        variances = np.array([number(scaler.vars, name) for name in names])
        varies = variances > 0.0
        factors = varies / np.sqrt(np.where(varies, variances, 1.0))
        value = graph.add("Mul", value, factors)
    return table._replace(value=value, dtype=np.float64)


ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "square": lambda graph, u: graph.add("Mul", u, u),
    "relu": lambda graph, u: graph.add("Relu", u),
    "rectified-square": lambda graph, u: graph.add("Mul", graph.add("Relu", u), u),
    "logistic": lambda graph, u: graph.add("Sigmoid", u),
    "tanh": lambda graph, u: graph.add("Tanh", u),
    "softplus": lambda graph, u: graph.add("Softplus", u),
    "absolute": lambda graph, u: graph.add("Abs", u),
    "cube": lambda graph, u: graph.add("Mul", graph.add("Mul", u, u), u),
    "cosine": lambda graph, u: graph.add("Cos", u),
    "gaussian": lambda graph, u: graph.add("Exp", graph.add("Neg", graph.add("Mul", u, u))),
    "linear": lambda graph, u: graph.add("Identity", u),
}


def _hidden(graph: Graph, table: TableValue, layer: HiddenLayer) -> TableValue:
    """Return hidden activations; projections are in the precision of the layer."""
    with layer._lock:
        made = layer._made
    # What is single precision already gains nothing from wider weights.
    is_double = layer.dtype == "float64" and table.is_exact
    dtype = np.dtype(PRECISIONS["float64" if is_double else "float32"])

    def rounded(values: Any) -> Any:
        return np.asarray(values, dtype) if is_double else single(values, "Input weights")

    x = table.value if table.dtype == dtype else graph.cast(table.value, dtype)
    if isinstance(made, LandmarkWeights):
        products = graph.add("MatMul", x, rounded(table.arranged(made.names, made.landmarks.T)))
        products = graph.add("Add", products, rounded(made.landmark_offsets))
        first, second = (
            graph.add("Gather", products, np.asarray(each, np.int64), axis=1)
            for each in (made.first, made.second)
        )
        u = graph.add("Mul", graph.add("Sub", first, second), rounded(made.scales))
    else:
        assert isinstance(made, FixedWeights)
        u = graph.add("MatMul", x, rounded(table.arranged(made.names, made.weights)))
    if made.offsets is not None:
        u = graph.add("Add", u, rounded(made.offsets))
    u = graph.cast(u, np.float32) if is_double else u
    return TableValue.of_outputs(
        ACTIVATIONS[layer.activation](graph, u), layer.n_hidden, layer.prefix
    )


STEPS: dict[type, tuple[Callable[..., Any], type]] = {
    HiddenLayer: (_hidden, TableValue),
    ImagePreprocessing: (preprocessed, ImagesValue),
    ConvolutionalFeatures: (filtered, ImagesValue),
    MiniRocketFeatures: (rocketed, ImagesValue),
}
"""What writes a transformer into the graph, and the kind of value that it takes: see `_step`."""

IMAGE_STEPS = (ImagePreprocessing, ConvolutionalFeatures, MiniRocketFeatures)


def _scores(graph: Graph, table: TableValue, parts: Parts) -> str:
    """Return the scores (batch, n_outputs): (x - m) W + b, about the mean of the features."""
    predictor = parts.predictor
    weights = table.arranged(predictor.feature_names, predictor.weights)
    centre = table.arranged(predictor.feature_names, parts.centre[:, None])[:, 0]
    if table.dtype == np.float32:
        centre = single(centre, "Means of features")
    intercept = predictor.intercept + centre.astype(np.float64) @ weights
    value = graph.add("Sub", table.value, centre) if centre.any() else table.value
    value = value if table.dtype == np.float32 else graph.cast(value, np.float32)
    weights, intercept = single(weights, "Output weights"), single(intercept, "Intercepts")
    return graph.add("Gemm", value, weights, intercept)


def _classification(graph: Graph, scores: str, predictor: ClassPredictor) -> list[Any]:
    """Add the outputs of a classifier: label, probabilities and scores."""
    labels = labels_of(predictor.outputs, "an ONNX file")
    if labels.dtype.kind == "U":
        labels = labels.astype(object)
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    graph.add("Gather", labels, best, axis=0, name="label")
    graph.add("Identity", scores, name="scores")
    if predictor.softmax is None:
        _projected(graph, scores, len(labels), SPREAD_PROBABILITY / len(labels))
    else:
        scale, share, least = (np.array([each], np.float32) for each in predictor.softmax)
        shares = graph.add("Softmax", graph.add("Mul", scores, scale), axis=1)
        graph.add("Add", graph.add("Mul", shares, share), least, name="probabilities")
    shape = (None, len(labels))
    tables = [tensor(name, np.float32, shape) for name in ("probabilities", "scores")]
    return [tensor("label", labels.dtype, (None,)), *tables]


def _projected(graph: Graph, scores: str, n_classes: int, least: float) -> None:
    """Add the nearest probabilities to the scores (`onlinels.linear.scoring.probabilities_of`)."""
    # The threshold t for which max(s - t, 0) sums to 1 is the largest (s_1 + ... + s_k - 1) / k
    # for descending s (Duchi et al. 2008). Scores are relative to the highest.
    share = np.array([1.0 - least * n_classes], np.float32)
    highest = graph.add("ReduceMax", scores, axes=[1], keepdims=1)
    relative = graph.add("Div", graph.add("Sub", scores, highest), share)
    descending = graph.add("TopK", relative, np.array([n_classes], np.int64), axis=1, n_outputs=2)
    sums = graph.add("CumSum", descending, np.array(1, np.int64))
    excess = graph.add("Sub", sums, np.ones(1, np.float32))
    excess = graph.add("Div", excess, np.arange(1, n_classes + 1, dtype=np.float32))
    threshold = graph.add("ReduceMax", excess, axes=[1], keepdims=1)
    shares = graph.add("Relu", graph.add("Sub", relative, threshold))
    shares = graph.add("Mul", shares, share)
    graph.add("Add", shares, np.array([least], np.float32), name="probabilities")
