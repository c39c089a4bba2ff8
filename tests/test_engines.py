"""Recipes for other engines: what they merge is the model of one process."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onlinels
from support.laws import aligned_weights

datasets = pytest.importorskip("sklearn.datasets")
pytest.importorskip("pandas")

GUIDE = Path(__file__).resolve().parents[1] / "demos" / "guide"
RECIPES = sorted((GUIDE / "engines").glob("*.py"))


def test_the_page_has_the_recipes_as_they_are_run():
    blocks = re.findall(
        r"^```python\n(.*?)^```", (GUIDE / "engines.md").read_text("utf-8"), re.S | re.M
    )
    for recipe in RECIPES:
        text = re.sub(r"  # type: ignore\[.*\]$", "", recipe.read_text("utf-8"), flags=re.M)
        assert text in blocks, recipe
        assert text.count("\n") <= 25


NEEDS_JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or later")
# Ray learns every block by itself, however small; no token is written to the home folder.
OF_RAY = {"RAY_DATA_SHUFFLE_INPUT_BATCH_BYTES": "0", "RAY_AUTH_MODE": "disabled"}
OF_SPARK = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "package", "settings"),
    [
        ("multiprocessing_sites.py", "onlinels", {}),
        ("ray_sites.py", "ray", OF_RAY),
        pytest.param("spark_sites.py", "pyspark", OF_SPARK, marks=NEEDS_JAVA),
    ],
)
def test_a_recipe_merges_to_one_process(recipe, package, settings, tmp_path):
    pytest.importorskip(package)
    folder = str(Path(onlinels.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, GUIDE / "engines" / recipe],
        cwd=tmp_path,
        env=os.environ | settings | {"PYTHONPATH": folder, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    merged = onlinels.load(tmp_path / "merged.npz")
    frame = datasets.load_diabetes(as_frame=True).frame
    whole = onlinels.LeastSquaresRegressor(ridge=0.01)
    whole.learn_many(frame.drop(columns="target"), frame["target"])
    assert (merged.count, merged.ridge_) == (whole.count, whole.ridge_) == (442, 0.01)
    weights = whole.output_weights
    np.testing.assert_allclose(aligned_weights(merged, whole), weights, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(merged.intercept, whole.intercept, rtol=1e-12)
