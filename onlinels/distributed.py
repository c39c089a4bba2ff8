"""Fit and predict on many machines: Dask's workers learn partitions, and their models merge."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from itertools import chain, islice
from operator import add
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
from dask import array, bag, config, dataframe
from dask import get as computed_here
from dask.core import literal
from dask.delayed import Delayed, delayed
from dask.diagnostics import ProgressBar
from dask.sizeof import sizeof

from onlinels.checks import check_count
from onlinels.linear.model import LinearModel, choose_anew, hold_choices
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import (
    check_steps_learn_nothing,
    copied,
    emptied,
    is_pipeline,
    last_step,
    steps_before,
)
from onlinels.rows import label_array

try:
    import distributed
except ImportError:  # Dask alone runs threads and processes of one machine.
    distributed = None

Model = TypeVar("Model")

MAX_BLOCKS_PER_MODEL = 8
"""Maximum number of blocks that a model learns in turn before it is merged with other models.

A step copies the statistics, and a merge adds them: longer chains move less data, shorter chains
leave more work for many workers at once. Towards the end the chains get shorter, as in guided
self-scheduling (Polychronopoulos and Kuck 1987), so that the other workers need not wait for the
worker of a long chain.
"""


MODELS_PER_MERGE = 4
"""Number of models that are merged one after the other at each level of the tree.

