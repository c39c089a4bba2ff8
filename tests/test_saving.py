"""Models in files: what is loaded goes on as what was saved, bit for bit; so do copies."""

import base64
import copy
import functools
import gzip
import io
import os
import re
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, feature_extraction, preprocessing, stats, utils

import onlinels
from onlinels import KFold, LeastSquaresClassifier, LeastSquaresRegressor, StreamClassifier
from onlinels.numerics import Lock
from onlinels.saving import locked_copy, save_method
from onlinels.saving import savable as savable_
from onlinels.saving.classes import KINDS, KINDS_BY_NAME, RIVER
from onlinels.saving.river_models import MODULES
from support import savable_models
from support.laws import COPIES, assert_not_saved, learnt, saved
from support.slow import the_rest_slow
from support.strategies import SCALINGS, cases, examples, kinds
from support.untrusted_files import rewritten

# -- saved and loaded models ----------------------------------------------------------------------


def through_a_file(model, folder):
    onlinels.save(model, folder / "model.npz")
    assert (folder / "model.npz").read_bytes() == onlinels.dumps(model)
    return onlinels.load(folder / "model.npz")


def through_bytes(model, folder):
    return onlinels.loads(onlinels.dumps(model))


def through_an_open_file(model, folder):
    with gzip.open(folder / "model.gz", "wb") as file:
        model.save(file)
    with gzip.open(folder / "model.gz", "rb") as file:
        return onlinels.load(file)


def through_the_middle_of_a_file(model, folder):
    with open(folder / "log", "wb+") as file:
        file.write(b"before")
        model.save(file)
        assert file.tell() == file.seek(0, os.SEEK_END)
        file.seek(6)
        loaded = onlinels.load(file)
        assert file.read() == b""
        return loaded


WAYS = (through_a_file, through_bytes, through_an_open_file, through_the_middle_of_a_file)


@pytest.mark.parametrize("name", savable_models.MODELS)
@pytest.mark.parametrize("n_learnt", the_rest_slow([1, 0, 2]))
def test_a_loaded_model_goes_on_as_the_saved_one(tmp_path, name, n_learnt):
    make, learn = savable_models.MODELS[name]
    random = np.random.default_rng(0)
    model = make(random)
    for _ in range(n_learnt):
        learn(model, random)
    loaded = through_a_file(model, tmp_path)
    assert type(loaded) is type(model)
    assert saved(loaded) == saved(model)
    for _ in range(2):
        learn(model, np.random.default_rng(7))
        learn(loaded, np.random.default_rng(7))
        assert saved(loaded) == saved(model)


def test_every_class_that_can_be_saved_is_saved_above():
    named = set()
    for make, learn in savable_models.MODELS.values():
        random = np.random.default_rng(0)
        model = make(random)
        learn(model, random)
        with zipfile.ZipFile(io.BytesIO(saved(model))) as file:
            described = file.read("model.json").decode()
        named |= set(re.findall('"object":"([^"]*)"', described))
    assert {*KINDS_BY_NAME, *(RIVER + name for name in MODULES)} == named


@pytest.mark.parametrize("way", WAYS)
def test_models_come_back_from_files_of_any_kind(tmp_path, way):
    model = LeastSquaresClassifier()
    model.learn_many(np.eye(20), list(range(20)))
    assert saved(way(model, tmp_path)) == saved(model)


def outcome(call, *values):
    """Return what a call answers or refuses, to the last bit."""
    try:
        answer = call(*values)
    except ValueError as error:
        return str(error)
    # The digits of a float that are printed tell it from all others.
    return answer.tolist() if isinstance(answer, np.ndarray) else repr(answer)


def step(model, make, what, one, some):
    """Let a model learn some rows or one, merge, unlearn or answer; return the outcome."""
    match what:
        case "merge":
            return outcome(lambda: model.merge(learnt(make, some)).count)
        case "unlearn":
            return outcome(model.unlearn_many, one.X, one.y, one.w)
        case "answer":
            return outcome(model.predict_many, some.X)
        case "many":
            return outcome(model.learn_many, some.X, some.y, some.w)
    (x,) = one.dicts()
    answer = outcome(getattr(model, "scores_one", model.predict_one), x)
    model.learn_one(x, one.y[0], one.w[0])
    return answer


