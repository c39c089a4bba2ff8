"""Base of the models of dict streams: experts with two memories, their shares, and late labels."""

from __future__ import annotations

import copy
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from math import exp
from operator import itemgetter
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, check_count, check_weights, checked_assignment
from onlinels.core.reference import apply
from onlinels.explain import feature_effects, named_scores
from onlinels.linear.model import N_SHOWN_FEATURES
from onlinels.numerics import Calls, Lock, owned, shallow_copy
from onlinels.rows.batch import (
    Name,
    as_numpy,
    check_aligned,
    feature_key,
    key_text,
    plain_names,
    samples_of,
    source_of,
    warn_of_absent,
)
from onlinels.saving import locked_copy, locked_state, savable, save_method
from onlinels.stream.features import (
    Activations,
    RunningScaler,
    Sample,
    StreamColumns,
    StreamRow,
    is_gap,
    read_stream_batch,
)
from onlinels.sums.recursion import Recursion

MAX_WAITING_FORECASTS = 4096
"""Maximum number of stored forecasts; a new forecast then replaces the oldest one."""

_pack_number = struct.Struct("d").pack

GAP = _pack_number(np.nan)
"""The bytes of a gap."""

NEGATIVE_ZERO = _pack_number(-0.0)
"""The bytes of -0.0, which equals 0.0."""

PackedForecast = tuple[Floats, int]
"""A packed forecast, (n,), and the number of rows learnt before it."""


