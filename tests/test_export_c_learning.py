"""`onlinels.export.c` with learn=True: devices learn, solve, send their sums and take weights."""

import ctypes
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    difference,
    export,
)
from onlinels.devices import device_weights, merge_devices, read_device
from onlinels.pipelines import last_step
from support.compilers import WAYS, compiled
from support.laws import fitted
from support.strategies import examples

SOURCE = (Path(__file__).parent / "support" / "learning_device.c").read_text()


class Device:
    """A device on this machine that runs the header of a model."""

    def __init__(self, model, folder, way="C99 -O0", rows="float32", room=0):
        export.c(model, folder / "fan.h", learn=True, rows=rows, room=room)
        text = (folder / "fan.h").read_text("ascii")
        self.labels = [*getattr(last_step(model), "classes", ())]
        self.dtype = np.int16 if rows == "int16" else np.float32
        flags = ["-DLABELS"] * bool(self.labels) + ["-DSOLVES"] * ("fan_solve(fan_l" in text)
        self.library = compiled(SOURCE, way, folder, *flags)
        self.library.solve.restype = ctypes.c_float
        self.size = self.library.begin()

    def learn(self, X, Y):
        """Learn rows; return whether each was learnt."""
        return [self.learn_row(*row) for row in zip(X, Y, strict=True)]

    def learn_row(self, x, y):
        x, targets, label = np.asarray(x, self.dtype), None, -1
        if self.labels:
            label = self.library.add_label(str(y).encode())
        else:
            targets = np.atleast_1d(np.asarray(y, self.dtype))
        return bool(self.library.learn(_at(x), _at(targets), label))

    def held(self):
        """Return the memory of the learner."""
        self.library.held.restype = ctypes.c_void_p
        return (ctypes.c_uint8 * self.size).from_address(self.library.held())

    def sent(self, number=1, serial=1):
        content = np.empty(200_000, np.uint8)
        size = self.library.sent(ctypes.c_uint64(number), serial, _at(content))
        assert 0 < size < len(content)
        return content[:size].tobytes()

    def answers(self, X):
        """Return the scores or values of rows, and the texts of their labels."""
        y, text = np.empty(300, np.float32), ctypes.create_string_buffer(256)
        scores, labels = [], []
        for x in np.asarray(X, self.dtype):
            n = self.library.answer(_at(np.ascontiguousarray(x)), _at(y), text)
            scores.append(y[:n].copy())
            labels.append(text.value.decode())
        return np.array(scores), labels

    def take(self, content):
        return self.library.take(content, len(content))


