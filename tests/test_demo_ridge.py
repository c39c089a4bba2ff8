"""The benchmark of the choice of the ridge runs, and measures what it says."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("rich")


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("ridge")


@pytest.mark.parametrize("one_hot", [True, False])
def test_ratios_are_those_of_squared_errors_on_held_out_rows(demo, one_hot):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 4)) * [1.0, 1.0, 3.0, 0.0]
    labels = (x[:, 0] + random.normal(size=60) > 0).astype(int)
    y = demo.one_hot(labels) if one_hot else x[:, :1] + random.normal(size=(60, 1))
    case = demo.Case(demo.Data("made", x, y), 0, "", 0.5)
    result = demo.run(case, seed=1)
    assert min(result.ratios.values()) == 1.0
    assert (result.n_train, result.n_test, result.n_features) == (30, 30, 4)
    assert np.isnan(result.errors["auto"]) == (not one_hot)
    rows, targets, n_train = demo.split(case, seed=1)
    train = demo.CentredAccumulator(demo.GramAccumulator())
    train.update(rows[:n_train], targets[:n_train])
    ridges = demo.choose(train, rows[:n_train], targets[:n_train])

    def error(ridge):
        weights = train.solve(ridge)
        scores = rows[n_train:] @ weights + train.intercept(weights)
        return ((scores - targets[n_train:]) ** 2).sum()

    ratio = error(ridges["GCV"]) / error(ridges["auto"])
    assert ratio == pytest.approx(result.ratios["GCV"] / result.ratios["auto"])


def test_the_tables_have_a_row_for_every_case(demo):
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 3))
    data = demo.Data("made", x, demo.one_hot(x[:, 0] > 0))
    cases = [demo.Case(data, n_hidden, "relu" if n_hidden else "", 0.5) for n_hidden in (0, 5)]
    results = {case: [demo.run(case, seed) for seed in range(2)] for case in cases}
    assert demo.ratio_table(results).row_count == 2
    assert demo.error_table(results).row_count == 2
    assert demo.summary_table(results).row_count == 2 * 9
    assert demo.cost_table([20]).row_count == 1


@pytest.mark.parametrize(
    "arguments", [["--data", "missing"], ["--data", "missing", "--quick"], ["--seeds", "0"]]
)
def test_wrong_arguments_are_refused_at_once(demo, capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        demo.parse_arguments(arguments)
    assert raised.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_help_keeps_the_commands_on_lines_of_their_own(demo, capsys):
    with pytest.raises(SystemExit):
        demo.parse_arguments(["--help"])
    assert "\npython demos/benchmarks/ridge.py\n" in capsys.readouterr().out
