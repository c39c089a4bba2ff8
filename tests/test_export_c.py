"""`onlinels.export.c`: headers in C that answer as the model does, compiled as C99 and as C++."""

import ctypes
import re

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
from onlinels.export import c_header
from onlinels.pipelines import last_step
from support.compilers import WAYS, compiled
from support.laws import fitted
from support.slow import the_rest_slow
from support.strategies import examples, hidden_settings, kinds, trained_models

PREDICT = {
    "label": "fan_scores(x, y); *labels++ = fan_predict(x);",
    "target": "fan_predict(x, y);",
    "value": "*y = fan_predict(x);",
}


def kind_of(model):
    """Return what a header of a model predicts, and how many numbers."""
    last = last_step(model)
    if hasattr(last, "classes"):
        return "label", len(last.classes)
    width = last.output_weights.shape[1] if last.output_weights.ndim == 2 else 1
    return ("target", width) if isinstance(last, LeastSquaresMultiTargetRegressor) else ("value", 1)


def predicted(model, X, way, folder, **settings):
    """Return the numbers, labels and texts that the header of a model computes for rows."""
    export.c(model, folder / "fan.h", **settings)
    kind, n = kind_of(model)
    code = f"""
#include "fan.h"
#ifdef __cplusplus
extern "C"
#endif
void all(const float *x, int rows, float *y, int *labels, const char *const **texts);
void all(const float *x, int rows, float *y, int *labels, const char *const **texts)
{{
    *texts = {"0" if kind == "value" else f"fan_{kind}s"};
    (void)labels;
    for (; rows-- > 0; x += FAN_N_FEATURES, y += {n}) {{
        {PREDICT[kind]}
    }}
}}
"""
    X = np.ascontiguousarray(X, np.float32)
    y, labels = np.empty((len(X), n), np.float32), np.empty(len(X), np.int32)
    texts = ctypes.POINTER(ctypes.c_char_p)()
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in (X, y, labels))
    x_at, y_at, labels_at = pointers
    library = compiled(code, way, folder, "-Wconversion", "-Wdouble-promotion")
    library.all(x_at, len(X), y_at, labels_at, ctypes.byref(texts))
    found = [] if kind == "value" else [texts[k].decode() for k in range(n)]
    return y, labels, found


def scores_of(model, X):
    """Return the scores or values (n, n_outputs) of a model, in float64."""
    scores = model.scores_many if hasattr(model, "scores_many") else model.predict_many
    return scores(X.astype(np.float64)).reshape(len(X), -1)


def sizes_of(linear, X, spread=0.0):
    """Return the sums of the absolute products of scores, and of their constants."""
    weights, mean = linear.output_weights, linear._state.statistics.feature_mean
    weights = weights.reshape(len(mean), -1)
    constant = np.abs(np.nan_to_num(linear.intercept + mean @ weights, neginf=0.0))
    return (np.abs(X - mean) + spread) @ np.abs(weights) + constant


def own_rounding(linear, X):
    """Return the rounding errors of the scores of a model with priors in float64."""
    if getattr(linear, "priors", None) is None:
        return 1e-30
    own = np.abs(X) @ np.abs(linear._solved().output_weights) @ np.abs(linear._rule().matrix)
    return 1e-13 * own


def assert_close(found, scores, bound):
    """Compare scores, of which some are -inf."""
    finite = np.isfinite(scores)
    assert (np.isfinite(found) == finite).all()
    assert (np.abs(found - scores)[finite] <= bound[finite]).all()


@pytest.fixture
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c")


@kinds
@examples(15)
@given(st.data())
def test_scores_are_exact_to_2e_7_wherever_features_lie(tmp_path_factory, kind, data):
    trained, way = data.draw(trained_models(kind)), data.draw(st.sampled_from([*WAYS]))
    model, X, folder = trained.model, trained.others, tmp_path_factory.mktemp("c")
    assume(not hasattr(model, "classes") or len(model.classes) > 1)
    found, labels, texts = predicted(model, X, way, folder)
    scores, sizes = scores_of(model, X), sizes_of(model, X)
    assert_close(found, scores, 2e-7 * sizes + own_rounding(model, X))
    if kind.startswith("labels"):
        assert texts == [str(label) for label in model.classes]
        assert labels.tolist() == found.argmax(axis=1).tolist()
    elif kind == "several numbers":
        assert texts == [*map(str, model.predict_one({}))]


