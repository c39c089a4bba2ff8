"""Values of an ONNX graph, and what images and windows become on their way to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats
from onlinels.export.onnx_graph import Graph, single
from onlinels.features.convolution import (
    MAX_ROUNDING_ERRORS,
    N_SQUARE_ROOTS,
    Convolution,
    ConvolutionalFeatures,
)
from onlinels.features.images import Kind, Shape, check_image_shape, not_made
from onlinels.features.minirocket import KERNEL_RADIUS, MiniRocketFeatures, minirocket_kernels
from onlinels.features.preprocessing import GREY_WEIGHTS, FixedZCA, ImagePreprocessing
from onlinels.rows import OUTPUT_NAME, Name, feature_key


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
    _ = step.bank  # Raises if it is not made yet.
    bank, stage = step._bank_for(n_channels), step._stage()
    filters = np.broadcast_to(bank, (*bank.shape[:3], n_channels))
    n_filters, side = len(filters), filters.shape[1]
    n_groups, n_features = stage.n_groups(n_channels), step.n_features(images.shape)
    convolved = [stage.convolved_size(size, side) for size in (height, width)]
    pooling = [
        single(stage.pooling_matrix(size, side, np.float64), "Pooling weights")
        for size in (height, width)
    ]
    # As rows of values, turned by 180 degrees as a convolution turns them: (n_groups, n_filters,
    # channels of a group, height, width).
    turned = np.moveaxis(stage.grouped(filters)[:, ::-1, ::-1], (3, 4), (0, 2))
    kernels = single(turned.reshape(n_groups * n_filters, -1, side, side), "Filters")
    value = graph.add("Conv", images.value, kernels, group=n_groups, pads=[stage.padding] * 4)
    shape = np.array([-1, n_groups, n_filters, *convolved])
    value = graph.add("Reshape", value, shape)
    value = _power(graph, value, stage.before_pooling)
    value = graph.add("MatMul", value, np.ascontiguousarray(pooling[1].T))
    value = graph.add("MatMul", pooling[0], value)
    value = _power(graph, value, stage.after_pooling)
    if stage.normalize is not None:
        n_maps = n_groups * n_filters
        faintest = _faintest(graph, images.value, filters, stage)
        value = graph.add("Reshape", value, np.array([-1, n_maps, n_features // n_maps]))
        value = _normalized(graph, value, faintest, stage.normalize)
    value = graph.add("Reshape", value, np.array([-1, n_features]))
    return TableValue.of_outputs(value, n_features, step.prefix)


def _power(graph: Graph, value: str, exponent: float) -> str:
    if exponent == 2.0:
        return graph.add("Mul", value, value)
    value = graph.add("Abs", value)
    for _ in range(N_SQUARE_ROOTS.get(exponent, 0)):
        value = graph.add("Sqrt", value)
    if exponent in N_SQUARE_ROOTS:
        return value
    return graph.add("Pow", value, np.array([exponent], np.float32))


def _faintest(graph: Graph, value: str, filters: Floats, stage: Convolution) -> str:
    """Return how large maps (batch, n_maps, 1) may be by rounding, as `rounding_bounds` does."""
    grouped = stage.grouped(filters)
    n_filters, n_groups, n_channels = len(filters), *grouped.shape[3:]
    strengths = np.abs(grouped).sum(axis=(1, 2)).transpose(1, 2, 0)
    brightest = graph.add("ReduceMax", graph.add("Abs", value), axes=[2, 3], keepdims=0)
    brightest = graph.add("Reshape", brightest, np.array([-1, n_groups, 1, n_channels]))
    # (batch, n_groups, 1, n_channels) times (n_groups, n_channels, n_filters).
    sums = graph.add("MatMul", brightest, single(strengths, "Filters"))
    eps = MAX_ROUNDING_ERRORS * np.finfo(np.float32).eps
    errors = graph.add("Mul", sums, np.array([eps], np.float32))
    if stage.power != 1.0:
        errors = graph.add("Pow", errors, np.array([stage.power], np.float32))
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
