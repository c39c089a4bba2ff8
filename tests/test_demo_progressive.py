"""The benchmark of rows that are predicted, then learnt, refuses sizes that leave nothing."""

from __future__ import annotations

import pytest

pytest.importorskip("rich")


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("progressive")


@pytest.mark.parametrize("name", ["--rows", "--repeats", "--classes", "--features"])
def test_sizes_are_above_zero(demo, capsys, monkeypatch, name):
    monkeypatch.setattr("sys.argv", ["progressive.py", name, "0"])
    with pytest.raises(SystemExit) as raised:
        demo.parse_arguments()
    assert raised.value.code == 2
    assert name in capsys.readouterr().err


def test_the_smallest_stream_is_measured(demo):
    assert demo.microseconds({}, demo.stream(1, 1, 1)) > 0