@pytest.mark.parametrize("offset", [1e5, pytest.param(0.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n_targets", the_rest_slow((9, 1, 3, 4, 6)))
def test_long_rows_of_one_sign_are_exact_too(folder, n_targets, offset):
    """Plain sums would lose a digit."""
    random = np.random.default_rng(n_targets)
    X = np.round(random.uniform(0.0, 64.0, (60, 1280))).astype(np.float32) + np.float32(offset)
    Y = X.astype(np.float64) @ random.uniform(0.5, 1.0, (1280, n_targets)) - 1280 * offset
    model = fitted(LeastSquaresMultiTargetRegressor(ridge=1.0), X, pd.DataFrame(Y))
    found, *_ = predicted(model, X, [*WAYS][n_targets % 4], folder)
    assert_close(found, scores_of(model, X), 2e-7 * sizes_of(model, X))


@examples(40)
@given(st.data())
def test_hidden_layers(tmp_path_factory, data):
    settings, chosen = (
        data.draw(hidden_settings()),
        data.draw(st.sampled_from(["raw", "drawn", "differences"])),
    )

    def make(model, X, y):
        own, labels = settings, None
        if chosen == "differences":
            own = settings | {"input_weights": "centred-difference"}
            labels = [k % 2 for k in range(len(X))]
        layer = (
            HiddenLayer(**own) if chosen == "raw" else HiddenLayer.from_examples(X, labels, **own)
        )
        pipeline = layer | model
        pipeline.steps = {"first": layer, "last": model}
        return pipeline

    kind = data.draw(st.sampled_from(["labels", "numbers", "several numbers"]))
    scale = 1.0 if settings["activation"] != "cube" else 0.1
    trained = data.draw(trained_models(kind, make, largest=1e6 if chosen != "raw" else scale))
    model, X = trained.model, trained.others
    assume(kind != "labels" or len(model["last"].classes) > 1)
    way, folder = data.draw(st.sampled_from([*WAYS])), tmp_path_factory.mktemp("c")
    found, *_ = predicted(model, X, way, folder)
    layer, linear = model["first"], model["last"]
    h = layer.transform_many(X.astype(np.float64))
    made = layer._made.formed() if hasattr(layer._made, "formed") else layer._made
    W, b = made.weights, np.zeros(layer.n_hidden) if made.offsets is None else made.offsets
    origin = c_header.origin_of(W, b)
    # What projections err by, in roundings, of which activations make at most as many of their own.
    u = np.abs(X - origin) @ np.abs(W) + np.abs(b + origin @ W)
    spread = 3.0 * np.abs(h) + u * STEEPEST.get(layer.activation, np.ones_like)(np.abs(X @ W + b))
    assert_close(found, scores_of(linear, h), 2.5e-7 * sizes_of(linear, h, spread))


STEEPEST = {
    "square": lambda u: 2.0 * u,
    "rectified-square": lambda u: 2.0 * u,
    "cube": lambda u: 3.0 * u**2,
}
"""The slopes of activations that are above 1, by the size of the projection."""


HOSTILE = (
    '*/ " ??/',
    "a\\",
    "\n#error",
    "??/",
    "%:",
    "\u202e",
    "né",
    "NE",
    "-1",
    "1",
    "",
    "int",
    "x" * 300,
)
"""Texts that end comments or strings, join lines, or have equal names in C."""


@pytest.mark.parametrize("option", ["-ffast-math", "-fassociative-math"])
@pytest.mark.parametrize("learn", [False, True])
def test_options_that_reorder_sums_are_refused(folder, option, learn):
    """They would drop compensated summation, and what tells NaN."""
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), ["a", "b"])
    export.c(model, folder / "fan.h", learn=learn)
    more = ["-fno-signed-zeros", "-fno-trapping-math"]
    with pytest.raises(AssertionError, match="compile the file with this header without them"):
        compiled('#include "fan.h"\n', "C99 -O0", folder, *more, option)


@pytest.mark.parametrize("way", the_rest_slow(WAYS, 1))
def test_names_of_any_text_stay_what_they_are(folder, way):
    X, y = pd.DataFrame(np.eye(len(HOSTILE)), columns=list(HOSTILE)), list(HOSTILE)
    model = fitted(LeastSquaresClassifier(ridge=1.0), X, y)
    columns = [HOSTILE.index(name) for name in model.feature_names]
    _, labels, texts = predicted(model, np.eye(len(HOSTILE))[:, columns], way, folder)
    assert texts == list(model.classes)
    assert [texts[k] for k in labels] == y
    header = (folder / "fan.h").read_text("ascii")
    header = re.sub(r"#if defined.*?#endif\n", "", header, count=1, flags=re.DOTALL)
    assert header.count("#error") == 0 or "\n#error" not in header
    assert len(set(re.findall(r"FAN_LABEL\w*", header))) == len(HOSTILE)
    assert "__" not in header
    assert not any("?" in each or "*" in each for each in re.findall(r'"([^"\n]*)"', header))


@pytest.mark.parametrize("labels", [(True, False), (3, -1, 2**40), (0.5, -2.0), (0.1, 1e300)])
def test_labels_of_all_types_are_texts(folder, labels):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(len(labels)), list(labels))
    _, found, texts = predicted(model, np.eye(len(labels)), "C99 -O0", folder)
    assert [texts[k] for k in found] == [str(label) for label in labels]


