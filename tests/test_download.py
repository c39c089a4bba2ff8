"""Data sets are fetched once, checked and unpacked; no test goes further than this machine."""

import hashlib
import importlib
import io
import sys
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from onlinels.datasets import download, read_image_data
from support.image_files import CIFAR_FOLDER, make_data, write

module = importlib.import_module("onlinels.datasets.download")
FORMATS_OF = {"mnist": "idx", "fashion-mnist": "idx", "cifar10": "cifar", "svhn": "svhn"}
FORMATS_OF["norb"] = "norb"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def published(tmp_path):
    """Serve a folder on this machine; return it, its address and the requests made."""
    folder = tmp_path / "published"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def publish(name, folder, url, monkeypatch):
    """Put a small data set there under the names of the real one, with its own checksums."""
    kind = FORMATS_OF[name]
    data = make_data(kind, 5, 2, 0)
    write(kind, folder, data, zipped=kind != "cifar")
    if kind == "cifar":
        pack(folder)
    checksums = {
        file_name: hashlib.sha256((folder / file_name).read_bytes()).hexdigest()
        for file_name in module.PUBLISHED[name][1]
    }
    monkeypatch.setitem(module.PUBLISHED, name, (url, checksums))
    return data


def pack(folder):
    """Pack the files of CIFAR-10 as they are published, with a name that leads outside."""
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for path in sorted(folder.glob("*.bin")):
            archive.add(path, f"{CIFAR_FOLDER}/{path.name}")
        outside = tarfile.TarInfo("../outside.bin")
        outside.size = 3
        archive.addfile(outside, io.BytesIO(b"bad"))


@pytest.mark.parametrize("name", FORMATS_OF)
def test_a_download_reads_as_it_was_published(tmp_path, name, published, monkeypatch):
    folder, url = published
    data = publish(name, folder, url, monkeypatch)
    for _ in range(2):
        path = download(name, tmp_path / "new" / "own")
        assert path == tmp_path / "new" / "own"
        read = read_image_data(path)
        np.testing.assert_array_equal(read.x_train, data.x_train)
        np.testing.assert_array_equal(read.y_test, data.y_test)
        # The second time nothing is left to fetch.
        for each in folder.iterdir():
            each.unlink()
    assert not list(tmp_path.rglob("outside.bin"))


def test_files_cut_short_while_unpacking_are_unpacked_again(tmp_path, published, monkeypatch):
    data = publish("cifar10", *published, monkeypatch)
    download("cifar10", tmp_path / "own")
    cut = tmp_path / "own" / CIFAR_FOLDER / "test_batch.bin"
    cut.write_bytes(cut.read_bytes()[:3073])
    read = read_image_data(download("cifar10", tmp_path / "own"))
    np.testing.assert_array_equal(read.x_test, data.x_test)


def test_another_file_than_the_published_one_is_not_kept(tmp_path, published, monkeypatch):
    folder, url = published
    publish("mnist", folder, url, monkeypatch)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"not what was published")
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte\.gz\) does not match"):
        download("mnist", tmp_path / "own")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["train-images-idx3-ubyte.gz"]


def test_a_file_that_lies_there_is_not_written_over(tmp_path, published, monkeypatch):
    publish("mnist", *published, monkeypatch)
    own = tmp_path / "t10k-images-idx3-ubyte.gz"
    own.write_bytes(b"from elsewhere")
    with pytest.raises(ValueError, match=r"t10k-images.* is not the published file.*Move it"):
        download("mnist", tmp_path)
    assert own.read_bytes() == b"from elsewhere"


def test_a_file_that_cannot_be_fetched_is_named(tmp_path, published, monkeypatch):
    folder, url = published
    publish("norb", folder, url, monkeypatch)
    for path in folder.glob("*training-cat*"):
        path.unlink()
    with pytest.raises(OSError, match=r"training-cat\.mat\.gz cannot be downloaded.*put the file"):
        download("norb", tmp_path)


def test_without_pooch_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'onlinels\[data\]'"):
        download("mnist", tmp_path)
