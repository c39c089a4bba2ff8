"""The shape of the package: six layers, short ancestries, documented names, one value each."""

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import onlinels
from onlinels.core import constants

PACKAGE = Path(onlinels.__file__).parent
MODULES = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
tree_of = functools.cache(lambda path: ast.parse(MODULES[path]))

LAYERS = (
    "checks core locks numerics saving",
    "rows",
    "sums features",
    "linear",
    "devices distributed evaluate explain export forecasting from_sums lessons meta network "
    "pipelines sites sklearn stream windowed",
    "__init__ __main__ images",
)
"""What is at the root of the package, from below: a layer imports only from layers below it."""

NEIGHBOURS = {
    "numerics": "checks core locks",
    "saving": "checks locks numerics",
    "meta": "pipelines",
    "devices": "from_sums pipelines",
    "sites": "devices pipelines",
    "windowed": "meta pipelines",
    "network": "meta",
    "distributed": "network pipelines",
    "evaluate": "pipelines",
    "explain": "meta pipelines",
    "forecasting": "pipelines",
    "stream": "explain",
    "lessons": "network pipelines stream",
    "export": "devices meta network pipelines windowed",
}
"""Imports within a layer."""

WITH_NAMES = "devices distributed export forecasting from_sums images lessons sklearn"
modules = onlinels, *(importlib.import_module(f"onlinels.{name}") for name in WITH_NAMES.split())
PUBLIC = [getattr(module, name) for module in modules for name in module.__all__]
CALLABLE = [thing for thing in PUBLIC if callable(thing)]
CLASSES = [thing for thing in CALLABLE if inspect.isclass(thing)]


def layer_of(name):
    return next(number for number, layer in enumerate(LAYERS) if name in layer.split())


def names_of_imports(path):
    for node in ast.walk(tree_of(path)):
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(node, ast.Import)]
        for name in [node.module or ""] if isinstance(node, ast.ImportFrom) else names:
            yield name.split(".")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_layers_below_and_from_its_own_package(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for package, *inner in names_of_imports(path):
        assert package not in ("pickle", "marshal", "shelve"), "nothing is unpickled"
        if package == "onlinels" and inner[:1] != [own]:
            name = inner[0] if inner else "__init__"
            below = layer_of(name) < layer_of(own)
            beside = name in NEIGHBOURS.get(own, "").split()
            assert below or beside, f"{own} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_call_sets_what_it_resets_afterwards(path):
    """An interrupt between the two would leave warnings or errors off; see `checks.ignoring`."""
    words = "errstate(", "catch_warnings(", "ContextVar("
    assert not [each for each in words if each in MODULES[path]]


SAME_MEANING = "__all__ ACTIVATIONS EXPERTS MEMORIES Model PRIORS"
"""The settings of a module, which may have one name where they do one thing in several modules."""


def names_defined(path):
    """Yield the names of the classes, functions and values that a module defines."""
    for node in tree_of(path).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                yield target.id


def test_a_name_has_one_meaning():
    modules = Counter(name for path in MODULES for name in set(names_defined(path)))
    several = {name for name, times in modules.items() if times > 1}
    assert several == set(SAME_MEANING.split())


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_ancestry_of_a_public_class_is_short(kind):
    own = [each.__name__ for each in kind.__mro__ if each.__module__.startswith("onlinels")]
    assert len(own) <= 3, own


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_no_setting_is_private(kind):
    assert not [name for name in inspect.signature(kind).parameters if name.startswith("_")]


@pytest.mark.parametrize("thing", CALLABLE, ids=lambda thing: thing.__name__)
def test_what_is_public_has_an_example(thing):
    assert ">>> " in inspect.getdoc(thing)


def test_what_few_use_is_imported_when_it_is_used():
    """Together they take three times as long to import as the rest."""
    late = ["narwhals", "river.compose", "river.drift", "river.metrics", "river.preprocessing"]
    late += ["scipy.sparse.linalg", "scipy.special", "scipy.stats", "sklearn", "statistics"]
    code = f"""
        import numpy, onlinels, sys
        for model, y in (onlinels.LeastSquaresClassifier(), "a"), (onlinels.StreamRegressor(), 1.0):
            for x in {{"a": 1.0}}, {{"a": 2.0, "b": 3}}:
                model.predict_one(x)
                model.learn_one(x, y)
        onlinels.LeastSquaresRegressor().learn_many(numpy.eye(2), [1.0, 2.0])
        print([name for name in {late} if name in sys.modules])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Constants of C and of Python.

OF_C = "ROWS_AT_ONCE COLUMNS_AT_ONCE MAX_COUNTED N_FACTORS COUNTS MEANS VARIANCES FAR N_SCALE_PARTS"
OF_C += " N_SHARED X TARGETS W SCORES SPREADS TIMES N_ARRAYS MOST_COARSE MOST_FINE"
OF_C += " FACTORS_AT_ONCE MOST_TURNS LEVEL CHANGE N_QUANTITIES PLAIN_NUMBER LAST_NUMBER"
OF_C += " MEAN_NUMBER N_OTHERS MAX_FORECASTS MIN_ROWS_FOLLOWED NAIVE_EPOCH EPOCH UTC TZINFO"
OF_C += " DAYS SECONDS MICROSECONDS N_OF_DATES SCALES_AT_ONCE GOLDEN_SECTION"
OF_C += " BYTES_VERSION CLASSIFIES CRC_SIZE HEAD_SIZE SINGLES WHOLES DOUBLES"
OF_C += " LEAST_RIDGE MOST_TEXT MOST_ROWS MOST_VALUE"
OF_C += " TAKEN DAMAGED OF_ANOTHER_MODEL TOO_LARGE NOT_NEWER NOT_WRITTEN"
"""What C alone needs: steps of its loops, and places in its own arrays."""


def constants_in(code, known):
    """Return the numbers that a C source names, by `#define` or in an `enum`."""
    code, found = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL), dict(known)
    numbers = re.findall(r"^#define (\w+) +([-\d.(][^\n]*)|\benum \{([^}]*)\}", code, re.MULTILINE)
    for name, number, members in numbers:
        if name and "Py" not in name + number:  # Those of Python's headers are not known here.
            found[name] = eval(number, {}, found)
        value = -1
        for member in filter(None, map(str.strip, members.split(","))):
            own, _, start = member.partition(" = ")
            value = found[own] = eval(start, {}, found) if start else value + 1
    return found


def test_constants_of_c_and_of_python_have_one_value():
    """Whoever adds one to C says whether Python needs it, too."""
    of_c, core = {}, PACKAGE / "core"
    for path in [*sorted(core.glob("*.h")), *core.glob("*.c")]:
        of_c = constants_in(path.read_text(encoding="utf-8"), of_c)
    of_python = {name: value for name, value in vars(constants).items() if name.isupper()}
    assert sorted(of_c) == sorted([*of_python, *OF_C.split()])
    assert {name: of_c[name] for name in of_python} == of_python


# States.


def test_a_state_that_has_lent_its_arrays_is_spent():
    """In tests, it raises. A row that the core learns by itself replaces no state."""
    model = onlinels.LeastSquaresClassifier(ridge=1.0)
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["x", "y"])
    before = model._state
    model.learn_one({"a": 3.0, "new": 1.0}, "x")
    assert model._state is not before
    with pytest.raises(AssertionError, match="is used: count"):
        _ = before.count
