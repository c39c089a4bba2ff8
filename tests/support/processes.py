"""Processes and threads that tests wait for, with patience, and do not leave behind."""

import subprocess
from contextlib import contextmanager

PATIENCE = 600.0
"""Seconds after which something is taken to wait for ever: no test fails on a busy machine."""


@contextmanager
def started(*commands, **how):
    """Start processes together; none of them outlives the block."""
    processes = []
    try:
        for command in commands:
            processes.append(subprocess.Popen(command, **how))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def ended(process):
    """Wait for a process, kill it if it does not end, and return its exit code."""
    process.join(PATIENCE)
    process.kill()
    process.join()
    return process.exitcode
