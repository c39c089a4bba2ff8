"""The demo of asking only when unsure: at no more labels it reads more digits than at random."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")
pytest.importorskip("sklearn")
DEMOS = Path(__file__).parents[1] / "demos"
CELL = re.compile(r"(\d+): ([\d.]+)% ± [\d.]+")


def test_asking_when_unsure_beats_asking_at_random(tmp_path):
    done = subprocess.run(
        [sys.executable, str(DEMOS / "label_saving.py"), "--quick"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    rows = [CELL.findall(line) for line in done.stdout.splitlines() if CELL.search(line)]
    assert len(rows) == 2
    for share, row in zip((0.1, 0.2), rows, strict=True):
        (labels, at_random), *unsure = [(int(asked), float(right)) for asked, right in row]
        assert len(unsure) == 2
        assert labels == pytest.approx(1200 * share, abs=20)
        for asked, right in unsure:
            assert 0.8 * labels < asked < 1.03 * labels
            assert right > at_random + 2.0
    assert (tmp_path / "label_saving.png").stat().st_size > 10_000


def test_the_keeper_asks_for_the_share_whatever_the_scale(monkeypatch):
    monkeypatch.syspath_prepend(DEMOS)
    from label_saving import BudgetKeeper

    random = np.random.default_rng(0)
    for share in (0.05, 0.3, 0.8):
        for scale in (1e-3, 1.0, 50.0):
            # What is easy changes its scale halfway.
            ease = scale * random.random(6000) * np.repeat([1.0, 5.0], 3000)
            keeper = BudgetKeeper(share)
            asked = np.array([keeper.asks(each) for each in ease.tolist()])
            assert asked[1000:].mean() == pytest.approx(share, abs=0.03)
            assert (asked.cumsum() <= 11 + share * np.arange(1, 6001)).all()
            late = slice(4000, None)
            assert ease[late][asked[late]].mean() < 0.8 * ease[late][~asked[late]].mean()
