"""Answers before learning: every row of a batch is answered by the rows before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from onlinels.accumulators.base import Followed, Rows
from onlinels.checks import Floats, Integers, Matrix, by_row, uncast
from onlinels.labels import Label
from onlinels.linalg.recursion import FOLLOWED, N_RECENT, OUTWEIGHED, Recursion
from onlinels.linear.model import Checked, LinearModel, Targets
from onlinels.linear.penalty import first_rows_that_vary, refreshed_after
from onlinels.numerics import State, Update, apply, enlarged
from onlinels.rows import Batch, names_of, table_like

Model = TypeVar("Model", bound=LinearModel)

SHORTEST = 4
"""Rows from which a block costs less than its rows one by one."""

BLOCK_ENTRIES = 2**16
"""Entries of the rows that are answered at once: 512 KiB, which stay in the cache."""

FAINTEST_WEIGHT = 1e-200
"""Weight with which a row without weight is answered among others."""


class Answers(NamedTuple):
    """Scores of rows before they were learnt, and the model after them.

    Attributes
    ----------
    model : LinearModel, or a classifier that ends in one
        A copy of the model that has learnt the rows.
    source : Any
        What was read, for an answer in kind.
    scores : ndarray (n, n_targets)
        Of targets that were not known yet, 0.
    known : ndarray (n,) of int
        Number of targets (classes) that were known before each row.
    variances : ndarray (n, n_targets), or None
        Variances of fresh targets about the scores, where they were asked for.
    """

    model: Any
    source: Any
    scores: Floats
    known: Integers
    variances: Floats | None = None


def answered(
    model: LinearModel, X: Any, y: Any, w: Any, t: Any, with_dist: bool = False
) -> Answers:
    """Return scores of the rows of a batch before each is learnt, and the model after the batch.

    The model itself does not change; its lock is held.

    Raises
    ------
    TypeError, ValueError
        As `LinearModel.learn_many`.
    """
    batch, read, weights = model._read_many(X, y, w, t)
    rows = model._checked(batch, read, weights, t)
    own = model._independent()
    own._settle()
    stream = Stream(batch, rows, read, by_row("t", t, len(batch)))
    n_rows, known = len(batch), known_before(own, rows)
    scores = np.zeros((n_rows, rows.n_targets))
    variances = np.full(scores.shape, np.inf) if with_dist else None
    grows = np.append(known[1:], rows.n_targets) > known
    breaks = first_rows_that_vary(own._events_of(rows.values, rows.w, rows.times), n_rows)
    start = 0
    while start < n_rows:
        own._settle()
        stop = _block_end(own, rows, start, grows, breaks)
        n_answered = 0
        if stop - start >= SHORTEST and not with_dist:
            n_answered = _answer_block(own, rows.part(slice(start, stop)), scores[start:stop])
        if not n_answered:
            n_answered = 1
            sample = stream.sample(start)
            found = own._row_scores(sample)
            scores[start, : len(found)] = found
            if variances is not None:
                variances[start, : len(found)] = own._variances(own._read_one(sample), own=1.0)[0]
            own.learn_one(*stream.example(own, start))
        start += n_answered
    return Answers(own, batch.source, scores, known, variances)


def becoming(model: Any, learnt: Any) -> State:
    """Return the changes by which a model becomes its copy that has learnt."""
    return tuple((model, *item) for item in vars(learnt).items())


def put_in_place(model: Any, answers: Answers) -> None:
    """Let a model become its copy that has learnt, all at once."""
    apply(Update(state=becoming(model, answers.model)))


def joined_answers(model: Any, source: Any, parts: Sequence[Answers]) -> Answers:
    """Return the answers of batches that follow one another as those of a single batch."""
    n_targets = parts[-1].scores.shape[1]
    scores = [enlarged(part.scores, len(part.scores), n_targets) for part in parts]
    known = np.concatenate([part.known for part in parts])
    return Answers(model, source, np.concatenate(scores), known)


def labels_before(answers: Answers) -> list[Label | None]:
    """Return the label of the highest score of every row; None where no class was known."""
    classes = answers.model.classes
    unknown = np.arange(len(classes)) >= answers.known[:, None]
    best = np.where(unknown, -np.inf, answers.scores).argmax(axis=1).tolist()
    return [classes[k] if n else None for k, n in zip(best, answers.known, strict=True)]


def alike(known: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each number of known classes above 0, and the rows before which so many were known."""
    for n_known in np.unique(known[known > 0]).tolist():
        yield n_known, np.flatnonzero(known == n_known)


def probabilities_before(
    answers: Answers, probabilities_of: Callable[[Integers, Floats], Floats]
) -> Floats:
    """Return the probabilities of every row, (n, n_classes): 0 of classes not known before it.

    `probabilities_of` makes them from numbers of rows and their scores of the known classes.
    """
    probabilities = np.zeros(answers.scores.shape)
    for n_known, rows in alike(answers.known):
        probabilities[rows, :n_known] = probabilities_of(rows, answers.scores[rows, :n_known])
    return probabilities


def table_before(answers: Answers, probabilities: Floats) -> Any:
    """Return a table in the kind of what was read; dicts hold the classes that were known."""
    classes = answers.model.classes
    table = table_like(answers.source, classes, probabilities)
    if isinstance(answers.source, (list, tuple)):
        met = zip(table, answers.known.tolist(), strict=True)
        table = [{label: row[label] for label in classes[:n]} for row, n in met]
    return table


