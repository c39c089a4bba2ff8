"""The demo in its quick form, on its default data and on data in both formats of MNIST."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")
pytest.importorskip("sklearn")

DEMOS = Path(__file__).parents[1] / "demos"
NUMBER = r"\D+?([\d.]+(?:e[+-]\d+)?)"
FILE_NAMES = {
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run the demo as its user does, in `folder`."""
    strict = ["-W", "error::RuntimeWarning", "-W", "error::UserWarning"]
    command = [sys.executable, *strict, str(DEMOS / "stream_images.py"), "--quick", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=120)


def number(output: str, name: str) -> float:
    found = re.search(re.escape(name) + NUMBER, output)
    assert found, output
    return float(found[1])


def assert_is_picture(path: Path) -> None:
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    assert pixels.shape[0] > 800
    assert pixels.shape[1] > 1200
    # All four quarters have something on them.
    for half in np.array_split(pixels, 2):
        for quarter in np.array_split(half, 2, axis=1):
            assert quarter.std() > 0.05


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Digits in the format of MNIST: 28x28 unsigned bytes."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    large = np.kron(digits.images, np.ones((3, 3)))
    images = np.pad(15 * large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    return {
        "x_train": images[:500],
        "y_train": labels[:500],
        "x_test": images[500:700],
        "y_test": labels[500:700],
    }


def write_npz(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(folder / "small.npz", **arrays)
    return folder / "small.npz"


def write_idx(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    for name, array in arrays.items():
        header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
        (folder / FILE_NAMES[name]).write_bytes(gzip.compress(header + array.tobytes()))
    return folder


def test_default_data(tmp_path):
    finished = run_demo(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert number(finished.stdout, "Largest relative difference") < 1e-8
    assert number(finished.stdout, "label otherwise") == 0
    assert number(finished.stdout, "Test error") < 5
    assert re.search(r"order of appearance +([0-8] ){9}9 ", finished.stdout)
    assert_is_picture(tmp_path / "stream_images.png")


@pytest.mark.parametrize("write", [write_npz, write_idx])
def test_data_of_the_user(tmp_path, arrays, write):
    path = write(tmp_path, arrays)
    finished = run_demo(tmp_path, "--data", str(path), "--output", "story.png", "--n-hidden", "200")
    assert finished.returncode == 0, finished.stderr
    assert number(finished.stdout, "Rows learnt") == 500
    assert number(finished.stdout, "Test error") < 20
    difference = number(finished.stdout, "Largest relative difference")
    assert difference < number(finished.stdout, "rounding alone") < 1e-3
    assert_is_picture(tmp_path / "story.png")


def test_missing_data(tmp_path):
    finished = run_demo(tmp_path, "--data", "nowhere.npz")
    assert finished.returncode == 2
    assert "nowhere.npz does not exist" in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "5000"], "--batch-size is 5000, expected at most 400"),
        (["--batch-size", "401"], "--batch-size is 401, expected at most 400"),
        (["--seed", "-1"], "argument --seed"),
    ],
)
def test_arguments_that_do_not_fit(tmp_path, arguments, message):
    assert_refused(tmp_path, arguments, message)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_test": slice(0, 0), "y_test": slice(0, 0)}, "and 0 to test on"),
        ({"x_train": slice(0, 3), "y_train": slice(0, 3)}, "There are 3 images to learn"),
        ({"x_test": np.s_[:, :20]}, "shape (20, 28), expected (28, 28)"),
        ({"x_train": np.s_[:, :5, :5], "x_test": np.s_[:, :5, :5]}, "has shape (5, 5)"),
        ({"x_train": np.s_[..., None], "x_test": np.s_[..., [0, 0, 0]]}, "expected (28, 28)"),
    ],
)
def test_images_that_do_not_fit(tmp_path, arrays, changed, message):
    wrong = arrays | {name: arrays[name][part] for name, part in changed.items()}
    assert_refused(tmp_path, ["--data", str(write_npz(tmp_path, wrong))], message)


@pytest.mark.parametrize(
    ("pixel", "message"), [(np.nan, "x_train holds nan at position (7, 2, 3)"), (1e140, "as large")]
)
def test_pixels_that_do_not_fit(tmp_path, arrays, pixel, message):
    wrong = arrays | {"x_train": arrays["x_train"].astype(float)}
    wrong["x_train"][7, 2, 3] = pixel
    assert_refused(tmp_path, ["--data", str(write_npz(tmp_path, wrong))], message)


def test_mini_batches_of_half_the_stream(tmp_path):
    finished = run_demo(tmp_path, "--batch-size", "400")
    assert finished.returncode == 0, finished.stderr
    assert number(finished.stdout, "Rows learnt") == 800


def assert_refused(folder: Path, arguments: list[str], message: str) -> None:
    finished = run_demo(folder, *arguments)
    assert finished.returncode == 2, finished.stderr
    assert message in " ".join(finished.stderr.split())


def test_stream_holds_all_rows_and_the_new_class_in_its_second_half(monkeypatch, arrays):
    monkeypatch.syspath_prepend(str(DEMOS))
    import stream_images

    from onlinels.datasets import ImageData

    data = ImageData(**arrays)
    images, labels, new_class_at = stream_images.in_stream_order(data, seed=3)
    assert new_class_at == 250
    assert 9 not in labels[:250]
    assert set(labels[250:].tolist()) == set(range(10))
    rows = {(image.tobytes(), label) for image, label in zip(images, labels, strict=True)}
    expected = zip(data.x_train, data.y_train, strict=True)
    assert rows == {(image.tobytes(), label) for image, label in expected}
    assert len(labels) == len(data.y_train)
