"""What can be taught: drawings or photos, each with its own model."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from onlinels import LeastSquaresClassifier, ShallowConvClassifier
from teach.drawing import SIDE, Image, digits, normalise
from teach.photo import LARGE, SMALL, embedding, read_photo

SETTINGS: dict[str, Any] = {
    "filters": "hand-designed",
    "input_weights": "gaussian",
    "n_hidden": 500,
    "ridge": 100.0,
    "priors": "equal",
}
"""Settings of the network that differ from those of the preset "mnist"."""

OF_PHOTOS: dict[str, Any] = {"n_hidden": 1000, "stride": 4}
"""Settings for photos of 32x24 pixels, as accurate as larger photos, and made in half a second.

Accuracy on photos of four parts after 20, 100 and 300 of them, and seconds until the first answer:

    pixels, stride, units    20    100   300   seconds
    64x48, 2, 500            32%   52%   63%   11
    32x24, 2, 500            37%   59%   65%   1.3
    32x24, 4, 500            38%   58%   67%   0.5
    32x24, 4, 1,000          37%   64%   69%   0.4
"""


@dataclass(frozen=True)
class Kind:
    """Images of one kind: how they are read, and the model that learns them."""

    name: str
    shape: tuple[int, ...]
    # The image of what the page sends, or ValueError.
    read: Callable[[Any], Image]
    # Models to start with; "empty" is one that has learnt nothing.
    starts: dict[str, Callable[[], Any]]
    # What the model learns of an image.
    row: Callable[[Image], Any] = lambda image: image
    # The page shows one of so many rows and columns of pixels.
    step: int = 1

    def shown(self, image: Image) -> dict[str, Any]:
        """Return what the page shows of an image, as JSON can hold it."""
        shown = image[:: self.step, :: self.step]
        return {"image": b64encode(shown.tobytes()).decode(), "shape": shown.shape}


@cache
def blank() -> ShallowConvClassifier:
    """Return a network that predicts from the first image, because no feature is made of images."""
    return _drawn((SIDE, SIDE))


@cache
def taught_digits() -> ShallowConvClassifier:
    """Return a network that has learnt scikit-learn's digits."""
    model = blank().empty()
    model.learn_many(*digits())
    return model


@cache
def blank_of_photos() -> ShallowConvClassifier:
    """Return a network for small photos, like `blank`."""
    return _drawn(SMALL, **OF_PHOTOS)


def _drawn(shape: tuple[int, ...], **settings: Any) -> ShallowConvClassifier:
    model = ShallowConvClassifier.from_preset("mnist", **SETTINGS | settings)
    model.transform_many(np.zeros((1, *shape)))  # Draws the input weights, which empty() keeps.
    return model


DRAWINGS = Kind("drawings", (SIDE, SIDE), normalise, {"empty": blank, "digits": taught_digits})


def photos(network: Path | None = None) -> Kind:
    """Return photos that a small network learns, or embeddings by a pretrained network.

    Lessons of another network are kept apart: its embeddings are other numbers.
    """
    if network is None:
        return Kind("photos", SMALL, partial(read_photo, SMALL), {"empty": blank_of_photos})
    row = embedding(network)
    name = f"photos-{sha256(network.read_bytes()).hexdigest()[:8]}"
    start = partial(LeastSquaresClassifier, priors="equal")
    return Kind(name, LARGE, partial(read_photo, LARGE), {"empty": start}, row, step=3)
