"""Processes that are forked while threads learn: models in the new process are whole, or raise.

Since 3.12, Python warns of any fork beside threads.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENES = Path(__file__).parent / "support" / "forked_models.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_models_in_a_forked_process_are_whole_or_raise():
    # In one process, because it takes seconds to start.
    command = [sys.executable, "-W", "ignore", SCENES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    expected = "between_batches {True}\ninside_a_call {True}\nin_use {True}\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
