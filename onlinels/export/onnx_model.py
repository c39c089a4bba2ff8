"""`onnx`: a model as an ONNX file, for answers outside of Python."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from math import prod
from os import PathLike
from typing import Any

import numpy as np

from onlinels.checks import PRECISIONS, check_path
from onlinels.export.onnx_graph import Graph, Tensor, single
from onlinels.export.onnx_images import (
    ImagesValue,
    TableValue,
    filtered,
    input_of_images,
    preprocessed,
    rocketed,
    shape_of,
)
from onlinels.export.parts import Linear, Parts, labels_of, parts_of
from onlinels.features.convolution import ConvolutionalFeatures
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import IMAGE, WINDOW
from onlinels.features.input_weights import FixedWeights, LandmarkWeights
from onlinels.features.minirocket import MiniRocketFeatures
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.rows import Name
from onlinels.scoring import SPREAD_PROBABILITY

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
    linear = parts.linear
    value, given, names = _input(graph, parts, input_shape)
    for name, step in parts.steps:
        value = _step(graph, value, name, step)
    scores = _scores(graph, _as_table(graph, value), linear)
    version = str(sys.modules["onlinels"].__version__)
    metadata = {"onlinels_version": version, "model": type(model).__name__}
    if names is not None:
        metadata["feature_names"] = json.dumps(names, default=str)
    if parts.channels:
        metadata["channels"] = json.dumps(parts.channels, default=str)
    if linear.is_classifier:
        outputs = _classification(graph, scores, parts)
        metadata["classes"] = json.dumps(linear.outputs)
    else:
        graph.add("Identity", scores, name="values")
        outputs = [Tensor("values", np.float32, (None, len(linear.outputs)))]
        metadata["targets"] = json.dumps(linear.outputs, default=str)
    graph.write(path, [given], outputs, metadata, version)


def _input(
    graph: Graph, parts: Parts, input_shape: tuple[int, ...] | None
) -> tuple[TableValue | ImagesValue, Tensor, tuple[Name, ...] | None]:
    """Return the first value, the input, and the names of its columns if it has columns."""
    first = parts.steps[0][1] if parts.steps else None
    takes_images = isinstance(first, IMAGE_STEPS)
    if takes_images or parts.shape is not None:
        shape = input_shape or parts.shape or shape_of([step for _, step in parts.steps])
        # ImagePreprocessing has no kind, and without a step for images the model is windowed.
        kind = getattr(first, "kind", IMAGE) if takes_images else WINDOW
        images = input_of_images(graph, INPUT, shape, kind)
        return images, Tensor(INPUT, np.float32, (None, *images.given)), None
    if input_shape is not None:
        problem = f"input_shape={input_shape!r} came with a model of named columns, expected None"
        raise ValueError(f"{problem}. Leave it out.")
    names = parts.linear.names
    for _, step in parts.steps:
        if isinstance(step, HiddenLayer):
            with step._lock:
                names = step._made.names
            break
    table = TableValue.of_names(INPUT, names)
    return table, Tensor(INPUT, np.float32, (None, len(names))), names


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


def _scores(graph: Graph, table: TableValue, linear: Linear) -> str:
    """Return the scores (batch, n_outputs): (x - m) W + b, about the mean of the features."""
    weights = table.arranged(linear.names, linear.weights)
    centre = table.arranged(linear.names, linear.centre[:, None])[:, 0]
    if table.dtype == np.float32:
        centre = single(centre, "Means of features")
    intercept = linear.intercept + centre.astype(np.float64) @ weights
    value = graph.add("Sub", table.value, centre) if centre.any() else table.value
    value = value if table.dtype == np.float32 else graph.cast(value, np.float32)
    weights, intercept = single(weights, "Output weights"), single(intercept, "Intercepts")
    return graph.add("Gemm", value, weights, intercept)


def _classification(graph: Graph, scores: str, parts: Parts) -> list[Tensor]:
    """Add the outputs of a classifier: label, probabilities and scores."""
    labels = labels_of(parts.linear.outputs, "an ONNX file")
    if labels.dtype.kind == "U":
        labels = labels.astype(object)
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    graph.add("Gather", labels, best, axis=0, name="label")
    graph.add("Identity", scores, name="scores")
    if parts.softmax is None:
        _projected(graph, scores, len(labels), SPREAD_PROBABILITY / len(labels))
    else:
        _softmax(graph, scores, *parts.softmax)
    shape = (None, len(labels))
    tables = [Tensor(name, np.float32, shape) for name in ("probabilities", "scores")]
    return [Tensor("label", labels.dtype, (None,)), *tables]


def _softmax(graph: Graph, scores: str, scale: float, share: float, least: float) -> None:
    """Add probabilities share softmax(scale scores) + least."""
    scaled = graph.add("Mul", scores, np.array([scale], np.float32))
    shares = graph.add("Mul", graph.add("Softmax", scaled, axis=1), np.array([share], np.float32))
    graph.add("Add", shares, np.array([least], np.float32), name="probabilities")


def _projected(graph: Graph, scores: str, n_classes: int, least: float) -> None:
    """Add the nearest probabilities to the scores (`onlinels.scoring.probabilities_of`)."""
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
