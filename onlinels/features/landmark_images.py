"""ImageLandmarks: images whose features make the input weights of a network, also after loading."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onlinels.checks import PRECISIONS, Integers, Matrix
from onlinels.features.convolution import ConvolutionalFeatures, convolution_bytes
from onlinels.features.input_weights import InputWeights, draw_pairs, landmark_differences
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.numerics import Frozen
from onlinels.saving import savable


@savable(lambda landmarks: landmarks.images.ndim == 4)
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
        with np.errstate(invalid="ignore"):
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
