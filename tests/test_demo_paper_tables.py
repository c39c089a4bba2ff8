"""The tables of the paper are measured, printed, and taken up again after an interruption."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from copy import deepcopy
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import formats
from onlinels import FilterBank, Patches, ShallowConvClassifier, WhitenedPatches
from onlinels.datasets import ImageData
from onlinels.presets import preset_settings

pytest.importorskip("matplotlib")
console = pytest.importorskip("rich.console")
ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "demos" / "benchmarks"
KINDS = {"mnist": "idx", "norb": "norb", "svhn": "svhn", "cifar10": "cifar"}
N_TRAIN, N_TEST, WARM_UP, N_HIDDEN = 45, 13, 30, 20
SMALL = [f"--n-hidden={N_HIDDEN}", "--set", f"warm_up={WARM_UP}", "--batch-size=11"]


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(name)


@pytest.fixture
def tables(monkeypatch):
    return load("paper_tables", monkeypatch)


@pytest.fixture
def results_file(monkeypatch):
    return load("results_file", monkeypatch)


@pytest.fixture
def own_process(monkeypatch):
    return load("own_process", monkeypatch)


@pytest.fixture
def figure(monkeypatch):
    return load("paper_figure", monkeypatch)


@pytest.fixture
def here(monkeypatch, tables, figure):
    """Measure in this process: as well, and no process has to start."""
    for module in (tables, figure):
        monkeypatch.setattr(module, "call_alone", lambda function, *arguments: function(*arguments))


@pytest.fixture
def runs(monkeypatch):
    return load("paper_runs", monkeypatch)


@pytest.fixture
def reports(monkeypatch):
    return load("paper_report", monkeypatch)


def make_data(name):
    """Make images of noise on the pattern of their class, as a data set of this name has them."""
    made = formats.make_data(KINDS[name], N_TRAIN, N_TEST, 0)
    rng = np.random.default_rng(1)
    shape = (28, 28) if name == "mnist" else made.x_train.shape[1:]
    n_classes = 3
    patterns = rng.integers(0, 30, (n_classes, *shape), dtype=np.uint8)
    parts = []
    for own in (made.y_train, made.y_test):
        labels = (np.arange(len(own)) % n_classes).astype(own.dtype)
        parts += [patterns[labels] + rng.integers(0, 226, (len(own), *shape), "u1"), labels]
    return ImageData(*parts)


@pytest.fixture(scope="module")
def data():
    return {name: make_data(name) for name in KINDS}


@pytest.fixture
def folder(tmp_path, data):
    """Write the four data sets of the paper as they are published."""
    (tmp_path / "data").mkdir()
    for name, kind in KINDS.items():
        formats.write(kind, tmp_path / "data" / name, data[name])
    return tmp_path / "data"


@pytest.fixture
def command(tmp_path, folder):
    files = {"results": "r.jsonl", "figure": "figure.png", "markdown": "t.md", "cache": "cache"}
    named = [f"--{option}={tmp_path / name}" for option, name in files.items()]
    return [f"--data={folder}", *SMALL, *named]


def results_in(tmp_path):
    path = tmp_path / "r.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def small(images):
    return images.reshape(-1, 32, 3, 32, 3, 2).mean(axis=(2, 4))


def expected_error(name, data, **overrides):
    """Return the error of the preset, all images learnt at once."""
    settings = {"n_hidden": N_HIDDEN, "warm_up": WARM_UP, "seed": 0} | overrides
    if name == "norb":
        # In small images, or the classifier on pixels that the warm-up has takes long.
        parts = [small(data.x_train), data.y_train, small(data.x_test), data.y_test]
        data = ImageData(*parts)
        settings |= {"downsample": 1, "image_shape": (32, 32, 2)}
    model = ShallowConvClassifier.from_preset(name, **settings)
    model.learn_many(data.x_train, data.y_train)
    return float(np.mean(model.predict_many(data.x_test) != data.y_test))


def test_the_four_data_sets_are_measured_once_as_published(tmp_path, tables, data, command, capsys):
    command += ["--draws=1", "--figure-draws=0"]
    assert tables.main(command) == 0
    found = {line["run"]["data"]: line for line in results_in(tmp_path)}
    assert list(found) == ["mnist", "norb", "svhn", "cifar10"]
    for name, line in found.items():
        assert line["run"]["images"] == [N_TRAIN, N_TEST]
        assert line["result"]["error"] == expected_error(name, data[name])
        assert 0.05 < line["result"]["peak_memory"] < 2.0
    printed = capsys.readouterr().out
    for paper_error in ("0.37%", "2.21%", "3.96%", "24.14%"):
        assert paper_error in printed
    assert "svhn and cifar10: patches of the training images stand in" in " ".join(printed.split())
    assert "--only norb --draws 1 --n-hidden 20 --batch-size 11 --set warm_up=30" in printed
    rows = [line for line in (tmp_path / "t.md").read_text().splitlines() if line.startswith("|")]
    assert len(rows) == 6
    assert len({row.count("|") for row in rows}) == 1
    before = (tmp_path / "r.jsonl").read_text()
    assert tables.main(command) == 0
    assert (tmp_path / "r.jsonl").read_text() == before


def test_the_figure_ends_at_the_error_of_the_table(tmp_path, tables, here, data, command):
    command += ["--only", "mnist", "--draws=1", "--rows=40", "--n-hidden=130", "--figure-draws=2"]
    assert tables.main(command) == 0
    run, *draws = results_in(tmp_path)
    whole = data["mnist"]
    first = replace(whole, x_train=whole.x_train[:40], y_train=whole.y_train[:40])
    assert run["result"]["error"] == expected_error("mnist", first, n_hidden=130)
    assert [set(draw["result"]) for draw in draws] == [{"100", "130"}] * 2
    assert draws[0]["result"]["130"] == run["result"]["error"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert len(list((tmp_path / "cache").iterdir())) == 2
    lines = (tmp_path / "r.jsonl").read_text()
    assert tables.main(command) == 0
    assert (tmp_path / "r.jsonl").read_text() == lines


def test_pretrained_filters_serve_the_data_sets_they_are_named_for(
    tmp_path, tables, here, data, command, capsys
):
    bank = np.random.default_rng(0).normal(size=(5, 7, 7, 3))
    np.save(tmp_path / "bank.npy", bank)
    np.save(tmp_path / "other.npy", bank[:4])
    command += ["--only", "svhn", "norb", "--draws=1", f"--filters={tmp_path / 'bank.npy'}"]
    assert tables.main([*command, "--filters", f"norb={tmp_path / 'other.npy'}"]) == 0
    centred = bank - bank.mean(axis=(1, 2), keepdims=True)
    norb, svhn = results_in(tmp_path)
    assert svhn["result"]["error"] == expected_error("svhn", data["svhn"], filters=centred)
    assert norb["result"]["error"] == expected_error("norb", data["norb"], filters=centred[:4])
    printed = (tmp_path / "t.md").read_text()
    assert "| 5 of bank.npy |" in printed
    assert "| 4 of other.npy |" in printed
    assert "stand in" not in printed
    assert f"--filters norb={tmp_path / 'other.npy'}" in printed
    np.save(tmp_path / "bank.npy", bank[::-1])
    assert tables.main([*command, "--only", "svhn"]) == 0
    assert len(results_in(tmp_path)) == 3


def test_damaged_data_are_named_and_the_others_go_on(tmp_path, tables, folder, command, capsys):
    batch = folder / "cifar10" / "data_batch_1.bin"
    batch.write_bytes(b"\xff" + batch.read_bytes()[1:])
    images = folder / "norb" / f"{formats.NORB_STARTS['train']}-dat.mat"
    images.write_bytes(images.read_bytes()[:-1])
    command += ["--only", "norb", "svhn", "cifar10", "--draws=1"]
    assert tables.main(command) == 1
    assert [line["run"]["data"] for line in results_in(tmp_path)] == ["svhn"]
    printed = capsys.readouterr()
    assert "svhn" in printed.out
    assert "norb" not in printed.out
    *_, norb, cifar = re.findall("Not measured: .*", printed.err)
    assert norb.startswith(f"Not measured: norb. {images} has a size of")
    assert cifar.startswith(f"Not measured: cifar10. {batch} ")
    assert "Traceback" not in printed.err


def test_more_hidden_units_than_memory_are_named(tables, command, capsys):
    command += ["--only", "mnist", "svhn", "--draws=1", "--n-hidden", "1000000000000000"]
    assert tables.main(command) == 1
    printed = capsys.readouterr().err
    for name in ("mnist", "svhn"):
        assert re.search(rf"{name}. n_hidden=.* GiB of memory, .*Pass a smaller n_hidden", printed)
    assert "Traceback" not in printed


@pytest.mark.usefixtures("interrupts_heeded")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_command_goes_on_after_it_was_ended(tmp_path, tables, command, ending):
    command += ["--only", "mnist", "--figure-draws=0"]
    script = [sys.executable, str(FOLDER / "paper_tables.py"), *command, "--draws=1000"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(script, env=environment, text=True, **pipes) as process:
        while not results_in(tmp_path):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(ending)
        _, printed = process.communicate(timeout=60)
    interrupted = ending == signal.SIGINT
    assert process.returncode == (130 if interrupted else -ending)
    assert ("The same command goes on from here." in printed) == interrupted
    assert not interrupted or "Traceback" not in printed
    before = (tmp_path / "r.jsonl").read_text()
    n_done = len(results_in(tmp_path))
    assert tables.main([*command, f"--draws={n_done + 1}"]) == 0
    assert (tmp_path / "r.jsonl").read_text().startswith(before)
    seeds = [line["run"]["seed"] for line in results_in(tmp_path)]
    assert seeds == list(range(n_done + 1))


def test_no_run_goes_on_when_its_command_was_killed():
    run = "import time; print('begun', flush=True); time.sleep(600)"
    code = f"""import sys
