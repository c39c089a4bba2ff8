"""The benchmark of distorted copies: what it learns and tests on, and that it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onlinels import Distortion, FilterBank

pytest.importorskip("rich")
FOLDER = Path(__file__).parent.parent / "demos" / "benchmarks"


@pytest.fixture
def runs(load_benchmark):
    return load_benchmark("distorted_runs")


@pytest.fixture
def demo(runs, load_benchmark):
    return load_benchmark("distorted_images")


@pytest.fixture
def data(tmp_path):
    """Write 8x8 digits as images of 28x28 bytes."""
    images, labels = load_digits(return_X_y=True)
    large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3))).astype(np.uint8) * 15
    x = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    parts = {"x_train": x[:300], "y_train": labels[:300]}
    np.savez(tmp_path / "mnist.npz", x_test=x[300:400], y_test=labels[300:400], **parts)
    return tmp_path / "mnist.npz"


@pytest.fixture
def command(data, tmp_path):
    sizes = ["--n-hidden=120", "--warm-up=60", "--copies=1", "--batch-size=100", "--ridge=1e-5"]
    return [f"--data={data}", *sizes, "--seeds=2", f"--results={tmp_path / 'r.jsonl'}"]


def test_runs_are_measured_once(tmp_path, demo, command, capsys):
    demo.main([*command[:-2], "--seeds=1", command[-1]])
    demo.call_alone = lambda function, *arguments: function(*arguments)
    assert demo.main(command) == 0
    shown = capsys.readouterr().out
    assert "300 images and 1 copies of each, 100 test images" in shown
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    assert [result["run"]["seed"] for result in results] == [0, 1]
    errors = [result["result"]["error"] for result in results]
    assert max(errors) < 0.25
    assert f"mean {np.mean(errors):.3%}, best {min(errors):.3%}" in shown
    demo.main(command)
    assert (tmp_path / "r.jsonl").read_text().splitlines() == lines


def test_other_data_of_the_same_name_are_other_runs(tmp_path, demo, command, data, capsys):
    demo.call_alone = lambda function, *arguments: {
        "error": 0.5,
        "seconds": {"all": 1.0},
        "peak_memory": 1.0,
    }
    with np.load(data) as arrays:
        read = dict(arrays)
    one_fewer = {name: rows[:-1] if "test" in name else rows for name, rows in read.items()}
    changed = read | {"x_train": 255 - read["x_train"]}
    for place, arrays, n_expected in (
        (tmp_path, read, 1),
        (tmp_path / "moved", read, 1),
        (tmp_path / "fewer", one_fewer, 2),
        (tmp_path / "changed", changed, 3),
        (tmp_path, changed, 3),
    ):
        place.mkdir(exist_ok=True)
        np.savez(place / "mnist.npz", **arrays)
        demo.main([*command, "--seeds=1", f"--data={place / 'mnist.npz'}"])
        assert n_lines(tmp_path / "r.jsonl") == n_expected
    last = json.loads((tmp_path / "r.jsonl").read_text().splitlines()[1])["run"]
    assert (last["data"], last["images"]) == ("mnist", [300, 99])


def n_lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
@pytest.mark.usefixtures("interrupts_heeded")
def test_a_command_goes_on_after_it_was_interrupted(tmp_path, command):
    script = [sys.executable, str(FOLDER / "distorted_images.py"), *command, "--seeds=1000"]
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent.parent)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    results = tmp_path / "r.jsonl"
    for wait in (0.0, 0.3, 0.8, 1.5):
        n_before = n_lines(results)
        with subprocess.Popen(script, env=environment, start_new_session=True, **pipes) as process:
            while n_lines(results) == n_before:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
            time.sleep(wait)
            # As Ctrl-C does: to every process of the terminal.
            os.killpg(process.pid, signal.SIGINT)
            try:
                _, printed = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 130
        assert printed == "Interrupted. The same command goes on from here.\n"
    seeds = [json.loads(line)["run"]["seed"] for line in results.read_text().splitlines()]
    assert seeds == list(range(len(seeds)))


def run_of(demo, command, *extra):
    return demo.make_run(demo.make_parser().parse_args([*command, *extra]), 0)


def test_the_same_seed_gives_the_same_error_and_distortions_count(demo, runs, command):
    run = run_of(demo, command, "--shift=6")
    first, again = runs.run_here(run), runs.run_here(run)
    assert first["error"] == again["error"]
    stages = ["warm_up", "features", "learning", "distorting", "solving", "testing", "all"]
    assert list(first["seconds"]) == stages
    assert run.distortion["shift"] == 6.0
    known = demo.parts_key(Path("mnist.npz"), runs.read_rows(run))
    assert run.key(known) != run_of(demo, command).key(known)
    assert run.key(known) == replace(run, path="elsewhere").key(known)


def test_features_are_as_asked(demo, runs, command):
    x = np.random.default_rng(0).integers(0, 256, (60, 28, 28), dtype=np.uint8)
    y = np.arange(60) % 3
    options = (
        *([], ["--pooling=box"], ["--normalize=map"], ["--normalize=none"]),
        *(["--stride=3"], ["--deskew"]),
    )
    made = [run_of(demo, command, *extra) for extra in options]
    layers = [runs.make_layers(x, y, run) for run in made]
    features = [each.features for each in layers]
    assert [each.pooling == "box" for each in features] == [False, True, *[False] * 4]
    assert [each.normalize for each in features] == ["image", "image", "map", False, *["image"] * 2]
    assert [each.stride for each in features] == [2, 2, 2, 2, 3, 2]
    assert [each.preprocessing.deskew for each in layers] == [*[False] * 5, True]
    keys = [json.dumps(run.key({})) for run in made]
    assert len(set(keys)) == len(keys)


def test_seconds_are_shown_in_tenths(demo, runs, command):
    result = {"error": 0.25, "seconds": {"learning": 0.26}, "peak_memory": 1.0}
    (_, seconds, _) = zip(*(column.cells for column in demo.table([result]).columns), strict=True)
    assert seconds == ("learning, s", "0.3")


def test_test_rows_are_left_alone_while_validating(demo, runs, command, data):
    with np.load(data) as arrays:
        x, y = arrays["x_train"], arrays["y_train"]
    read = runs.read_rows(run_of(demo, command, "--validate=50", "--rows=100"))
    assert (read.x_train == x[:100]).all()
    assert (read.y_train == y[:100]).all()
    assert (read.x_test == x[250:]).all()
    assert (read.y_test == y[250:]).all()
    assert len(runs.read_rows(run_of(demo, command, "--validate=50")).x_train) == 250
    assert len(runs.read_rows(run_of(demo, command)).x_test) == 100
    assert run_of(demo, command, "--validate").held_out == 10_000


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--validate"], "--validate is 10000, expected less than the 300 training images"),
        (["--rows=59"], "leaves 59 training rows, expected at least 60 for the warm-up"),
        (["--data=nowhere.npz"], "nowhere.npz does not exist"),
        (["--ridge=0"], "--ridge: '0' is no number above 0"),
        (["--test-shifts=28"], "--test-shifts is 28, expected 0 to 27 pixels"),
        (["--rotation=-1"], "rotation=-1.0 must be from 0 to 180"),
        (["--elastic-smoothness=0"], "elastic_smoothness=0"),
    ],
)
def test_what_cannot_be_run_is_refused(demo, command, capsys, extra, message):
    with pytest.raises(SystemExit):
        demo.main([*command, *extra])
    assert message in capsys.readouterr().err


def test_images_too_small_for_the_filters_are_refused(tmp_path, demo, command, capsys):
    x, y = np.zeros((80, 8, 8), dtype=np.uint8), np.arange(80) % 2
    np.savez(tmp_path / "small.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(SystemExit):
        demo.main([*command, f"--data={tmp_path / 'small.npz'}"])
    assert "Images of 8 x 8 pixels leave no pooled position" in capsys.readouterr().err


def test_images_come_first_and_then_their_copies(runs):
    images = np.random.default_rng(0).random((3, 8, 8))
    distortion, watch = Distortion(shift=2.0), runs.Stopwatch()
    random = np.random.default_rng(1)
    first, *copies = runs.with_copies(images, distortion, 2, random, watch)
    assert first is images
    assert len(copies) == 2
    assert (copies[0] != copies[1]).any()
    assert list(runs.with_copies(images, distortion, 0, random, watch))[1:] == []


def test_views_are_shifted_four_ways(runs):
    image = np.zeros((1, 5, 5, 2))
    image[0, 2, 2] = 1.0
    places = [tuple(np.argwhere(view[0, :, :, 0])[0]) for view in runs.shifted(image, 1)]
    assert sorted(places) == [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)]
    assert places[0] == (2, 2)
    assert len(list(runs.shifted(image, 0))) == 1
    corner = np.zeros((1, 3, 3))
    corner[0, 0, 0] = 1.0
    sums = {fill: sum(runs.shifted(corner, 1, fill)).sum() for fill in ("zero", "edge")}
    assert sums == {"zero": 3.0, "edge": 5.0}


def test_averaging_over_shifts_classifies_too(demo, runs, command):
    assert runs.run_here(run_of(demo, command, "--test-shifts=1"))["error"] < 0.3


def test_filters_get_length_1(runs):
    filters = np.random.default_rng(0).normal(size=(3, 4, 4, 1))
    filters[1] = 0.0
    made = runs.of_unit_length(FilterBank(filters, np.zeros(3))).filters
    np.testing.assert_allclose((made**2).sum(axis=(1, 2, 3)), [1.0, 0.0, 1.0])
    np.testing.assert_allclose(made[0] * np.linalg.norm(filters[0]), filters[0])