Measured with 3,000 features on two workers: with 2 models, peak memory grows from 50 to 500 blocks;
with 8 models it is already higher at 50 blocks.
"""


SEVERAL_BLOCKS = -1
"""Owner of a task that several blocks need, in place of the number of one block."""


class Part(NamedTuple):
    """A partition: its number, its batch (not computed yet), and its number of rows if known."""

    number: int
    batch: Delayed
    n_rows: int | None


class Recipe:
    """The tasks that compute the batches of a block. Dask does not inspect them."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.numbers = [part.number for part in parts]
        self.keys = [part.batch.key for part in parts]
        self.tasks: dict[Any, Any] = {}
        self.inputs: list[Any] = []

    def batches(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """Compute the batches, given the results of the tasks that Dask computes itself."""
        # As literals, so that Dask does not read values as keys of tasks.
        known = {key: (literal(value),) for key, value in zip(self.inputs, given, strict=True)}
        try:
            return computed_here(self.tasks | known, self.keys)  # type: ignore[no-any-return]
        except Exception as error:
            first, last = self.numbers[0], self.numbers[-1]
            which = f"partition {first} was" if first == last else f"partitions {first}-{last} were"
            error.add_note(f"Raised while {which} made.")
            raise


class Block(NamedTuple):
    """The batches that one task learns: their recipe, and the results that it needs."""

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
    """Return a copy of a model that has also learnt the rows of a Dask collection.

    Every worker learns blocks of partitions with its own statistics, and the statistics are added.
    The result is the model that one process would have learnt from all rows: the sums are the same.
    A ridge that is selected ("auto", "paper", KFold) is selected once, from all sums; in one
    process it is the ridge of the last checkpoint.

    Parameters
    ----------
    model : LeastSquaresClassifier, a regressor, ShallowConvClassifier, or a pipeline
        The model to start from. It does not change, and the result includes its rows. The features
        of a network are fixed, the steps of a pipeline before the last one do not learn, and no
        rows are forgotten.
    X : dask array or dataframe, bag, or list of delayed batches
        The rows. An array has all columns in one chunk, and rows in chunks of any length. A bag
        holds pairs (x, y) with weight 1, or triples (x, y, w). A delayed batch is a tuple (X, y) or
        (X, y, w) of arguments of `learn_many`.
    y, w : dask array or series, optional
        Targets and weights of the rows, in as many partitions as X. Several targets are an array or
        a dataframe. Rows are matched by position, as in `learn_many`; frames must also have the
        same index. If X is an array, an array may have other chunks than X.
    split_every : int, optional
        Number of models that are merged one after the other at each level of the tree, at least 2,
        by default 4. A smaller number lets more workers merge at the end, and needs memory for more
        models.
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

    **Tasks.** A block is as many consecutive partitions as are needed for M rows, with M features.
    If lengths are not known, it is one partition. One task computes and learns up to 8 blocks in
    turn, fewer towards the end; then the models are merged in a tree. Blocks that need results that
    other blocks also need, or that the cluster already holds (`persist`), are one task each. The
    plan does not depend on the workers, so two runs return the same bits on the same kind of CPU
    with the same number of BLAS threads.

    **Memory.** A worker holds about four statistics, ``4 M (M + 1024)`` bytes each in the Gram
    form, and three blocks, ``8 M^2`` bytes each if partitions have up to M rows (measured with
    4,000 features and 50 blocks: 625 MiB of 673). Orthogonal merges need more.

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
    linear, width = linear_of(model), MODELS_PER_MERGE
    for name, idle in (("forgetting_factor", 1.0), ("half_life", None)):
        if getattr(linear, name) != idle:
            raise ValueError(
                f"model has {name}={getattr(linear, name)!r}, expected {idle!r}: partitions have "
                f"no order, so the model cannot forget. Make it without {name}."
            )
    if split_every is not None:
        width = check_count("split_every", split_every, 2)
    # Copied first: the result excludes rows that another thread teaches the model meanwhile.
    result = copied(model)
    check_names(result, X)
    blocks = planned(list(blocks_of(partitions(X, y, w), n_features_of(result, X))))
    start = linear_of(result).empty()
    hold_choices(start)
    before, empty = shared(features_of(result)), shared(start)
    step, join = delayed(learnt, pure=False), delayed(add, pure=False)
    models = []
    for run in chains(blocks):
        # Blocks that wait for other tasks are learnt one by one, to hold only one in memory.
        waits = any(block.given for block in run)
        state = empty
        for some in [[block] for block in run] if waits else [run]:
            recipes = [block.recipe for block in some]
            # Dask's messages on workers that die contain this name, and so the partitions.
            numbers = f"{recipes[0].numbers[0]}-{recipes[-1].numbers[-1]}"
            name = f"learnt-{numbers}-{uuid4().hex}"
            # As single arguments: for a list, Dask would optimise the graph of each item again.
            given = chain.from_iterable(block.given for block in some)
            state = step(before, state, recipes, *given, dask_key_name=name)
        models.append(state)
    while len(models) > 1:
        groups = [models[at : at + width] for at in range(0, len(models), width)]
        models = [reduce(join, group) for group in groups]
    if models:
        linear_of(result).merge(computed(models[0], progress))
        choose_anew(linear_of(result))
    return result


def predict(model: Any, X: Any) -> Any:
    """Return the predictions of a model for a Dask collection, as a collection not computed yet.

    Parameters
    ----------
    model : LeastSquaresClassifier, a regressor, ShallowConvClassifier, or a pipeline
        The model that predicts, of a class that `fit` accepts. The features of a network are fixed,
        and the steps of a pipeline before the last one do not learn.
    X : dask array or dataframe, bag of samples, or list of delayed batches
        The rows.

    Returns
    -------
    dask array, series or dataframe, bag, or list of delayed
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
    linear_of(model)
    model = copied(model)
    known = shared(model)
    ask = delayed(answers, pure=False)
    if isinstance(X, array.Array):
        check_columns(X)
        example, blocks = answer_of_zeros(model, X), X.to_delayed().ravel()
        made = [
            array.from_delayed(
                ask(known, block, example), (n_rows, *example.shape[1:]), example.dtype
            )
            for block, n_rows in zip(blocks, X.chunks[0], strict=True)
        ]
        return array.concatenate(made)
    if isinstance(X, dataframe.DataFrame):
        meta = model.predict_many(X._meta_nonempty).iloc[:0]
        parts = [ask(known, each, meta) for each in X.to_delayed()]
        return dataframe.from_delayed(parts, meta=meta)
    if isinstance(X, bag.Bag):
        return bag.from_delayed([ask(known, each) for each in X.to_delayed()])
    if are_delayed(X):
        return [ask(known, each) for each in X]
    raise TypeError(refusal("X", X))


def answer_of_zeros(model: Any, X: array.Array) -> Any:
    """Return the array of predictions for no rows; its type can store every label."""
    example = model.predict_many(np.zeros((1, *X.shape[1:])))
    if not isinstance(example, np.ndarray):
        raise TypeError(
            "X is a dask array, expected a dataframe or a list of delayed batches for a model of "
            "several targets by name. Pass dataframe.from_dask_array(X)."
        )
    classes = getattr(model, "classes", None)
    return (example if not classes else label_array(list(classes)))[:0]


def linear_of(model: Any) -> LinearModel:
    """Return the linear model in a network or pipeline, or the model itself; raise if none."""
    last = last_step(model)
    if isinstance(last, ShallowConvClassifier):
        if not last.features_fixed:
            raise ValueError(
                "model has features that are not fixed yet, expected fixed features, equal for all "
                "partitions. Let it learn some images first, then call its fix_features()."
            )
        last = last._linear_layer
    if not isinstance(last, LinearModel):
        raise TypeError(
            f"model is of type {type(last).__name__}, expected a linear model of this package, "
            "ShallowConvClassifier, or a pipeline that ends in one of these. Other models depend "
            "on the order of rows: fit the model inside."
        )
    check_steps_learn_nothing(model, "every partition would have its own")
    return last


def features_of(model: Any) -> Any:
    """Return an empty model that computes features of rows; None if the rows are the features."""
    if is_pipeline(model) or isinstance(model, ShallowConvClassifier):
        return emptied(model)
    return None


@sizeof.register((LinearModel, ShallowConvClassifier))  # type: ignore[untyped-decorator]
def size_of(model: Any) -> int:
    """Return the bytes of a model, which Dask uses to place tasks and to limit memory."""
    if isinstance(model, np.ndarray):
        return model.nbytes
    inside = model if isinstance(model, (list, tuple)) else getattr(model, "__dict__", {}).values()
    return sum(map(size_of, inside))


def shared(model: Any) -> Delayed:
    """Return the model as one node of the graph, which is sent to each worker once.

    Scattered data would soon be on one worker only (Dask drops copies), and would be lost if this
    worker dies.
    """
    return delayed(model, name=f"model-{uuid4().hex}", traverse=False)


def current_client() -> Any:
    """Return the current client of `distributed`, None if there is none."""
    if distributed is None:
        return None
    try:
        client = distributed.get_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise ValueError(
            "The current Client is asynchronous, expected a synchronous one. Call fit in a thread: "
            "await asyncio.to_thread(fit, …)."
        )
    return client


def computed(result: Delayed, progress: bool) -> Any:
    """Return the result of a task, with a progress bar on request."""
    client = current_client()
    # The graph holds the model on purpose, so Dask's advice to scatter large data is suppressed.
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        if client is None or not progress:
            with ProgressBar() if progress else nullcontext():
                return result.compute()
        future = client.compute(result)
    distributed.progress(future, notebook=False)
    print()
    return future.result()


# -- partitions -----------------------------------------------------------------------------------


def refusal(name: str, value: Any) -> str:
    """Return the message for a value that is not a Dask collection."""
    return (
        f"{name} is of type {type(value).__name__}, expected a dask array or dataframe, a bag, or "
        "a list of delayed batches. What is in memory goes to learn_many and predict_many."
    )


def are_delayed(X: Any) -> bool:
    """Return whether a value is a list of delayed batches."""
    return isinstance(X, (list, tuple)) and all(isinstance(each, Delayed) for each in X)


def check_columns(X: array.Array) -> None:
    """Raise unless every chunk of an array has all columns."""
    if X.ndim < 2:
        raise ValueError(
            f"X has shape {X.shape}, expected (n_rows, n_features). Pass X[:, None] for 1 feature."
        )
    if np.isnan(X.shape[1:]).any():
        raise ValueError(
            f"X has shape {X.shape}, expected a known number of columns. Pass the shape to "
            "array.from_delayed, or meta to map_blocks, and call compute_chunk_sizes()."
        )
    if X.numblocks[1:] != (1,) * (X.ndim - 1):
        raise ValueError(
            f"X has column chunks {X.chunks[1:]}, expected all columns in one chunk. Pass "
            'X.rechunk({k: -1 for k in range(1, X.ndim)} | {0: "auto"}).'
        )


def partitions(X: Any, y: Any, w: Any) -> list[Part]:
    """Return the partitions of X with their targets and weights."""
    if isinstance(X, (array.Array, dataframe.DataFrame)):
        together = delayed(aligned, pure=False)
        sizes: list[int | None] = [None] * X.npartitions
        if isinstance(X, array.Array):
            check_columns(X)
            sizes = [None if np.isnan(size) else int(size) for size in X.chunks[0]]
        columns = np.ravel(X.to_delayed()), vector(X, "y", y), vector(X, "w", w)
        batches = (together(*each) for each in zip(*columns, strict=True))
        return [Part(k, *each) for k, each in enumerate(zip(batches, sizes, strict=True))]
    is_bag = isinstance(X, bag.Bag)
    if not (is_bag or are_delayed(X)):
        raise TypeError(refusal("X", X))
    for name, value in (("y", y), ("w", w)):
        if value is not None:
            raise ValueError(
                f"{name} is given with X of type {type(X).__name__}, expected tuples (X, y) or "
                f"(X, y, w) in X alone. Put {name} into these tuples."
            )
    made = map(delayed(Items), X.to_delayed()) if is_bag else X
    return [Part(number, each, None) for number, each in enumerate(made)]


def vector(X: Any, name: str, values: Any) -> list[Any]:
    """Return the partitions of targets or weights, a None for each if weights are not given.

    Rows are matched by position, partition by partition, as in one process.
    """
    if values is None:
        if name == "y":
            raise ValueError("y is None, expected the targets of the rows of X. Pass y.")
        return [None] * X.npartitions
    if isinstance(values, array.Array):
        parts = array_parts(X, name, values)
    elif isinstance(values, (dataframe.Series, dataframe.DataFrame)):
        parts = values.to_delayed()
    else:
        raise TypeError(
            f"{name} is of type {type(values).__name__}, expected a dask collection. Pass "
            f"array.from_array({name}, …) or dataframe.from_pandas({name}, …)."
        )
    if len(parts) != X.npartitions:
        raise ValueError(
            f"{name} has {len(parts)} partitions, expected {X.npartitions} as X has. Repartition "
            "it, or pass arrays of known lengths: a dataframe's to_dask_array(lengths=True)."
        )
    return parts


def array_parts(X: Any, name: str, values: array.Array) -> list[Any]:
    """Return the partitions of an array of targets or weights, split like X if possible."""
    if not values.ndim:
        raise ValueError(f"{name} has shape (), expected one entry per row. Pass an array.")
    chunks: dict[int, Any] = dict.fromkeys(range(1, values.ndim), -1)
    lengths = X.chunks[0] if isinstance(X, array.Array) else (np.nan,)
    if not np.isnan([*lengths, *values.chunks[0]]).any():
        if values.shape[0] != X.shape[0]:
            raise ValueError(
                f"{name} has {values.shape[0]} rows, expected {X.shape[0]} as X has. Pass one "
                "entry for each row."
            )
        chunks[0] = lengths
    return list(values.rechunk(chunks).to_delayed().ravel())


def aligned(X: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    """Return a batch; raise if targets or weights of a frame have another index."""
    for name, values in (("y", y), ("w", w)):
        if not (hasattr(X, "index") and hasattr(values, "index")):
            continue
        if not X.index.equals(values.index):
            raise ValueError(
                f"{name} has another index than X, expected the same index: rows are matched by "
                "position. Pass columns of one dataframe."
            )
    return X, y, w


def check_names(model: Any, X: Any) -> None:
    """Raise if the known columns of X do not fit the model's."""
    known = linear_of(model)._columns
    if steps_before(model) or not len(known) or isinstance(last_step(model), ShallowConvClassifier):
        return
    if isinstance(X, array.Array) and X.ndim == 2:
        known.extended((range(X.shape[1]),))
    if isinstance(X, dataframe.DataFrame):
        known.extended((tuple(X.columns),))


def n_features_of(model: Any, X: Any) -> int:
    """Return the number of features that a model will have, as far as it is known."""
    last, steps = last_step(model), [each for _, each in steps_before(model)]
    if isinstance(last, ShallowConvClassifier):
        return last._network.hidden.n_hidden
    known = [len(linear_of(model).feature_names), *(getattr(each, "n_hidden", 0) for each in steps)]
    if isinstance(X, array.Array) and not steps:
        known.append(int(np.prod(X.shape[1:])))
    return max(known)


def blocks_of(parts: Sequence[Part], least: int) -> Iterator[list[Part]]:
    """Yield lists of consecutive partitions with at least `least` rows."""
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
    """Return blocks whose batches are computed by the task that learns them.

    Separate tasks would run ahead: batches of later blocks would wait in memory, often on another
    worker. Dask still computes tasks that several blocks need, tasks whose results a cluster
    already holds, and tasks with annotations (of delayed batches: Dask drops the annotations of
    arrays and frames).
    """
    nodes = {part.batch.key: part.batch for block in blocks for part in block}
    graphs = [node.__dask_graph__() for node in nodes.values()]
    layers = {
        id(one): one for graph in graphs for one in getattr(graph, "layers", {0: graph}).values()
    }
    graph = dict(chain.from_iterable(one.items() for one in layers.values()))
    needs = {key: getattr(task, "dependencies", {None}) for key, task in graph.items()}
    # Results that a cluster holds are not in the graph, or not as tasks.
    is_whole = nodes.keys() <= graph.keys() and all(graph.keys() >= keys for keys in needs.values())
    is_plain = not any(getattr(one, "annotations", None) for one in layers.values())
    owners: dict[Any, int] = {} if is_whole and is_plain else dict.fromkeys(nodes, SEVERAL_BLOCKS)
    recipes = [Recipe(block) for block in blocks]
    for number, recipe in enumerate(recipes):
        found = list(recipe.keys)
        while found:
            key = found.pop()
            owner = owners.get(key)
            if owner not in (number, SEVERAL_BLOCKS):
                owners[key] = number if owner is None else SEVERAL_BLOCKS
                found.extend(needs[key])
    for key, owner in owners.items():
        if owner != SEVERAL_BLOCKS:
            recipes[owner].tasks[key] = graph[key]
    # Not the whole graph, because Dask would traverse it for every input.
    left = {
        key: graph[key] for key, owner in owners.items() if owner == SEVERAL_BLOCKS and key in graph
    }
    made = []
    for recipe in recipes:
        needed = chain(recipe.keys, *(needs[key] for key in recipe.tasks))
        recipe.inputs = [key for key in dict.fromkeys(needed) if key not in recipe.tasks]
        given = [nodes[key] if key in nodes else Delayed(key, left) for key in recipe.inputs]
        made.append(Block(recipe, given))
    return made


def chains(blocks: Sequence[Block]) -> Iterator[Sequence[Block]]:
    """Yield the blocks that a model learns in turn: at most 8, fewer towards the end."""
    while blocks:
        length = min(MAX_BLOCKS_PER_MODEL, -(-len(blocks) // MAX_BLOCKS_PER_MODEL))
        yield blocks[:length]
        blocks = blocks[length:]


# -- tasks ----------------------------------------------------------------------------------------


class Items(list[Any]):
    """The items of a partition of a bag."""


def unzipped(items: Items) -> tuple[list[Any], ...]:
    """Return samples, labels, and weights if there are any, of a partition of a bag."""
    for place, item in enumerate(items):
        if not (isinstance(item, (tuple, list)) and len(item) in (2, 3)):
            raise TypeError(
                f"item {place} is {reprlib.repr(item)}, expected a pair (x, y) of a sample and its "
                "target, or a triple (x, y, w). Pass bag.zip(X, y) for two bags."
            )
    samples, targets = [item[0] for item in items], [item[1] for item in items]
    if all(len(item) == 2 for item in items):
        return samples, targets
    return samples, targets, [item[2] if len(item) == 3 else 1.0 for item in items]


def learnt(before: Any, state: LinearModel, recipes: Sequence[Recipe], *given: Any) -> LinearModel:
    """Return a copy of a linear model that has learnt the features of blocks."""
    state = copied(state)
    for number, batch in numbered(recipes, given):
        try:
            X, y, *w = read(batch)
            lengths = [n_rows_of(each) for each in (X, y, *w) if each is not None]
            if lengths[0] == 0 and lengths[1]:
                raise ValueError(
                    f"X has 0 rows, expected {lengths[1]} as y has. Cut rows and targets into "
                    "equal partitions."
                )
            if any(length != 0 for length in lengths):
                state.learn_many(features(before, X), y, *w)
        except Exception as error:
            # Other exceptions may need more arguments than a message.
            if type(error) not in (TypeError, ValueError):
                error.add_note(f"Raised while partition {number} was learnt.")
                raise
            raise type(error)(f"Partition {number}: {error}") from error
        del batch, X, y, w  # Before the next block is made.
    return state


def read(batch: Any) -> tuple[Any, ...]:
    """Return samples, targets, and weights if there are any."""
    parts = unzipped(batch) if isinstance(batch, Items) else batch
    if not (isinstance(parts, (tuple, list)) and len(parts) in (2, 3)):
        raise TypeError(
            f"a batch is of type {type(parts).__name__}, expected a tuple (X, y) or (X, y, w). "
            "Return one of these tuples from each delayed function."
        )
    return tuple(parts)


def n_rows_of(values: Any) -> int | None:
    """Return the number of rows of an array, frame or list, None if unknown."""
    shape = getattr(values, "shape", None)
    return shape[0] if shape else len(values) if isinstance(values, (list, tuple)) else None


def features(before: Any, X: Any) -> Any:
    """Return the features of rows; a pipeline transforms samples in a list one by one."""
    if before is None:
        return X
    if isinstance(X, (list, tuple)) and is_pipeline(before):
        return [before.transform_one(x) for x in X]
    return before.transform_many(X)


def numbered(
    recipes: Sequence[Recipe], given: Sequence[Any]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the number of every partition and its batch, computed block by block."""
    values = iter(given)
    for recipe in recipes:
        own = list(islice(values, len(recipe.inputs)))
        yield from zip(recipe.numbers, recipe.batches(own), strict=True)


def answers(model: Any, batch: Any, none: Any = None) -> Any:
    """Return the predictions for a partition, or `none` if the partition is empty.

    Arrays are converted to the type of `none`, since arrays of labels can have different types.
    """
    if none is not None and n_rows_of(batch) == 0:
        return none
    made = model.predict_many(batch)
    return made.astype(none.dtype) if isinstance(none, np.ndarray) else made


__all__ = ["fit", "predict"]
