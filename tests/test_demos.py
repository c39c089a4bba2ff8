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
def test_a_broken_file_is_unlearnt(printed, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="the trips are in parquet files")
    output = printed("out_of_core", "--quick", "--data", "trips")
    assert "Rows learnt 36,000 38,000" in output
    ours, theirs = map(float, re.search(r"test trips, minutes (\S+) (\S+)", output).groups())
    assert 2.0 < ours < theirs
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
def test_the_watch_is_followed_reading_by_reading(printed, tmp_path):
    pytest.importorskip("sktime", reason="the recordings come with sktime")
    output = printed("sensor_stream", "--quick")
    right = re.search(r"MiniRocket ([\d.]+)% [\d.]+% [\d.]+% ([\d.]+), ([\d.]+)", output)
    assert float(right[1]) > 80.0
    # What is remembered does not grow.
    assert right[2] == right[3]
    assert is_drawn(tmp_path / "sensor_stream.png")


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
