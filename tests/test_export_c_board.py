"""Headers of `onlinels.export.c` on an emulated Cortex-M4: labels, sums and instructions."""

import numpy as np
import pytest
from device.__main__ import Fan
from device.board import HERE, build, instructions, missing, run

from onlinels import LeastSquaresClassifier, difference, export
from onlinels.devices import device_weights, read_device
from support.laws import fitted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(True) or missing(False)), reason=missing(True) or "no cc"),
]

LABELS, N_ROWS = np.array(["still", "running", "blocked"]), 1500
SIZES = [8, 16, 32, 64, 96]
MOST_TO_PREDICT = {8: 300, 16: 450, 32: 750, 64: 1_300, 96: 1_900}
MOST_TO_LEARN = {"int16": 20_000, "float32": 30_000}
"""Instructions a row, of a model that only predicts, and at 64 features of one that learns."""


def rows_of(m, seed=0):
    """Return whole numbers (n_rows, m), and labels that they do not always tell."""
    random = np.random.default_rng(seed)
    places = random.integers(0, 3, N_ROWS)
    centres = 1.5 * random.normal(size=(3, m)) / m**0.5
    X = np.rint(300.0 * (centres[places] + random.normal(size=(N_ROWS, m))))
    return X, LABELS[places].tolist()


@pytest.mark.parametrize("m", SIZES)
def test_a_model_predicts_as_on_this_machine(tmp_path, m):
    X, y = rows_of(m)
    X = (X / 7.0).astype(np.float32)
    model = fitted(LeastSquaresClassifier(), X.astype(float), y)
    export.c(model, tmp_path / "fan.h")
    flags = f"-DM={m}", "-DVALUE=float", '-DMODEL="fan.h"', "-DPREDICT(x)=fan_predict(x)", "-Werror"
    found = []
    for on_board in (False, True):
        program = build(HERE / "answers.c", tmp_path, *flags, on_board=on_board)
        found.append([model.classes[place] for place in run(program, X.tobytes())])
    assert found[0] == found[1] == model.predict_many(X.astype(float)).tolist()
    assert 0.5 < np.mean(np.array(y) == found[0]) < 0.95
    assert 100 < instructions(tmp_path)[0] < MOST_TO_PREDICT[m]


@pytest.mark.parametrize("rows", ["int16", "float32"])
@pytest.mark.parametrize("m", SIZES)
def test_a_device_learns_and_predicts_as_on_this_machine(tmp_path, m, rows):
    X, y = rows_of(m)
    X = (X / {"int16": 1.0, "float32": 7.0}[rows]).astype(rows)
    exported = fitted(LeastSquaresClassifier(ridge=1.0), X[:9].astype(float), ["still"] * 9)
    here, found = fitted(exported.empty(), X.astype(float), y), []
    weights = device_weights(here, exported, 1)
    for on_board in (False, True):
        folder = tmp_path / f"{on_board}"
        folder.mkdir()
        export.c(exported, folder / "fan.h", learn=True, rows=rows, room=2)
        flags = ["-Werror", *(["-DSOLVES"] * (m <= 32))]
        fan = Fan(build(HERE / "fan.c", folder, *flags, on_board=on_board), np.ones(m))
        for label in LABELS:
            fan.learn(label, X[np.array(y) == label])
        to_learn = instructions(folder)[0]
        found.append([fan.sent(1), fan.predict(X, before=b"O")])
        assert fan.take(weights)
        found[-1].append(fan.predict(X))
    assert found[0] == found[1]
    sums, alone, labels = found[1]
    read = read_device(sums, exported)
    assert read.rows == N_ROWS
    assert difference(read.model, here) < (1e-9 if rows == "int16" else 1e-3)
    assert labels == here.predict_many(X.astype(float)).tolist()
    assert m > 32 or np.mean(np.array(alone) == labels) > 0.99
    assert 100 < to_learn < 2_000 + MOST_TO_LEARN[rows] * (m / 64) ** 2
    assert 100 < instructions(folder)[1] < 2 * MOST_TO_PREDICT[m]
