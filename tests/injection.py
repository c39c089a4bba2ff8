"""Raise an exception at any instruction of the package, and tell what it left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import onlinels
from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.inverse import RunningInverse
from onlinels.linalg.packed import SymmetricPanels

PACKAGE = str(Path(onlinels.__file__).parent)

DERIVED = {"_tracker", "_sum", "_is_own", "_prototype"}
"""Attributes of statistics that follow from others, or only say how these are stored."""

IN_USE = {"_cross", "_factor", "_rotated", "_weights"}
"""Arrays with room for more features and targets."""


class Injected(BaseException):
    """What nobody expects."""


def run_traced(enter: Callable[[Any, str, Any], Any], call: Callable[[], Any]) -> None:
    """Make a call that is traced; whoever traces otherwise (coverage) goes on afterwards."""
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)


N_LINES = 40
"""Lines of a call at most at which a handler is called."""


class Within:
    """Call a handler at a line of the package in a call, as a signal would.

    Parameters
    ----------
    at : int
        Number of the line; 0 for none.
    handler : callable
    only : str, optional
        Name of the only function whose lines count.
    """

    def __init__(self, at=0, handler=None, only=None):
        self.at, self.handler, self.only, self.count = at, handler, only, 0

    def _enter(self, frame, event, arg):
        of_package = frame.f_code.co_filename.startswith(PACKAGE)
        return self._step if of_package and self.only in (None, frame.f_code.co_name) else None

    def _step(self, frame, event, arg):
        if event == "line":
            self.count += 1
            if self.count == self.at:
                self.handler()
        return self._step

    def run(self, call):
        run_traced(self._enter, call)


def lines_of(make, call, every=None, most=N_LINES):
    """Return some numbers of lines of a call of a model."""
    counted, model = Within(), make()
    counted.run(lambda: call(model))
    step = every or max(1, counted.count // most)
    return range(1, counted.count + 1, step)


class Instructions:
    """Count the instructions of the package in calls, and raise an error before one of them.

    Parameters
    ----------
    at : int
        Number of the instruction; 0 for none.
    error : type of BaseException
    """

    def __init__(self, at: int = 0, error: type[BaseException] = Injected) -> None:
        self.at, self.error, self.count = at, error, 0

    def _enter(self, frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                raise self.error(f"at instruction {self.at}")
        return self._step

    def run(self, call: Callable[[], Any]) -> None:
        """Make a call in which instructions are counted."""
        run_traced(self._enter, call)


class Allocations:
    """Count the arrays that numpy makes, and let one of them fail, before or after it is made."""

    NAMES = "zeros", "empty", "array", "asfortranarray", "ascontiguousarray", "append", "vstack"

    def __init__(self, monkeypatch: Any, at: int = 0) -> None:
        self.at, self.count, self.armed = at, 0, False
        for name in self.NAMES:
            monkeypatch.setattr(np, name, self._failing(getattr(np, name)))

    def _failing(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **kwargs: Any) -> Any:
            self.count += self.armed
            if self.armed and self.count == self.at:
                raise MemoryError(f"at allocation {self.at}")
            return make(*args, **kwargs)

        return failing

    def run(self, call: Callable[[], Any]) -> None:
        """Make a call."""
        self.armed = True
        try:
            call()
        finally:
            self.armed = False


def raised_at(call: Callable[[], Any], at: int, error: type[BaseException]) -> bool:
    """Make a call with an error at an instruction, and tell whether it came out of the call."""
    try:
        Instructions(at, error).run(call)
    except error:
        return True
    return False


def n_instructions(call: Callable[[], Any]) -> int:
    """Return how many instructions of the package a call takes; errors of its own are ignored."""
    counted = Instructions()
    with suppress(ValueError, TypeError):
        counted.run(call)
    return counted.count


def digest(thing: Any) -> Any:
    """Return what statistics hold, to the last bit, as something that compares."""
    if isinstance(thing, np.ndarray):
        return thing.shape, thing.tobytes()
    if isinstance(thing, list | tuple):
        return [digest(each) for each in thing]
    if isinstance(thing, dict):
        return {name: digest(each) for name, each in thing.items()}
    of_package = type(thing).__module__.startswith("onlinels") and hasattr(thing, "__dict__")
    return digest(_held(thing)) if of_package else thing


def _held(thing: Any) -> Any:
    """Return what an object of the package holds."""
    if isinstance(thing, SymmetricPanels):
        return thing.full()
    if isinstance(thing, RunningInverse):
        n, scaled = thing.n_features, thing._scaled
        recent = scaled._recent[:n, : scaled._n_recent], scaled._signs[: scaled._n_recent]
        return [np.triu(scaled._base[:n, :n]), *recent, thing._scale]
    state = {name: each for name, each in vars(thing).items() if name not in DERIVED}
    if isinstance(thing, Accumulator):
        for name in IN_USE & state.keys():
            state[name] = state[name][: thing.n_features, : thing.n_targets]
    return state


def state_of(model: Any) -> Any:
    """Return all that a model has learnt, to the last bit."""
    statistics = model._statistics
    others = {"_class_counts", "_target_names"} & vars(model).keys()
    return {
        "statistics": digest(statistics),
        "features": model.feature_names,
        "classes": getattr(model, "classes", None),
        "clock": model._clock,
        "ridge": model.ridge,
        **{name: digest(vars(model)[name]) for name in sorted(others)},
    }


def answers_of(model: Any) -> list[Any]:
    """Return the numbers of all answers."""
    return [model.output_weights, model.intercept, np.array([model.ridge_])]


def same_answers(one: list[Any], other: list[Any]) -> bool:
    """Tell whether answers agree but for rounding."""
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-7, atol=1e-9)
        for a, b in zip(one, other, strict=True)
    )
