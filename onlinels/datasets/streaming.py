"""Image data sets in mini-batches, without holding the whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onlinels.datasets.folder import PARTS, open_part, refuse_extra
from onlinels.datasets.npz import read_npz
from onlinels.datasets.source import Batch, batches_of, slices_of
from onlinels.settings import check_choice, check_count, check_path


def stream_image_data(
    path: str | Path, batch_size: int, part: str = "train", *, extra: bool | None = None
) -> Iterator[Batch]:
    """Read an image data set in mini-batches, in the order of its files.

    Parameters
    ----------
    path : str or Path
        A folder or an .npz file as of `read_image_data`.
    batch_size : int
        Images of a mini-batch; the last one may be smaller.
    part : {"train", "test"}
        Which images.
    extra : bool, optional
        Of SVHN only, as of `read_image_data`.

    Returns
    -------
    iterator over (images, labels)
        Put together they are the arrays that `read_image_data` returns.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    FileNotFoundError
        If the path or one of the files does not exist.
    ValueError
        If an argument is wrong, a file is damaged, images and labels differ in number, or the
        folder holds more than one data set: at once where a header or a size tells it; while
        reading where only the content does, as of a gzipped file that is cut short.

    Notes
    -----
    Memory: one or two mini-batches and the labels, whether the files are compressed or not; the
    arrays of an .npz file are read whole.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     arrays = {"x_train": np.ones((5, 8, 8)), "y_train": [3, 1, 4, 1, 5]}
    ...     np.savez(f"{folder}/data.npz", x_test=np.ones((0, 8, 8)), y_test=[], **arrays)
    ...     [labels.tolist() for _, labels in stream_image_data(f"{folder}/data.npz", 2)]
    [[3, 1], [4, 1], [5]]
    """
    batch_size = check_count("batch_size", batch_size, 1)
    check_choice("part", part, PARTS)
    path = check_path("path", path)
    if path.is_dir():
        return batches_of(open_part(path, part, extra), batch_size)
    refuse_extra(extra, path)
    return slices_of(*read_npz(path, part), batch_size)