def _at(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


@pytest.fixture
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c")


def centres(n_classes, m, seed=0, rows=300, size=1.0):
    """Return rows around a centre for each class, and their labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, n_classes, rows)
    X = 3.0 * random.normal(size=(n_classes, m))[labels] + random.normal(size=(rows, m))
    return size * X, [f"state {k}" for k in labels]


@st.composite
def cases(draw, is_whole):
    """Draw a model, rows for a device, and the type of these rows."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n, k = draw(st.sampled_from([1, 3, 4, 7])), draw(st.integers(1, 3)), draw(st.integers(2, 90))
    kind = draw(
        st.sampled_from(
            [LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor]
        )
    )
    size, offset = draw(st.sampled_from([(3, 0), (300, 0), (100, 1000)]))
    X = random.integers(-size, size + 1, (k, m)) + offset
    X = X if is_whole else (X + random.normal(size=X.shape)).astype(np.float32)
    model = kind(ridge=1.0, fit_intercept=draw(st.booleans()))
    if kind is LeastSquaresClassifier:
        Y = [f"state {label}" for label in random.integers(0, n + 1, k)]
        here = ["state 0", "state 1"]
    elif kind is LeastSquaresRegressor:
        Y = random.integers(-size, size + 1, k).astype(float).tolist()
        here = [1.0, 2.0]
    else:
        Y = random.integers(-size, size + 1, (k, n)).astype(float)
        Y = [{f"y{j}": float(each) for j, each in enumerate(row)} for row in Y]
        here = Y[:2]
    model.learn_many(X[:2].astype(float), here)
    return model, X, Y


def room_of(model):
    """Return the room for labels that a drawn model needs."""
    return 3 if hasattr(model, "classes") else 0


def targets_of(Y):
    return [[*y.values()] if isinstance(y, dict) else y for y in Y]


@examples(20)
@given(case=cases(is_whole=False), way=st.sampled_from([*WAYS]))
def test_float_rows_go_home_within_their_rounding(tmp_path_factory, case, way):
    model, X, Y = case
    device = Device(model, tmp_path_factory.mktemp("c"), way, room=room_of(model))
    assert all(device.learn(X, targets_of(Y)))
    read = read_device(device.sent(7, 3), model)
    here = fitted(model.empty(), X.astype(float), Y)
    assert (read.device, read.serial, read.rows) == (7, 3, len(X))
    assert {*getattr(read.model, "classes", ())} == {*getattr(here, "classes", ())}
    assert difference(read.model, here) < 1e-3


@examples(20)
@given(case=cases(is_whole=True), way=st.sampled_from([*WAYS]))
def test_whole_rows_go_home_exactly(tmp_path_factory, case, way):
    model, X, Y = case
    device = Device(model, tmp_path_factory.mktemp("c"), way, rows="int16", room=room_of(model))
    assert all(device.learn(X, targets_of(Y)))
    read = read_device(device.sent(), model)
    assert (read.rounding, read.rows) == (0.0, len(X))
    assert difference(read.model, fitted(model.empty(), X.astype(float), Y)) < 1e-9


@pytest.mark.parametrize("rows", ["float32", "int16"])
@pytest.mark.parametrize(("m", "scaling"), [(6, None), (32, "standard")])
def test_a_device_solves_and_answers_alone(folder, m, scaling, rows):
    X, y = centres(3, m, size=100.0)
    X = np.rint(X + 300.0)
    model = fitted(LeastSquaresClassifier(ridge=1.0, scaling=scaling), X[:60], y[:60])
    device = Device(model, folder, rows=rows)
    assert device.library.solve() == -1.0
    device.learn(X, y)
    assert device.library.solve() == 1.0
    here = fitted(model.empty(), X, y)
    scores, labels = device.answers(X)
    own = here.scores_many(X)[:, [here.classes.index(label) for label in model.classes]]
    np.testing.assert_allclose(scores, own, atol=2e-4)
    assert np.mean(np.array(labels) == here.predict_many(X)) > 0.995


def test_the_ridge_is_raised_where_float_would_lose_the_digits(folder):
    X, y = centres(2, 3)
    X = np.hstack([X, X[:, :1] + 1e-4 * np.random.default_rng(0).normal(size=(300, 1))])
    model = fitted(LeastSquaresClassifier(ridge=0.0), X, y)
    device = Device(model, folder)
    device.learn(X, y)
    assert 1e-4 < device.library.solve() < 1.0
    scores, labels = device.answers(X)
    assert np.isfinite(scores).all()
    assert np.mean(np.array(labels) == y) > 0.95


def test_answers_are_those_of_the_export_until_newer_weights_come(folder):
    X, y = centres(3, 90)
    X = (X + 1e3).astype(np.float32).astype(float)
    model = fitted(LeastSquaresClassifier(ridge=1.0), X[:40], ["state 0", "state 1"] * 20)
    device = Device(model, folder, room=2)
    for current, serial in ((model, 0), (fitted(model.empty(), X, y), 1)):
        if serial:
            content = device_weights(current, model, serial)
            assert device.take(content[:-1]) != 0
            assert device.take(content) == 0
        scores, labels = device.answers(X)
        mean, W = X.mean(axis=0), current.output_weights
        sizes = np.abs(X - mean) @ np.abs(W) + np.abs(current.intercept + mean @ W)
        assert (np.abs(scores - current.scores_many(X)) <= 1e-6 * sizes).all()
        assert labels == current.predict_many(X).tolist()


def test_three_states_are_learnt_by_two_devices_and_known_by_both_at_last(folder):
    X, y = centres(3, 8)
    X = np.rint(100.0 * X)
    of_first = np.array([label != "state 2" for label in y])
    model = fitted(LeastSquaresClassifier(ridge=1.0), X[:1], ["state 0"])
    sent = []
    for number, rows in enumerate((of_first, ~of_first)):
        device = Device(model, folder, rows="int16", room=2)
        device.learn(X[rows], [label for label, own in zip(y, rows, strict=True) if own])
        sent += [device.sent(number, 1)] * 2
    home = merge_devices(model, sent)
    assert difference(home, fitted(model.empty(), X, y)) < 1e-9
    assert device.take(device_weights(home, model, 1)) == 0
    assert device.answers(X)[1] == home.predict_many(X).tolist()


@pytest.mark.parametrize("rows", ["float32", "int16"])
def test_refused_rows_change_nothing(folder, rows):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), ["a", "b"])
    device = Device(model, folder, rows=rows, room=1)
    device.learn(np.eye(2), ["a", "b"])
    before = device.sent()
    x = np.zeros(2, device.dtype)
    assert [device.library.learn(_at(x), None, label) for label in (-1, 2, 99)] == [0, 0, 0]
    if rows == "float32":
        for wrong in (np.nan, np.inf, -np.inf, 2e15):
            assert not device.learn_row([0.0, wrong], "a")
    assert device.library.add_label(b"x" * 31) == -1
    assert device.sent() == before
    assert [device.library.add_label(text) for text in (b"c", b"c", b"d", b"a")] == [2, 2, -1, 0]


