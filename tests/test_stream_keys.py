"""Labels that come late find their forecasts: by what the samples say, or by the keys of rows.

Rows with keys are learnt as they were predicted: equal or rounded, in any order, or never.
"""

import copy
import datetime as dt
import itertools
import random
import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, metrics, preprocessing

import onlinels
from onlinels import StreamClassifier, StreamRegressor, core
from onlinels.pipelines import ask
from onlinels.stream import base, waiting
from onlinels.stream.waiting import Waiting
from support import laws, strategies
from support.fault_injection import assert_before_or_after
from support.streams import COPIES, KINDS, assert_alike, kinds, rows_of

# -- the order of rows ----------------------------------------------------------------------------

CORES = {"compiled": core.StreamRows, "numpy": None}
KEYS = st.recursive(
    st.one_of(st.text(max_size=3), st.integers(), st.binary(max_size=3)),
    lambda keys: st.lists(keys, max_size=2).map(tuple),
    max_leaves=3,
)


class Told(dict):
    """A sample that tells the number of its row, by which its forecast is found."""

    number: int


def told(x, number):
    sample = Told(x)
    sample.number = number
    return sample


@pytest.fixture
def order_is_told():
    """Let models find the forecast of a `Told` by its number, without keys."""
    known = base.sample_key
    with mock.patch.object(base, "sample_key", lambda x: x.number if type(x) is Told else known(x)):
        yield


def rounded(x):
    return {name: round(v, 1) if isinstance(v, float) else v for name, v in x.items()}


def learn(model, key, x, y, w, draw):
    """Learn a row with a key in one of the ways: with a rounded sample, with none, without one."""
    if draw.random() < 0.5:
        model.learn_late(key, y, w)
    else:
        model.learn_one(draw.choice([x, rounded(x), {}]), y, w, key=key)


@pytest.mark.usefixtures("order_is_told")
@pytest.mark.filterwarnings("ignore::onlinels.DataWarning")
@pytest.mark.parametrize("core", CORES)
@kinds
@strategies.examples(40)
@given(st.data())
def test_a_model_with_keys_is_the_model_that_is_told_the_order(kind, core, data):
    """Equal rows, rounded rows, gaps, new names and classes, in any order; some never learnt.

    A forecast answers for its row as it did first, whatever was learnt since.
    """
    stream, settings = data.draw(kind.streams(weighed=True)), data.draw(kind.settings)
    keys = data.draw(st.lists(KEYS, min_size=len(stream), max_size=len(stream), unique=True))
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    model, expected, pending, answers = kind.make(**settings), kind.make(**settings), {}, {}
    share_equal, pace = draw.choice([0.0, 0.5]), draw.choice([0.3, 1.0, 1.5])
    with mock.patch.object(base, "StreamRows", CORES[core]):
        for number, x in enumerate(stream.samples):
            x = draw.choice(stream.samples[: number + 1]) if draw.random() < share_equal else x
            if draw.random() < 0.1:
                assert [q(model, x) for q in kind.questions] == [
                    q(expected, x) for q in kind.questions
                ]
                continue
            question = draw.choice(kind.questions)
            answer = question(model, x, key=keys[number])
            assert answer == question(expected, told(x, number))
            assert question(model, dict(x), key=keys[number]) == answer
            answers[number] = [each(model, x, key=keys[number]) for each in kind.questions]
            pending[number] = x
            while pending and draw.random() < pace / (1.0 + pace):
                late = draw.choice([*pending])
                x = pending.pop(late)
                if draw.random() < 0.1:
                    model.drop(keys[late])
                    continue
                y, w = stream.labels[late], stream.w[late]
                learn(model, keys[late], x, y, w, draw)
                expected.learn_one(told(x, late), y, w)
            if draw.random() < 0.1:
                model = draw.choice([*COPIES.values()])(model)
            assert model.waiting.keys == tuple(keys[late] for late in pending)
    for number, x in pending.items():
        assert [each(model, x, key=keys[number]) for each in kind.questions] == answers[number]
    assert_alike(model, expected, stream.samples)


