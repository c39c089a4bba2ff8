"""Which statistics a model remembers, from its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.ridge import KFold, check_ridge
from onlinels.settings import check_choice, check_flag

ACCUMULATORS: dict[str, Callable[[], Accumulator]] = {
    "gram": GramAccumulator,
    "orthogonal": OrthogonalAccumulator,
    "recursive": RecursiveAccumulator,
}


def make_statistics(ridge: Any, accumulator: Any, fit_intercept: Any) -> Accumulator:
    """Return empty statistics of the kind that settings ask for.

    Raises
    ------
    TypeError, ValueError
        If a setting is not known, or two of them do not go together.

    Examples
    --------
    >>> type(make_statistics("auto", "gram", fit_intercept=False)).__name__
    'GramAccumulator'
    """
    check_ridge(ridge)
    check_choice("accumulator", accumulator, ACCUMULATORS)
    check_flag("fit_intercept", fit_intercept)
    make = partial(_make_one, accumulator, bool(fit_intercept))
    if not isinstance(ridge, KFold):
        return make()
    if accumulator != "gram":
        raise ValueError(
            f"ridge={ridge!r} and accumulator={accumulator!r} do not go together: folds are sums "
            'of products. Pass accumulator="gram", or ridge="auto".'
        )
    return FoldedAccumulator(make, ridge.n_folds)


def _make_one(accumulator: str, fit_intercept: bool) -> Accumulator:
    statistics = ACCUMULATORS[accumulator]()
    return CentredAccumulator(statistics) if fit_intercept else statistics
