"""Values of stream models: gaps of every kind, and texts that are or hide numbers."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    DataWarning,
    LeastSquaresClassifier,
    StreamClassifier,
    StreamRegressor,
    dumps,
    loads,
)
from onlinels.checks import is_missing
from onlinels.explain import feature_effects
from support import laws, strategies
from support.slow import pairs_in_turn

MODELS = StreamClassifier, StreamRegressor

# -- gaps -----------------------------------------------------------------------------------------


def learnt_with(make, gap, how):
    """Return what a model answers, and its bytes, after rows with a gap among numbers and texts."""
    rows = [
        {
            "a": k % 7 + 0.5,
            "c": gap if k % 3 == 0 else k % 5,
            "text": "xyz"[k % 3] if k % 4 else gap,
        }
        for k in range(14)
    ]
    model, targets, answers = make(), [float(k % 7 > 3) for k in range(14)], []
    if how == "one by one":
        for k, x in enumerate(rows):
            answers.append(model.predict_one(x))
            if k > 2:
                model.learn_one(rows[k - 2], targets[k - 2])
    elif how == "lists":
        answers += model.predict_learn_many(rows, targets)
        answers += model.predict_many(rows)
    else:
        columns = {name: pd.Series([x[name] for x in rows], dtype=object) for name in rows[0]}
        model.learn_many(pd.DataFrame(columns), targets)
        answers += list(model.predict_many(pd.DataFrame(columns)))
    asked = {"a": 3.0, "c": gap, "text": gap, "never met": gap}
    answers += [feature_effects(model, asked), model.debug_one(asked), model.predict_one(asked)]
    return str(answers), dumps(model)


@pytest.mark.parametrize(("how", "make"), pairs_in_turn(["one by one", "lists", "frames"], MODELS))
def test_gaps_of_every_kind_are_one(make, how):
    expected = learnt_with(make, None, how)
    for name, gap in strategies.GAPS.items():
        assert learnt_with(make, gap, how) == expected, name


@pytest.mark.parametrize("name", strategies.GAPS)
def test_what_is_missing_as_a_value_is_missing_as_a_label_and_as_a_target(name):
    gap = strategies.GAPS[name]
    for make in (LeastSquaresClassifier, *MODELS):
        model = make()
        for learn in (
            lambda: model.learn_one({"a": 1.0}, gap),  # noqa: B023
            lambda: model.learn_many([{"a": 1.0}, {"a": 2.0}], [1.0, gap]),  # noqa: B023
        ):
            message = r"^y(\[1\])? is (.|\n)*, expected (a l|a n|fin)"
            laws.assert_refused(learn, model, message, ValueError)


@pytest.mark.parametrize(
    "value", [0, "nan", "", b"nan", [np.nan], np.array([np.nan]), pl.Series([np.nan]), (1, np.nan)]
)
def test_arrays_containers_and_texts_are_not_missing(value):
    assert not is_missing(value)


def test_scalars_of_pyarrow_are_their_values():
    rows = pa.table({"a": [1.5, 2.0], "b": ["x", "y"]})
    scalars = [{name: rows[name][k] for name in ("a", "b")} for k in range(2)]
    a, b = (laws.fitted(StreamClassifier(), X, [0, 1]) for X in (scalars, rows.to_pylist()))
    laws.assert_alike_streams(a, b, scalars)


# -- texts ----------------------------------------------------------------------------------------

AMONG = "Texts among numbers count as unknown values. They are in the features "
AS_TEXT = "Numbers as text are learnt as categories. They are in the features "


def told_by(call):
    """Return the beginnings of the warnings of a call, up to the names of features."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message).partition(". Convert")[0] for warning in caught]


def learn_values(model, values):
    """Learn the values of one feature, row by row."""
    for k, value in enumerate(values):
        model.learn_one({"a": value, "b": k % 4}, float(k % 2))


@pytest.mark.parametrize("make", MODELS)
def test_a_text_among_numbers_is_a_gap_and_is_told_once(make):
    values = [1.0, 2.0, "n/a", 3.0, "", 4.0, "4.5", 5.0]
    model, expected = make(), make()
    assert told_by(lambda: learn_values(model, values)) == [f"{AMONG}'a'"]
    learn_values(expected, [None if isinstance(value, str) else value for value in values])
    assert model.feature_names == expected.feature_names == ("a", "b")
    asked, gap = {"a": "n/a", "b": 1.0}, {"a": None, "b": 1.0}
    assert told_by(lambda: model.predict_one(asked)) == []
    assert model.predict_one(asked) == expected.predict_one(gap)
    assert model.predict_many([asked]) == expected.predict_many([gap])
    assert told_by(lambda: loads(dumps(model)).learn_one(asked, 1.0)) == []


@pytest.mark.parametrize("make", MODELS)
def test_a_model_of_numbers_tells_that_it_is_asked_about_texts(make):
    model = laws.fitted(make(), [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}], [0.0, 1.0])
    assert told_by(lambda: model.predict_one({"b": "1.5", "a": "2.5"})) == [f"{AMONG}'a', 'b'"]
    frame = pd.DataFrame({"a": ["1.5", "2"], "b": [1.0, 2.0]})
    for _ in range(2):
        assert told_by(lambda: model.predict_many(frame)) == []
    other = laws.fitted(make(), [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}], [0.0, 1.0])
    assert told_by(lambda: other.predict_many(frame)) == [f"{AMONG}'a'"]
    assert told_by(lambda: other.learn_many(frame, [0.0, 1.0])) == []


