"""The benchmark of probabilities measures few images too, and refuses others before it begins."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("probabilities")


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    y = np.arange(350, dtype=np.uint8) % 3
    x = random.integers(0, 30, (3, 28, 28), dtype=np.uint8)[y]
    return {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2]}


def run(demo, monkeypatch, folder, data, *arguments):
    np.savez(folder / "mnist.npz", **data)
    command = ["--data", str(folder / "mnist.npz"), "--output", str(folder / "picture.png")]
    monkeypatch.setattr("sys.argv", ["probabilities.py", *command, "--n-hidden", "5", *arguments])
    demo.main()


@pytest.mark.parametrize(
    ("arguments", "predicted"),
    [(["--quick"], 225), (["--images", "2"], 1), (["--images", "7"], 6)],
)
def test_few_images_are_measured(demo, monkeypatch, tmp_path, data, arguments, predicted):
    monkeypatch.setattr(demo, "STREAMS", {})
    drawn = []
    draw = demo.draw
    monkeypatch.setattr(demo, "draw", lambda *given: drawn.extend(given[0]) or draw(*given))
    run(demo, monkeypatch, tmp_path, data, *arguments)
    assert [len(measured.sure) for measured in drawn[0].kinds.values()] == [predicted] * 4
    assert (tmp_path / "picture.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nope.npz"], "nope.npz does not exist"),
        (["--output", "missing/picture.png"], "missing"),
        (["--images", "1"], "expected at least 2"),
        (["--images", "0"], "--images"),
        (["--n-hidden", "0"], "--n-hidden"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(
    demo, monkeypatch, tmp_path, data, capsys, arguments, message
):
    monkeypatch.setattr(demo, "run_stream", lambda *_: pytest.fail("measured"))
    with pytest.raises(SystemExit) as raised:
        run(demo, monkeypatch, tmp_path, data, *arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda x: x[:, :20], "shape (20, 28), expected (28, 28)"),
        (lambda x: np.where(x > 20, np.nan, x), "x_train holds nan"),
        (lambda x: x * 1j, "dtype complex128"),
    ],
)
def test_images_that_do_not_fit_are_refused(
    demo, monkeypatch, tmp_path, data, capsys, changed, message
):
    monkeypatch.setattr(demo, "run_stream", lambda *_: pytest.fail("measured"))
    with pytest.raises(SystemExit):
        run(demo, monkeypatch, tmp_path, data | {"x_train": changed(data["x_train"])})
    assert message in capsys.readouterr().err
