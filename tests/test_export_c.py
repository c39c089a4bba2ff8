"""`onlinels.export.c`: headers in C99 and C++ that answer, learn and send as the model does."""

import ctypes
import functools
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from river import preprocessing

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    WindowedClassifier,
    export,
)
from onlinels.devices import device_weights, read_device
from onlinels.export import c_header
from onlinels.pipelines import last_step
from support import device as device_sums
from support.compilers import WAYS, compiled
from support.laws import fitted, own_rounding, sizes_of_scores
from support.slow import the_rest_slow
from support.strategies import HIDDEN, KINDS, as_objects, examples, trained_models

# -- predictions ----------------------------------------------------------------------------------

SUPPORT = Path(__file__).parent / "support"
PREDICTS, LEARNS = (
    (SUPPORT / f"{name}_device.c").read_text() for name in ("predicting", "learning")
)


def outputs_in_c(model):
    """Return what a header of a model predicts, and the names of its outputs."""
    last = last_step(model)
    if hasattr(last, "classes"):
        return "LABELS", last.classes
    return ("TARGETS", last.target_names) if hasattr(last, "target_names") else ("VALUES", ["0"])


def predicted(model, X, way, folder, **settings):
    """Return the numbers, labels and texts that the header of a model computes for rows."""
    export.c(model, folder / "fan.h", **settings)
    (kind, outputs), X = outputs_in_c(model), np.ascontiguousarray(X, np.float32)
    y, labels = np.empty((len(X), len(outputs)), np.float32), np.empty(len(X), np.int32)
    library = compiled(PREDICTS, way, folder, f"-D{kind}", "-Wconversion", "-Wdouble-promotion")
    library.all(at(X), len(X), at(y), at(labels))
    library.texts.restype = ctypes.POINTER(ctypes.c_char_p)
    return y, labels, [library.texts()[k].decode() for k in range(len(outputs))]


def at(array):
    return ctypes.c_void_p(array.ctypes.data)


def scores_of(model, X):
    """Return the scores or values (n, n_outputs) of a model, in float64."""
    scores = model.scores_many if hasattr(model, "scores_many") else model.predict_many
    return scores(X.astype(np.float64)).reshape(len(X), -1)


def assert_close(found, scores, bound):
    """Compare scores, of which some are -inf."""
    finite = np.isfinite(scores)
    assert (np.isfinite(found) == finite).all()
    assert (np.abs(found - scores) <= bound)[finite].all()


STEEPEST = {
    "square": lambda u: 2.0 * u,
    "rectified-square": lambda u: 2.0 * u,
    "cube": lambda u: 3.0 * u**2,
}
"""The slopes of activations that are above 1, by the size of the projection."""


def activations_of(layer, X):
    """Return what a linear model sees of rows, and what it errs by, in roundings.

    Activations err by as much as projections do, and by as many roundings of their own.
    """
    if layer is None:
        return X, 0.0
    h, made = layer.transform_many(X.astype(np.float64)), layer._made
    made = made.formed() if hasattr(made, "formed") else made
    W, b = made.weights, np.zeros(layer.n_hidden) if made.offsets is None else made.offsets
    origin = c_header.origin_of(W, b)
    u = np.abs(X - origin) @ np.abs(W) + np.abs(b + origin @ W)
    slope = STEEPEST.get(layer.activation, np.ones_like)(np.abs(X @ W + b))
    return h, 3.0 * np.abs(h) + u * slope


@pytest.fixture
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c")


MODELS = {
    **{kind: (kind, {}, 2e-7) for kind in KINDS},
    **{f"hidden {kind}": (kind, {"hidden": HIDDEN}, 2.5e-7) for kind in KINDS},
    "calibrated": ("labels", {"wrap": CalibratedClassifier}, 2e-7),
    "drift": ("labels", {"wrap": DriftAwareClassifier}, 2e-7),
}
del MODELS["hidden labels with priors"]


@pytest.mark.parametrize("name", MODELS)
@examples(15)
@given(st.data(), st.sampled_from([*WAYS]))
def test_scores_are_exact_to_2e_7_wherever_features_lie(tmp_path_factory, name, data, way):
    kind, form, share = MODELS[name]
    trained = data.draw(trained_models(kind, **form))
    model, linear, X = trained.model, trained.linear, trained.others
    what, outputs = outputs_in_c(model)
    assume(len(outputs) > (what == "LABELS"))
    found, labels, texts = predicted(model, X, way, tmp_path_factory.mktemp("c"))
    h, spread = activations_of(trained.layer, X)
    bound = share * sizes_of_scores(linear, h, spread) + own_rounding(linear, h)
    assert_close(found, scores_of(linear, h), bound)
    assert texts == [*map(str, outputs)]
    assert what != "LABELS" or labels.tolist() == found.argmax(axis=1).tolist()


