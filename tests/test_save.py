"""A model that is saved, pickled or copied is restored to the bit, and owns its memory.

A file is whole or as it was, and private: after kills, and on full disks, too.
"""

import copy
import errno
import io
import os
import pickle
import re
import signal
import stat
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import joblib
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
from onlinels.saving import description, files
from onlinels.saving.description import KINDS_BY_NAME, LATE_CLASSES
from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier
from support import savable_models, version_3, version_4
from support.laws import STEPS, saved, step
from support.slow import pairs_in_turn
from support.strategies import cases, examples, kinds
from support.untrusted_files import (
    DESCRIPTION,
    arrays_of,
    genuine,
    members_of,
    rewritten,
    zip_of,
)

# -- restored models -------------------------------------------------------------------------------


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
                memory[:] = b"\xa5" * len(memory)


def through_a_file(model, folder):
    onlinels.save(model, folder / "model.npz")
    assert (folder / "model.npz").read_bytes() == onlinels.dumps(model)
    return onlinels.load(folder / "model.npz"), Memory()


def through_bytes(kind, model, folder):
    content = kind(onlinels.dumps(model))
    return onlinels.loads(content), Memory(content)


def in_buffers(of_array, model, folder):
    """Restore a model from the buffers of a pickle of protocol 5."""
    found = []
    content = pickle.dumps(model, protocol=5, buffer_callback=found.append)
    buffers = [of_array(each.raw()) for each in found]
    return pickle.loads(content, buffers=buffers), Memory(*buffers)


def in_its_own_memory(model, folder):
    """Restore a model that would share the memory of the first, which then stays as it is."""
    return in_buffers(lambda memory: memory, model, folder)[0], Memory()


def at_an_odd_address(memory):
    """Return shared memory in which numbers are not aligned."""
    return memoryview(bytearray(b"\xa5" + memory.tobytes()))[1:]


def mapped(mode, model, folder):
    """Restore a model from a file whose arrays are mapped into memory."""
    path = folder / f"model {mode}"
    joblib.dump(model, path)
    return joblib.load(path, mmap_mode=mode), Memory(np.memmap(path, np.uint8, "r+"))


def copied(model, folder):
    # A shallow copy of river's pipelines shares their steps.
    return getattr(model, "__copy__", partial(copy.deepcopy, model))(), Memory()


FILES = {
    "file": through_a_file,
    "bytes": partial(through_bytes, bytes),
    "shared bytes": partial(through_bytes, bytearray),
    "memory of bytes": partial(through_bytes, lambda content: memoryview(bytearray(content))),
}
COPIES = {
    "read-only buffers": partial(in_buffers, bytes),
    "shared buffers": partial(in_buffers, bytearray),
    "odd addresses": partial(in_buffers, at_an_odd_address),
    "own memory": in_its_own_memory,
    **{f"mapped {mode}": partial(mapped, mode) for mode in ("r", "r+", "c")},
    "pickle": lambda model, folder: (pickle.loads(pickle.dumps(model)), Memory()),
    "deep copy": lambda model, folder: (copy.deepcopy(model), Memory()),
    "copy": copied,
}
WAYS = FILES | COPIES


def learn_table(estimator, random):
    X = random.normal(size=(20, 5))
    y = X[:, 0] > 0
    return estimator.partial_fit(X, y).partial_fit(X[:1], y[:1]).coef_


ESTIMATORS = {
    "estimator": (lambda random: IncrementalRidge(), learn_table),
    "recursive estimator": (
        lambda random: IncrementalRidge(alpha=1.0, solver="recursive"),
        learn_table,
    ),
    "classifying estimator": (lambda random: IncrementalRidgeClassifier(), learn_table),
}
MODELS = savable_models.MODELS | ESTIMATORS


def state(model):
    """Return all that a model's file says, and its arrays, of which equal ones may be one."""
    content = members_of(saved(getattr(model, "to_river", lambda: model)()))
    said = re.sub(rb'{"(array|same)":[^}]*}', b"an array", content[DESCRIPTION])
    return said, {each.tobytes() for each in arrays_of(content)}


