"""Predict before learning: every row of a batch is predicted from the rows before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, Integers, row_blocks, uncast
from onlinels.core import IN_USE
from onlinels.core.constants import MAX_RUNNING_LEVERAGE
from onlinels.linear.following import MIN_SHARE
from onlinels.linear.model import LinearModel, checked, read_rows, teach
from onlinels.linear.ridge import changes_in, totals_after
from onlinels.linear.scoring import discriminant
from onlinels.linear.single import rows_of
from onlinels.linear.state import State, chosen, recursion_beside
from onlinels.numerics import enlarged, read_whole, shallow_copy
from onlinels.rows.answers import labels_like, table_like
from onlinels.rows.batch import Batch, is_frame, names_of, warn_of_other_columns
from onlinels.rows.labels import Label
from onlinels.rows.times import ReadTimes
from onlinels.sums.audit import held_targets
from onlinels.sums.axes import grown
from onlinels.sums.recursion import BLOCK_ROWS_OF_MANY, Recursion
from onlinels.sums.rows import Rows
from onlinels.sums.statistics import Statistics

LEAST_BLOCK_ROWS = 4
"""Number of rows from which a block costs less than its rows one by one."""

BLOCK_ENTRIES = 2**16
"""Number of entries of the rows predicted at once: 512 KiB, which stay in the cache.

With many features, the rows have half as many entries as the recursion that is copied for them.
"""

FEATURES_IN_BLOCKS = 200
"""Number of features from which blocks of rows cost less than rows one by one in compiled code.

