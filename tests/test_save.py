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
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from itertools import count, cycle
from pathlib import Path
from zoneinfo import ZoneInfo

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
from support.laws import STEPS, fitted, saved, step
from support.processes import forked
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
    "recursive estimator": (lambda random: IncrementalRidge(1.0, solver="recursive"), learn_table),
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


def teach_singly(model, X, y, asks=True):
    """Learn rows one by one, each perhaps after a question; return the answers."""
    answers = []
    for x, label in zip(X.tolist(), y, strict=False):
        answers += [model.predict_proba_one(dict(enumerate(x)))] if asks else []
        model.learn_one(dict(enumerate(x)), label)
    return answers


@examples(50)
@given(data=st.data())
def test_models_of_few_rows_are_loaded_and_go_on_bit_for_bit(data):
    """Their sums, and inverses that follow single rows, are saved as factors."""
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    n_features, n_rows = data.draw(st.integers(128, 300)), data.draw(st.integers(1, 40))
    cut, asks = data.draw(st.integers(0, n_rows)), data.draw(st.booleans())
    X = random.normal(size=(n_rows, n_features))
    if not asks:
        X *= 10.0 ** random.integers(-9, 9, n_features)
        X += data.draw(st.sampled_from([0.0, 1e6])) * (random.random(n_features) < 0.5)
    if data.draw(st.booleans()):
        X = np.rint(X * (random.random(n_features) < 0.7)).astype(np.float32)
    model = LeastSquaresClassifier(
        ridge=data.draw(st.sampled_from(["auto", 1.0, 0.0, KFold(3)])),
        accumulator=data.draw(st.sampled_from(["gram", "recursive"])),
        fit_intercept=data.draw(st.booleans()),
        **data.draw(st.sampled_from([{}, {"forgetting_factor": 0.9}, {"half_life": 20.0}])),
    )
    model = data.draw(st.sampled_from([CalibratedClassifier, lambda model: model]))(model)
    y, w = random.integers(0, 3, n_rows), random.choice([1.0, 0.3], n_rows)
    model.learn_many(X[cut:], y[cut:], w[cut:])
    for singly in (slice(0, cut), slice(0, 1)):
        teach_singly(model, X[singly], y[singly], asks)
        before, loaded = pickle.dumps(model), onlinels.loads(onlinels.dumps(model))
        assert pickle.dumps(model) == before
        assert saved(loaded) == saved(model)
        assert teach_singly(loaded, X[:2], y, asks) == teach_singly(model, X[:2], y, asks)
        assert saved(loaded) == saved(model)


FEW_ROWS = np.random.default_rng(0).normal(size=(30, 200))


def test_a_file_of_few_rows_is_smaller_than_their_sums_if_they_may_be_computed(monkeypatch):
    X = FEW_ROWS.astype(np.float32)
    models = [fitted(LeastSquaresRegressor(ridge=1.0), X, X[:, 0]) for _ in range(4)]
    small = onlinels.dumps(models)
    assert len(small) < 4 * 0.5 * 8 * 200**2
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 2 * 16 * 200**2)
    content = onlinels.dumps(models)
    assert len(content) > 2 * len(small)
    assert [saved(each) for each in onlinels.loads(content)] == [saved(each) for each in models]
    with pytest.raises(ValueError, match="more numbers than may be computed"):
        onlinels.loads(small)


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (LeastSquaresClassifier(1.0), 0.6),
        (LeastSquaresClassifier(1.0, "recursive", half_life=20.0), 0.6),
        # An inverse whose penalties have changed has more digits of its own.
        (CalibratedClassifier(LeastSquaresClassifier(forgetting_factor=0.97)), 0.75),
    ],
    ids=str,
)
def test_the_inverse_that_follows_few_single_rows_is_saved_as_a_factor(model, most):
    model = copy.deepcopy(model)
    teach_singly(model, FEW_ROWS, FEW_ROWS[:, 0] > 0)
    assert len(onlinels.dumps(model)) < most * 8 * 200**2


def test_files_of_few_rows_of_the_version_before_are_loaded():
    """Only sums were saved as a factor."""
    members = genuine("few rows")
    before, after = members[DESCRIPTION].split(b',"without_rows":{"array":"f8,0"}')
    # What comes after has other numbers, with one array less.
    said = before + after.replace(b'"same":24', b'"same":23')
    loaded = onlinels.loads(zip_of(members | {DESCRIPTION: said}))
    assert members_of(saved(loaded)) == members


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


