"""Profiles of hypothesis, and shared fixtures.

The default profile draws the same examples everywhere. `ONLINELS_PROFILE=thorough` draws freely,
and many.
"""

from __future__ import annotations

import gc
import os
import sys

if "PYTEST_XDIST_WORKER" in os.environ:
    # One process a core: threads of BLAS would only wait for each other. Before numpy comes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

COMMON = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("default", **COMMON, derandomize=True, max_examples=10)
settings.register_profile("thorough", **COMMON, derandomize=False, max_examples=500)
# Otherwise hypothesis would also draw the constants of modules that are loaded and not installed:
# they depend on the tests that have run before, and on how the package is installed.
NO_CONSTANTS = getattr(providers, "_local_constants", None)
providers._get_local_constants = lambda: NO_CONSTANTS
PROFILE = os.environ.get("ONLINELS_PROFILE", "default")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Drawn tests are long forms themselves where examples are drawn freely."""
    for item in items:
        if PROFILE == "thorough" and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Keep garbage collections, of which river's checks make many, from visiting all modules."""
    # Hypothesis takes note of numpy's generator, which it must find among what is collected.
    given(st.none())(settings(max_examples=1)(lambda nothing: None))()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def spent_states():
    """Let every state raise that a change of rows has consumed, and planned calls that are none."""
    # Late: the size of blocks of BLAS is set before numpy comes.
    from onlinels.core import apply
    from onlinels.linear import model
    from support import planned, spent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spent.Change, "planned", spent.planned)
        patch.setattr(model, "learn_new", spent.learnt_new)
        patch.setattr(apply, "call", planned.call)
        yield


@pytest.fixture
def many_switches():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
