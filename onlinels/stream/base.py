"""What the models of dict streams share: what they have learnt, and how a call changes it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from onlinels.checks import (
    Floats,
    Integers,
    check_count,
    check_weight,
    check_weights,
    checked_assignment,
    warn_caller,
)
from onlinels.core import Experts, StreamRows, note_core
from onlinels.core.apply import apply
from onlinels.explain import feature_effects, named_scores
from onlinels.linear.model import N_SHOWN_FEATURES
from onlinels.linear.single import LABEL_TYPES
from onlinels.locks import Lock
from onlinels.numerics import Calls, is_count, read_whole, restore, shallow_copy
from onlinels.rows.batch import (
    PLAIN_NUMBER_TYPES,
    Layout,
    Name,
    as_numpy,
    check_mapping,
    form_of,
    matched_by_position,
    samples_of,
    sorted_names,
    source_of,
    warn_of_absent,
)
from onlinels.saving import attributes_of, locked_copy, locked_deepcopy, locked_state, save_method
from onlinels.stream.features import (
    MAX_CATEGORIES,
    ROWS_OF_SCALE,
    Activations,
    RunningScaler,
    Sample,
    StreamColumns,
    StreamRow,
    read_stream_batch,
)
from onlinels.stream.plain import PlainExpert
from onlinels.stream.waiting import N_JUDGED_LABELS, Waiting, sample_key
from onlinels.sums.recursion import Recursion

MIN_NUMBER_ROWS, MIN_WHOLE_NUMBER_ROWS = 8, 64
"""Numbers of rows from which texts that are numbers are told of, if all are whole from the second.

