"""The settings of a test that only the long run tries."""

import pytest


def the_rest_slow(values, n_here=1):
    """Return values for `parametrize`: the default run tries the first ones only."""
    values = list(values)
    slow = [pytest.param(each, marks=pytest.mark.slow) for each in values[n_here:]]
    return [*values[:n_here], *slow]
