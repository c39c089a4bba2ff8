"""Every demo in its quick form: it says what it found, and draws it."""

import importlib
import re
from types import SimpleNamespace

import numpy as np
import pytest
from device.board import missing

from support.pictures import is_drawn
from support.slow import the_rest_slow

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run a demo, and return what it prints in one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def run(demo, *words):
        importlib.import_module(demo).main(list(words))
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_stream_of_images_equals_the_batch_solve(printed, tmp_path):
    output = printed("stream_images", "--quick", "--output", "picture.png")
    assert float(re.search(r"difference to batch weights (\S+)", output)[1]) < 1e-6
    assert "another label by batch weights 0" in output
    assert re.search(r"order of appearance (?:[0-8] ){9}9", output)
    assert is_drawn(tmp_path / "picture.png")


def test_the_tour_follows_a_stream_merges_removes_and_serves(printed, tmp_path):
    output = printed("tour", "--quick")
    ours, theirs, last = (
        float(re.search(rf"{name} (?:[\d.]+% ){{2}}([\d.]+)%", output)[1])
        for name in ("StreamClassifier", "river ARF", "last label")
    )
    assert ours > max(theirs, last)
    shares = re.search(
        r"north, .*? ([\d.]+)%.* south, .*? ([\d.]+)%.* merged, .*? ([\d.]+)%", output
    )
    north, south, merged = map(float, shares.groups())
    assert merged > max(north, south)
    far = re.search(r"one batch (\S+) .*never seen (\S+) .*control: still in (\S+)", output)
    merging, removal, control = map(float, far.groups())
    assert max(merging, removal) < 1e-9 < 1e-3 < control
    assert float(re.search(r"from those here by (\S+)\.", output)[1]) < 1e-9
    assert "It predicts malignant" in output
    assert is_drawn(tmp_path / "tour.png")


REFUSED = [
    ("stream_images", "--output nowhere/a.png", "the folder of nowhere/a.png does not exist"),
    ("stream_images", "--data nowhere.npz", "nowhere.npz"),
    ("stream_images", "--quick --batch-size 500", "expected at most 400, half of the stream"),
    ("stream_images", "--batch-size 0", "not a whole number of at least 1"),
    ("new_classes", "--limit 1", "1 items hold fewer than two classes, .* a larger --limit"),
    ("new_classes", "--limit 5", r"5 items hold no item to test of class \d, .* larger --limit"),
    ("new_classes", "--images no.npz", r"no\.npz|Run: pip install 'onlinels\[embeddings\]'"),
]


@pytest.mark.parametrize(("demo", "words", "message"), REFUSED)
def test_a_command_line_that_cannot_be_is_one_sentence(printed, capsys, demo, words, message):
    with pytest.raises(SystemExit):
        printed(demo, *words.split())
    assert re.search(message, capsys.readouterr().err)


def test_patients_are_removed_once_and_without_a_trace(printed, tmp_path):
    output = printed("remove_person")
    rows = re.findall(r"patients? +(\de-\d+) +(\de-\d+)", output)
    without, with_them = np.array(rows, dtype=float).T
    assert len(rows) == 4
    assert max(without) < 1e-9
    assert min(with_them) > 1e-4
    assert re.search(r"Asked again: patient \d+ was removed at 20", output)
    assert is_drawn(tmp_path / "remove_person.png")


@pytest.mark.parametrize("words", the_rest_slow([["--rows", "60"], ["--qemu"]]))
def test_a_fan_knows_what_another_has_learnt(printed, tmp_path, words):
    if packages := missing("--qemu" in words):
        pytest.skip(packages)
    output = printed("device.__main__", *words)
    before, after = (
        [float(share) for share in re.findall(r"[\d.]+(?=%)", line)]
        for line in re.search(r"labels before (.*) right labels after (.*) Diff", output).groups()
    )
    assert before == pytest.approx([100.0, 100.0, 0.0], abs=5.0)
    assert min(after) > 90.0
    assert float(re.search(r"model of all rows (\S+)", output)[1]) < 1e-9
    assert ("Instructions to learn" in output) == ("--qemu" in words)
    assert is_drawn(tmp_path / "device.png")


def test_devices_without_a_compiler_are_one_sentence(printed, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit):
        printed("device.__main__")
    assert "Install a C compiler: apt install gcc" in capsys.readouterr().err


@pytest.mark.slow
def test_classes_arrive_one_task_after_another(printed, tmp_path):
    output = printed("new_classes", "--limit", "900", "--output", "classes.png")
    curves = re.findall(r"(?:one pass|mean|SGD|all rows) ((?:[\d.]+% ?){5})", output)
    ours, mean, descent, all_at_once = [float(curve.split()[-1].rstrip("%")) for curve in curves]
    assert ours > max(mean, descent)
    assert ours > all_at_once - 1.0
    differences = re.findall(r"difference to batch weights (\de-\d+)", output)
    assert len(differences) == 2
    assert max(map(float, differences)) < 1e-9
    assert is_drawn(tmp_path / "classes.png")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["1"], ["2"], ["2", "--kill"]])