@pytest.mark.parametrize("n_targets", the_rest_slow((9, 1, 3, 4, 6)))
def test_long_rows_of_one_sign_are_exact_too(folder, n_targets):
    """Plain sums would lose a digit."""
    random = np.random.default_rng(n_targets)
    X = np.round(random.uniform(0.0, 64.0, (60, 1280))).astype(np.float32) + np.float32(1e5)
    Y = X.astype(np.float64) @ random.uniform(0.5, 1.0, (1280, n_targets)) - 1280 * 1e5
    model = fitted(LeastSquaresMultiTargetRegressor(ridge=1.0), X, Y)
    found, *_ = predicted(model, X, [*WAYS][n_targets % 4], folder)
    assert_close(found, scores_of(model, X), 2e-7 * sizes_of_scores(model, X))


@pytest.mark.parametrize("option", ["-ffast-math", "-fassociative-math"])
def test_options_that_reorder_sums_are_refused(folder, option):
    """They would drop compensated summation, and what tells NaN."""
    export.c(TRAINED, folder / "fan.h")
    more = ["-fno-signed-zeros", "-fno-trapping-math"]
    with pytest.raises(AssertionError, match="compile the file with this header without them"):
        compiled('#include "fan.h"\n', "C99 -O0", folder, *more, option)


HOSTILE = [
    *('*/ " ??/', "a\\", "\n#error", "??/", "%:", "\u202e", "né", "NE", "-1", "1", "", "int"),
    "x" * 300,
]
"""Texts that end comments or strings, join lines, or have equal names in C."""


@pytest.mark.parametrize("way", the_rest_slow(WAYS))
def test_names_of_any_text_stay_what_they_are(folder, way):
    X = pd.DataFrame(np.eye(len(HOSTILE)), columns=HOSTILE)
    model = fitted(LeastSquaresClassifier(ridge=1.0), X, HOSTILE)
    columns = [HOSTILE.index(name) for name in model.feature_names]
    _, labels, texts = predicted(model, np.eye(len(HOSTILE))[:, columns], way, folder)
    assert texts == list(model.classes)
    assert [texts[k] for k in labels] == HOSTILE
    header = (folder / "fan.h").read_text("ascii")
    assert len(set(re.findall(r"FAN_LABEL\w*", header))) == len(HOSTILE)
    # Names with two underscores are those of compilers, which the header asks in one place.
    assert "__" not in re.sub(r"#if defined.*?#endif\n", "", header, count=1, flags=re.DOTALL)


def test_of_equal_scores_the_first_counts_and_classes_without_weight_have_none(folder):
    X, w = np.array([[1.0], [-1.0], [0.0]]), [1.0, 1.0, 0.0]
    model = fitted(LeastSquaresClassifier(1.0, priors="learnt"), X, ["b", "c", "a"], w)
    scores, labels, texts = predicted(model, [[0.0], [np.nan]], "C99 -Os", folder)
    assert np.isneginf(scores[0, texts.index("a")])
    assert scores[0, texts.index("b")] == scores[0, texts.index("c")]
    assert texts[labels[0]] == model.predict_one({0: 0.0}) == "b"
    assert np.isnan(np.delete(scores[1], texts.index("a"))).all()
    assert labels[1] == 0


# -- small weights --------------------------------------------------------------------------------


def constants_of(path):
    """Return the bytes of constants that a header tells, and its number of int8 weights."""
    (told,) = re.findall(r"Constants take ([\d,]+) bytes", path.read_text())
    weights = sum(map(int, re.findall(r"int8_t \w+\[(\d+)\]", path.read_text())))
    return int(told.replace(",", "")), weights


@pytest.mark.parametrize("n_outputs", [2, 5])
def test_int8_weights_are_multiples_of_a_127th(folder, n_outputs):
    random = np.random.default_rng(0)
    X = (random.normal(size=(200, 40)) + 1e4).astype(np.float32)
    y = (X[:, :n_outputs] - 1e4).argmax(axis=1)
    model = fitted(LeastSquaresClassifier(ridge=1.0), X.astype(np.float64), y)
    found, labels, _ = predicted(model, X, "C99 -Os", folder, weights="int8")
    mean, W = model._state.statistics.feature_mean, model.output_weights
    steps = np.abs(W).max(axis=0) / 127.0
    bound = np.abs(X - mean).sum(axis=1)[:, None] * (0.501 * steps) + 1e-6
    assert_close(found, scores_of(model, X), bound)
    assert labels.tolist() == found.argmax(axis=1).tolist()
    own = model.predict_many(X.astype(np.float64))
    assert np.mean([model.classes[k] for k in labels] == own) > 0.97
    # Beside the weights, a mean for each feature, and a scale and constant for each output.
    n_weights = 40 * n_outputs
    assert constants_of(folder / "fan.h") == (n_weights + 4 * (40 + 2 * n_outputs), n_weights)


