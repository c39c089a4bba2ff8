"""River's normal distribution around a prediction, made in about a microsecond.

This module is imported where a distribution is first asked for: `river.proba` takes as long to
import as all of this package.
"""

from __future__ import annotations

import random
from functools import cached_property
from math import sqrt

from river import proba, stats


class Gaussian(proba.Gaussian):
    """A `river.proba.Gaussian` whose parts are made when they are first asked for.

    The constructor of river's class makes them at once, which takes as long as five predictions.
    """

    seed = None
    _moments = 0.0, 0.0

    @classmethod
    def of(cls, mean: float, variance: float) -> Gaussian:
        """Return the normal distribution of a mean and a variance.

        Examples
        --------
        >>> Gaussian.of(1.0, 4.0).mu, Gaussian.of(1.0, 4.0).sigma
        (1.0, 2.0)
        """
        new = cls.__new__(cls)
        new._moments = mean, variance
        return new

    @cached_property
    def _rng(self) -> random.Random:  # type: ignore[override]
        return random.Random(self.seed)  # noqa: S311

    @cached_property
    def _var(self) -> stats.Var:  # type: ignore[override]
        return stats.Var._from_state(1, *self._moments, ddof=0)

    @property
    def mu(self) -> float:
        """Mean."""
        return super().mu if "_var" in vars(self) else self._moments[0]

    @property
    def sigma(self) -> float:
        """Standard deviation."""
        return super().sigma if "_var" in vars(self) else sqrt(self._moments[1])
