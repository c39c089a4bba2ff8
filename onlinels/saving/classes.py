"""The classes whose objects can be saved: those of the package that say so, and some of river's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from onlinels.checks import plain_value, replaced
from onlinels.numerics import Lock, deep_copy, restore
from onlinels.saving import river_models
from onlinels.saving.river_models import SavedState

PLAIN_TYPES = (str, int, bool, float, type(None))
"""Types of labels and names, besides tuples of them."""


def is_plain(value: Any) -> bool:
    """Return whether a value is a label or name, whose type is preserved in a file.

    Examples
    --------
    >>> is_plain(("a", (1, None))), is_plain({"a"})
    (True, False)
    """
    return all(map(is_plain, value)) if type(value) is tuple else type(value) in PLAIN_TYPES


def in_plain_types(value: Any) -> Any:
    """Return a label or name of any type as an equal value of plain types, if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> in_plain_types(np.str_("a")), in_plain_types((True, np.float32(0.5)))
    ('a', (True, 0.5))
    """
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, tuple):
        return replaced(value, lambda entries: tuple(map(in_plain_types, entries)))
    return replaced(value, plain_value)


@dataclass(frozen=True)
class SavableClass:
    """How objects of one class are converted to a state and made from a state.

    A file comes from anyone. Whatever a state says, an object may answer wrongly or raise an error
    of Python, but it must not crash the process, loop, or take more memory than the file: `check`
    looks at what could.
    """

    # Name of the class in files.
    name: str
    # Returns whether an object is sound, or raises.
    check: Callable[[Any], Any]
    # Returns the state of an object.
    take: Callable[[Any], SavedState]
    # Returns the object of a state.
    make: Callable[[SavedState], Any]
    # Returns the bytes of arrays that `make` computes and `take` leaves out, see
    # `MAX_COMPUTED_BYTES`.
    computed: Callable[[SavedState], int]


MAX_COMPUTED_BYTES = 1 << 28
"""Bytes of arrays, of a whole file, that may be computed when it is read: 256 MiB.

So a small file cannot take much memory. Arrays beyond are written.
"""

KINDS: dict[type, SavableClass] = {}
KINDS_BY_NAME: dict[str, SavableClass] = {}
"""The classes of the package, and those of river's that were needed so far."""

Declared = TypeVar("Declared", bound=type)


def state_of(value: Any) -> SavedState:
    """Return the state of an object, as it is pickled."""
    return dict(getattr(value, "_asdict", value.__getstate__)() or {})


def _remade(made: Any, state: SavedState) -> Any:
    if issubclass(made, tuple):
        return made(**state)
    value = made.__new__(made)
    getattr(value, "__setstate__", vars(value).update)(state)
    return value


def savable(
    check: Callable[[Any], Any] = lambda value: True,
    *,
    take: Callable[[Any], SavedState] = state_of,
    make: Callable[[SavedState], Any] | None = None,
    computed: Callable[[SavedState], int] = lambda state: 0,
) -> Callable[[Declared], Declared]:
    """Return a decorator by which objects of a class can be saved and loaded.

    Parameters are those of `SavableClass`. By default, the state is the one used for pickling.
    However objects are restored, from files, pickles or as copies, their arrays are their own
    (`onlinels.numerics.restore`).
    """

    def declared(made: Declared) -> Declared:
        if not (issubclass(made, tuple) or hasattr(made, "__setstate__")):
            made.__setstate__ = restore  # type: ignore[attr-defined]
            if not hasattr(made, "__deepcopy__"):
                made.__deepcopy__ = deep_copy  # type: ignore[attr-defined]
        _add(
            made, SavableClass(made.__name__, check, take, make or partial(_remade, made), computed)
        )
        return made

    return declared


def _add(made: type, kind: SavableClass) -> SavableClass:
    KINDS[made] = kind
    # If a module is executed again, its first classes stay, because other modules hold them.
    return KINDS_BY_NAME.setdefault(kind.name, kind)


def settings_hold(made: Any) -> bool:
    """Return True if the class of an object accepts its settings; otherwise it raises."""
    names = inspect.signature(type(made)).parameters
    type(made)(**{name: getattr(made, name) for name in names})
    return True


savable()(Lock)

LATE_CLASSES = dict.fromkeys(("ClassPredictor", "NumberPredictor"), "onlinels.export.predictor")
"""Modules of classes that few use, which are imported when a file holds one."""

RIVER = "river."
"""What the names of river's classes begin with."""


def kind_of(made: type) -> SavableClass | None:
    """Return how objects of a class are saved, or None if they cannot be."""
    if made not in KINDS and made.__module__.startswith(RIVER):
        kind = kind_named(RIVER + made.__name__)
        return kind if made in KINDS else None
    return KINDS.get(made)


def kind_named(name: str) -> SavableClass | None:
    """Return how objects of the class of a name are saved, or None if there is no such class."""
    if name in LATE_CLASSES:
        import_module(LATE_CLASSES[name])
    if name not in KINDS_BY_NAME and name.startswith(RIVER):
        made: Any = river_models.class_named(name.removeprefix(RIVER))
        if made is not None:
            make = partial(river_models.made, made)
            _add(
                made,
                SavableClass(name, lambda value: True, river_models.taken, make, lambda state: 0),
            )
    return KINDS_BY_NAME.get(name)
