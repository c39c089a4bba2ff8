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


def assert_merges_to_one_process(recipe, folder, **settings):
    """Run a recipe in a process of its own, and compare weights at its ridge, a number."""
    package = str(Path(onlinels.__file__).parents[1])
    settings |= {"PYTHONPATH": package, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, GUIDE / "engines" / recipe],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    merged = onlinels.load(folder / "merged.npz")
    frame = datasets.load_diabetes(as_frame=True).frame
    whole = onlinels.LeastSquaresRegressor(ridge=0.01)
    whole.learn_many(frame.drop(columns="target"), frame["target"])
    assert (merged.count, merged.ridge_) == (whole.count, whole.ridge_) == (442, 0.01)
    weights = whole.output_weights
    np.testing.assert_allclose(aligned_weights(merged, whole), weights, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(merged.intercept, whole.intercept, rtol=1e-12)


@pytest.mark.slow
def test_processes(tmp_path):
    assert_merges_to_one_process("multiprocessing_sites.py", tmp_path)


@pytest.mark.slow
def test_ray(tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install 'ray[data]'")
    # Every block is learnt by itself, however small; no token is written to the home folder.
    settings = {"RAY_DATA_SHUFFLE_INPUT_BATCH_BYTES": "0", "RAY_AUTH_MODE": "disabled"}
    assert_merges_to_one_process("ray_sites.py", tmp_path, **settings)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or later")
def test_spark(tmp_path):
    pytest.importorskip("pyspark", reason="needs Spark: pip install pyspark")
    settings = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    assert_merges_to_one_process("spark_sites.py", tmp_path, **settings)