NOON = datetime(2024, 10, 26, 12)
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
    (preprocessing.FeatureHasher(n_features=0), "n_features=0, which is not a number above 0"),
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
    *(
        ({"t": moment}, "expected UTC, a fixed offset or no time zone")
        for moment in (NOON.replace(tzinfo=ZoneInfo("Europe/Berlin")), NOON.replace(fold=1))
    ),
    (object(), "model is of type object"),
    (ITSELF, "model holds itself"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_saved_is_refused_and_no_file_is_written(tmp_path, value, message):
    with pytest.raises(TypeError, match=message):
        onlinels.save(value, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


def test_parameters_of_river_may_be_numbers_of_numpy():
    model = preprocessing.FeatureHasher(n_features=np.int64(8), seed=1) | learnt("a")
    loaded = onlinels.loads(onlinels.dumps(model))
    assert loaded["FeatureHasher"].transform_one({"x": 1.0}) == model[0].transform_one({"x": 1.0})


def test_several_models_and_plain_values_share_a_file(tmp_path):
    model, modulus = learnt("a"), sys.hash_info.modulus
    plain = {
        "name": ("a", None),
        "moments": [NOON, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=timezone(timedelta(0, 9)))],
        "names of one hash": {number * modulus: 1 for number in range(8, 60)},
    }
    together = {"model": model, "again": [model], "plain": plain}
    loaded, _ = through_a_file(together, tmp_path)
    assert loaded["again"] == [loaded["model"]]
    assert repr(loaded["plain"]) == repr(plain)
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


NUMBERS, CLASSES = version_3.NUMBERS, version_3.LABELS
PAIRS = [{"u": y, "v": -y} for y in NUMBERS]
FORMER = {
    "default": (LeastSquaresClassifier(), CLASSES),
    "forgetting": (LeastSquaresClassifier("auto", "recursive", forgetting_factor=0.97), CLASSES),
    "half-life": (LeastSquaresRegressor(half_life=20.0), NUMBERS),
    "dates": (LeastSquaresRegressor(1.0, half_life=timedelta(days=1)), NUMBERS),
    "folds": (LeastSquaresRegressor(KFold(2)), NUMBERS),
    "several": (LeastSquaresMultiTargetRegressor(1.0), PAIRS),
    "orthogonal": (LeastSquaresRegressor("auto", "orthogonal", scaling="standard"), NUMBERS),
    "priors": (LeastSquaresClassifier(priors="equal"), CLASSES),
    "removed": (LeastSquaresRegressor(1.0), NUMBERS),
    "outlier": (LeastSquaresRegressor(), NUMBERS),
    "calibrated": (CalibratedClassifier(LeastSquaresClassifier(0.5)), CLASSES),
    "several, auto": (LeastSquaresMultiTargetRegressor(), PAIRS),
}
"""The models of both formats, which had learnt 30 rows, but networks and streams: what they were.

An outlier came last in one of them, and goes first.
"""
TIMES = {"dates": [{"t": datetime(2024, 1, 1) + timedelta(hours=row)} for row in range(60)]}
OUTLIERS = {"outlier": [({"a": 1e6, "b": 1.0}, 5.0)]}


def teach_former(model, name, rows):
    for row in rows:
        model.predict_one(version_3.ROWS[row])
        times = TIMES.get(name, [{}] * 60)
        model.learn_one(version_3.ROWS[row], FORMER[name][1][row], **times[row])


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
    model, new = READ[member](FORMATS[number][member]), copy.deepcopy(FORMER[made][0])
    model, answers = model[name] if isinstance(model, dict) else model, FORMATS[number]["answers"]
    rows = [dict(zip("ab", row, strict=True)) for row in answers["rows"]]
    np.testing.assert_allclose(numbers_of(model, rows), answers[name], atol=1e-9)
    teach_former(new, made, range(30))
    for outlier in OUTLIERS.get(made, ()):
        new.learn_one(*outlier)
    for each in (new, model):
        teach_former(each, made, range(30, 60))
        for outlier in OUTLIERS.get(made, ()):
            each.unlearn_one(*outlier)
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
def test_a_file_that_is_read_only_may_be_saved_to_by_several_but_no_such_folder():
    def save_as_a_user_whom_permissions_bind():
        if not os.geteuid():
            os.seteuid(65534)
        with tempfile.TemporaryDirectory() as name:
            folder, path = Path(name), Path(name, "model.npz")
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

    assert forked(save_as_a_user_whom_permissions_bind) == 0


@pytest.mark.parametrize("name", ["m", "m" * 255, "é" * 127])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name):
    MODEL.save(tmp_path / name)
    assert onlinels.load(tmp_path / name).count == 0
    assert os.listdir(tmp_path) == [name]


