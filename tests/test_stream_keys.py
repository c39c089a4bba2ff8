"""Rows with keys are learnt as they were predicted: equal or rounded, in any order, or never."""

import copy
import datetime as dt
import pickle
import random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, metrics, preprocessing

import onlinels
from onlinels import StreamClassifier, StreamRegressor, core
from onlinels.pipelines import ask
from onlinels.stream import base
from onlinels.stream.waiting import Waiting, plain_sample
from support import laws, strategies
from support.fault_injection import assert_before_or_after

KINDS = StreamClassifier, StreamRegressor
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


QUESTIONS = {
    StreamClassifier: ("predict_one", "predict_proba_one", "scores_one", "margin_one"),
    StreamRegressor: ("predict_one", "predict_interval_one"),
}


def all_answers(model, x, key):
    """Return the answers to all questions about a row with a key."""
    answers = [getattr(model, question)(x, key=key) for question in QUESTIONS[type(model)]]
    if isinstance(model, StreamRegressor):
        answers.append(model.predict_interval_one(x, 0.5, key=key))
        normal = model.predict_one(x, True, key=key)
        answers.append((normal.mu, normal.sigma))
    return answers


WAYS = {
    "copy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "file": lambda m: onlinels.loads(onlinels.dumps(m)),
}


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
@pytest.mark.parametrize("kind", KINDS)
@strategies.examples(40)
@given(st.data())
def test_a_model_with_keys_is_the_model_that_is_told_the_order(kind, core, data):
    """Equal rows, rounded rows, gaps, new names and classes, in any order; some never learnt."""
    drawn = strategies.streams if kind is StreamClassifier else strategies.number_streams
    stream = data.draw(drawn(weighed=True))
    keys = data.draw(st.lists(KEYS, min_size=len(stream), max_size=len(stream), unique=True))
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    model, expected, pending, answers = kind(), kind(), [], {}
    share_equal, pace = draw.choice([0.0, 0.5]), draw.choice([0.3, 1.0, 1.5])
    with mock.patch.object(base, "StreamRows", CORES[core]):
        for number, x in enumerate(stream.samples):
            x = draw.choice(stream.samples[: number + 1]) if draw.random() < share_equal else x
            question = draw.choice(QUESTIONS[kind])
            answer = getattr(model, question)(x, key=keys[number])
            assert answer == getattr(expected, question)(told(x, number))
            assert getattr(model, question)(dict(x), key=keys[number]) == answer
            answers[number] = all_answers(model, x, keys[number])
            pending.append((number, x))
            while pending and draw.random() < pace / (1.0 + pace):
                late, x = pending.pop(draw.randrange(len(pending)))
                if draw.random() < 0.1:
                    model.drop(keys[late])
                    continue
                y, w = stream.labels[late], stream.w[late]
                learn(model, keys[late], x, y, w, draw)
                expected.learn_one(told(x, late), y, w)
            if draw.random() < 0.1:
                model = WAYS[draw.choice([*WAYS])](model)
            assert model.waiting.keys == tuple(keys[late] for late, _ in sorted(pending, key=first))
    for number, x in pending:
        assert all_answers(model, x, keys[number]) == answers[number]
    assert model.waiting.n_forecasts == len(pending)
    laws.assert_alike_streams(model, expected, stream.samples)


def first(pair):
    return pair[0]


def rows_of(kind, n_rows, seed=0):
    """Return samples that all differ, with their labels or targets."""
    values = np.random.default_rng(seed).normal(size=(n_rows, 3)).tolist()
    made = [dict(zip("abc", row, strict=True)) for row in values]
    return [(x, x["a"] if kind is StreamRegressor else "yn"[x["a"] > x["b"]]) for x in made]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", [0, 1, 20])
