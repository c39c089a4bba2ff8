"""Warnings about data: kinds that Python's filters compare, texts with names and numbers."""

import ast
import pickle
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest

import onlinels
from onlinels import DataWarning, LeastSquaresRegressor
from onlinels.checks import warn_caller

PACKAGE = Path(onlinels.__file__).parent
GUIDE = PACKAGE.parent / "demos" / "guide"


def calls_in(path, name):
    """Yield the calls of a function or method of this name in a file."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if name in text else ():
        called = getattr(node, "func", None)
        if name in (getattr(called, "id", ""), getattr(called, "attr", "")):
            yield node


def kinds():
    """Return the first sentences of all warnings in the package."""
    calls = [call for path in PACKAGE.rglob("*.py") for call in calls_in(path, "warn_caller")]
    return [getattr(call.args[0], "value", ast.unparse(call)) for call in calls]


def learn_outliers(n_models):
    """Teach models that warn of different features and values, all in one line."""
    for number in range(n_models):
        model, name = LeastSquaresRegressor(ridge=1.0), f"feature {number}"
        model.learn_many([{name: float(row % 7)} for row in range(20)], range(20))
        model.learn_one({name: 1e7 * (1 + number)}, 0.0)


def test_the_first_sentence_of_a_warning_is_the_same_for_all_of_its_kind():
    for path in PACKAGE.rglob("*.py"):
        warned = [call for call in calls_in(path, "warn") if "Deprecat" not in ast.unparse(call)]
        assert bool(warned) == (path.name == "checks.py"), f"{path} warns without warn_caller"
    found = kinds()
    assert Counter(found).most_common(1)[0][1] == 1
    for kind in found:
        assert re.fullmatch(r"[A-Za-z][^.:]*\.", kind), f"{kind} is not a literal sentence"
    table = (GUIDE / "errors.md").read_text("utf-8").split("## Warnings")[1]
    assert sorted(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)) == sorted(found)


@pytest.mark.parametrize(
    ("action", "expected"),
    [("default", 2), ("module", 1), ("once", 1), ("always", 10), ("ignore", 0)],
)
def test_filters_merge_the_warnings_of_many_models(action, expected):
    with warnings.catch_warnings(record=True, action=action) as caught:
        learn_outliers(5)
        for number in range(5):
            warn_caller("A few rows dwarf all others.", f"Number {number}.")
    texts = [str(each.message) for each in caught]
    assert len(texts) == len(set(texts)) == expected
    assert all(each.category is DataWarning for each in caught)
    if texts:
        assert "'feature 0'" in texts[0]
        assert "1e+07" in texts[0]


def test_a_line_shows_a_kind_once_although_other_code_sets_and_resets_filters():
    """And again after the filters change."""
    with warnings.catch_warnings(record=True, action="default") as caught:
        for number in range(5):
            warn_caller("A.", f"Number {number}.")
            with warnings.catch_warnings(action="ignore"):
                warn_caller("A.", "Hidden.")
    assert [str(each.message) for each in caught] == ["A. Number 0."]
    with warnings.catch_warnings(record=True, action="default") as caught:
        for number in range(3):
            warn_caller("A.", f"Number {number}.")
            warnings.simplefilter("default" if number else "always", DataWarning)
    assert len(caught) == 3


def test_a_warning_is_a_plain_exception_with_a_plain_text():
    raised = pytest.raises(DataWarning, match=r"A few rows dwarf .*'feature 0'")
    with warnings.catch_warnings(action="error", category=DataWarning), raised as caught:
        learn_outliers(1)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), type(copy.args[0])) == (DataWarning, str)
    assert str(copy) == str(caught.value)
