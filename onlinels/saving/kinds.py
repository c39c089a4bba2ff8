"""The kinds of objects that may be in a saved model: no others are written, or made on reading."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onlinels.saving.fields import ANYTHING, Field

State = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How objects of one class are taken apart and put together.

    Parameters
    ----------
    made : type
        The class.
    fields : mapping
        Every attribute of the state, with the values that it may have.
    check : callable
        Tells whether an object holds together: whether the sizes of its parts fit.
    take : callable
        Returns the state of an object.
    make : callable
        Returns an object of a checked state.
    later : frozenset
        Attributes, arrays, that are read when they are needed.
    """

    made: type
    fields: Mapping[str, Field]
    check: Callable[[Any], bool]
    take: Callable[[Any], State]
    make: Callable[[State], Any]
    later: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What the class is called in files."""
        package = self.made.__module__.partition(".")[0]
        return self.made.__name__ if package == "onlinels" else f"{package}.{self.made.__name__}"


@dataclass
class Kinds:
    """All kinds of objects by class and by name.

    And values of which there is only one, and what makes the values of a defaultdict.
    """

    by_class: dict[type, Kind] = field(default_factory=dict)
    by_name: dict[str, Kind] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    factories: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def add(self, kind: Kind) -> None:
        """Take in a kind."""
        self.by_class[kind.made] = self.by_name[kind.name] = kind


KINDS = Kinds()
"""What the modules of `onlinels.states` have said."""


def saved(
    made: type,
    fields: Mapping[str, Field],
    check: Callable[[Any], bool] = lambda made: True,
    *,
    take: Callable[[Any], State] | None = None,
    make: Callable[[State], Any] | None = None,
    later: tuple[str, ...] = (),
) -> None:
    """Say of what the state of a class consists, so that its objects may be saved and loaded.

    Parameters are those of `Kind`; without `take` and `make` the state is the one that is pickled.
    """
    make = (lambda state: _remade(made, state)) if make is None else make
    KINDS.add(Kind(made, fields, check, take or _state_of, make, frozenset(later)))


def _state_of(value: Any) -> State:
    if isinstance(value, tuple):
        # Of a named tuple.
        return dict(value._asdict())  # type: ignore[attr-defined]
    return dict(value.__getstate__() or {})


def _remade(made: type, state: State) -> Any:
    if issubclass(made, tuple):
        return made(**state)
    value: Any = made.__new__(made)
    if hasattr(made, "__setstate__"):
        value.__setstate__(state)
    else:
        vars(value).update(state)
    return value


def factory(made: Callable[..., Any]) -> None:
    """Say that a defaultdict may have this to make its values."""
    KINDS.factories[made.__name__] = made


def constant(name: str, value: Any) -> None:
    """Say how a value is called of which there is only one."""
    KINDS.constants[name] = value


def savable(
    fields: Mapping[str, Field],
    check: Callable[[Any], bool] = lambda made: True,
    *,
    take: Callable[[Any], State] | None = None,
    make: Callable[[State], Any] | None = None,
) -> Callable[[Any], Any]:
    """Declare of what the state of a class consists: a decorator; see `saved`."""

    def declare(made: Any) -> Any:
        saved(made, fields, check, take=take, make=make)
        return made

    return declare


def settings_of(made: type) -> dict[str, Field]:
    """Return a field for every setting of a class; what it may be, the class itself says."""
    return dict.fromkeys(inspect.signature(made).parameters, ANYTHING)


def settings_hold(made: Any) -> bool:
    """Tell whether a class takes the settings that an object of it has, or raise as it does."""
    names = inspect.signature(type(made)).parameters
    type(made)(**{name: getattr(made, name) for name in names})
    return True
