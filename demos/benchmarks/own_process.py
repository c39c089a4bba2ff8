"""Call a function in a process of its own: its memory is measured alone, its end ends no other."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

REMEDY = "Pass a smaller --n-hidden or --batch-size."


class CallFailedError(Exception):
    """What went wrong in the other process, in words."""


def call_alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new process and return what it returns.

    Raises
    ------
    CallFailedError
        If it raises, or its process ends before it returns.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments), daemon=True)
    with _interrupts_wait():
        process.start()
    sender.close()
    try:
        returned, answer = receiver.recv()
    except EOFError:
        process.join()
        raise CallFailedError(_end_in_words(process.exitcode)) from None
    finally:
        process.kill()
        process.join()
    if not returned:
        raise CallFailedError(answer)
    return answer


def until_interrupted(measure: Callable[[], int]) -> int:
    """Return the exit code of a command that measures: 130 after Ctrl-C, 1 if a call fails."""
    try:
        return measure()
    except CallFailedError as error:
        print(f"Not measured: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        for stream in (sys.stdout, sys.stderr):
            if stream.isatty():
                # The bar of a process that was ended leaves the cursor hidden.
                print("\x1b[?25h", end="", file=stream, flush=True)
        print("Interrupted. The same command goes on from here.", file=sys.stderr)
        return 130


def _answer(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer = (True, function(*arguments))
    except MemoryError as error:
        answer = (False, f"Memory ran out: {error or 'no room'}. {REMEDY}")
    except (OSError, ValueError) as error:
        answer = (False, str(error))
    except Exception:
        answer = (False, traceback.format_exc())
    sender.send(answer)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait meanwhile, and never reach a process that is started meanwhile.

    It goes to every process of a terminal. The one that waits for the other then ends it; half
    started, or by itself, the other would print where it was.
    """
    resource_tracker.ensure_running()  # As `start` does, which would let interrupts through again.
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _end_with_parent() -> None:
    """End at once when the process that waits is killed, so that no run goes on unseen."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end_in_words(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return f"The system killed its process, as it does when memory runs out. {REMEDY}"
    return f"Its process ended with exit code {code} before it was done. Run it again."


def peak_memory() -> float:
    """Return the most memory that this process has held so far, in GiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss begins at that of the process that started this one.
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**20
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (2**30 if sys.platform == "darwin" else 2**20)
