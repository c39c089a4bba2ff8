"""Properties and repr tell what a model is: reading them changes nothing and learns nothing."""

import copy
import importlib
import inspect
import pkgutil
import re
import sys
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pytest
import river.base
import sklearn.base

import onlinels
from onlinels import CalibratedClassifier, dumps, loads
from onlinels.sklearn import (
    HiddenLayerTransformer,
    IncrementalRidge,
    IncrementalRidgeClassifier,
)
from support.digits_network import IMAGES, LABELS, learn, small
from support.savable_models import MODELS, learnt

PACKAGE = str(Path(onlinels.__file__).parent)
LEARNS = re.compile(
    r"_*((un)?learn(?!ing)|(partial_)?fit|from_(examples|images)|merge|absorb|draw|make_ba)"
)
"""Beginnings of the names of functions that learn, or that make features."""


@contextmanager
def functions_called():
    """Collect the names of functions of the package that are called."""
    called = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            called.add(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


def properties_of(model):
    """Return the names of all properties of a model's class, also the private ones."""
    kinds = inspect.getmembers_static(type(model))
    names = [name for name, each in kinds if isinstance(each, (property, cached_property))]
    return [name for name in names if "memory_usage" not in name]


def read_all(model):
    """Read all properties of a model, and what printing and inspection read; return the values."""

    def params():
        return getattr(model, "_get_params", getattr(model, "get_params", dict))()

    values = {}
    reads = {name: partial(getattr, model, name) for name in properties_of(model)}
    for name, read in (reads | {"params": params, "repr": partial(repr, model)}).items():
        try:
            values[name] = read()
        except (ValueError, AttributeError, TypeError) as error:  # Not fixed, or not fitted.
            values[name] = error
    return values | {"is there": bool(model)}


def without_addresses(value):
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


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
            assert without_addresses(value) == without_addresses(other), name


def assert_only_read(model, teach):
    """Assert that reading learns nothing, tells the same twice, and changes nothing of later rows.

    Linear models keep the solution that is asked for, and choose a ridge that is due: a file may
    hold it, but no answer depends on it.
    """
    twin, attributes = copy.deepcopy(model), set(vars(model))
    with functions_called() as called:
        values = read_all(model)
    assert [name for name in called if LEARNS.match(name)] == []
    assert set(vars(model)) == attributes
    assert_alike(values, read_all(model))
    for each in (model, twin):
        teach(each, np.random.default_rng(1))
    assert_alike(read_all(model), read_all(twin))


# Steps and detectors of river are read no differently one by one.
@pytest.mark.parametrize(
    "name", [each for each in MODELS if not re.match("after|drift, [^A]", each)]
)
def test_reading_a_model_changes_nothing(name):
    """Of a new model, one that has learnt a little, and one that was saved and loaded."""
    make, teach = MODELS[name]
    assert_only_read(make(np.random.default_rng(0)), teach)
    assert_only_read(learnt(name), teach)
    if name != "embedding":
        assert_only_read(loads(dumps(learnt(name))), teach)


@pytest.mark.parametrize("n_learnt", [0, 1, 99, 100, 150, 250])
def test_a_network_in_its_warm_up_tells_what_it_has_learnt(n_learnt):
    """Neither its file nor the functions called show that filters are made, or images learnt."""
    network = learn(small(warm_up=200, n_hidden=30), n_learnt) if n_learnt else small(warm_up=200)
    around = CalibratedClassifier(network)
    for asks in (False, True):
        if asks and n_learnt:
            network.predict_one(IMAGES[0])
        before, attributes = dumps(around), dict(vars(network))
        with functions_called() as called:
            read_all(around)
            read_all(network)
        assert [name for name in called if LEARNS.match(name)] == []
        if n_learnt < 200:
            assert dumps(around) == before
            assert all(vars(network)[name] is each for name, each in attributes.items())
        assert around.classes == network.classes
        assert network.classes == tuple(dict.fromkeys(LABELS[:n_learnt].tolist()))
        n_hidden = 30 if n_learnt > 200 else 0
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
    assert model.classes == (1, "b", ("c", 2), 0, "last")
    held = repr(model.classes)
    model.unlearn_one(IMAGES[0], 1)
    model.learn_one(IMAGES[0], 1)
    assert model.classes == ("b", True, ("c", 2), 0, "last")
    assert repr(model.predict_proba_one(IMAGES[0]).keys())[10:-1] == repr([*model.classes])
    learn(model, 100, 150)
    assert repr(model.classes)[:30] == repr(("b", True, ("c", 2), 0, "last"))[:30]
    assert held != repr(model.classes)


ESTIMATORS = [IncrementalRidge, IncrementalRidgeClassifier, HiddenLayerTransformer]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_reading_an_estimator_changes_nothing(kind):
    def teach(model, random):
        X = random.normal(size=(30, 4))
        getattr(model, "partial_fit", model.fit)(X, (X[:, 0] > 0).astype(int))

    assert_only_read(kind(), teach)
    model = kind()
    teach(model, np.random.default_rng(0))
    assert_only_read(model, teach)


def test_every_class_with_properties_is_read_here():
    """All models and transformers of the package are among those above."""
    seen = {*ESTIMATORS}
    for make, _ in MODELS.values():
        seen |= {type(part) for part in parts_of(make(np.random.default_rng(0)))}
    modules = pkgutil.walk_packages(onlinels.__path__, "onlinels.")
    for name in (each.name for each in modules if not each.name.endswith(("__main__", "_core"))):
        for kind in vars(importlib.import_module(name)).values():
            is_own = inspect.isclass(kind) and kind.__module__.startswith("onlinels")
            if is_own and issubclass(kind, (river.base.Estimator, sklearn.base.BaseEstimator)):
                assert any(issubclass(each, kind) for each in seen), kind


def parts_of(model):
    """Yield a model and the models in it."""
    yield model
    inside = [*vars(model).values(), *getattr(model, "steps", {}).values()]
    for each in inside:
        if hasattr(each, "_get_params") and each is not model:
            yield from parts_of(each)
