"""Forecasts that wait for their labels are found by what the sample says."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from onlinels.stream.base import sample_key
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
