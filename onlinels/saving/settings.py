"""Settings that come out of a file: they are checked as those that anybody passes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onlinels.saving.fields import ANYTHING, Field
from onlinels.saving.kinds import saved


def settings_of(made: type) -> dict[str, Field]:
    """Return a field for every setting of a class; what it may be, the class itself says."""
    return dict.fromkeys(inspect.signature(made).parameters, ANYTHING)


def settings_hold(made: Any) -> bool:
    """Tell whether a class takes the settings that an object of it has, or raise as it does."""
    names = inspect.signature(type(made)).parameters
    type(made)(**{name: getattr(made, name) for name in names})
    return True


def savable_settings(
    check: Callable[[Any], bool] = settings_hold, **fields: Field
) -> Callable[[Any], Any]:
    """Declare that the state of a class consists of its settings and some fields: a decorator."""

    def declare(made: Any) -> Any:
        saved(made, settings_of(made) | fields, check)
        return made

    return declare
