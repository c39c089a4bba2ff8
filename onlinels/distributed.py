"""Fit and predict on many machines: Dask's workers learn partitions, and their models merge."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import reduce
from operator import add
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from dask import array, config, dataframe
from dask.delayed import Delayed, delayed
from dask.diagnostics import ProgressBar
from dask.sizeof import sizeof

from onlinels.checks import check_count, refusal, wrong_type
from onlinels.linear.model import LinearModel
from onlinels.linear.state import without_choices
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import (
    check_steps_learn_nothing,
    copied,
    emptied,
    is_pipeline,
    last_step,
)
from onlinels.rows.answers import label_array
from onlinels.rows.batch import matched_by_position

try:
    # Here, since its first import within `config.set` would lose its settings.
    import distributed
except ImportError:  # Dask alone runs threads and processes of one machine.
    distributed = None

Model = TypeVar("Model")

PER_MODEL = 4
"""Number of partitions that a model learns in turn, and of models that are merged in turn.

To learn into a copy of a model costs less than to learn into an empty model and to merge.
"""


def fit(
    model: Model,
    X: Any,
    y: Any = None,
    w: Any = None,
    *,
    split_every: int | None = None,
    progress: bool = False,
) -> Model:
    """Return a copy of a model that has also learnt the rows of a Dask collection.

    Every few partitions are learnt with statistics of their own, and the statistics are added.
    The result is the model that one process would have learnt from all rows: the sums are the same.
    A ridge that is selected ("auto", "paper", KFold) is selected once, from all sums; in one
    process it is the ridge of the last checkpoint.

    Parameters
    ----------
    model : LeastSquaresClassifier, a regressor, ShallowConvClassifier, or a pipeline
        The model to start from. It does not change, and the result includes its rows. The features
        of a network are fixed, the steps of a pipeline before the last one do not learn, and no
        rows are forgotten.
    X : dask array or dataframe, or list of delayed batches
        The rows. An array has all columns in one chunk, and rows in chunks of any length. A delayed
        batch is a tuple (X, y) or (X, y, w) of arguments of `learn_many`.
    y, w : dask array or series, optional
        Targets and weights of the rows, in as many partitions as X. Several targets are an array or
        a dataframe. Rows are matched by position, as in `learn_many`; frames must also have the
        same index. If X is an array, an array may have other chunks than X.
    split_every : int, optional
        Number of consecutive partitions that one model learns in turn, and of models that are
        merged in turn at each level of the tree; at least 2, by default 4. With a smaller number,
        more workers work at the same time on few partitions.
    progress : bool
        Whether to show Dask's progress bar.

    Returns
    -------
    model
        A model of the same class.

    Raises
    ------
    TypeError, ValueError
        If arguments do not fit together, before anything is computed. If rows are rejected: the
        message begins with the number of their partition. The model does not change in any case.

    Notes
    -----
    **Where it runs.** It runs on every scheduler of Dask: threads, processes, or the cluster of the
    current `distributed.Client`. If a worker dies, only the time of its tasks is lost.

    **Tasks.** A model learns `split_every` partitions, in a task each; then the models are merged
    in a tree. A task copies the model, so a partition should have at least as many rows as there
    are features. The plan does not depend on the workers: two runs return the same bits on the same
    kind of CPU with the same number of BLAS threads.

    **Memory.** A model takes ``4 M (M + 1024)`` bytes in the Gram form, with M features. A worker
    holds a few models and partitions. Orthogonal merges need more.

    **BLAS threads.** Dask sets BLAS to one thread in its workers. For more threads, call
    ``dask.config.set({"distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": 4})`` before the
    first cluster is created.

    Examples
    --------
    >>> from dask import array
    >>> from onlinels import LeastSquaresRegressor
    >>> X = array.random.default_rng(0).normal(size=(1000, 3), chunks=(250, 3))
    >>> model = fit(LeastSquaresRegressor(), X, X @ np.array([1.0, 2.0, 3.0]))
    >>> model.count, model.output_weights.ravel().round(3)
    (1000, array([1., 2., 3.]))
    """
    # Copied first: the result excludes rows that another thread teaches the model meanwhile.
    result = copied(model)
    linear = linear_part(result)
    for name, idle in (("forgetting_factor", 1.0), ("half_life", None)):
        if getattr(linear, name) != idle:
            found, expected = f"has {name}={getattr(linear, name)!r}", repr(idle)
            remedy = f"Partitions have no order, so a model cannot forget: leave {name} out."
            raise refusal("model", found, expected, remedy)
    width = PER_MODEL if split_every is None else check_count("split_every", split_every, 2)
    read, batches = partitions(X, y, w)
    start, run = linear.empty(), uuid4().hex
    start._state = without_choices(start._state)
    before = None if linear is result else shared(emptied(result))
    learn, join = delayed(learnt, pure=False), delayed(add, pure=False)
    models = list[Delayed]()
    for number, batch in enumerate(batches):
        state = models.pop() if number % width else start
        # Dask's messages on workers that die contain the names of tasks, and so the partitions.
        name = f"learnt-{number}-{run}"
        models.append(learn(before, state, number, read, *batch, dask_key_name=name))
    while len(models) > 1:
        groups = [models[at : at + width] for at in range(0, len(models), width)]
        models = [reduce(join, group) for group in groups]
    if models:
        linear.merge(computed(models[0], progress))
        linear.select_ridge()
    return result


def predict(model: Any, X: Any) -> Any:
    """Return the predictions of a model for a Dask collection, as a collection not computed yet.

    Parameters
    ----------
    model : LeastSquaresClassifier, a regressor, ShallowConvClassifier, or a pipeline
        The model that predicts, of a class that `fit` accepts. The features of a network are fixed,
        and the steps of a pipeline before the last one do not learn.
    X : dask array or dataframe, or list of delayed batches
        The rows.

    Returns
    -------
    dask array, series or dataframe, or list of delayed
        Results of `predict_many` for every partition, in the kind of `X`. They are predictions of
        the model at the time of this call: rows that it learns later do not change them.

    Examples
    --------
    >>> from dask import array
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_many(np.array([[0.0], [1.0]]), ["low", "high"])
    >>> predict(model, array.from_array(np.array([[0.1], [0.8]]), chunks=1)).compute().tolist()
    ['low', 'high']
    """
    linear_part(model)
    model = copied(model)
    known, parts, ask = shared(model), partitions_of(X), delayed(answers, pure=False)
    if isinstance(X, dataframe.DataFrame):
        meta = model.predict_many(X._meta_nonempty).iloc[:0]
        return dataframe.from_delayed([ask(known, each, meta) for each in parts], meta=meta)
    if not isinstance(X, array.Array):
        return [ask(known, each) for each in parts]
    none = model.predict_many(np.zeros((1, *X.shape[1:])))
    if not isinstance(none, np.ndarray):
        expected = "a dataframe or a list of delayed batches for a model of several named targets"
        raise wrong_type("X", X, expected, "Pass dataframe.from_dask_array(X).")
    # The predictions for no rows; their type can store every label.
    classes = list(getattr(model, "classes", ()))
    none = (label_array(classes) if classes else none)[:0]
    made = [
        array.from_delayed(ask(known, each, none), (n_rows, *none.shape[1:]), none.dtype)
        for each, n_rows in zip(parts, X.chunks[0], strict=True)
    ]
    return array.concatenate(made)


def linear_part(model: Any) -> LinearModel:
    """Return the linear model in a network or pipeline, or the model itself; raise if none."""
    last = last_step(model)
    if isinstance(last, ShallowConvClassifier):
        if not last.features_fixed:
            remedy = "Let it learn some images first, then call its fix_features()."
            raise refusal("model", "has features that are not fixed yet", "fixed ones", remedy)
        last = last._answering().classifier
    if not isinstance(last, LinearModel):
        expected = "a linear model of this package, ShallowConvClassifier, or a pipeline of these"
        remedy = "Other models depend on the order of rows: fit the model inside."
        raise wrong_type("model", last, expected, remedy)
    check_steps_learn_nothing(model, "every partition would have its own")
    return last


@sizeof.register((LinearModel, ShallowConvClassifier))  # type: ignore[untyped-decorator]
def size_of(model: Any) -> int:
    """Return the bytes of a model, which Dask uses to place tasks and to limit memory."""
    if isinstance(model, np.ndarray):
        return model.nbytes
    inside = model if isinstance(model, (list, tuple)) else getattr(model, "__dict__", {}).values()
    return sum(map(size_of, inside))


def shared(model: Any) -> Delayed:
    """Return a model as one node of the graph, which is sent to each worker once.

    Scattered data would soon be on one worker only (Dask drops copies), and would be lost if this
    worker dies.
    """
    return delayed(model, name=f"model-{uuid4().hex}", traverse=False)


def computed(result: Delayed, progress: bool) -> Any:
    """Return the result of a task, with a progress bar on request."""
    client = None
    if progress and distributed is not None:
        with suppress(ValueError):  # There is no client.
            client = distributed.get_client()
    # In one layer: Dask walks through the whole graph for each layer, and each task is a layer.
    result = Delayed(result.key, result.dask.to_dict())
    # The graph holds the model on purpose, so Dask's advice to scatter large data is suppressed.
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        if client is None:
            with ProgressBar() if progress else nullcontext():
                return result.compute()
        future = client.compute(result)
    distributed.progress(future, notebook=False)
    print()
    return future.result()


# -- partitions -----------------------------------------------------------------------------------


def partitions_of(X: Any) -> list[Delayed]:
    """Return the partitions of a Dask collection; raise unless each has all columns."""
    is_array = isinstance(X, array.Array)
    if is_array and (X.numblocks[1:] != (1,) * (X.ndim - 1) or np.isnan(X.shape[1:]).any()):
        remedy = 'Pass X.rechunk({k: -1 for k in range(1, X.ndim)} | {0: "auto"}).'
        expected = "all columns in one chunk of known length"
        raise refusal("X", f"has column chunks {X.chunks[1:]}", expected, remedy)
    if is_array or isinstance(X, dataframe.DataFrame):
        return list(np.ravel(X.to_delayed()))
    if isinstance(X, (list, tuple)) and all(isinstance(each, Delayed) for each in X):
        return list(X)
    expected = "a dask array or dataframe, or a list of delayed batches"
    raise wrong_type("X", X, expected, "What is in memory goes to learn_many and predict_many.")


def partitions(X: Any, y: Any, w: Any) -> tuple[Callable[..., Any], list[tuple[Any, ...]]]:
    """Return a function that reads a partition, and its arguments for every partition.

    The function returns samples, targets, and weights if there are any.
    """
    columns = [partitions_of(X)]
    if not isinstance(X, (list, tuple)):
        columns.append(vector(X, "y", y))
        if w is not None:
            columns.append(vector(X, "w", w))
        return aligned, list(zip(*columns, strict=True))
    for name, value in (("y", y), ("w", w)):
        if value is not None:
            found, expected = "is given with a list of batches", "tuples (X, y, w) in X alone"
            raise refusal(name, found, expected, f"Put {name} into these tuples.")
    return given, list(zip(*columns, strict=True))


def vector(X: Any, name: str, values: Any) -> Any:
    """Return the partitions of targets or weights; arrays of known lengths are cut like X.

    Rows are matched by position, partition by partition, as in one process.
    """
    if isinstance(values, array.Array) and values.ndim:
        lengths = values.chunks[0]
        if isinstance(X, array.Array) and not np.isnan([*X.chunks[0], *lengths]).any():
            if len(values) != len(X):
                found, expected = f"has {len(values)} rows", f"{len(X)} as X has"
                raise refusal(name, found, expected, "Pass one entry for each row.")
            lengths = X.chunks[0]
        values = values.rechunk({0: lengths} | dict.fromkeys(range(1, values.ndim), -1))
    elif not isinstance(values, (dataframe.Series, dataframe.DataFrame)):
        remedy = f"Pass array.from_array({name}, …) or dataframe.from_pandas({name}, …)."
        raise wrong_type(name, values, "a dask array or series with an entry for each row", remedy)
    parts = np.ravel(values.to_delayed())
    if len(parts) != X.npartitions:
        found, expected = f"has {len(parts)} partitions", f"{X.npartitions} as X has"
        remedy = "Repartition it, or pass arrays of known lengths: to_dask_array(lengths=True)."
        raise refusal(name, found, expected, remedy)
    return parts


# -- tasks ----------------------------------------------------------------------------------------


def learnt(
    before: Any, model: LinearModel, number: int, read: Callable[..., Any], *batch: Any
) -> LinearModel:
    """Return a copy of a linear model that has learnt the features of a partition.

    `before` computes the features; a pipeline transforms samples in a list one by one.
    """
    model = copied(model)
    try:
        X, y, *w = read(*batch)
        if isinstance(X, (list, tuple)) and is_pipeline(before):
            X = [before.transform_one(x) for x in X]
        elif before is not None:
            X = before.transform_many(X)
        model.learn_many(X, y, *w)
    except Exception as error:
        if type(error) in (TypeError, ValueError):
            raise type(error)(f"Partition {number}: {error}") from error
        # Other exceptions may need more arguments than a message.
        error.add_note(f"Raised while partition {number} was learnt.")
        raise
    return model


def aligned(X: Any, *others: Any) -> tuple[Any, ...]:
    """Return a batch; raise if targets or weights of a frame have another index."""
    for name, values in zip(("y", "w"), others, strict=False):
        if hasattr(X, "index") and hasattr(values, "index") and not X.index.equals(values.index):
            remedy = "Rows are matched by position: pass columns of one dataframe."
            raise refusal(name, "has another index than X", "the same index", remedy)
    return X, *others


def given(batch: Any) -> tuple[Any, ...]:
    """Return a delayed batch; raise unless it is a tuple of arguments of `learn_many`."""
    if not (isinstance(batch, (tuple, list)) and len(batch) in (2, 3)):
        remedy = "Return one of these from each delayed function."
        raise wrong_type("a batch", batch, "a tuple (X, y) or (X, y, w)", remedy)
    return batch_given(*batch)


@matched_by_position
def batch_given(X: Any, y: Any, w: Any = None) -> tuple[Any, ...]:
    """Return the rows of a batch with their targets and, if there are any, their weights."""
    return (X, y) if w is None else (X, y, w)


def answers(model: Any, batch: Any, none: Any = None) -> Any:
    """Return the predictions for a partition, or `none` if the partition is empty.

    Arrays are converted to the type of `none`, since arrays of labels can have different types.
    """
    if none is not None and not len(batch):
        return none
    made = model.predict_many(batch)
    return made.astype(none.dtype) if isinstance(none, np.ndarray) else made


__all__ = ["fit", "predict"]
