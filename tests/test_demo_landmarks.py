"""The benchmark of pairs among few examples and among all runs, and compares like with like."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("rich")
pytest.importorskip("sklearn")


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("landmarks")


def test_quick_form(demo, capsys):
    demo.main(["--quick", "--no-progress"])
    printed = capsys.readouterr().out
    few, all_of_them = map(float, re.findall(r"test error ([\d.]+)%", printed))
    assert 0 < few < 10
    assert 0 < all_of_them < 10
    difference = float(re.search(r"difference ([-+][\d.]+) points", printed)[1])
    assert difference == pytest.approx(few - all_of_them, abs=0.002)


def test_with_as_many_landmarks_as_images_nothing_differs(demo, capsys):
    demo.main(["--no-progress", "--n-hidden", "50", "--landmarks", "1300", "--seeds", "1"])
    few, all_of_them = re.findall(r"test error ([\d.]+)%", capsys.readouterr().out)
    assert few == all_of_them
