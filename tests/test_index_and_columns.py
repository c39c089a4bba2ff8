"""Rows, targets, weights and times are matched by position, and columns in one form.

The methods are those that the public names have, however many there will be.
"""

import inspect
import pickle
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from dask import delayed
from river import metrics, preprocessing

import onlinels
import onlinels.distributed
import onlinels.explain
import onlinels.export
import onlinels.from_sums
import onlinels.images
import onlinels.pipelines
import onlinels.sites
import onlinels.sklearn
from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)
from support import models

MODULES = (
    onlinels,
    onlinels.distributed,
    onlinels.explain,
    onlinels.export,
    onlinels.from_sums,
    onlinels.images,
    onlinels.pipelines,
    onlinels.sites,
    onlinels.sklearn,
)


def names_in(module):
    """Return the public names of a module: those that it lists, or else that it defines."""
    own = (name for name, each in vars(module).items() if is_of(module, each) and name[0] != "_")
    return getattr(module, "__all__", None) or own


def is_of(module, each):
    return getattr(each, "__module__", None) == module.__name__


def progressive_val_score(model, X, y, metric, w=None, t=None):
    return onlinels.progressive_val_score((X, y), model, metric, w=w, t=t)


PUBLIC = {name: getattr(module, name) for module in MODULES for name in names_in(module)}
PUBLIC["progressive_val_score"] = progressive_val_score
OF_ROWS = "y", "w", "t", "sample_weight"
"""Arguments with an entry for each row."""


def columns_of(called):
    """Return the arguments with an entry for each row of a function that takes rows."""
    if not (inspect.isfunction(called) or inspect.ismethod(called)):
        return []  # A method of C.
    parameters = inspect.signature(called).parameters
    return [name for name in OF_ROWS if name in parameters] if "X" in parameters else []


def entrances():
    """Yield a name, the class or None, and the function, for all that takes rows and targets."""
    for name, thing in sorted(PUBLIC.items()):
        if not inspect.isclass(thing):
            if inspect.isfunction(thing) and columns_of(thing):
                yield name, None, thing
            continue
        for method, called in inspect.getmembers(thing, inspect.isroutine):
            if method[0] != "_" and columns_of(called) and not inspect.isabstract(thing):
                yield f"{name}.{method}", thing, called


ENTRANCES = {name: parts for name, *parts in entrances()}

MAKERS = {
    "ShallowConvClassifier": models.digits_network,
    "CalibratedClassifier": lambda: CalibratedClassifier(LeastSquaresClassifier(half_life=9.0)),
    "DriftAwareClassifier": lambda: DriftAwareClassifier(LeastSquaresClassifier(half_life=9.0)),
    "WindowedClassifier": lambda: WindowedClassifier(LeastSquaresClassifier(), window=2, hop=1),
}
"""What makes objects of classes that need arguments."""