def test_links_stay(tmp_path):
    held, link = tmp_path / "there" / "model.npz", tmp_path / "link.npz"
    held.parent.mkdir()
    link.symlink_to(held)
    for mode in (0o640, 0o600):
        MODEL.save(str(link))
        held.chmod(mode)
        MODEL.save(link)
        assert mode_of(held) == mode
    assert link.is_symlink()
    assert os.listdir(held.parent) == ["model.npz"]


WRONG, NO_PATH = (None, 3, io.BytesIO()), r"path=.* must be a path"
NO_FILES = [
    *((MODEL.save, wrong, TypeError, NO_PATH) for wrong in WRONG),
    *((onlinels.load, wrong, TypeError, NO_PATH) for wrong in WRONG),
    *((onlinels.loads, wrong, TypeError, r"content .* expected bytes\. Pass") for wrong in WRONG),
    (onlinels.load, "none", FileNotFoundError, "There is no file .*save a model there first"),
    (onlinels.load, ".", ValueError, "a device or a pipe, expected a file"),
    (MODEL.save, ".", OSError, "at the path has changed"),
    (MODEL.save, "none/model", FileNotFoundError, "pass a folder that exists"),
]


@pytest.mark.parametrize(("call", "where", "error", "message"), NO_FILES)
def test_what_is_no_file_is_neither_replaced_nor_read(
    call, where, error, message, path, monkeypatch
):
    monkeypatch.chdir(path.parent)
    with pytest.raises(error, match=message):
        call(where)
    assert path.read_bytes() == OLD
    assert os.listdir() == [path.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are those of POSIX")
def test_a_pipe_is_neither_replaced_nor_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="folder, a device or a pipe"):
        MODEL.save(pipe)
    with pytest.raises(ValueError, match="a device or a pipe, expected a file"):
        onlinels.load(pipe)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


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


def killed(path, is_time):
    """Let a process save and be killed at the line of saving when it is time; tell if it was."""

    def look(frame, event, _):
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line" and is_time():
            os.kill(os.getpid(), signal.SIGKILL)
        return look

    def save_watched():
        sys.settrace(look)
        MODEL.save(path)

    return forked(save_watched) == -signal.SIGKILL


def hidden_in(folder):
    return [*folder.glob(".*")]


@MODES
def test_a_kill_at_any_line_leaves_the_old_or_the_new_file_and_no_other_that_may_be_read(path):
    new, found, hidden = onlinels.dumps(MODEL), [], []
    modes = cycle((0o600, 0o644, 0o400, 0o666))
    for at, mode in zip(count(0, 5), modes, strict=False):
        path.unlink()
        path.write_bytes(OLD)
        path.chmod(mode)
        lines = count()
        was_killed = killed(path, lambda at=at, lines=lines: next(lines) == at)
        assert mode_of(path) == mode
        if not was_killed:
            break
        found.append(path.read_bytes())
        for each in hidden_in(path.parent):
            assert mode_of(each) in (0o600, mode)
            hidden.append(each)
            each.unlink()
    assert found == sorted(found, key=[OLD, new].index)
    assert set(found) == {OLD, new}
    assert {each.suffix for each in hidden} == {".saving"}


@MODES
def test_what_kills_leave_is_removed_when_it_is_old_by_saves_to_the_same_path(tmp_path):
    path, other = (tmp_path / ("model" * 10 + end) for end in "ab")
    path.write_bytes(OLD)
    for n_hidden, each in enumerate((path, other), 1):
        killed(each, lambda n=n_hidden: len(hidden_in(tmp_path)) == n)
    assert path.read_bytes() == OLD
    MODEL.save(path)
    assert len(hidden_in(tmp_path)) == 2
    for each in hidden_in(tmp_path):
        os.utime(each, (each.lstat().st_mtime - files.LEFT_OVER_SECONDS - 1.0,) * 2)
    # A running save goes on.
    with files.written_aside(path) as file:
        MODEL.save(path)
        file.write(b"last")
    assert path.read_bytes() == b"last"
    assert len(hidden_in(tmp_path)) == 1
    MODEL.save(other)
    assert sorted(os.listdir(tmp_path)) == [path.name, other.name]