def test_workers_merge_into_the_model_of_one_process(printed, tmp_path, words):
    pytest.importorskip("distributed", reason="it comes with the extra dask")
    output = printed("many_workers", "--quick", "--workers", *words)
    assert "Images learnt 2,400 and 2,400" in output
    assert ("one worker killed" in output) == ("--kill" in words)
    assert "another label 0" in output
    assert float(re.search(r"largest relative difference (\S+)", output)[1]) < 1e-9
    assert is_drawn(tmp_path / "many_workers.png")


@pytest.mark.slow
def test_a_broken_file_is_unlearnt(printed, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="the trips are in parquet files")
    output = printed("out_of_core", "--quick", "--data", "trips")
    assert "Rows learnt 36,000 38,000" in output
    ours, theirs = map(float, re.search(r"test trips, minutes (\S+) (\S+)", output).groups())
    assert 2.0 < ours < theirs
    assert float(re.search(r"to Ridge on the first 4,000 rows (\S+)", output)[1]) < 1e-9
    assert float(re.search(r"without the broken file (\S+)", output)[1]) < 1e-9
    assert is_drawn(tmp_path / "out_of_core.png")
    for words, message in (
        (["--rows", "100000", "--data", "trips"], "trips holds 40,000 rows in 20 files"),
        (["--rows", "50"], "--rows 50: expected at least 100000"),
    ):
        with pytest.raises(SystemExit):
            printed("out_of_core", *words)
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_few_labels_are_asked_for(printed, tmp_path):
    output = printed("label_saving", "--quick")
    shares = [float(share) for share in re.findall(r"\d+: ([\d.]+)%", output)]
    assert len(shares) == 6
    assert min(shares) > 70.0
    assert is_drawn(tmp_path / "label_saving.png")


@pytest.mark.slow
def test_the_watch_is_followed_reading_by_reading(printed, tmp_path):
    pytest.importorskip("sktime", reason="the recordings come with sktime")
    output = printed("sensor_stream", "--quick")
    right = re.search(r"MiniRocket ([\d.]+)% [\d.]+% [\d.]+% ([\d.]+), ([\d.]+)", output)
    assert float(right[1]) > 80.0
    # What is remembered does not grow.
    assert right[2] == right[3]
    assert is_drawn(tmp_path / "sensor_stream_watch.png")


def test_gas_sensors_that_age(printed, tmp_path):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 320)
    batches = np.repeat([1, 2, 3, 4], 80)
    # Every batch reads higher than the one before.
    centres = random.normal(size=(3, 128))
    values = 1000.0 * (centres[labels] + 0.5 * batches[:, None] + random.normal(size=(320, 128)))
    np.savez(tmp_path / "gas_sensors.npz", x=values, y=labels, batch=batches)
    output = printed("sensor_stream", "--data", str(tmp_path), "--quick", "--out", str(tmp_path))
    assert "after 1-2" in output
    assert is_drawn(tmp_path / "sensor_stream_gas.png")


@pytest.fixture
def speed(monkeypatch):
    """Return the script that measures every setting; it sets the numbers of threads."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    return importlib.import_module("speed.settings")


def test_every_setting_of_a_public_model_is_measured(speed):
    assert speed.unmeasured() == []
    known = {(name, "") for name in speed.onlinels.__all__}
    assert {(name, "") for name, _ in speed.ELSEWHERE} <= known


def test_a_setting_or_a_question_without_a_line_is_named(speed):
    class Slower(speed.LeastSquaresRegressor):
        def __init__(self, ridge=1.0, pace=2):
            super().__init__(ridge)

        def predict_median_one(self, x):
            return self.predict_one(x)

    module = SimpleNamespace(__all__=["Slower"], Slower=Slower)
    expected = ["Slower(ridge=)", "Slower(pace=)", "Slower.predict_median_one"]
    assert speed.unmeasured(module) == expected
    speed.SUMS_BY_ACCUMULATOR["plain"] = None
    try:
        assert speed.unmeasured() == ["accumulator='plain'"]
    finally:
        del speed.SUMS_BY_ACCUMULATOR["plain"]


def test_every_line_of_the_settings_is_of_a_model_that_answers_and_learns(speed):
    rows = {kind: speed.draw(3, kind, 8) for kind in ("independent", "correlated", "absent")}
    for case in speed.CASES:
        turn = speed.Turn(case, rows.get(case.data, rows["correlated"]))
        turn.seconds(0, 5)
        turn.seconds(5, 8)
        assert str(case)
    texts = [str(case) for case in speed.CASES]
    assert len(set(texts)) == len(texts)
