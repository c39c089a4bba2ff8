"""The benchmark of long runs compares with the definition, and errors stay where they belong."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("rich")
pytest.importorskip("matplotlib")

ALLOWED = {
    "independent": 1e-13,
    "one direction rare": 1e-8,
    "far from 0": 1e-12,
    "constant": 1e-13,
}
"""Largest relative error of weights after some thousands of rows, at ridge 1."""


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("long_runs")


@pytest.fixture(scope="module")
def load_long():
    """Return the script, loaded once for all examples."""
    import sys
    from pathlib import Path

    folder = str(Path(__file__).parent.parent / "demos" / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import long_runs

        yield long_runs
    finally:
        sys.path.remove(folder)


@pytest.fixture
def streams(load_benchmark):
    return load_benchmark("long_streams")


@pytest.mark.parametrize("decay", [Decimal(1), Decimal("0.5"), Decimal("0.999")])
@pytest.mark.parametrize("n_rows", [1, 7, 10, 11, 47])
def test_weights_of_rows_are_sums_over_the_stream(streams, decay, n_rows):
    order = np.random.default_rng(0).integers(0, 4, 10)
    expected = dict.fromkeys(range(4), Fraction(0))
    for row in range(n_rows):
        expected[int(order[row % 10])] += Fraction(decay) ** (n_rows - 1 - row)
    weights = streams.row_weights(order, n_rows, decay)
    for which, weight in expected.items():
        assert float(weights.get(which, 0)) == pytest.approx(float(weight), rel=1e-15)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["independent", "one direction rare", "constant"])
def test_the_definition_is_the_batch_solution(streams, kind, fit_intercept):
    table, ridges = streams.make_table(kind), np.arange(1.0, 9.0)
    definition = streams.define(table, 600, Decimal("0.99"), ridges, fit_intercept)
    X, labels = table.between(0, 600)
    w = 0.99 ** np.arange(599, -1, -1.0)
    A = np.hstack([X, np.ones((600, int(fit_intercept)))])
    penalty = np.append(ridges, np.zeros(int(fit_intercept)))
    system, targets = (A.T * w) @ A + np.diag(penalty), (A.T * w) @ np.eye(3)[labels]
    expected = np.linalg.solve(system, targets)
    np.testing.assert_allclose(definition.solution(), expected, rtol=1e-8, atol=1e-10)
    assert definition.residual(definition.solution()) < 1e-16
    assert definition.residual(expected * (1.0 + 1e-6)) > 1e-8


def test_rare_and_missing_directions_are_what_they_are_called(streams):
    for kind, n_expected in (("one direction rare", 5), ("one direction never", 0)):
        X, _ = streams.make_table(kind).between(0, streams.PERIOD)
        assert np.count_nonzero(X @ streams.SIGNS) == n_expected
        assert (X.round() == X).all()


def test_quick_form(demo, capsys, tmp_path):
    cases = list(demo.cases())
    assert len(set(cases)) == len(cases)
    some = "nothing", "factor 0.999"
    shown = [case for case in cases if case.stream in demo.THOROUGH and case.forgets in some]
    demo.cases = lambda: shown
    figure = tmp_path / "errors.png"
    arguments = ["--rows", "600", "--single-rows", "60", "--figure", str(figure), "--no-progress"]
    demo.main(arguments)
    printed = capsys.readouterr().out
    assert printed.count("one by one") == sum(case.singly for case in shown) > 0
    assert "errors against rows" in printed
    assert figure.read_bytes().startswith(b"\x89PNG")


@settings(max_examples=25)
@given(st.data())
def test_errors_stay_small_over_thousands_of_rows(load_long, data):
    demo = load_long
    accumulator = data.draw(st.sampled_from(demo.ACCUMULATORS))
    stream = data.draw(st.sampled_from(sorted(ALLOWED)))
    intercept = stream == "far from 0" or data.draw(st.booleans())
    forgets = data.draw(st.sampled_from(sorted(demo.SETTINGS)))
    singly = forgets != "half-life" and data.draw(st.booleans())
    case = demo.Case(stream, accumulator, intercept, forgets, singly=singly)
    n_rows = data.draw(st.integers(1, 300 if singly else 20_000))
    if accumulator == "recursive" and forgets != "nothing":
        n_rows = min(n_rows, 5000)
    result = demo.run(case, n_rows)
    assert max(result.errors) <= ALLOWED[stream]
    assert max(result.residuals) <= 1e-9


@pytest.mark.parametrize("arguments", [["--rows", "0"], ["--single-rows", "many"]])
def test_wrong_arguments_are_refused_at_once(demo, capsys, arguments):
    with pytest.raises(SystemExit) as raised:
        demo.parse_arguments(arguments)
    assert raised.value.code == 2
    assert arguments[0] in capsys.readouterr().err