def test_keys_change_nothing_where_samples_tell_rows_apart(kind, delay):
    with_keys, without, rows = kind(), kind(), rows_of(kind, 120)
    for number, (x, y) in enumerate(rows):
        assert with_keys.predict_one(x, key=number) == without.predict_one(x)
        if number >= delay:
            x, y = rows[number - delay]
            with_keys.learn_one(x, y, key=number - delay)
            without.learn_one(x, y)
    assert with_keys.waiting.n_forecasts == without.waiting.n_forecasts == delay
    assert with_keys.waiting.oldest_age == without.waiting.oldest_age == delay
    laws.assert_alike_streams(with_keys, without, [x for x, _ in rows[:5]])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_and_without_keys_do_not_meet(kind):
    model, ((x, y), (other, _)) = kind(), rows_of(kind, 2)
    model.learn_one(other, y)
    model.predict_one(x)
    model.predict_one(x, key=1)
    model.learn_one(x, y)
    assert model.waiting.keys == (1,)
    model.predict_one(x)
    model.learn_late(1, y)
    assert (model.waiting.n_forecasts, model.waiting.keys) == (1, ())


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_other_types_are_other_keys_and_equal_ones_are_one(kind):
    model, ((x, y), *_) = kind(), rows_of(kind, 1)
    keys = 1, "1", b"1", (1,), ("1",), ((1,),), (), "", 10**400, -1, "\ud800", b"\x00\xff"
    for key in keys:
        model.predict_one(x, key=key)
    assert model.waiting.keys == keys
    # Types that equal plain ones, as columns of tables have them.
    model.predict_one(x, key=np.int64(1))
    model.predict_one(x, key=(np.str_("1"),))
    assert model.waiting.n_forecasts == len(keys)
    restored = onlinels.loads(onlinels.dumps(model))
    assert restored.waiting == model.waiting
    assert [*map(type, restored.waiting.keys)] == [*map(type, keys)]
    for key in keys:
        restored.learn_late(key, y)
    assert restored.waiting == StreamClassifier().waiting


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_may_be_used_again_after_its_label(kind):
    model = kind()
    for x, y in rows_of(kind, 3):
        model.predict_one(x, key="sensor")
        model.learn_late("sensor", y)
    assert model.count == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_answers_for_its_row_whatever_was_learnt_since(kind):
    model, ((x, _), *rows) = kind(), rows_of(kind, 20)
    before = [model.predict_one(x, key="early"), model.predict_one(dict(reversed(x.items())))]
    for other, label in rows[:10]:
        model.learn_one(other, label)
    answer = model.predict_one(x, key="late")
    for other, label in rows[10:]:
        model.learn_one(other, label if kind is StreamRegressor else "third")
    assert [model.predict_one(x, key="late")] * 2 == [model.predict_one(x | {}, key="late"), answer]
    assert model.predict_one(x, key="early") == before[0]
    if kind is StreamClassifier:
        assert model.predict_proba_one(x, key="early") == model.scores_one(x, key="early") == {}
        assert model.margin_one(x, key="early") == 0.0
        assert {*model.predict_proba_one(x, key="late")} == {*"yn"}
        assert {*model.scores_one(x)} == {"y", "n", "third"}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("labels", [None, ["ok", "fault"], ["fault", "worn"]])
def test_answers_of_a_key_stay_whatever_is_learnt(labels, core):
    model = StreamClassifier(labels=labels)
    with mock.patch.object(base, "StreamRows", CORES[core]):
        asked = {}
        for number, (x, y) in enumerate(rows_of(StreamClassifier, 40)):
            key = f"row {number}"
            asked[key] = x, all_answers(model, x, key)
            for _ in range(3):
                model.learn_one(x, "ok" if number < 20 else "fault" if y == "y" else "third")
        for way in WAYS.values():
            model = way(model)
            for key, (x, answers) in asked.items():
                assert all_answers(model, x, key) == answers
    if labels:
        shares = [model.predict_proba_one(x, key=key) for key, (x, _) in asked.items()]
        assert shares[0] == dict.fromkeys(labels, 0.5)
        assert [sum(each.values()) for each in shares] == pytest.approx([1.0] * 40)


