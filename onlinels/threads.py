"""Transitional names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onlinels.numerics import Lock, all_held

CopyableLock = Lock


def while_held(locks: Sequence[Any], call: Callable[[], Any]) -> Any:
    """Return what a call returns, holding locks."""
    with all_held(*locks):
        return call()


def merged(model: Any, other: Any) -> Any:
    """Let a model take another one's rows."""
    with all_held(model._lock, other._lock):
        model._merge(other)
    return model
