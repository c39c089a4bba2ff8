"""The benchmark on streams runs, measures what it says, and goes on where it stopped."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

metrics = pytest.importorskip("sklearn.metrics")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

SCRIPT = Path(__file__).parent.parent / "demos" / "benchmarks" / "streams.py"


@pytest.fixture
def load(load_benchmark, monkeypatch):
    """Load a script, or one beside it that it imports."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        # Scripts set them where they are not set.
        monkeypatch.setenv(name, "1")
    return load_benchmark


@pytest.fixture
def demo(load):
    return load("streams")


class Script:
    """Predicts what it is told, in turn, and notes what is asked of it."""

    def __init__(self, answers):
        self.answers = iter(answers)
        self.calls = []

    def predict_proba_one(self, x):
        self.calls.append(("predict", x))
        return next(self.answers)

    def learn_one(self, x, y):
        self.calls.append(("learn", x, y))


class Bare:
    """Knows nothing, at once."""

    def predict_proba_one(self, x):
        return {}

    def learn_one(self, x, y):
        if y == "broken":
            raise RuntimeError("refused")


def draw_answers(seed, n_rows, labels):
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.ones(len(labels)), size=n_rows).tolist()
    truth = random.choice(labels, size=n_rows).tolist()
    return [dict(zip(labels, row, strict=True)) for row in shares], truth


@pytest.mark.parametrize("labels", [["a", "b"], [0, 1, 2], [False, True]])
def test_scores_are_those_of_scikit_learn(load, labels):
    answers, truth = draw_answers(1, 200, labels)
    scores = load("stream_scores").Scores()
    for answer, label in zip(answers, truth, strict=True):
        scores.add(answer, label)
    predicted = [max(answer, key=answer.get) for answer in answers]
    shares = [list(answer.values()) for answer in answers]
    found = scores.figures
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(truth, predicted))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, shares, labels=labels))


def test_no_answer_and_unknown_labels_are_wrong_at_the_floor(load):
    module = load("stream_scores")
    floor = -math.log(module.FLOOR)
    for answer, loss in (
        ({}, floor),
        ({"a": 1.0}, floor),
        ({"a": 1.0, "b": 0.0}, floor),
        ({"a": 1.0, "b": math.nan}, floor),
        ({"a": 0.5, "b": 0.5}, math.log(2)),
    ):
        scores = module.Scores()
        scores.add(answer, "b")
        assert scores.figures["accuracy"] == 0.0
        assert scores.figures["log_loss"] == pytest.approx(loss)


def test_nothing_known_is_wrong_even_where_a_label_is_none(load):
    scores = load("stream_scores").Scores()
    scores.add({}, None)
    assert scores.figures["accuracy"] == 0.0


def test_every_row_is_predicted_once_then_learnt(load):
    model = Script([{}, {"a": 1.0}])
    found = load("stream_scores").test_then_train(model, [("x1", "a"), ("x2", "a")])
    assert model.calls == [
        ("predict", "x1"),
        ("learn", "x1", "a"),
        ("predict", "x2"),
        ("learn", "x2", "a"),
    ]
    assert found["rows"] == 2
    assert found["accuracy"] == 0.5
    assert found["microseconds"] > 0
    # A generator cannot be pickled.
    assert math.isnan(found["bytes"]) or found["bytes"] > 0


def test_sizes_are_those_of_pickles(load):
    module = load("stream_scores")
    assert module.pickled_size(b"x" * 1000) > 1000
    assert math.isnan(module.pickled_size(lambda: None))


def test_every_source_begins_anew_and_is_as_long_as_said(load):
    module = load("stream_sources")
    sources, absent = module.find_sources(None)
    assert set(sources) | set(absent) == set(module.NAMES)
    assert set(absent) == {"elec2", "gas", "wisdm"}
    for name, source in sources.items():
        first, again = (list(itertools.islice(source(), 30)) for _ in range(2))
        assert first == again, name
        assert len({label for _, label in first}) > 1 or name == "ImageSegments"
    assert sum(1 for _ in sources["STAGGER"]()) == 9_000


def test_concepts_follow_one_another(load):
    made = load("stream_sources").one_after_another(
        lambda concept: (({"x": row}, concept) for row in itertools.count()), 12
    )
    assert [label for _, label in made] == [0] * 4 + [1] * 4 + [2] * 4