def test_input_weights_are_int8_too(folder):
    X = np.random.default_rng(0).normal(size=(200, 30)).astype(np.float32)
    layer = HiddenLayer.from_examples(X, [k % 3 for k in range(200)], n_hidden=40)
    model = fitted(layer | LeastSquaresRegressor(1.0), X, X[:, 0].astype(np.float64))
    found, *_ = predicted(model, X, "C99 -O0", folder, weights="int8")
    assert constants_of(folder / "fan.h")[1] == 40 * 31
    assert np.corrcoef(found[:, 0], model.predict_many(X))[0, 1] > 0.99


@pytest.mark.parametrize("bias", [True, False])
def test_bipolar_input_weights_are_bits(folder, bias):
    random = np.random.default_rng(0)
    X = (random.normal(size=(60, 50)) * random.uniform(1e-3, 1e3, 50) + 100.0).astype(np.float32)
    settings = {"n_hidden": 70, "input_weights": "bipolar", "activation": "tanh", "bias": bias}
    layer = HiddenLayer.from_examples(X, **settings)
    model = fitted(layer | LeastSquaresClassifier(1.0), X, list("ab" * 30))
    found, *_ = predicted(model, X, "C++ -Os", folder)
    assert "fan_project_bits[140]" in (folder / "fan.h").read_text()
    h = layer.transform_many(X)
    assert_close(found, scores_of(model["LeastSquaresClassifier"], h), np.full((60, 2), 1e-5))


# -- devices that learn ---------------------------------------------------------------------------


class Device:
    """A device on this machine that runs the header of a model, and the labels that it may see."""

    def __init__(self, model, labels, folder, way, **settings):
        export.c(model, folder / "fan.h", learn=True, **settings)
        self.header, self.model, self.labels = (folder / "fan.h").read_text("ascii"), model, labels
        self.dtype = np.dtype(settings.get("rows", "float32"))
        self.classes = [*getattr(last_step(model), "classes", ())]
        self.solves = "fan_solve(fan_l" in self.header
        flags = ["-DLABELS"] * bool(self.classes) + ["-DSOLVES"] * self.solves
        self.library = compiled(LEARNS, way, folder, *flags)
        self.begin()

    def begin(self, slot=8192, unit=8):
        """Begin without rows, and with slots of a size, of units that are written at once."""
        self.size = self.library.begin(ctypes.c_size_t(slot), ctypes.c_size_t(unit))
        return self

    def learn(self, X, Y):
        """Learn rows with labels or targets; return whether each was learnt."""
        return [self.learn_row(x, y) for x, y in zip(X, Y, strict=True)]

    def learn_row(self, x, y):
        x, targets = np.array(x, self.dtype), np.array([0.0] if self.classes else y, self.dtype)
        label = self.label(y) if self.classes else at(targets)
        return bool(self.library.learn(at(x), label))

    def label(self, text):
        return self.library.add_label(text if isinstance(text, bytes) else str(text).encode())

    def solve(self):
        self.library.solve.restype = ctypes.c_float
        return self.library.solve()

    def held(self):
        """Return the memory of the learner."""
        self.library.held.restype = ctypes.c_void_p
        return (ctypes.c_uint8 * self.size).from_address(self.library.held())

    def sent(self, number=1, serial=1):
        """Return the bytes that are sent, or none if sending is refused."""
        content = np.empty(200_000, np.uint8)
        size = self.library.sent(ctypes.c_uint64(number), serial, at(content))
        return content[:size].tobytes()

    def answers(self, X):
        """Return the scores or values of rows, and the texts of their labels."""
        y, text = np.empty(300, np.float32), ctypes.create_string_buffer(256)
        scores, labels = [], []
        for x in np.asarray(X, self.dtype):
            n = self.library.answer(at(x), at(y), text)
            scores.append(y[:n].copy())
            labels.append(text.value.decode(errors="replace"))
        return np.array(scores), labels

    def take(self, content, n_written=1 << 40):
        """Take weights; the power is cut after some bytes. Return 0, or why they are not taken."""
        # A copy of exactly its size, so that sanitizers see what is read beyond it.
        given = np.frombuffer(content, np.uint8).copy()
        return self.library.take(
            at(given), ctypes.c_size_t(len(given)), ctypes.c_ssize_t(n_written)
        )


class Made(NamedTuple):
    """How a device is made: its model, number of features, labels, and the settings of `c`."""

    model: object
    m: int = 3
    labels: tuple = ("a", "bc", "new")
    rows: str = "float32"
    room: int = 1
    share: float = 1e-6
    sizes: tuple = (3, 100, 3000)