def test_intervals_of_a_key_stay_infinite():
    model = StreamRegressor()
    assert model.predict_interval_one({"a": 0.4}, key=1) == (-np.inf, np.inf)
    for x, y in rows_of(StreamRegressor, 30):
        model.predict_one(x)
        model.learn_one(x, y + 5.0)
    restored = onlinels.loads(onlinels.dumps(model))
    assert restored.predict_interval_one({"a": 0.4}, key=1) == (-np.inf, np.inf)
    assert restored.predict_interval_one({"a": 0.4}, key=2)[1] < np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_files_without_spreads_answer_as_of_today(kind):
    model, (x, _) = prepared(kind), rows_of(kind, 30)[28]
    scores = model.predict_one(x, key=28)
    saved = model._state.waiting.__getstate__()
    del saved["_spreads"]
    model._state.waiting.__setstate__(saved)
    assert model.predict_one(x, key=28) == scores
    answers = all_answers(model, x, 28)
    assert all_answers(model, x, 28) == answers
    assert not np.isnan(np.array(answers[-1], dtype=float)).any()


@pytest.mark.parametrize(
    ("kind", "spread"),
    [(StreamClassifier, np.inf), *((kind, each) for kind in KINDS for each in (-1.0, -np.inf))],
)
def test_damaged_spreads_are_refused(kind, spread):
    model = prepared(kind)
    stored = model._state.waiting.stored
    number = next(iter(stored))
    stored[number] = stored[number]._replace(spread=spread)
    with pytest.raises((TypeError, ValueError)):
        onlinels.loads(onlinels.dumps(model))


@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_without_a_key_do_not_replace_those_with_one(kind):
    model, rows = kind(max_waiting=4), rows_of(kind, 40)
    for number, (x, _) in enumerate(rows[:3]):
        model.predict_one(x, key=number)
    model.predict_many([x for x, _ in rows])
    for x, _ in rows:
        model.predict_one(x)
    assert (model.waiting.n_forecasts, model.waiting.keys) == (3 + 4, (0, 1, 2))
    for restored in (way(model) for way in WAYS.values()):
        for number, (x, _) in enumerate(rows[3:6], 3):
            restored.predict_one(x, key=number)
        assert (restored.waiting.n_forecasts, restored.waiting.keys) == (4 + 4, (2, 3, 4, 5))
    assert model.waiting.keys == (0, 1, 2)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_known", [0, 3])
def test_rows_that_could_never_be_learnt_are_refused_when_they_are_asked(kind, core, n_known):
    model, wide = kind(max_features=10), {f"new {n}": 1.0 for n in range(20)}
    with mock.patch.object(base, "StreamRows", CORES[core]):
        for x, y in rows_of(kind, n_known):
            model.learn_one(x, y)
        laws.assert_refused(lambda: model.predict_one(wide, key=1), model, "max_features=10 leaves")
        model.predict_one(wide)
        most = {f"new {n}": 1.0 for n in range(10 - len(model.feature_names))}
        model.predict_one(most, key=1)
        model.learn_late(1, 1.0)
    assert len(model.feature_names) == 10
    many = {f"new {n}": 1.0 for n in range(5000)}
    laws.assert_refused(lambda: kind().predict_one(many, key=1), kind(), "5,?000|4,?096")


@pytest.mark.parametrize("kind", KINDS)
def test_large_and_deep_keys_are_refused(kind):
    model, (x, y) = kind(), rows_of(kind, 1)[0]
    deep = ()
    for _ in range(19):
        deep = (deep,)
    for key in (deep, "a" * 4096, b"\xff" * 4096, -(10**3600), ("a",) * 2048):
        model.predict_one(x, key=key)
    restored = onlinels.loads(onlinels.dumps(model))
    for key in model.waiting.keys:
        restored.learn_late(key, y)
    endless = ()
    for _ in range(10**5):
        endless = (endless,)
    for key in ((deep,), endless, "a" * 4097, 10**5000, ("a",) * 3000, ((1,) * 100,) * 100):
        laws.assert_refused(lambda key=key: model.predict_one(x, key=key), model, "^key.* is too")


