"""The benchmark of patches as filters: what it learns and tests on, that it goes on, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("threadpoolctl")
N_TRAIN, N_TEST = 120, 40


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("patch_images")


@pytest.fixture
def here(demo, monkeypatch):
    """Measure in this process: as well, and no process has to start."""
    monkeypatch.setattr(demo, "call_alone", lambda function, *arguments: function(*arguments))


@pytest.fixture(scope="module")
def images():
    """Stripes of one of four widths and directions, with noise, and their labels."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, N_TRAIN + N_TEST).astype(np.uint8)
    frequency = np.where(labels // 2, 0.5, 1.2)[:, None]
    start = random.uniform(0, 6, (len(labels), 1))
    stripes = 80 * np.sin(np.arange(28)[None] * frequency + start)
    lying = np.where((labels % 2)[:, None, None], stripes[:, :, None], stripes[:, None])
    x = 120 + lying + random.normal(0, 20, (len(labels), 28, 28))
    return x.clip(0, 255).astype(np.uint8), labels


@pytest.fixture
def command(tmp_path, images):
    x, y = images
    parts = {"x_train": x[:N_TRAIN], "y_train": y[:N_TRAIN]}
    np.savez(tmp_path / "data.npz", x_test=x[N_TRAIN:], y_test=y[N_TRAIN:], **parts)
    files = [f"--data={tmp_path / 'data.npz'}", f"--results={tmp_path / 'r.jsonl'}"]
    return [
        *files,
        "--filters=4",
        "--n-hidden=12",
        "--warm-up=50",
        "--batch-size=40",
        "--no-progress",
    ]


def results_in(tmp_path):
    return [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]


def test_runs_are_measured_once_each_with_its_own_memory(tmp_path, demo, command, capsys):
    held = np.ones(2**27)
    assert demo.main(command) == 0
    (first,) = results_in(tmp_path)
    assert 0.05 < first["result"]["peak_memory_gib"] < held.nbytes / 2**30
    demo.call_alone = lambda function, *arguments: function(*arguments)
    capsys.readouterr()
    assert demo.main([*command, "--seeds=2"]) == 0
    results = results_in(tmp_path)
    assert results[0] == first
    assert [line["run"]["seed"] for line in results] == [0, 1]
    errors = [line["result"]["error"] for line in results]
    assert max(errors) < 0.2
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{N_TRAIN} images, {N_TEST} test images" in printed
    assert f"error: mean {np.mean(errors):.2%}, best {min(errors):.2%}" in printed
    demo.main([*command, "--seeds=2"])
    assert results_in(tmp_path) == results


@pytest.mark.parametrize(
    "option",
    [
        *("--ridge=0.02", "--warm-up=60", "--rows=100", "--filters=3", "--test-shifts=1"),
        *("--n-hidden=11", "--n-hidden=0"),
    ],
)
def test_another_setting_is_another_run(tmp_path, demo, here, command, option):
    demo.main(command)
    demo.main([*command, option])
    assert len(results_in(tmp_path)) == 2


def test_other_data_or_another_version_is_another_run(
    tmp_path, demo, here, command, images, monkeypatch
):
    import results_file

    x, y = images
    parts = {"x_test": x[N_TRAIN:], "y_test": y[N_TRAIN:]}
    demo.main(command)
    path = tmp_path / "moved" / "data.npz"
    path.parent.mkdir()
    (tmp_path / "data.npz").rename(path)
    command.append(f"--data={path}")
    demo.main(command)
    assert len(results_in(tmp_path)) == 1
    np.savez(path, x_train=x[:N_TRAIN], y_train=3 - y[:N_TRAIN], **parts)
    demo.main(command)
    assert len(results_in(tmp_path)) == 2
    monkeypatch.setattr(results_file, "__version__", "other")
    demo.main(command)
    assert [line["run"]["version"] for line in results_in(tmp_path)][2:] == ["other"]


def test_hidden_units_stand_beside_patches(demo, images, monkeypatch):
    import photograph_run

    x, y = images
    arguments = demo.make_parser().parse_args(["--data=x", "--filters=4", "--n-hidden=12"])
    settings = demo.make_settings(arguments, 3)
    run = demo.PhotographRun(settings, 50, 0.01, 40, 0, False, arguments.n_hidden)
    patches, hidden = (joint := photograph_run.fix_features(run, x[:50], y[:50])).parts
    features = joint.transform(x)
    assert features.shape == (len(x), settings.n_features((28, 28)) + 12)
    assert (features[:, :-12] == patches.transform(x)).all()
    assert (features[:, -12:] == hidden.transform(x)).all()
    np.testing.assert_allclose(hidden.transform(x[:, :, ::-1]), hidden.transform(x), rtol=1e-4)
    deviations = joint.transform(x[:50]).std(axis=0)
    np.testing.assert_allclose(deviations[-12:], 22.0, rtol=1e-3)
    np.testing.assert_allclose(np.median(deviations[:-12]), 1.0, rtol=1e-3)


def test_test_rows_are_left_alone_while_validating(tmp_path, demo, here, command, images):
    x, y = images
    path = demo.make_parser().parse_args(command).data
    data = demo.read_parts(path, 30, 60)
    assert (data.x_train == x[:60]).all()
    assert (data.y_train == y[:60]).all()
    assert (data.x_test == x[N_TRAIN - 30 : N_TRAIN]).all()
    assert (data.y_test == y[N_TRAIN - 30 : N_TRAIN]).all()
    assert len(demo.read_parts(path, 30).x_train) == N_TRAIN - 30
    assert demo.main([*command, "--validate=30"]) == 0
    (line,) = results_in(tmp_path)
    assert (line["run"]["validate"], line["run"]["images"]) == (30, [N_TRAIN - 30, 30])
    assert line["result"]["error"] < 0.2


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--validate=120"], "--validate is 120, expected less than the 120 training images"),
        (["--validate=-1"], "--validate: '-1' is no whole number of at least 0"),
        (["--validate=71"], "leaves 49 training rows, expected at least 50 for the warm-up"),
        (["--rows=49"], "Pass more rows, or --warm-up 49."),
        (["--data=nowhere.npz"], "nowhere.npz does not exist"),
        (["--filters=0"], "--filters: '0' is no whole number of at least 1"),
        (["--rows=0"], "--rows: '0' is no whole number of at least 1"),
        (["--seeds=0"], "--seeds: '0' is no whole number of at least 1"),
        (["--warm-up=0"], "--warm-up: '0' is no whole number of at least 1"),
        (["--ridge=0"], "--ridge: '0' is no number above 0"),
        (["--ridge=nan"], "--ridge: 'nan' is no number above 0"),
        (["--test-shifts=28"], "--test-shifts is 28, expected 0 to 27 pixels"),
    ],
)
def test_what_cannot_be_run_is_refused(demo, command, capsys, extra, message):
    with pytest.raises(SystemExit) as ended:
        demo.main([*command, *extra])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_images_too_small_for_the_windows_are_refused(tmp_path, demo, command, capsys):
    x, y = np.zeros((80, 8, 8), dtype=np.uint8), np.arange(80) % 2
    np.savez(tmp_path / "small.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(SystemExit) as ended:
        demo.main([*command, f"--data={tmp_path / 'small.npz'}"])
    assert ended.value.code == 2
    assert "leave no pooled position" in capsys.readouterr().err
