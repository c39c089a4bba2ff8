"""Base of the models of dict streams, their experts with two memories, and the experts' shares."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, check_count, check_weights, checked_assignment
from onlinels.core.reference import apply
from onlinels.explain import feature_effects, named_scores
from onlinels.linear.model import N_SHOWN_FEATURES
from onlinels.numerics import Calls, Lock, shallow_copy
from onlinels.rows.batch import Name, as_numpy, check_aligned, samples_of, source_of, warn_of_absent
from onlinels.saving import locked_copy, locked_state, savable, save_method
from onlinels.stream.features import Activations, RunningScaler
from onlinels.stream.rows import Sample, StreamColumns, StreamRow, read_stream_batch
from onlinels.stream.waiting import Waiting, sample_key
from onlinels.sums.recursion import Recursion

MAX_ROW_WEIGHT = 1e5
"""Largest weight of a row."""

IN_PLACE = "_memories", "_cells", "_softmaxes", "_waiting", "_recent", "_delayed"
"""Attributes that change in place; all others are replaced."""

RIDGE = 1.0
"""Ridge on every weight.

Activations are of about unit size, so the ridge weighs as much as one row. From 0.1 to 3 the mean
accuracy on nineteen streams stayed within 0.2 points.
"""

MIN_RIDGE_SHARE = 0.0625
"""Share to which the ridge may decay before it is restored, a quarter as often as with 0.5."""

SHORT_FORGETTING_FACTOR = 0.99
"""Forgetting factor of the short memory: about 100 rows count."""

COMPARISON_DECAY = 0.995
"""Factor on a comparison with each further row: about 200 rows are compared."""

MIN_TAKEOVER_DEVIATIONS = 2.0
"""Standard deviations by which the short memory must be better to replace the long memory."""


@savable()
class Memories:
    """A recursive least-squares model of all rows, and one of recent rows that may replace it.

    Both learn the same rows. On every row the long, the short or neither memory is better. As in a
    sign test, the long memory is reset to a copy of the short one when the discounted sum of the
    differences exceeds 2 and twice the root of the discounted sum of their squares.

    Attributes
    ----------
    long, short : Recursion
        The long and the short memory.

    Examples
    --------
    >>> from onlinels.core.reference import apply
    >>> memories = Memories().grown(1, 1)
    >>> row, target = np.array([1.0]), np.array([4.0])
    >>> apply(memories.plan(row, target, scores=np.zeros((2, 1)), difference=0.0))
    >>> memories.long.weights.round(3), memories.short.weights.round(3)
    (array([[2.]]), array([[2.01]]))
    """

    def __init__(self) -> None:
        self.long, self.short = (Recursion(0, 0, RIDGE, MIN_RIDGE_SHARE) for _ in range(2))
        self._lead = self._squares = 0.0

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return memories with room for features and targets that were 0 in every earlier row."""
        new = shallow_copy(self)
        new.long = self.long.grown(n_features, n_targets)
        new.short = self.short.grown(n_features, n_targets)
        return new

    def plan(
        self, row: Floats, targets: Floats, scores: Floats, difference: float, w: float = 1.0
    ) -> Calls:
        """Plan to learn a row (n_features,) of weight w in both memories together.

        `scores` (2, n_targets) are those of the row; `difference` is 1 if the short memory was
        better on this row, -1 if the long memory was, else 0.
        """
        lead = COMPARISON_DECAY * self._lead + w * difference
        squares = COMPARISON_DECAY * self._squares + (w * difference) ** 2
        long, errors = self.long, targets - scores
        for_long = errors[0]
        if lead > max(MIN_TAKEOVER_DEVIATIONS, MIN_TAKEOVER_DEVIATIONS * squares**0.5):
            long, for_long = self.short.copied(), errors[1]
            lead = squares = 0.0
        of_short = self.short.plan(row, errors[1], w, SHORT_FORGETTING_FACTOR)
        own = {"long": long, "_lead": lead, "_squares": squares}
        return (*long.plan(row, for_long, w), *of_short, (vars(self).update, own))


def shares_of(losses: Sequence[float], rate: float) -> Floats:
    """Return the shares of experts in a forecast, with sum 1, from their discounted losses.

    Expert i has the share exp(-rate L_i) / sum_j exp(-rate L_j): the exponentially weighted average
    forecaster.

    Examples
    --------
    >>> shares_of([0.0, 2.0], rate=0.5).round(3)
    array([0.731, 0.269])
    """
    fewest = min(losses)
    shares = [exp(rate * (fewest - loss)) for loss in losses]
    total = sum(shares)
    return np.array([share / total for share in shares])


