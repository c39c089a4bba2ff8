"""Stage 1 written down literally: scipy's convolution, loops over patches, one map at a time."""

from typing import Any

import numpy as np
from scipy.signal import convolve2d

from onlinels.features.convolution import TwoSidedRectifier


def is_nothing_but_rounding(filters: np.ndarray, n_channels: int, settings: dict[str, Any]) -> bool:
    """Tell whether one number serves patches of normalised contrast: their sum is always 0."""
    joint = settings["channels"] == "joint"
    patch = filters.reshape(len(filters), -1).shape[1]
    return settings["contrast_offset"] is not None and patch == 1 and (joint or n_channels == 1)


def literal_features(
    images: np.ndarray, filters: np.ndarray, stage: Any, offsets: Any = 0.0
) -> Any:
    """Return the features of images (n, height, width, n_channels), step by step.

    Filters are (n_filters, height, width, 1 or n_channels); offsets are broadcast to
    (n_filters, n_channels), or (n_filters,) where channels are joint.
    """
    n_channels = images.shape[3]
    full = np.broadcast_to(filters, (*filters.shape[:3], n_channels))
    joint = stage.channels == "joint"
    groups = [list(range(n_channels))] if joint else [[c] for c in range(n_channels)]
    added = np.broadcast_to(offsets, (len(filters),) if joint else (len(filters), n_channels))
    added = added.reshape(len(filters), -1)
    rows = []
    for image in images:
        maps = []
        for number, group in enumerate(groups):
            responses = [
                literal_responses(image[..., group], h[..., group], stage) + offset
                for h, offset in zip(full, added[:, number], strict=True)
            ]
            for side in (1.0, -1.0)[: stage.before_pooling.n_maps]:
                maps += [literal_map(side * u, stage) for u in responses]
        row = np.concatenate(maps)
        length = np.linalg.norm(row) if stage.normalization == "image" else 1.0
        rows.append(row / (length or 1.0))
    return np.stack(rows)


def literal_responses(image: np.ndarray, h: np.ndarray, stage: Any) -> np.ndarray:
    """Return the responses of one image to one filter, summed over channels."""
    below, beside = stage.rows.padding, stage.columns.padding
    padded = np.pad(image, ((below, below), (beside, beside), (0, 0)))
    if stage.contrast_offset is None:
        return sum(
            convolve2d(padded[..., c], h[..., c], mode="valid") for c in range(image.shape[2])
        )
    height, width, _ = h.shape
    responses = np.empty((padded.shape[0] - height + 1, padded.shape[1] - width + 1))
    for row, column in np.ndindex(responses.shape):
        patch = padded[row : row + height, column : column + width]
        normal = (patch - patch.mean()) / np.sqrt(patch.var() + stage.contrast_offset)
        responses[row, column] = (normal * h[::-1, ::-1]).sum()
    return responses


def literal_map(u: np.ndarray, stage: Any) -> np.ndarray:
    """Return one map: nonlinearity, mean, nonlinearity, ring, stride, sum."""
    before, (rows, columns) = stage.before_pooling, (stage.rows, stage.columns)
    if isinstance(before, TwoSidedRectifier):
        u = np.maximum(0.0, u - before.threshold)
    else:
        u = np.abs(u) ** before.exponent
    window = np.full((rows.pool_size, columns.pool_size), 1 / rows.pool_size / columns.pool_size)
    v = convolve2d(u, window, mode="full") ** stage.after_pooling.exponent
    inner = v[
        rows.drop_ring : len(v) - rows.drop_ring : rows.stride,
        columns.drop_ring : v.shape[1] - columns.drop_ring : columns.stride,
    ].ravel()
    return inner / inner.sum() if stage.normalization == "map" and inner.sum() else inner
