"""What images and windows have in common when fixed filters turn them into features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from river import base

from onlinels.arrays import Matrix
from onlinels.features.contrast import check_contrast_offset
from onlinels.features.convolution.convolve import convolve
from onlinels.features.convolution.magnitudes import largest_pixel
from onlinels.features.convolution.nonlinearities import (
    FOURTH_ROOT,
    SQUARE,
    Power,
    TwoSidedRectifier,
)
from onlinels.features.convolution.normalization import check_normalize
from onlinels.features.convolution.pooling import WINDOWS, Axis
from onlinels.features.convolution.stage import CHANNELS, Convolution
from onlinels.features.filters.bank import FilterBank
from onlinels.features.images import (
    Images,
    Shape,
    check_image_shape,
    read_image,
    read_images,
)
from onlinels.features.kinds import Kind
from onlinels.features.pixels import magnitude
from onlinels.outputs import output_row, output_table
from onlinels.saving.files import Savable
from onlinels.settings import (
    DTYPES,
    check_choice,
    check_count,
    check_kind,
)


class FilteringTransformer(base.MiniBatchTransformer, Savable):
    """Turn images or windows into features with fixed filters; subclasses say which filters."""

    kind: ClassVar[Kind]

    def __init__(
        self,
        pool_size: int,
        stride: int,
        padding: int,
        drop_ring: int,
        normalize: bool | str,
        before_pooling: Power | TwoSidedRectifier | None,
        after_pooling: Power | None,
        channels: str,
        contrast_offset: float | None,
        dtype: str,
        seed: int,
        pooling: str,
    ) -> None:
        check_count("pool_size", pool_size, 1)
        check_count("stride", stride, 1)
        check_count("padding", padding, 0)
        check_count("drop_ring", drop_ring, 0)
        check_normalize(normalize)
        check_choice("channels", channels, CHANNELS)
        check_choice("dtype", dtype, DTYPES)
        check_contrast_offset(contrast_offset, dtype)
        check_count("seed", seed, 0)
        check_choice("pooling", pooling, WINDOWS)
        self.pool_size = pool_size
        self.stride = stride
        self.padding = padding
        self.drop_ring = drop_ring
        self.normalize = normalize
        # None stands for them in signatures: river allows nothing but plain values there.
        self.before_pooling = SQUARE if before_pooling is None else before_pooling
        self.after_pooling = FOURTH_ROOT if after_pooling is None else after_pooling
        check_kind("before_pooling", self.before_pooling, (Power, TwoSidedRectifier))
        check_kind("after_pooling", self.after_pooling, (Power,))
        self.channels = channels
        self.contrast_offset = contrast_offset
        self.dtype = dtype
        self.seed = seed
        self.pooling = pooling

    @property
    @abstractmethod
    def bank(self) -> FilterBank:
        """The filters (n_filters, height, width, 1 or n_channels) and their offsets."""

    @abstractmethod
    def _bank_for(self, n_channels: int) -> FilterBank:
        """Return the bank for images of so many channels, or raise if they do not fit.

        Filters that are not made yet are zeros.
        """

    @property
    @abstractmethod
    def _shape(self) -> Shape | None:
        """The shape of one image or window, if it was set."""

    def _rows(self) -> Axis:
        """Return the geometry along the height."""
        return self._columns()

    def _columns(self) -> Axis:
        """Return the geometry along the width."""
        return Axis(self.pool_size, self.stride, self.padding, self.drop_ring, self.pooling)

    def _normalization(self) -> str | None:
        if isinstance(self.normalize, str):
            return self.normalize
        return "map" if self.normalize else None

    def _stage(self) -> Convolution:
        return Convolution(
            self._rows(),
            self._columns(),
            self._normalization(),
            self.before_pooling,
            self.after_pooling,
            self.channels,
            self.contrast_offset,
        )

    def n_features(self, shape: Shape) -> int:
        """Return the number of features of images or windows of this shape.

        Parameters
        ----------
        shape : (height, width[, n_channels]), or (length[, n_channels]) of a window

        Raises
        ------
        ValueError
            If it is no such shape, nothing is left of such an image, or its channels do not fit
            the filters.

        Examples
        --------
        >>> from onlinels import ConvolutionalFeatures
        >>> ConvolutionalFeatures(stride=2).n_features((28, 28))
        9675
        """
        rows, columns = self.map_shape(shape)
        n_channels = (*shape, 1)[len(self.kind.axes)]
        n_groups = len(self._stage().groups(n_channels))
        n_filters = len(self._bank_for(n_channels))
        return n_groups * self.before_pooling.n_maps * n_filters * rows * columns

    def map_shape(self, shape: Shape) -> tuple[int, int]:
        """Return the rows and columns of one filter's pooled map, of which features are made up.

        Parameters and errors are those of `n_features`. Windows have maps of one row.

        Examples
        --------
        >>> from onlinels import ConvolutionalFeatures
        >>> ConvolutionalFeatures(stride=2, drop_ring=5).map_shape((28, 28))
        (10, 10)
        """
        check_image_shape(shape, self.kind, optional=False, name="shape")
        n_axes = len(self.kind.axes)
        sizes, n_channels = shape[:n_axes], (*shape, 1)[n_axes]
        filters = self._bank_for(n_channels).filters
        pooled = self._stage().pooled_shape((1, *sizes)[-2:], filters)
        if not all(pooled):
            raise ValueError(
                f"{self.kind.name.capitalize()}s of {' x '.join(map(str, sizes))} "
                f"{self.kind.pixel}s leave no pooled position with filters of size "
                f"{' x '.join(map(str, filters.shape[3 - n_axes : 3]))}. Raise padding, lower "
                f"drop_ring, or pass smaller filters; a batch has shape {self.kind.batch}."
            )
        return pooled

    def check_images(self, images: Matrix, next_dtype: str | None = None) -> int:
        """Return the number of features that images (n, height, width, n_channels) turn into.

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
        next_dtype : "float32" or "float64", optional
            Precision of what takes the features; their own by default.

        Raises
        ------
        ValueError
            If nothing is left of images of this shape, their channels do not fit the filters, or
            a pixel is so large that a power of its responses leaves the range of the precision.
        """
        n_features = self.n_features(images.shape[3 - len(self.kind.axes) :])
        self._check_largest(magnitude(images), self._bank_for(images.shape[3]), next_dtype)
        return n_features

    def _check_largest(self, largest: float, bank: FilterBank, next_dtype: str | None) -> None:
        """Raise if pixels are too large for a bank with a channel for each of theirs."""
        stage = self._stage()
        added = stage.offsets_of_groups(bank.offsets, bank.filters.shape[3])
        following = next_dtype or self.dtype
        allowed = largest_pixel(bank.filters, added, stage, self.dtype, following)
        if largest > allowed:
            narrower = "float32" if "float32" in (self.dtype, following) else "float64"
            raise ValueError(
                f"{self.kind.one.capitalize()} holds {self.kind.pixel}s as large as {largest:g}, "
                f"expected at most {allowed:g} for dtype={narrower!r} and "
                f"{self.before_pooling}. "
                "Rescale."
            )

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the features of a sample with one array, or of a dict of numbers.

        Parameters
        ----------
        x : {"image": array} or {"window": array}, or a dict of pixels if their shape is set
        """
        images = read_image(x, self._shape, self.kind)
        return output_row(self._convolve(images)[0], as_array=not images.from_pixels)

    def transform_many(self, X: Any) -> Any:
        """Return the features of a mini-batch, in the kind of `X`.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Windows are (n, length[, n_channels]). A column per pixel needs their shape.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read as images or windows of one shape that fits the filters.
        """
        images = read_images(X, self._shape, self.kind)
        return output_table(images.source, self._convolve(images), not images.from_pixels)

    def _convolve(self, images: Images) -> Matrix:
        _ = self.bank  # Raises if there is none yet.
        self.check_images(images.values)
        values = images.values.astype(DTYPES[self.dtype], copy=False)
        bank = self._bank_for(values.shape[3])
        return convolve(values, bank.filters, self._stage(), bank.offsets)