TEXTS_OF_INT = {
    "0": True,
    "-1": True,
    "7": True,
    "120": True,
    str(2**63 - 1): True,
    str(-(2**63)): True,
    str(2**63): False,
    str(-(2**63) - 1): False,
    "10000000000000000000": False,
    "blocked": False,
    "007": False,
    "+5": False,
    "-": False,
    "-0": False,
    "--1": False,
    " 7": False,
    "7 ": False,
    "7\r": False,
    "1_0": False,
    "1.0": False,
    "": False,
    "\u0667": False,
    "\uff17": False,
}


@pytest.mark.parametrize("text", TEXTS_OF_INT)
def test_labels_of_digits_are_refused_if_home_cannot_read_them(folder, text):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), [3, 4])
    device = Device(model, folder, room=2)
    is_taken = device.library.add_label(text.encode()) == 2
    assert is_taken == TEXTS_OF_INT[text] == device.learn_row([1.0, 0.0], text)
    assert device.learn_row([0.0, 1.0], 3)
    known = {3, int(text)} if is_taken else {3}
    assert {*read_device(device.sent(), model).model.classes} == known


def test_labels_are_refused_if_they_are_not_utf_8(folder):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), ["a", "b"])
    device = Device(model, folder, room=500)
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    texts = [bytes(each) for each in product(range(0x7F, 256), edges, [0xBF], [0x80])]
    texts = [b"", "é€🌀".encode(), *(each[:n] for each in texts for n in (1, 2, 3, 4))]
    for text in dict.fromkeys(texts):
        assert (device.library.add_label(text) > 1) == _is_utf_8(text), text
    device.learn_row([1.0, 0.0], "a")
    assert read_device(device.sent(), model).model.classes == ("a",)


def _is_utf_8(text):
    try:
        return isinstance(text.decode(), str)
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("rows", ["float32", "int16"])
@pytest.mark.parametrize("targets", [False, True])
def test_a_stored_learner_is_sound_only_as_it_was_sealed(folder, rows, targets):
    kind, Y = (LeastSquaresRegressor, [3.0, 4.0]) if targets else (LeastSquaresClassifier, "ab")
    model = fitted(kind(ridge=1.0), np.eye(2), [*Y])
    device = Device(model, folder, rows=rows, room=0 if targets else 1)
    library, held = device.library, device.held()
    assert not library.is_sound()
    for byte in (0, 255):
        held[:] = [byte] * device.size
        assert not library.is_sound()
        x = np.ones(2, device.dtype)
        assert (library.learn(_at(x), _at(x), 0), library.sent(0, 1, None)) == (0, 0)
        assert library.solve() == -1.0
    library.begin()
    library.seal()
    assert library.is_sound()
    assert device.learn(np.eye(2), Y) == [True, True]
    assert not library.is_sound()
    library.seal()
    assert library.is_sound()


@pytest.mark.parametrize("rows", ["float32", "int16"])
def test_damaged_labels_are_not_sent(folder, rows):
    """Their sizes say where bytes are read."""
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), ["a", "bc"])
    device = Device(model, folder, rows=rows, room=2)
    device.library.add_label(b"new")
    device.learn(np.eye(2), ["a", "new"])
    whole, x, held = len(device.sent()), np.ones(2, device.dtype), device.held()
    device.library.seal()
    size = ctypes.sizeof(ctypes.c_size_t)
    buffer = np.empty(200_000, np.uint8)
    for at, was in {0: 3, size: 12, 2 * size + 1: 1, 2 * size + 4: 2, 2 * size + 8: 3}.items():
        assert held[at] == was
        for now in range(256):
            held[at] = now
            is_whole = now == was
            assert device.library.sent(ctypes.c_uint64(1), 1, _at(buffer)) == whole * is_whole
            assert device.library.is_sound() == is_whole
            if not is_whole:
                assert device.library.add_label(b"a") == -1
                assert not device.library.learn(_at(x), None, 0)
                assert device.library.solve() == -1.0
        held[at] = was
    # Two labels that fill the room of four.
    before, room = bytes(held), 3 + 4 + 2 * 32
    held[size] = room
    held[0], held[2 * size + 1], held[3 * size + 1] = 2, size - 2, room - size - 2
    assert device.library.sent(ctypes.c_uint64(1), 1, _at(buffer)) > 0
    assert device.library.add_label(b"x") == -1
    held[:] = before
    # Every byte counts, but for those that align the end.
    for at in range(device.size):
        held[at] ^= 1
        assert not device.library.is_sound() or at >= device.size - 4
        held[at] ^= 1


