"""Every benchmark of speed runs in its quick form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")
SPEED = Path(__file__).parent.parent / "demos" / "benchmarks" / "speed"
PEERS = {
    "gram": ["hpelm", "sklearn", "threadpoolctl"],
    "rows": ["padasip"],
    "sizes": ["matplotlib"],
    "stage1": ["torch"],
}
SCRIPTS = [
    "gram",
    "hidden",
    "interface",
    "long_stream",
    "memory",
    "network",
    "rows",
    "saving",
    "sizes",
]


def run(name, *options, cwd):
    command = [sys.executable, str(SPEED / f"{name}.py"), "--quick", *options]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("name", [*SCRIPTS, "stage1"])
def test_quick_forms(tmp_path, name):
    for peer in PEERS.get(name, []):
        pytest.importorskip(peer)
    done = run(name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cores" in done.stdout


def test_every_script_is_tried():
    scripts = {path.stem for path in SPEED.glob("*.py")} - {"measure"}
    assert scripts == {*SCRIPTS, "stage1"}
