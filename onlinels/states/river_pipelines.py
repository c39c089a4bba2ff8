"""What river's pipelines and unions consist of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from river import compose

from onlinels.saving.fields import Field
from onlinels.saving.kinds import KINDS, State, saved

STEPS = Field("steps by name", lambda steps: all(type(name) is str for name in steps))


def _held(name: str) -> Callable[[Any], State]:
    return lambda holder: {name: OrderedDict(getattr(holder, name))}


def _check_steps(steps: dict[str, Any]) -> None:
    # River would make one of a class, or of a list, that stands for a step.
    for name, step in steps.items():
        if type(step) not in KINDS.by_class:
            raise ValueError(f"its step {name!r} is no step of a pipeline")


def _pipeline(state: State) -> Any:
    _check_steps(state["steps"])
    return compose.Pipeline(*state["steps"].items())


def _union(state: State) -> Any:
    _check_steps(state["transformers"])
    return compose.TransformerUnion(*state["transformers"].items())


saved(compose.Pipeline, {"steps": STEPS}, take=_held("steps"), make=_pipeline)
saved(
    compose.TransformerUnion,
    {"transformers": STEPS},
    take=_held("transformers"),
    make=_union,
)