sys.path.insert(0, {str(FOLDER)!r})
from own_process import call_alone
call_alone(exec, {run!r})"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        # The output ends when nobody holds it any more.
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (np.ones, (10**15,), "Memory ran out: Unable to allocate.*smaller --n-hidden"),
        (int, ("seven",), "^invalid literal for int.*'seven'$"),
        (divmod, (1, 0), "(?s)^Traceback.*ZeroDivisionError"),
        (os._exit, (3,), "exit code 3"),
        (signal.raise_signal, (signal.SIGKILL,), "killed its process, as it does when memory"),
    ],
)
def test_what_goes_wrong_in_another_process_is_put_in_words(
    own_process, function, arguments, message
):
    with pytest.raises(own_process.CallFailedError, match=message):
        own_process.call_alone(function, *arguments)


def test_a_call_in_another_process_returns_what_the_function_returns(own_process):
    assert own_process.call_alone(divmod, 7, 2) == (3, 1)
    held = np.ones(2**25)
    own = own_process.peak_memory()
    assert own * 2**30 > held.nbytes
    assert own_process.call_alone(own_process.peak_memory) < own


def test_features_are_made_again_if_anything_that_they_depend_on_differs(tmp_path, figure, data):
    settings = preset_settings("mnist", {"warm_up": WARM_UP, "seed": 0})
    train, test = figure.cached_features(data["mnist"], settings, tmp_path)
    assert train.dtype == test.dtype == np.float32
    assert (len(train), len(test)) == (N_TRAIN, N_TEST)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    figure.cached_features(data["mnist"], settings, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == made
    changed = data["mnist"].x_train.copy()
    changed[-1, 0, 0] ^= 1
    others = [
        (data["mnist"], preset_settings("mnist", {"warm_up": WARM_UP, "seed": 1})),
        (data["mnist"], preset_settings("mnist", {"warm_up": WARM_UP - 1, "seed": 0})),
        (data["mnist"], preset_settings("mnist", {"warm_up": WARM_UP, "seed": 0, "stride": 3})),
        (replace(data["mnist"], x_train=changed), settings),
        (replace(data["mnist"], y_train=data["mnist"].y_train[::-1]), settings),
        (replace(data["mnist"], x_train=data["mnist"].x_train[:-1]), settings),
    ]
    for other in others:
        n_before = len(list(tmp_path.iterdir()))
        figure.cached_features(*other, tmp_path)
        assert len(list(tmp_path.iterdir())) > n_before


FIGURE_REFUSES = [
    ("half_life=5", "The figure knows no 'half_life'. Leave it out, or pass --figure-draws 0."),
    ("ridge=auto", "the figure knows a number or 'paper'. Pass one, or --figure-draws 0."),
    ("ridge=-1.0", "ridge=-1.0 must be at least 0"),
    ("ridge=some", "ridge='some' is not known"),
]


@pytest.mark.parametrize(("setting", "message"), FIGURE_REFUSES)
def test_settings_that_the_figure_does_not_know_are_refused_at_once(
    tmp_path, tables, command, setting, message, capsys
):
    with pytest.raises(SystemExit) as ended:
        tables.main([*command, "--only", "mnist", "--set", setting])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert results_in(tmp_path) == []


@pytest.mark.parametrize("ridge", ["0", "0.5", "paper"])
def test_the_figure_knows_ridges_that_are_numbers(figure, ridge):
    figure.check_settings({"ridge": json.loads(ridge) if ridge != "paper" else ridge})


def test_a_ridge_that_the_figure_does_not_know_serves_the_table(tmp_path, tables, here, command):
    options = ["--only", "mnist", "--draws=1", "--set", "ridge=auto", "--figure-draws=0"]
    assert tables.main([*command, *options]) == 0
    assert len(results_in(tmp_path)) == 1
    options[1:2] = ["svhn"]
    assert tables.main([*command, *options[:-1]]) == 0
    assert len(results_in(tmp_path)) == 2


def interrupted_in_the_test_images(steps, description, n_steps):
    return steps if str(N_TRAIN) in description else [steps[0], "not a slice"]


def test_features_that_were_not_finished_are_made_again(tmp_path, figure, data, monkeypatch):
    settings = preset_settings("mnist", {"warm_up": WARM_UP, "seed": 0})
    expected = np.array(figure.cached_features(data["mnist"], settings, tmp_path)[1])
    for path in tmp_path.iterdir():
        path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(figure, "BLOCK_ROWS", 5)
        patch.setattr(figure, "progress", interrupted_in_the_test_images)
        with pytest.raises(IndexError):
            figure.cached_features(data["mnist"], settings, tmp_path)
    _, test = figure.cached_features(data["mnist"], settings, tmp_path)
    np.testing.assert_array_equal(test, expected)


def test_features_that_were_not_finished_go_when_a_command_is_interrupted(
    tmp_path, tables, figure, here, command, monkeypatch
):
    def interrupted(steps, description, n_steps):
        assert len(list((tmp_path / "cache").glob("*.part"))) == 2
        raise KeyboardInterrupt

    monkeypatch.setattr(figure, "progress", interrupted)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "of_another_command.1.part").touch()
    assert tables.main([*command, "--only", "mnist", "--draws=1"]) == 130
    left = [path.name for path in (tmp_path / "cache").glob("*.part")]
    assert left == ["of_another_command.1.part"]


