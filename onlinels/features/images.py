"""Reading images and sensor windows in any form, and averaging blocks of pixels."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from onlinels.checks import Matrix, check_values, dense
from onlinels.features.transformer import FixedTransformer, check_common_settings, itself
from onlinels.rows.answers import output_row, output_table
from onlinels.rows.batch import (
    Batch,
    Name,
    as_numpy,
    holds_array,
    read_batch,
    read_sample,
)

Shape = tuple[int, ...]


class Kind(NamedTuple):
    """The words for an image or a window in names and messages."""

    name: str
    one: str
    pixel: str
    n_axes: int
    sizes: str
    places: str

    @property
    def example(self) -> str:
        """A sample of this kind, as text."""
        return f'{{"{self.name}": array}}'

    def check_values(self, name: str, values: Matrix) -> None:
        """Raise unless an array holds finite numbers."""
        remedy = f"Leave the {self.name} out, or use np.nan_to_num; rescale large {self.pixel}s."
        check_values(name, values, remedy=remedy)

    def check_sample(self, x: Any) -> None:
        """Raise TypeError unless a sample is an array or a mapping; do not read its values."""
        if not isinstance(x, (Mapping, np.ndarray)):
            problem = f"x is of type {type(x).__name__}, expected an array or {self.example}"
            remedy = f"Pass an array, np.asarray({self.name}), or a row of named {self.pixel}s as "
            raise TypeError(f"{problem}. {remedy}x.to_dict() or x._asdict().")


IMAGE_SIZES = "(height, width) or (height, width, n_channels)"
IMAGE = Kind("image", "an image", "pixel", 2, IMAGE_SIZES, "(row, column[, channel])")
WINDOW_SIZES = "(length,) or (length, n_channels)"
WINDOW = Kind("window", "a window", "value", 1, WINDOW_SIZES, "(time, channel)")


class Images(NamedTuple):
    """Images (n, height, width, n_channels), or windows with height 1, and their source."""

    values: Matrix
    source: Any
    from_pixels: bool = False
    has_channels: bool = False


def check_image_shape(name: str, shape: Any, kind: Kind = IMAGE) -> None:
    """Raise ValueError unless `shape` is the shape of an image or window."""
    sizes = shape if isinstance(shape, tuple) else ()
    whole = all(isinstance(s, (int, np.integer)) and not isinstance(s, bool) for s in sizes)
    if len(sizes) - kind.n_axes not in (0, 1) or not whole or min(sizes) < 1:
        raise ValueError(f"{name}={shape!r} is not the shape of {kind.one}. Pass {kind.sizes}.")


def read_image(x: Any, image_shape: Shape | None, kind: Kind = IMAGE) -> Images:
    """Read an array, {"image": array}, or a dict of pixels if `image_shape` is given."""
    x = as_numpy(x)
    kind.check_sample(x)
    array = x if isinstance(x, np.ndarray) else _only_array(x, kind)
    if array is None:
        return _place_pixels(read_sample(x), image_shape, kind)
    kind.check_values(kind.name, array)
    return _read_arrays(array[None], image_shape, None, kind)


def read_images(X: Any, image_shape: Shape | None, kind: Kind = IMAGE) -> Images:
    """Read an array of images or of rows of pixels, a frame, or a list of samples."""
    X = dense(as_numpy(X))
    if isinstance(X, np.ndarray):
        if not X.size and X.dtype.kind not in "biuf":
            X = np.zeros(X.shape)
        kind.check_values("X", X)
        return _read_arrays(X, image_shape, X, kind)
    if isinstance(X, (list, tuple)) and not X:
        size = image_shape or (1,) * kind.n_axes  # No image says what size they have.
        return _read_arrays(np.zeros((0, *size)), image_shape, X, kind)
    first = X[0] if isinstance(X, (list, tuple)) and X else None
    if not isinstance(first, (Mapping, type(None))):
        problem = f"X is a {type(X).__name__} of {type(first).__name__}, expected one array"
        raise TypeError(f"{problem}. Pass np.stack(X), or samples such as {kind.example}.")
    if _only_array(first, kind) is None:
        return _place_pixels(read_batch(X), image_shape, kind)
    images = [read_image(x, image_shape, kind) for x in X]
    shapes = sorted({image.values.shape[1:] for image in images})
    if len(shapes) > 1:
        found = f"X holds {kind.name}s of shapes {shapes}"
        raise ValueError(f"{found}, expected one shape. Resize them.")
    values = np.concatenate([image.values for image in images])
    return Images(values, X, has_channels=any(image.has_channels for image in images))


def channels_hint(shape: Shape, kind: Kind = IMAGE) -> str:
    """Return a remedy for images of a shape (n_channels, height, width), as in torch, else "".

    It ends the messages of images that do not fit.
    """
    if len(shape) != kind.n_axes + 1 or not shape[0] <= MAX_CHANNELS < min(shape[1:]):
        return ""
    one = f"np.moveaxis({kind.name}, 0, -1) for a single {kind.name}"
    return f" X looks channels first, (n, {str(shape)[1:]}: pass np.moveaxis(X, 1, -1), or {one}."


MAX_CHANNELS = 4
"""Number of channels of most images, at most, and less than their height and width."""


def of_images(function: Callable[[Matrix], Matrix], images: Images) -> Matrix:
    """Return what a function computes from images (n, ...), a row per image, also if n is 0."""
    if len(images.values):
        return function(images.values)
    if isinstance(images.source, (list, tuple)):
        return np.zeros((0, 0))  # No image says how many values there are.
    blank = np.zeros((1, *images.values.shape[1:]), images.values.dtype)
    return function(blank)[:0]


def check_some(images: Images, kind: Kind = IMAGE) -> Matrix:
    """Return images to make features from; raise ValueError if there are none."""
    if not len(images.values):
        raise ValueError(f"X has 0 {kind.name}s, expected at least one. Pass examples.")
    return images.values


def _only_array(x: Any, kind: Kind) -> Matrix | None:
    """Return the array of a sample, or None for a sample of pixels."""
    if not isinstance(x, Mapping):
        return None
    read = (as_numpy(value, "x") for value in x.values() if getattr(value, "ndim", 0))
    arrays = [value for value in read if isinstance(value, np.ndarray)]
    if arrays and len(x) > 1:
        problem = f"x has {len(x)} features, some of them arrays, expected one {kind.name}"
        raise ValueError(f"{problem}. Pass {kind.example}.")
    return arrays[0] if arrays else None


def _read_arrays(values: Matrix, image_shape: Shape | None, source: Any, kind: Kind) -> Images:
    """Read images (n, ...), windows or rows of values."""
    try:
        full = full_shape(values.shape[1:], image_shape, kind)
    except ValueError as error:
        if image_shape and (*values.shape, 1)[: len(image_shape)] == image_shape:
            raise one_of_a_batch(values.shape, kind) from error
        raise
    given = image_shape if values.ndim == 2 and image_shape else values.shape[1:]
    images = values.reshape(len(values), *(1,) * (2 - kind.n_axes), *full)
    return Images(images, source, has_channels=len(given) > kind.n_axes)


def one_of_a_batch(shape: Shape, kind: Kind = IMAGE) -> ValueError:
    """Return the error raised for a single image where a batch is expected."""
    problem = f"X is {kind.one} of shape {shape}, expected a batch (n, …)"
    return ValueError(f"{problem}. Pass X[None], or {kind.one} to a method that ends in _one.")


def full_shape(shape: Shape, image_shape: Shape | None, kind: Kind = IMAGE) -> Shape:
    """Return an array's shape with channels; raise ValueError if it does not fit `image_shape`."""
    full = (*(image_shape or shape), 1)[: kind.n_axes + 1]
    if image_shape is None:
        if len(shape) - kind.n_axes not in (0, 1) or 0 in shape:
            problem = f"{kind.one.capitalize()} has shape {shape}, expected {kind.sizes}"
            raise ValueError(f"{problem}. For rows of {kind.pixel}s, set {kind.name}_shape.")
    elif shape not in (full, full[:-1] if full[-1] == 1 else full, (prod(full),)):
        own = (*shape, 1) if len(shape) == kind.n_axes < len(image_shape) else shape
        problem = f"{kind.one.capitalize()} has shape {own}, expected {image_shape}"
        if len(shape) == 1:
            expected = f"the {prod(full)} of {kind.one} of shape {image_shape}"
            problem = f"A row has {shape[0]} {kind.pixel}s, expected {expected}"
        remedy = "Resize it, or convert its channels."
        raise ValueError(f"{problem}. {remedy}{channels_hint(shape, kind)}")
    return full