NONE = {"labels": (), "room": 0}
CLASSIFIER = functools.partial(LeastSquaresClassifier, 1.0)
DEVICES = {
    "float": Made(CLASSIFIER()),
    "whole": Made(CLASSIFIER(), rows="int16"),
    "no intercept": Made(CLASSIFIER(fit_intercept=False), 7),
    "whole without intercept": Made(CLASSIFIER(fit_intercept=False), 5, rows="int16"),
    "numbers": Made(LeastSquaresRegressor(1.0), 7, **NONE),
    "whole numbers": Made(LeastSquaresRegressor(1.0), 1, rows="int16", **NONE),
    "targets": Made(LeastSquaresMultiTargetRegressor(1.0, fit_intercept=False), 4, **NONE),
    "whole targets": Made(LeastSquaresMultiTargetRegressor(1.0), 6, rows="int16", **NONE),
    "standard": Made(CLASSIFIER(scaling="standard"), 32, room=2),
    "whole standard": Made(CLASSIFIER(scaling="standard"), 32, rows="int16"),
    "many": Made(CLASSIFIER(), 40),
    "priors": Made(CLASSIFIER(priors="equal"), labels=("a", "b"), room=0),
    "integers": Made(CLASSIFIER(), labels=(3, -1, 20)),
    "truth": Made(CLASSIFIER(), labels=(True, False), room=0),
    "hidden": Made(CLASSIFIER(), 4, share=1e-5, sizes=(100,)),
    "no ridge": Made(LeastSquaresClassifier(0.0), 4, labels=("a", "b"), room=0),
}
WHOLE = [name for name in DEVICES if "whole" in name]


def rows_for(made, random, n_rows, size=100, offset=300):
    """Return rows around centres, whole numbers, and their labels in turn, or targets."""
    places = np.arange(n_rows) % max(1, len(made.labels))
    X = 3.0 * random.normal(size=(3, made.m))[places] + random.normal(size=(n_rows, made.m))
    X = np.clip(np.rint(size * X + offset), -32768, 32767)
    shape = (n_rows, 2)[: 1 + isinstance(made.model, LeastSquaresMultiTargetRegressor)]
    Y = np.clip(random.integers(-size, size + 1, shape) + offset, -32768, 32767).astype(float)
    return X, [made.labels[k] for k in places] if made.labels else Y


@pytest.fixture(scope="module")
def device_of(tmp_path_factory):
    """Return a function that returns the device of a name, which has learnt nothing."""

    @functools.cache
    def made(name):
        each = DEVICES[name]
        X, Y = rows_for(each, np.random.default_rng(1), 60)
        known = [k for k, y in enumerate(Y) if not each.labels or y in each.labels[:2]]
        model = each.model
        if name == "hidden":
            model = HiddenLayer.from_examples(X, n_hidden=12, activation="relu") | model
        model = fitted(model, X[known], as_objects([Y[k] for k in known]) if each.labels else Y)
        way, settings = [*WAYS][len(name) % 4], {"rows": each.rows, "room": each.room}
        return Device(model, each.labels, tmp_path_factory.mktemp("c"), way, **settings)

    return lambda name: made(name).begin()


def hidden_of(model, X):
    """Return what the linear model in a model sees of rows."""
    return model["HiddenLayer"].transform_many(X) if last_step(model) is not model else X


def assert_answers(device, model, X, share):
    """Assert that a device answers as a model does, within a share of the absolute products.

    Labels may be in another order.
    """
    X = X[:9]
    scores, labels = device.answers(X)
    last, h = last_step(model), hidden_of(model, X)
    own, bound = scores_of(last, h), share * sizes_of_scores(last, h)
    np.testing.assert_allclose(np.sort(scores), np.sort(own), rtol=0.0, atol=bound.max())
    clear = np.diff(np.sort(own), axis=1)[:, -1:] > 2.0 * bound.max()
    chosen = model.predict_many(X) if device.classes else labels
    assert all(a == str(b) for a, b, told in zip(labels, chosen, clear, strict=True) if told.all())


DRAWN = {"seed": st.integers(0, 2**32 - 1), "n_rows": st.integers(45, 90)}
DRAWN |= {"offset": st.sampled_from([0, 3])}