def sample_key(x: Mapping[Any, Any]) -> int:
    """Return a hash of 63 bits of a sample's names and values, the same in every process.

    The order of names, the types of equal names and values, and the sign of zeros do not matter;
    None, NaN and pandas.NA are equal. In a sample of numbers alone the sign of NaN matters. The
    sample must be valid for a stream model. Measured: 2 microseconds for 8 numbers, and 12 more for
    a set of names that is not among the latest 256.

    Examples
    --------
    >>> sample_key({"a": 1, "b": None}) == sample_key({"b": float("nan"), "a": 1.0})
    True
    """
    if not x:
        return 0
    pick, pack, names = _reader_of(plain_names(x))
    values = pick(x)
    try:
        packed = pack(*values)
        if NEGATIVE_ZERO in packed:
            # Adding 0 changes nothing but the sign of zeros.
            packed = (np.frombuffer(packed) + 0.0).tobytes()
    except struct.error:
        packed = b"".join(map(_packed, values))
    digest = blake2b(packed, key=names, digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@lru_cache(maxsize=256)
def _reader_of(names: tuple[Name, ...]) -> tuple[Callable[..., Any], Callable[..., bytes], bytes]:
    """Return a function that selects values by sorted name, one that packs them, and a hash."""
    by_text = {key_text(feature_key(name)): name for name in names}
    ordered = [by_text[text] for text in sorted(by_text)]
    # With a single name, itemgetter returns no tuple.
    pick = itemgetter(*ordered) if ordered[1:] else lambda x: (x[ordered[0]],)
    of_names = blake2b("\0".join(sorted(by_text)).encode("utf-8", "surrogatepass"))
    return pick, struct.Struct(f"{len(ordered)}d").pack, of_names.digest()


def _packed(value: Any) -> bytes:
    """Return the bytes of a number (as packed with others), a text, an array or a gap."""
    if type(value) is float and value == value:
        # A third of the time of the general case below, as measured.
        return _pack_number(value + 0.0)
    if isinstance(value, str):
        content = str.encode(value, "utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray) and value.ndim:
        content = (value.astype(np.float64) + 0.0).tobytes()
    else:
        return GAP if is_gap(value) else _pack_number(float(value) + 0.0)
    return struct.pack("q", len(content)) + content


@savable()
class Waiting:
    """Store packed forecasts whose labels have not arrived yet, by `sample_key`.

    Attributes
    ----------
    columns, scaler : StreamColumns, RunningScaler
        Columns and scaler of samples predicted before the first row is learnt.

    Examples
    --------
    >>> waiting, key = Waiting(), sample_key({"a": 1.0})
    >>> waiting.add(key, np.array([0.3]), count=20)
    >>> waiting.find(key, count=25)
    (array([0.3]), 5)
    """

    def __init__(self) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        # In the order in which they were made.
        self._waiting: dict[int, PackedForecast] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: int) -> bool:
        return key in self._waiting

    def plan_add(self, key: int, forecast: Floats, count: int) -> Calls:
        """Plan to store a forecast that was made after `count` rows were learnt."""
        # The latest of equal samples counts. A sample may be predicted again, for its probabilities
        # for example, or may never get a label: with an older forecast, labels would seem late that
        # are not. If equal samples return before their labels, the delay is underestimated.
        waiting, left = self._waiting, key
        if key not in waiting and len(waiting) >= MAX_WAITING_FORECASTS:
            left = next(iter(waiting))
        return (waiting.pop, left, None), (waiting.__setitem__, key, (forecast, count))

    def add(self, key: int, forecast: Floats, count: int) -> None:
        """Store a forecast that was made after `count` rows were learnt."""
        apply(self.plan_add(key, forecast, count))

    def watch(self, x: Mapping[Any, Any], made_of_features: Callable[[Floats], Floats]) -> None:
        """Store a sample predicted before the first learnt row, in place; the scaler learns it.

        Nothing happens if the sample is stored already, or has values that cannot be learnt.
        """
        with suppress(Exception):
            key = sample_key(x)
            if key in self._waiting:
                return
            columns, row = self.columns.extended_and_read(x)
            scaler = self.scaler.grown(len(columns.names), columns.columns_of)
            forecast = made_of_features(scaler.transform(row.values))
            scaler = scaler.learnt(row.values, row.gaps)
            watched = {"columns": columns, "scaler": scaler}
            apply((*self.plan_add(key, forecast, 0), (vars(self).update, watched)))

    def with_first(self, changed: Callable[[Floats], Floats]) -> Self:
        """Return a copy in which the forecasts made before the first learnt row are changed."""
        new = copy.deepcopy(self)
        for key, (values, count) in self._waiting.items():
            if not count:
                new._waiting[key] = changed(values), 0
        new.columns, new.scaler = StreamColumns(), RunningScaler()
        return new

    def find(self, key: int, count: int) -> PackedForecast | None:
        """Return a stored forecast and the number of rows learnt since, or None.

        `count` is the number of rows learnt in all.
        """
        found = self._waiting.get(key)
        return None if found is None else (found[0], count - found[1])

    def plan_take(self, key: int) -> Calls:
        """Plan to remove a forecast."""
        return ((self._waiting.pop, key, None),)

    def __deepcopy__(self, memo: Any = None) -> Self:
        # The forecasts, columns and scaler are shared, as they do not change.
        new = shallow_copy(self)
        new._waiting = self._waiting.copy()
        return new

    def __getstate__(self) -> dict[str, Any]:
        # Writing one array for each forecast would take a second.
        forecasts = [forecast for forecast, _ in self._waiting.values()]
        counts, sizes = [count for _, count in self._waiting.values()], [*map(len, forecasts)]
        waiting = np.array([[*self._waiting], counts, sizes], dtype=np.intp)
        values = np.concatenate([np.zeros(0), *forecasts])
        return vars(self) | {"_waiting": waiting, "_values": values}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.columns, self.scaler, self._waiting = state["columns"], state["scaler"], {}
        values = owned(state["_values"])
        keys, counts, sizes = state["_waiting"].tolist()
        if min(sizes, default=0) < 0 or sum(sizes) != len(values):
            raise ValueError("the sizes of forecasts do not add up to their values")
        for key, count, size in zip(keys, counts, sizes, strict=True):
            self._waiting[key], values = (values[:size], count), values[size:]


MAX_ROW_WEIGHT = 1e5
"""Largest weight of a row."""

IN_PLACE = "_memories", "_cells", "_softmaxes", "_waiting", "_recent", "_delayed", "_plain"
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

    _memories: list[Any]
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
            lines.append(f"{output}: {score:.6g}")
            strongest = sorted(effects[output].items(), key=lambda each: -abs(each[1]))
            lines += [f"    {name}: {effect:+.6g}" for name, effect in strongest[:N_SHOWN_FEATURES]]
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
