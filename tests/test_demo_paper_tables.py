"""The tables of the paper are measured, printed, and taken up again after an interruption."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("matplotlib")
pytest.importorskip("rich")
FOLDER = Path(__file__).parent.parent / "demos" / "benchmarks"


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tables(monkeypatch):
    return load("paper_tables", monkeypatch)


@pytest.fixture
def results_file(monkeypatch):
    return load("results_file", monkeypatch)


@pytest.fixture
def data(tmp_path):
    """Write 8x8 digits as images of 28x28 bytes under the name of MNIST."""
    images, labels = load_digits(return_X_y=True)
    large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3))).astype(np.uint8) * 15
    padded = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(
        folder / "mnist.npz",
        x_train=padded[:300],
        y_train=labels[:300],
        x_test=padded[300:500],
        y_test=labels[300:500],
    )
    return folder


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


def test_tables_and_figure_are_measured_once(tmp_path, tables, data, capsys):
    command = [f"--data={data}", "--draws=2", "--n-hidden=150", "--figure-draws=2"]
    command += [f"--results={tmp_path / 'r.jsonl'}", f"--figure={tmp_path / 'figure.png'}"]
    tables.main(command)
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert len(lines) == 4
    runs = [json.loads(line) for line in lines]
    assert all(run["result"]["error"] < 0.3 for run in runs[:2])
    assert set(runs[2]["result"]) == {"100", "150"}
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "0.37%" in capsys.readouterr().out
    tables.main(command)
    assert (tmp_path / "r.jsonl").read_text().splitlines() == lines


def test_a_folder_without_data_is_refused(tmp_path, tables, capsys):
    with pytest.raises(SystemExit):
        tables.main([f"--data={tmp_path}"])
    assert "holds none of mnist" in capsys.readouterr().err
