"""Models in files: what is loaded goes on as what was saved, bit for bit; so do copies."""

import copy
import functools
import io
import os
import pickle
import re
from collections import defaultdict
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, drift, feature_extraction, preprocessing

import onlinels
from onlinels import (
    CalibratedClassifier,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
)
from onlinels.saving import description
from onlinels.saving.description import KINDS_BY_NAME, LATE_CLASSES
from onlinels.sums.low_rank import LowRank
from onlinels.sums.packed import PackedSymmetric
from support import savable_models, version_3, version_4
from support.laws import STEPS, assert_not_saved, saved, step
from support.slow import the_rest_slow
from support.strategies import cases, examples, kinds
from support.untrusted_files import (
    DESCRIPTION,
    arrays_of,
    genuine,
    members_of,
    rewritten,
)

# -- saved and loaded models ----------------------------------------------------------------------


def through_a_file(model, folder):
    onlinels.save(model, folder / "model.npz")
    assert (folder / "model.npz").read_bytes() == onlinels.dumps(model)
    return onlinels.load(folder / "model.npz")


@pytest.mark.parametrize("name", savable_models.MODELS)
@pytest.mark.parametrize("n_learnt", the_rest_slow([1, 0, 2]))
def test_a_loaded_model_goes_on_as_the_saved_one(tmp_path, name, n_learnt):
    model, (_, learn) = savable_models.learnt(name, n_learnt), savable_models.MODELS[name]
    loaded = through_a_file(model, tmp_path)
    assert type(loaded) is type(model)
    assert saved(loaded) == saved(model)
    for _ in range(2):
        learn(model, np.random.default_rng(7))
        learn(loaded, np.random.default_rng(7))
        assert saved(loaded) == saved(model)


def test_every_class_that_can_be_saved_is_saved_above():
    named = set()
    for name in savable_models.MODELS:
        named |= set(re.findall('"object":"([^"]*)"', genuine(name)[DESCRIPTION].decode()))
    # Only files of format 3 hold this one; see below.
    assert {*KINDS_BY_NAME, *LATE_CLASSES} - {"FoldedStatistics"} == named


WAYS = (
    lambda model: onlinels.loads(onlinels.dumps(model)),
    lambda model: pickle.loads(pickle.dumps(model)),
    copy.copy,
    copy.deepcopy,
)


@pytest.mark.filterwarnings("ignore:X has more columns")
@kinds
@examples(12)
@given(st.data())
def test_a_model_that_is_loaded_or_copied_at_any_moments_answers_bit_for_bit(kind, data):
    rows, make = data.draw(cases(kind, max_rows=140))
    decays = data.draw(st.sampled_from([{}, {"forgetting_factor": 0.97}, {"half_life": 20.0}]))
    make = functools.partial(make, **decays)
    model, twin, held = make(), make(), []
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    # Single rows come many times on end: solutions follow them then.
    moves = np.repeat(random.choice([each for each in STEPS if each != "ridge"], 8), 9)
    for what in moves[random.random(len(moves)) < np.where(moves == "learn one", 0.9, 0.1)]:
        if random.random() < 0.3:
            twin = WAYS[random.integers(len(WAYS))](twin)
        if random.random() < 0.1:
            WAYS[random.integers(len(WAYS))](model)  # leaves no trace
        start, stop = sorted(random.integers(0, len(rows), 2))
        if what == "unlearn":
            # A file is refused if other rows, or decayed ones at full weight, were taken out.
            if decays or not held:
                continue
            start = held.pop(random.integers(len(held)))
        elif what != "answer":
            held += [start] if what == "learn one" else range(start, stop + 1)
        one, some = rows.take([start]), rows.take(range(start, stop + 1))
        assert step(model, make, what, one, some) == step(twin, make, what, one, some)
    assert np.array_equal(model.output_weights, twin.output_weights)
    assert saved(model) == saved(twin)