BANK = np.arange(18.0).reshape(2, 3, 3, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 1, "c": 2}}),
        (("a", ("b", "c")), (("a", "b"), "c")),
        ((1, 2), [1, 2]),
        (1, "1"),
        ((np.zeros(2000),), (np.eye(1, 2000, 1000)[0],)),
        ({"filters": ("hand-designed", BANK)}, {"filters": ("hand-designed", BANK + 1)}),
        (FilterBank(BANK, np.zeros(2)), FilterBank(BANK, np.ones(2))),
        ((FilterBank(BANK, np.zeros(2)), 1), (FilterBank(BANK[::-1], np.zeros(2)), 1)),
        (Patches(5), Patches(6)),
        (Patches(5), WhitenedPatches(5)),
    ],
)
def test_a_digest_differs_if_anything_inside_does(runs, first, second):
    assert runs.digest(first) != runs.digest(second)
    for thing in (first, second):
        assert runs.digest(thing) == runs.digest(deepcopy(thing))


def test_results_of_another_version_do_not_count(tmp_path, runs, results_file, monkeypatch):
    data = runs.DataSet("mnist", tmp_path, 30, 10, 20)
    before = data.key
    assert (before["images"], before["rows"]) == ([30, 10], 20)
    assert replace(data, path=tmp_path / "elsewhere").key == before
    monkeypatch.setattr(results_file, "__version__", "other")
    assert data.key != before