N_ROWS = 12
INDEX = [f"row {k}" for k in range(N_ROWS)]
random = np.random.default_rng(0)
TABLES = [
    pd.DataFrame(random.normal(size=(N_ROWS, 2)), INDEX, ["a", "b"]),
    pd.DataFrame(random.random((N_ROWS, 64)), INDEX, [*range(64)]),
]
TARGETS = [
    pd.Series([1, 0] * (N_ROWS // 2), INDEX),
    pd.DataFrame({"u": random.normal(size=N_ROWS), "v": random.normal(size=N_ROWS)}, INDEX),
]
OTHERS = {
    "w": pd.Series(1.0, INDEX),
    "sample_weight": pd.Series(1.0, INDEX),
    "t": pd.Series(np.arange(12.0), INDEX),
}


def test_the_entrances_are_found():
    assert len(ENTRANCES) > 40
    found = "ShallowConvClassifier.predict_learn_many", "HiddenLayer.from_examples", "fit"
    assert {*found, "progressive_val_score", "IncrementalRidge.score"} <= ENTRANCES.keys()


def call_of(name, X, y):
    """Return the object, and a call that takes rows, of which the object has learnt the first."""
    kind, called = ENTRANCES[name]
    if kind is None:
        model = LeastSquaresClassifier(half_life=None)
        model.learn_many(X, y)
        if called.__module__ == "onlinels.distributed":
            return model, lambda X, y, w=None: called(model, [delayed((X, y, w))])
        how = {"model": model}
        if "metric" in inspect.signature(called).parameters:
            how["metric"] = metrics.Accuracy()
        return model, partial(called, **how)
    method = name.rpartition(".")[2]
    if inspect.ismethod(called):  # A constructor.
        settings = {"image_shape": (8, 8), "window_shape": (64,)}
        known = inspect.signature(kind).parameters
        settings = {each: value for each, value in settings.items() if each in known}
        return kind, partial(getattr(kind, method), **settings)
    model = MAKERS.get(kind.__name__, kind)()
    if not method.startswith("fit"):
        getattr(model, "fit" if hasattr(model, "fit") else "learn_many")(X, y)
    return model, getattr(model, method)


def state_of(thing):
    return None if inspect.isclass(thing) else pickle.dumps(thing)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENTRANCES)
def test_a_series_in_another_order_is_refused_everywhere(name):
    called, tried = ENTRANCES[name][1], []
    columns = columns_of(called)
    if "kwargs" in inspect.signature(called).parameters:
        columns.append("t")
    for X, y in product(TABLES, TARGETS):
        given = {each: y if each == "y" else OTHERS[each] for each in columns}
        try:
            call_of(name, X, y)[1](X=X, **given)
        except (TypeError, ValueError) as error:
            tried.append(str(error))
            continue
        break
    else:
        pytest.fail(f"No example fits {name}: {tried}")
    for each in columns:
        turned = given | {each: given[each].iloc[::-1]}
        thing, call = call_of(name, X, y)
        before = state_of(thing)
        with pytest.raises(ValueError, match=f"{each} has the index of X in another order"):
            call(X=X, **turned)
        assert state_of(thing) == before
        # By position, or with another index, the same rows are accepted.
        call(X=X, **given | {each: given[each].iloc[::-1].set_axis(range(N_ROWS))})


# -- the form of columns: names, or positions of an array ------------------------------------------

KINDS = {
    "classifier": lambda: LeastSquaresClassifier(1.0),
    "auto": LeastSquaresClassifier,
    "orthogonal": lambda: LeastSquaresClassifier(1.0, "orthogonal"),
    "folds": lambda: LeastSquaresClassifier(KFold(2)),
    "priors": lambda: LeastSquaresClassifier(1.0, priors="equal"),
    "regressor": lambda: LeastSquaresRegressor(1.0),
    "several": lambda: LeastSquaresMultiTargetRegressor(1.0),
    "stream": StreamClassifier,
    "stream regressor": StreamRegressor,
    "calibrated": lambda: CalibratedClassifier(LeastSquaresClassifier(1.0)),
    "calibrated, paper": lambda: CalibratedClassifier(LeastSquaresClassifier("paper")),
    "drift": lambda: DriftAwareClassifier(LeastSquaresClassifier(1.0)),
    "calibrated scaler": lambda: CalibratedClassifier(
        preprocessing.StandardScaler() | LeastSquaresClassifier(1.0)
    ),
    "drift of a scaler": lambda: DriftAwareClassifier(
        preprocessing.StandardScaler() | LeastSquaresClassifier(1.0)
    ),
}
FRAME = TABLES[0]
ARRAY = FRAME.to_numpy()


def targets_for(kind):
    return TARGETS[1] if kind == "several" else TARGETS[0]


def methods_of(model, *arguments):
    """Return the public methods of a model with some arguments, by name."""
    found = {}
    for name, called in inspect.getmembers(model, inspect.ismethod):
        known = inspect.signature(called).parameters
        if name[0] != "_" and known.keys() >= {*arguments}:
            found[name] = called
    return found


def teachers_of(model):
    """Return what teaches a model rows, by name."""
    teachers = methods_of(model, "X", "y")
    teachers = {name: call for name, call in teachers.items() if "unlearn" not in name}
    metric = metrics.Accuracy() if hasattr(model, "predict_proba_one") else metrics.MAE()
    if isinstance(model, LeastSquaresMultiTargetRegressor):
        metric = metrics.multioutput.MicroAverage(metric)

    def score(X, y, **delay):
        onlinels.progressive_val_score((X, y), model, metric, **delay)

    return teachers | {"score": score, "score of late labels": partial(score, delay=2)}


def calls_with(model, kind, X, x):
    """Yield calls of all methods that take rows."""
    y = targets_for(kind)
    for name, call in {**methods_of(model, "X"), **methods_of(model, "x")}.items():
        known = inspect.signature(call).parameters
        rows = {"X": X} if "X" in known else {"x": x}
        one = y.iloc[0].to_dict() if kind == "several" else y.iloc[0]
        targets = {"y": y if "X" in known else one} if "y" in known else {}
        if kind == "priors" and name.startswith("variance"):
            continue  # Not defined for discriminants.
        yield name, partial(call, **rows, **targets)


def copies_of(model, merges):
    """Yield copies that have learnt the same rows."""
    yield model
    yield onlinels.loads(onlinels.dumps(model))
    if merges:
        yield model.empty() + model
        yield onlinels.merge(model, model.empty())
    if hasattr(model, "fade"):
        model.fade(0.5)
        yield model


FORMS = [(kind, how) for kind, make in KINDS.items() for how in teachers_of(make())]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "how"), FORMS)
def test_what_has_learnt_an_array_rejects_rows_with_other_names(kind, how):
    if "scaler" in kind and how == "learn_many" and kind.startswith("calibrated"):
        pytest.skip("River's scaler learns no batches of arrays.")
    model, other, y = KINDS[kind](), KINDS[kind](), targets_for(kind)
    y = y.to_dict("records") if kind == "several" and how.startswith("score") else y
    teachers_of(model)[how](ARRAY, y)
    other.learn_many(FRAME, targets_for(kind))
    names = onlinels.pipelines.end_of(model)[1].feature_names
    assert sorted(names) == [0, 1]
    merges = hasattr(model, "merge") and "scaler" not in kind
    # Copies are made alike, however the model has learnt.
    for each in copies_of(model, merges) if how == "learn_many" else [model]:
        for name, call in calls_with(each, kind, FRAME, FRAME.iloc[0].to_dict()):
            if "scaler" in kind and name in ("predict_many", "learn_many"):
                continue  # River's scaler refuses the frame itself.
            with pytest.raises(ValueError, match="Learn and predict in one form"):
                call()
        if merges:
            for one, two in ((each, other), (other, each)):
                with pytest.raises(ValueError, match="Learn and predict in one form"):
                    onlinels.merge(one, two)
    assert onlinels.pipelines.end_of(model)[1].feature_names == names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "scaler" not in kind])
