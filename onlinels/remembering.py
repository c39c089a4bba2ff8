"""Which statistics a model remembers, from its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.classwise import ClasswiseAccumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.balance import check_balance
from onlinels.checks import check_choice, check_flag
from onlinels.linalg.selection import KFold, check_ridge

ACCUMULATORS: dict[str, Callable[[], Accumulator]] = {
    "gram": GramAccumulator,
    "orthogonal": OrthogonalAccumulator,
    "recursive": RecursiveAccumulator,
}


def make_statistics(
    ridge: Any, accumulator: Any, fit_intercept: Any, balance: Any = None
) -> Accumulator:
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
    check_balance(balance)
    make = partial(_make_one, accumulator, bool(fit_intercept))
    if balance == "classwise":
        _check_classwise(ridge, accumulator)
        return ClasswiseAccumulator(make)
    if not isinstance(ridge, KFold):
        return make()
    if accumulator != "gram":
        raise ValueError(
            f"ridge={ridge!r} and accumulator={accumulator!r} do not go together: folds are sums "
            'of products. Pass accumulator="gram", or ridge="auto".'
        )
    return FoldedAccumulator(make, ridge.n_folds)


def _check_classwise(ridge: Any, accumulator: str) -> None:
    if isinstance(ridge, KFold):
        raise ValueError(
            f'ridge={ridge!r} and balance="classwise" do not go together: statistics are kept '
            'apart by folds or by classes. Pass ridge="auto", or balance="priors".'
        )
    if accumulator == "recursive":
        raise ValueError(
            'accumulator="recursive" and balance="classwise" do not go together: the recursive '
            "form holds its ridge inside, which cannot be weighted by class. Pass "
            'accumulator="gram", or balance="priors".'
        )


def _make_one(accumulator: str, fit_intercept: bool) -> Accumulator:
    statistics = ACCUMULATORS[accumulator]()
    return CentredAccumulator(statistics) if fit_intercept else statistics
