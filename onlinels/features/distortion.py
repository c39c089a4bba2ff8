"""Small random distortions of images, to learn a stream together with distorted copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.random import Generator

from onlinels.checks import (
    Floats,
    Matrix,
    check_between,
    check_choice,
    check_count,
    check_values,
)
from onlinels.features.images import PADDING_MODES, sample, tiles

NOISE_MARGIN = 3
"""Points of noise beyond each edge of an image, one smoothness (at least one pixel) apart."""


def _sums(per_row: Floats, per_column: Floats) -> Matrix:
    """Return the sums (n, height, width) of a value per row and a value per column."""
    return np.add(per_row.astype(np.float32)[:, :, None], per_column.astype(np.float32)[:, None])


def noise_factor(side: int, smoothness: float) -> Matrix:
    """Return the matrix (side, n_points) that smooths white noise along one axis."""
    # L[i, j] is proportional to exp(-(i - p_j)^2 / (2 smoothness^2)), and every row has length 1.
    # So L noise has variance 1 at every pixel and correlation exp(-d^2 / (4 smoothness^2)) at
    # distance d, up to 1e-3 (smoothness >= 1). It needs few points: 14 for 28 pixels smoothed by 4.
    spacing = max(1.0, smoothness)
    points = spacing * (np.arange(ceil((side - 1) / spacing) + 1 + 2 * NOISE_MARGIN) - NOISE_MARGIN)
    # A smoothness below a tenth of a pixel leaves the noise white.
    distances = (np.arange(side)[:, None] - points) / max(0.1, smoothness)
    weights = np.exp(-0.5 * distances**2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True), np.float32)


MAX_DISTORTIONS = {"rotation": 180.0, "scale": 0.99, "shear": 10.0, "shift": 1e6, "flip": 1.0}
MAX_DISTORTIONS |= {"elastic_strength": 1e6, "elastic_smoothness": 1e6}
"""Largest value of each amount."""

N_DRAWS = 7
"""Numbers drawn per image before those of the field: angle, two scales, shear, two shifts, flip."""


@dataclass(frozen=True)
class Distortion:
    """Distort every image at random: rotate, scale, shear, shift, bend or mirror it.

    An image is mirrored with probability `flip`, then scaled along rows and columns, sheared and
    rotated about its centre, shifted, and finally bent by a smooth random field of displacements.
    The angle, scales, shear and shifts of every image are drawn uniformly between minus and plus
    the settings. All steps together are one map of positions, so every image is sampled
    (bilinearly) and blurred only once.

    Parameters
    ----------
    rotation : float, 0 to 180
        Largest angle, in degrees.
    scale : float, 0 to 0.99
        Largest relative change of size, drawn separately for rows and columns.
    shear : float, 0 to 10
        Largest slant, in columns per row.
    shift : float, 0 to 1e6
        Largest shift, in pixels, drawn separately for rows and columns.
    elastic_strength : float, 0 to 1e6
        Root mean square of the field's displacements along each axis, in pixels.
    elastic_smoothness : float, 0 to 1e6
        Standard deviation of the gaussian that smooths the field, in pixels. It must be above 0 if
        `elastic_strength` is.
    flip : float, 0 to 1
        Probability of a left-right mirror image.
    fill : {"zero", "edge"}
        Values outside an image: zeros, or the nearest edge pixel, which suits photographs.

    Raises
    ------
    TypeError
        If a setting that must be a number is not.
    ValueError
        If a number is negative, not finite or too large, if `fill` is unknown, or if
        `elastic_smoothness` is 0 and `elastic_strength` is not.

    Notes
    -----
    The displacements at two pixels a distance d apart along an axis have the correlation
    exp(-d^2 / (4 smoothness^2)), up to 1e-3 (smoothness >= 1), everywhere in the image. Simard et
    al. scale uniform noise by alpha = 34 and smooth it by 4 pixels, which is a strength of 1.4
    here.

    References
    ----------
    P. Y. Simard, D. Steinkraus and J. C. Platt (2003), "Best practices for convolutional neural
    networks applied to visual document analysis".

    Examples
    --------
    >>> images = np.random.default_rng(0).random((5, 8, 8))
    >>> Distortion(rotation=10.0, shift=1.0).distort(images, 0).shape
    (5, 8, 8)
    >>> bool((Distortion(flip=1.0).distort(images, 0) == images[:, :, ::-1]).all())
    True
    """

    rotation: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    shift: float = 0.0
    elastic_strength: float = 0.0
    elastic_smoothness: float = 0.0
    flip: float = 0.0
    fill: str = "zero"

    def __post_init__(self) -> None:
        for name, largest in MAX_DISTORTIONS.items():
            check_between(name, getattr(self, name), 0.0, largest)
        check_choice("fill", self.fill, PADDING_MODES)
        if self.elastic_strength and not self.elastic_smoothness:
            problem = f"elastic_smoothness=0 with elastic_strength={self.elastic_strength!r}"
            raise ValueError(f"{problem}, expected a smoothness above 0. Pass a number of pixels.")

    def distort(self, images: Matrix, random: Generator | int) -> Matrix:
        """Return a randomly distorted copy of every image.

        Parameters
        ----------
        images : ndarray (n, height, width) or (n, height, width, n_channels)
            Images to distort; they stay unchanged.
        random : numpy Generator or int
            Random generator, or a seed: the same seed gives the same distortions.

        Returns
        -------
        ndarray, shape of `images`
            Distorted images in the units of `images`: float64 if `images` are, otherwise float32.

        Raises
        ------
        TypeError
            If `images` is not an array of numbers, or `random` is neither a generator nor an int.
        ValueError
            If `images` has another shape or a value that is not finite, or the seed is negative.

        Notes
        -----
        Random numbers are drawn image by image: a batch cut into parts, distorted one after the
        other with one generator, gives the same images as the whole batch. Positions are computed
        in float32. Measured on one thread with images of 28 x 28:

        ========================================  =================
        method                                    images per second
        ========================================  =================
        no field                                  90,000
        a field of smoothness 4                   70,000
        no field, scipy's map_coordinates         30,000
        ========================================  =================
        """
        generator = _checked(images, random)
        dtype = np.float64 if images.dtype.kind == "f" and images.itemsize > 4 else np.float32
        distorted = np.empty(images.shape, dtype=dtype)
        n_images, height, width = images.shape[:3]
        for tile in tiles(n_images, height * width):
            part = images[tile].astype(dtype, copy=False)
            rows, columns = self.places(len(part), height, width, generator)
            sampled = sample(part.reshape(*part.shape[:3], -1), rows, columns, self.fill)
            distorted[tile] = sampled.reshape(part.shape)
        return distorted

    def copies(self, images: Matrix, n_copies: int, random: Generator | int) -> Iterator[Matrix]:
        """Return an iterator over `n_copies` differently distorted batches of the same images.

        Parameters
        ----------
        images : ndarray (n, height, width) or (n, height, width, n_channels)
            Images to distort; they stay unchanged.
        n_copies : int, at least 0
            Number of distorted batches.
        random : numpy Generator or int
            Random generator, or a seed, as for `distort`. A batch is drawn when the iterator
            reaches it, so memory holds one batch at a time.

        Raises
        ------
        TypeError, ValueError
            As for `distort`, before the first batch is drawn.

        Examples
        --------
        >>> some = Distortion(shift=1.0)
        >>> [copy.shape for copy in some.copies(np.ones((2, 4, 4)), n_copies=3, random=0)]
        [(2, 4, 4), (2, 4, 4), (2, 4, 4)]
        """
        check_count("n_copies", n_copies, 0)
        generator = _checked(images, random)
        return (self.distort(images, generator) for _ in range(n_copies))

    def places(
        self, n_images: int, height: int, width: int, random: Generator
    ) -> tuple[Matrix, Matrix]:
        """Draw the positions in the given images from which distorted pixels are sampled.

        Parameters
        ----------
        n_images, height, width : int
            Number and shape of the images.
        random : numpy Generator
            Random generator.

        Returns
        -------
        rows, columns : ndarray (n_images, height, width), float32
            Positions in pixels; (0, 0) is the centre of the first pixel.

        Notes
        -----
        Uniform numbers are drawn image by image, so that those of an image do not depend on later
        images. Each image needs 7, and 2 (height / smoothness + 7) (width / smoothness + 7) more
        with a field.
        """
        factors = [noise_factor(side, self.elastic_smoothness) for side in (height, width)]
        shape = (n_images, 2, *(factor.shape[1] for factor in factors))
        n_noise = int(np.prod(shape[1:])) if self.elastic_strength else 0
        draws = random.random((n_images, N_DRAWS + n_noise), dtype=np.float32)
        rows, columns = self._affine_places(draws[:, :N_DRAWS], height, width)
        if n_noise:
            # Uniform numbers between -1 and 1 have variance 1/3.
            noise = 2.0 * draws[:, N_DRAWS:].reshape(shape) - 1.0
            field = factors[0] @ (noise * (self.elastic_strength * 3.0**0.5)) @ factors[1].T
            rows += field[:, 0]
            columns += field[:, 1]
        return rows, columns

    def _affine_places(self, draws: Matrix, height: int, width: int) -> tuple[Matrix, Matrix]:
        """Return the positions (n, height, width) of pixels before the field is added."""
        # One contiguous row per amount: numpy's cosine of strided numbers may differ in rounding.
        signed = 2.0 * np.ascontiguousarray(draws.T, dtype=np.float64)[:, :, None] - 1.0
        angles = np.deg2rad(self.rotation) * signed[0]
        heights, widths = 1.0 + self.scale * signed[1:3]
        slants, shifts = self.shear * signed[3], self.shift * signed[4:6]
        cosine, sine = np.cos(angles), np.sin(angles)
        sign = np.where(draws[:, 6:] < self.flip, -1.0, 1.0)
        # position = inverse (pixel - centre - shift) + centre, where `inverse` undoes rotation,
        # shear and scaling; in a mirror image, column becomes width - 1 - column.
        middle, centre = (height - 1.0) / 2.0, (width - 1.0) / 2.0
        down = np.arange(height) - middle - shifts[0]
        right = np.arange(width) - centre - shifts[1]
        # One addition per position: a part that depends on the row and one on the column. The
        # centre is added where it cancels, so that whole positions stay whole numbers.
        rows = _sums(cosine / heights * down + middle, -sine / heights * right)
        per_row = sign * ((sine - slants * cosine) / widths) * down
        per_column = sign * ((cosine + slants * sine) / widths) * right + centre
        return rows, _sums(per_row, per_column)


def _checked(images: Any, random: Any) -> Generator:
    """Return the generator of valid arguments, or raise."""
    if not isinstance(images, np.ndarray):
        kind = type(images).__name__
        raise TypeError(f"images is of type {kind}, expected an array. Pass np.asarray(images).")
    check_values("images", images)
    if images.ndim not in (3, 4) or 0 in images.shape:
        expected = "expected (n, height, width[, n_channels]) without a 0. Reshape it"
        raise ValueError(f"images has shape {images.shape}, {expected}.")
    if isinstance(random, Generator):
        return random
    if isinstance(random, bool) or not isinstance(random, (int, np.integer)):
        raise TypeError(f"random={random!r} must be a numpy Generator or an int. Pass a seed >= 0.")
    return np.random.default_rng(check_count("random", random, 0))
