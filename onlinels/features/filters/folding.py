"""Whitening of patches, folded into the filters that whitened patches would meet."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.features.contrast import normalize_contrast
from onlinels.features.filters.bank import FilterBank, Recipe
from onlinels.features.filters.patch_sampling import check_size, choose, sample_patches
from onlinels.features.whitening import Whitening, fit_whitening
from onlinels.settings import check_count, check_flag, check_positive

SAMPLE_BYTES = 1 << 28
"""Float64 bytes of the patches that a whitening is fitted to (256 MiB)."""


@dataclass(frozen=True)
class FoldedRecipe(Recipe):
    """What recipes of whitened patches share; WhitenedPatches explains the settings.

    A filter responds to a patch as a direction d of unit length does to the whitened patch; which
    directions they are, a recipe says.
    """

    n_filters: int = 100
    size: int = 6
    variance_offset: float = 0.1
    n_sample: int = 100_000
    keep_mean: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_count("n_filters", self.n_filters, 1)
        check_count("size", self.size, 1)
        check_positive("variance_offset", self.variance_offset)
        check_count("n_sample", self.n_sample, self.n_filters)
        check_flag("keep_mean", self.keep_mean)

    def make(
        self,
        images: Matrix,
        labels: Any,
        random: np.random.Generator,
        joint: bool = False,
        contrast_offset: float | None = None,
    ) -> FilterBank:
        """Return the bank made from images (n, height, width, n_channels); labels do not count.

        Raises
        ------
        ValueError
            If the images are smaller than the patches, or the patches are to keep a mean that
            the contrast offset takes from all that the filters will meet.
        """
        check_size(images.shape[1:], self.size)
        self.check_contrast(contrast_offset)
        bound = SAMPLE_BYTES // (8 * images.shape[3] * self.size**2)
        n_patches = min(self.n_sample, max(self.n_filters, bound))
        patches = sample_patches(images, self.size, n_patches, random)
        chosen = choose(patches, self.n_filters, random, joint)
        parts = [patches] if joint else np.split(patches, patches.shape[3], axis=3)
        made = [
            self._fold(self._brought_to_contrast(part, contrast_offset), chosen) for part in parts
        ]
        shape = (self.n_filters, *parts[0].shape[1:])
        filters = np.concatenate([weights.reshape(shape) for weights, _ in made], axis=3)
        offsets = np.stack([offset for _, offset in made], axis=1)
        return FilterBank(filters[:, ::-1, ::-1], offsets if len(made) > 1 else offsets[:, 0])

    def bound(self, largest: float, n_channels: int, normalised: bool) -> FilterBank:
        """Return filters as long as the whitening lets them be, and their largest offsets.

        Directions have length 1 and the whitening amplifies by at most 1/sqrt(variance_offset).
        """
        shape = (self.n_filters, self.size, self.size, 1)
        longest = self.size * float(np.sqrt(n_channels)) * (1.0 if normalised else 2.0 * largest)
        gain = 1.0 / float(np.sqrt(self.variance_offset))
        return FilterBank(np.full(shape, gain), np.full(self.n_filters, gain * longest))

    def _brought_to_contrast(self, patches: Floats, contrast_offset: float | None) -> Floats:
        """Return patches (n, size, size, n_channels) as rows, as the filters will meet them."""
        rows = patches.reshape(len(patches), -1)
        return rows if self.keep_mean else normalize_contrast(rows, contrast_offset)

    def _fold(self, rows: Floats, chosen: Integers) -> tuple[Floats, Floats]:
        """Return weights and offsets such that row . weight + offset = d . whitened row."""
        whitening = fit_whitening(rows, self.variance_offset)
        directions = self._directions(rows, whitening, chosen)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        lengths[lengths == 0.0] = 1.0
        weights = (directions / lengths) @ whitening.matrix
        if not self.keep_mean:
            # Rows have no mean and do not see the weights', which is nothing but rounding errors.
            weights -= weights.mean(axis=1, keepdims=True)
        return weights, -(weights @ whitening.mean)

    @abstractmethod
    def _directions(self, rows: Floats, whitening: Whitening, chosen: Integers) -> Floats:
        """Return directions (n_filters, n_values) in whitened space, of any length."""
