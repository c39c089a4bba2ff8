"""Saved models that somebody made by hand, with checksums that are right: refused, and soon."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
import tracemalloc
import zipfile
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta, timezone
from io import BytesIO
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from river import compose, preprocessing

import onlinels
from onlinels import ConvolutionalFeatures, LeastSquaresClassifier, WindowedClassifier
from onlinels import checks as memory
from test_damaged_saves import state_of
from test_saving import rewritten

LONGEST = 2.0
"""Seconds of the processor that a small file may take, on a busy machine."""


def refused(path, message="cannot be read as a saved model"):
    before = time.process_time()
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        onlinels.load(path)
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - before < LONGEST
    assert allocated < 4 * 2**20 + 50 * path.stat().st_size


def described(path, text):
    """Write a file that holds nothing but a description."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model.json", text)
        file.writestr("model.sha256", hashlib.sha256(text).hexdigest())


@pytest.mark.parametrize(
    "text",
    [
        b'"' + 300_000 * b'\\"',
        300_000 * b"\\",
        b'{"onlinels": "' + 3_000_000 * b"x" + b'", "format": 2, "arrays": {}, "model": {}}',
        b'{"onlinels": ' + 300_000 * b'"a",',
        b"[" + 300_000 * b"[],",
    ],
    ids=["quotes", "backslashes", "long text", "texts", "lists"],
)
def test_descriptions_are_read_in_one_pass(tmp_path, text):
    described(tmp_path / "model.npz", text)
    refused(tmp_path / "model.npz")


def changed(model, path, kind, **parts):
    """Save a model, and let the state of its first object of a kind say something else."""
    onlinels.save(model, path)

    def change(said):
        state_of(said["model"], kind).update(parts)
        return said

    rewritten(path, change)


def test_ranges_stand_for_no_arrays(tmp_path):
    path = tmp_path / "model.npz"
    model = onlinels.WindowFeatures(window_shape=(20,))
    changed(model, path, "WindowFeatures", filters={"range": [0, 60_000_000, 1]})
    refused(path)
    with pytest.raises(TypeError, match=r"range\(0, 5\) of type range. It cannot be saved"):
        onlinels.save({"rows": range(5)}, path)


def encoded():
    model = compose.Pipeline(preprocessing.OneHotEncoder(), LeastSquaresClassifier())
    for colour in ("red", "blue"):
        model.learn_one({"colour": colour}, colour)
    return model


@pytest.mark.parametrize("factory", ["dict", "float", "Mean", "exec", ["set"]])
def test_missing_values_are_made_as_the_class_makes_them(tmp_path, factory):
    path = tmp_path / "model.npz"
    pairs = {"defaultdict": [], "of": factory}
    changed(encoded(), path, "river.OneHotEncoder", values=pairs)
    refused(path)


def test_defaultdicts_of_users_come_back(tmp_path):
    counts = defaultdict(int, {"a": 1})
    onlinels.save({"counts": counts}, tmp_path / "model.npz")
    loaded = onlinels.load(tmp_path / "model.npz")["counts"]
    assert loaded == counts
    assert loaded["b"] == 0


@pytest.mark.parametrize("parts", [{"start": -1e5}, {"start": 1e9}, {"time": 1e9}, {"time": 0.1}])
def test_no_position_in_a_stream_lets_many_samples_be_drawn(tmp_path, parts):
    model = resampled()
    path = tmp_path / "model.npz"
    for odd in (float("-inf"), float("nan"), 2**2000):
        changed(model, path, "StreamState", **dict.fromkeys(parts, odd))
        refused(path)
    changed(model, path, "StreamState", **parts)
    again = onlinels.load(path)
    again.learn_one({"t": 0.05 + again._state.time, "a": 1.0}, "u")
    assert again.n_windows <= 3
    model.save(path)
    again = onlinels.load(path)
    again.learn_one({"t": 0.2, "a": 1.0}, "u")
    assert again.n_windows == 2


def resampled(**settings):
    settings = {"window": 4, "hop": 1, "timestamp": "t", "sample_rate": 20.0} | settings
    model = WindowedClassifier(LeastSquaresClassifier(), **settings)
    for number in range(4):
        model.learn_one({"t": number / 20, "a": 1.0}, "u")
    return model


def test_gaps_that_take_more_memory_than_there_is_are_refused(monkeypatch):
    model = resampled(largest_gap=1e12)
    monkeypatch.setattr(memory, "memory_limit", lambda: 1e6)
    with pytest.raises(ValueError, match=r"A gap of 199,9\d\d,\d+ samples takes .*largest_gap"):
        model.learn_one({"t": 1e7, "a": 1.0}, "u")
    model.learn_one({"t": 0.2, "a": 1.0}, "u")
    assert model.n_windows == 2


def test_names_of_one_hash_are_few(tmp_path):
    modulus = sys.hash_info.modulus
    pairs = [[modulus * number, 1] for number in range(8, 20_000)]
    said = {"onlinels": "1", "format": 2, "model": {"dict": pairs}, "arrays": {}}
    for model in ({"dict": pairs}, {"set": [key for key, _ in pairs]}):
        described(tmp_path / "model.npz", json.dumps(said | {"model": model}).encode())
        refused(tmp_path / "model.npz", "names have one hash")
    few = {number * modulus: 1 for number in range(8, 60)}
    onlinels.save(few, tmp_path / "model.npz")
    assert onlinels.load(tmp_path / "model.npz") == few


