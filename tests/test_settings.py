"""Assignments to settings: every public estimator obeys or refuses them, as its mutate does."""

import functools
import inspect
import pickle
import re
from datetime import timedelta

import numpy as np
import pytest
from river import metrics

import onlinels
from onlinels import (
    DataWarning,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.evaluate import ProgressiveScore
from onlinels.forecasting import DirectForecaster
from onlinels.images import ImagePreprocessing, Patches
from onlinels.lessons import LessonBook
from support import laws, savable_models
from support.slow import pairs_in_turn
from support.strategies import KINDS

REFUSALS = AttributeError, TypeError, ValueError
VALUES = [3.0, 5, True, "equal", None, KFold(3), object(), LeastSquaresClassifier()]
FROZEN = KFold(), Patches(), ProgressiveScore("model", metrics.MAE(), 10, *np.zeros((4, 1)))
LINEAR = {*dict(KINDS.values())}
OBEYED = {
    "ridge": LINEAR | {ShallowConvClassifier},
    "priors": {LeastSquaresClassifier, ShallowConvClassifier},
    **dict.fromkeys(("half_life", "forgetting_factor"), LINEAR),
    "max_features": LINEAR | {StreamClassifier, StreamRegressor},
}
"""Classes that obey an assignment to a setting; nothing else is obeyed."""


def settings_of(kind):
    return [*inspect.signature(kind).parameters]


def made(name):
    """Return an estimator of the tables."""
    return savable_models.MODELS[name][0](np.random.default_rng(0))


def learnt(name, model):
    """Return an estimator that has learnt rows of its own kind, the same for one name."""
    savable_models.MODELS[name][1](model, np.random.default_rng(1))
    return model


OWN = {
    name: type(model)
    for name in savable_models.MODELS
    for model in [made(name)]
    if type(model).__module__.startswith("onlinels")
}
CLASSES = {DirectForecaster, ImagePreprocessing, LessonBook, Patches, ProgressiveScore}.union(
    filter(inspect.isclass, (getattr(onlinels, name) for name in onlinels.__all__))
) - {DataWarning}
NAMES = sorted({name for kind in CLASSES for name in settings_of(kind)})
"""Settings of any public class: what users may take for a setting of this one."""

TYPOS = ["rigde", "Ridge", "ridge_", "alpha", "classes", "count", "n_jobs", "name"]


def test_every_public_class_with_settings_is_tested():
    assert {kind for kind in CLASSES if settings_of(kind)} == {*OWN.values(), *map(type, FROZEN)}


def refused(model, name, value):
    """Return the error of an assignment, which mutate refuses as well."""
    if hasattr(model, "mutate"):
        with pytest.raises(REFUSALS):
            model.mutate({name: value})
    with pytest.raises(REFUSALS) as caught:
        setattr(model, name, value)
    return caught.value


FIXED = {type(part).__name__: part for part in FROZEN}


@pytest.mark.parametrize("name", [*OWN, *FIXED])
def test_what_is_not_obeyed_is_refused(name):
    """Settings of its own and of any other class, and names that are no setting."""
    model = FIXED[name] if name in FIXED else learnt(name, made(name))
    # River's mutate reads an attribute first, and what waits to be learnt is learnt then.
    for attribute in TYPOS:
        hasattr(model, attribute)
    before = pickle.dumps(model)
    for attribute in NAMES + TYPOS:
        if type(model) in OBEYED.get(attribute, ()):
            continue
        for value in VALUES:
            assert attribute in str(refused(model, attribute, value))
    assert pickle.dumps(model) == before


def with_ridge(model, ridge):
    """Return an untaught estimator that is made with a ridge."""
    if isinstance(model, ShallowConvClassifier):
        return model.clone({"classifier": with_ridge(model.classifier, ridge)})
    return model.clone({"ridge": ridge})


# The ridge decays with the rows: a new one is whole.
FADING = [
    name for name in OWN if name.startswith("recursive") and ("factor" in name or "half" in name)
]
CHANGED = [name for name in OWN if OWN[name] in OBEYED["ridge"] and name not in FADING]
CHANGES = {
    "assigned": setattr,
    "mutated": lambda model, name, value: model.mutate({name: value}),
}


@pytest.mark.parametrize(("name", "change"), pairs_in_turn(CHANGED, CHANGES))
@pytest.mark.parametrize("n_before", [0, 1])
def test_a_ridge_makes_the_model_that_was_made_with_it(name, change, n_before):
    model, expected = made(name), with_ridge(made(name), 2.5)
    for number in range(2):
        if number == n_before:
            CHANGES[change](model, "ridge", 2.5)
        learnt(name, model)
        learnt(name, expected)
    assert model.ridge == 2.5
    np.testing.assert_allclose(model.output_weights, expected.output_weights, atol=1e-9)
    np.testing.assert_allclose(model.intercept, expected.intercept, atol=1e-9)


NAN, INF = float("nan"), float("inf")
USUAL = {
    bool: [1, "yes", None],
    int: [0, -1, 2.5, "3", True, None],
    float: [NAN, INF, -1.0, "x", True, None],
    str: ["no such thing", 3, None],
    type(None): ["no such thing", -1, NAN],
}
"""What no setting of a type can be; the type of its default."""

UNUSUAL = {
    "ridge": [-1.0, NAN, None, "2.0", True, 10**400],
    "half_life": [0.0, timedelta(0), timedelta(-1), INF, "week", True],
    "forgetting_factor": [0.0, 1.5, NAN, "slow", True],
    "priors": ["no such thing", {"a": -1.0}],
    "seed": [-1, 2.5, None],
    **{name: [-1, 1.5] for name in ("padding", "drop_ring")},
    **{name: [0.0, NAN, "x"] for name in ("before_pooling", "after_pooling", "scale", "whitening")},
    **{name: [8, (8, 0), (8.0, 8), (8, 8, 1, 1)] for name in ("image_shape", "window_shape")},
    "normalize": ["sum", 2, None],
    "warm_up": [0, 1, 2.5, None],
    "few_images_ridge": [0.0, "auto"],
    "max_features": [0, 8.0, True],
    "prefix": [None, 3],
    "scaling": ["no such thing", 3],
    "timestamp": [],
}
CLONED = {kind: name for name, kind in OWN.items() if hasattr(kind, "clone")}


@pytest.mark.parametrize("name", CLONED.values())
def test_a_setting_refuses_by_its_name_what_it_cannot_be(name):
    """When a model is made, and later, if the setting can change."""
    model, taught = made(name), learnt(name, made(name))
    for setting, parameter in inspect.signature(OWN[name]).parameters.items():
        usual = USUAL.get(type(parameter.default), [None])
        for value in UNUSUAL.get(setting, usual):
            with pytest.raises((TypeError, ValueError), match=setting):
                model.clone({setting: value})
            for change in CHANGES.values():
                call = functools.partial(change, taught, setting, value)
                laws.assert_refused(call, taught, setting, REFUSALS)


@pytest.mark.parametrize("kind", dict(KINDS.values()))
def test_rows_are_forgotten_in_one_way(kind):
    with pytest.raises(ValueError, match="both set"):
        kind(forgetting_factor=0.9, half_life=5.0)


def test_the_remedy_of_an_error_makes_an_estimator_of_that_setting():
    for model, attribute, value in (
        (StreamClassifier(), "seed", 3),
        (LeastSquaresRegressor(), "scaling", "standard"),
    ):
        remedy = re.search(r"with (clone\(.*\))\.$", str(refused(model, attribute, value)))[1]
        assert getattr(eval(f"model.{remedy}"), attribute) == value


class Fixed(StreamClassifier):
    """It has fewer parameters than the class above it, and private attributes of its own."""

    def __init__(self):
        super().__init__(seed=7)
        self._own = 0


class Counting(LeastSquaresClassifier):
    """Its public attributes are its own affair."""

    __setattr__ = object.__setattr__
    n_seen = 0


def test_subclasses_may_have_attributes_of_their_own():
    fixed, counting = Fixed(), Counting()
    fixed._own = counting.n_seen = 1
    assert (fixed.seed, fixed._own, counting.n_seen) == (7, 1, 1)
    refused(fixed, "seed", 3)


@pytest.mark.parametrize("kind", sorted({*OWN.values()}, key=lambda kind: kind.__name__))
def test_an_unknown_setting_is_refused_in_the_name_of_the_class(kind):
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\.__init__\(\) got an unexpected .*rigd"
    ):
        kind(rigde=1.0)
