"""Predict before learning: every row of a batch is predicted from the rows before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, Integers, Matrix, by_row, row_blocks, uncast
from onlinels.core import IN_USE
from onlinels.core.reference import NEXT_DUE, PREDICTED_AT, SHARE, VALID_UNTIL
from onlinels.linear.discriminant import discriminant
from onlinels.linear.model import (
    Checked,
    LinearModel,
    Targets,
    checked,
    learn_rows,
    read_rows,
)
from onlinels.linear.ridge import changes_in, is_selected
from onlinels.linear.running import MIN_SHARE, is_answering
from onlinels.numerics import enlarged
from onlinels.rows.batch import Batch, labels_like, names_of, table_like
from onlinels.rows.labels import Label
from onlinels.sums.products import Rows
from onlinels.sums.recursion import BLOCK_ROWS_OF_MANY, MAX_RUNNING_LEVERAGE, Recursion
from onlinels.sums.statistics import Statistics

MIN_BLOCK_ROWS = 4
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
    model: LinearModel, X: Any, y: Any, w: Any, t: Any, with_dist: bool = False
) -> Answers:
    """Return the scores of every row of a batch before it is learnt, and the model after the batch.

    The model itself does not change; its lock is held.

    Raises
    ------
    TypeError, ValueError
        As `LinearModel.learn_many`.
    """
    batch, read, weights = read_rows(model, X, y, w, t)
    rows = checked(model, batch, read, weights, t)
    own: Any = model._independent()
    if not len(batch):
        none = np.zeros((0, len(model._outputs)))
        known = np.zeros(0, dtype=np.intp)
        return Answers(own, batch.source, none, known, none if with_dist else None)
    own._choose_if_due()
    stream = Stream(batch, rows, read, by_row("t", t, len(batch)))
    n_rows, known = len(batch), known_before(own, rows)
    n_targets = rows.shape[1]
    scores = np.zeros((n_rows, n_targets))
    variances = np.full(scores.shape, np.inf) if with_dist else None
    grows = np.append(known[1:], n_targets) > known
    start = 0
    while start < n_rows:
        own._choose_if_due()
        n_answered = 0
        # Variances need the covariance after every row.
        if not with_dist and _are_few_features(own):
            n_answered = _answer_rows(own, rows, start, scores)
        elif not with_dist:
            block = slice(start, _block_end(own, rows, start, grows))
            if block.stop - start >= MIN_BLOCK_ROWS:
                n_answered = _answer_block(own, rows.part(block), scores[block])
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
    answers = model._answered(X, y, w, t)
    predicted = labels_like(answers.source, labels_before(answers), answers.model.classes)
    put_in_place(model, answers)
    return predicted


def tabulate_and_learn(model: Any, X: Any, y: Any, w: Any, t: Any) -> Any:
    """Return the probabilities of every row before it is learnt, and learn the rows."""
    answers = model._answered(X, y, w, t)
    classes, known = answers.model.classes, answers.known
    # Rows before which the same number of classes was known; other classes have 0.
    probabilities = np.zeros(answers.scores.shape)
    for n_known in np.unique(known[known > 0]).tolist():
        rows = known == n_known
        of_known = answers.model._probabilities(answers.scores[rows, :n_known])
        probabilities[rows, :n_known] = of_known
    table = table_like(answers.source, classes, probabilities)
    if isinstance(answers.source, (list, tuple)):
        # Dicts hold the classes that were known at their row.
        met = zip(table, known.tolist(), strict=True)
        table = [{label: row[label] for label in classes[:n]} for row, n in met]
    put_in_place(model, answers)
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
        names, values = names_of(self.batch.layouts[-1]), uncast(self.batch.matrix[row : row + 1])
        return dict(zip(names, values[0].tolist(), strict=True))

    def example(self, model: LinearModel, row: int) -> tuple[Any, Any, float, Any]:
        """Return a row as arguments of `learn_one`."""
        w = self.rows.w if isinstance(self.rows.w, float) else float(self.rows.w[row])
        y = model._target_of(self.read, row)
        return self.sample(row), y, w, self.times[row]


def known_before(model: LinearModel, rows: Checked) -> Integers:
    """Return the number of targets that a model knows before each row, (n,)."""
    n_known, n_rows = len(model._outputs), len(rows.targets)
    if rows.targets.ndim == 2:
        known = np.full(n_rows, rows.shape[1])
        known[0] = n_known
        return known
    met: Integers = np.maximum.accumulate(np.append(n_known - 1, rows.targets[:-1])) + 1
    return met


def _block_end(model: LinearModel, rows: Checked, start: int, grows: Matrix) -> int:
    """Return the end of the block of rows that a recursion can learn; `start` for an empty block.

    A block ends where a choice of the ridge or the units is due, before a new target, before a
    feature begins to vary if features have units, and before a ridge that decays is restored.
    """
    statistics, clock, penalty = model._statistics, model._clock, model._penalty
    size = statistics.n_features + statistics.n_targets
    if not (statistics.weight and statistics.n_features):
        return start
    if clock.forgets and not model._settings.is_recursive:
        return start
    n_rows = min(len(rows.targets) - start, max(size // 2, BLOCK_ENTRIES // size))
    if is_selected(model.ridge):
        n_rows = min(n_rows, int(min(model._marks[NEXT_DUE] - statistics.count, n_rows)))
        if penalty.until_time is not None and n_rows > 0:
            latest: Any = clock.latest(n_rows, rows.part(slice(start, start + n_rows)).times)
            n_rows = min(n_rows, int(np.searchsorted(latest, penalty.until_time)) + 1)
        if penalty.units is not None and n_rows > 0:
            part = rows.part(slice(start, start + n_rows))
            w = np.broadcast_to(part.w, n_rows)
            firsts = changes_in(penalty, statistics, part.values, w)[1]
            n_rows = int(firsts[firsts >= 0].min(initial=n_rows))
    n_rows = min([n_rows, *np.flatnonzero(grows[start : start + n_rows])[:1]])
    if clock.forgets and n_rows > 0:
        part = rows.part(slice(start, start + n_rows))
        kept = model._marks[SHARE] * np.cumprod(clock.factors(n_rows, part.times))
        n_rows = min([n_rows, *np.flatnonzero(kept < MIN_SHARE)[:1]])
    return start + max(0, int(n_rows))


def _are_few_features(model: LinearModel) -> bool:
    """Return whether rows are better learnt one by one, by compiled code, than in blocks."""
    recursion = model._recursion
    is_plain = model._settings.priors is None and (recursion is None or recursion.trust == 1.0)
    return IN_USE == "compiled" and is_plain and len(model._columns) < FEATURES_IN_BLOCKS


def _answer_rows(model: LinearModel, rows: Checked, start: int, scores: Floats) -> int:
    """Predict rows and learn them one by one; return their number, up to a row with an event."""
    n_known = len(model._outputs)
    if not model._statistics.weight or rows.shape[0] != len(model._columns):
        return 0
    if model._rows is None:
        model._solved()  # This counts as a prediction, so that weights follow the rows.
    single = model._rows or model._single_rows()
    if single is None:
        return 0
    part = rows.part(slice(start, start + max(64, 4 * BLOCK_ENTRIES // rows.shape[0])))
    values = np.require(uncast(part.values), np.float64, ("C", "A"))
    targets = np.require(part.targets, requirements=("C", "A"))
    found = np.empty((len(targets), n_known))
    weights = np.full(len(targets), part.w)
    n_answered: int = single.predict_learn(values, targets, weights, found)
    scores[start : start + n_answered, :n_known] = found[:n_answered]
    return n_answered


def _answer_block(model: LinearModel, rows: Checked, scores: Floats) -> int:
    """Predict rows and learn them; return their number, 0 if no recursion can learn them."""
    current = _current_recursion(model)
    if current is None:
        return 0
    trust, valid_until = current.trust, model._marks[VALID_UNTIL]
    rows = rows.part(slice(0, _sound_rows(model._statistics, current, trust, rows)))
    # The names of the targets become known with the first row.
    rows = rows._replace(outputs=getattr(model, model._names_outputs))
    n_rows, (n_features, n_targets) = len(rows.targets), rows.shape
    grown = model._statistics.grown(n_features, n_targets).named(rows.columns.names)
    _, past, weights = model._clock.tick(rows.w, n_rows, rows.times)
    # The past does not decay here; instead, the rows weigh more.
    now = Rows(uncast(rows.values), rows.targets, weights / past)
    before = current.grown(n_features, n_targets)
    most = MAX_RUNNING_LEVERAGE * trust
    found, after, innovations = _answered_and_learnt(grown, before, now, most)
    n_answered = len(found)
    if not n_answered:
        return 0
    if model._settings.priors is not None:
        explained = grown.products.explained_products(before.weights)
        # The factor to which the past has decayed before each row.
        kept = np.append(1.0, np.cumprod(model._clock.factors(n_rows, rows.times))[:-1])
        _make_discriminants(model, grown, explained, now, kept, innovations, found)
    scores[:n_answered, :n_targets] = found
    rows = rows.part(slice(0, n_answered))
    _, past, _ = model._clock.tick(rows.w, n_answered, rows.times)
    learn_rows(model, rows)
    if past != 1.0:
        after = after.scaled(past)
    trust = min(trust, model._statistics.products.refine(after))
    if trust:
        after.trust, model._recursion = trust, after
        model._marks[PREDICTED_AT], model._marks[VALID_UNTIL] = model.count, valid_until
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
    weights = np.cumsum(np.vstack((statistics.held_targets(), weighed)), axis=0)
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
        known = decayed, centres[part], model._settings.priors, model._outputs
        rules = discriminant(explained, *known)
        scores[part] = rules.scores(scores[part])


def _sound_rows(statistics: Statistics, recursion: Recursion, trust: float, rows: Checked) -> int:
    """Return the number of rows, at least 1, after which the recursion is checked again.

    Within these rows, no sum of squares of a feature grows more than `MAX_SQUARES_GROWTH`-fold.
    """
    n_rows, n_known = len(rows.targets), statistics.n_features
    if trust < 1.0:
        n_rows = min(n_rows, BLOCK_ROWS_OF_MANY)
    most = np.full(rows.values.shape[1], MAX_SQUARES_GROWTH * recursion.ridge)
    most[:n_known] = MAX_SQUARES_GROWTH * (statistics.diagonal + recursion.penalties)
    values = uncast(rows.part(slice(0, n_rows)).values)
    about = np.zeros(len(most))
    about[:n_known] = statistics.feature_mean
    deviations = values - about
    deviations *= np.sqrt(np.broadcast_to(rows.w, len(rows.targets))[:n_rows, None])
    if (np.einsum("ij,ij->j", deviations, deviations) <= most).all():
        return n_rows
    grown = (np.cumsum(deviations**2, axis=0) > most).any(axis=1)
    return max(1, int(grown.argmax()))


def _answered_and_learnt(
    statistics: Statistics, before: Recursion, rows: Rows, most: float
) -> tuple[Floats, Recursion, Floats]:
    """Return the scores of rows before each is learnt, the recursion after them, and innovations.

    The scores stop before a row that outweighs the sums in some direction by more than `most`.
    """
    values, targets, mean = statistics.augmented(rows)
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
    if not is_answering(model._marks, model._statistics, model._recursion):
        # This counts as a prediction, so that the next solution has a recursion.
        model._solution, model._marks[PREDICTED_AT] = None, model.count
        model._solved()
    recursion = model._recursion
    return recursion if is_answering(model._marks, model._statistics, recursion) else None