@pytest.mark.parametrize("name", DEVICES)
@examples(15)
@given(data=st.data(), **DRAWN)
def test_what_a_device_learns_goes_home_and_comes_back(device_of, name, data, seed, n_rows, offset):
    made, device = DEVICES[name], device_of(name)
    model, size = device.model, data.draw(st.sampled_from(made.sizes))
    X, Y = rows_for(made, np.random.default_rng(seed), n_rows, size, offset * size)
    assert_answers(device, model, X, made.share)
    assert all(device.learn(X, Y))
    read = read_device(device.sent(7, 3), model)
    assert read[:3] == (7, 3, len(X))
    device_sums.assert_sums(read, hidden_of(model, X), Y)
    types = {(each, type(each)) for each in getattr(last_step(read.model), "classes", ())}
    assert types == {(each, type(each)) for each in made.labels}
    content = device_weights(read.model, model, 1)
    assert device.take(content[:-1]) != 0
    assert_answers(device, model, X, made.share)
    assert device.take(content) == 0
    assert_answers(device, read.model, X, made.share)


@pytest.mark.parametrize("name", WHOLE)
@examples(15)
@given(size=st.sampled_from([3, 100, 30_000]), **DRAWN)
def test_sums_of_whole_rows_are_exact(device_of, name, seed, n_rows, size, offset):
    made, device = DEVICES[name], device_of(name)
    X, Y = rows_for(made, np.random.default_rng(seed), n_rows, size, offset * size)
    device.learn(X, Y)
    known = list(dict.fromkeys([*device.classes, *Y])) if made.labels else ()
    whole = X.astype(int), Y if made.labels else Y.astype(int)
    assert device.sent(7, 3) == device_sums.sent(device.model, known, *whole, number=7, serial=3)


@pytest.mark.parametrize("name", sorted(DEVICES.keys() - {"many", "priors", "hidden"}))
def test_a_device_solves_and_answers_alone(device_of, name):
    made, device = DEVICES[name], device_of(name)
    X, Y = rows_for(made, np.random.default_rng(0), 300)
    assert device.solve() == -1.0
    device.learn(X, Y)
    assert device.solve() == device.model.ridge
    assert_answers(device, fitted(device.model.empty(), X, Y), X, 1e-5)


def test_the_ridge_is_raised_where_float_would_lose_the_digits(device_of):
    device, random = device_of("no ridge"), np.random.default_rng(0)
    X, y = rows_for(DEVICES["no ridge"], random, 300)
    X[:, 3] = X[:, 0] + 1e-2 * random.normal(size=300)
    device.learn(X, y)
    assert 1e-4 < device.solve() < 1e5
    scores, labels = device.answers(X)
    assert np.isfinite(scores).all()
    assert np.mean(np.array(labels) == y) > 0.9


# -- labels, damaged memory, and what a device refuses ---------------------------------------------


@pytest.mark.parametrize("name", ["float", "whole"])
def test_refused_rows_change_nothing(device_of, name):
    device, x = device_of(name), np.zeros(3, DEVICES[name].rows)
    device.learn(np.eye(3), ["a", "bc", "a"])
    before = device.sent()
    wrong = (np.nan, np.inf, -np.inf, 2e15)[: 4 * (x.dtype == np.float32)]
    assert not any(device.learn_row([0.0, each, 0.0], "a") for each in wrong)
    assert [device.library.learn(at(x), label) for label in (-1, 2, 99)] == [0, 0, 0]
    assert device.label("x" * 31) == -1
    assert device.sent() == before
    assert [device.label(text) for text in ("c", "c", "d", "a")] == [2, 2, -1, 0]


TEXTS_OF_INT = {
    **dict.fromkeys(("0", "-1", "7", "120", str(2**63 - 1), str(-(2**63))), True),
    **dict.fromkeys((str(2**63), str(-(2**63) - 1), "1" + 19 * "0", "blocked", "007"), False),
    **dict.fromkeys(("+5", "-", "-0", "--1", " 7", "7 ", "7\r", "1_0", "1.0", ""), False),
    **dict.fromkeys(("\u0667", "\uff17"), False),
}


@pytest.mark.parametrize("text", TEXTS_OF_INT)
def test_labels_of_digits_are_refused_if_home_cannot_read_them(device_of, text):
    device, is_taken = device_of("integers"), TEXTS_OF_INT[text]
    assert (device.label(text) >= 0) == is_taken == device.learn_row(np.zeros(3), text)
    assert device.learn_row(np.ones(3), 3)
    known = {3, int(text)} if is_taken else {3}
    assert {*read_device(device.sent(), device.model).model.classes} == known


def test_labels_are_refused_if_they_are_not_utf_8(device_of):
    device = device_of("float")
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    texts = [bytes(each) for each in product(range(0x7F, 256), edges, [0xBF], [0x80])]
    texts = [b"", "é€🌀".encode(), *(each[:n] for each in texts for n in (1, 2, 3, 4))]
    for text in dict.fromkeys(texts):
        device.begin()
        assert (device.label(text) > 1) == (text.decode(errors="ignore").encode() == text), text


