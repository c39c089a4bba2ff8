"""Processes and threads that tests wait for, with patience, and do not leave behind."""

import os
import signal
import subprocess
import sys
import warnings
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


def forked(act):
    """Fork and act in the new process; return 0, 1 if it raised, or less than 0 if it was killed.

    An error is printed.
    """
    with warnings.catch_warnings():
        # Threads may run beside it.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        act()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)