def test_misspelt_keywords_are_refused():
    for model in (StreamClassifier(), onlinels.LeastSquaresClassifier()):
        for question in (model.predict_one, model.predict_proba_one):
            assert not question(X, w=2.0)  # As river passes it.
            laws.assert_refused(lambda ask=question: ask(X, kye=1), model, "'kye' is", TypeError)
    laws.assert_refused(lambda: model.predict_one(X, key=1), model, "'key' is an", TypeError)
    model = StreamRegressor()
    laws.assert_refused(lambda: model.predict_one(X, "order 1"), model, "with_dist", TypeError)
    assert model.predict_one(X, np.bool_(True)).mu == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_oldest_forecast_makes_room(kind):
    model, rows = kind(max_waiting=2), rows_of(kind, 6)
    for number, (x, _) in enumerate(rows[:5]):
        model.predict_one(x, **({} if number == 3 else {"key": number}))
    assert (model.waiting.n_forecasts, model.waiting.keys) == (3, (2, 4))
    model = onlinels.loads(onlinels.dumps(model))
    model.predict_one(rows[5][0], key=5)
    assert (model.max_waiting, model.waiting.keys) == (2, (4, 5))
    laws.assert_refused(
        lambda: model.learn_late(2, rows[2][1]), model, "key=2 has no forecast.* more than 2 with"
    )
    assert model.clone().max_waiting == 2
    assert model.clone().waiting.n_forecasts == 0


def test_the_number_of_forecasts_is_bounded_with_keys_too():
    model = StreamClassifier(max_waiting=50)
    for number in range(1000, 1300):
        model.predict_one({"a": 0.5}, key=number)
    memory = model._raw_memory_usage
    for number in range(1300, 2400):
        model.predict_one({"a": 0.5}, key=number)
    assert model._raw_memory_usage < memory + 8192


def prepared(kind):
    """Return a model that has learnt rows, some late, and for which rows with keys wait."""
    model, rows = kind(), rows_of(kind, 30)
    for number, (x, _) in enumerate(rows):
        model.predict_one(x, key=number)
        if number >= 4 and number % 2:
            model.learn_late(number - 4, rows[number - 4][1])
    return model