TOLD = {
    "float": ["have at most 30 bytes, in UTF-8"],
    "integers": ["are integers of 64 bits, without spaces, plus or leading zeros"],
    "whole standard": ["have at most 30 bytes, in UTF-8"],
    "whole targets": [],
}


@pytest.mark.parametrize("name", TOLD)
def test_the_comment_tells_what_the_learner_takes(device_of, name):
    """Memory, but for padding, and new labels."""
    device = device_of(name)
    (size,) = re.findall(r"sums, ([\d,]+) bytes of plain data", device.header)
    assert 0 <= device.size - int(size.replace(",", "")) < 16
    assert re.findall(r"New labels (.*)\.", device.header) == TOLD[name]


@pytest.mark.parametrize("name", ["float", "whole", "numbers", "whole numbers"])
def test_a_stored_learner_is_sound_only_as_it_was_sealed(device_of, name):
    device = device_of(name)
    library, held = device.library, device.held()
    X, Y = rows_for(DEVICES[name], np.random.default_rng(0), 2)
    for byte in (0, 255):
        held[:] = [byte] * device.size
        assert not library.is_sound()
        assert (device.learn(X, Y), device.sent(), device.solve()) == ([False, False], b"", -1.0)
    for change in (device.begin, functools.partial(device.learn, X, Y)):
        change()
        assert not library.is_sound()
        library.seal()
        assert library.is_sound()
    # Every byte counts, but for those that align the end.
    for at_byte in range(device.size):
        held[at_byte] ^= 1
        assert not library.is_sound() or at_byte >= device.size - 4
        held[at_byte] ^= 1


@pytest.mark.parametrize("name", ["float", "whole"])
def test_damaged_labels_are_not_sent(device_of, name):
    """Their sizes say where bytes are read."""
    device = device_of(name)
    held, size = device.held(), ctypes.sizeof(ctypes.c_size_t)
    device.learn(np.eye(3), ["a", "new", "bc"])
    whole, x = device.sent(), np.ones(3, device.dtype)
    device.library.seal()
    for place, was in {0: 3, size: 12, 2 * size + 1: 1, 2 * size + 4: 2, 2 * size + 8: 3}.items():
        assert held[place] == was
        for now in {*range(256)} - {was}:
            held[place] = now
            assert not device.library.is_sound()
            assert (device.sent(), device.label("a"), device.solve()) == (b"", -1, -1.0)
            assert not device.library.learn(at(x), 0)
        held[place] = was
    assert device.library.is_sound()
    assert device.sent() == whole
    # Two labels that fill the room of three.
    room = held[size] = 3 + 4 + 32
    held[0], held[2 * size + 1], held[3 * size + 1] = 2, size - 2, room - size - 2
    assert len(device.sent()) > 0
    assert device.label("x") == -1


# -- weights that come back -----------------------------------------------------------------------


def versions(model, n=3):
    """Return weights of a model after more and more rows of three labels."""
    here, random = model.empty(), np.random.default_rng(0)
    for serial in range(1, n + 1):
        here.learn_many(random.normal(size=(20, 3)), random.choice(["calm", "breeze", "x"], 20))
        yield device_weights(here, model, serial)


@pytest.mark.parametrize("unit", [4, 8, 32])
def test_weights_are_taken_whole_or_not_at_all(device_of, unit):
    device, X = device_of("float"), np.arange(6.0).reshape(2, 3)
    contents = [*versions(device.model)]
    device.begin(max(map(len, contents)) + 5, unit)
    for content in contents:
        old, n_written = device.answers(X), 0
        # What was written stays, and the same bytes are taken later.
        while device.take(content, n_written):
            np.testing.assert_equal(device.answers(X), old)
            n_written += 1
        assert n_written >= len(content)
        assert device.answers(X)[0].tobytes() != old[0].tobytes()


DAMAGED, OF_ANOTHER_MODEL, TOO_LARGE, NOT_NEWER = 1, 2, 3, 4


def test_damaged_old_and_foreign_weights_are_refused(device_of):
    device, X = device_of("float"), np.eye(3)
    first, second, third = versions(device.model)
    assert [device.take(each) for each in (second, second, first)] == [0, NOT_NEWER, NOT_NEWER]
    old = device.answers(X)
    for place in range(len(third)):
        damaged = bytearray(third)
        damaged[place] ^= 1 << place % 8
        for each in (bytes(damaged), third[:place]):
            assert device.take(each) in ((DAMAGED,) if place > 27 else (1, 2, 3))
    assert device.take(third + b"x") == DAMAGED
    # More features, more classes, labels or numbers than there are, and other numbers, all signed.
    for place, odd in ((6, b"\4"), (8, b"\4"), (8, b"\0"), (24, b"\xff" * 4), (30, b"\x80\x7f")):
        forged = third[:place] + odd + third[place + len(odd) : -4]
        assert device.take(device_sums.signed(forged)) in (DAMAGED, TOO_LARGE)
    foreign = fitted(LeastSquaresClassifier(1.0, fit_intercept=False), np.eye(3), list("abc"))
    assert device.take(device_weights(foreign, foreign, 9)) == OF_ANOTHER_MODEL
    np.testing.assert_equal(device.answers(X), old)
    assert device.take(third) == 0