@pytest.mark.parametrize(
    "parts",
    [
        {"forgetting_factor": 0.0},
        {"forgetting_factor": 0.5},
        {"forgetting_factor": 2**2000},
        {"half_life": 0},
        {"now": float("inf")},
    ],
)
def test_a_clock_is_that_of_its_model(tmp_path, parts):
    changed(LeastSquaresClassifier(), tmp_path / "model.npz", "Clock", **parts)
    refused(tmp_path / "model.npz")


def learnt():
    model = LeastSquaresClassifier()
    for number in range(20):
        model.learn_one({"a": float(number), "b": float(number % 3)}, "xy"[number % 2])
    return model


def with_array(model, path, name, value):
    """Save a model, and put another number in the first place of one of its arrays."""
    model.save(path)
    with np.load(path) as file:
        changed = next(each for each in file.files if each.endswith(name))
        array = file[changed]
    array.flat[0] = value
    member = BytesIO()
    np.save(member, array)

    def change(said):
        said["arrays"][changed] = hashlib.sha256(member.getvalue()).hexdigest()
        return said

    rewritten(path, change, {f"{changed}.npy": member.getvalue()})


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("name", ["origin", "offset"])
def test_means_are_values(tmp_path, name, odd):
    with_array(learnt(), tmp_path / "model.npz", name, odd)
    refused(tmp_path / "model.npz", r"(origin|offset) is .*, of values up to 1e\+150")


def test_statistics_that_are_no_numbers_leave_no_ridge_to_choose(tmp_path):
    with_array(learnt(), tmp_path / "model.npz", "_cross", np.nan)
    loaded = onlinels.load(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="statistics that are not finite numbers"):
        loaded.learn_many([{"a": 1.0}] * 20, ["x", "y"] * 10)


def test_a_fold_gives_no_more_weight_than_it_has(tmp_path):
    model = LeastSquaresClassifier(ridge=onlinels.KFold(5))
    for number in range(30):
        model.learn_one({"a": float(number)}, number % 2, w=0.01 if number < 29 else 10.0)
    errors = []
    for number in range(20):
        try:
            model.unlearn_one({"a": float(number)}, number % 2, w=0.05)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 10
    assert all(re.match(r"In fold \d [Tt]he .* to be taken out is", each) for each in errors)
    model.save(tmp_path / "model.npz")
    assert onlinels.load(tmp_path / "model.npz").count == 10 + len(errors)


def test_errors_name_the_part_that_cannot_be_saved(tmp_path):
    model = LeastSquaresClassifier()
    model.learn_one({"a": 1.0}, ("a", ("b", date(2020, 1, 1))))
    with pytest.raises(TypeError, match=r"holds .*datetime.date\(2020, 1, 1\).* of type"):
        model.save(tmp_path / "model.npz")
    model = LeastSquaresClassifier()
    model._statistics._weight = -1.0
    with pytest.raises(TypeError, match=r"_weight is -1.0, expected a number of at least 0"):
        model.save(tmp_path / "model.npz")


@pytest.mark.parametrize("t", [np.ma.masked, np.ma.array([1.0], mask=[True])])
def test_masked_times_are_refused(t):
    model = LeastSquaresClassifier(half_life=3.0)
    with pytest.raises(ValueError, match="t holds masked times"):
        model.learn_one({"a": 1.0}, "x", t=t)
    assert model.count == 0


@pytest.mark.parametrize("nested", [("a", float("nan")), (("a", (float("nan"),)), 1)])
def test_what_cannot_be_found_again_is_no_name_and_no_label(tmp_path, nested):
    model = LeastSquaresClassifier()
    model.learn_one({"a": 1.0}, "u")
    for act in (
        lambda: model.learn_one({nested: 1.0}, "u"),
        lambda: model.learn_one({"a": 1.0}, nested),
        lambda: model.learn_many(np.ones((2, 1)), [nested, "u"]),
        lambda: onlinels.StreamClassifier().learn_one({nested: 1.0}, "u"),
        lambda: onlinels.StreamClassifier().learn_one({"a": 1.0}, nested),
    ):
        with pytest.raises(ValueError, match=r"equals itself|NaN"):
            act()
    assert (model.count, model.classes, model.feature_names) == (1, ("u",), ("a",))


def test_moments_keep_their_time_zone_or_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    noon = datetime(2024, 10, 26, 12)
    kept = [noon, noon.replace(tzinfo=UTC), noon.replace(tzinfo=timezone(timedelta(hours=2)))]
    onlinels.save(kept, path)
    assert [each.isoformat() for each in onlinels.load(path)] == [each.isoformat() for each in kept]
    for odd in (noon.replace(tzinfo=ZoneInfo("Europe/Berlin")), noon.replace(fold=1)):
        with pytest.raises(TypeError, match="expected UTC, a fixed offset or no time zone"):
            onlinels.save({"t": odd}, path)


def test_maps_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(memory, "memory_limit", lambda: 1e8)
    image = np.ones((1, 8, 8))
    with pytest.raises(ValueError, match=r"1,208 x 1,208 with their padding.*Lower padding"):
        ConvolutionalFeatures(padding=600).transform_many(image)
    with pytest.raises(ValueError, match="Lower padding"):
        ConvolutionalFeatures(padding=2**40).transform_many(image)
    assert ConvolutionalFeatures(padding=4).transform_many(image).shape[0] == 1