def test_what_has_learnt_names_rejects_arrays(kind):
    model, y = KINDS[kind](), targets_for(kind)
    model.learn_many(FRAME, y)
    before = onlinels.pipelines.end_of(model)[1].feature_names, model.count
    calls = [
        call
        for name, call in calls_with(model, kind, ARRAY, {})
        # Stream models predict them, and warn of the columns that they lack.
        if name.endswith("_many") and ("stream" not in kind or "learn" in name)
    ]
    scores = [call for name, call in teachers_of(model).items() if "score" in name]
    targets = y.to_dict("records") if kind == "several" else y
    for call in (*calls, *(partial(score, ARRAY, targets) for score in scores)):
        with pytest.raises(ValueError, match="Learn and predict in one form"):
            call()
    assert (onlinels.pipelines.end_of(model)[1].feature_names, model.count) == before


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_that_predicts_or_unlearns_warns_of_missing_columns(kind):
    for name in dict(calls_with(KINDS[kind](), kind, FRAME, {})):
        if not name.endswith("_many"):
            continue
        if name in ("unlearn_many", "variance_many") and kind in ("orthogonal", "priors"):
            continue
        model = KINDS[kind]()
        model.learn_many(FRAME, targets_for(kind))
        if "unlearn" in name:
            model.learn_many(FRAME[["a"]].rename(columns={"a": "c"}), targets_for(kind))
        lacking = FRAME.assign(b=0.0) if "unlearn" in name else FRAME
        if "unlearn" in name:
            model.learn_many(lacking, targets_for(kind))
        call = dict(calls_with(model, kind, lacking[["a"]], {}))[name]
        with warnings.catch_warnings(record=True, action="always") as caught:
            call()
        told = [str(each.message) for each in caught if "X lacks" in str(each.message)]
        assert len(told) == (name != "learn_many"), name


@pytest.mark.parametrize(
    "index",
    [
        ["a", "a", "b"],
        [1.0, np.nan, 2.0],
        [pd.NaT, *pd.to_datetime(["2020", "2021"])],
        [None, 1, 2],
    ],
)
def test_an_index_may_hold_equal_and_missing_entries(index):
    X, y = pd.DataFrame({"a": [0.0, 1.0, 2.0]}, index), pd.Series([0, 1, 1], index)
    model = LeastSquaresClassifier(1.0)
    with pytest.raises(ValueError, match="index of X in another order"):
        model.learn_many(X, y.iloc[::-1])
    model.learn_many(X, y)
    model.learn_many(X, y.iloc[::-1].to_numpy())
    assert model.count == 6