class Stream(NamedTuple):
    """The rows of a batch, one by one."""

    batch: Batch
    rows: Checked
    read: Targets
    times: Sequence[Any]

    def sample(self, row: int) -> Any:
        """Return a row as a river sample."""
        if isinstance(self.batch.source, (list, tuple)):
            return self.batch.source[row]
        names = names_of(self.batch.layouts[-1])
        return dict(zip(names, self.batch.values[row].tolist(), strict=True))

    def example(self, model: LinearModel, row: int) -> tuple[Any, Any, float, Any]:
        """Return a row as arguments of `learn_one`."""
        w = self.rows.w if isinstance(self.rows.w, float) else float(self.rows.w[row])
        y = model._target_of(self.read, row)
        return self.sample(row), y, w, self.times[row]


def known_before(model: LinearModel, rows: Checked) -> Integers:
    """Return how many targets a model knows before each row, (n,): labels are new once."""
    n_known, n_rows = len(model._outputs), len(rows.targets)
    if rows.targets.ndim == 2:
        known = np.full(n_rows, rows.n_targets)
        known[0] = n_known
        return known
    met: Integers = np.maximum.accumulate(np.append(n_known - 1, rows.targets[:-1])) + 1
    return met


def _block_end(
    model: LinearModel, rows: Checked, start: int, grows: Matrix, breaks: Integers
) -> int:
    """Return up to which row a solution can follow: the first one if it cannot.

    A block ends where the ridge or the units of features are due, before a new target, before a
    feature that begins to vary where features have units, and before a ridge inside is restored.
    """
    statistics, clock, penalty = model._statistics, model._clock, model._penalty
    inside = statistics.recursion
    if not statistics.weight or (inside is None and (clock.forgets or statistics.holds_ridge)):
        return start
    size = statistics.n_features + statistics.n_targets
    n_rows = min(len(rows.targets) - start, max(N_RECENT, BLOCK_ENTRIES // size))
    if model._is_chosen:
        if penalty.until_time is not None:
            return start
        n_rows = min(n_rows, penalty.until - statistics.count)
        if penalty.units is not None:
            n_rows = min([n_rows, *(breaks[breaks >= start][:1] - start)])
            if inside is None:
                assert penalty.values is not None
                step = refreshed_after(int(np.count_nonzero(np.isnan(penalty.values))))
                n_rows = min(n_rows, step - statistics.count % step)
    n_rows = min([n_rows, *np.flatnonzero(grows[start : start + n_rows])[:1]])
    if inside is not None and clock.forgets and n_rows > 0:
        part = rows.part(slice(start, start + n_rows))
        kept = inside.level * clock.decays(n_rows, part.times)
        n_rows = min([n_rows, *np.flatnonzero(kept < inside.least * inside.ridge)[:1]])
    if inside is None and model._recursion is not None and not model._is_refined:
        n_rows = min(n_rows, N_RECENT)
    return start + max(0, int(n_rows))


def _answer_block(model: LinearModel, rows: Checked, scores: Floats) -> int:
    """Answer rows and learn them; return how many, 0 if no solution can follow."""
    followed = _solution(model)
    if followed is None:
        return 0
    columns, n_targets = rows.news["_columns"], model._statistics.n_targets
    # Names of targets that come later in the batch come with their first row.
    news = {name: getattr(model, name) for name in rows.news} | {"_columns": columns}
    rows = rows._replace(news=news, n_targets=n_targets)
    statistics = model._statistics.grown(len(columns), n_targets).named(columns.names)
    inside = statistics.recursion is not None
    recursion = followed.grown(len(columns), n_targets).copied()
    clock, past, weights = model._clock.tick(rows.w, len(rows.targets), rows.times)
    learnt = Rows(uncast(rows.values), rows.targets, weights)
    # The past as it is; rows weigh more instead of it weighing less.
    now = learnt._replace(w=learnt.w / past)
    running = statistics.running(now)
    # A row without weight is answered, and learnt too faintly to be seen.
    roots = np.sqrt(np.maximum(running.w, FAINTEST_WEIGHT))[:, None]
    values, targets = running.values * roots, running.targets * roots
    found = recursion.answer_and_learn(values, targets, OUTWEIGHED if inside else FOLLOWED)
    n_answered = len(found)
    found /= roots[:n_answered]
    found += running.target_means[:n_answered]
    scores[:n_answered, :n_targets] = found
    model._correct_before(scores[:, :n_targets], now)
    if inside:
        events = model._events_of(rows.values, rows.w, rows.times)
        news |= {"_clock": clock}
        unweighted = running.w == 0.0
        values[unweighted], targets[unweighted] = 0.0, 0.0
        every = slice(0, n_answered)
        follows = Followed(values, targets, running.mean, recursion.scaled(past))
        apply(model._plan_rows(learnt, past, n_targets, news, every, events, follows))
        return n_answered
    until = model._goes_on_until
    model._learn_checked(rows.part(slice(0, n_answered)))
    if n_answered == len(rows.targets) and model._is_settled:
        model._recursion, model._goes_on_until = recursion, until
        model._asked_at = model.count
    return n_answered


def _solution(model: LinearModel) -> Recursion | None:
    """Return the solution that goes on from row to row, as of now; None if none does."""
    if model._statistics.recursion is not None:
        return model._statistics.recursion
    if model._following() is None:
        # As if somebody had asked: the next solution goes on.
        model._solution, model._asked_at = None, model.count
        model._solved()
    return model._following()
