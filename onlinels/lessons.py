"""Lessons by key: a classifier whose rows can be corrected, removed and searched for wrong labels.

For people who teach a model by hand, with a camera for example, and mislabel some rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import (
    Floats,
    check_count,
    check_kind,
    checked_assignment,
    frozen_copy,
    ignoring,
    refusal,
)
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import read_asked
from onlinels.linear.solving import answer, spread_of
from onlinels.locks import Lock
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import is_pipeline
from onlinels.rows.labels import Label, read_label, read_labels
from onlinels.saving import (
    locked_copy,
    locked_deepcopy,
    locked_state,
    savable,
    save_method,
    unpacked_state,
)
from onlinels.stream.waiting import Key, read_key

__all__ = ["LessonBook", "leave_one_out_scores", "suspects_of"]

MIN_FREEDOM = 1e-9
"""Least 1 - h of a row by which a residual is divided; below, the row alone decides its score."""


class Suspect(NamedTuple):
    """A lesson that the other lessons contradict, and the label that they give it."""

    key: Key
    label: Label
    other_label: Label
    # Leave-one-out score of the label minus that of the other label: below 0.
    margin: float


def _book_is_sound(book: Any) -> bool:
    model, lessons = book._taught
    check_can_unlearn(model)
    are_rows = all(isinstance(x, (dict, np.ndarray)) for x, _ in lessons.values())
    return are_rows and all(read_key(key) == key for key in lessons)


@savable(_book_is_sound)
class LessonBook:
    """Keep the rows that a classifier learns, by key, to correct or remove them later.

    After any sequence of calls, the model equals one that has learnt the present rows with their
    present labels alone, at equal ridge. `suspects` finds rows that are probably labelled wrong.

    Parameters
    ----------
    model : LeastSquaresClassifier or ShallowConvClassifier
        A model that can unlearn rows: without forgetting, not in the orthogonal form, and a network
        with fixed features. The book teaches a copy, `model`. It may have learnt other rows before.

    Raises
    ------
    TypeError, ValueError
        If the model is of another class, or cannot unlearn rows later.

    Notes
    -----
    A call changes the book completely or, if it raises an error, not at all. `add` and `remove`
    take the time of `learn_one` or `unlearn_one` and of a copy of the model; with 1,280 features
    and fewer than 30 rows, `unlearn_one` takes seconds. Memory and files hold all rows.

    Examples
    --------
    >>> from onlinels import LeastSquaresClassifier
    >>> book = LessonBook(LeastSquaresClassifier(ridge=0.1))
    >>> for key, length in enumerate([1.0, 1.2, 1.1, 5.0, 5.2, 5.1, 1.3]):
    ...     book.add(key, {"length": length}, "screw" if length > 2 or key == 6 else "nut")
    >>> [(each.key, each.label, each.other_label) for each in book.suspects()]
    [(6, 'screw', 'nut')]
    >>> book.correct(6, "nut")
    >>> book.suspects(), book.model.count, book.lessons[6]
    ([], 7, ({'length': 1.3}, 'nut'))
    >>> book.remove(6)
    >>> len(book.lessons), book.model.count
    (6, 6)
    """

    save = save_method
    __setattr__ = checked_assignment
    __copy__, __deepcopy__ = locked_copy, locked_deepcopy
    __getstate__, __setstate__ = locked_state, unpacked_state

    def __init__(self, model: LeastSquaresClassifier | ShallowConvClassifier) -> None:
        check_can_unlearn(model)
        self._lock = Lock()
        # A call assigns this pair at its end: the model and the lessons are always of one moment.
        self._taught: tuple[Any, dict[Key, tuple[Any, Label]]] = copy.deepcopy(model), {}

    @property
    def model(self) -> Any:
        """The model that has learnt the lessons; the next change replaces it."""
        return self._taught[0]

    @property
    def lessons(self) -> Mapping[Key, tuple[Any, Label]]:
        """Rows, which are not to be changed, and labels by key, in the order in which they came."""
        return MappingProxyType(self._taught[1])

    def add(self, key: Key, x: Any, y: Label) -> None:
        """Learn a row under a new key: a str, an int, bytes (which no file holds) or a tuple."""
        # Whoever reuses a row's memory, as cameras do, leaves the lesson as it is.
        x = copy.deepcopy(dict(x)) if isinstance(x, Mapping) else frozen_copy(x)
        key = read_key(key)
        with self._lock:
            if key in self.lessons:
                remedy = "Pass another key, or remove the lesson first."
                raise refusal("key", f"is {key!r}, which has a lesson", "a new key", remedy)
            first = next((row for row, _ in self.lessons.values() if np.ndim(row)), None)
            if first is not None and np.ndim(x) and np.shape(x) != np.shape(first):
                remedy = "Pass arrays of one shape: others could not leave again."
                expected = f"{np.shape(first)} as in other lessons"
                raise refusal("x", f"has the shape {np.shape(x)}", expected, remedy)
            self._change(key, (x, read_label(y)))

    def correct(self, key: Key, y: Label) -> None:
        """Give a row another label."""
        with self._lock:
            x, _ = self._lesson(key)
            self._change(key, (x, read_label(y)))

    def remove(self, key: Key) -> None:
        """Unlearn a row; if its label or a feature came with it alone, they are forgotten too."""
        with self._lock:
            self._lesson(key)
            self._change(key, None)

    def suspects(self, n: int = 10) -> list[Suspect]:
        """Return the lessons that the other lessons contradict, at most n; see `suspects_of`."""
        check_count("n", n, 1)
        with self._lock:
            return suspects_of(*self._taught)[:n]

    def _lesson(self, key: Key) -> tuple[Any, Label]:
        if read_key(key) not in self.lessons:
            remedy = "`lessons` lists the keys."
            raise refusal("key", f"is {key!r}, which has no lesson", "a key of a lesson", remedy)
        return self.lessons[key]

    def _change(self, key: Key, lesson: tuple[Any, Label] | None) -> None:
        """Replace the lesson of a key by another or by none, in a copy of the model."""
        model, lessons = copy.deepcopy(self._taught[0]), {**self._taught[1]}
        if lesson is not None:
            model.learn_one(*lesson)
        if key in lessons:
            model.unlearn_one(*lessons[key])
        lessons = {each: known for each, known in {**lessons, key: lesson}.items() if known}
        self._taught = model, lessons


def suspects_of(model: Any, lessons: Mapping[Key, tuple[Any, Label]]) -> list[Suspect]:
    """Return the rows that the other rows of a model contradict, the worst first.

    A row is contradicted if a model without it gives another label the highest least-squares score.
    Its margin is the score of its own label minus that score. A row whose label no other row has is
    not compared.

    Parameters
    ----------
    model : LeastSquaresClassifier or ShallowConvClassifier
        A model as for `LessonBook`.
    lessons : mapping
        Rows and their labels by key, which the model has learnt, besides others maybe.

    Returns
    -------
    list of Suspect (key, label, other_label, margin)
        The rows with a margin below 0.

    Raises
    ------
    TypeError, ValueError
        As of `leave_one_out_scores`, which also has the formula and the cost.

    Examples
    --------
    >>> from onlinels import LeastSquaresClassifier
    >>> lessons = {"a": ({"x": 1.0}, "nut"), "b": ({"x": 2.0}, "nut"), "c": ({"x": 1.5}, "screw")}
    >>> lessons |= {"d": ({"x": 8.0}, "screw"), "e": ({"x": 9.0}, "screw")}
    >>> model = LeastSquaresClassifier(ridge=1.0)
    >>> for x, y in lessons.values():
    ...     model.learn_one(x, y)
    >>> suspects_of(model, lessons)[0][:3]
    ('c', 'screw', 'nut')
    """
    if not lessons:
        return []
    rows, labels = zip(*lessons.values(), strict=True)
    if all(isinstance(x, np.ndarray) for x in rows):
        X: Any = np.stack(rows)
    else:  # Images among dicts are dicts, too.
        X = [{"image": x} if np.ndim(x) > 1 else x for x in rows]
    scores = leave_one_out_scores(model, X, labels)
    classes = model.classes
    counts: Any = linear_layer(model)._state.counts
    found = []
    for key, label, each in zip(lessons, labels, scores, strict=True):
        own = classes.index(label)
        others = np.where(np.arange(len(classes)) == own, -np.inf, each)
        margin = float(each[own] - others.max())
        if margin < 0.0 and counts[own] > 1:
            found.append(Suspect(key, label, classes[others.argmax()], margin))
    return sorted(found, key=attrgetter("margin"))


@ignoring("over", "invalid", "divide")
def leave_one_out_scores(model: Any, X: Any, y: Any) -> Floats:
    """Return the least-squares scores that rows would have if the model had not learnt them.

    One row at a time is left out, at the ridge, and in the units of features, that are in force.
    With scores Z, one-hot labels Y, and the leverage h = x'(A'A + D)^-1 x of a row about the mean,
    plus 1 / n for the intercept, its scores without it are (z - h y) / (1 - h).

    Parameters
    ----------
    model : LeastSquaresClassifier or ShallowConvClassifier
        A model as for `LessonBook`. Its priors are left aside: the scores are those of
        ``priors=None``.
    X : ndarray (n, n_features), frame, list of dicts; for a network, ndarray of images
        Rows that the model has learnt with weight 1.
    y : sequence (n,)
        The labels with which it has learnt them.

    Returns
    -------
    ndarray (n, n_classes)
        Scores in the order of ``model.classes``; NaN where no other row determines them.

    Raises
    ------
    TypeError, ValueError
        If the model cannot unlearn rows, or has not learnt a label of `y`.

    Notes
    -----
    M features cost about ``M^3`` operations once, and ``M^2`` per row: no model is taught again.

    References
    ----------
    R. D. Cook and S. Weisberg, "Residuals and Influence in Regression", 1982, section 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import LeastSquaresClassifier
    >>> X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), list("aaba")
    >>> model = LeastSquaresClassifier(ridge=1.0)
    >>> model.learn_many(X, y)
    >>> leave_one_out_scores(model, X, y)[2].round(4)
    array([1., 0.])
    >>> model.unlearn_one(X[2], "b")
    >>> model.scores_one(X[2])
    {'a': 1.0}
    """
    check_can_unlearn(model)
    with model._lock:
        linear = linear_layer(model)
        batch = read_asked(linear, X if linear is model else model.transform_many(X))
        labels = read_labels(y, batch.n_rows)
        unknown = [label for label in labels if label not in linear._state.outputs.index]
        if unknown:
            remedy = "Pass the labels with which the rows were learnt."
            raise refusal("y", f"holds {unknown[0]!r}", "labels that the model has learnt", remedy)
        linear._solved()  # Warns of nearly collinear features.
        state = linear._state
        rows = state.columns.place(batch.layouts, batch.matrix)
        leverages = spread_of(state).covariance.leverages(rows)[:, None]
        targets = state.outputs.columns(labels)[:, None] == np.arange(len(linear.classes))
        left = np.where(leverages < 1.0 - MIN_FREEDOM, 1.0 - leverages, np.nan)
        scores: Floats = (answer(state, rows) - leverages * targets) / left
        return scores


def linear_layer(model: Any) -> LeastSquaresClassifier:
    """Return the linear model that a classifier is, or ends with."""
    is_network = isinstance(model, ShallowConvClassifier)
    linear: LeastSquaresClassifier = model._settled.classifier if is_network else model
    return linear


def check_can_unlearn(model: Any) -> None:
    """Raise TypeError or ValueError unless every row counts alike, and can be unlearnt."""
    check_kind("model", model, (LeastSquaresClassifier, ShallowConvClassifier))
    if is_pipeline(model):
        remedy = "Pass the last step, and rows that the other steps have transformed."
        raise refusal("model", "is a pipeline", "a classifier", remedy)
    if isinstance(model, ShallowConvClassifier) and not model.features_fixed:
        raise refusal("model", "gathers images", "fixed features", "Call fix_features() first.")
    state = linear_layer(model)._state
    if state.clock.forgets or state.settings.accumulator != "gram":
        expected = 'accumulator="gram" without forgetting_factor and half_life'
        raise refusal("model", "forgets rows or cannot unlearn them", expected, "Make another.")