def test_files_are_read_in_order_and_unknown_values_left_out(load, tmp_path):
    module = load("stream_sources")
    x = np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float32)
    np.savez(tmp_path / "elec2.npz", x=x, y=np.array([4, 5]))
    sources, absent = module.find_sources(tmp_path)
    assert list(sources["elec2"]()) == [({"f0": 1.0}, 4), ({"f0": 2.0, "f1": 3.0}, 5)]
    assert set(absent) == {"gas", "wisdm"}
    np.savez(tmp_path / "elec2.npz", x=x, y=np.array([4]))
    with pytest.raises(ValueError, match="no arrays x and y"):
        list(sources["elec2"]())


def measured_of(accuracies, microseconds=None):
    return {
        stream: {
            model: {
                "accuracy": value,
                "kappa": value,
                "log_loss": 1 - value,
                "microseconds": (microseconds or {}).get(model, 1.0) * (1 + number),
                "bytes": math.nan,
            }
            for model, value in row.items()
        }
        for number, (stream, row) in enumerate(accuracies.items())
    }


def test_ranks_are_shared_by_ties_and_of_streams_that_all_have(load):
    module = load("stream_tables")
    measured = measured_of(
        {
            "one": {"a": 0.9, "b": 0.8, "c": 0.9},
            "two": {"a": 0.7, "b": 0.8, "c": 0.6},
            "three": {"a": 0.0, "b": 1.0},
        }
    )
    assert module.mean_ranks(measured, ["a", "b", "c"]) == [1.75, 2.0, 2.25]
    assert all(map(math.isnan, module.mean_ranks(measured, ["a", "d"])))


def test_the_best_is_bold_and_what_is_missing_empty(load):
    module = load("stream_tables")
    measured = measured_of({"one": {"a": 0.9, "b": 0.8}, "two": {"a": 0.5}}, {"a": 2, "b": 5})
    sheets = {sheet.title: sheet for sheet in module.make_sheets(measured, ["a", "b"], "b")}
    accuracy = sheets["Accuracy"].markdown().splitlines()
    assert accuracy[-2:] == ["| one | **90.00%** | 80.00% |", "| two | **50.00%** |  |"]
    loss = sheets["Log-loss"].markdown().splitlines()
    assert loss[-2] == "| one | **0.100** | 0.200 |"
    ratios = sheets["How many times as long b takes for a row"].markdown().splitlines()
    assert ratios[-2:] == ["| one | 2.50 | 1.00 |", "| two |  |  |"]
    assert sheets["Accuracy"].terminal().row_count == 2


def test_the_summary_counts_ties_as_at_least_as_accurate(load):
    accuracies = {
        "one": {"a": 0.9, "b": 0.9},
        "two": {"a": 0.7, "b": 0.8},
        "three": {"a": 0.8, "b": 0.7},
        "four": {"b": 0.7},
    }
    measured = measured_of(accuracies, {"a": 2, "b": 5})
    lines = load("stream_tables").summary(measured, "a", "b")
    assert "on 2 of 3 streams" in lines[0]
    assert "2.50 times" in lines[1]
    assert load("stream_tables").summary(measured, "a", "c") == []


@pytest.fixture
def runs(load, tmp_path):
    """Return the module, a plan, a source that counts its calls, and the results' path."""
    module = load("stream_runs")
    began = []

    def source():
        began.append(1)
        return iter([({"x": 1.0}, "a")] * 5)

    return module, module.Plan(3, 2, {"river": "1"}), {"s": source}, began, tmp_path / "r.jsonl"


def test_an_interrupted_measurement_goes_on(runs, load):
    module, plan, sources, began, path = runs
    results = load("results_file").ResultsFile(path)
    factories = {"one": Bare, "two": Bare}
    missing = plan.missing(sources, factories, results)
    assert missing == [("s", "one", 0), ("s", "two", 0), ("s", "one", 1), ("s", "two", 1)]
    assert module.measure(plan, missing[:3], sources, factories, results) == {}
    assert len(began) == 1
    again = load("results_file").ResultsFile(path)
    assert plan.missing(sources, factories, again) == missing[3:]
    newer = module.Plan(3, 2, {"river": "2"})
    assert newer.missing(sources, factories, again) == missing
    first = json.loads(path.read_text("utf-8").splitlines()[0])["run"]
    assert {"processor", "cores", "versions", "at_most"} <= set(first)


