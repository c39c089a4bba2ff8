"""Models restored in the memory of others, as joblib, Ray and shared buffers do: they own theirs.

Other tests see what a model answers. Here, the memory that it was restored from is compared byte by
byte after every call, and is then overwritten, which must not change the model.
"""

import copy
import functools
import json
import pickle

import joblib
import numpy as np
import pytest

from onlinels import (
    ConvolutionalFeatures,
    Embedding,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    MiniRocketFeatures,
)
from onlinels.from_sums import regressor_from_sums
from onlinels.images import ImagePreprocessing, Patches
from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier
from support import savable_models
from support.laws import saved
from support.untrusted_files import DESCRIPTION, arrays_of, members_of

GARBAGE = b"\xa5"


def state(model):
    """Return all that a model's file says, with its arrays.

    Unlike the bytes of the file, it is the same if two parts hold equal arrays in place of one.
    """
    if hasattr(model, "to_river"):
        return model.coef_.tolist(), state(model.to_river())
    content = members_of(saved(model))
    arrays, parts = iter(arrays_of(content)), []

    def read(node):
        if isinstance(node, list):
            return [read(each) for each in node]
        if not isinstance(node, dict):
            return node
        if node.keys() == {"same"}:
            return parts[node["same"]]
        if node.keys() == {"array"}:
            parts.append((node["array"], next(arrays).tobytes("A")))
            return parts[-1]
        said = {key: read(each) for key, each in node.items()}
        if "object" in said:
            parts.append(said)
        return said

    return read(json.loads(content[DESCRIPTION])["model"])


class Memory:
    """The memory that a model was restored from."""

    def __init__(self, *buffers):
        self.buffers = buffers

    def content(self):
        return [bytes(each) for each in self.buffers]

    def spoil(self):
        for each in self.buffers:
            memory = memoryview(each).cast("B")
            if not memory.readonly:
                memory[:] = GARBAGE * len(memory)


def in_buffers(of_array, model, folder):
    """Restore a model from the buffers of a pickle of protocol 5."""
    found = []
    content = pickle.dumps(model, protocol=5, buffer_callback=found.append)
    buffers = [of_array(each.raw()) for each in found]
    return pickle.loads(content, buffers=buffers), Memory(*buffers)


def mapped(mode, model, folder):
    """Restore a model from a file whose arrays are mapped into memory."""
    path = folder / f"model {mode}"
    joblib.dump(model, path)
    return joblib.load(path, mmap_mode=mode), Memory(np.memmap(path, np.uint8, "r+"))


def at_an_odd_address(memory):
    """Return shared memory in which numbers are not aligned."""
    return memoryview(bytearray(GARBAGE + memory.tobytes()))[1:]


WAYS = {
    "read-only buffers": functools.partial(in_buffers, bytes),
    "shared buffers": functools.partial(in_buffers, bytearray),
    "odd addresses": functools.partial(in_buffers, at_an_odd_address),
    # The restored model would share the memory of the model itself.
    "own memory": functools.partial(in_buffers, lambda memory: memory),
    **{f"mapped {mode}": functools.partial(mapped, mode) for mode in ("r", "r+", "c")},
    "deep copy": lambda model, folder: (copy.deepcopy(model), Memory()),
    "copy": lambda model, folder: (copy.copy(model), Memory()),
}


def fit(estimator, random):
    """Learn rows one by one and in a batch; return what solves them, which is restored, too."""
    X = random.normal(size=(20, 5))
    y = X[:, 0] > 0
    estimator.partial_fit(X, y).partial_fit(X[:1], y[:1])
    return estimator.coef_


def estimators(kind, **settings):
    """Return what makes an estimator of scikit-learn, and how it learns."""
    return lambda random: kind(**settings), fit


def in_all_ways_of(learn):
    """Return what learns, and then changes linear models in all other ways."""

    def go_on(model, random):
        learn(model, random)
        if type(model) is LeastSquaresClassifier:
            model.merge(pickle.loads(pickle.dumps(model)))
            model.fade(0.5)
            if model.accumulator != "orthogonal":
                model.learn_one({0: 2.0}, 1)
                model.unlearn_one({0: 2.0}, 1)
            model.ridge = 2.0

    return go_on


