"""Saved models that somebody made by hand, with checksums that are right: refused, and soon."""

import hashlib
import sys
import tracemalloc
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta, timezone
from io import BytesIO
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from river import compose, feature_extraction, preprocessing

import onlinels
from onlinels import LeastSquaresClassifier, WindowedClassifier, WindowFeatures
from support.untrusted_files import rewritten
from test_damaged_saves import state_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def refused(path, message="cannot be read as a saved model"):
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        onlinels.load(path)
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert allocated < 4 * 2**20 + 50 * path.stat().st_size


def encoded():
    model = preprocessing.OneHotEncoder() | LeastSquaresClassifier()
    for colour in ("red", "blue"):
        model.learn_one({"colour": colour}, colour)
    return model


def after(step):
    def make():
        model = step | LeastSquaresClassifier()
        model.learn_one({"a": 1.0, "text": "red"}, "x")
        return model

    return make


def resampled():
    settings = {"window": 4, "hop": 1, "timestamp": "t", "sample_rate": 20.0}
    model = WindowedClassifier(LeastSquaresClassifier(), **settings)
    for number in range(4):
        model.learn_one({"t": number / 20, "a": 1.0}, "u")
    return model


CONTRADICTIONS = [
    # Ranges stand for no arrays.
    (WindowFeatures, "WindowFeatures", {"filters": {"range": [0, 60_000_000, 1]}}),
    # Missing values are made as the class makes them.
    *(
        (encoded, "river.OneHotEncoder", {"values": {"defaultdict": [], "of": factory}})
        for factory in ("dict", "float", "Mean", "exec", ["set"])
    ),
    # Compiled code is told nothing that it did not say, and patterns to search for are river's.
    *(
        (after(compose.Select("a") | preprocessing.RobustScaler()), f"river.{kind}", parts)
        for kind, parts in (
            ("RsQuantile", {"state": {"bytes": "00"}}),
            ("RsQuantile", {"state": {"bytes": "ff" * 170}}),
            ("RsIQR", {"state": {"bytes": "00" * 400}}),
            ("Quantile", {"_is_updated": 1}),
            ("RobustScaler", {"q_inf": 5.0}),
        )
    ),
    (after(compose.SelectType(float)), "river.SelectType", {"types": {"tuple": ["os.system"]}}),
    (
        after(feature_extraction.BagOfWords("text")),
        "river.BagOfWords",
        {"tokenizer_pattern": "(a+)+b"},
    ),
    (
        after(compose.Select("a") | preprocessing.MinMaxScaler(3)),
        "river.SortedWindow",
        {"data": [2.0]},
    ),
    # A clock is that of its model.
    *(
        (LeastSquaresClassifier, "Clock", parts)
        for parts in (
            {"forgetting_factor": 0.0},
            {"forgetting_factor": 0.5},
            {"forgetting_factor": 2**2000},
            {"half_life": 0},
            {"now": float("inf")},
        )
    ),
]


def changed(model, path, kind, parts):
    """Save a model, and let the state of its first object of a kind say something else."""
    onlinels.save(model, path)

    def change(said):
        state_of(said["model"], kind).update(parts)
        return said

    rewritten(path, change)


@pytest.mark.parametrize(("make", "kind", "parts"), CONTRADICTIONS)
def test_parts_that_contradict_others_are_refused(path, make, kind, parts):
    changed(make(), path, kind, parts)
    refused(path)


@pytest.mark.parametrize("parts", [{"start": -1e5}, {"start": 1e9}, {"time": 1e9}, {"time": 0.1}])
def test_no_position_in_a_stream_lets_many_samples_be_drawn(path, parts):
    model = resampled()
    for odd in (float("-inf"), float("nan"), 2**2000):
        changed(model, path, "StreamState", dict.fromkeys(parts, odd))
        refused(path)
    changed(model, path, "StreamState", parts)
    again = onlinels.load(path)
    again.learn_one({"t": 0.05 + again._state.time, "a": 1.0}, "u")
    assert again.n_windows <= 3
    model.save(path)
    again = onlinels.load(path)
    again.learn_one({"t": 0.2, "a": 1.0}, "u")
    assert again.n_windows == 2


def test_defaultdicts_of_users_come_back_and_ranges_are_refused(path):
    counts = defaultdict(int, {"a": 1})
    onlinels.save({"counts": counts}, path)
    loaded = onlinels.load(path)["counts"]
    assert loaded == counts
    assert loaded["b"] == 0
    with pytest.raises(TypeError, match=r"range\(0, 5\) of type range. It cannot be saved"):
        onlinels.save({"rows": range(5)}, path)
    model = LeastSquaresClassifier()
    model.learn_one({"a": 1.0}, date(2026, 1, 1))
    with pytest.raises(TypeError, match=r"_classes holds datetime.date.*pass str\(label\)"):
        onlinels.save(model, path)


def test_names_of_one_hash_are_few(path):
    modulus = sys.hash_info.modulus
    few = {number * modulus: 1 for number in range(8, 60)}
    onlinels.save(few, path)
    assert onlinels.load(path) == few
    pairs = [[modulus * number, 1] for number in range(8, 20_000)]
    for model in ({"dict": pairs}, {"set": [key for key, _ in pairs]}):
        rewritten(path, lambda said, model=model: said | {"model": model})
        refused(path, "names have one hash")


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


def test_statistics_are_numbers(path):
    model = LeastSquaresClassifier()
    for number in range(20):
        model.learn_one({"a": float(number), "b": float(number % 3)}, "xy"[number % 2])
    for name in ("origin", "offset"):
        for odd in (np.nan, np.inf, 1e300):
            with_array(model, path, name, odd)
            refused(path, rf"{name} is .*, of values up to 1e\+150")
    with_array(model, path, "_cross", np.nan)
    loaded = onlinels.load(path)
    with pytest.raises(ValueError, match="statistics that are not finite numbers"):
        loaded.learn_many([{"a": 1.0}] * 20, ["x", "y"] * 10)


def test_moments_keep_their_time_zone_or_are_refused(path):
    noon = datetime(2024, 10, 26, 12)
    kept = [noon, noon.replace(tzinfo=UTC), noon.replace(tzinfo=timezone(timedelta(hours=2)))]
    onlinels.save(kept, path)
    assert [each.isoformat() for each in onlinels.load(path)] == [each.isoformat() for each in kept]
    for odd in (noon.replace(tzinfo=ZoneInfo("Europe/Berlin")), noon.replace(fold=1)):
        with pytest.raises(TypeError, match="expected UTC, a fixed offset or no time zone"):
            onlinels.save({"t": odd}, path)


def test_a_description_of_nothing_is_refused(path):
    onlinels.save({}, path)
    rewritten(path, lambda said: {})
    refused(path)
