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


NUMBER = r"([\d.]+(?:e[+-]\d+)?)"


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run a demo, and return what it prints in one line, once it has drawn its picture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def run(demo, *words):
        importlib.import_module(demo).main(list(words))
        assert is_drawn(tmp_path / f"{demo.removesuffix('.__main__')}.png")
        return " ".join(capsys.readouterr().out.split())

    return run


@pytest.fixture
def refused(capsys):
    """Run a demo that ends with a sentence about its options, and return the sentence."""

    def run(demo, *words):
        with pytest.raises(SystemExit):
            importlib.import_module(demo).main(list(words))
        return capsys.readouterr().err

    return run


def numbers_in(output, pattern):
    """Return the numbers in the places of a pattern that are marked by #."""
    return [float(number) for number in re.search(pattern.replace("#", NUMBER), output).groups()]


def test_the_tour_follows_a_stream_merges_removes_and_serves(printed):
    output = printed("tour", "--quick")
    of_streams = (rf"{name} (?:[\d.]+% ){{2}}#%" for name in ("Classifier", "ARF", "last label"))
    (ours,), (theirs,), (last,) = (numbers_in(output, each) for each in of_streams)
    assert ours > max(theirs, last)
    north, south, merged = numbers_in(output, "north, .*? #%.* south, .*? #%.* merged, .*? #%")
    assert merged > max(north, south)
    far = numbers_in(output, "one batch # .*never seen # .*control: still in # .*those here by #")
    assert max(far[0], far[1], far[3]) < 1e-9 < 1e-3 < far[2]
    assert "It predicts malignant" in output


def test_patients_are_removed_once_and_without_a_trace(printed):
    output = printed("remove_person")
    rows = re.findall(r"patients? +(\de-\d+) +(\de-\d+)", output)
    without, with_them = np.array(rows, dtype=float).T
    assert len(rows) == 4
    assert max(without) < 1e-9
    assert min(with_them) > 1e-4
    assert re.search(r"Asked again: patient \d+ was removed at 20", output)


@pytest.mark.parametrize("words", the_rest_slow([["--rows", "60"], ["--qemu"]]))
def test_a_fan_knows_what_another_has_learnt(printed, words):
    if packages := missing("--qemu" in words):
        pytest.skip(packages)
    output = printed("device.__main__", *words)
    assert numbers_in(output, "labels before #% #% #%") == pytest.approx([100, 100, 0], abs=5.0)
    *after, difference = numbers_in(output, "labels after #% #% #% Diff.* model of all rows #")
    assert min(after) > 90.0
    assert difference < 1e-9
    assert ("Instructions to learn" in output) == ("--qemu" in words)


def test_devices_without_a_compiler_are_one_sentence(refused, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "Install a C compiler: apt install gcc" in refused("device.__main__")


@pytest.mark.slow
def test_a_broken_file_is_unlearnt(printed, refused):
    pytest.importorskip("pyarrow", reason="the trips are in parquet files")
    output = printed("out_of_core", "--quick", "--data", "trips")
    assert "Rows learnt 36,000 38,000" in output
    ours, theirs, far = numbers_in(output, "test trips, minutes # # .*without the broken file #")
    assert 2.0 < ours < theirs
    assert far < 1e-9
    sentence = refused("out_of_core", "--rows", "100000", "--data", "trips")
    assert "trips holds 40,000 rows in 20 files" in sentence
    sentence = refused("out_of_core", "--rows", "50")
    assert "--rows 50: expected at least 100000" in sentence


@pytest.mark.slow
def test_the_watch_is_followed_reading_by_reading(printed):
    pytest.importorskip("sktime", reason="the recordings come with sktime")
    output = printed("sensor_stream", "--quick")
    right, early, late = numbers_in(output, r"MiniRocket #% [\d.]+% [\d.]+% #, #")
    assert right > 80.0
    # What is remembered does not grow.
    assert early == late


@pytest.fixture
def speed(monkeypatch):
    """Return the script that measures every setting; it sets the numbers of threads."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    return importlib.import_module("speed.settings")


def test_a_setting_or_a_question_without_a_line_is_named(speed, monkeypatch):
    class Slower(speed.LeastSquaresRegressor):
        def __init__(self, ridge=1.0, pace=2):
            super().__init__(ridge)

        def predict_median_one(self, x):
            return self.predict_one(x)

    assert speed.unmeasured() == []
    assert {name for name, _ in speed.ELSEWHERE} <= {*speed.onlinels.__all__}
    expected = ["Slower(ridge=)", "Slower(pace=)", "Slower.predict_median_one"]
    assert speed.unmeasured(SimpleNamespace(__all__=["Slower"], Slower=Slower)) == expected
    monkeypatch.setitem(speed.SUMS_BY_ACCUMULATOR, "plain", None)
    assert speed.unmeasured() == ["accumulator='plain'"]


def test_every_line_of_the_settings_is_of_a_model_that_answers_and_learns(speed):
    rows = {case.data: speed.draw(3, case.data, 8) for case in speed.CASES}
    for case in (*speed.CASES, *speed.STREAMS, *speed.BESIDE):
        turn = speed.Turn(case, rows[case.data])
        turn.seconds(0, 5)
        turn.seconds(5, 8)
    assert len({str(case) for case in speed.CASES}) == len(speed.CASES)
