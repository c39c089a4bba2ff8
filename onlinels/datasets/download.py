"""Get image data sets from where they are published, checked against their checksums."""

from __future__ import annotations

import importlib
import tarfile
from pathlib import Path
from typing import Any

from onlinels.checks import check_choice, check_path
from onlinels.datasets import cifar, idx, norb, svhn

URLS = {
    "mnist": idx.MNIST_URL,
    "fashion-mnist": idx.FASHION_URL,
    "cifar10": cifar.URL,
    "svhn": svhn.URL,
    "svhn-extra": svhn.URL,
    "norb": norb.URL,
}

# The files' SHA-256 as the checksum tables of tensorflow-datasets state them.
PUBLISHED = """
mnist
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 t10k-labels-idx1-ubyte.gz

fashion-mnist
3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 train-images-idx3-ubyte.gz
a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 train-labels-idx1-ubyte.gz
346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 t10k-images-idx3-ubyte.gz
67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 t10k-labels-idx1-ubyte.gz

cifar10
c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd cifar-10-binary.tar.gz

svhn
435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8 train_32x32.mat
cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b test_32x32.mat

svhn-extra
a133a4beb38a00fcdda90c9489e0c04f900b660ce8a316a5e854838379a71eb3 extra_32x32.mat

norb
5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873 {train}-dat.mat.gz
2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa {train}-cat.mat.gz
de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32 {train}-info.mat.gz
cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474 {test}-dat.mat.gz
ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff {test}-cat.mat.gz
16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2 {test}-info.mat.gz
"""


CHECKSUMS = {
    name: dict(zip(words[1::2], words[::2], strict=True))
    for name, *words in map(str.split, PUBLISHED.format_map(norb.PARTS).split("\n\n"))
}
"""Of every data set: the names of its files, with their checksums."""


def download(name: str, folder: str | Path) -> Path:
    """Get a data set from where it is published into a folder.

    Parameters
    ----------
    name : {"mnist", "fashion-mnist", "cifar10", "svhn", "svhn-extra", "norb"}
        "svhn" has the training and the test images (0.25 GB), "svhn-extra" the extra images
        (1.3 GB), which belong into the same folder.
    folder : str or Path
        It is made if it does not exist. Files that lie there are not fetched again.

    Returns
    -------
    Path
        The folder, for `read_image_data`.

    Raises
    ------
    ImportError
        If pooch is not installed.
    TypeError
        If `folder` is no path.
    ValueError
        If the name is not known, or a file that was fetched or lies there is not the published
        one.
    OSError
        If a file cannot be fetched.

    Notes
    -----
    A file is kept only if its SHA-256 checksum is that of the published file.

    Examples
    --------
    >>> download("imagenet", "data")
    Traceback (most recent call last):
    ValueError: name='imagenet' is not known. Pass one of "mnist", "fashion-mnist", ...
    """
    check_choice("name", name, CHECKSUMS)
    folder = check_path("folder", folder)
    try:
        pooch = importlib.import_module("pooch")
    except ImportError as error:
        raise ImportError("pooch is not installed. Run: pip install 'onlinels[data]'") from error
    for file_name, checksum in CHECKSUMS[name].items():
        _fetch(pooch, URLS[name] + file_name, folder / file_name, checksum)
        if file_name == cifar.ARCHIVE:
            with tarfile.open(folder / file_name) as packed:
                members = [packed.getmember(f"cifar-10-batches-bin/{each}") for each in cifar.NAMES]
                packed.extractall(folder, members, filter="data")
    return folder


def _fetch(pooch: Any, url: str, path: Path, checksum: str) -> None:
    # pooch would write over a file that the user may have from elsewhere.
    if path.exists() and pooch.file_hash(str(path), alg="sha256") != checksum:
        raise ValueError(
            f"{path} is not the published file: its SHA-256 checksum is not {checksum}. Move it "
            f"away and repeat, or use it as it is; the published one is {url}"
        )
    try:
        pooch.retrieve(url, f"sha256:{checksum}", fname=path.name, path=path.parent)
    except ValueError as error:
        raise ValueError(f"{url} is not the published file and was not kept: {error}") from error
    except OSError as error:
        raise OSError(
            f"{url} cannot be fetched: {error}. Try again, or put the file into {path.parent}."
        ) from error
