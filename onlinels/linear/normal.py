"""River's normal distribution around a prediction, made in about a microsecond.

This module is imported where a distribution is first asked for: `river.proba` takes as long to
import as all of this package.
"""

from __future__ import annotations

import random
from functools import cached_property

from river import proba, stats


class Gaussian(proba.Gaussian):
    """A `river.proba.Gaussian` whose generator of random numbers is made by its first sample.

    The constructor of river's class makes one at once, which takes as long as five predictions.
    """

    @cached_property
    def _rng(self) -> random.Random:  # type: ignore[override]
        return random.Random(self.seed)  # noqa: S311


def normal(mean: float, variance: float) -> Gaussian:
    """Return the normal distribution of a mean and a variance.

    Examples
    --------
    >>> normal(1.0, 4.0).mu, normal(1.0, 4.0).sigma
    (1.0, 2.0)
    """
    new = Gaussian.__new__(Gaussian)
    new.seed = None
    new._var = stats.Var._from_state(1, mean, variance, ddof=0)
    return new