def test_an_array_that_is_a_text_is_a_gap():
    model = laws.fitted(StreamClassifier(), [{"a": np.ones(2)}, {"a": np.zeros(2)}], [0, 1])
    told = told_by(lambda: model.learn_one({"a": "n/a"}, 1))
    assert told == [f"{AMONG}'a'"]
    assert model.feature_names == (("a", 0), ("a", 1))


def test_texts_before_the_first_number_stay_features_and_are_gaps_later():
    model = StreamClassifier()
    assert told_by(lambda: learn_values(model, ["n/a", "n/a", 1.0, 2.0])) == []
    assert sorted(model.feature_names, key=str) == [("a", "n/a"), "a", "b"]
    assert told_by(lambda: learn_values(model, ["n/a", 3.0, "other"])) == [f"{AMONG}'a'"]
    assert sorted(model.feature_names, key=str) == [("a", "n/a"), "a", "b"]


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@strategies.examples(25)
@given(st.data(), strategies.streams(max_rows=40, kinds=("mixed", "number", "text"), weighed=True))
def test_rows_with_texts_among_numbers_do_not_depend_on_how_they_come(data, stream):
    """In batches, asked first or not, in any order of keys, saved and loaded in between."""
    expected, model = laws.learn_stream(stream), StreamClassifier()
    for part in strategies.batches(data, len(stream)):
        samples = [dict(data.draw(st.permutations([*x.items()]))) for x in stream.samples[part]]
        if data.draw(st.booleans()):
            model = loads(dumps(model))
        if data.draw(st.booleans()):
            model.learn_many(samples, stream.labels[part], stream.w[part])
            continue
        for x, y, w in zip(samples, stream.labels[part], stream.w[part], strict=True):
            model.predict_one(x)
            model.learn_one(x, y, w)
    laws.assert_alike_streams(model, expected, stream.samples)


TEXTS = {
    "fractions": ([f"{k / 8}" for k in range(8)], True),
    "decimal commas": ([f"{k},5" for k in range(8)], True),
    "exponents": ([f" {k}e-5 " for k in range(8)], True),
    "with marks of gaps": (["", "0.5", "1", "n/a", "2", *"345", "6", "7"] * 2, True),
    "few whole numbers": ([*"12345678"] * 4, False),
    "whole numbers": ([*"123"] * 30, True),
    "larger whole numbers": ([str(10 * k) for k in range(40)] * 2, True),
    "of a fraction late": ([*"12345678", "9.5"] * 2, True),
    "two whole numbers": ([*"01"] * 40, False),
    "identifiers": ([f"{k:03d}" for k in range(95, 155)] * 2, False),
    "zip codes": ([str(10_000 + 7 * k) for k in range(50)] + ["01067"] * 20, False),
    "mostly words": (["1.5", "2.5", "3.5", "red"] * 4, False),
    "versions and dates": (["3.11.2", "2020-01-01", "12:30", "10.0.0.1"] * 4, False),
    "names of numbers": (["nan", "inf", "none", "x"] * 4, False),
    "with a letter": ([f"c{k}" for k in range(60)] * 2, False),
}
"""Texts of a feature, and whether they are told to be numbers."""


@pytest.mark.parametrize(("kind", "make"), pairs_in_turn(TEXTS, MODELS))
def test_numbers_as_text_are_told_once(make, kind):
    values, is_told = TEXTS[kind]
    model, many = make(), make()
    assert told_by(lambda: learn_values(model, values)) == [f"{AS_TEXT}'a'"] * is_told
    if is_told:
        assert told_by(lambda: learn_values(loads(dumps(model)), values)) == []
    frame = pd.DataFrame({"a": values, "b": np.arange(len(values)) % 4})
    told = told_by(lambda: many.learn_many(frame, [float(k % 2) for k in range(len(values))]))
    assert told == [f"{AS_TEXT}'a'"] * is_told
    assert len(model.feature_names) == len({*values}) + 1


def test_all_features_of_a_file_of_texts_are_told_at_once():
    rows = np.random.default_rng(0).normal(size=(30, 3)).round(3).astype(str)
    told = told_by(lambda: StreamRegressor().learn_many(rows, np.arange(30.0)))
    assert told == [f"{AS_TEXT}0, 1, 2"]


@pytest.mark.parametrize("make", MODELS)
def test_a_warning_that_is_an_error_leaves_a_model_that_learns(make):
    model = make()
    learn_values(model, [1.0, 2.0])
    with pytest.raises(DataWarning, match=AMONG):
        model.learn_one({"a": "n/a", "b": 1.0}, 1.0)
    assert model.count in (2, 3)
    learn_values(model, ["n/a", 2.0])
    other = laws.fitted(make(), [{"a": 1.0}, {"a": 2.0}], [0.0, 1.0])
    with pytest.raises(DataWarning, match=AMONG):
        other.learn_many([{"a": 3.0}, {"a": "n/a"}], [0.0, 1.0])
    assert other.count == 2