def test_keys_of_other_types_are_other_keys_and_equal_ones_are_one():
    model, x = StreamClassifier(), {"a": 1.0}
    keys = 1, "1", b"1", (1,), ("1",), ((1,),), (), "", 10**400, -1, "\ud800", b"\x00\xff"
    for key in keys:
        model.predict_one(x, key=key)
    # Types that equal plain ones, as columns of tables have them.
    for key in (np.int64(1), (np.str_("1"),)):
        model.predict_one(x, key=key)
    assert model.waiting.keys == keys
    restored = COPIES["file"](model)
    assert restored.waiting == model.waiting
    assert [*map(type, restored.waiting.keys)] == [*map(type, keys)]
    for key in keys:
        restored.learn_late(key, "label")
        # The key may be used again.
        restored.predict_one(x, key=key)
        restored.drop(key)
    assert restored.waiting == StreamClassifier().waiting


@kinds
def test_the_oldest_forecast_of_its_kind_makes_room(kind):
    model, rows = kind.make(max_waiting=4), rows_of(kind, 40)
    for number, (x, _) in enumerate(rows[:3]):
        model.predict_one(x, key=number)
    laws.answers_of(model, [x for x, _ in rows])
    for x, _ in rows:
        model.predict_one(x)
    for restored in (make(model) for make in COPIES.values()):
        assert (restored.waiting.n_forecasts, restored.waiting.keys) == (3 + 4, (0, 1, 2))
        for number, (x, _) in enumerate(rows[3:6], 3):
            restored.predict_one(x, key=number)
        assert (restored.waiting.n_forecasts, restored.waiting.keys) == (4 + 4, (2, 3, 4, 5))
        message = "key=0 has no forecast.* more than 4 with"
        laws.assert_refused(lambda r=restored: r.learn_late(0, 1.0), restored, message)
    assert model.waiting.keys == (0, 1, 2)
    assert (model.clone().max_waiting, kind.make().max_waiting) == (4, 4096)


@pytest.mark.parametrize("has_key", [False, True])
def test_forecasts_that_made_room_take_no_memory(has_key):
    model, sizes = StreamClassifier(max_waiting=50), []
    for number in range(1000, 1400):
        model.predict_one({"a": 0.001 * number}, key=number if has_key else None)
        sizes.append(model._raw_memory_usage)
    assert sizes[-1] < sizes[60] + 8192


# -- refusals -------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_known", [0, 3])
def test_rows_that_could_never_be_learnt_are_refused_when_they_are_asked(kind, n_known):
    model, wide = kind.make(max_features=10), {f"new {n}": 1.0 for n in range(20)}
    for x, y in rows_of(kind, n_known):
        model.learn_one(x, y)
    laws.assert_refused(lambda: model.predict_one(wide, key=1), model, "max_features=10 leaves")
    model.predict_one(wide)
    most = {f"new {n}": 1.0 for n in range(10 - len(model.feature_names))}
    model.predict_one(most, key=1)
    model.learn_late(1, 1.0)
    assert len(model.feature_names) == 10


def test_large_and_deep_keys_are_refused():
    model, deep, endless = StreamClassifier(), (), ()
    for _ in range(19):
        deep = (deep,)
    for key in (deep, "a" * 4096, b"\xff" * 4096, -(10**3600), ("a",) * 2048):
        model.predict_one(X, key=key)
    restored = COPIES["file"](model)
    for key in model.waiting.keys:
        restored.learn_late(key, "label")
    for _ in range(10**5):
        endless = (endless,)
    for key in ((deep,), endless, "a" * 4097, 10**5000, ("a",) * 3000, ((1,) * 100,) * 100):
        laws.assert_refused(lambda key=key: model.predict_one(X, key=key), model, "^key.* is too")


def test_misspelt_keywords_are_refused():
    for model in (StreamClassifier(), onlinels.LeastSquaresClassifier()):
        for question in (model.predict_one, model.predict_proba_one):
            assert not question(X, w=2.0)  # As river passes it.
            laws.assert_refused(lambda ask=question: ask(X, kye=1), model, "'kye' is", TypeError)
    laws.assert_refused(lambda: model.predict_one(X, key=1), model, "'key' is an", TypeError)
    model = StreamRegressor()
    laws.assert_refused(lambda: model.predict_one(X, "order 1"), model, "with_dist", TypeError)
    assert model.predict_one(X, np.bool_(True)).mu == 0.0


