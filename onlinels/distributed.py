"""Many machines: models that Dask's workers teach, merged into the one that had seen all rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
from dask import array, bag, config, dataframe
from dask import get as computed_here
from dask.core import quote
from dask.delayed import Delayed, delayed
from dask.diagnostics import ProgressBar
from dask.sizeof import sizeof

from onlinels.checks import check_count
from onlinels.linear.model import LinearModel
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import (
    copied,
    emptied,
    is_pipeline,
    last_step,
    learns,
    steps_before,
)
from onlinels.rows import label_array

try:
    import distributed
except ImportError:  # Dask alone has threads and processes of one machine.
    distributed = None

Model = TypeVar("Model")

CHAIN = 8
"""Blocks that one model learns in turn at most, before it is merged with those of other blocks.

A step copies the statistics, a merge adds them: longer chains move less, shorter ones leave more
for many workers to do at once. Towards the end they get shorter, as in guided self-scheduling
(Polychronopoulos and Kuck 1987), so that no worker is left with a long one while others wait.
"""


WIDTH = 4
"""Models that are merged one after the other at each level of the tree.

Measured with 3,000 features on two workers, at most held beside what is learnt: with 2 it grows
from 50 to 500 blocks, with 8 it is more for 50.
"""


class Part(NamedTuple):
    """A partition: its number, what it holds (not computed yet), and its rows if known."""

    number: int
    batch: Delayed
    n_rows: int | None


class Recipe:
    """How the batches of a block are made. Dask does not look into it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.numbers = [part.number for part in parts]
        self.keys = [part.batch.key for part in parts]
        self.tasks: dict[Any, Any] = {}
        self.inputs: list[Any] = []

    def batches(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """Return the batches, of what the tasks gave that stayed with Dask."""
        known = {key: quote(value) for key, value in zip(self.inputs, given, strict=True)}
        return computed_here(self.tasks | known, self.keys)  # type: ignore[no-any-return]


class Block(NamedTuple):
    """What one task learns: how its batches are made, and what that takes from other tasks."""

    recipe: Recipe
    given: list[Delayed]


def fit(
    model: Model,
    X: Any,
    y: Any = None,
    w: Any = None,
    *,
    split_every: int | None = None,
    progress: bool = False,
) -> Model:
    """Return a copy of a model that has learnt the rows of a Dask collection, too.

    Workers learn blocks of partitions, each on its own statistics, which are then added. The result
    is the model that had learnt all rows in one process: the same sums, and a ridge that is
    selected ("auto", "paper", KFold) is selected once, from all of them.

    Parameters
    ----------
    model : LeastSquaresClassifier, a regressor, ShallowConvClassifier, or a pipeline
        Of a network the features are fixed; of a pipeline the steps before the last one learn
        nothing. Rows are not forgotten. It stays as it is; what it knows is in the result.
    X : dask array or dataframe, bag, or list of delayed batches
        An array has its columns in one chunk, rows in chunks of any length. A bag holds pairs
        (x, y), or triples with a weight; delayed batches are such tuples of what `learn_many`
        takes.
    y, w : dask array or series, optional
        Targets and weights, in as many partitions as X.
    split_every : int, optional
        Models that are merged one after the other at each level of the tree, at least 2; 4 unless
        given. Fewer give more workers to do at the end, and hold more models in memory.
    progress : bool
        Whether to show a progress bar: Dask's own.

    Returns
    -------
    model
        Of the kind that came.

    Raises
    ------
    TypeError, ValueError
        If arguments do not fit, before anything is computed; or if rows are refused: the message
        begins with the number of their partition. The model stays as it is in any case.

    Notes
    -----
    It runs on whatever Dask runs on: threads, processes, or the cluster of the current
    `distributed.Client`. A block is as many consecutive partitions as have M rows, for M features;
    a partition where lengths are not known. One task makes and learns up to 8 blocks in turn, fewer
    towards the end; then models are merged in a tree. Where blocks need what others need too, or
    what the cluster holds already (`persist`), each is a task. None of this depends on the workers,
    so that two runs give the same bits on one kind of CPU and one number of BLAS threads. A worker
    that dies costs the time of its tasks.

    A worker holds about four statistics, ``4 M^2`` bytes each in the Gram form, and three blocks,
    ``8 M^2`` bytes each of M rows (measured with 4,000 features and 50 blocks: 625 MiB of 610);
    orthogonal merges take more. Dask sets BLAS to one thread in its workers; ask for more with
    ``dask.config.set({"distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": 4})`` before the
    first cluster is made.

    Examples
    --------
    >>> from dask import array
    >>> from onlinels import LeastSquaresRegressor
    >>> X = array.random.default_rng(0).normal(size=(1000, 3), chunks=(250, 3))
    >>> model = fit(LeastSquaresRegressor(), X, X @ np.array([1.0, 2.0, 3.0]))
    >>> model.count, model.output_weights.ravel().round(3)
    (1000, array([1., 2., 3.]))
    """
    linear, width = linear_of(model), WIDTH
    for name, idle in (("forgetting_factor", 1.0), ("half_life", None)):
        if getattr(linear, name) != idle:
            raise ValueError(
                f"model has {name}={getattr(linear, name)!r}, expected one that forgets nothing: "
                "partitions have no order. Make it without."
            )
    if split_every is not None:
        width = check_count("split_every", split_every, 2)
    blocks = planned(list(blocks_of(partitions(X, y, w), n_features_of(model, X))))
    start = linear.empty()
    start._hold_choices()
    before, empty = shared(features_of(model)), shared(start)
    step, join = delayed(learnt, pure=False), delayed(joined, pure=False)
    models = []
    for run in chains(blocks):
        # Blocks that wait for other tasks come one by one, so that they are not all held at once.
        waits = any(block.given for block in run)
        state = empty
        for some in [[block] for block in run] if waits else [run]:
            state = step(before, state, *map(list, zip(*some, strict=True)))
        models.append(state)
    while len(models) > 1:
        groups = [models[at : at + width] for at in range(0, len(models), width)]
        models = [reduce(join, group) for group in groups]
    result = copied(model)
    if models:
        linear_of(result).merge(computed(models[0], progress))
        linear_of(result)._choose_anew()
    return result


def predict(model: Any, X: Any) -> Any:
    """Return the predictions of a model for a Dask collection, in kind and not computed yet.

    Parameters
    ----------
    model : as of `fit`
    X : dask array or dataframe, bag of samples, or list of delayed batches

    Returns
    -------
    dask array, series or dataframe, bag, or list of delayed
        What `predict_many` gives for every partition.

    Examples
    --------
    >>> from dask import array
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_many(np.array([[0.0], [1.0]]), ["low", "high"])
    >>> predict(model, array.from_array(np.array([[0.1], [0.8]]), chunks=1)).compute().tolist()
    ['low', 'high']
    """
    linear_of(model)
    known = shared(model)
    ask = delayed(answers, pure=False)
    if isinstance(X, array.Array):
        check_columns(X)
        example, blocks = answer_of_zeros(model, X), X.to_delayed().ravel()
        made = [
            array.from_delayed(
                ask(known, block, example.dtype), (n_rows, *example.shape[1:]), example.dtype
            )
            for block, n_rows in zip(blocks, X.chunks[0], strict=True)
        ]
        return array.concatenate(made)
    if isinstance(X, dataframe.DataFrame):
        meta = model.predict_many(X._meta_nonempty).iloc[:0]
        return dataframe.from_delayed([ask(known, each) for each in X.to_delayed()], meta=meta)
    if isinstance(X, bag.Bag):
        return bag.from_delayed([ask(known, each) for each in X.to_delayed()])
    if are_delayed(X):
        return [ask(known, each) for each in X]
    raise TypeError(refusal("X", X))


def answer_of_zeros(model: Any, X: array.Array) -> Any:
    """Return an array like those of answers for rows of X; of labels one of the largest type."""
    example = model.predict_many(np.zeros((1, *X.shape[1:])))
    if not isinstance(example, np.ndarray):
        raise TypeError(
            "X is a dask array, expected a dataframe or a list of delayed batches for a model of "
            "several targets by name. Pass dataframe.from_dask_array(X)."
        )
    classes = getattr(model, "classes", None)
    return example if not classes else label_array(list(classes))


def linear_of(model: Any) -> LinearModel:
    """Return the linear model of a network, of a pipeline, or itself; raise if there is none."""
    last = last_step(model)
    if isinstance(last, ShallowConvClassifier):
        if not last.features_fixed:
            raise ValueError(
                "model has features that are not fixed yet, expected the same for all partitions. "
                "Let it learn some images first, then call its fix_features()."
            )
        last = last._linear_layer
    if not isinstance(last, LinearModel):
        raise TypeError(
            f"model is of type {type(last).__name__}, expected a linear model of this package, "
            "ShallowConvClassifier, or a pipeline that ends in one. Others depend on the order of "
            "rows: fit the model inside."
        )
    for name, each in steps_before(model):
        if learns(each):
            raise ValueError(
                f"The step {name!r} learns, expected steps before the last one that do not: every "
                "partition would have its own. Leave a scaler out, linear models need none, or fix "
                "it: HiddenLayer.from_examples(X) has scales."
            )
    return last


def features_of(model: Any) -> Any:
    """Return what makes features of rows, with nothing learnt; None where rows are features."""
    if is_pipeline(model) or isinstance(model, ShallowConvClassifier):
        return emptied(model)
    return None


@sizeof.register((LinearModel, ShallowConvClassifier))  # type: ignore[untyped-decorator]
def size_of(model: Any) -> int:
    """Return the bytes of a model, by which Dask decides where tasks go and what is held."""
    buffers: list[pickle.PickleBuffer] = []
    described = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    return len(described) + sum(each.raw().nbytes for each in buffers)


def shared(model: Any) -> Delayed:
    """Return the model as every task takes it: one node of the graph, sent to each worker once.

    What is scattered is on one worker only after a while (Dask drops copies), and nobody makes it
    again if that one dies.
    """
    return delayed(model, name=f"model-{uuid4().hex}", traverse=False)


def current_client() -> Any:
    """Return the client of `distributed` that computes, None if there is none."""
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def computed(result: Delayed, progress: bool) -> Any:
    """Return what a task gives, with a progress bar if wanted."""
    client = current_client()
    if client is None:
        with ProgressBar() if progress else nullcontext():
            return result.compute()
    # The graph holds the model, whatever its size: Dask's advice to scatter it is not wanted here.
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        future = client.compute(result)
    if progress:
        distributed.progress(future, notebook=False)
        print()
    return future.result()


# -- partitions -----------------------------------------------------------------------------------


def refusal(name: str, value: Any) -> str:
    """Return what a collection should have been."""
    return (
        f"{name} is of type {type(value).__name__}, expected a dask array or dataframe, a bag, or "
        "a list of delayed batches. What is in memory goes to learn_many and predict_many."
    )


def are_delayed(X: Any) -> bool:
    """Tell whether a value is a list of delayed batches."""
    return isinstance(X, (list, tuple)) and all(isinstance(each, Delayed) for each in X)


def check_columns(X: array.Array) -> None:
    """Raise unless every chunk of an array has all columns."""
    if X.ndim < 2 or X.numblocks[1:] != (1,) * (X.ndim - 1):
        raise ValueError(
            f"X has chunks {X.chunks[1:]} beside its rows, expected columns in one chunk. Pass "
            'X.rechunk({k: -1 for k in range(1, X.ndim)} | {0: "auto"}).'
        )


def partitions(X: Any, y: Any, w: Any) -> list[Part]:
    """Return the partitions of X with their targets and weights."""
    if isinstance(X, (array.Array, dataframe.DataFrame)):
        sizes: list[int | None] = [None] * X.npartitions
        if isinstance(X, array.Array):
            check_columns(X)
            sizes = [None if np.isnan(size) else int(size) for size in X.chunks[0]]
        columns = np.ravel(X.to_delayed()), vector(X, "y", y), vector(X, "w", w)
        batches = (delayed(tuple)(list(each)) for each in zip(*columns, strict=True))
        return [Part(k, *each) for k, each in enumerate(zip(batches, sizes, strict=True))]
    is_bag = isinstance(X, bag.Bag)
    if not (is_bag or are_delayed(X)):
        raise TypeError(refusal("X", X))
    for name, value in (("y", y), ("w", w)):
        if value is not None:
            raise ValueError(
                f"{name} came beside X of type {type(X).__name__}, expected tuples (X, y) or "
                "(X, y, w) in X alone. Put them there."
            )
    made = map(delayed(unzipped), X.to_delayed()) if is_bag else X
    return [Part(number, each, None) for number, each in enumerate(made)]


def vector(X: Any, name: str, values: Any) -> list[Any]:
    """Return the partitions of targets or weights, None for each where weights are not given."""
    n_parts = X.npartitions
    if values is None:
        if name == "y":
            raise ValueError("y is None, expected the targets of the rows of X. Pass them.")
        return [None] * n_parts
    if isinstance(X, array.Array) and isinstance(values, array.Array):
        if not np.isnan(X.chunks[0]).any() and values.shape[0] == X.shape[0]:
            values = values.rechunk({0: X.chunks[0], **dict.fromkeys(range(1, values.ndim), -1)})
        parts = list(values.to_delayed().ravel())
    elif isinstance(values, (dataframe.Series, dataframe.DataFrame)):
        parts = values.to_delayed()
    else:
        raise TypeError(
            f"{name} is of type {type(values).__name__}, expected a dask collection like X. Pass "
            f"{'array.from_array' if isinstance(X, array.Array) else 'dataframe.from_pandas'}"
            f"({name}, …)."
        )
    if len(parts) != n_parts:
        raise ValueError(
            f"{name} is in {len(parts)} partitions, expected {n_parts} as X is. Repartition it."
        )
    return parts


def n_features_of(model: Any, X: Any) -> int:
    """Return how many features a model will have, as far as that is known."""
    last, steps = last_step(model), [each for _, each in steps_before(model)]
    if isinstance(last, ShallowConvClassifier):
        return last._network.hidden.n_hidden
    known = [len(linear_of(model).feature_names), *(getattr(each, "n_hidden", 0) for each in steps)]
    if isinstance(X, array.Array) and not steps:
        known.append(int(np.prod(X.shape[1:])))
    return max(known)


def blocks_of(parts: Sequence[Part], least: int) -> Iterator[list[Part]]:
    """Yield consecutive partitions of as many rows as there are features, or more."""
    block: list[Part] = []
    n_rows = 0
    for part in parts:
        block.append(part)
        n_rows += least if part.n_rows is None else part.n_rows
        if n_rows >= least:
            yield block
            block, n_rows = [], 0
    if block:
        yield block


def planned(blocks: Sequence[Sequence[Part]]) -> list[Block]:
    """Return blocks whose batches are made by the very task that learns them.

    Tasks of their own would run ahead: batches of later blocks wait in memory, often on another
    worker. What several blocks need stays with Dask, and so does what a cluster holds already or
    what has annotations.
    """
    nodes = {part.batch.key: part.batch for block in blocks for part in block}
    graphs = [node.__dask_graph__() for node in nodes.values()]
    layers = {
        id(one): one for graph in graphs for one in getattr(graph, "layers", {0: graph}).values()
    }
    graph, several = dict(chain.from_iterable(one.items() for one in layers.values())), -1
    needs = {key: getattr(task, "dependencies", {None}) for key, task in graph.items()}
    # What a cluster holds is not in the graph, or not as a task.
    is_whole = nodes.keys() <= graph.keys() and all(graph.keys() >= keys for keys in needs.values())
    is_plain = not any(getattr(one, "annotations", None) for one in layers.values())
    owners: dict[Any, int] = {} if is_whole and is_plain else dict.fromkeys(nodes, several)
    recipes = [Recipe(block) for block in blocks]
    for number, recipe in enumerate(recipes):
        found = list(recipe.keys)
        while found:
            key = found.pop()
            owner = owners.get(key)
            if owner not in (number, several):
                owners[key] = number if owner is None else several
                found.extend(needs[key])
    for key, owner in owners.items():
        if owner != several:
            recipes[owner].tasks[key] = graph[key]
    made = []
    for recipe in recipes:
        needed = dict.fromkeys(recipe.keys)
        for key in recipe.tasks:
            needed |= dict.fromkeys(needs[key])
        recipe.inputs = [key for key in needed if key not in recipe.tasks]
        given = [nodes[key] if key in nodes else Delayed(key, graph) for key in recipe.inputs]
        made.append(Block(recipe, given))
    return made


def chains(blocks: Sequence[Block]) -> Iterator[Sequence[Block]]:
    """Yield the blocks that one model learns in turn: 8 at first, fewer towards the end."""
    while blocks:
        length = min(CHAIN, -(-len(blocks) // CHAIN))
        yield blocks[:length]
        blocks = blocks[length:]


# -- tasks ----------------------------------------------------------------------------------------


def unzipped(pairs: Any) -> tuple[list[Any], ...]:
    """Return samples, labels, and weights if there are any, of a partition of a bag."""
    return tuple(map(list, zip(*pairs, strict=True))) or ([], [])


def learnt(
    before: Any, state: LinearModel, recipes: Sequence[Recipe], given: Sequence[Any]
) -> LinearModel:
    """Return a copy of a linear model that has learnt the features of blocks."""
    state = copied(state)
    for number, batch in numbered(recipes, given):
        X, *rest = (each for each in batch if each is not None)
        if not (len(X) if isinstance(X, list) else X.shape[0]):
            continue
        try:
            if before is not None and isinstance(X, list):
                X = [before.transform_one(x) for x in X]
            elif before is not None:
                X = before.transform_many(X)
            state.learn_many(X, *rest)
            del batch, X, rest  # Before the next ones are made.
        except (TypeError, ValueError) as error:
            raise type(error)(f"Partition {number}: {error}") from error
    return state


def numbered(
    recipes: Sequence[Recipe], given: Sequence[Any]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the number of every partition and its batch, made block by block."""
    for recipe, values in zip(recipes, given, strict=True):
        yield from zip(recipe.numbers, recipe.batches(values), strict=True)


def joined(model: LinearModel, other: LinearModel) -> LinearModel:
    """Return the sum of two models."""
    return model + other


def answers(model: Any, batch: Any, dtype: Any = None) -> Any:
    """Return the predictions for a partition; arrays of one type, which labels may not be."""
    made = model.predict_many(batch)
    return made if dtype is None else made.astype(dtype)


__all__ = ["fit", "predict"]