class StreamModel(ABC):
    """A model of a stream of dicts in which the order of rows matters."""

    _memories: list[Memories]
    # Forecasts whose labels have not arrived yet.
    _waiting: Waiting

    save = save_method
    __copy__ = locked_copy
    __setattr__ = checked_assignment

    def __init__(self, seed: int, label_delay: int) -> None:
        self.seed = check_count("seed", seed, 0)
        self.label_delay = check_count("label_delay", label_delay, 0)
        self._lock = Lock()
        self._columns = StreamColumns()
        self._scaler = RunningScaler()
        self._activations = Activations(seed)
        self._count = 0
        # The last scored or predicted row, and its scores: it is often the next row to learn.
        self._seen: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return locked_state(self) | {"_seen": None}

    def _read_asked(self, X: Any) -> list[Sample]:
        """Read rows to predict; warn of columns that X lacks."""
        X = as_numpy(X)
        samples = read_stream_batch(X)
        if samples:
            warn_of_absent(*self._columns.differences(X))
        return samples

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        return self._count

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the scores or the prediction, and the ten features with the largest effects.

        `onlinels.explain.feature_effects` defines effects, and states when they are approximate.
        """
        effects, scores, lines = feature_effects(self, x), named_scores(copy.copy(self), x), []
        for output, score in scores.items():
            lines.append(f"{output}: {score:.5f}")
            strongest = sorted(effects[output].items(), key=lambda each: -abs(each[1]))
            lines += [f"    {name}: {effect:+.5f}" for name, effect in strongest[:N_SHOWN_FEATURES]]
        return "\n".join(lines)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        y : hashable, or number
            The label, which may be new, or the target. None, NaN and pandas.NA raise an error.
        w : float
            Weight of the row, from 0 to 1e5; see the notes of the class.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> from onlinels import StreamClassifier
        >>> model = StreamClassifier()
        >>> model.learn_one({"size": 3.0, "colour": "red", "age": None}, "apple")
        >>> model.predict_one({"size": 4.0})
        'apple'
        """
        with self._lock:
            columns, row = self._columns.extended_and_read(x)
            # For speed: 0.1 us for most weights instead of 4, as measured.
            weight = 1.0 if type(w) is float and w == 1.0 else read_weights(w, 1).item()
            self._learn(columns, row, y, sample_key(x), weight)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn a mini-batch row by row, with the result of `learn_one` in a loop.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows of features.
        y : array, series or list of n_rows labels, or numbers
            Labels or targets of the rows.
        w : float, or array, series or list of n_rows floats, optional
            Weights of the rows, from 0 to 1e5; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        self._answer_and_learn(lambda *_: None, lambda *_: None, X, y, w)

    def _answer_and_learn(
        self, answer: Callable[[Any, Any], Any], in_kind: Callable[..., Any], X: Any, y: Any, w: Any
    ) -> Any:
        """Learn rows, and return the answers of a copy of the model to each before learning it.

        `in_kind` converts the answers, given the input and the classes of a classifier. Raises
        before anything changes if a row cannot be learnt, alone or together with the others.
        """
        with self._lock:
            check_aligned(X, y=y, w=w)
            samples, answers, later = read_stream_batch(X), [], shallow_copy(self)
            targets = self._read_targets(samples, y)
            weights = read_weights(w, len(samples)).tolist()
            own = {name: vars(self)[name] for name in IN_PLACE if hasattr(self, name)}
            # Forecasters of a regressor with a label delay never change.
            shared = {id(each): each for each in getattr(self, "_delayed", ())}
            vars(later).update(copy.deepcopy(own, shared))
            for x, target, weight in zip(samples_of(X), targets, weights, strict=True):
                answers.append(answer(later, x))
                later.learn_one(x, target, weight)
            converted = in_kind(source_of(X), answers, getattr(later, "classes", ()))
            self._become(later)
            return converted

    def _become(self, draft: Self, calls: Calls = ()) -> None:
        """Take all attributes of a draft, and make further planned changes, at once."""
        apply((*calls, (object.__setattr__, self, "__dict__", vars(draft))))

    @abstractmethod
    def _read_targets(self, samples: list[Sample], y: Any) -> list[Any]:
        """Return labels or numbers; raise if the rows cannot be learnt, all together."""

    @abstractmethod
    def _learn(self, columns: StreamColumns, row: StreamRow, y: Any, key: int, w: float) -> None:
        """Learn a row of weight w in given columns; its key may have a stored forecast."""

    def _extend_columns(self, columns: StreamColumns) -> None:
        """Make room in a draft of the model for the scales of more columns."""
        self._scaler = self._scaler.grown(len(columns.names), columns.columns_of)
        self._columns, self._seen = columns, None


def read_weights(w: Any, n_rows: int) -> Floats:
    """Return the weights of rows, (n_rows,)."""
    return np.broadcast_to(check_weights(w, n_rows, largest=MAX_ROW_WEIGHT), n_rows)
