"""Download published image data sets, and verify their checksums."""

from __future__ import annotations

import importlib
import tarfile
from pathlib import Path
from typing import Any

from onlinels.checks import check_choice, check_path
from onlinels.datasets import cifar
from onlinels.datasets.reading import PUBLISHED


def download(name: str, folder: str | Path) -> Path:
    """Download a published data set into a folder.

    Parameters
    ----------
    name : {"mnist", "fashion-mnist", "cifar10", "svhn", "svhn-extra", "norb"}
        Name of the data set. "svhn" has the training and the test images (0.25 GB), "svhn-extra"
        the extra images (1.3 GB), which belong in the same folder.
    folder : str or Path
        Folder for the files, created if it does not exist. Existing files are not downloaded again.

    Returns
    -------
    Path
        The folder, as an argument for `read_image_data`.

    Raises
    ------
    ImportError
        If pooch is not installed.
    TypeError
        If `folder` is not a path.
    ValueError
        If the name is unknown, or a downloaded or existing file differs from the published file.
    OSError
        If a file cannot be downloaded.

    Notes
    -----
    A file is kept only if its SHA-256 checksum is that of the published file.

    Examples
    --------
    >>> download("imagenet", "data")
    Traceback (most recent call last):
    ValueError: name='imagenet' is not known. Pass one of "mnist", "fashion-mnist", ...
    """
    check_choice("name", name, PUBLISHED)
    folder = check_path("folder", folder)
    try:
        pooch = importlib.import_module("pooch")
    except ImportError as error:
        raise ImportError("pooch is not installed. Run: pip install 'onlinels[data]'") from error
    url, checksums = PUBLISHED[name]
    for file_name, checksum in checksums.items():
        _fetch(pooch, url + file_name, folder / file_name, checksum)
        if file_name == cifar.ARCHIVE:
            with tarfile.open(folder / file_name) as packed:
                names = [f"cifar-10-batches-bin/{each}" for each in cifar.CIFAR.names]
                packed.extractall(folder, list(map(packed.getmember, names)), filter="data")
    return folder


def _fetch(pooch: Any, url: str, path: Path, checksum: str) -> None:
    # pooch would overwrite a file that the user may have from elsewhere.
    if path.exists() and pooch.file_hash(str(path), alg="sha256") != checksum:
        expected = f"the published file {url} (SHA-256 {checksum})"
        raise ValueError(f"{path} is not {expected}. Move it to another folder, or delete it.")
    try:
        pooch.retrieve(url, f"sha256:{checksum}", fname=path.name, path=path.parent)
    except OSError as error:
        remedy = f"Try again, or put the file into {path.parent}."
        raise OSError(f"{url} cannot be downloaded: {error}. {remedy}") from error
