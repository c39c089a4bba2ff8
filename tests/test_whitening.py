"""ZCA whitening against its definition."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels.features.preprocessing import fit_whitening


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 40),
    n_values=st.integers(1, 8),
    offset=st.floats(1e-6, 10.0),
)
def test_whitening_is_the_symmetric_root_of_the_inverse_covariance(seed, n_rows, n_values, offset):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, n_values)) * random.uniform(0.1, 10.0, n_values) + 3.0
    whitening = fit_whitening(rows, offset)
    covariance = np.atleast_2d(np.cov(rows.T, bias=True)) + offset * np.eye(n_values)
    product = whitening.matrix @ covariance @ whitening.matrix
    assert np.allclose(product, np.eye(n_values), atol=1e-7)
    assert np.allclose(whitening.matrix, whitening.matrix.T)
    assert np.allclose(whitening.apply(rows).mean(axis=0), 0.0, atol=1e-7 / np.sqrt(offset))


def test_whitening_is_never_written_to():
    whitening = fit_whitening(np.random.default_rng(0).normal(size=(9, 3)), 0.1)
    for each in (whitening, pickle.loads(pickle.dumps(whitening))):
        assert copy.deepcopy(each) is each
        with pytest.raises(ValueError, match="read-only"):
            each.matrix[0] = 2.0