def prepared(kind):
    """Return a model that has learnt rows, some late, and for which rows with keys wait."""
    model, rows = kind.make(), rows_of(kind, 30)
    for number, (x, _) in enumerate(rows):
        model.predict_one(x, key=number)
        if number >= 4 and number % 2:
            model.learn_late(number - 4, rows[number - 4][1])
    return model


X = {"a": 0.5, "b": 1.0}
BAD_KEYS = 1.0, True, 2.5, [1], {"a": 1}, (1, 2.0), ("a", (None,)), np.float64(1), np.bool_(True)
BAD = [
    *[(lambda m, key=key: m.predict_one(X, key=key), "key is of type") for key in BAD_KEYS],
    (lambda m: m.predict_one(X, key=dt.date(2026, 1, 2)), r"type date.*Pass str\(key\)"),
    (lambda m: m.predict_one(X, key=28), "key=28 waits for the label of another sample"),
    (lambda m: m.predict_one([1.0], key="k"), "x is of type list"),
    (lambda m: m.predict_one({"a": 1e200}, key="k"), r"x\['a'\] is 1e\+200"),
    (lambda m: m.predict_one({"a": [1.0]}, key="k"), r"x\['a'\]"),
    (lambda m: m.predict_one({2j: 1.0}, key="k"), "has no fixed spelling"),
    (lambda m: m.learn_one(X, None, key=28), "y"),
    (lambda m: m.learn_one([1.0], 1, key=28), "x is of type list"),
    (lambda m: m.learn_one(X, 1, -1.0, key=28), "w"),
    *[(lambda m, key=key: m.drop(key), "^key") for key in ("never", 3, None, 28.0)],
    *[(lambda m, key=key: m.learn_late(key, 1), "^key") for key in ("never", 3, None, 28.0)],
    *[(lambda m, key=key: m.learn_one(X, 1, key=key), "^key") for key in ("never", 3, 28.0)],
]


@kinds
def test_bad_calls_leave_no_trace(kind):
    blank = kind.make()
    blank.predict_one({"c": 1.0}, key=28)
    for model, (call, message) in itertools.product((blank, prepared(kind)), BAD):
        laws.assert_refused(lambda m=model, c=call: c(m), model, message, (TypeError, ValueError))


@kinds
def test_a_row_that_is_learnt_or_dropped_leaves_no_trace_in_a_file(kind):
    model, ((_, y), *rows) = kind.make(), rows_of(kind, 9)
    for x, label in rows:
        model.learn_one(x, label)
    before = laws.saved(laws.unasked(model))
    for key in ("who learns", "who is dropped", "who waits"):
        model.predict_one({"text": f"said by {key}", "a": 0.1}, key=key)
    model.drop("who is dropped")
    assert laws.saved(laws.unasked(model)) == before
    model.learn_one({}, y, w=0.0, key="who learns")
    held = laws.stored_bytes(model)
    assert b"who is dropped" not in held
    assert b'"who learns"' not in held
    assert b"said by who waits" in held


# -- pipelines, evaluation, interrupts and files --------------------------------------------------


def test_outputs_of_a_transformer_keep_their_names():
    model = onlinels.HiddenLayer(3) | StreamClassifier()
    other = model.clone()
    for number in range(6):
        x = {"image": np.array([0.1 * number, 1.0])}
        assert model.predict_one(x, key=number) == other.predict_one(x)
        model.learn_one(x, "ab"[number % 2], key=number)
        other.learn_one(x, "ab"[number % 2])
    names = model["StreamClassifier"].feature_names
    assert names == other["StreamClassifier"].feature_names == ("h0", "h1", "h2")


