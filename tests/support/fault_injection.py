"""Raise an exception at points of one public call, and judge what it left behind."""

import dis
import os
import pickle
import random
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from queue import Queue
from types import CodeType
from typing import Any

import numpy as np
import pytest

import onlinels
from support.processes import PATIENCE, forked

PACKAGE = str(Path(onlinels.__file__).parent)
ERRORS = KeyboardInterrupt, MemoryError


@cache
def exits(code: CodeType) -> frozenset[int]:
    """Return where with-blocks are left: no signal comes there, and nothing fails.

    Python calls `__exit__(None, None, None)` there, or `__exit__` with what was raised.
    """
    steps, found = list(dis.get_instructions(code)), set()
    for step, following in pairwise(steps):
        if following.opname == "WITH_EXCEPT_START":
            found |= {step.offset, following.offset}
    for first in range(len(steps) - 3):
        nones = steps[first : first + 3]
        if all(step.opname == "LOAD_CONST" and step.argval is None for step in nones):
            start = first - (steps[first - 1].opname == "SWAP")
            found |= {step.offset for step in steps[start : first + 6]}
    return frozenset(found)


class Points:
    """Note the lines of the package that a call executes; before one of them do something.

    A line stands for its first time and, if it is executed again, for its last time.
    """

    def __init__(self, at: int = 0, reach: Callable[[], Any] = lambda: None) -> None:
        self.at, self.reach, self.count, self.where = at, reach, 0, ""
        self._times: dict[tuple[CodeType, int], list[int]] = {}

    @property
    def places(self) -> list[int]:
        """The numbers of the first and the last time of each line, in order."""
        return sorted({place for times in self._times.values() for place in times})

    def _enter(self, frame: Any, event: str, arg: Any) -> Any:
        return self._step if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _step(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line" and frame.f_lasti not in exits(frame.f_code):
            self.count += 1
            times = self._times.setdefault((frame.f_code, frame.f_lineno), [self.count])
            times[1:] = [self.count]
            if self.count == self.at:
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                self.reach()
        return self._step

    def run(self, call: Callable[[], Any]) -> bool:
        """Make a call, and tell whether an injected error came out of it; a refusal is none."""
        # Whoever traces otherwise (coverage) goes on afterwards.
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        except (ValueError, TypeError):
            pass
        except ERRORS:
            return True
        finally:
            sys.settrace(before)
        return False


def assert_not_silenced() -> None:
    """Fail unless warnings and errors still come: of this package, and of numpy."""
    model = onlinels.LeastSquaresRegressor(ridge=1.0)
    model.learn_one({"known": 1.0}, 1.0)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        model.predict_one({"unknown": 1.0})
        np.float64(1e308) * np.float64(10.0)
    assert len(given) == 2, "warnings are silenced"
    with pytest.raises(TypeError):
        model.learn_one({"known": "text"}, 1.0)


def plain(answer: Any) -> Any:
    """Return an answer as lists of numbers and texts."""
    if isinstance(answer, Mapping):
        return [[str(key), plain(value)] for key, value in sorted(answer.items(), key=str)]
    if isinstance(answer, np.ndarray):
        return plain(answer.tolist())
    if isinstance(answer, (list, tuple)):
        return [plain(each) for each in answer]
    return float(answer) if isinstance(answer, (int, float, np.number)) else str(answer)


def alike(one: Any, other: Any) -> bool:
    """Tell whether plain answers agree but for rounding."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-6, atol=1e-8, equal_nan=True))
    return bool(one == other)


def elsewhere(call: Callable[[], Any]) -> Any:
    """Return what a call returns in another thread, which a lock that is left taken keeps out."""
    answers: Queue[tuple[Any, BaseException | None]] = Queue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    answer, error = answers.get(timeout=PATIENCE)
    if error is not None:
        raise error
    return answer


def interrupt(is_known: Callable[[], bool]) -> None:
    raise KeyboardInterrupt("injected")


def run_out_of_memory(is_known: Callable[[], bool]) -> None:
    raise MemoryError("injected")


def fork_elsewhere(is_known: Callable[[], bool]) -> None:
    """Let another thread fork; the new process finds what is known, or says that it was forked."""

    def check() -> None:
        try:
            assert is_known()
        except RuntimeError as error:
            if "was forked" not in str(error):
                raise

    assert elsewhere(lambda: forked(check)) == 0


WAYS = interrupt, run_out_of_memory, *([fork_elsewhere] if hasattr(os, "fork") else [])


def assert_before_or_after(
    model: Any,
    act: Callable[[Any], Any],
    go_on: Callable[[Any], Any],
    tell: Callable[[Any], Any],
    most: int,
    seed: Any = 0,
) -> int:
    """Interrupt an act at some of its lines, or let another thread fork there; return how often.

    Afterwards the model tells what it would have told before the act, or after it, from another
    thread too, and goes on so. If nothing was raised it is as after it. The new process may refuse
    to use it instead, since it was forked.
    """
    begun = pickle.dumps(model)

    def outcome(twin: Any) -> tuple[Any, Any]:
        told = elsewhere(lambda: plain(tell(twin)))
        go_on(twin)
        return told, plain(tell(twin))

    def learn(twin: Any) -> Any:
        with suppress(ValueError, TypeError):
            act(twin)
        return twin

    outcomes = [outcome(pickle.loads(begun)), outcome(learn(pickle.loads(begun)))]
    twin, counted = pickle.loads(begun), Points()
    counted.run(lambda: act(twin))
    for number, at in enumerate(spread(counted.places, most, seed)):
        twin = pickle.loads(begun)
        way = WAYS[number % len(WAYS)]
        points = Points(at, partial(way, lambda twin=twin: known(outcome(twin), outcomes)))
        raised = points.run(lambda twin=twin: act(twin))
        where = f"{way.__name__} at {at} of {counted.count} in {points.where}"
        assert_not_silenced()
        try:
            found = outcome(twin)
        except Exception as error:
            raise AssertionError(f"works on no more: {where}") from error
        assert known(found, outcomes[1 - raised :]), where
    return min(most, len(counted.places))


def spread(places: Sequence[int], most: int, seed: Any) -> Sequence[int]:
    """Return at most so many places, evenly spread, from another one on for each seed."""
    if most >= len(places):
        return places
    step, first = len(places) / most, random.Random(str(seed)).random()
    return [places[int((first + k) * step)] for k in range(most)]


def known(found: Any, outcomes: Sequence[Any]) -> bool:
    return any(alike(found, each) for each in outcomes)