def test_failures_are_said_and_not_written_down(runs, load):
    module, plan, _, _, path = runs
    results = load("results_file").ResultsFile(path)
    sources = {"s": lambda: iter([({}, "broken")]), "t": lambda: iter([({}, "a")])}
    missing = plan.missing(sources, {"one": Bare}, results)
    failed = module.measure(plan, missing, sources, {"one": Bare}, results)
    assert failed == {"one on s": "RuntimeError: refused"}
    assert set(module.collect(plan, sources, results)) == {"t"}


def test_medians_of_the_last_versions_are_collected(runs, load):
    module, plan, sources, _, path = runs
    results = load("results_file").ResultsFile(path)
    newer = module.Plan(plan.at_most, 3, {"river": "2"})
    results.add(plan.key("s", "one", 0), {"microseconds": 100.0})
    for repeat, time in enumerate((3.0, 1.0, 8.0)):
        results.add(newer.key("s", "one", repeat), {"microseconds": time})
    results.add(module.Plan(7, 1, {}).key("s", "one", 0), {"microseconds": 50.0})
    assert module.collect(plan, sources, results) == {"s": {"one": {"microseconds": 3.0}}}


def test_the_figure_is_drawn_of_streams_that_all_models_have(load, tmp_path):
    module = load("stream_figure")
    models = {f"model {number}": 10.0 ** (number % 4) for number in range(6)}
    shares = {model: 0.5 + 0.05 * number for number, model in enumerate(models)}
    measured = measured_of({"one": shares, "two": shares}, models)
    assert module.draw(measured, list(models), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert module.draw(measured_of({"one": {"a": 0.5}}), ["a"], tmp_path / "level.png")
    assert not module.draw(measured, ["absent"], tmp_path / "other.png")
    assert not (tmp_path / "other.png").exists()


def test_every_model_gives_probabilities(load):
    rows = list(itertools.islice(load("stream_sources").MADE["SEA"](), 20))
    for name, make in load("stream_models").MODELS.items():
        model = make()
        for x, label in rows:
            model.predict_proba_one(x)
            model.learn_one(x, label)
        assert sum(model.predict_proba_one(rows[0][0]).values()) == pytest.approx(1.0), name


def test_the_quick_form_runs_and_its_repetition_measures_nothing(tmp_path):
    command = [sys.executable, str(SCRIPT), "--quick", "--rows", "40", "--out", "found"]
    done = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        for _ in range(2)
    ]
    for run in done:
        assert run.returncode == 0, run.stderr
        assert "cores, one thread" in run.stdout
    assert done[0].stdout == done[1].stdout
    lines = (tmp_path / "found" / "results.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 18
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "results.jsonl",
        "streams.png",
        "tables.md",
    }


def test_absent_data_are_said(demo, capsys, tmp_path):
    options = ["--streams", "elec2", "--out", str(tmp_path), "--no-progress"]
    assert demo.main(options) == 0
    assert "elec2 left out: --data names no folder" in capsys.readouterr().err
    np.savez(tmp_path / "other.npz", x=np.zeros((1, 1)), y=np.zeros(1))
    assert demo.main([*options, "--data", str(tmp_path)]) == 0
    assert "holds no elec2.npz" in capsys.readouterr().err


def test_damaged_data_are_said_and_the_exit_code_tells(demo, capsys, tmp_path):
    np.savez(tmp_path / "elec2.npz", x=np.zeros((2, 1)), y=np.zeros(1))
    options = ["--streams", "elec2", "--models", "NoChange", "--data", str(tmp_path)]
    assert demo.main([*options, "--out", str(tmp_path), "--no-progress"]) == 1
    assert "Not measured: NoChange on elec2. ValueError" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--models", "foo"], ["--streams", "foo"], ["--rows", "0"], ["--data", "missing"]]
)
def test_wrong_arguments_are_refused_at_once(demo, capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        demo.main(arguments)
    assert raised.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_peers_are_named_where_they_are_not_installed(load, capsys, tmp_path):
    module = load("streams_peers")
    features, labels = module.arrange([({"a": 1, "b": 2}, "u"), ({"c": 1, "a": 2}, "v")])
    assert (features, labels) == (["a", "b", "c"], ["u", "v"])
    try:
        import capymoa  # noqa: F401
    except ImportError:
        with pytest.raises(SystemExit):
            module.main(["--quick", "--out", str(tmp_path)])
        assert "capymoa" in capsys.readouterr().err