def test_hidden_units_are_learnt(folder):
    X, y = centres(3, 4)
    X = X.astype(np.float32).astype(float)
    layer = HiddenLayer.from_examples(X[:100], n_hidden=12, activation="tanh")
    model = fitted(layer | LeastSquaresClassifier(ridge=1.0), X[:100], y[:100])
    device = Device(model, folder)
    assert all(device.learn(X, y))
    read = read_device(device.sent(), model)
    here = fitted(layer | LeastSquaresClassifier(ridge=1.0), X, y)
    assert difference(last_step(read.model), last_step(here)) < 1e-4
    scores, labels = device.answers(X)
    own = last_step(model).scores_many(layer.transform_many(X))
    np.testing.assert_allclose(scores, own, atol=1e-4)
    assert labels == model.predict_many(X).tolist()


@pytest.mark.parametrize("labels", [(3, -1), (True, False)])
def test_labels_keep_their_types(folder, labels):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), [*labels])
    device = Device(model, folder, room=int(labels[0] == 3))
    device.learn(np.eye(2), labels)
    if labels[0] == 3:
        assert device.learn_row([1.0, 1.0], 20)
    known = {*labels, 20} if labels[0] == 3 else {*labels}
    assert {*read_device(device.sent(), model).model.classes} == known


def test_two_headers_that_learn_in_one_program(folder):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(3), ["off", "on", "off"])
    for prefix, rows in ("fan", "float32"), ("pump", "int16"):
        export.c(model, folder / f"{prefix}.h", learn=True, rows=rows)
    code = """
    #include "fan.h"
    #include "pump.h"
    /* names that the functions have in the package */
    static int dot = 1, follow = 1, real = 1;
    int both(void);
    int both(void)
    {
        static fan_learner_t fan;
        static pump_learner_t pump;
        static const float x[3] = {1, 0, 0};
        static const int16_t y[3] = {0, 1, 0};
        fan_begin(&fan);
        pump_begin(&pump);
        dot += fan_learn(&fan, x, FAN_LABEL_OFF) + pump_learn(&pump, y, PUMP_LABEL_ON);
        return dot + follow + real;
    }
    """
    assert compiled(code, "C99 -Os", folder).both() == 5


SOFT = {"float32": {"memcpy", "memset"}, "int16": set()}
"""What a row may call, by the type of its values: nothing that computes in double precision."""


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")
@pytest.mark.parametrize("rows", SOFT)
def test_rows_need_no_double_precision_on_a_cortex_m4(folder, rows):
    model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(8), list("abcdabcd"))
    export.c(model, folder / "fan.h", learn=True, rows=rows)
    (folder / "row.c").write_text(
        """
        #include "fan.h"
        fan_learner_t learner;
        int learn(const fan_value_t *x, int label) { return fan_learn(&learner, x, label); }
        """
    )
    options = ["-std=c99", "-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard"]
    options.append("-mfpu=fpv4-sp-d16")
    command = ["arm-none-eabi-gcc", *options, "-c", "row.c", "-o", "row.o"]
    subprocess.run(command, cwd=folder, check=True)
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


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")
@pytest.mark.parametrize("rows", SOFT)
@pytest.mark.parametrize(("m", "room"), [(1, 0), (32, 20), (96, 0)])
def test_no_call_takes_more_of_the_stack_than_the_header_says(folder, rows, m, room):
    X, y = centres(3, m)
    export.c(
        fitted(LeastSquaresClassifier(ridge=1.0), X, y),
        folder / "fan.h",
        learn=True,
        rows=rows,
        room=room,
    )
    options = ["-x", "c", "-std=gnu99", "-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard"]
    options += ["-mfpu=fpv4-sp-d16", "-fcallgraph-info=su", "-DLABELS"]
    options += ["-DSOLVES"] * (m <= 32)
    (folder / "all.c").write_text(SOURCE)
    command = ["arm-none-eabi-gcc", *options, "-c", "all.c", "-o", "all.o"]
    subprocess.run(command, cwd=folder, check=True)
    text = (folder / "fan.h").read_text()
    told = int(re.search(r"up to about ([\d,]+) bytes of stack", text)[1].replace(",", ""))
    taken = deepest((folder / "all.ci").read_text())
    assert taken <= told <= taken + 400


