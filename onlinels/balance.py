"""Classes that count alike, however often each of them comes."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels.checks import Floats

BALANCES = ("classwise", "priors")
"""Settings of the balance beside None."""

Balance = str | None
"""A setting: None, "classwise" or "priors"."""

LIGHTEST = 1e-200
"""Share of all weight up to which a class has none: its sums have lost their digits."""


def check_balance(balance: Any) -> None:
    """Raise unless `balance` is None, "classwise" or "priors".

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> check_balance("balanced")
    Traceback (most recent call last):
        ...
    ValueError: balance='balanced' is not known. Pass None, "classwise" or "priors".
    """
    if balance is not None and not (isinstance(balance, str) and balance in BALANCES):
        raise ValueError(f'balance={balance!r} is not known. Pass None, "classwise" or "priors".')


def balancing_factors(weights: Floats) -> Floats:
    """Return n / (K n_k) of every class k, by which classes of any weight n_k count alike.

    n is the sum of all n_k, and K the number of classes that have weight. The factors times the
    weights sum to n again; with priors n_k / n the factors are 1 / (K prior_k).

    Parameters
    ----------
    weights : ndarray (n_classes,)
        n_k.

    Returns
    -------
    ndarray (n_classes,)
        0 for a class without weight.

    Examples
    --------
    >>> balancing_factors(np.array([6.0, 0.0, 2.0]))
    array([0.66666667, 0.        , 2.        ])
    """
    total = float(weights.sum())
    present = weights > LIGHTEST * max(total, 0.0)
    factors = np.zeros(len(weights))
    factors[present] = total / (np.count_nonzero(present) * weights[present])
    return factors
