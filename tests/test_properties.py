"""Properties and repr tell what a model is: reading them changes nothing."""

import copy
import inspect
import re
from functools import cached_property, partial

import numpy as np
import pytest

from onlinels import CalibratedClassifier, dumps, loads
from onlinels.sklearn import HiddenLayerTransformer, IncrementalRidge, IncrementalRidgeClassifier
from support.digits_network import IMAGES, LABELS, learn, small
from support.savable_models import MODELS, learnt


def read_all(model):
    """Return all properties of a model, and what printing and inspection read."""
    kinds = inspect.getmembers_static(type(model))
    names = [name for name, each in kinds if isinstance(each, (property, cached_property))]
    reads = {name: partial(getattr, model, name) for name in names if "memory_usage" not in name}
    reads["params"] = getattr(model, "_get_params", getattr(model, "get_params", dict))
    values = {"is there": bool(model)}
    for name, read in (reads | {"repr": partial(repr, model)}).items():
        try:
            values[name] = read()
        except (ValueError, AttributeError, TypeError) as error:  # Not fixed, or not fitted.
            values[name] = error
    return values


def assert_alike(some, others):
    assert some.keys() == others.keys()
    for name, value in some.items():
        other = others[name]
        if isinstance(value, (float, np.ndarray)):
            scale = np.abs(value).max(initial=1e-300) if np.size(value) else 1.0
            np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-9 * scale, err_msg=name)
        elif isinstance(value, dict) and all(isinstance(each, float) for each in value.values()):
            assert value == pytest.approx(other), name
        else:
            shown = [re.sub(" at 0x[0-9a-f]+", "", repr(each)) for each in (value, other)]
            assert shown[0] == shown[1], name


def assert_only_read(model, teach):
    """Assert that reading tells the same twice, and changes nothing of later rows.

    Linear models keep the solution that is asked for, and choose a ridge that is due: a file may
    hold it, but no answer depends on it.
    """
    twin, attributes = copy.deepcopy(model), set(vars(model))
    values = read_all(model)
    assert set(vars(model)) == attributes
    assert_alike(values, read_all(model))
    for each in (model, twin):
        teach(each, np.random.default_rng(1))
    assert_alike(read_all(model), read_all(twin))


# Steps and detectors of river are read no differently one by one.
@pytest.mark.parametrize(
    "name", [each for each in MODELS if not re.match("after|drift, [^A]|embedding", each)]
)
def test_reading_a_model_changes_nothing(name):
    """Of a new model, one that has learnt a little, and one that was saved and loaded."""
    make, teach = MODELS[name]
    for model in (make(np.random.default_rng(0)), learnt(name), loads(dumps(learnt(name)))):
        assert_only_read(model, teach)


def teach_estimator(model, random):
    X = random.normal(size=(30, 4))
    getattr(model, "partial_fit", model.fit)(X, (X[:, 0] > 0).astype(int))


@pytest.mark.parametrize(
    "kind", [IncrementalRidge, IncrementalRidgeClassifier, HiddenLayerTransformer]
)
def test_reading_an_estimator_changes_nothing(kind):
    model = kind()
    assert_only_read(model, teach_estimator)
    assert_only_read(model, teach_estimator)


@pytest.mark.parametrize("n_learnt", [0, 1, 99, 250])
def test_a_network_in_its_warm_up_tells_what_it_has_learnt(n_learnt):
    """Its file does not show that filters are made, or images learnt."""
    network = small(warm_up=200, n_hidden=30)
    learn(network, n_learnt)
    around = CalibratedClassifier(network)
    before = dumps(around)
    read_all(around)
    read_all(network)
    assert network.features_fixed or dumps(around) == before
    assert around.classes == network.classes
    assert network.classes == tuple(dict.fromkeys(LABELS[:n_learnt].tolist()))
    n_hidden = 30 * network.features_fixed
    assert network.output_weights.shape == (n_hidden, len(network.classes))
    assert network.intercept.tolist() == [0.0] * len(network.classes)
    assert network.feature_names == tuple(range(n_hidden))
    assert network.ridge_ == 1.0


def test_classes_of_the_warm_up_are_those_of_the_fixed_network():
    """In the same order, with equal labels as one class, and without those that were unlearnt."""
    labels = [1, "b", True, 1.0, ("c", 2), np.str_("b"), 0, False, "last"]
    model = small(warm_up=50, n_hidden=5)
    for image, label in zip(IMAGES, labels, strict=False):
        model.learn_one(image, label, w=0.0 if label == "last" else 1.0)
    assert repr(model.classes) == repr((1, "b", ("c", 2), 0, "last"))
    model.unlearn_one(IMAGES[0], 1)
    model.learn_one(IMAGES[0], 1)
    kept = repr(("b", True, ("c", 2), 0, "last"))
    assert repr(model.classes) == kept
    assert repr((*model.predict_proba_one(IMAGES[0]),)) == kept
    learn(model, 100, 150)
    assert repr(model.classes).startswith(kept[:-1])