MODELS = savable_models.MODELS | {
    "estimator": estimators(IncrementalRidge),
    "recursive estimator": estimators(IncrementalRidge, alpha=1.0, solver="recursive"),
    "classifying estimator": estimators(IncrementalRidgeClassifier),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("in_all_ways", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_restored_model_goes_on_in_memory_of_its_own(tmp_path, name, in_all_ways):
    (make, learn), random = MODELS[name], np.random.default_rng(0)
    model = make(random)
    learn(model, random)
    learn = in_all_ways_of(learn)
    # Without all ways: one of them in turn.
    turn = [*MODELS].index(name) % len(WAYS)
    ways = [*WAYS] if in_all_ways else [[*WAYS][turn]]
    before, ahead = state(model), pickle.loads(pickle.dumps(model))
    learn(ahead, np.random.default_rng(7))
    further = pickle.loads(pickle.dumps(ahead))
    learn(further, np.random.default_rng(8))
    for way in ways:
        if way == "copy" and not hasattr(model, "__copy__"):
            continue  # A shallow copy of river's pipelines shares their steps.
        restored = WAYS[way]
        found, memory = restored(model, tmp_path)
        content = memory.content()
        learn(found, np.random.default_rng(7))
        assert memory.content() == content, way
        assert state(model) == before, way
        if way != "own memory":
            memory.spoil()
        assert state(found) == state(ahead), way
        learn(found, np.random.default_rng(8))
        assert state(found) == state(further), way
        # The other way round: what the model learns reaches none that was restored.
        found, memory = restored(model, tmp_path)
        original = pickle.loads(pickle.dumps(model))
        learn(model, np.random.default_rng(7))
        assert state(found) == before, way
        model = original


# -- arrays that go in and come out ---------------------------------------------------------------


class Reusing:
    """A model whose caller reuses the memory of all arrays that it passed, as soon as it may."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        value = getattr(self.model, name)
        if not callable(value):
            return value

        def call(*arguments, **named):
            passed = copy.deepcopy((arguments, named))
            answer = value(*passed[0], **passed[1])
            spoil(passed)
            return answer

        return call


def spoil(value):
    """Overwrite all arrays in a value."""
    if isinstance(value, dict):
        spoil([*value.values()])
    elif isinstance(value, (tuple, list)):
        for each in value:
            spoil(each)
    elif isinstance(value, np.ndarray):
        value[...] = value.dtype.type(77) if value.dtype.kind in "fiub" else ""


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (_, learn) in savable_models.MODELS.items()
        if learn not in savable_models.OF_NUMBERS
    ],
)
def test_arrays_that_were_passed_may_be_overwritten(name):
    make, learn = savable_models.MODELS[name]
    models = [make(np.random.default_rng(0)) for _ in range(2)]
    for seed in (1, 2):
        learn(models[0], np.random.default_rng(seed))
        learn(Reusing(models[1]), np.random.default_rng(seed))
        assert saved(models[0]) == saved(models[1])


def pixels(images):
    return [image.ravel() for image in images]


SETTINGS = {
    "filters": lambda values: ConvolutionalFeatures(values),
    "probes": lambda values: Embedding(pixels, probes=list(values)),
    "differences": lambda values: HiddenLayer.from_examples(
        values[:, 0], [0, 1, 0, 1], 5, "difference"
    ),
    "whitening": lambda values: ImagePreprocessing.from_examples(values, whitening=0.1),
    "windows": lambda values: MiniRocketFeatures.from_examples(values[:, :, :2], n_features=84),
    "patches": lambda values: ConvolutionalFeatures.from_examples(
        values, [0, 1, 0, 1], filters=Patches(4, 3)
    ),
    "sums": lambda values: regressor_from_sums(
        LeastSquaresRegressor(1.0),
        np.ascontiguousarray(values[0]) @ values[0].T,
        *(values[0] @ values[1, 0], values[0].sum(axis=1)),
        *(values[1, 0].sum(), values[1, 0] @ values[1, 0]),
        values.shape[2],
        origin=values[2, :, 0],
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_arrays_that_a_model_was_made_of_may_be_overwritten(name):
    values = np.random.default_rng(0).random((4, 12, 12))
    model = SETTINGS[name](values)
    before = state(model)
    spoil(values)
    assert state(model) == before


@pytest.mark.parametrize("name", savable_models.LINEAR)
def test_arrays_that_were_returned_stay_as_they_are(name):
    model, (_, learn) = savable_models.learnt(name), savable_models.MODELS[name]
    taken, before = {}, {}
    for attribute in ("output_weights", "intercept", "ridge_diagonal"):
        taken[attribute] = getattr(model, attribute)
        before[attribute] = np.copy(taken[attribute])
    for other in (model, copy.copy(model), pickle.loads(pickle.dumps(model))):
        learn(other, np.random.default_rng(1))
        for attribute, array in taken.items():
            np.testing.assert_array_equal(array, before[attribute])