def test_pipelines_pass_keys_and_scalers_before_the_model_do_no_harm():
    """The sample that is learnt is the one that was predicted, before the scaler went on."""
    rows = rows_of(KINDS["numbers"], 60)
    scaled = preprocessing.StandardScaler() | StreamRegressor()
    last, direct, scaler = scaled["StreamRegressor"], StreamRegressor(), scaled[0].clone()
    for number, (x, _) in enumerate(rows):
        expected = direct.predict_one(scaler.transform_one(x), key=number)
        assert scaled.predict_one(x, key=number) == expected
        ask(scaled, "predict_interval_one", x, level=0.5, key=number)
        if number >= 5:
            late, y = rows[number - 5]
            scaled.learn_one(late, y, key=number - 5)
            scaler.learn_one(late)
            direct.learn_late(number - 5, y)
    told = ask(scaled, "waiting")
    assert (told.n_forecasts, told.oldest_age) == (5, 5)
    for change in ("drop", "learn_late", "learn_one"):
        call = lambda name=change: ask(scaled, name, None, 57)  # noqa: E731
        laws.assert_refused(call, last, "does not change")
    # The scaler has learnt rows since, and the model does not see the sample before the scaler.
    laws.assert_refused(lambda: scaled.predict_one(rows[57][0], key=57), last, "another sample")
    assert_alike(last, direct, [x for x, _ in rows[:4]])


def test_rivers_own_evaluation_passes_keys_of_the_stream():
    rows = [(x, y, {"key": f"row {n}"}) for n, (x, y) in enumerate(rows_of(KINDS["numbers"], 40))]
    evaluate.progressive_val_score(iter(rows), model := StreamRegressor(), metrics.MAE(), delay=7)
    assert (model.count, model.waiting.n_forecasts) == (40, 0)


ACTS = {
    "a forecast": lambda m, x, y: m.predict_one({"a": 0.5, "new": 1.0}, key="k"),
    "a forecast again": lambda m, x, y: m.predict_one(x, key=28),
    "a label": lambda m, x, y: m.learn_late(28, y),
    "a label with a sample": lambda m, x, y: m.learn_one(X, y, 0.5, key=28),
    "no label": lambda m, x, y: m.drop(28),
    "a file": lambda m, x, y: laws.saved(m),
}


@pytest.mark.parametrize("most", [4, pytest.param(400, marks=pytest.mark.slow)])
@kinds
@pytest.mark.parametrize("act", ACTS)
def test_interrupted_calls_have_happened_or_have_not(kind, act, most):
    row = rows_of(kind, 30)[28]

    def go_on(model):
        for x, y in rows_of(kind, 3, seed=1):
            model.predict_one(x, key="next")
            model.learn_late("next", y)
        model.learn_late(model.waiting.keys[-1], y)

    def tell(model):
        (answer,) = laws.answers_of(laws.unasked(model), [X])
        return [*dict(enumerate(answer)), *answer], model.count, repr(model.waiting.keys)

    act_on_row = ACTS[act]
    assert_before_or_after(prepared(kind), lambda m: act_on_row(m, *row), go_on, tell, most, act)


class Changing(dict):
    """A sample that changes the model while it is read."""

    def items(self):
        self.change()
        return super().items()


class ChangingLabel(str):
    """A label that changes the model while it is read."""

    def __hash__(self):
        self.change()
        return super().__hash__()


