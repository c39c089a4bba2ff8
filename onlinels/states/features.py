"""What fixed features, and networks of them, consist of."""

from __future__ import annotations

from typing import Any

from onlinels.classifier import LeastSquaresClassifier
from onlinels.features.hidden import HiddenLayer
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.features.transformers import ConvolutionalFeatures
from onlinels.network import Examples, FixedNetwork, ShallowConvClassifier, WarmUp
from onlinels.numerics import Lock
from onlinels.saving.fields import (
    ANYTHING,
    LABEL,
    array,
    listed,
    made_of,
    maybe,
)
from onlinels.saving.kinds import saved
from onlinels.states.settings import settings_hold

IMAGES = array(("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"), 4)


def _weights_fit(weights: Any) -> bool:
    rows, columns = weights.weights.shape
    offsets = weights.offsets
    return rows == len(weights.names) and (offsets is None or offsets.shape == (columns,))


def _landmarks_fit(weights: Any) -> bool:
    n_landmarks, n_features = weights.landmarks.shape
    units = {weights.first.shape, weights.second.shape, weights.scales.shape}
    places = (weights.first, weights.second)
    inside = all(((each >= 0) & (each < n_landmarks)).all() for each in places)
    fits = weights.landmark_offsets.shape == (n_landmarks,) and len(units) == 1
    return bool(fits and inside and n_features == len(weights.names))


def _layer_fits(layer: Any) -> bool:
    rows, columns = layer._weights.shape
    offsets = layer._offsets
    fits = columns == layer.n_hidden and layer._n_drawn <= min(rows, len(layer._columns))
    # That is checked first: whoever is made with a bias draws as many numbers as it says.
    fits = fits and (offsets is None) == (layer.bias is False)
    fits = fits and (offsets is None or offsets.shape == (columns,))
    return fits and settings_hold(layer)


def _kernels_fit(kernels: Any) -> bool:
    n_dilations = len(kernels.dilations)
    n_kernels = kernels.channels.shape[1]
    fits = len(kernels.n_biases) == n_dilations == len(kernels.channels)
    positive = (kernels.dilations > 0).all() and (kernels.n_biases > 0).all()
    within = (8 * kernels.dilations < kernels.length).all()
    n_features = sum(kernels.n_biases.tolist()) * n_kernels
    return bool(
        fits and positive and within and n_kernels == 84 and n_features == len(kernels.biases)
    )


def _whitening_fits(whitening: Any) -> bool:
    size = len(whitening.mean)
    return bool(whitening.matrix.shape == (size, size))


def _network_fits(network: Any) -> bool:
    held = network.classifier._columns
    return len(held) in (0, network.hidden.n_hidden)


def _examples_fit(examples: Any) -> bool:
    sizes = [examples.images, examples.labels, examples.weights, examples.times]
    lengths = {len(each) for each in sizes if hasattr(each, "__len__")}
    return len(lengths) == 1


saved(
    Examples,
    {"images": IMAGES, "labels": listed(LABEL), "weights": ANYTHING, "times": ANYTHING},
    _examples_fit,
)
saved(
    WarmUp,
    {"classifier": made_of(LeastSquaresClassifier), "batches": listed(made_of(Examples))},
)
saved(
    FixedNetwork,
    {
        "preprocessing": made_of(ImagePreprocessing),
        "features": made_of(ConvolutionalFeatures),
        "hidden": made_of(HiddenLayer),
        "classifier": made_of(LeastSquaresClassifier),
    },
    _network_fits,
)
saved(
    ShallowConvClassifier,
    {
        "preprocessing": made_of(ImagePreprocessing),
        "features": made_of(ConvolutionalFeatures),
        "hidden": made_of(HiddenLayer),
        "classifier": made_of(LeastSquaresClassifier),
        "warm_up": ANYTHING,
        "_image_shape": ANYTHING,
        "_waiting": made_of(WarmUp),
        "_lock": made_of(Lock),
        "_fixed": maybe(made_of(FixedNetwork)),
    },
    settings_hold,
)
