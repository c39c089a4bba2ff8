"""What networks of fixed features consist of."""

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
