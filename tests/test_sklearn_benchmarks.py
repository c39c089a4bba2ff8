"""The benchmarks of scikit-learn's interface in their quick forms."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

SCRIPTS = Path(__file__).parents[1] / "demos" / "benchmarks"


def printed(script, folder, *words):
    """Return what a script prints in its quick form."""
    command = [sys.executable, str(SCRIPTS / script), "--quick", *words]
    # The package under test, wherever it is installed.
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS.parents[1])}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "cores" in done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--raw",)])
def test_auto_beside_cross_validation(tmp_path, words):
    output = printed("ridge_cv.py", tmp_path, *words)
    for name in ("diabetes", "linnerud", "wine", "AirlinePassengers", "SolarFlare", "Phishing"):
        own, default, _, many, _ = map(float, re.findall(r"\d\.\d{3,4}", output.split(name)[1])[:5])
        assert min(own, default, many) > 0.0
    ratios = [float(ratio) for ratio in re.findall(r"median over data sets: (\S+)", output)]
    assert len(ratios) == 2
    assert max(ratios) < 1.05


@pytest.mark.slow
def test_chunks_beside_all_rows_at_once(tmp_path):
    output = printed("speed/partial_fit.py", tmp_path)
    for title, ridge in (("numbers", "Ridge"), ("10 classes", "RidgeClassifier")):
        table = output.split(f"20,000 rows of 200 columns, {title}")[1]
        errors = [
            float(re.search(rf" {re.escape(name)} .* (\S+) *\n", table)[1])
            for name in (f"{ridge}.fit", f"Incremental{ridge}(alpha=1.0).partial_fit")
        ]
        assert errors[0] == errors[1] < 0.5
    assert "CSR matrix" in output
    assert float(re.search(r"difference of weights, relative: (\S+)", output)[1]) < 1e-9
