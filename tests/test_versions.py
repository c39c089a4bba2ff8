"""What `show_versions` prints, with each core."""

import os
import subprocess
import sys

import pytest

import onlinels
from onlinels.core import IN_USE


def test_it_names_versions_and_threads(capsys, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    onlinels.show_versions()
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["onlinels"] == onlinels.__version__
    assert lines["threads"].startswith("1, OPENBLAS_NUM_THREADS=1")
    used = "python numpy scipy river narwhals"
    assert all(lines[name][0].isdigit() for name in used.split())


@pytest.mark.parametrize("asked", ["reference", ""])
def test_it_names_the_core_in_use(asked):
    done = subprocess.run(
        [sys.executable, "-c", "import onlinels; onlinels.show_versions()"],
        env={**os.environ, "ONLINELS_CORE": asked},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = "compiled" if IN_USE == "compiled" else "numpy, no extension"
    expected = "numpy, ONLINELS_CORE=reference" if asked else expected
    assert f"core: {expected}\n" in done.stdout