@examples(25)
@given(data=st.data())
def test_sums_of_few_rows_are_saved_as_a_factor_and_loaded_bit_for_bit(data):
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    n_features, n_rows = data.draw(st.integers(128, 300)), data.draw(st.integers(1, 40))
    X = random.normal(size=(n_rows, n_features)) * 10.0 ** random.integers(-9, 9, n_features)
    X += data.draw(st.sampled_from([0.0, 1e6])) * (random.random(n_features) < 0.5)
    if data.draw(st.booleans()):
        X = np.rint(X * (random.random(n_features) < 0.7)).astype(np.float32)
    model = LeastSquaresClassifier(
        ridge=data.draw(st.sampled_from(["auto", 1.0, 0.0, KFold(3)])),
        fit_intercept=data.draw(st.booleans()),
        forgetting_factor=data.draw(st.sampled_from([1.0, 0.9])),
    )
    cut = data.draw(st.integers(0, n_rows))
    y = random.integers(0, 3, n_rows).tolist()
    for x, label in zip(X[:cut].tolist(), y, strict=False):
        model.learn_one(dict(enumerate(x)), label, w=data.draw(st.sampled_from([1.0, 0.3])))
    model.learn_many(X[cut:], y[cut:])
    loaded = onlinels.loads(onlinels.dumps(model))
    assert saved(loaded) == saved(model)
    for each in (loaded, model):
        each.learn_many(X[:2], y[:2])
    assert saved(loaded) == saved(model)
    sums, same = (each._state.subsets.whole.products for each in (loaded, model))
    assert sums.gram.upper().tobytes() == same.gram.upper().tobytes()


def test_a_file_of_few_rows_is_smaller_than_their_sums():
    X = np.random.default_rng(0).random((60, 600)).astype(np.float32)
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many(X, [0, 1] * 30)
    assert len(onlinels.dumps(model)) < 0.3 * 8 * 600**2


def test_sums_that_are_too_large_to_be_computed_are_saved_as_they_are(monkeypatch):
    random = np.random.default_rng(0)
    X = random.random((30, 200))
    models = [LeastSquaresRegressor(ridge=1.0) for _ in range(4)]
    for model in models:
        model.learn_many(X, random.random(30))
    small = onlinels.dumps(models)
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 2 * 16 * 200**2)
    content = onlinels.dumps(models)
    assert len(content) > 2 * len(small)
    assert [saved(each) for each in onlinels.loads(content)] == [saved(each) for each in models]
    with pytest.raises(ValueError, match="more numbers than may be computed"):
        onlinels.loads(small)


def test_sums_that_removals_have_left_without_squares_are_saved_as_they_are():
    matrix = np.zeros((140, 140))
    matrix[0, 1:9] = 1e-9
    matrix[5:9, 5:9] = 1.0
    packed = PackedSymmetric.of(matrix)
    assert LowRank.of(packed, 3) is packed


def test_a_factor_whose_digits_do_not_fit_is_refused():
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 140))
    small = LowRank.of(PackedSymmetric.of(rows.T @ rows), 3)
    fits = "does not fit them"
    bad = (
        ({"differences": small.differences[:-1]}, "as many as their entries"),
        ({"differences": small.differences + np.uint8(1)}, "cannot be read"),
        ({"differences": "text"}, fits),
        ({"units": small.units[:-1]}, fits),
        ({"units": np.inf * small.units}, fits),
        ({"factor": small.factor.astype(np.float32)}, fits),
        ({"factor": 9.0 * small.factor}, fits),
        ({"factor": np.zeros((140, 1025))}, fits),
        ({"factor": small.factor[:0], "units": small.units[:0]}, fits),
    )
    for parts, message in bad:
        with pytest.raises(ValueError, match=message):
            small._replace(**parts).matrix()


LABELS = ["text", "", "\ud800", "é\0🐍", 0, -(10**40), True, 2.5, -0.0, float("inf")]
LABELS += [("a", (1, None), ()), (True, 1.0)]