@kinds
@examples(12)
@given(st.data())
def test_a_model_that_is_loaded_at_any_moments_answers_bit_for_bit(kind, data):
    rows, make = data.draw(cases(kind, max_rows=140))
    decays = data.draw(st.sampled_from([{}, {"forgetting_factor": 0.97}, {"half_life": 20.0}]))
    make = functools.partial(make, **decays)
    model, twin, held = make(), make(), []
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    # Single rows come many times on end: solutions follow them then.
    moves = np.repeat(random.choice(["one", "many", "unlearn", "merge", "answer"], 8), 9)
    for what in moves[random.random(len(moves)) < np.where(moves == "one", 0.9, 0.1)]:
        if random.random() < 0.3:
            twin = onlinels.loads(onlinels.dumps(twin))
        start, stop = sorted(random.integers(0, len(rows), 2))
        if what == "unlearn":
            # A file is refused if other rows, or decayed ones at full weight, were taken out.
            if decays or not held:
                continue
            start = held.pop(random.integers(len(held)))
        elif what != "answer":
            held += [start] if what == "one" else range(start, stop + 1)
        one, some = rows.take([start]), rows.take(range(start, stop + 1))
        assert step(model, make, what, one, some) == step(twin, make, what, one, some)
    assert np.array_equal(model.output_weights, twin.output_weights)
    assert saved(model) == saved(twin)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("ridge", [KFold(3), "auto", 1.0], ids=str)
def test_a_model_that_is_loaded_before_every_row_answers_bit_for_bit(ridge, scaling, fit_intercept):
    # A loaded model reads its first samples the long way; at 192 rows units and solutions are due.
    settings = {"ridge": ridge, "scaling": scaling, "fit_intercept": fit_intercept}
    random, model = np.random.default_rng(0), LeastSquaresRegressor(**settings)
    X = random.normal(size=(200, 4))
    y = X @ np.arange(4.0) + random.normal(size=200)
    model.learn_many(X[:170], y[:170])
    twin = onlinels.loads(onlinels.dumps(model))
    for row, target in zip(X[170:].tolist(), y[170:].tolist(), strict=True):
        x = dict(enumerate(row))
        assert model.predict_one(x) == twin.predict_one(x)
        model.learn_one(x, target)
        twin = onlinels.loads(onlinels.dumps(twin))
        twin.learn_one(x, target)
    assert saved(model) == saved(twin)


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
    message = r"_classes holds .* of type \w+\. .* of type str, int"
    assert_not_saved(model, tmp_path / "model.npz", message, TypeError)


def test_what_cannot_be_saved_says_so(tmp_path):
    path = tmp_path / "model.npz"
    with pytest.raises(TypeError, match="model is of type object"):
        onlinels.save(object(), path)
    with_function = compose.FuncTransformer(len) | LeastSquaresClassifier()
    message = r"^Pipeline\.steps\.0\.1 holds .* of type FuncTransformer\. It cannot be saved"
    with pytest.raises(TypeError, match=message):
        onlinels.save(with_function, path)
    for step, reason in (
        (feature_extraction.RBFSampler(), "RBFSampler"),
        (preprocessing.LDA(), "LDA"),
        (compose.SelectType(date), r"datetime\.date, expected one of .*numbers\.Number"),
        (feature_extraction.BagOfWords(tokenizer_pattern="a"), "tokenizer_pattern that is not"),
        (feature_extraction.Agg("a", None, utils.Rolling(stats.Mean, 3)), "Rolling"),
    ):
        with pytest.raises(TypeError, match=f"{reason}.*cannot be saved"):
            onlinels.save(step | LeastSquaresClassifier(), path)
    for wrong in (None, 3, ""):
        with pytest.raises(TypeError, match=r"file is .* expected the path of a file or an open"):
            LeastSquaresClassifier().save(wrong)
        with pytest.raises(TypeError, match=r"file is .* expected the path of a file or an open"):
            onlinels.load(wrong)
        with pytest.raises(TypeError, match=r"content is of type .* expected bytes\. Pass"):
            onlinels.loads(wrong)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*save a model there first"):
        onlinels.load(path)
    with pytest.raises(ValueError, match="is a folder, expected a file"):
        onlinels.load(tmp_path)


class Short(io.RawIOBase):
    """A file that takes 100 bytes at a time at most, as sockets without a buffer may."""

    def writable(self):
        return True

    def write(self, content):
        return min(100, len(content))


