"""What only the long run tries: further settings, and all rows of river's streams."""

import pytest
from river import checks


def the_rest_slow(values, n_here=1):
    """Return values for `parametrize`: the default run tries the first ones only."""
    values = list(values)
    slow = [pytest.param(each, marks=pytest.mark.slow) for each in values[n_here:]]
    return [*values[:n_here], *slow]


def pairs_in_turn(values, others, n_each=1):
    """Return pairs for `parametrize`, of which the default run tries the first ones of each value.

    These are `n_each` of each value, with other values in turn, so that each of them has its share.
    """
    values, others = list(values), list(others)
    pairs = []
    for place, value in enumerate(values):
        turned = [others[(place * n_each + k) % len(others)] for k in range(len(others))]
        pairs += [(value, other) for other in turned[:n_each]]
        pairs += [pytest.param(value, other, marks=pytest.mark.slow) for other in turned[n_each:]]
    return pairs


def shorten_river_streams(monkeypatch, step):
    """Let river's checks take every so many-th row of their streams."""
    whole = checks._yield_datasets

    def shortened(model, scale=1):
        for stream in whole(model, scale):
            yield list(stream)[::step]

    monkeypatch.setattr(checks, "_yield_datasets", shortened)