X = {"a": 0.5, "b": 1.0}
BAD_KEYS = 1.0, True, 2.5, [1], {"a": 1}, (1, 2.0), ("a", (None,)), np.float64(1), np.bool_(True)
BAD = [
    *[("predict_one", (X,), key, TypeError, "key is of type") for key in BAD_KEYS],
    ("predict_one", (X,), dt.date(2026, 1, 2), TypeError, r"type date.*Pass str\(key\)"),
    ("predict_one", (X,), 28, ValueError, "key=28 waits for the label of another sample"),
    ("predict_one", ([1.0],), "k", TypeError, "x is of type list"),
    ("predict_one", ({"a": 1e200},), "k", ValueError, r"x\['a'\] is 1e\+200"),
    ("predict_one", ({"a": [1.0]},), "k", TypeError, r"x\['a'\]"),
    ("predict_one", ({2j: 1.0},), "k", TypeError, "has no fixed spelling"),
    ("learn_one", (X, 1), "never", ValueError, "key='never' has no forecast"),
    ("learn_one", (X, 1), 3, ValueError, "key=3 has no forecast"),
    ("learn_one", (X, None), 28, (TypeError, ValueError), "y"),
    ("learn_one", ([1.0], 1), 28, TypeError, "x is of type list"),
    ("learn_one", (X, 1, -1.0), 28, ValueError, "w"),
    ("learn_one", (X, 1), 28.0, TypeError, "key is of type float"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_blank", [False, True])
@pytest.mark.parametrize(("method", "arguments", "key", "error", "message"), BAD)
def test_bad_calls_leave_no_trace(kind, is_blank, method, arguments, key, error, message):
    model = kind() if is_blank else prepared(kind)
    if is_blank and key in (28, 3) and type(key) is int:
        model.predict_one({"c": 1.0}, key=28)
    laws.assert_refused(lambda: getattr(model, method)(*arguments, key=key), model, message, error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["never", 3, None, 28.0])
def test_what_does_not_wait_is_neither_learnt_nor_dropped(kind, key):
    model, error = prepared(kind), ValueError if key in ("never", 3) else TypeError
    for call in (lambda: model.drop(key), lambda: model.learn_late(key, 1)):
        laws.assert_refused(call, model, "^key", error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [0, -1, 1.5, True, None, "10"])
def test_bad_numbers_of_forecasts_are_refused(kind, most):
    with pytest.raises((TypeError, ValueError), match="max_waiting="):
        kind(max_waiting=most)
    assert kind(max_waiting=np.int64(7)).max_waiting == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_learnt_or_dropped_leaves_no_trace_in_a_file(kind):
    model, ((_, y), *rows) = kind(), rows_of(kind, 9)
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


@strategies.examples(40)
@given(strategies.streams(always=True))
def test_plain_samples_are_read_as_the_samples_are(stream):
    for x in stream.samples:
        plain = plain_sample(x)
        assert base.sample_key(plain) == base.sample_key(x)
        assert {*map(type, plain.values())} <= {float, str, type(None), np.ndarray}
        again = plain_sample(plain)
        assert [*again] == [*plain]
        columns, row = base.StreamColumns().extended_and_read(x)
        others, other = base.StreamColumns().extended_and_read(plain)
        assert columns.names == others.names
        np.testing.assert_array_equal(row.values, other.values)


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
    rows = rows_of(StreamRegressor, 60)
    scaled = preprocessing.StandardScaler() | StreamRegressor()
    last = scaled["StreamRegressor"]
    direct = StreamRegressor()
    scaler = preprocessing.StandardScaler()
    for number, (x, _) in enumerate(rows):
        assert scaled.predict_one(x, key=number) == direct.predict_one(
            scaler.transform_one(x), key=number
        )
        ask(scaled, "predict_interval_one", x, level=0.5, key=number)
        if number >= 5:
            late, y = rows[number - 5]
            scaled.learn_one(late, y, key=number - 5)
            scaler.learn_one(late)
            direct.learn_late(number - 5, y)
    assert ask(scaled, "waiting").n_forecasts == last.waiting.n_forecasts == 5
    for change in ("drop", "learn_late", "learn_one"):
        laws.assert_refused(
            lambda name=change: ask(scaled, name, None, 57), last, "does not change"
        )
    # The scaler has learnt rows since, and the model does not see the sample before the scaler.
    laws.assert_refused(lambda: scaled.predict_one(rows[57][0], key=57), last, "another sample")
    last.drop(57)
    direct.drop(57)
    laws.assert_alike_streams(last, direct, [x for x, _ in rows[:4]])


@pytest.mark.parametrize("kind", KINDS)
def test_rivers_own_evaluation_passes_keys_of_the_stream(kind):
    rows = [(x, y, {"key": f"row {n}"}) for n, (x, y) in enumerate(rows_of(kind, 40))]
    metric = metrics.MAE() if kind is StreamRegressor else metrics.Accuracy()
    evaluate.progressive_val_score(iter(rows), model := kind(), metric, delay=7)
    assert (model.count, model.waiting.n_forecasts) == (40, 0)


ACTS = {
    "a forecast": lambda m: m.predict_one({"a": 0.5, "new": 1.0}, key="k"),
    "a forecast again": lambda m: m.predict_one(rows_of(type(m), 30)[29][0], key=29),
    "a label": lambda m: m.learn_late(28, rows_of(type(m), 30)[28][1]),
    "a label with a sample": lambda m: m.learn_one(X, rows_of(type(m), 30)[28][1], 0.5, key=28),
    "no label": lambda m: m.drop(28),
    "a file": laws.saved,
}


def tell(model):
    return [laws.answers_of(laws.unasked(model), [X]), model.count, model.waiting.keys]


def go_on(model):
    for x, y in rows_of(type(model), 3, seed=1):
        model.predict_one(x, key="next")
        model.learn_late("next", y)
    with_key = model.waiting.keys[-1]
    model.learn_late(with_key, y)


@pytest.mark.parametrize("most", [4, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", ACTS)
def test_interrupted_calls_have_happened_or_have_not(kind, act, most):
    def told_plainly(model):
        answers, count, keys = tell(model)
        numbers = [
            [*map(float, each.values())] if isinstance(each, dict) else each for each in answers
        ]
        return [numbers, count, repr(keys)]

    assert_before_or_after(prepared(kind), ACTS[act], go_on, told_plainly, most, act)


class Changing(dict):
    """A sample that changes the model while it is read."""

    def items(self):
        self.change()
        return super().items()


class ChangingLabel(str):
    """A label that changes the model while it is read."""

    def __hash__(self):
        self.change()
        return str.__hash__(self)


@pytest.mark.parametrize("change", ["another row is learnt", "the key is dropped", "the key waits"])
def test_a_change_while_arguments_are_read_comes_before_the_call(change):
    model, ((other, y), (x, _)) = prepared(StreamClassifier), rows_of(StreamClassifier, 2, seed=1)
    expected, changes = copy.deepcopy(model), []
    act = {
        "another row is learnt": lambda m: m.learn_one(other, y),
        "the key is dropped": lambda m: m.drop(28),
        "the key waits": lambda m: m.predict_one(other, key="k"),
    }[change]

    def change_once():
        if not changes:
            changes.append(act(model))

    sample, label = Changing(x), ChangingLabel("n")
    sample.change = label.change = change_once
    act(expected)
    if change == "the key waits":
        with pytest.raises(ValueError, match="key='k' waits for the label of another sample"):
            model.predict_one(sample, key="k")
    elif change == "the key is dropped":
        with pytest.raises(ValueError, match="key=28 has no forecast"):
            model.learn_late(28, label)
    else:
        assert model.predict_one(sample, key="k") == expected.predict_one(x, key="k")
        changes.clear()
        act(expected)
        model.learn_late(28, label)
        expected.learn_late(28, "n")
    assert len(changes) == 1
    assert laws.saved(model) == laws.saved(expected)


def changed(**parts):
    return lambda state: state | parts


DAMAGES = [
    changed(_keyed=[]),
    changed(_names=[]),
    changed(_names=[{"a": None}]),
    lambda state: state | {"_keyed": [*state["_keyed"], [99, *state["_keyed"][0][1:]]]},
    lambda state: state | {"_keyed": [state["_keyed"][0]] * len(state["_keyed"])},
    *(
        lambda state, key=key: (
            state | {"_keyed": [[key, *state["_keyed"][0][1:]], *state["_keyed"][1:]]}
        )
        for key in (True, 1.0, None, [1], float("nan"), ("a", 1.0))
    ),
    *(
        lambda state, values=values: (
            state | {"_keyed": [[*state["_keyed"][0][:2], values], *state["_keyed"][1:]]}
        )
        for values in ([], [1e300] * 3, [1.0, 2.0, [3.0]], [float("inf")] * 3, [1j] * 3, None)
    ),
    *(
        lambda state, place=place: (
            state
            | {
                "_keyed": [
                    [state["_keyed"][0][0], place, state["_keyed"][0][2]],
                    *state["_keyed"][1:],
                ]
            }
        )
        for place in (10**9, -7, 0.5, None)
    ),
    lambda state: state | {"_waiting": np.abs(state["_waiting"])},
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_keys_and_samples_are_refused(damage):
    state = prepared(StreamClassifier)._state.waiting.__getstate__()
    Waiting().__setstate__(state)
    with pytest.raises((TypeError, ValueError, IndexError)):
        Waiting().__setstate__(damage(state))


def test_keys_of_one_hash_are_few_in_a_file():
    model = StreamClassifier()
    for number in range(101):
        model.predict_one({}, key=number * (2**61 - 1))
    with pytest.raises(ValueError, match=r"StreamClassifier|same hash"):
        onlinels.loads(onlinels.dumps(model))


@pytest.mark.parametrize("most", [3, -1, 0.5, None])
def test_a_file_in_which_more_wait_than_may_is_refused(most):
    model = prepared(StreamRegressor)
    vars(model)["max_waiting"] = most
    with pytest.raises((TypeError, ValueError)):
        onlinels.loads(onlinels.dumps(model))
    with pytest.raises((TypeError, ValueError)):
        pickle.loads(pickle.dumps(model))