def assert_restored_as_it_was(restore, model, learn):
    (found, memory), (other, _) = restore(), restore()
    before, content = state(model), memory.content()
    assert type(found) is type(model)
    assert state(found) == before
    learn(found, np.random.default_rng(7))
    assert memory.content() == content
    assert state(model) == before
    memory.spoil()
    learn(model, np.random.default_rng(7))
    assert state(found) == state(model)
    for each in (found, model):
        learn(each, np.random.default_rng(8))
    assert state(found) == state(model)
    assert state(other) == before


@pytest.mark.parametrize(
    ("name", "way"),
    [*pairs_in_turn(savable_models.MODELS, WAYS), *pairs_in_turn(ESTIMATORS, COPIES)],
)
def test_a_restored_model_goes_on_as_the_first_in_memory_of_its_own(tmp_path, name, way):
    (make, learn), random = MODELS[name], np.random.default_rng(0)
    model = make(random)
    learn(model, random)
    assert_restored_as_it_was(lambda: WAYS[way](model, tmp_path), model, learn)


def test_every_class_that_can_be_saved_is_saved_above():
    named = set()
    for name in savable_models.MODELS:
        named |= set(re.findall('"object":"([^"]*)"', genuine(name)[DESCRIPTION].decode()))
    # Only files of format 3 hold this one; see below.
    assert {*KINDS_BY_NAME, *LATE_CLASSES} - {"FoldedStatistics"} == named


@pytest.mark.filterwarnings("ignore:X has more columns")
@kinds
@examples(12)
@given(st.data())
def test_a_model_that_is_restored_at_any_moments_answers_bit_for_bit(tmp_path_factory, kind, data):
    rows, make = data.draw(cases(kind, max_rows=140))
    decays = data.draw(st.sampled_from([{}, {"forgetting_factor": 0.97}, {"half_life": 20.0}]))
    make = partial(make, **decays)
    model, twin, held, folder = make(), make(), [], tmp_path_factory.mktemp("files")
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    # Single rows come many times on end: solutions follow them then.
    moves = np.repeat(random.choice([each for each in STEPS if each != "ridge"], 8), 9)
    for what in moves[random.random(len(moves)) < np.where(moves == "learn one", 0.9, 0.1)]:
        way = [*WAYS.values()][random.integers(len(WAYS))]
        if random.random() < 0.3:
            twin, memory = way(twin, folder)
            memory.spoil()
        if random.random() < 0.1:
            way(model, folder)  # leaves no trace
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
    assert state(model) == state(twin)


# -- files of few rows, and what a file may hold ---------------------------------------------------


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
    for _ in range(2):
        assert saved(loaded) == saved(model)
        for each in (loaded, model):
            each.learn_many(X[:2], y[:2])
    assert np.array_equal(loaded.output_weights, model.output_weights)


def test_a_file_of_few_rows_is_smaller_than_their_sums_if_they_may_be_computed(monkeypatch):
    X = np.random.default_rng(0).random((30, 200)).astype(np.float32)
    models = [LeastSquaresRegressor(ridge=1.0) for _ in range(4)]
    for model in models:
        model.learn_many(X, X[:, 0])
    small = onlinels.dumps(models)
    assert len(small) < 4 * 0.5 * 8 * 200**2
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 2 * 16 * 200**2)
    content = onlinels.dumps(models)
    assert len(content) > 2 * len(small)
    assert [saved(each) for each in onlinels.loads(content)] == [saved(each) for each in models]
    with pytest.raises(ValueError, match="more numbers than may be computed"):
        onlinels.loads(small)


def test_files_of_few_rows_of_the_version_before_are_loaded():
    """Only sums were saved as a factor."""
    members = genuine("few rows")
    before, after = members[DESCRIPTION].split(b',"without_rows":{"array":"f8,0"}')
    # What comes after has other numbers, with one array less.
    said = before + after.replace(b'"same":24', b'"same":23')
    loaded = onlinels.loads(zip_of(members | {DESCRIPTION: said}))
    assert members_of(saved(loaded)) == members


FEW_ROWS = np.random.default_rng(0).normal(size=(31, 200)).tolist()