def test_of_equal_scores_the_first_counts(folder):
    model = fitted(LeastSquaresClassifier(ridge=1.0), [{"a": 1.0}, {"a": -1.0}], ["b", "a"])
    scores, labels, texts = predicted(model, [[0.0], [np.nan]], "C99 -Os", folder)
    assert scores[0, 0] == scores[0, 1]
    assert texts[labels[0]] == model.predict_one({"a": 0.0})
    assert np.isnan(scores[1]).all()
    assert labels[1] == 0


def test_classes_without_rows_have_no_score(folder):
    model = LeastSquaresClassifier(ridge=1.0, priors="learnt")
    model.learn_many(np.eye(4), ["a", "b", "c", "a"])
    model.unlearn_one(dict(enumerate(np.eye(4)[1].tolist())), "b")
    if "b" in model.classes:
        scores, _, texts = predicted(model, np.eye(4), "C99 -O0", folder)
        assert np.isneginf(scores[:, texts.index("b")]).all()


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
    own = model.predict_many(X.astype(np.float64))
    assert np.mean([model.classes[k] for k in labels] == own) > 0.97
    bytes_of_weights = int8_bytes(folder / "fan.h")
    assert bytes_of_weights == 40 * n_outputs


def int8_bytes(path):
    """Return the number of int8 weights in a header."""
    return sum(map(int, re.findall(r"int8_t \w+\[(\d+)\]", path.read_text())))


def test_the_linear_layer_of_an_embedding_fits_20_kb(folder):
    X = np.random.default_rng(0).normal(size=(20, 1280))
    model = fitted(LeastSquaresClassifier(ridge=1.0), X, [k % 4 for k in range(20)])
    export.c(model, folder / "fan.h", weights="int8")
    (size,) = re.findall(r"Constants take ([\d,]+) bytes", (folder / "fan.h").read_text())
    assert int(size.replace(",", "")) < 12_000


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


def test_int8_input_weights(folder):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 30)).astype(np.float32)
    layer = HiddenLayer.from_examples(X, [k % 3 for k in range(200)], n_hidden=40)
    model = fitted(layer | LeastSquaresRegressor(1.0), X, X[:, 0].astype(np.float64))
    found, *_ = predicted(model, X, "C99 -O0", folder, weights="int8")
    assert int8_bytes(folder / "fan.h") == 40 * 31
    assert np.corrcoef(found[:, 0], model.predict_many(X))[0, 1] > 0.99


