"""The benchmark on MNIST: the preset with what is given overridden, and the error it reports."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from onlinels import ShallowConvClassifier

pytest.importorskip("rich")


@pytest.fixture
def asked():
    return []


@pytest.fixture
def demo(load_benchmark, monkeypatch, asked):
    """Load the script with a short warm-up, and write down what it asks the preset for."""
    module = load_benchmark("images")

    def from_preset(name, **settings):
        asked.append({"preset": name} | settings)
        return ShallowConvClassifier.from_preset(name, **{"warm_up": 30} | settings)

    monkeypatch.setattr(module, "ShallowConvClassifier", SimpleNamespace(from_preset=from_preset))
    return module


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    patterns = random.integers(0, 30, (3, 28, 28), dtype=np.uint8)
    y = np.arange(60, dtype=np.uint8) % 3
    x = patterns[y] + random.integers(0, 226, (60, 28, 28), dtype=np.uint8)
    return {"x_train": x[:45], "y_train": y[:45], "x_test": x[45:], "y_test": y[45:]}


@pytest.fixture
def command(tmp_path, data):
    np.savez(tmp_path / "mnist.npz", **data)
    return [f"--data={tmp_path / 'mnist.npz'}", "--batch-size=20", "--no-progress"]


def expected_error(data, **settings):
    model = ShallowConvClassifier.from_preset("mnist", warm_up=30, **settings)
    model.learn_many(data["x_train"], data["y_train"])
    return float(np.mean(model.predict_many(data["x_test"]) != data["y_test"]))


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], {}),
        (
            ["--set=pooling=gaussian", "--set=normalize=map"],
            {"pooling": "gaussian", "normalize": "map"},
        ),
        (["--set=deskew=True", "--set=pool_size=6"], {"deskew": True, "pool_size": 6}),
    ],
)
def test_options_override_the_preset(demo, asked, data, command, capsys, options, settings):
    demo.main([*command, "--n-hidden=20", "--seeds=2", *options])
    given = {"n_hidden": 20} | settings
    assert asked == [{"preset": "mnist"} | given | seed for seed in ({}, {"seed": 0}, {"seed": 1})]
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.endswith(", ".join(f"{name}={value}" for name, value in given.items()))
    errors = [100 * expected_error(data, seed=seed, **given) for seed in (0, 1)]
    assert last == f"test error: mean {np.mean(errors):.2f}%, best {min(errors):.2f}%"


def test_the_defaults_are_those_of_the_published_figures(demo):
    arguments = demo.make_parser().parse_args(["--data=x"])
    assert (arguments.n_hidden, arguments.set, arguments.seeds) == (6400, [], 1)


def test_test_images_are_left_alone_while_validating(demo, data, command, capsys):
    demo.main([*command, "--n-hidden=20", "--validate=15"])
    held_out = {
        "x_train": data["x_train"][:30],
        "y_train": data["y_train"][:30],
        "x_test": data["x_train"][30:],
        "y_test": data["y_train"][30:],
    }
    error = 100 * expected_error(held_out, seed=0, n_hidden=20)
    assert capsys.readouterr().out.strip().endswith(f"test error {error:.2f}%")


def test_just_enough_rows_for_the_warm_up_are_enough(demo, command, capsys):
    demo.main([*command, "--n-hidden=20", "--set=warm_up=45"])
    assert "GiB so far; test error" in capsys.readouterr().out


def test_images_of_another_shape_are_refused(tmp_path, demo, data, command, capsys):
    small = {name: rows[:, 1:] if rows.ndim > 1 else rows for name, rows in data.items()}
    np.savez(tmp_path / "mnist.npz", **small)
    with pytest.raises(SystemExit) as ended:
        demo.main(command)
    assert ended.value.code == 2
    assert "27" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--data=nowhere.npz"], "nowhere.npz does not exist"),
        (["--n-hidden=0"], "--n-hidden: '0' is no whole number of at least 1"),
        (["--seeds=0"], "--seeds: '0' is no whole number of at least 1"),
        (["--set=pooled=round"], "'pooled=round' is not NAME=VALUE"),
        (["--set=pooling=foo"], "pooling='foo'"),
        (["--set=warm_up=few"], "warm_up='few' must be an int"),
        (["--set=pool_size=-1"], "pool_size=-1"),
        (["--set=dtype=[]"], "dtype=[]"),
        (
            ["--validate=16"],
            "mnist.npz leaves 29 training rows, expected at least 30 for the warm-up. "
            "Hold out fewer, or pass --set warm_up=29.",
        ),
        (["--set=warm_up=46"], "leaves 45 training rows, expected at least 46"),
        (["--validate=45"], "--validate is 45, expected less than the 45 training images"),
    ],
)
def test_what_cannot_be_run_is_refused(demo, command, capsys, extra, message):
    with pytest.raises(SystemExit) as ended:
        demo.main([*command, *extra])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