def test_more_classes_or_bytes_than_the_program_has_room_for_are_refused(device_of):
    (content,) = versions(device_of("float").model, 1)
    assert device_of("priors").take(content) == TOO_LARGE
    for size, code in ((len(content) - 1, TOO_LARGE), (len(content), 0)):
        assert device_of("float").begin(size).take(content) == code


def test_of_equal_scores_the_first_counts_on_a_device_too(device_of):
    device = device_of("float")
    model = fitted(CLASSIFIER(), np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), ["y", "x"])
    assert device.take(device_weights(model, device.model, 1)) == 0
    scores, labels = device.answers(np.zeros((1, 3)))
    assert scores[0, 0] == scores[0, 1]
    assert labels == list(model.classes[:1])


@given(data=st.data())
@examples(100)
def test_forged_weights_never_answer(device_of, data):
    device, X = device_of("float"), np.eye(3)
    (content,) = versions(device.model, 1)
    forged, old = bytearray(content[:-4]), device.answers(X)
    place = data.draw(st.integers(0, len(forged) - 4))
    forged[place : place + 4] = data.draw(st.binary(min_size=4, max_size=4))
    is_taken = device.take(device_sums.signed(bytes(forged))) == 0
    scores, labels = device.answers(X)
    assert np.isfinite(scores).all()
    assert is_taken or (scores.tobytes(), labels) == (old[0].tobytes(), old[1])


# -- headers --------------------------------------------------------------------------------------


def test_two_headers_in_one_program(folder):
    for prefix, settings in ("fan", {}), ("pump_2", {"learn": True, "rows": "int16"}):
        export.c(TRAINED, folder / "any name.h", prefix=prefix, **settings)
        (folder / "any name.h").rename(folder / f"{prefix}.h")
    code = """
    #include "fan.h"
    #include "pump_2.h"
    /* names that the functions have in the package */
    static int dot = 1, follow = 1, real = 1;
    int both(void);
    int both(void)
    {
        static pump_2_learner_t pump;
        static const float x[3] = {0, 1, 0};
        static const int16_t y[3] = {0, 1, 0};
        pump_2_begin(&pump);
        dot += pump_2_learn(&pump, y, PUMP_2_LABEL_A);
        return dot + follow + real + (fan_predict(x) == FAN_LABEL_B);
    }
    """
    assert compiled(code, "C99 -Os", folder).both() == 5


M4 = ["arm-none-eabi-gcc", "-x", "c", "-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard"]
M4 += ["-mfpu=fpv4-sp-d16", "-c"]
needs_m4 = pytest.mark.skipif(shutil.which(M4[0]) is None, reason="no arm-none-eabi-gcc")
SOFT = {"float32": {"memcpy", "memset"}, "int16": set()}
"""What a row may call, by the type of its values: nothing that computes in double precision."""