def test_the_comment_tells_what_the_header_takes(folder):
    for labels, taken in (("ab", "at most 30 bytes"), ((1, 2), "integers of 64 bits")):
        model = fitted(LeastSquaresClassifier(ridge=1.0), np.eye(2), [*labels])
        export.c(model, folder / "fan.h", learn=True, room=1)
        text = (folder / "fan.h").read_text()
        assert f" * New labels have {taken}" in text or f" * New labels are {taken}" in text
        assert "A learner belongs to\n * one task" in text
    model = fitted(LeastSquaresRegressor(ridge=1.0), np.eye(2), [1.0, 2.0])
    export.c(model, folder / "fan.h", learn=True)
    text = (folder / "fan.h").read_text()
    assert "writes y[answers.n], also of one target" in text
    assert "New labels" not in text


EYE, ABC = np.eye(3), list("abc")
TRAINED = fitted(LeastSquaresClassifier(1.0), EYE, ABC)
REFUSED = {
    "97 features": (
        fitted(LeastSquaresClassifier(1.0), np.eye(97), ["a", "b"] * 48 + ["a"]),
        {},
        "has 97 features, expected at most 96 to learn",
    ),
    "room for targets": (
        fitted(LeastSquaresRegressor(1.0), EYE, [1.0, 2.0, 3.0]),
        {"room": 1},
        "room=1 came with a model that takes no new labels",
    ),
    "room for bool": (
        fitted(LeastSquaresClassifier(1.0), EYE, [True, False, True]),
        {"room": 1},
        "room=1 came with a model that takes no new labels",
    ),
    "half a character": (
        fitted(LeastSquaresClassifier(1.0), EYE, ["a", "\udc80", "b"]),
        {},
        "A label is '\\udc80', with half a character",
    ),
    "fractions": (fitted(LeastSquaresClassifier(1.0), EYE, [0.5, 1.5, 2.5]), {}, "A label is 0.5"),
    "one class": (fitted(LeastSquaresClassifier(1.0), EYE, ["a"] * 3), {}, "at least two"),
    "room without learn": (TRAINED, {"learn": False, "room": 1}, "Pass learn=True"),
    "int16 without learn": (TRAINED, {"learn": False, "rows": "int16"}, "Pass learn=True"),
    "int8": (TRAINED, {"weights": "int8"}, "learn=True came with weights='int8'"),
    "rows": (TRAINED, {"rows": "int8"}, 'Pass one of "float32", "int16"'),
    "room": (TRAINED, {"room": -1}, "room=-1 must be at least 0"),
    "hidden int16": (
        fitted(HiddenLayer(2) | LeastSquaresClassifier(1.0), EYE, ABC),
        {"rows": "int16"},
        'rows="int16" came with a HiddenLayer',
    ),
    "orthogonal": (
        fitted(LeastSquaresClassifier(1.0, accumulator="orthogonal"), EYE, ABC),
        {},
        "accumulator='orthogonal'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_writes_no_file(tmp_path, case):
    model, settings, message = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        export.c(model, tmp_path / "fan.h", **({"learn": True} | settings))
    assert not [*tmp_path.iterdir()]


def test_types_are_refused(tmp_path):
    calibrated = fitted(CalibratedClassifier(LeastSquaresClassifier(1.0)), EYE, ABC)
    for model, settings, message in [
        (TRAINED, {"learn": 1}, "learn=1"),
        (TRAINED, {"learn": True, "room": 1.5}, "room=1.5"),
        (calibrated, {"learn": True}, "CalibratedClassifier"),
    ]:
        with pytest.raises(TypeError, match=message):
            export.c(model, tmp_path / "fan.h", **settings)
    assert not [*tmp_path.iterdir()]


def test_a_model_with_priors_learns_but_does_not_solve(folder):
    model = fitted(LeastSquaresClassifier(1.0, priors="equal"), EYE, ["a", "b", "a"])
    device = Device(model, folder)
    assert "fan_solve" not in (folder / "fan.h").read_text()
    np.testing.assert_allclose(device.answers(EYE)[0], model.scores_many(EYE), atol=1e-6)
