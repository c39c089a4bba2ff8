"""The settings of a linear model: which there are, and which go together."""

from __future__ import annotations

import numbers
from operator import attrgetter
from typing import Any, NamedTuple

from onlinels.checks import check_choice, check_flag
from onlinels.linear.forgetting import read_decay
from onlinels.linear.ridge import KFold, check_ridge, check_scaling, is_selected
from onlinels.linear.scoring import read_priors
from onlinels.saving import savable
from onlinels.sums.forms import FactorSums, GramSums

SUMS_BY_ACCUMULATOR: dict[str, Any] = {
    "gram": GramSums,
    "orthogonal": FactorSums,
    "recursive": GramSums,
}
"""The class of sums for every value of the setting `accumulator`."""


@savable()
class Settings(NamedTuple):
    """The settings of a model."""

    ridge: Any
    accumulator: Any
    fit_intercept: Any
    forgetting_factor: Any
    half_life: Any
    priors: Any
    scaling: Any

    @property
    def own_scaling(self) -> Any:
        """The scaling in force: "auto" means None unless the ridge is selected."""
        return self.scaling if is_selected(self.ridge) or self.scaling != "auto" else None

    @property
    def is_recursive(self) -> bool:
        """Whether the ridge decays with the rows, so that a solution can follow them."""
        return bool(self.accumulator == "recursive")

    @property
    def follows_rows(self) -> bool:
        """Whether the last solution can be updated row by row instead of solving again."""
        is_number = isinstance(self.ridge, numbers.Real) and float(self.ridge) > 0.0
        forgets = self.forgetting_factor != 1.0 or self.half_life is not None
        changes = (forgets and not self.is_recursive) or self.own_scaling == "standard"
        stays = (is_selected(self.ridge) or is_number) and not changes
        return stays and bool(SUMS_BY_ACCUMULATOR[self.accumulator].allows_recursion)


def read_settings(settings: Settings) -> Settings:
    """Return settings as a model keeps them; raise if they are not valid together.

    Nothing is made of them.
    """
    ridge, accumulator, fit_intercept, *_ = settings
    check_ridge(ridge)
    check_choice("accumulator", accumulator, SUMS_BY_ACCUMULATOR)
    check_flag("fit_intercept", fit_intercept)
    if isinstance(ridge, KFold) and accumulator == "orthogonal":
        raise ValueError(
            f"ridge={ridge!r} and accumulator={accumulator!r} do not go together: a KFold needs "
            'sums of products. Pass accumulator="gram" or "recursive", or ridge="auto".'
        )
    half_life = read_decay(settings.forgetting_factor, settings.half_life)
    check_scaling(settings.scaling, ridge)
    return settings._replace(half_life=half_life, priors=read_priors(settings.priors))


def setting(name: str) -> Any:
    """Return the property of a setting that cannot change."""
    doc = f"The setting `{name}`, which is fixed when the model is made."
    return property(attrgetter(f"_state.settings.{name}"), doc=doc)
