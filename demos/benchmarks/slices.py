"""Cut rows into mini-batches."""

from __future__ import annotations


def row_slices(n_rows: int, size: int) -> list[slice]:
    """Return the slices of rows, each of so many but the last, that together are all."""
    return [slice(start, start + size) for start in range(0, n_rows, size)]
