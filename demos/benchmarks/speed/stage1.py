"""Measure stage 1, from images to features, against torch and against its bare matrix products.

python demos/benchmarks/speed/stage1.py
python demos/benchmarks/speed/stage1.py --quick

The script needs torch (`pip install 'onlinels[bench]'`), and checks that both compute the same
features.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import Array, Piece, compare, draw, speed_arguments, speed_parser

from onlinels import ConvolutionalFeatures

BATCH = 1000
SMALL_PRODUCT = 1 << 18
"""Most multiplications in a product that BLAS computes in the calling thread."""


@dataclass(frozen=True)
class Case:
    """A shape of images, and the settings of stage 1 for such images."""

    name: str
    image_shape: tuple[int, ...]
    n_filters: int
    pool_size: int
    stride: int
    n_images: int
    drop_ring: int = 5

    def features(self, bank: Array) -> ConvolutionalFeatures:
        """Return stage 1 with a bank of filters."""
        return ConvolutionalFeatures(
            bank,
            pool_size=self.pool_size,
            stride=self.stride,
            drop_ring=self.drop_ring,
            normalize="image",
            dtype="float32",
        )

    def bank(self) -> Array:
        """Draw the filters."""
        random = np.random.default_rng(0)
        return random.normal(size=(self.n_filters, 7, 7)).astype(np.float32)

    def images(self, n_images: int) -> Array:
        """Draw images."""
        random = np.random.default_rng(1)
        return random.random((n_images, *self.image_shape), dtype=np.float32)


CASES = (
    Case("28 x 28, 60 filters, D = 2", (28, 28), 60, 8, 2, n_images=20_000),
    Case("32 x 32 x 4, 96 filters, D = 3", (32, 32, 4), 96, 7, 3, n_images=4000),
)


def main() -> None:
    arguments = speed_arguments(speed_parser(__doc__, repeats=5))
    for case in CASES:
        measure(case, 500 if arguments.quick else case.n_images, arguments.repeats)


def measure(case: Case, n_images: int, repeats: int) -> None:
    """Time a case on batches and on single images."""
    features, images = case.features(case.bank()), case.images(n_images)
    # Torch computes correlations; the paper computes convolutions.
    kernel = torch.from_numpy(np.ascontiguousarray(case.bank()[:, None, ::-1, ::-1]))
    check_same(case, features, images[:20], kernel)
    pieces: dict[str, Piece] = {
        "bare products": Products(case, features).of(n_images),
        "onlinels": lambda: in_batches(features.transform_many, images),
        "torch": lambda: in_batches(lambda some: with_torch(case, kernel, some), images),
    }
    compare(case.name, pieces, repeats, n_images, "bare products")
    one: dict[str, Piece] = {
        "onlinels": lambda: [features.transform_one({"image": image}) for image in images[:50]],
        "torch": lambda: [with_torch(case, kernel, image[None]) for image in images[:50]],
    }
    compare(f"{case.name}, one image", one, 5 * repeats, 50, "torch")


def in_batches(function: Any, images: Array) -> None:
    for start in range(0, len(images), BATCH):
        function(images[start : start + BATCH])


def with_torch(case: Case, kernel: torch.Tensor, images: Array) -> Array:
    """Return torch's features: separate channels, average pooling."""
    height, width = case.image_shape[:2]
    channels = torch.from_numpy(images).reshape(len(images), height, width, -1).permute(0, 3, 1, 2)
    n_channels = channels.shape[1]
    with torch.no_grad():
        maps = torch.nn.functional.conv2d(channels.reshape(-1, 1, height, width), kernel)
        maps.square_()
        over = case.pool_size - 1 - case.drop_ring
        pooled = torch.nn.functional.avg_pool2d(maps, case.pool_size, case.stride, over)
        pooled.sqrt_().sqrt_()
        rows = pooled.reshape(len(images), -1)
        rows /= rows.norm(dim=1, keepdim=True)
    assert n_channels * len(images) == len(maps)
    features: Array = rows.numpy()
    return features


class Products:
    """The bare matrix products of stage 1, on tiles that stay in the cache.

    They are so small that BLAS computes them in the calling thread; all cores run them at once.
    """

    def __init__(self, case: Case, features: ConvolutionalFeatures) -> None:
        height, width, self.n_channels = (*case.image_shape, 1)[:3]
        rows, columns, n_filters = height - 6, width - 6, case.n_filters
        kept = round((features.n_features(case.image_shape) / n_filters / self.n_channels) ** 0.5)
        self.tile = SMALL_PRODUCT // (n_filters * 49 * columns)
        self.kernel, self.patches = draw(n_filters, 49), draw(rows, 49, self.tile * columns)
        self.pool_rows, self.maps = draw(kept, rows), draw(n_filters, rows, self.tile * columns)
        self.pool_columns = draw(columns, kept)
        self.pooled = draw(self.tile * kept, n_filters, columns)

    def of(self, n_images: int) -> Piece:
        """Return a function that computes the products for `n_images` images."""
        n_tiles = -(-n_images * self.n_channels // self.tile)

        n_threads = max(library["num_threads"] for library in threadpool_info())

        def work(part: int) -> None:
            for _ in range(part, n_tiles, n_threads):
                self.kernel @ self.patches
                self.pool_rows @ self.maps
                self.pooled @ self.pool_columns

        def of_all() -> None:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(work, range(n_threads)))

        return of_all


def check_same(
    case: Case, features: ConvolutionalFeatures, images: Array, kernel: torch.Tensor
) -> None:
    ours, theirs = features.transform_many(images), with_torch(case, kernel, images)
    if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-5):
        raise SystemExit(f"{case.name}: torch computes other features.")


if __name__ == "__main__":
    main()