def test_open_files_that_cannot_be_used_are_refused(tmp_path):
    model, path, closed = LeastSquaresClassifier(), tmp_path / "model.npz", io.BytesIO()
    closed.close()
    path.touch()
    with path.open("r") as text, path.open("rb") as readable, path.open("ab") as writable:
        for call, file, error, message in (
            (model.save, io.StringIO(), ValueError, r"writable binary.*open\(path, 'wb'\)"),
            (onlinels.load, text, ValueError, r"readable binary.*open\(path, 'rb'\)"),
            (model.save, closed, ValueError, "expected an open, writable binary file"),
            (onlinels.load, closed, ValueError, "expected an open, readable binary file"),
            (model.save, readable, ValueError, "expected an open, writable binary file"),
            (onlinels.load, writable, ValueError, "expected an open, readable binary file"),
            (model.save, Short(), OSError, "accepted .* expected all: pass a buffered file"),
            (onlinels.load, readable, ValueError, f"^{re.escape(str(path))} cannot be read as a"),
            (onlinels.load, io.BytesIO(b"PK"), ValueError, "^<file> cannot be read as a"),
            (onlinels.load, io.BytesIO(2 * saved(model)), ValueError, "expected byte 0"),
        ):
            with pytest.raises(error, match=message):
                call(file)
        assert path.stat().st_size == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_pipes_and_what_engines_make_of_bytes(kind):
    model = LeastSquaresClassifier()
    model.learn_many(np.eye(20), list(range(20)))
    read, write = os.pipe()
    with ThreadPoolExecutor(1) as pool, os.fdopen(read, "rb") as source:
        content = pool.submit(source.read)
        with os.fdopen(write, "wb") as target:
            model.save(target)
        assert saved(onlinels.loads(kind(content.result()))) == saved(model)


def test_several_models_and_plain_values_share_a_file(tmp_path):
    model = LeastSquaresClassifier()
    model.learn_one({"x": 1.0}, "a")
    together = {"model": model, "again": [model], "offset": 12, "name": ("a", None)}
    loaded = through_a_file(together, tmp_path)
    assert loaded["again"] == [loaded["model"]]
    assert (loaded["offset"], loaded["name"]) == (12, ("a", None))
    assert saved(loaded) == saved(together)


def test_numpy_can_open_the_file(tmp_path):
    model = LeastSquaresClassifier()
    model.learn_many(np.eye(3), list("aba"))
    expected = model.output_weights
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        (name,) = [each for each in file.files if each.endswith(".output_weights")]
        weights = file[name]
    np.testing.assert_array_equal(weights, expected)
    with zipfile.ZipFile(tmp_path / "model.npz") as file:
        assert file.testzip() is None


@pytest.fixture(params=["gram", "orthogonal", "recursive"])
def saved_linear(request, tmp_path):
    model = LeastSquaresClassifier(ridge=1.0, accumulator=request.param)
    random = np.random.default_rng(0)
    model.learn_many(*savable_models.rows(random, 50))
    path = tmp_path / "model.npz"
    model.save(path)
    return model, path


