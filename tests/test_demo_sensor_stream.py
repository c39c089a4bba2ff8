"""The demo of sensors: it runs on the watch and on gases, and its parts do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")
pytest.importorskip("rich")
DEMOS = Path(__file__).parents[1] / "demos"
sys.path.insert(0, str(DEMOS))
try:
    import sensor_stream_data as data
    import sensor_stream_gas as gas
    import sensor_stream_plot as plot
    import sensor_stream_watch as watch
finally:
    sys.path.remove(str(DEMOS))

GAS_DATA = os.environ.get("ONLINELS_GAS_DATA")
PERCENT = re.compile(r"([\d.]+)%")


def run_demo(folder, *arguments):
    """Run the demo as its user does, in `folder`."""
    strict = ["-W", "error::RuntimeWarning", "-W", "error::UserWarning"]
    command = [sys.executable, *strict, str(DEMOS / "sensor_stream.py"), *arguments]
    environment = os.environ | {"COLUMNS": "120"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=300
    )


def shares(output, name):
    """Return the percentages in the line of a table that starts with a name."""
    found = re.search(rf"^ *{re.escape(name)}\b.*%.*$", output, re.MULTILINE)
    assert found, output
    return [float(share) for share in PERCENT.findall(found[0].strip().removeprefix(name))]


def ageing_sensors(n_rows=400, seed=0):
    """Make rows of four gases in batches; sensors lose their gain and their order by and by."""
    rng = np.random.default_rng(seed)
    labels, batches = np.sort(rng.integers(0, 4, (4, n_rows)), axis=1), np.array([1, 2, 4, 11])
    sensors = rng.normal(0.0, 1.0, (2, 4, data.N_VALUES))
    age = np.linspace(0.0, 1.0, 4)[:, None, None]
    logarithms = ((1 - age) * sensors[0][labels] + age * sensors[1][labels]) / 3.0
    values = np.exp(8.0 + logarithms + rng.normal(0.0, 0.3, logarithms.shape))
    flat = values.reshape(-1, data.N_VALUES)
    return {"x": flat, "y": labels.ravel().astype(np.uint8), "batch": np.repeat(batches, n_rows)}


def test_the_watch_in_its_quick_form(tmp_path):
    pytest.importorskip("sktime")
    done = run_demo(tmp_path, "--quick", "--out", "pictures")
    assert done.returncode == 0, done.stderr
    windowed, single = (shares(done.stdout, each)[0] for each in ("MiniRocket", "single readings"))
    assert windowed > max(single, 80.0)
    assert_is_picture(tmp_path / "pictures" / "sensor_stream_watch.png")


def test_gases_while_sensors_age(tmp_path):
    np.savez(tmp_path / "gas.npz", **ageing_sensors())
    done = run_demo(tmp_path, "--data", ".", "--quick")
    assert done.returncode == 0, done.stderr
    once, *online = shares(done.stdout, "after 1-2")
    assert len(online) == 3
    assert min(online) > once + 10.0
    assert "batch 11" in done.stdout
    assert_is_picture(tmp_path / "sensor_stream_gas.png")


@pytest.mark.skipif(not GAS_DATA, reason="ONLINELS_GAS_DATA names no folder with the gas sensors")
def test_the_real_gas_sensors(tmp_path):
    done = run_demo(tmp_path, "--data", GAS_DATA)
    assert done.returncode == 0, done.stderr
    once, exact, fading, stream = shares(done.stdout, "after 1-2")
    assert once < 80.0
    assert min(exact, fading, stream) > 97.0
    assert fading > exact


def assert_is_picture(path):
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    assert pixels.shape[0] > 800
    assert pixels.shape[1] > 1200
    assert all(half.std() > 0.05 for half in np.array_split(pixels, 2))


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 50))
def test_moving_accuracy_is_the_mean_of_the_last_hits(hits, window):
    literal = [np.mean(hits[max(0, k + 1 - window) : k + 1]) for k in range(len(hits))]
    np.testing.assert_allclose(plot.moving_accuracy(np.array(hits), window), literal)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 0.3))
def test_labels_are_moved_apart_and_only_down(places, gap):
    moved = np.array(plot.apart(sorted(places), gap))
    assert (np.diff(moved) >= gap - 1e-12).all()
    assert (moved <= np.sort(places)).all()


def test_the_watch_brings_every_recording_once():
    pytest.importorskip("sktime")
    recordings = data.read_watch(None, seed=0)
    assert recordings.readings.shape == (80, 100, 6)
    assert np.unique(recordings.labels, return_counts=True)[1].tolist() == [20] * 4
    assert len(np.unique(recordings.readings.reshape(80, -1), axis=0)) == 80
    again = data.read_watch(7, seed=0)
    np.testing.assert_array_equal(again.readings, recordings.readings[:7])
    assert recordings.rows(3)[5]["ay"] == recordings.readings[3, 5, 1]


def test_without_sktime_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sktime.datasets", None)
    with pytest.raises(ModuleNotFoundError, match="pip install 'sktime"):
        data.read_watch(None, seed=0)


class Notes:
    """In the place of a windowed classifier: notes what it is told, and answers the count."""

    def __init__(self):
        self.told = []

    def predict_one(self, x):
        return len(self.told)

    def observe_one(self, x):
        self.told.append(x["ax"])

    def restart(self):
        self.told.append("restart")


def test_answers_come_before_their_reading_is_taken_in():
    notes = Notes()
    rows = [{"ax": float(k)} for k in range(20)]
    assert watch.listen(notes, rows) == list(range(watch.WINDOW - 1, 20))
    assert notes.told == [*range(20), "restart"]


def test_windows_are_those_that_the_model_learns():
    readings = np.random.default_rng(0).normal(size=(100, 6))
    recordings = data.Recordings(np.stack([readings] * 4), np.array(["run"] * 4))
    (model, *_) = watch.make_models(recordings).values()
    for row in recordings.rows(0):
        model.learn_one(row, "run")
    assert model.n_windows == len(watch.cut(readings)) == 22
    np.testing.assert_array_equal(watch.cut(readings)[3], readings[12:28])


def write_texts(folder, arrays, concentration):
    for number in np.unique(arrays["batch"]):
        rows = arrays["batch"] == number
        lines = [
            f"{label + 1}{concentration} "
            + " ".join(f"{place}:{value!r}" for place, value in enumerate(values, 1))
            for values, label in zip(arrays["x"][rows].tolist(), arrays["y"][rows], strict=True)
        ]
        (folder / f"batch{number}.dat").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("concentration", ["", ";10.000000"])
def test_texts_and_arrays_are_the_same_rows(tmp_path, concentration):
    arrays = ageing_sensors(5)
    np.savez(tmp_path / "any.npz", **arrays)
    write_texts(tmp_path, arrays, concentration)
    for path in (tmp_path / "any.npz", tmp_path):
        rows = data.read_gas(path)
        np.testing.assert_array_equal(rows.values, arrays["x"])
        np.testing.assert_array_equal(rows.labels, arrays["y"])
        np.testing.assert_array_equal(rows.batches, arrays["batch"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.s_[:, :100]}, "shapes"),
        ({"y": np.s_[:-1]}, "shapes"),
        ({"x": np.s_[:0], "y": np.s_[:0], "batch": np.s_[:0]}, "shapes"),
        ({"batch": np.s_[::-1]}, "decrease"),
    ],
)
def test_gases_that_do_not_fit(tmp_path, changed, message):
    arrays = ageing_sensors(5)
    np.savez(
        tmp_path / "gas.npz", **{name: arrays[name][changed.get(name, ...)] for name in arrays}
    )
    with pytest.raises(ValueError, match=message):
        data.read_gas(tmp_path)


def test_missing_gases(tmp_path):
    done = run_demo(tmp_path, "--data", "nowhere")
    assert done.returncode == 2
    assert "nowhere does not exist" in " ".join(done.stderr.split())
    with pytest.raises(FileNotFoundError, match=r"0 files gas\*\.npz"):
        data.read_gas(tmp_path)
    np.savez(tmp_path / "gas.npz", x=np.ones((2, 128)))
    with pytest.raises(ValueError, match="lacks y, batch"):
        data.read_gas(tmp_path)


def test_rows_stay_in_their_batch_and_the_scale_is_that_of_the_first():
    arrays = ageing_sensors(30)
    rows = data.GasRows(arrays["x"], arrays["y"], arrays["batch"])
    shuffled = rows.shuffled(seed=1)
    np.testing.assert_array_equal(shuffled.batches, rows.batches)
    assert not np.array_equal(shuffled.values, rows.values)
    for number in np.unique(rows.batches):
        there = rows.batches == number
        before, after = (
            {(row.tobytes(), label) for row, label in zip(each.values, each.labels, strict=True)}
            for each in (rows.taken(there), shuffled.taken(there))
        )
        assert before == after
    logarithms = np.arcsinh(rows.values)
    expected = (logarithms - logarithms[:30].mean(axis=0)) / logarithms[:30].std(axis=0)
    np.testing.assert_allclose(rows.scaled().values, expected)
    assert rows.repeated > 0.8 > 0.5 > shuffled.repeated


def test_what_is_trained_once_learns_the_first_batch_only():
    from rich.progress import Progress

    arrays = ageing_sensors(10)
    rows = data.GasRows(arrays["x"], arrays["y"], arrays["batch"])
    counts = {}
    for name, contender in gas.make_contenders(seed=0).items():
        hits = gas.test_then_train(name, contender, rows, Progress(disable=True))
        last = getattr(contender.model, "steps", None)
        model = contender.model if last is None else contender.model["LeastSquaresClassifier"]
        counts[name] = model.count
        assert gas.by_batch(hits, rows) == {
            number: hits[start : start + 10].mean()
            for number, start in zip((1, 2, 4, 11), range(0, 40, 10), strict=True)
        }
    assert counts == {gas.ONCE: 10, gas.EXACT: 40, gas.FADING: 40, gas.STREAM: 40}