Whole numbers may be identifiers, of which one in some tens begins with a zero.
"""

MAX_ROW_WEIGHT = 1e5
"""Largest weight of a row."""

NOT_SAVED = "experts", "asked", "rows"
"""Attributes of a state that are not saved, because others or samples give them."""

NAMES_OF_VERSION_3 = "_told", "_seen", "_asked"
"""Attributes of models in files of version 3 that models no longer have."""

NO_VALUES = StreamRow(np.zeros(0))
"""A sample that was not read."""


class ExpertsState(ABC):
    """What a model of a stream has learnt.

    A call makes a draft of the state of its model, changes the draft, and puts it in the place of
    the state as its last act, in one C loop with what the draft plans to write: into the arrays of
    its experts, and into the forecasts that wait. Nothing else changes a state that a model holds,
    but for what changes no answer: plain least squares learns a row late, and C settles factors.

    Rows of known names whose labels come at once are the exception: `rows`, an object of
    `onlinels.core`, learns them into the arrays of the state, and the state knows nothing of it
    until `settled` returns the state after these rows. Only `StreamModel._state` calls it.
    """

    forgetting: ClassVar[Floats]
    """The forgetting factor of each memory."""

    in_place: ClassVar[tuple[str, ...]] = "memories", "plain", "waiting"
    """Attributes whose arrays and dicts change in place; all others are replaced."""

    blank: ClassVar[Any]
    """The forecast for a sample before the first row."""

    memories: list[Recursion]

    def __init__(self, seed: int, plain: Any) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        self.activations = Activations(seed)
        self.plain, self.waiting = PlainExpert(plain), Waiting()
        # Rows learnt, and rows that were learnt between the last row's forecast and its label.
        self.count = self.delay = 0
        # Features of whose texts the model has warned.
        self.warned_of: tuple[Name, ...] = ()
        # Of the last predicted sample, if it consists of numbers: the number of rows learnt before,
        # its names, its values and its key.
        self.asked: tuple[Any, ...] | None = None
        # What learns further rows in C, or None.
        self.rows: Any = None

    def key_of(self, x: Mapping[Any, Any], row: StreamRow) -> int:
        """Return the key of a sample, which was often predicted just now."""
        # Measured: a tenth of the time of a new hash.
        if self.asked is not None:
            *asked, key = self.asked
            if row.is_numeric and asked == [self.count, tuple(x), row.values.tobytes()]:
                return int(key)
        return sample_key(x)

    def copied(self) -> Self:
        """Return a draft that learns into arrays of its own."""
        self.plain.learn_pending(self.count)
        new = shallow_copy(self)
        new.drop_experts()
        parts = {name: vars(self)[name] for name in self.in_place}
        vars(new).update(copy.deepcopy(parts))
        return new

    def follow(self, row: StreamRow) -> None:
        """Let C learn rows like the last one that was learnt, if it can."""
        names = {} if StreamRows is None or self.delay else self.columns.places
        plain = self.plain.rows(self.n_outputs) if names else None
        if plain is None:
            return
        # C writes to these arrays, which others may share.
        self.scaler = self.scaler.copied()
        n_labels = self.waiting.matches.in_progress().n_labels
        self.rows = StreamRows(
            names=names,
            types=PLAIN_NUMBER_TYPES,
            experts=self.experts,
            plain=plain,
            label_types=LABEL_TYPES,
            scale=self.scaler.arrays,
            known=self.scaler.known_of(names),
            factors=self.plain.factors,
            pending=self.plain.pending_row(),
            limit=self.plain.limit,
            count=float(self.count),
            n_rows=float(self.scaler.n_rows),
            n_most=MAX_CATEGORIES,
            left=min(N_JUDGED_LABELS - 1 - n_labels, self.n_rows_until_event()),
            waits=len(self.waiting) > 0,
            **self.own_arrays(),
        )

    def n_rows_until_event(self) -> int:
        """Return how many rows change numbers alone, before one of which more depends."""
        n_rows = ROWS_OF_SCALE - 1 - self.scaler.n_rows % ROWS_OF_SCALE
        if self.columns.has_texts:
            # At powers of 2 rows, texts are looked at.
            n_rows = min(n_rows, (1 << self.count.bit_length()) - 1 - self.count)
        return n_rows

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of outputs of plain least squares."""

    @abstractmethod
    def own_arrays(self) -> dict[str, Any]:
        """Return further arguments of `StreamRows`, in arrays that no other state has."""

    @abstractmethod
    def take_told(self, n_learnt: int, last: int, numbers: tuple[Any, ...], past: Any) -> None:
        """Let a draft take over what `StreamRows` has told, but for what all models have."""

    @abstractmethod
    def forecast_told(self, row: StreamRow, best: Floats, mixture: Floats) -> Any:
        """Return the forecast for a row that `StreamRows` has predicted."""

    def settled(self) -> tuple[Self, Calls]:
        """Return the state after the rows that C has learnt, and plan what else they change."""
        n_learnt, n_asked, n_stored, last, pending, known, asked, *others = self.rows.told()
        new = shallow_copy(self)
        new.rows, new.asked = None, None
        new.count += n_learnt
        new.scaler = self.scaler.after(n_learnt, self.columns.places, known)
        new.plain = self.plain.with_pending(pending, type(self.plain.model))
        new.take_told(n_learnt, last, *others)
        matches = self.waiting.matches
        if n_learnt or n_asked:
            matches = matches.with_rows(n_learnt, n_asked, n_stored + (asked is not None))
        calls: Calls = ((vars(self.waiting).update, {"matches": matches}),)
        if asked is not None:
            x, best, mixture = asked
            row, key = new.columns.row(x), sample_key(x)
            forecast = new.forecast_told(row, np.array(best), np.array(mixture))
            if row.is_numeric:
                new.asked = new.count, tuple(x), row.values.tobytes(), key
            calls = new.waiting.plan_add(key, forecast, new.count, matches)
        return new, calls

    @cached_property
    def experts(self) -> Experts:
        """What scores rows, and learns them into the arrays of this state."""
        return Experts(self.arrays())

    def drop_experts(self) -> None:
        """Let a draft make its experts anew, because it has other arrays."""
        vars(self).pop("experts", None)

    @abstractmethod
    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays that `onlinels.core.Experts` reads and writes."""

    def memory_arrays(self, views: Iterable[Integers]) -> tuple[Any, ...]:
        """Return those of the memories, given the places in a row that each of them sees.

        Their forgetting factors come first.
        """
        arrays: tuple[Any, ...] = (self.forgetting,)
        for view, each in zip(views, self.memories, strict=True):
            arrays = *arrays, view, each.weights, each.inverse, each.pending, each.factors
        return arrays

    @abstractmethod
    def scores(self, features: Floats, last: int) -> Floats:
        """Return the scores of a row by experts; those of plain least squares are 0."""

    def prepare(self, features: Floats, last: int, w: float) -> Floats:
        """Prepare a draft to learn a row of weight w, and return its scores.

        Ridges that the row would decay too far are restored before.
        """
        scores = self.scores(features, last)
        if self.experts.prepare(w):
            return scores
        pairs = zip(self.memories, self.forgetting, strict=True)
        self.memories = [
            each.restored() if each.share * decay < each.least else each for each, decay in pairs
        ]
        self.drop_experts()
        scores = self.scores(features, last)
        if not self.experts.prepare(w):
            raise ValueError("x outweighs all earlier rows, expected similar rows. Rescale x.")
        return scores

    @abstractmethod
    def forecast(self, row: StreamRow) -> Any:
        """Return the forecast for a row after the first one; a draft may learn its scale."""

    def first_forecast(self, x: Any) -> tuple[Any, Calls]:
        """Return the forecast for a sample before the first row, and plan what else it changes."""
        return self.blank, ()

    @abstractmethod
    def learn(self, columns: StreamColumns, row: StreamRow, y: Any, key: int, w: float) -> Calls:
        """Let a draft learn a row of weight w in given columns, and plan what it writes.

        The key of the row may have a stored forecast.
        """

    def is_sound(self, kind: type, n_labels: int, is_forecast: Callable[[Floats], bool]) -> bool:
        """Return whether the loaded parts that streams share fit each other."""
        n_features, made, plain = len(self.columns.names), self.activations, self.plain
        fits = n_features == len(self.scaler.means) == made.n_features
        fits = fits and plain.n_features <= n_features and type(plain.model) is kind
        fits = fits and made.n_labels == n_labels and is_count(self.count) and is_count(self.delay)
        return fits and self.waiting.fits(self.count, is_forecast)

    def numbers_as_text(self) -> list[Name]:
        """Return the names whose texts are numbers, at powers of 2 rows."""
        if self.count < MIN_NUMBER_ROWS or self.count.bit_count() > 1:
            return []
        return self.columns.numbers_as_text(self.count >= MIN_WHOLE_NUMBER_ROWS)

    def not_warned_of(self, names: Sequence[Name]) -> str:
        """Return, as text, the names of which the model has not warned; note them in a draft."""
        if not names:
            return ""
        new = sorted_names({*names} - {*self.warned_of})
        self.warned_of = (*self.warned_of, *new)
        return ", ".join(map(repr, new))


def warn_of_texts(names: str) -> None:
    """Warn of texts in features that have had numbers, if there are any."""
    if names:
        warn_caller(
            "Texts among numbers count as unknown values.",
            f"They are in the features {names}. Convert the values to numbers before the model, "
            "for example with float(), and marks of missing values to None. If a feature is a "
            "category, convert all its values to text with str().",
        )


def warn_of_numbers(names: str) -> None:
    """Warn of texts that are numbers, if there are any."""
    if names:
        warn_caller(
            "Numbers as text are learnt as categories.",
            f"They are in the features {names}. Convert them to numbers before the model, for "
            "example with float(), or with `converters` of river's stream.iter_csv. If they are "
            "codes of categories, put a letter in front to avoid this warning, as in 'c12'.",
        )


class StreamModel(ABC):
    """A model of a stream of dicts in which the order of rows matters."""

    _blank_state: ClassVar[type[Any]]
    """Makes, of a seed, the state of a model that has learnt nothing."""

    takes_gaps = True
    """Whether None is an unknown value."""

    save = save_method
    __copy__, __deepcopy__, __getstate__ = locked_copy, locked_deepcopy, locked_state
    __setattr__ = checked_assignment

    def __init__(self, seed: int) -> None:
        note_core()
        self.seed = check_count("seed", seed, 0)
        self._lock = Lock()
        self._state = self._blank_state(self.seed)

    @property
    def _state(self) -> Any:
        """The state, with all rows that C has learnt; it is replaced if there are any."""
        with self._lock:
            state: ExpertsState = vars(self)["_state"]
            if state.rows is not None:
                state, calls = state.settled()
                self._change(state, calls)
            return state

    @_state.setter
    def _state(self, state: ExpertsState) -> None:
        vars(self)["_state"] = state

    @property
    def _known(self) -> Any:
        """The state, in which rows are missing that C has learnt."""
        return vars(self)["_state"]

    def _rows_for(self, x: Any) -> Any:
        """Return what predicts a sample in C, or None."""
        if self._known.rows is None or not len(self._known.waiting):
            return self._known.rows
        key = None
        # An equal sample may have a forecast that waits. The sample may run code of the caller.
        with suppress(Exception):
            key = sample_key(x)
        return None if key is None or key in self._known.waiting else self._known.rows

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved: those of the state, too."""
        state = self._state
        own = vars(self).copy()
        del own["_state"]
        state.plain.learn_pending(state.count)
        parts = {f"_{name}": part for name, part in vars(state).items() if name not in NOT_SAVED}
        return own | parts

    def __setstate__(self, saved: Any) -> None:
        saved = attributes_of(saved)
        state = self._blank_state(check_count("seed", saved["seed"], 0))
        names = {f"_{name}": name for name in vars(state)}
        if "_told" in saved:
            saved = saved | {"_warned_of": saved["_told"]}
        restore(state, {name: saved[each] for each, name in names.items() if each in saved})
        others = {*names, *NAMES_OF_VERSION_3}
        own = {each: part for each, part in saved.items() if each not in others}
        restore(self, own | {"_state": state})

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        return (self._state,)

    def _change(self, draft: ExpertsState, calls: Calls = ()) -> None:
        """Put a draft in the place of the state, and make its planned changes, at once."""
        apply((*calls, (vars(self).update, {"_state": draft})))

    def _read_asked(self, X: Any) -> list[Sample]:
        """Read rows to predict; warn of columns that X lacks."""
        X = as_numpy(X)
        samples = read_stream_batch(X)
        if samples:
            warn_of_absent(*self._state.columns.differences(X))
        return samples

    def _forecast_one(self, x: Any) -> Any:
        """Return the forecast for a sample, and store it until its label arrives."""

        def read() -> tuple[StreamRow, int | None, tuple[Any, ...], tuple[Any, Calls]]:
            state = self._state
            if state.count:
                return state.columns.row(x), sample_key(x), tuple(x), (None, ())
            check_mapping(x)
            # Values are not checked before the first learnt row.
            with suppress(Exception):
                return NO_VALUES, sample_key(x), (), state.first_forecast(x)
            return NO_VALUES, None, (), (state.blank, ())

        row, key, names, (forecast, calls) = read_whole(read, self)
        draft = shallow_copy(self._state)
        again = draft.waiting.latest(key, draft.count)
        if again is not None:
            draft.waiting.count_again()
            return again
        if forecast is None:
            forecast = draft.forecast(row)
            asked = draft.count, names, row.values.tobytes(), key
            draft.asked = asked if row.is_numeric else None
        texts = draft.not_warned_of(row.texts)
        if key is not None:
            calls = *calls, *draft.waiting.plan_add(key, forecast, draft.count)
        self._change(draft, calls)
        warn_of_texts(texts)
        return forecast

    def _forecast_many(self, X: Any) -> list[Any]:
        """Return the forecasts for the rows of a batch, and store them."""

        def read() -> tuple[ExpertsState, list[Any]]:
            self._read_asked(X)
            later = shallow_copy(self)
            later._state = shallow_copy(self._state)
            later._state.waiting = copy.deepcopy(self._state.waiting)
            forecasts = [later._forecast_one(x) for x in samples_of(X)]
            return later._state, forecasts

        draft, forecasts = read_whole(read, self)
        self._change(draft)
        return forecasts

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        names: tuple[Name, ...] = self._known.columns.names
        return names

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        state = self._known
        n_learnt: int = state.count + (0 if state.rows is None else state.rows.count())
        return n_learnt

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the scores or the prediction, and the ten features with the largest effects.

        `onlinels.explain.feature_effects` defines effects, and states when they are approximate.
        """
        # Of a copy, because another thread may teach the model.
        model = copy.copy(self)
        scores, effects, lines = named_scores(model, x), feature_effects(model, x), list[str]()
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
            rows = self._known.rows
            if rows is not None and rows.learn(x, y, w) is not NotImplemented:
                return
            columns, row, *lesson = read_whole(lambda: self._read_row(x, y, w), self)
            draft = shallow_copy(self._state)
            calls = draft.learn(columns, row, *lesson)
            texts = draft.not_warned_of(row.texts)
            numbers = draft.not_warned_of(draft.numbers_as_text())
            self._change(draft, calls)
            draft.follow(row)
            draft.waiting.warn_of_labels()
            warn_of_texts(texts)
            warn_of_numbers(numbers)

    def _read_row(
        self, x: Mapping[Any, Any], y: Any, w: float
    ) -> tuple[StreamColumns, StreamRow, Any, int, float]:
        """Return the arguments of `ExpertsState.learn`."""
        columns, row = self._state.columns.extended_and_read(x)
        # For speed: 0.1 us for most weights instead of 4, as measured.
        weight = 1.0 if type(w) is float and w == 1.0 else check_weight(w, MAX_ROW_WEIGHT)
        return columns, row, self._read_target(y), self._state.key_of(x, row), weight

    @matched_by_position
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
        self._answer_and_learn(None, lambda *_: None, X, y, w)

    def _answer_and_learn(
        self,
        answer: Callable[[Any, Any], Any] | None,
        in_kind: Callable[..., Any],
        X: Any,
        y: Any,
        w: Any,
    ) -> Any:
        """Learn rows, and return the answers of a copy of the model to each before learning it.

        `in_kind` converts the answers, given the input and the classes of a classifier. Raises
        before anything changes if a row cannot be learnt, alone or together with the others.
        """

        def read() -> tuple[Any, Any]:
            rows, answers = as_numpy(X), []
            samples = read_stream_batch(rows) if answer is None else self._read_asked(rows)
            targets = self._read_targets(samples, y)
            weights = read_weights(w, len(samples)).tolist()
            later = shallow_copy(self)
            later._state = self._state.copied()
            if samples:
                later._take_form(form_of(rows))
            for x, target, weight in zip(samples_of(rows), targets, weights, strict=True):
                if answer is not None:
                    answers.append(answer(later, x))
                later.learn_one(x, target, weight)
            converted = in_kind(source_of(rows), answers, getattr(later, "classes", ()))
            return later._state, converted

        with self._lock:
            draft, converted = read_whole(read, self)
            self._change(draft)
            return converted

    @property
    def _columns(self) -> StreamColumns:
        """The columns of the features so far."""
        columns: StreamColumns = self._known.columns
        return columns

    def _take_form(self, layout: Layout) -> None:
        """Note whether rows that are learnt one by one, as dicts, come from a plain array."""
        draft = shallow_copy(self._state)
        draft.columns = draft.columns.in_form(layout)
        self._change(draft)

    @abstractmethod
    def _read_targets(self, samples: list[Sample], y: Any) -> list[Any]:
        """Return labels or numbers; raise if the rows cannot be learnt, all together."""

    @abstractmethod
    def _read_target(self, y: Any) -> Any:
        """Return the target of a row as `ExpertsState.learn` takes it."""


def read_weights(w: Any, n_rows: int) -> Floats:
    """Return the weights of rows, (n_rows,)."""
    return np.broadcast_to(check_weights(w, n_rows, largest=MAX_ROW_WEIGHT), n_rows)