@COPIES
def test_copies_of_a_loaded_model_are_whole_and_its_file_is_closed(saved_linear, copied):
    model, path = saved_linear
    loaded = onlinels.load(path)
    if os.path.isdir("/proc/self/fd"):
        opened = {os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")}
        assert str(path) not in opened
    twin = copied(loaded)
    os.unlink(path)
    assert saved(twin) == saved(model)
    assert saved(loaded) == saved(model)


def test_a_model_may_be_saved_where_it_comes_from(saved_linear):
    _, path = saved_linear
    loaded, other = onlinels.load(path), onlinels.load(path)
    loaded.save(path)
    X, y = savable_models.rows(np.random.default_rng(1), 9)
    loaded.learn_many(X, y)
    loaded.save(path)
    other.learn_many(X, y)
    assert saved(other) == path.read_bytes()


@pytest.mark.parametrize(("number", "version"), [(1, "0.1.0"), (2, "0.2.0"), (4, "9.1")])
def test_other_formats_are_refused_by_their_version(saved_linear, number, version):
    _, path = saved_linear
    rewritten(path, lambda said: said | {"format": number, "onlinels": version})
    expected = f"is of format {number}, expected 3. Load it with onlinels {version}, the version"
    with pytest.raises(ValueError, match=expected):
        onlinels.load(path)


FILE_OF_0_1_0 = (
    "eNp1UM1KxDAQ3h/1IB736MU5h5ImbbbtyXsRerb0kLSzuEvbLGlllVLx7DsIHnwCn8Yn8DlMd1HZghOG+fhm5svHJPH8"
    "ZDE5xNXk8/3m7cWiIc9tVrrA0tk0uu5A1+W6xrKBCKjjOhQIrLSpZAuRS2A/CVEHxTq3TJqC0bsGCM9IClu9QwPEaqgN"
    "Dm1IDgzU95WyIKIEmla2OCjgw1bXWNsx5tC+z7KegDRGPtqvu75Pjhw/vd5+XVs05MWv4+ZOMl+IQiw5y5nnqyDwuFIe"
    "soDLkOMKKVNUSIGKhtwtXE/RPETPt7yH+VIEXIgwiaezxfz/6/zE83RydKvx3tjj397HyHESn54NnZl9xtbLvfI3Gs5h"
    "HA=="
)
"""A model's file, compressed, as that version wrote it."""


def test_files_of_version_0_1_0_are_refused_by_their_version(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(zlib.decompress(base64.b64decode(FILE_OF_0_1_0)))
    with pytest.raises(ValueError, match=r"of format 1, expected 3.* with onlinels 0\.1\.0,"):
        onlinels.load(path)


@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_files_hold_no_recent_rows(tmp_path, accumulator):
    random, path = np.random.default_rng(0), tmp_path / "model.npz"
    model = LeastSquaresClassifier(1.0, accumulator, fit_intercept=False)
    X = random.normal(size=(33, 400))
    model.learn_many(X[:20], [0, 1] * 10)
    for row in X[20:30]:
        model.predict_one(dict(enumerate(row)))
        model.learn_one(dict(enumerate(row)), 0)
    loaded = through_a_file(model, tmp_path)
    with np.load(path) as file:
        recent = [name for name in file.files if name.endswith("_recent")]
        assert not any(file[name].any() for name in recent)
    for each in (model, loaded):
        each.learn_many(X[30:], [0, 1, 1])
    assert saved(loaded) == saved(model)


def test_streams_that_have_seen_arrays_can_be_saved(tmp_path):
    model = StreamClassifier()
    for number in range(9):
        model.learn_one({"image": np.full(3, number), np.str_("x"): 1.0}, number % 2)
    loaded = through_a_file(model, tmp_path)
    for each in (model, loaded):
        each.learn_one({"image": np.ones(3), "x": 2.0}, 1)
    assert saved(loaded) == saved(model)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_rows_that_waited_when_a_model_was_saved_change_no_bit(tmp_path, accumulator):
    X, y = savable_models.rows(np.random.default_rng(0), 90)
    rows = [
        (dict(enumerate(row)), label) for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    model = LeastSquaresClassifier(ridge=1.0, accumulator=accumulator)
    for row in rows[:60]:
        model.learn_one(*row)
    models = [through_a_file(model, tmp_path), copy.deepcopy(model), model]
    for each in models:
        for sample, _ in rows[60:62]:
            each.predict_one(sample)
        for row in rows[60:]:
            each.learn_one(*row)
    assert len({saved(each) for each in models}) == 1


@dataclass(frozen=True)
class Frozen:
    rows: np.ndarray
    name: str


class Pair(NamedTuple):
    one: int
    other: Frozen | None


class Plain:
    def __init__(self):
        self.count, self._lock = 0, Lock()

    save = save_method
    __copy__ = locked_copy


@pytest.fixture
def declared():
    """Declare classes for a test, as those of the library declare themselves."""
    savable_()(Frozen)
    savable_(lambda pair: pair.one < 9)(Pair)
    savable_()(Plain)
    yield
    for made in (Frozen, Pair, Plain):
        del KINDS_BY_NAME[KINDS.pop(made).name]


@pytest.mark.usefixtures("declared")
def test_dataclasses_named_tuples_and_plain_objects_come_back(tmp_path):
    pair = Pair(3, Frozen(np.arange(3.0), "a"))
    loaded = through_a_file({"pair": pair, "again": pair.other}, tmp_path)
    assert (type(loaded["pair"]), loaded["pair"].one, loaded["pair"].other.name) == (Pair, 3, "a")
    assert loaded["again"] is loaded["pair"].other
    np.testing.assert_array_equal(loaded["again"].rows, np.arange(3.0))
    plain = Plain()
    plain.count = 5
    plain.save(tmp_path / "plain.npz")
    for other in (onlinels.load(tmp_path / "plain.npz"), copy.copy(plain)):
        assert (other.count, type(other._lock)) == (5, Lock)
        assert other._lock is not plain._lock
    onlinels.save([Pair(9, None)], tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"the parts of its .*Pair contradict"):
        onlinels.load(tmp_path / "model.npz")
