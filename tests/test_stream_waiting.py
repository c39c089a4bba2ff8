"""Forecasts that wait for their labels: found by what the sample says, bounded, savable."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels.core.reference import apply
from onlinels.saving.description import Builder, Writer
from onlinels.stream.waiting import Waiting, sample_key
from support import strategies


@given(st.data(), strategies.streams())
def test_keys_tell_samples_apart_whatever_the_order_and_types(data, stream):
    for x in stream.samples:
        shuffled = dict(data.draw(st.permutations(list(x.items()))))
        gap = data.draw(st.sampled_from([None, np.nan, pd.NA]))
        for name, value in x.items():
            if value is None or value is np.nan:
                shuffled[name] = gap
            elif isinstance(value, (bool, int, float)):
                shuffled[name] = np.float64(value)
        assert sample_key(shuffled) == sample_key(x)
    keys = {sample_key(x) for x in stream.samples}
    assert len(keys) == len({str(sorted((repr(n), v) for n, v in said(x))) for x in stream.samples})


def said(x):
    for name, value in x.items():
        if isinstance(value, np.ndarray):
            yield name, str(value.astype(float).tolist())
        elif isinstance(value, str):
            yield name, f"text {value}"
        else:
            yield name, "gap" if value is None or value is np.nan else str(float(value))


def test_names_of_one_feature_and_no_names():
    assert sample_key({1: 2.0}) == sample_key({np.int64(1): 2}) == sample_key({1.0: 2.0})
    assert sample_key({1: 2.0}) == sample_key({True: 2.0})
    assert len({sample_key(x) for x in ({}, {"1": 2.0}, {1: 2.0}, {"a": "2.0"}, {"a": ""})}) == 5


def test_a_forecast_waits_once_and_is_the_latest():
    waiting = Waiting()
    waiting.add(7, np.array([1.0]), 10)
    waiting.add(8, np.array([2.0]), 10)
    waiting.add(7, np.array([3.0]), 12)
    assert len(waiting) == 2
    forecast, since = waiting.find(7, 15)
    assert (forecast.tolist(), since) == ([3.0], 3)
    apply(waiting.plan_take(7))
    assert waiting.find(7, 15) is None
    apply(waiting.plan_take(7))
    assert len(waiting) == 1


def written_and_read(waiting):
    writer = Writer()
    node = writer.node(waiting, "waiting")
    return Builder(writer.arrays.__getitem__, 1000).value(node)


@pytest.mark.parametrize(
    "again",
    [lambda w: pickle.loads(pickle.dumps(w)), copy.deepcopy, written_and_read],
)
@pytest.mark.parametrize("sizes", [[], [3], [2, 0, 5]])
def test_copies_hold_the_same_and_go_on_by_themselves(again, sizes):
    waiting = Waiting()
    for key, size in enumerate(sizes):
        waiting.add((1 << 62) + key, np.arange(size, dtype=float), key)
    new = again(waiting)
    new.add(5, np.array([1.0]), 9)
    assert len(waiting) == len(sizes) == len(new) - 1
    for key, size in enumerate(sizes):
        forecast, since = new.find((1 << 62) + key, 10)
        assert (forecast.tolist(), since) == (list(range(size)), 10 - key)
