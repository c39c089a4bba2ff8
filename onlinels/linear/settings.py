"""The settings of a linear model: which there are, and which go together."""

from __future__ import annotations

import numbers
import reprlib
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from onlinels.checks import check_choice, check_count, check_flag
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
    # Files and pickles of earlier versions lack it.
    max_features: Any = None

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

    def check_feature_count(self, names: Sequence[Any], n_known: int) -> None:
        """Raise ValueError if names, the first of which are known, are more than `max_features`."""
        check_feature_count(self.max_features, names, n_known)


def check_feature_count(most: int | None, names: Sequence[Any], n_known: int) -> None:
    """Raise ValueError if names, the first of which are known, are more than a limit allows."""
    if most is not None and len(names) > most:
        raise ValueError(
            f"max_features={most!r} leaves no room for the features "
            f"{reprlib.repr(list(names[most:]))}: {n_known:,} are known, and with all new ones "
            f"there would be {len(names):,}. Leave them out, hash names with river's "
            "FeatureHasher, or assign a larger max_features."
        )


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
    most = settings.max_features
    if most is not None:
        most = check_count("max_features", most, 1)
    priors = read_priors(settings.priors)
    return settings._replace(half_life=half_life, priors=priors, max_features=most)


def setting(name: str) -> Any:
    """Return the property of a setting that cannot change."""
    doc = f"The setting `{name}`, which is fixed when the model is made."
    return property(attrgetter(f"_state.settings.{name}"), doc=doc)
