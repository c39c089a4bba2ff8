"""What `show_versions` prints, with each core."""

import os
import subprocess
import sys
import textwrap

import pytest

import onlinels
from onlinels.core import IN_USE

NAMES = {"compiled": "compiled", "reference": "numpy, no extension"}


def run(asked, code, *options, **variables):
    """Run code in a process that asks for a core."""
    variables = {**os.environ, "ONLINELS_CORE": asked, **variables}
    command = [sys.executable, *options, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("asked", ["reference", ""])
def test_versions_threads_and_core(asked):
    code = "import onlinels; onlinels.show_versions()"
    done = run(asked, code, OPENBLAS_NUM_THREADS="1")
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert lines["onlinels"] == onlinels.__version__
    assert lines["threads"].startswith("1, OPENBLAS_NUM_THREADS=1")
    assert all(lines[name][0].isdigit() for name in ("numpy", "scipy", "river", "narwhals"))
    assert lines["core"] == ("numpy, ONLINELS_CORE=reference" if asked else NAMES[IN_USE])


@pytest.mark.parametrize("asked", ["reference", ""])
def test_the_first_model_says_once_that_there_is_no_compiled_core(asked):
    """In a log, so that models can be made where warnings are errors, unless this was asked for."""
    code = """
        import sys, types
        sys.modules["onlinels.core._core"] = types.SimpleNamespace(LAYOUT=0)
        import onlinels
        print("imported", file=sys.stderr, flush=True)
        for kind in (onlinels.LeastSquaresRegressor, onlinels.StreamRegressor):
            onlinels.loads(onlinels.dumps(kind()))
    """
    before, after = run(asked, code, "-W", "error").stderr.split("imported\n")
    assert before == ""
    assert after.count("\n") == after.count("Install a C compiler") == (not asked)