def test_a_results_file_finds_what_was_added_and_skips_a_line_cut_short(tmp_path, results_file):
    path = tmp_path / "new" / "results.jsonl"
    results = results_file.ResultsFile(path)
    results.add({"data": "a", "seed": 0}, {"error": 0.5})
    path.write_text(path.read_text() + '{"run": {"data": "a", "se')
    again = results_file.ResultsFile(path)
    assert again.find({"data": "a", "seed": 0}) == {"error": 0.5}
    assert again.find({"data": "a", "seed": 1}) is None
    again.add({"data": "a", "seed": 1}, {"error": 0.25})
    assert results_file.ResultsFile(path).find({"data": "a", "seed": 1}) == {"error": 0.25}


@pytest.mark.parametrize("content", ["# Notes\n", '{"a": 1}\n', "[1]\n"])
def test_another_file_is_no_results_file(tmp_path, tables, command, content, capsys):
    (tmp_path / "r.jsonl").write_text(content)
    with pytest.raises(SystemExit):
        tables.main(command)
    assert "is no file of results" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "r.jsonl").read_text() == content


def test_the_table_of_all_data_sets_fits_into_80_characters(tmp_path, reports, results_file):
    runs = sys.modules["paper_runs"]
    results = results_file.ResultsFile(tmp_path / "r.jsonl")
    plans = []
    for name in runs.NETWORKS:
        data = runs.DataSet(name, tmp_path, 604_388, 26_032, 604_388)
        asked = Namespace(draws=3, batch_size=1000, n_hidden=None, rows=None, data=".", set=[])
        plans.append(reports.Plan(data, {}, None, asked))
        for run, error in zip(plans[-1].runs[:2], (0.2414, 0.2616), strict=True):
            seconds = {"learning": 12_345.6, "solving": 1234.5, "testing": 123.4}
            results.add(run.key, seconds | {"error": error, "peak_memory": 40.123})
    printed = console.Console(width=80, record=True, file=StringIO())
    printed.print(reports.terminal_table(plans, results))
    lines = printed.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {*runs.NETWORKS, "patches", "604,388"} < {*words}
    assert words.count("25.15%") == words.count("24.14%") - 1 == words.count("12345.6") == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "fashion-mnist"], "does not hold fashion-mnist"),
        (["--only", "digits"], "invalid choice: 'digits'"),
        (["--n-hidden=0"], "'0' is no whole number of at least 1"),
        (["--rows=some"], "'some' is no whole number of at least 1"),
        (["--figure-draws=-1"], "'-1' is no whole number of at least 0"),
        (["--set", "seed=1"], "'seed=1' is not NAME=VALUE"),
        (["--set", "warm_up"], "'warm_up' is not NAME=VALUE"),
        (["--filters", "no.npy"], "There is no file no.npy"),
    ],
)
def test_wrong_options_are_refused(tables, command, options, message, capsys):
    with pytest.raises(SystemExit) as ended:
        tables.main([*command, *options])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_folder_without_data_is_refused(tmp_path, tables, capsys):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        tables.main([f"--data={tmp_path / 'empty'}"])
    assert "does not hold any of mnist" in capsys.readouterr().err