def teach_singly(model, rows):
    for row in rows:
        model.predict_one(dict(enumerate(row)))
        model.learn_one(dict(enumerate(row)), row[0] > 0)


FOLLOWED = {
    "plain": LeastSquaresClassifier,
    "calibrated": lambda ridge: CalibratedClassifier(LeastSquaresClassifier(ridge)),
    "forgetting": partial(LeastSquaresClassifier, accumulator="recursive", forgetting_factor=0.97),
    "half-life": partial(LeastSquaresClassifier, accumulator="recursive", half_life=20.0),
}


@pytest.mark.parametrize("make", FOLLOWED.values(), ids=FOLLOWED)
# An inverse whose penalties have changed has more digits of its own.
@pytest.mark.parametrize(("ridge", "most"), [(1.0, 0.6), ("auto", 0.75)])
def test_the_inverse_that_follows_few_single_rows_is_saved_as_a_factor(make, ridge, most):
    model = make(ridge)
    teach_singly(model, FEW_ROWS[:30])
    before, content = pickle.dumps(model), onlinels.dumps(model)
    assert pickle.dumps(model) == before
    assert len(content) < most * 8 * 200**2
    loaded = onlinels.loads(content)
    for _ in range(2):
        assert onlinels.dumps(loaded) == onlinels.dumps(model)
        for each in (loaded, model):
            teach_singly(each, FEW_ROWS[30:])
        answers = [each.predict_proba_one(dict(enumerate(FEW_ROWS[0]))) for each in (loaded, model)]
        assert answers[0] == answers[1]


LABELS = ["text", "", "\ud800", "é\0🐍", 0, -(10**40), True, 2.5, -0.0, float("inf")]
LABELS += [("a", (1, None), ()), (True, 1.0)]


@pytest.mark.parametrize("label", LABELS, ids=repr)
@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_labels_and_names_keep_their_types(label, make):
    def typed(value):
        return (type(value), list(map(typed, value)) if type(value) is tuple else repr(value))

    model = make()
    model.learn_one({label: 1.0} if type(label) in (str, int) else {"x": 1.0}, label)
    loaded = onlinels.loads(onlinels.dumps(model))
    assert typed(loaded.classes) == typed(model.classes)
    assert typed(loaded.feature_names) == typed(model.feature_names)
    assert typed(loaded.predict_one({"x": 1.0})) == typed(label)


def learnt(label):
    model = LeastSquaresClassifier()
    model.learn_one({"x": 1.0}, label)
    return model


