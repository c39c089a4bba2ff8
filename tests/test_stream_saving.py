"""Stream models that a file of version 3 holds predict, learn and warn as if they had stayed."""

import lzma
import pickle
from pathlib import Path

import numpy as np
import pytest

import onlinels
from onlinels import StreamClassifier, StreamRegressor
from onlinels.core.constants import DELAY, LAST_LABEL, ROWS_LEARNT
from support import laws, version_4

FORMER = Path(__file__).with_name("streams_of_version_3.xz")
"""A list of `taught` models of both kinds, written by the last version of format 3."""

FORMAT_4 = version_4.unpacked()
KINDS = StreamClassifier, StreamRegressor
ROWS = [{"a": float(n % 4), "b": "xy"[n % 2], "c": None if n % 3 else 2.0} for n in range(12)]
LATE = {"a": "text", "b": "x"}


def taught(kind):
    """Return a model with late labels, which has warned of a text, and for which rows wait.

    Rows without weight keep the file small: matrices stay diagonal.
    """
    model = kind()
    for row, x in enumerate(ROWS[:8]):
        model.predict_one(x)
        if row >= 2:
            teach(model, row - 2, w=0.0)
    model.predict_one(LATE)
    return model


def teach(model, row, w=1.0):
    target = row % 3
    model.learn_one(ROWS[row], float(target) if isinstance(model, StreamRegressor) else target, w)


def assert_goes_on(found, expected):
    """Assert that a loaded model learns more rows and answers as another."""
    for model in (found, expected):
        for row in range(6, 12):
            teach(model, row)
    assert found.shares == pytest.approx(expected.shares)
    answers = laws.answers_of(expected, ROWS)
    assert laws.answers_of(found, ROWS) == [pytest.approx(each) for each in answers]


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@pytest.mark.parametrize("kind", KINDS)
def test_models_of_version_3_go_on(kind):
    found = onlinels.loads(lzma.decompress(FORMER.read_bytes()))[KINDS.index(kind)]
    expected = taught(kind)
    assert (found.count, found.feature_names) == (expected.count, expected.feature_names)
    assert len(found._state.waiting) == len(expected._state.waiting) == 3
    assert_goes_on(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_what_models_of_version_3_have_said_they_do_not_say_again(kind, recwarn):
    model = onlinels.loads(lzma.decompress(FORMER.read_bytes()))[KINDS.index(kind)]
    model.predict_one(LATE | {"c": 1.0})
    assert not recwarn


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@pytest.mark.parametrize("read", ["models", "pickles"])
@pytest.mark.parametrize("name", ["stream", "stream of numbers"])
def test_models_of_version_4_go_on(name, read):
    found = {"models": onlinels.loads, "pickles": pickle.loads}[read](FORMAT_4[read])[name]
    expected = taught(type(found))
    assert_goes_on(found, expected)


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@pytest.mark.parametrize("last", [-(2.0**40), -2.0, 5.0, 0.5, 2.0**62, 2.0**63, np.nan, np.inf])
def test_a_last_label_without_a_column_is_refused(last):
    model = taught(StreamClassifier)
    model._state.numbers[LAST_LABEL] = last
    with pytest.raises(ValueError, match="StreamClassifier"):
        onlinels.loads(onlinels.dumps(model))


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [ROWS_LEARNT, DELAY])
@pytest.mark.parametrize("count", [-1.0, 0.5])
def test_counts_that_are_none_are_refused(kind, number, count):
    model = taught(kind)
    saved = vars(model)["_state"].numbers.copy()
    saved[number] = count
    state = model._own_state() | {"_numbers": saved}
    with pytest.raises(ValueError, match=r".*"):
        onlinels.loads(onlinels.dumps(unpickled(kind, state)))


def unpickled(kind, state):
    model = kind.__new__(kind)
    model.__setstate__(state)
    return model


@pytest.mark.parametrize("last", [-(10**12), -2, 2.5, None, "0"])
def test_a_last_label_of_a_former_file_without_a_column_is_refused(last):
    saved = {"_count": 8, "_delay": 0, "_last": last}
    with pytest.raises((TypeError, ValueError)):
        StreamClassifier()._state.take_former(saved)
