"""The benchmark of balance runs, and measures what it says."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("rich")


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("imbalance")


def test_rare_classes_come_anywhere_in_the_stream_and_no_row_is_in_both_parts(demo):
    random = np.random.default_rng(0)
    y = np.array(["a"] * 500 + ["b"] * 400 + ["c"] * 300)
    data = demo.Data("made", random.normal(size=(1200, 2)), y)
    train, test, rare = demo.split(data, seed=0, share=0.05)
    assert not set(train) & set(test)
    assert len(test) == 360
    n_frequent, n_rare = (np.count_nonzero(y[train] != "c"), np.count_nonzero(y[train] == "c"))
    assert n_rare == round(0.05 * n_frequent)
    assert rare == pytest.approx(n_rare / len(train))
    assert np.flatnonzero(y[train] == "c").max() > len(train) / 2
    again = demo.split(data, seed=0, share=0.05)
    assert (again[0] == train).all()


def test_the_table_has_a_row_for_every_data_set(demo):
    random = np.random.default_rng(0)
    y = np.arange(200) % 2
    data = demo.Data("made", random.normal(size=(200, 3)) + 4.0 * y[:, None], y)
    arguments = demo.parse_arguments(["--n-hidden", "8", "--share", "0.2"])
    result = demo.run(data, 0, arguments)
    assert set(result.held_out) == {None, "classwise", "priors"}
    assert min(*result.held_out.values(), *result.streaming.values()) > 0.8
    assert demo.accuracy_table({"made": [result, result]}).row_count == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--data", "missing"],
        ["--data", "missing", "--quick"],
        ["--data", "empty"],
        ["--seeds", "0"],
        ["--share", "3"],
        ["--share", "-1"],
        ["--share", "nan"],
        ["--n-hidden", "0"],
        ["--activation", "foo"],
        ["--ridge", "foo"],
        ["--ridge", "-1"],
    ],
)
def test_wrong_arguments_are_refused_at_once(demo, capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as raised:
        demo.parse_arguments(arguments)
    assert raised.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(("text", "ridge"), [("0.5", 0.5), ("paper", "paper")])
def test_a_ridge_is_a_number_or_a_name(demo, text, ridge):
    arguments = demo.parse_arguments(["--ridge", text])
    assert arguments.ridge == ridge
    demo.make_model(None, 0, arguments)


def test_help_keeps_the_commands_on_lines_of_their_own(demo, capsys):
    with pytest.raises(SystemExit):
        demo.parse_arguments(["--help"])
    assert "\npython demos/benchmarks/imbalance.py\n" in capsys.readouterr().out