WINDOWED, ITSELF = preprocessing.StandardScaler(window_size=3), {}
WINDOWED.learn_one({"x": 1.0})
ITSELF["itself"] = ITSELF
STEPS_REFUSED = [
    (compose.FuncTransformer(len), r"^Pipeline\.steps\.0\.1 holds .* of type FuncTransformer\. It"),
    (feature_extraction.RBFSampler(), "RBFSampler"),
    (preprocessing.LDA(), "LDA"),
    (compose.SelectType(date), r"datetime\.date, expected one of .*numbers\.Number"),
    (feature_extraction.BagOfWords(tokenizer_pattern="a"), "tokenizer_pattern that is not"),
    (feature_extraction.BagOfWords(ngram_range=(1, 11)), "not from 0 to 10"),
    (feature_extraction.PolynomialExtender(degree=11), "degree=11, which is not from 0 to 10"),
    (WINDOWED, "Rolling"),
]
VALUES = [
    *(np.array(["text"]), np.array([1j]), defaultdict(int), bytes, range(5), {b"bytes"}),
    *({"detector": drift.ADWIN, "names": {1: ...}}, {date(2020, 1, 1): 1}),
]
REFUSED = [
    *(
        (learnt(label), r"outputs holds .* of type \w+\. .* of type str, int")
        for label in (date(2020, 1, 1), b"bytes", frozenset("ab"), 1j, ("a", b"c"))
    ),
    *(({"value": value}, "saved") for value in VALUES),
    *(
        (step | LeastSquaresClassifier(), f"{said}.*cannot be saved.*or use pickle")
        for step, said in STEPS_REFUSED
    ),
    (object(), "model is of type object"),
    (ITSELF, "model holds itself"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_saved_is_refused_and_no_file_is_written(tmp_path, value, message):
    with pytest.raises(TypeError, match=message):
        onlinels.save(value, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


def test_what_is_no_path_or_no_file_is_refused(tmp_path):
    for wrong in (None, 3, io.BytesIO()):
        for call in (LeastSquaresClassifier().save, onlinels.load):
            with pytest.raises(TypeError, match=r"path=.* must be a path"):
                call(wrong)
        with pytest.raises(TypeError, match=r"content is of type .* expected bytes\. Pass"):
            onlinels.loads(wrong)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*save a model there first"):
        onlinels.load(tmp_path / "model.npz")


def test_several_models_and_plain_values_share_a_file(tmp_path):
    model = learnt("a")
    together = {"model": model, "again": [model], "offset": 12, "name": ("a", None)}
    loaded, _ = through_a_file(together, tmp_path)
    assert loaded["again"] == [loaded["model"]]
    assert (loaded["offset"], loaded["name"]) == (12, ("a", None))
    assert saved(loaded) == saved(together)


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
        assert set(file.files) == {"model.json", "arrays"}
        assert file["arrays"].dtype == np.uint8
    arrays = arrays_of(members_of(path.read_bytes()))
    assert any(np.array_equal(each, weights) for each in arrays)
    rows = X[-1], X[-1] - X.mean(axis=0)
    vectors = [each for each in arrays if each.shape == (400,)]
    assert not any(np.allclose(each, row) for each in vectors for row in rows)


# -- files and pickles of the formats before -------------------------------------------------------


@pytest.mark.parametrize(("number", "version"), [(1, "0.1.0"), (2, "0.2.0"), (6, "9.1")])
def test_other_formats_are_refused_by_their_version(tmp_path, number, version):
    path = tmp_path / "model.npz"
    LeastSquaresClassifier().save(path)
    rewritten(path, lambda said: said | {"format": number, "onlinels": version})
    expected = f"is of format {number}, expected 5. Load it with onlinels {version}, the version"
    with pytest.raises(ValueError, match=expected):
        onlinels.load(path)


@dataclass
class Former:
    """A model that was saved after 30 rows: what it is, and how it was taught and goes on."""

    make: Callable[[], Any]
    targets: list[Any]
    named: list[dict[str, Any]] = field(default_factory=lambda: [{}] * 60)
    then: Callable[[Any], Any] = lambda model: None
    at_last: Callable[[Any], Any] = lambda model: None

    def teach(self, model, start, stop):
        for row in range(start, stop):
            model.predict_one(version_3.ROWS[row])
            model.learn_one(version_3.ROWS[row], self.targets[row], **self.named[row])


NUMBERS, CLASSES = version_3.NUMBERS, version_3.LABELS
OUTLIER = {"a": 1e6, "b": 1.0}, 5.0
FORMER = {
    "default": Former(LeastSquaresClassifier, CLASSES),
    "forgetting": Former(
        lambda: LeastSquaresClassifier(forgetting_factor=0.97, accumulator="recursive"), CLASSES
    ),
    "half-life": Former(lambda: LeastSquaresRegressor(half_life=20.0), NUMBERS),
    "dates": Former(
        lambda: LeastSquaresRegressor(1.0, half_life=timedelta(days=1)),
        NUMBERS,
        [{"t": datetime(2024, 1, 1) + timedelta(hours=row)} for row in range(60)],
    ),
    "folds": Former(lambda: LeastSquaresRegressor(KFold(2)), NUMBERS),
    "several": Former(
        lambda: LeastSquaresMultiTargetRegressor(1.0), [{"u": y, "v": -y} for y in NUMBERS]
    ),
    "orthogonal": Former(
        lambda: LeastSquaresRegressor(accumulator="orthogonal", scaling="standard"), NUMBERS
    ),
    "priors": Former(lambda: LeastSquaresClassifier(priors="equal"), CLASSES),
    "removed": Former(lambda: LeastSquaresRegressor(1.0), NUMBERS),
    "outlier": Former(
        LeastSquaresRegressor,
        NUMBERS,
        then=lambda model: model.learn_one(*OUTLIER),
        at_last=lambda model: model.unlearn_one(*OUTLIER),
    ),
    "calibrated": Former(lambda: CalibratedClassifier(LeastSquaresClassifier(0.5)), CLASSES),
    "several, auto": Former(LeastSquaresMultiTargetRegressor, [{"u": y, "v": -y} for y in NUMBERS]),
}
"""The models of both formats, but networks and streams."""

FORMATS = {3: version_3.unpacked(), 4: version_4.unpacked()}
READ = dict.fromkeys(("models", "earlier_model"), onlinels.loads)
READ |= dict.fromkeys(("pickles", "earlier_pickle"), pickle.loads)
HELD = [
    *((3, "models", name, name) for name in ("forgetting", "folds")),
    (3, "models", "several", "several, auto"),
    *((3, "pickles", name, name) for name in ("folds", "outlier")),
    *((3, each, "earlier", "default") for each in ("earlier_model", "earlier_pickle")),
    *((4, each, name, name) for each in ("models", "pickles") for name in [*FORMER][:-1]),
]


def numbers_of(model, rows):
    answers = getattr(model, "predict_proba_many", model.predict_many)(rows)
    rows = [list(row.values()) if isinstance(row, dict) else row for row in answers]
    return np.array(rows, dtype=float)


@pytest.mark.filterwarnings("ignore:A few rows dwarf")
@pytest.mark.parametrize(("number", "member", "name", "made"), HELD)
def test_models_of_former_formats_answer_as_they_did_and_go_on(number, member, name, made):
    model, this = READ[member](FORMATS[number][member]), FORMER[made]
    model, answers = model[name] if isinstance(model, dict) else model, FORMATS[number]["answers"]
    rows = [dict(zip("ab", row, strict=True)) for row in answers["rows"]]
    np.testing.assert_allclose(numbers_of(model, rows), answers[name], atol=1e-9)
    new = this.make()
    this.teach(new, 0, 30)
    this.then(new)
    for each in (new, model):
        this.teach(each, 30, 60)
        this.at_last(each)
    np.testing.assert_allclose(numbers_of(model, rows), numbers_of(new, rows), atol=1e-8)
    again = pickle.loads(pickle.dumps(model))
    assert saved(again) == saved(model) == saved(onlinels.loads(saved(model)))


def test_networks_of_format_3_answer_as_they_did_and_go_on():
    model, answers = onlinels.loads(FORMATS[3]["models"])["network"], FORMATS[3]["answers"]
    images = np.array(answers["images"])
    np.testing.assert_allclose(numbers_of(model, images), answers["network"], atol=1e-9)
    model.learn_many(images, ["top", "bottom", "new", "top", "new"])
    assert model.classes == ("top", "bottom", "new")


# -- files that are replaced, and permissions ------------------------------------------------------

MODES = pytest.mark.skipif(os.name != "posix", reason="files have modes as on POSIX")
OLD, MODEL = b"old" * 9, LeastSquaresClassifier()


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def plain_user():
    """Be a user whom permissions bind, and return a folder of theirs."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(OLD)
    return path


@MODES
@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_new_files_have_the_mode_of_new_files(tmp_path, umask):
    before = os.umask(umask)
    try:
        MODEL.save(tmp_path / "model.npz")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "model.npz") == 0o666 & ~umask


@MODES
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666, 0o400])
def test_nobody_can_read_the_file_that_takes_the_place_of_another(path, mode, monkeypatch):
    path.chmod(mode)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda file: modes.append(os.fstat(file).st_mode & 0o777))
    with open(path, "rb") as seen_before:
        MODEL.save(path)
        assert seen_before.read() == OLD
    assert modes[0] == 0o600
    assert mode_of(path) == mode
    assert onlinels.load(path).count == 0


@MODES
def test_a_file_that_is_read_only_may_be_saved_to_by_several_but_no_such_folder():
    with plain_user() as folder:
        path = folder / "model.npz"
        path.write_bytes(OLD)
        path.chmod(0o444)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: MODEL.save(path), range(30)))
        assert mode_of(path) == 0o444
        folder.chmod(0o500)
        with pytest.raises(PermissionError, match="pass a folder that exists, can be written"):
            MODEL.save(folder / "other.npz")
        folder.chmod(0o700)
        assert os.listdir(folder) == ["model.npz"]


@pytest.mark.parametrize("name", ["m", "m" * 255, "é" * 127])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    MODEL.save(tmp_path / name)
    assert onlinels.load(tmp_path / name).count == 0
    assert os.listdir(tmp_path) == [name]


def test_folders_that_are_not_there_are_refused_and_links_stay(tmp_path):
    held, link = tmp_path / "there" / "model.npz", tmp_path / "link.npz"
    with pytest.raises(FileNotFoundError, match="pass a folder that exists"):
        MODEL.save(held)
    with pytest.raises(OSError, match="at the path has changed"):
        MODEL.save(tmp_path)
    assert os.listdir(tmp_path) == []
    held.parent.mkdir()
    link.symlink_to(held)
    MODEL.save(link)
    held.chmod(0o640)
    MODEL.save(str(link))
    assert link.is_symlink()
    assert mode_of(held) == 0o640
    assert os.listdir(held.parent) == ["model.npz"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are those of POSIX")
def test_what_is_no_file_is_neither_replaced_nor_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="folder, a device or a pipe"):
        MODEL.save(path)
    assert path.is_fifo()
    for odd in (path, tmp_path):
        with pytest.raises(ValueError, match="a device or a pipe, expected a file"):
            onlinels.load(odd)


# -- saves that fail or are killed -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "raised", "message"),
    [
        (zipfile.ZipInfo, "FileHeader", KeyboardInterrupt(), None),
        (os, "fsync", OSError(errno.ENOSPC, "No space left on device"), "that .* has space"),
        (os, "replace", PermissionError(errno.EACCES, "Access is denied"), "path has changed"),
    ],
)
def test_what_fails_leaves_the_old_file(path, monkeypatch, owner, name, raised, message):
    def failing(*_):
        raise raised

    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(type(raised), match=message):
        MODEL.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]
    MODEL.save(path)
    assert onlinels.load(path).count == 0


def save_and_be_killed(path, is_time):
    """Let a process save and be killed at the line of saving when it is time; tell if it was."""
    process = os.fork()
    if process:
        return os.WIFSIGNALED(os.waitpid(process, 0)[1])

    def look(frame, event, _):
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line" and is_time():
            os.kill(os.getpid(), signal.SIGKILL)
        return look

    try:
        sys.settrace(look)
        MODEL.save(path)
    finally:
        os._exit(0)


def hidden_in(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")]


@MODES
def test_a_kill_at_any_line_leaves_the_old_or_the_new_file(path):
    new, found = onlinels.dumps(MODEL), []
    for at in count(0, 7):
        path.write_bytes(OLD)
        lines = count()
        if not save_and_be_killed(path, lambda at=at, lines=lines: next(lines) == at):
            break
        found.append(path.read_bytes())
    assert found == sorted(found, key=[OLD, new].index)
    assert set(found) == {OLD, new}
    assert all(name.endswith(".saving") for name in hidden_in(path.parent))
    assert hidden_in(path.parent)


@MODES
@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_what_kills_leave_is_removed_when_it_is_old_by_saves_to_the_same_path(mode):
    with plain_user() as folder:
        path, other = (folder / ("model" * 10 + end) for end in "ab")
        path.write_bytes(OLD)
        path.chmod(mode)
        for n_hidden, each in enumerate((path, other), 1):
            save_and_be_killed(each, lambda n=n_hidden: len(hidden_in(folder)) == n)
        assert path.read_bytes() == OLD
        MODEL.save(path)
        assert mode_of(path) == mode
        assert len(hidden_in(folder)) == 2
        for name in hidden_in(folder):
            times = (os.lstat(folder / name).st_mtime - files.LEFT_OVER_SECONDS - 1.0,) * 2
            os.utime(folder / name, times)
        # A running save goes on.
        with files.written_aside(path) as file:
            MODEL.save(path)
            file.write(b"last")
        assert path.read_bytes() == b"last"
        assert len(hidden_in(folder)) == 1
        MODEL.save(other)
        assert sorted(os.listdir(folder)) == [path.name, other.name]
