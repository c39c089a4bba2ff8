"""Copies of models are whole and independent, however they are made."""

import copy
import pickle

import numpy as np
import pytest
from river import compose

from support import savable_models
from support.laws import saved


def unpickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, unpickled])
@pytest.mark.parametrize("name", savable_models.MODELS)
def test_a_copy_goes_on_alone(name, copied):
    make, learn = savable_models.MODELS[name]
    model = make(np.random.default_rng(0))
    learn(model, np.random.default_rng(1))
    if copied is copy.copy and type(model) is compose.Pipeline:
        pytest.skip("a copy of river's pipeline shares its steps")
    other = copied(model)
    before = saved(model)
    assert saved(other) == before
    learn(other, np.random.default_rng(2))
    assert saved(model) == before
    learn(model, np.random.default_rng(2))
    assert saved(model) == saved(other)
