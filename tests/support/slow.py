"""The settings of a test that only the long run tries."""

import pytest


def the_rest_slow(values, n_here=1):
    """Return values for `parametrize`: the default run tries the first ones only."""
    values = list(values)
    many = [each if isinstance(each, tuple) else (each,) for each in values[n_here:]]
    slow = [pytest.param(*each, marks=pytest.mark.slow) for each in many]
    return [*values[:n_here], *slow]