Measured, us per row, in blocks and one by one: 5.3 and 3.3 at 100 features, 11.6 and 11.4 at 213,
58 and 103 at 512.
"""

MAX_SQUARES_GROWTH = 16.0
"""Growth of the sum of squares of a feature after which the recursion is checked again."""

MIN_ROW_WEIGHT = 1e-200
"""Weight with which a row without weight is predicted among others."""


class Answers(NamedTuple):
    """Scores of rows before the rows were learnt, and the model after them.

    Attributes
    ----------
    model : LinearModel, or a classifier that ends in one
        A copy of the model that has learnt the rows.
    source : Any
        The input, which determines the kind of the answer.
    scores : ndarray (n, n_targets)
        Scores of the rows; 0 for targets that were not known yet.
    known : ndarray (n,) of int
        Number of targets (classes) that were known before each row.
    variances : ndarray (n, n_targets), or None
        Variances of new targets about the scores, if requested.
    """

    model: Any
    source: Any
    scores: Floats
    known: Integers
    variances: Floats | None = None


def answered(
    model: LinearModel,
    X: Any,
    y: Any,
    w: Any,
    t: Any,
    with_dist: bool = False,
    are_asked: bool = True,
) -> Answers:
    """Return the scores of every row of a batch before it is learnt, and the model after the batch.

    The model itself does not change; its lock is held. If the scores are asked for, a frame that
    lacks columns causes a warning.

    Raises
    ------
    TypeError, ValueError
        As `LinearModel.learn_many`.
    """
    batch, read, weights = read_rows(model, X, y, w, t)
    rows = checked(model, batch, read, weights, t)
    if are_asked and is_frame(batch.source):  # Whoever learns an array is told of its width.
        warn_of_other_columns(model._state.columns, batch)
    own: Any = shallow_copy(model)
    own._state = model._state.copied()
    if len(batch):
        own._take_form(batch.layouts[-1])
    n_rows = len(batch)
    weights_by_row = np.broadcast_to(weights, n_rows).tolist()
    scores = np.zeros((n_rows, rows.shape[1]))
    variances = np.full(scores.shape, np.inf) if with_dist else None
    start = 0
    while start < n_rows:
        own._state = chosen(own._state)
        # In blocks, there are no variances.
        if with_dist or (IN_USE == "compiled" and are_by_row(own._state)):
            n_answered = _answer_rows(own, rows, start, scores, variances)
        else:
            n_answered = _answer_block(own, rows, start, scores)
        if not n_answered:
            n_answered, sample = 1, sample_of(batch, start)
            found = own._row_scores(sample)
            scores[start, : len(found)] = found
            if variances is not None:
                variances[start, : len(found)] = own._variances(own._read_one(sample), own=1.0)[0]
            time = None if rows.times is None else ReadTimes(rows.times[start : start + 1])
            own.learn_one(sample, own._target_of(read, start), weights_by_row[start], time)
        start += n_answered
    return Answers(own, batch.source, scores, known_before(model, rows), variances)


def put_in_place(model: Any, answers: Answers) -> None:
    """Replace the state of a model by that of its copy that has learnt, at once."""
    vars(model).update(vars(answers.model))


def joined_answers(model: Any, source: Any, parts: Sequence[Answers]) -> Answers:
    """Return the answers of successive batches as the answers of a single batch."""
    n_targets = parts[-1].scores.shape[1]
    scores = [enlarged(part.scores, len(part.scores), n_targets) for part in parts]
    known = np.concatenate([part.known for part in parts])
    return Answers(model, source, np.concatenate(scores), known)


def labels_before(answers: Answers) -> list[Label | None]:
    """Return the label with the highest score for every row; None if no class was known."""
    classes = answers.model.classes
    if not len(answers.known):
        return []
    unknown = np.arange(len(classes)) >= answers.known[:, None]
    best = np.where(unknown, -np.inf, answers.scores).argmax(axis=1).tolist()
    return [classes[k] if n else None for k, n in zip(best, answers.known, strict=True)]


def label_and_learn(model: Any, X: Any, y: Any, w: Any, t: Any) -> Any:
    """Return the label of every row before it is learnt, in the kind of `X`, and learn the rows."""

    def read() -> tuple[Any, Answers]:
        answers = model._answered(X, y, w, t)
        labels = labels_before(answers)
        return labels_like(answers.source, labels, answers.model.classes), answers

    predicted, answers = read_whole(read, model)
    put_in_place(model, answers)
    return predicted


def tabulate_and_learn(model: Any, X: Any, y: Any, w: Any, t: Any) -> Any:
    """Return the probabilities of every row before it is learnt, and learn the rows."""
    table, answers = read_whole(lambda: tabulated(model._answered(X, y, w, t)), model)
    put_in_place(model, answers)
    return table


def tabulated(answers: Answers) -> tuple[Any, Answers]:
    """Return the probabilities of every row before it is learnt, and the answers again."""
    classes, known = answers.model.classes, answers.known
    classes = (*classes, *answers.model._unseen(len(classes)))
    columns = {label: column for column, label in enumerate(classes)}
    # Rows before which the same number of classes was known; other classes have 0.
    probabilities = np.zeros((len(known), len(classes)))
    labels: dict[int, tuple[Label, ...]] = {0: ()}
    for n_known in np.unique(known[known > 0]).tolist():
        rows = np.flatnonzero(known == n_known)
        labels[n_known], shares = answers.model._with_unseen(answers.scores[rows, :n_known])
        places = np.array([columns[label] for label in labels[n_known]], dtype=np.intp)
        probabilities[np.ix_(rows, places)] = shares
    table = table_like(answers.source, classes, probabilities)
    if isinstance(answers.source, (list, tuple)):
        # Dicts hold the classes that were known at their row.
        pairs = zip(table, known.tolist(), strict=True)
        table = [{label: row[label] for label in labels[n]} for row, n in pairs]
    return table, answers


def sample_of(batch: Batch, row: int) -> Any:
    """Return a row of a batch as a river sample."""
    if isinstance(batch.source, (list, tuple)):
        return batch.source[row]
    names, values = names_of(batch.layouts[-1]), uncast(batch.matrix[row : row + 1])
    return dict(zip(names, values[0].tolist(), strict=True))


def known_before(model: LinearModel, rows: Rows) -> Integers:
    """Return the number of targets that a model knows before each row, (n,)."""
    n_known, n_rows = len(model._state.outputs), len(rows.targets)
    if rows.targets.ndim == 2:
        known = np.full(n_rows, rows.shape[1])
        known[:1] = n_known
        return known
    n_before: Integers = np.maximum.accumulate(np.append(n_known - 1, rows.targets)) + 1
    return n_before[:n_rows]


def _block_length(model: LinearModel, rows: Rows, start: int) -> int:
    """Return the number of rows from `start` on that a recursion can learn as a block.

    A block ends where a choice of the ridge or the units is due, before a new target, before a
    feature begins to vary if features have units, and before a ridge that decays is restored.
    """
    state = model._state
    statistics, clock, penalty = state.statistics, state.clock, state.penalty
    is_empty = not (statistics.weight and statistics.n_features)
    if is_empty or (clock.forgets and not model._state.settings.is_recursive):
        return 0
    size = statistics.n_features + statistics.n_targets
    most = min(max(size // 2, BLOCK_ENTRIES // size), state.following.due - statistics.count)
    if most < 1:  # Beyond the rows that are counted one by one.
        return 0
    rows = rows.some(slice(start, start + int(most)))
    n_rows = len(rows.targets)
    ends = [n_rows]
    totals = totals_after(penalty.began, statistics, clock, rows)
    ends.append(totals.first_due(state.following.due_weight, 0, n_rows) + 1)
    if penalty.until_time is not None:
        passed: Any = clock.passed(n_rows, rows.times, penalty.until_time)
        ends.append(int(np.searchsorted(passed, 0.0)) + 1)
    if penalty.units is not None:
        firsts = changes_in(penalty, statistics, rows)[1]
        ends.append(int(firsts[firsts >= 0].min(initial=n_rows)))
    if rows.targets.ndim == 1:
        ends += np.flatnonzero(rows.targets >= len(model._state.outputs))[:1].tolist()
    if clock.forgets:
        kept = state.following.share * np.cumprod(clock.factors(n_rows, rows.times))
        ends += np.flatnonzero(kept < MIN_SHARE)[:1].tolist()
    return min(ends)


def are_by_row(state: State) -> bool:
    """Return whether compiled code answers and learns rows faster than products of blocks."""
    recursion = state.following.recursion
    is_lost = recursion is not None and recursion.trust < 1.0
    return not is_lost and len(state.columns) < FEATURES_IN_BLOCKS


def _answer_rows(
    model: LinearModel, rows: Rows, start: int, scores: Floats, variances: Floats | None
) -> int:
    """Predict rows and learn them one by one, by compiled code, up to a row with an event.

    Return their number. `scores` and, unless None, `variances` change in place.
    """
    n_known = len(model._state.outputs)
    is_known = rows.shape[0] == len(model._state.columns) and model._state.statistics.weight
    if IN_USE != "compiled" or not is_known:
        return 0
    if model._state.following.rows is None:
        model._solved()  # This counts as a prediction, so that weights follow the rows.
    single: Any = rows_of(model._state)
    if single is None:
        return 0
    part = rows.some(slice(start, start + max(64, 4 * BLOCK_ENTRIES // rows.shape[0])))
    times = None if part.times is None else model._state.clock.parts(part.times)
    if times is None and part.times is not None:
        return 0
    values = np.require(uncast(part.values), np.float64, ("C", "A"))
    targets = np.require(part.targets, requirements=("C", "A"))
    found, weights = np.empty((len(targets), n_known)), np.full(len(targets), part.w)
    spread = None if variances is None else np.empty(found.shape)
    n_answered: int = single.predict_learn(values, targets, weights, found, spread, times)
    answered = slice(start, start + n_answered)
    scores[answered, :n_known] = found[:n_answered]
    if variances is not None and spread is not None:
        variances[answered, :n_known] = spread[:n_answered]
    return n_answered


def _answer_block(model: LinearModel, rows: Rows, start: int, scores: Floats) -> int:
    """Predict rows and learn them in a block; return their number, 0 if no recursion can."""
    n_rows = _block_length(model, rows, start)
    current = _current_recursion(model) if n_rows >= LEAST_BLOCK_ROWS else None
    if current is None:
        return 0
    trust, valid_until = current.trust, model._state.following.valid_until
    # The names of the targets become known with the first row.
    outputs = model._state.outputs
    rows = rows.some(slice(start, start + n_rows))._replace(outputs=outputs)
    statistics = grown(model._state.statistics, *rows.shape)
    before = grown(current, *rows.shape)
    rows = rows.some(slice(0, _sound_rows(statistics, before, rows)))
    n_rows = len(rows.targets)
    _, past, weights = model._state.clock.tick(rows.w, n_rows, rows.times)
    # The past does not decay here; instead, the rows weigh more.
    now = rows._replace(values=uncast(rows.values), w=weights / past)
    most = MAX_RUNNING_LEVERAGE * trust
    found, after, innovations = _answered_and_learnt(statistics, before, now, most)
    n_answered = len(found)
    if not n_answered:
        return 0
    if model._state.settings.priors is not None:
        explained = statistics.products.explained_products(before.weights)
        # The factor to which the past has decayed before each row.
        kept = np.append(1.0, np.cumprod(model._state.clock.factors(n_rows, rows.times))[:-1])
        _make_discriminants(model, statistics, explained, now, kept, innovations, found)
    scores[start : start + n_answered, : len(outputs)] = found
    rows = rows.some(slice(0, n_answered))
    _, past, _ = model._state.clock.tick(rows.w, n_answered, rows.times)
    teach(model, rows)
    if past != 1.0:
        after = after.scaled(past)
    trust = min(trust, model._state.statistics.products.refine(after))
    if trust:
        after.trust = trust
        model._state.following.adopt(after, model.count, valid_until)
    return n_answered


def _make_discriminants(
    model: LinearModel,
    statistics: Statistics,
    explained: Floats,
    rows: Rows,
    kept: Floats,
    innovations: Floats,
    scores: Floats,
) -> None:
    """Turn the least-squares scores of rows before each is learnt into discriminant scores.

    The scores change in place. `explained` is G = W'A'Y before the first row. Each row adds its
    targets to the products T = Y'Y, and the outer product of its innovations to T - G. So G is
    known before every row. `kept` is the factor to which all weights have decayed by then.
    """
    n_targets, weighed = statistics.n_targets, rows.weights()[:, None]
    weighed = weighed * rows.dense_targets(n_targets)
    # The sums before each row is added, and after the last row.
    weights = np.cumsum(np.vstack((held_targets(statistics), weighed)), axis=0)
    centres = np.zeros(weights.shape)
    if statistics.is_centred:
        centres = weights / weights.sum(axis=1, keepdims=True)

    def products(rows: slice) -> Floats:
        """Return T before some rows."""
        diagonal = np.eye(n_targets) * weights[rows, None]
        found: Floats = diagonal - weights[rows, :, None] * centres[rows, None]
        return found

    residual = products(slice(0, 1)) - explained
    for part in row_blocks(len(scores), n_targets**2):
        added = innovations[part, :, None] * innovations[part, None]
        residuals = np.cumsum(np.concatenate((residual, added)), axis=0)
        residual = residuals[-1:]
        decayed = kept[part, None] * weights[part]
        explained = kept[part, None, None] * (products(part) - residuals[:-1])
        known = decayed, centres[part], model._state.settings.priors, model._state.outputs.labels
        rules = discriminant(explained, *known)
        scores[part] = rules.scores(scores[part])


def _sound_rows(statistics: Statistics, recursion: Recursion, rows: Rows) -> int:
    """Return the number of rows, at least 1, after which the recursion is checked again.

    Within these rows, no sum of squares of a feature grows more than `MAX_SQUARES_GROWTH`-fold.
    """
    if recursion.trust < 1.0:
        rows = rows.some(slice(0, BLOCK_ROWS_OF_MANY))
    most = MAX_SQUARES_GROWTH * (statistics.diagonal + recursion.penalties)
    deviations = uncast(rows.values) - statistics.feature_mean
    deviations *= np.sqrt(np.broadcast_to(rows.w, len(deviations)))[:, None]
    if (np.einsum("ij,ij->j", deviations, deviations) <= most).all():
        return len(deviations)
    outgrown = (np.cumsum(deviations**2, axis=0) > most).any(axis=1)
    return max(1, int(outgrown.argmax()))


def augmented(statistics: Statistics, rows: Rows) -> tuple[Floats, Floats, Floats]:
    """Return rows and targets for a recursion, in new arrays, and the means of the targets.

    With an intercept, rows and targets are about the mean, and a 1 follows each row.
    """
    values, targets = statistics.about_mean(rows.values), rows.dense_targets(statistics.n_targets)
    if statistics.mean is not None:
        for each in statistics.mean:
            targets -= each[statistics.n_features :]
        values = np.hstack((values, np.ones((len(values), 1))))
    return values, targets, statistics.target_mean


def _answered_and_learnt(
    statistics: Statistics, before: Recursion, rows: Rows, most: float
) -> tuple[Floats, Recursion, Floats]:
    """Return the scores of rows before each is learnt, the recursion after them, and innovations.

    The scores stop before a row that outweighs the sums in some direction by more than `most`.
    """
    values, targets, mean = augmented(statistics, rows)
    is_centred = statistics.is_centred
    recursion = before.with_intercept(statistics.weight) if is_centred else before.copied()
    # A row without weight is predicted, and learnt with a weight that rounding hides.
    roots = np.sqrt(np.maximum(rows.weights(), MIN_ROW_WEIGHT))[:, None]
    is_weighed = bool((roots != 1.0).any())
    if is_weighed:
        values *= roots
        targets *= roots
    found, innovations = recursion.answer_and_learn(values, targets, most)
    if is_weighed:
        found /= roots[: len(found)]
    found += mean
    return found, recursion.without_intercept() if is_centred else recursion, innovations


def _current_recursion(model: LinearModel) -> Recursion | None:
    """Return the recursion beside the sums; None if no recursion can learn rows."""
    following = model._state.following
    if following.asked(model._state.statistics) is None:
        following.ask_again(model.count)
        model._solved()
    recursion_beside(model._state)
    return model._state.following.asked(model._state.statistics)
