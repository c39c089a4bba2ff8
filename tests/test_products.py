"""Products by one BLAS are numpy's, whatever lies in memory in which order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import numerics as products
from onlinels.numerics import product

ORDERS = ("C", "F", "every second", "repeated", "read-only")
dtypes = st.sampled_from([np.float64, np.float32, np.int64, np.bool_])


@pytest.fixture(scope="module", autouse=True, params=[0, products.SMALL_PRODUCT])
def small(request):
    """Take no product for a small one, or all of these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "SMALL_PRODUCT", request.param)
        yield request.param


def draw(random, shape, order, dtype):
    values = random.integers(-4, 5, size=shape).astype(dtype)
    if order == "every second":
        return np.repeat(np.repeat(values, 2, axis=0), 2, axis=1)[::2, ::2]
    if order == "repeated":
        return np.broadcast_to(values[:1], shape)
    if order == "read-only":
        values.flags.writeable = False
        return values
    return np.array(values, order=order)


@given(
    st.integers(0, 2**32 - 1),
    st.tuples(*[st.integers(0, 5)] * 3),
    st.tuples(*[st.sampled_from(ORDERS)] * 2),
    st.tuples(dtypes, dtypes),
)
def test_products_are_those_of_numpy(small, seed, sizes, orders, kinds):
    random = np.random.default_rng(seed)
    left = draw(random, sizes[:2], orders[0], kinds[0])
    right = draw(random, sizes[1:], orders[1], kinds[1])
    before = left.copy(), right.copy()
    found = product(left, right)
    np.testing.assert_array_equal(found, left @ right)
    assert found.dtype == (left @ right).dtype
    assert (left == before[0]).all()
    assert (right == before[1]).all()