@needs_m4
@pytest.mark.parametrize("rows", SOFT)
def test_rows_need_no_double_precision_on_a_cortex_m4(folder, rows):
    export.c(TRAINED, folder / "fan.h", learn=True, rows=rows)
    call = "int learn(const fan_value_t *x, int label) { return fan_learn(&learner, x, label); }"
    (folder / "row.c").write_text(f'#include "fan.h"\nfan_learner_t learner;\n{call}\n')
    subprocess.run([*M4, "-std=c99", "row.c", "-o", "row.o"], cwd=folder, check=True)
    command = ["arm-none-eabi-nm", "-u", "row.o"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    assert set(re.findall(r"U (\w+)", done.stdout)) <= SOFT[rows]


def deepest(information):
    """Return the bytes of the stack that the largest call takes, from the call graph of gcc."""
    node = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \(')
    edge = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
    own, calls = dict(node.findall(information)), edge.findall(information)

    def depth(name):
        return int(own.get(name, 0)) + max((depth(b) for a, b in calls if a == name), default=0)

    return max(map(depth, own))


@needs_m4
@pytest.mark.parametrize("rows", SOFT)
@pytest.mark.parametrize("m", the_rest_slow([32, 1, 96]))
def test_no_call_takes_more_of_the_stack_than_the_header_says(folder, rows, m):
    X, y = rows_for(Made(None, m), np.random.default_rng(0), 300)
    model = fitted(LeastSquaresClassifier(ridge=1.0), X, y)
    export.c(model, folder / "fan.h", learn=True, rows=rows, room=20 * (m == 32))
    (folder / "all.c").write_text(LEARNS)
    flags = ["-std=gnu99", "-fcallgraph-info=su", "-DLABELS", *["-DSOLVES"] * (m <= 32)]
    subprocess.run([*M4, *flags, "all.c", "-o", "all.o"], cwd=folder, check=True)
    text = (folder / "fan.h").read_text()
    told = int(re.search(r"up to about ([\d,]+) bytes of stack", text)[1].replace(",", ""))
    taken = deepest((folder / "all.ci").read_text())
    assert taken <= told <= taken + 400


EYE, LEARN = np.eye(3), {"learn": True}
INT16 = {"rows": "int16"}


def of(*y, before=(), model=None):
    """Return a model that has learnt a row for each target, behind some steps."""
    model = CLASSIFIER() if model is None else model
    for step in before:
        model = step | model
    return fitted(model, pd.DataFrame(np.eye(len(y))).add_prefix("x"), [*y])


TRAINED = fitted(CLASSIFIER(), EYE, ["a", "b", "c"])
NUMBERS = of(1.0, 2.0, model=LeastSquaresRegressor(1.0))
SCALER, LAYER = preprocessing.StandardScaler(), HiddenLayer(2)
REFUSED = [
    (CLASSIFIER(), {}, "has learnt nothing"),
    (of("a", "a"), {}, "knows only the class 'a'"),
    (fitted(CLASSIFIER(), [{}, {}], ["a", "b"]), {}, "without features"),
    (of("a", 1), {}, "do not fit a header in C"),
    (of("a", "b\0c"), {}, "holds a NUL"),
    (of("a", "b", model=CLASSIFIER(priors={"z": 1.0})), {}, "name 'z', of which no row"),
    (of("a", "b", before=[SCALER]), {}, "has the steps StandardScaler, expected a linear model"),
    (of("a", "b", before=[LAYER, SCALER]), {}, "has the steps StandardScaler, HiddenLayer"),
    (of("a", "b", model=WindowedClassifier(CLASSIFIER(), 1)), {}, "takes windows"),
    (of(1e60, 1.0, model=LeastSquaresRegressor(1.0)), {}, "as large as"),
    (TRAINED, {"weights": "int16"}, 'Pass one of "float32", "int8"'),
    *(
        (TRAINED, {"prefix": prefix}, "begins no name in C")
        for prefix in ("", "Fan", "1a", "a__b", "_a", "a_", "a b", "ä", "a\n", "a-b")
    ),
    (TRAINED, {"prefix": 3}, "prefix=3"),
    (3, {}, "is of type int"),
    (of(*["a", "b"] * 48, "a"), LEARN, "has 97 features, expected at most 96 to learn"),
    (NUMBERS, LEARN | {"room": 1}, "room=1 came with a model that takes no new labels"),
    (of(True, False), LEARN | {"room": 1}, "room=1 came with a model that takes no new labels"),
    (of("a", "\udc80"), LEARN, "A label is '\\udc80', with half a character"),
    (of(0.5, 1.5), LEARN, "A label is 0.5"),
    (of("a", "a"), LEARN, "at least two"),
    (TRAINED, {"room": 1}, "Pass learn=True"),
    (TRAINED, INT16, "Pass learn=True"),
    (TRAINED, LEARN | {"weights": "int8"}, "learn=True came with weights='int8'"),
    (TRAINED, LEARN | {"rows": "int8"}, 'Pass one of "float32", "int16"'),
    (TRAINED, LEARN | {"room": -1}, "room=-1 must be at least 0"),
    (TRAINED, LEARN | {"room": 1.5}, "room=1.5"),
    (TRAINED, {"learn": 1}, "learn=1"),
    (of("a", "b", before=[LAYER]), LEARN | INT16, 'rows="int16" came with a HiddenLayer'),
    (of("a", "b", model=CLASSIFIER(accumulator="orthogonal")), LEARN, "accumulator='orthogonal'"),
    (of("a", "b", model=CalibratedClassifier(CLASSIFIER())), LEARN, "CalibratedClassifier"),
]


@pytest.mark.parametrize(("model", "settings", "message"), REFUSED)
def test_what_is_refused_writes_no_file(tmp_path, model, settings, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        export.c(model, tmp_path / "fan.h", **settings)
    assert not [*tmp_path.iterdir()]


def test_a_path_is_one_and_its_name_begins_names_in_c(tmp_path):
    with pytest.raises(TypeError, match="path=3"):
        export.c(TRAINED, 3)
    with pytest.raises(ValueError, match="begins no name in C"):
        export.c(TRAINED, tmp_path / "Fan 2.h")