@pytest.mark.parametrize("label", LABELS, ids=repr)
@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_labels_and_names_keep_their_types(tmp_path, label, make):
    def typed(value):
        return (type(value), list(map(typed, value)) if type(value) is tuple else repr(value))

    model = make()
    model.learn_one({label: 1.0} if type(label) in (str, int) else {"x": 1.0}, label)
    loaded = through_a_file(model, tmp_path)
    assert typed(loaded.classes) == typed(model.classes)
    assert typed(loaded.feature_names) == typed(model.feature_names)
    assert typed(loaded.predict_one({"x": 1.0})) == typed(label)


@pytest.mark.parametrize("label", [date(2020, 1, 1), b"bytes", frozenset("ab"), 1j, ("a", b"c")])
def test_other_labels_are_refused_and_no_file_is_written(tmp_path, label):
    model = LeastSquaresClassifier()
    model.learn_one({"x": 1.0}, label)
    message = r"outputs holds .* of type \w+\. .* of type str, int"
    assert_not_saved(model, tmp_path / "model.npz", message, TypeError)


OTHERS = [
    *(np.array(["text"]), np.array([1j]), defaultdict(int), bytes, range(5), {b"bytes"}),
    *({"detector": drift.ADWIN, "names": {1: ...}}, {date(2020, 1, 1): 1}),
]


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_other_values_are_refused_and_no_file_is_written(tmp_path, value):
    with pytest.raises(TypeError, match="saved"):
        onlinels.save({"value": value}, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_saved_says_so(tmp_path):
    path = tmp_path / "model.npz"
    with pytest.raises(TypeError, match="model is of type object"):
        onlinels.save(object(), path)
    windowed = preprocessing.StandardScaler(window_size=3)
    windowed.learn_one({"x": 1.0})
    with_function = compose.FuncTransformer(len) | LeastSquaresClassifier()
    message = r"^Pipeline\.steps\.0\.1 holds .* of type FuncTransformer\. It cannot be saved"
    with pytest.raises(TypeError, match=message):
        onlinels.save(with_function, path)
    for odd, reason in (
        (feature_extraction.RBFSampler(), "RBFSampler"),
        (preprocessing.LDA(), "LDA"),
        (compose.SelectType(date), r"datetime\.date, expected one of .*numbers\.Number"),
        (feature_extraction.BagOfWords(tokenizer_pattern="a"), "tokenizer_pattern that is not"),
        (feature_extraction.BagOfWords(ngram_range=(1, 11)), "not from 0 to 10"),
        (feature_extraction.PolynomialExtender(degree=11), "degree=11, which is not from 0 to 10"),
        (windowed, "Rolling"),
    ):
        with pytest.raises(TypeError, match=f"{reason}.*cannot be saved.*or use pickle"):
            onlinels.save(odd | LeastSquaresClassifier(), path)
    for wrong in (None, 3, io.BytesIO()):
        for call in (LeastSquaresClassifier().save, onlinels.load):
            with pytest.raises(TypeError, match=r"path=.* must be a path"):
                call(wrong)
        with pytest.raises(TypeError, match=r"content is of type .* expected bytes\. Pass"):
            onlinels.loads(wrong)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*save a model there first"):
        onlinels.load(path)
    with pytest.raises(ValueError, match="is a folder, a device or a pipe, expected a file"):
        onlinels.load(tmp_path)


def test_several_models_and_plain_values_share_a_file(tmp_path):
    model = LeastSquaresClassifier()
    model.learn_one({"x": 1.0}, "a")
    together = {"model": model, "again": [model], "offset": 12, "name": ("a", None)}
    loaded = through_a_file(together, tmp_path)
    assert loaded["again"] == [loaded["model"]]
    assert (loaded["offset"], loaded["name"]) == (12, ("a", None))
    for kind in (bytes, bytearray, memoryview):
        assert saved(onlinels.loads(kind(saved(loaded)))) == saved(together)
    together["again"].append(together)
    with pytest.raises(TypeError, match="model holds itself"):
        onlinels.dumps(together)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_numpy_can_open_the_file_which_holds_no_rows(tmp_path, accumulator):
    model, path = LeastSquaresClassifier(1.0, accumulator), tmp_path / "model.npz"
    X = np.random.default_rng(0).normal(size=(30, 400))
    model.learn_many(X[:20], [0, 1] * 10)
    for row in X[20:]:
        model.predict_one(dict(enumerate(row)))
        model.learn_one(dict(enumerate(row)), 0)
    weights = model.output_weights
    model.save(path)
    with np.load(path, allow_pickle=False) as file:
        (block,) = (file[name] for name in file.files if name != "model.json")
    arrays = arrays_of(members_of(path.read_bytes()))
    assert block.nbytes == sum(each.nbytes + -each.nbytes % 8 for each in arrays)
    assert any(np.array_equal(each, weights) for each in arrays)
    rows = X[-1], X[-1] - X.mean(axis=0)
    vectors = [each for each in arrays if each.shape == (400,)]
    assert not any(np.allclose(each, row) for each in vectors for row in rows)


@pytest.mark.parametrize(("number", "version"), [(1, "0.1.0"), (2, "0.2.0"), (6, "9.1")])
def test_other_formats_are_refused_by_their_version(tmp_path, number, version):
    path = tmp_path / "model.npz"
    LeastSquaresClassifier().save(path)
    rewritten(path, lambda said: said | {"format": number, "onlinels": version})
    expected = f"is of format {number}, expected 5. Load it with onlinels {version}, the version"
    with pytest.raises(ValueError, match=expected):
        onlinels.load(path)


# -- files and pickles of the formats before -------------------------------------------------------

FORMER = version_3.unpacked()
FORMER_MODELS = {
    "forgetting": (
        lambda: LeastSquaresClassifier(forgetting_factor=0.97, accumulator="recursive"),
        version_3.LABELS,
    ),
    "folds": (lambda: LeastSquaresRegressor(KFold(2)), version_3.NUMBERS),
    "outlier": (LeastSquaresRegressor, version_3.NUMBERS),
    "several": (
        LeastSquaresMultiTargetRegressor,
        [{"u": y, "v": -y} for y in version_3.NUMBERS],
    ),
    "earlier": (LeastSquaresClassifier, version_3.LABELS),
}


def former_models():
    """Yield the loaded models that were written in format 3, with their names."""
    yield from onlinels.loads(FORMER["models"]).items()
    yield from pickle.loads(FORMER["pickles"]).items()
    yield "earlier", onlinels.loads(FORMER["earlier_model"])
    yield "earlier", pickle.loads(FORMER["earlier_pickle"])


def numbers_of(model, rows):
    answers = getattr(model, "predict_proba_many", model.predict_many)(rows)
    rows = [list(row.values()) if isinstance(row, dict) else row for row in answers]
    return np.array(rows, dtype=float)


@pytest.mark.filterwarnings("ignore:A few rows dwarf")
@pytest.mark.parametrize("place", range(7))
def test_files_and_pickles_of_format_3(place):
    """They answer as they did, and go on like models of this version."""
    name, model = [*former_models()][place]
    answers = FORMER["answers"]
    if name == "network":
        images = np.array(answers["images"])
        np.testing.assert_allclose(numbers_of(model, images), answers[name], atol=1e-9)
        model.learn_many(images, ["top", "bottom", "new", "top", "new"])
        assert model.classes == ("top", "bottom", "new")
        return
    rows = [dict(zip("ab", row, strict=True)) for row in answers["rows"]]
    np.testing.assert_allclose(numbers_of(model, rows), answers[name], atol=1e-9)
    make, targets = FORMER_MODELS[name]
    new = make()
    for row, (x, y) in enumerate(zip(version_3.ROWS, targets, strict=True)):
        for each in (new, model)[: 1 + (row >= 30)]:
            each.predict_one(x)
            each.learn_one(x, y)
        if row == 29 and name == "outlier":
            new.learn_one({"a": 1e6, "b": 1.0}, 5.0)
    if name == "outlier":
        for each in (new, model):
            each.unlearn_one({"a": 1e6, "b": 1.0}, 5.0)
    assert model.count == new.count
    np.testing.assert_allclose(numbers_of(model, rows), numbers_of(new, rows), atol=1e-9)
    assert model.difference(new) < 1e-8


@pytest.mark.parametrize(
    "make",
    [
        LeastSquaresClassifier,
        lambda: LeastSquaresClassifier(1.0, accumulator="recursive"),
        lambda: LeastSquaresClassifier(KFold(3)),
        lambda: CalibratedClassifier(LeastSquaresClassifier()),
        StreamClassifier,
    ],
)
def test_models_described_in_format_3(make, tmp_path):
    rows, labels, path = version_3.ROWS, version_3.LABELS, tmp_path / "model.npz"
    model = make()
    for x, label in zip(rows[:30], labels, strict=False):
        model.predict_one(x)
        model.learn_one(x, label)
    model.save(path)
    version_4.in_version_4(path)
    rewritten(path, lambda said: version_3.as_version_3(said) | {"format": 3})
    loaded = onlinels.load(path)
    for x, label in zip(rows[30:], labels[30:], strict=True):
        assert loaded.predict_proba_one(x) == pytest.approx(model.predict_proba_one(x), abs=1e-9)
        model.learn_one(x, label)
        loaded.learn_one(x, label)


FORMAT_4 = version_4.unpacked()
MODELS_OF_FORMAT_4 = {
    "default": (LeastSquaresClassifier, version_3.LABELS),
    "forgetting": FORMER_MODELS["forgetting"],
    "half-life": (lambda: LeastSquaresRegressor(half_life=20.0), version_3.NUMBERS),
    "dates": (lambda: LeastSquaresRegressor(1.0, half_life=timedelta(days=1)), version_3.NUMBERS),
    "folds": FORMER_MODELS["folds"],
    "several": (lambda: LeastSquaresMultiTargetRegressor(1.0), FORMER_MODELS["several"][1]),
    "orthogonal": (
        lambda: LeastSquaresRegressor(accumulator="orthogonal", scaling="standard"),
        version_3.NUMBERS,
    ),
    "priors": (lambda: LeastSquaresClassifier(priors="equal"), version_3.LABELS),
    "removed": (lambda: LeastSquaresRegressor(1.0), version_3.NUMBERS),
    "outlier": FORMER_MODELS["outlier"],
    "calibrated": (
        lambda: CalibratedClassifier(LeastSquaresClassifier(0.5)),
        version_3.LABELS,
    ),
}


def teach_rows(name, model, start, stop):
    for row in range(start, stop):
        x, y = version_3.ROWS[row], MODELS_OF_FORMAT_4[name][1][row]
        dates = {"t": datetime(2024, 1, 1) + timedelta(hours=row)} if name == "dates" else {}
        model.predict_one(x)
        model.learn_one(x, y, **dates)


@pytest.mark.filterwarnings("ignore:A few rows dwarf")
@pytest.mark.parametrize("read", ["models", "pickles"])
@pytest.mark.parametrize("name", MODELS_OF_FORMAT_4)
def test_files_and_pickles_of_format_4(name, read):
    """They answer as they did, and go on like models of this version."""
    model = {"models": onlinels.loads, "pickles": pickle.loads}[read](FORMAT_4[read])[name]
    answers = FORMAT_4["answers"]
    rows = [dict(zip("ab", row, strict=True)) for row in answers["rows"]]
    np.testing.assert_allclose(numbers_of(model, rows), answers[name], atol=1e-9)
    new = MODELS_OF_FORMAT_4[name][0]()
    teach_rows(name, new, 0, 30)
    if name == "outlier":
        new.learn_one({"a": 1e6, "b": 1.0}, 5.0)
    for each in (new, model):
        teach_rows(name, each, 30, 60)
    if name == "outlier":
        for each in (new, model):
            each.unlearn_one({"a": 1e6, "b": 1.0}, 5.0)
    np.testing.assert_allclose(numbers_of(model, rows), numbers_of(new, rows), atol=1e-8)
    again = pickle.loads(pickle.dumps(model))
    assert saved(again) == saved(model) == saved(onlinels.loads(saved(model)))