def _place_pixels(batch: Batch, image_shape: Shape | None, kind: Kind) -> Images:
    """Read images from rows of named pixels."""
    if image_shape is None:
        problem = f"{kind.name.capitalize()}s are given as named {kind.pixel}s, expected arrays"
        raise ValueError(f"{problem}. Set {kind.name}_shape to {kind.sizes}.")
    if any(map(holds_array, batch.layouts)):
        problem = f"A sample holds an array among its {kind.pixel}s, expected numbers"
        raise ValueError(f"{problem}, or one {kind.name}. Pass {kind.example}.")
    if () in batch.layouts:
        problem = f"A sample has no {kind.pixel}s, expected {kind.one}"
        raise ValueError(f"{problem}. Pass {kind.example}.")
    positions = [_pixel_position(name, image_shape, kind) for name in batch.layouts[-1]]
    if len(set(positions)) < len(positions):
        problem = f"Two names of {kind.pixel}s mean the same position, expected one name for each"
        raise ValueError(f"{problem}. Rename one.")
    rows = np.zeros((len(batch.values), prod(image_shape)), dtype=batch.values.dtype)
    rows[:, np.array(positions, dtype=np.intp)] = batch.values
    return _read_arrays(rows, image_shape, batch.source, kind)._replace(from_pixels=True)