def test_wrapped_classifiers_have_the_scores_of_theirs(folder):
    X, y = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32), list("abca" * 10)
    for wrap in CalibratedClassifier, DriftAwareClassifier:
        model = fitted(wrap(LeastSquaresClassifier(1.0)), X, y)
        found, *_ = predicted(model, X, "C99 -O0", folder)
        scores = scores_of(model.classifier, X)
        assert_close(found, scores, 2e-7 * sizes_of(model.classifier, X))


def test_two_headers_in_one_program(folder):
    for prefix in "fan", "pump_2":
        model = fitted(LeastSquaresClassifier(1.0), np.eye(3), ["off", "on", "off"])
        export.c(model, folder / "any name.h", prefix=prefix)
        (folder / "any name.h").rename(folder / f"{prefix}.h")
    code = """
    #include "fan.h"
    #include "pump_2.h"
    int same(const float *x);
    int same(const float *x)
    {
        return fan_predict(x) == FAN_LABEL_ON && pump_2_predict(x) == PUMP_2_LABEL_ON;
    }
    """
    library = compiled(code, "C99 -O0", folder)
    assert library.same((ctypes.c_float * 3)(0.0, 1.0, 0.0)) == 1


X3 = np.eye(3)
FRAME = pd.DataFrame(X3, columns=list("abc"))
TRAINED = fitted(LeastSquaresClassifier(1.0), X3, ["a", "b", "c"])
REFUSED = {
    "nothing": (LeastSquaresClassifier(), {}, "has learnt nothing"),
    "one class": (fitted(LeastSquaresClassifier(), X3, ["a"] * 3), {}, "knows only the class 'a'"),
    "no features": (fitted(LeastSquaresClassifier(), [{}, {}], ["a", "b"]), {}, "without features"),
    "labels": (fitted(LeastSquaresClassifier(), X3, ["a", 1, 2]), {}, "do not fit a header in C"),
    "NUL": (fitted(LeastSquaresClassifier(), X3, ["a", "b\0c", "d"]), {}, "holds a NUL"),
    "priors": (
        fitted(LeastSquaresClassifier(priors={"a": 1.0, "z": 1.0}), X3, ["a", "b", "a"]),
        {},
        "name 'z', of which no row",
    ),
    "scaler": (
        fitted(preprocessing.StandardScaler() | LeastSquaresClassifier(), FRAME, ["a", "b", "c"]),
        {},
        "has the steps StandardScaler, expected a linear model",
    ),
    "two layers": (
        fitted(HiddenLayer(2) | HiddenLayer(3) | LeastSquaresClassifier(), X3, ["a", "b", "c"]),
        {},
        "has the steps HiddenLayer, HiddenLayer",
    ),
    "windows": (
        fitted(WindowedClassifier(LeastSquaresClassifier(1.0), 2), np.eye(6), list("ababab")),
        {},
        "takes windows",
    ),
    "large": (fitted(LeastSquaresRegressor(1.0), X3, [1e60, 1.0, 2.0]), {}, "as large as"),
    "weights": (TRAINED, {"weights": "int16"}, 'Pass one of "float32", "int8"'),
    **{
        repr(prefix): (TRAINED, {"prefix": prefix}, "begins no name in C")
        for prefix in ("", "Fan", "1a", "a__b", "_a", "a_", "a b", "ä", "a\n", "a-b")
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_writes_no_file(tmp_path, case):
    model, settings, message = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        export.c(model, tmp_path / "fan.h", **settings)
    assert not [*tmp_path.iterdir()]


def test_types_are_refused(tmp_path):
    for model, path, settings, message in [
        (TRAINED, 3, {}, "path=3"),
        (TRAINED, tmp_path / "fan.h", {"prefix": 3}, "prefix=3"),
    ]:
        with pytest.raises(TypeError, match=message):
            export.c(model, path, **settings)
    with pytest.raises(ValueError, match="is of type int"):
        export.c(3, tmp_path / "fan.h")
    with pytest.raises(ValueError, match="begins no name in C"):
        export.c(TRAINED, tmp_path / "Fan 2.h")
