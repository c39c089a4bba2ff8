"""What fixed features, and networks of them, consist of."""

from __future__ import annotations

from typing import Any

from onlinels.features.convolution import Power, TwoSidedRectifier
from onlinels.features.filters import FilterBank
from onlinels.features.hidden import HiddenLayer
from onlinels.features.input_weights import FixedWeights, LandmarkWeights, ReceptiveFields
from onlinels.features.minirocket import DilatedKernels, MiniRocketFeatures
from onlinels.features.patches import KMeansPatches, Patches, WhitenedPatches
from onlinels.features.preprocessing import ZCA, FixedZCA, ImagePreprocessing, Whitening
from onlinels.features.transformers import ConvolutionalFeatures, WindowFeatures
from onlinels.numerics import Lock
from onlinels.rows import Columns
from onlinels.saving.fields import (
    ANY_MATRIX,
    ANY_VECTOR,
    ANYTHING,
    LABEL,
    PLACES,
    VECTOR,
    WHOLE,
    array,
    made_of,
    maybe,
    row,
)
from onlinels.saving.kinds import saved
from onlinels.states.settings import settings_hold, settings_of


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


saved(FilterBank, {"filters": array("f8", 4), "offsets": ANYTHING}, settings_hold)
for _plain in (
    Power,
    TwoSidedRectifier,
    Patches,
    WhitenedPatches,
    KMeansPatches,
    ReceptiveFields,
    ZCA,
    MiniRocketFeatures,
):
    saved(_plain, settings_of(_plain), settings_hold)
saved(
    DilatedKernels,
    {
        "length": WHOLE,
        "dilations": PLACES,
        "n_biases": PLACES,
        "channels": array("?", 3),
        "biases": VECTOR,
    },
    _kernels_fit,
)
saved(
    FixedWeights,
    {"names": row(LABEL), "weights": ANY_MATRIX, "offsets": maybe(ANY_VECTOR)},
    _weights_fit,
)
saved(
    LandmarkWeights,
    {
        "names": row(LABEL),
        "landmarks": ANY_MATRIX,
        "landmark_offsets": ANY_VECTOR,
        "first": PLACES,
        "second": PLACES,
        "scales": ANY_VECTOR,
    },
    _landmarks_fit,
)
saved(Whitening, {"mean": ANY_VECTOR, "matrix": ANY_MATRIX}, _whitening_fits)
saved(FixedZCA, {"image_shape": row(WHOLE), "channels": row(made_of(Whitening))})
for _filtering in (ConvolutionalFeatures, WindowFeatures):
    fields = {**settings_of(_filtering), "_bank": maybe(made_of(FilterBank))}
    saved(_filtering, fields, settings_hold)
saved(
    HiddenLayer,
    {
        **settings_of(HiddenLayer),
        "_columns": made_of(Columns),
        "_fixed": maybe(made_of(FixedWeights, LandmarkWeights)),
        "_n_drawn": WHOLE,
        "_lock": made_of(Lock),
        "_weights": ANY_MATRIX,
        "_offsets": maybe(ANY_VECTOR),
    },
    _layer_fits,
)
saved(
    ImagePreprocessing,
    {
        **settings_of(ImagePreprocessing),
        "_fixed": maybe(made_of(FixedZCA)),
    },
    settings_hold,
)