CHANGES = [
    lambda m, x: m.learn_one(x, "y"),
    lambda m, x: m.drop(28),
    lambda m, x: m.predict_one(x, key="k"),
]
CALLS = [lambda m, x, y: m.predict_one(x, key="k"), lambda m, x, y: m.learn_late(28, y)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", CALLS)
def test_a_change_while_arguments_are_read_comes_before_the_call(change, call):
    (other, _), (x, _) = rows_of(KINDS["labels"], 2, seed=1)
    model = prepared(KINDS["labels"])
    expected, changes = copy.deepcopy(model), iter([lambda: change(model, other)])
    sample, label = Changing(x), ChangingLabel("n")
    sample.change = label.change = lambda: next(changes, int)()
    change(expected, other)
    found, told = (
        laws.outcome(call, *each) for each in ((model, sample, label), (expected, x, "n"))
    )
    assert found == told
    assert laws.saved(model) == laws.saved(expected)


@kinds
def test_files_without_spreads_answer_as_of_today(kind):
    model, (x, _) = prepared(kind), rows_of(kind, 30)[28]
    expected = model.predict_one(x, key=28)
    saved = model._state.waiting.__getstate__()
    del saved["_spreads"]
    model._state.waiting.__setstate__(saved)
    assert model.predict_one(x, key=28) == expected
    for question in kind.questions:
        assert question(model, x, key=28) == question(model, x, key=28)
        assert "nan" not in repr(question(model, x, key=28))


def forged(place, value):
    """Return what changes the key, the place of the names or the values of the first row."""

    def damage(state):
        first, *others = state["_keyed"]
        return {"_keyed": [[*first[:place], value, *first[place + 1 :]], *others]}

    return damage


DAMAGES = [
    lambda state: {"_keyed": []},
    lambda state: {"_names": []},
    lambda state: {"_names": [{"a": None}]},
    lambda state: {"_keyed": [*state["_keyed"], [99, *state["_keyed"][0][1:]]]},
    lambda state: {"_keyed": [state["_keyed"][0]] * len(state["_keyed"])},
    lambda state: {"_waiting": np.abs(state["_waiting"])},
    lambda state: {"_spreads": -state["_spreads"] - 1.0},
    lambda state: {"_matches": np.zeros(3)},
    lambda state: {"_matches": -1 - state["_matches"]},
    lambda state: {"_matches": np.zeros((2, 7))},
    *[forged(0, key) for key in (True, 1.0, None, [1], float("nan"), ("a", 1.0))],
    *[forged(1, place) for place in (10**9, -7, 0.5, None)],
    *[forged(2, each) for each in ([], [1e300] * 3, [1.0, [3.0], 2.0], [np.inf] * 3, [1j] * 3)],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_keys_and_samples_are_refused(damage):
    state = prepared(KINDS["labels"])._state.waiting.__getstate__()
    Waiting().__setstate__(state)
    with pytest.raises((TypeError, ValueError, IndexError)):
        Waiting().__setstate__(state | damage(state))


@pytest.mark.parametrize("most", [3, -1, 0.5, None])
def test_a_file_in_which_more_wait_than_may_is_refused(most):
    model = prepared(KINDS["numbers"])
    vars(model)["max_waiting"] = most
    for copied in (COPIES["file"], COPIES["pickle"]):
        with pytest.raises((TypeError, ValueError)):
            copied(model)


def test_keys_of_one_hash_are_few_in_a_file():
    model = StreamClassifier()
    for number in range(101):
        model.predict_one({}, key=number * (2**61 - 1))
    with pytest.raises(ValueError, match=r"StreamClassifier|same hash"):
        COPIES["file"](model)


# -- labels without keys --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "other", "are_equal"),
    [
        ({}, {"1": 2.0}, False),
        ({1: 2.0}, {"1": 2.0}, False),
        ({"a": "2.0"}, {"a": 2.0}, False),
        ({"a": ""}, {"a": None}, False),
        ({"b": np.ones(2)}, {"b": np.array([1.0, 2.0])}, False),
        # Of texts, only the first 64 have columns.
        ({"id": "new", "v": 1.0}, {"id": "newer", "v": 1.0}, False),
        ({"v": 0.0}, {"w": 0.0}, False),
        ({"a": 0.0}, {"a": -0.0}, True),
        ({"a": None}, {"a": -np.nan}, True),
        ({1: 2.0}, {np.int64(1): 2}, True),
        ({1.0: 2.0}, {True: 2.0}, True),
    ],
)
@pytest.mark.filterwarnings("ignore:Texts among numbers")
def test_labels_find_forecasts_of_equal_samples_not_of_equal_rows(sample, other, are_equal):
    model = StreamClassifier()
    for number in range(70):
        model.learn_one({"id": f"text {number}", "v": float(number), "w": 0.5, "a": 1.0}, "y")
    model.predict_one(sample)
    model.learn_one(other, "y")
    assert model.waiting.n_forecasts == (not are_equal)


# Beginnings of equal length.
LOST, UNSURE = "Many labels", "Many rows e"


@pytest.fixture
def few_labels(monkeypatch):
    """Let models judge 40 labels at once instead of 500."""
    for name, value in {"N_JUDGED_LABELS": 40, "MANY_LABELS": 4, "NEARLY_ALL_LABELS": 36}.items():
        monkeypatch.setattr(waiting, name, value)


def values_of(n_rows, n_values=0):
    """Return samples of one feature, with one of some values or any, and their labels."""
    random = np.random.default_rng(0)
    values = random.integers(n_values, size=n_rows) if n_values else random.normal(size=n_rows)
    return [({"a": float(value)}, float(row // 25 % 3)) for row, value in enumerate(values)]


def warned(act):
    """Return the warnings of an act."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        act()
    return [str(each.message) for each in caught]


def learn_late(model, rows, delay, n_labels=None, changed=None, n_asked=1, copied=None):
    """Let a model predict rows, and copies of it learn them later; return the warnings."""

    def act(model):
        for row, (x, _) in enumerate(rows):
            for _ in range(n_asked):
                model.predict_one(x)
            late = row - delay
            for _ in range((n_labels(late) if n_labels else 1) if late >= 0 else 0):
                x, y = rows[late]
                model.learn_one(changed(late, x) if changed else x, y)
            model = copied(model) if copied else model

    return warned(lambda: act(model))


@kinds
def test_a_model_warns_if_a_tenth_of_the_last_500_labels_finds_no_forecast(kind):
    half = lambda row, x: rounded(x) if row % 2 else x  # noqa: E731
    (message,) = learn_late(kind.make(), values_of(540), 30, changed=half, n_asked=2)
    assert message.startswith(LOST)
    assert "Of the last 500 rows learnt, 250 had not been predicted, and 280 forecasts" in message
    (message,) = learn_late(kind.make(), values_of(820, 8), 300)
    assert message.startswith(UNSURE)


SOME, A_THIRD, TWICE = lambda row: row * row % 11 < 5, lambda row: row % 3 == 0, lambda row: 2
ALL_ROUNDED = lambda row, x: rounded(x)  # noqa: E731
A_FIFTH_ROUNDED = lambda row, x: x if 100 < row < 190 or row % 5 else rounded(x)  # noqa: E731


@pytest.mark.usefixtures("few_labels")
@pytest.mark.parametrize(
    ("n_rows", "n_values", "delay", "how", "expected"),
    [
        # Once, until labels find their forecasts again; after any number of files.
        (290, 0, 20, {"changed": A_FIFTH_ROUNDED}, [LOST] * 2),
        (100, 0, 10, {"changed": ALL_ROUNDED, "copied": COPIES["file"]}, [LOST]),
        # Labels of equal rows, of which some come, or many at once.
        (150, 3, 24, {"n_labels": SOME}, [UNSURE]),
        (150, 8, 24, {"n_labels": SOME}, [UNSURE]),
        # Labels in order, at once, of some rows alone, or of rows that are learnt twice.
        (150, 0, 20, {}, []),
        (150, 18, 10, {}, []),
        (150, 0, 20, {"n_asked": 2}, []),
        (150, 0, 0, {}, []),
        (150, 3, 0, {}, []),
        (150, 0, 20, {"n_labels": A_THIRD}, []),
        (150, 0, 0, {"n_labels": A_THIRD}, []),
        (150, 0, 4, {"n_labels": TWICE}, []),
        (150, 3, 0, {"n_labels": TWICE}, []),
    ],
)
def test_a_model_warns_of_labels_that_do_not_find_their_forecasts(
    n_rows, n_values, delay, how, expected
):
    found = learn_late(StreamClassifier(), values_of(n_rows, n_values), delay, **how)
    assert [each[: len(LOST)] for each in found] == expected


@pytest.mark.usefixtures("few_labels")
@pytest.mark.parametrize(("changed", "expected"), [(dict, []), (rounded, [LOST])])
def test_a_model_warns_of_forecasts_lost_in_batches_that_are_predicted_twice(changed, expected):
    samples, y = map(list, zip(*values_of(360), strict=True))
    model = laws.fitted(StreamClassifier(), samples[:200], y[:200])

    def act():
        for start in range(200, 360, 20):
            X = samples[start : start + 20]
            model.predict_many(X)
            model.predict_many(X)
            model.learn_many([*map(changed, X)], y[start : start + 20])

    assert [each[: len(LOST)] for each in warned(act)] == expected


@pytest.mark.usefixtures("few_labels")
def test_a_model_does_not_warn_of_rows_that_nobody_predicted():
    """A history after some predictions and late labels, or equal rows."""
    model, rows = StreamClassifier(), values_of(200)
    assert learn_late(model, rows[:30], 10) == []
    laws.fitted(model, *map(list, zip(*rows[30:], strict=True)))
    laws.fitted_by_row(StreamClassifier(), *zip(*values_of(100, 3), strict=True))
