"""Exceptions raised at a chosen bytecode, and all that a model knows, for tests of interrupts."""

from __future__ import annotations

import copy
import pickle
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onlinels
from injection import run_traced
from onlinels.accumulators.tracker import Tracker

PACKAGE = Path(onlinels.__file__).parent

CACHES = {
    # What was looked at or read last, by stream classifiers and linear layers.
    "_samples",
    "_seen",
    "_last",
    "_complete",
    "_reader",
    "_layout",
    "_harmless_square",
    "_alone",
    # The last solution, which follows from the statistics, and which an interrupt may drop.
    "_tracker",
    # How a pipeline of river's goes through its steps.
    "_plan",
    "_last_step_cached",
    "_inference_transformers",
}
"""Attributes of which no answer depends."""


class Interrupt(BaseException):
    """Of nobody's kind."""


KINDS = KeyboardInterrupt, MemoryError, Interrupt


class Tracer:
    """Count bytecodes in files whose names begin so, and raise an exception at one of them."""

    def __init__(self, where, at=None, exception=None):
        self.where, self.at, self.exception = where, at, exception
        self.count = 0

    def __call__(self, frame, event, arg):
        if event == "call":
            if not frame.f_code.co_filename.startswith(self.where):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self.count += 1
            if self.count == self.at:
                raise self.exception
        return self

    def run(self, action):
        """Do what is to be interrupted; return what was raised, None if nothing was."""
        try:
            run_traced(self, action)
        except BaseException as error:
            return error
        return None


def knowledge(value: Any, met: tuple[int, ...] = ()) -> Any:
    """Return all that an object knows, bit for bit, but caches."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return "objects", [knowledge(each, met) for each in value.tolist()]
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return type(value), [(key, knowledge(each, met)) for key, each in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value), [knowledge(each, met) for each in value]
    if id(value) in met:
        return "met above"
    if isinstance(value, type) or callable(value) or not hasattr(value, "__dict__"):
        return pickle.dumps(value) if not callable(value) else repr(type(value))
    own = type(value).__getstate__ is not object.__getstate__
    state = value.__getstate__() if own else vars(value)
    met = (*met, id(value))
    kept = {name: each for name, each in state.items() if name not in CACHES}
    return type(value), [(name, knowledge(kept[name], met)) for name in sorted(kept)]


def drop_tracked(value: Any, met: set[int]) -> None:
    """Let all trackers of a model drop their solutions, as an interrupt may, to the last bit."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, deque)):
        for each in value:
            drop_tracked(each, met)
    elif isinstance(value, Tracker):
        value._tracked, value._n_new = None, np.inf
    elif hasattr(value, "__dict__") and not callable(value) and id(value) not in met:
        met.add(id(value))
        drop_tracked(vars(value), met)


@dataclass(frozen=True)
class Tally:
    """How many bytecodes an action has, how many were interrupted, and what was left."""

    n_bytecodes: int
    n_injections: int
    n_before: int
    n_after: int


def assert_whole(model, act, go_on, where=str(PACKAGE), most=None, seed=0):
    """Interrupt an action at every bytecode, or at as many as are wanted.

    Parameters
    ----------
    model : object
        It is copied for every injection.
    act : callable
        Changes a model; may raise.
    go_on : callable
        Lets a model learn more, after the interrupt.
    where : str or tuple of str
        Interrupts come in files whose names begin so.
    most : int, optional
        Injections: half of them even, the others near the end and drawn. All, without it.
    """
    known = []
    for number in range(2):
        twin = copy.deepcopy(model)
        if number:
            Tracer(()).run(lambda twin=twin: act(twin))
        state = knowledge(twin)
        drop_tracked(twin, set())
        go_on(twin)
        known.append((state, knowledge(twin)))
    twin, tracer = copy.deepcopy(model), Tracer(where)
    tracer.run(lambda: act(twin))
    left = [0, 0]
    places = chosen(tracer.count, most, seed)
    for place in places:
        twin = copy.deepcopy(model)
        injected = Tracer(where, place, KINDS[place % len(KINDS)]())
        injected.run(lambda twin=twin: act(twin))
        state = knowledge(twin)
        which = [number for number in (0, 1) if state == known[number][0]]
        assert which, f"neither as before nor as after: bytecode {place} of {tracer.count}"
        left[which[0]] += 1
        drop_tracked(twin, set())
        go_on(twin)
        assert knowledge(twin) == known[which[0]][1], f"goes on otherwise: bytecode {place}"
    return Tally(tracer.count, len(places), *left)


def chosen(count, most, seed):
    """Return the places of injections, from 1 to `count`."""
    if most is None or most >= count:
        return range(1, count + 1)
    even = np.linspace(1, count, most // 2).astype(int).tolist()
    near_end = range(max(1, count - most // 4), count + 1)
    drawn = np.random.default_rng(seed).integers(1, count + 1, most // 4).tolist()
    return sorted({*even, *near_end, *drawn})
