"""The demo of three sites: weights are those of the rows that are in, and of no others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("sklearn")
DEMO = Path(__file__).parents[1] / "demos" / "personal_data.py"
ROW = re.compile(r"^\s+(\S.*?)\s{2,}(\d+)\s+([\d.]+)%\s+(\S+)\s*$")


def test_every_step_equals_the_batch_of_its_rows(tmp_path):
    done = subprocess.run(
        [sys.executable, str(DEMO)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = [match.groups() for match in map(ROW.match, done.stdout.splitlines()) if match]
    names, counts, accuracies, differences = zip(*found, strict=True)
    north, south, west, merged, one_less, site_less = map(int, counts)
    assert names[3] == "all three, merged"
    assert min(north, south, west) > 50
    assert merged == north + south + west == 419
    assert one_less == merged - 1
    assert site_less == north + south
    assert all(float(each) < 1e-8 for each in differences)
    assert float(accuracies[3]) > 90.0
    assert float(accuracies[3]) >= max(map(float, accuracies[:3])) - 1.0