def _pixel_position(name: Name, image_shape: Shape, kind: Kind) -> int:
    if isinstance(name, str):
        numbers = re.fullmatch(r"[^\d-]*(\d+)(?:_(\d+))?(?:_(\d+))?", name)
        index = tuple(int(n) for n in numbers.groups() if n is not None) if numbers else ()
    else:
        index = name if isinstance(name, tuple) else (name,)
    sizes = (prod(image_shape),) if len(index) == 1 else image_shape
    if len(index) == 2 and image_shape[2:] == (1,):
        sizes = image_shape[:2]  # The only channel needs no number.
    try:
        return int(np.ravel_multi_index(index, sizes))
    except (TypeError, ValueError) as error:
        problem = f"Feature {name!r} names no {kind.pixel} of {kind.one} of shape {image_shape}"
        remedy = f"Name {kind.pixel}s by position (0 to {prod(image_shape) - 1}), {kind.places}"
        raise ValueError(f"{problem}. {remedy}, or text that ends in these numbers.") from error


class ImageTransformer(FixedTransformer):
    """Turn images or windows into rows of features by a subclass's `features_of`."""

    kind: ClassVar[Kind]

    # A setting of the subclasses.
    prefix: str

    def _check_settings(self) -> None:
        check_common_settings(self)
        if self._shape is not None:
            check_image_shape(f"{self.kind.name}_shape", self._shape, self.kind)

    @property
    def _shape(self) -> Shape | None:
        """The setting image_shape or window_shape."""
        return cast("Shape | None", getattr(self, f"{self.kind.name}_shape"))

    @abstractmethod
    def features_of(self, images: Matrix) -> Matrix:
        """Return the features (n, n_features) of images (n, height, width, n_channels)."""

    __deepcopy__ = itself

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the features of one sample: an array, or a dict of numbers.

        Parameters
        ----------
        x : {"image": array} or {"window": array}, or a dict of pixels if their shape is set
            Image or window.

        Returns
        -------
        dict
            {"h": array} for an array, {"h0": …, "h1": …} for a dict of numbers.

        Raises
        ------
        TypeError, ValueError
            As for `transform_many`.
        """
        images = read_image(x, self._shape, self.kind)
        features = self.features_of(images.values)[0]
        return output_row(features, not images.from_pixels, self.prefix)

    def transform_many(self, X: Any) -> Any:
        """Return the features of a mini-batch, in the kind of `X`.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images, or windows (n, length[, n_channels]). Rows of pixels need `image_shape` or
            `window_shape`.

        Returns
        -------
        array, frame or list of dicts
            A row of features per image or window.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read as images or windows of one shape that fits the filters, or the
            features still need examples.
        """
        images = read_images(X, self._shape, self.kind)
        features = of_images(self.features_of, images)
        return output_table(images.source, features, not images.from_pixels, self.prefix)


MAX_PIXEL = {"float32": 1e17, "float64": 1e60}
"""Largest pixel, before and after scaling, and largest response of a filter: its square fits."""


def check_pixels(images: Matrix, allowed: float, reason: str, kind: Kind = IMAGE) -> None:
    """Raise ValueError if the absolute value of a pixel exceeds `allowed`."""
    largest = max(-float(images.min()), float(images.max()))
    if largest > allowed:
        problem = f"{kind.one.capitalize()} holds {kind.pixel}s as large as {largest:g}"
        expected = f"expected at most {allowed:g} for {reason}"
        raise ValueError(f"{problem}, {expected}. Rescale the {kind.name}s.")


def block_means(images: Matrix, size: int, dtype: type) -> Matrix:
    """Return the mean of every block of size x size pixels."""
    n_images, height, width, n_channels = images.shape
    means = np.zeros((n_images, height // size, width // size, n_channels), dtype=dtype)
    # One addition of all images per position in a block. Measured on 96 x 96 pixels in blocks of 3:
    # three times as fast as numpy's mean over the axes of blocks.
    for row, column in np.ndindex(size, size):
        means += images[:, row::size, column::size]
    means /= size**2
    return means


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Yield slices of length `step` from start to stop; the last one may be shorter."""
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))
