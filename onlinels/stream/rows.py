"""Rows of stream models in numpy, where no compiler was: what stream_rows.h does with a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels.checks import Floats
from onlinels.core.apply import Call
from onlinels.core.constants import (
    BEFORE,
    DELAY,
    ERROR_DECAY,
    IN_SCALE,
    LABEL_BEFORE,
    LABEL_RATE,
    LARGEST_TARGET,
    LAST_LABEL,
    LATEST,
    LEAST_TARGET,
    LOG_WIDTH,
    MAX_PLAIN_VALUE,
    N_BEST,
    N_ERRORS,
    N_EXPERTS,
    N_FEATURES,
    N_HEAD,
    N_LAGS,
    N_LINEAR,
    NUMBER_RATE,
    PLAIN,
    ROWS_LEARNT,
    TARGET_UNIT,
)
from onlinels.core.reference import (
    Experts,
    judge_forecast,
    judge_row,
    mix_forecasts,
    mix_scores,
    pace_of,
    scale,
    scale_after,
    shares_of,
    units_of,
)
from onlinels.stream.features import gaps_after

PlacedRow = tuple[Floats, tuple[int, ...]]
"""The values of a row, and the places of what is known of its gaps."""


class ArrayRows:
    """Rows of a stream model in one state, read by other code: dicts are handed back to it.

    The arguments are those of `StreamRows` in stream_rows.h, where methods are explained; readers
    and labels are not needed. Other code gives the scores of plain least squares.
    """

    def __init__(self, *, outputs: Any, experts: Any, arrays: Any, **of_readers: Any) -> None:
        self.experts, self.is_number = Experts(experts), outputs is None
        self.numbers, _, self.scale, self.n_scaled, self.known, self.factors = arrays[:6]
        self.pending, self.priors, *others = arrays[6:]
        if self.is_number:
            self.losses, self.targets, self.quantities, self.past, self.late = others
        else:
            self.errors, self.losses, self.scales, _ = others

    def hand_over(self, *arguments: Any) -> Any:
        """Return NotImplemented."""
        return NotImplemented

    scores = label = probabilities = normal = learn = hand_over

    def waits(self) -> None:
        """Return None: no forecast waits here."""

    def forecast(self, row: Any, out: Floats, plain: Any) -> Any:
        """Write the forecast for a row, and return calls by which the scale learns it."""
        if type(row) is dict or plain is None:
            return NotImplemented
        values, _ = row
        if self.is_number:
            out[:] = np.concatenate((*self._mixed(values, self.past, plain)[1:], self.past))
            return ()
        features, last, is_late = (
            self._scaled(values),
            self.numbers[LAST_LABEL],
            self.numbers[DELAY] > 0.0,
        )
        mixed = self._voted(self._scores(features, int(last)), plain)
        out[:] = np.concatenate(([len(values), last, is_late, N_EXPERTS], features, *mixed))
        return self._learn_scale(row) if is_late else ()

    def plan(
        self, row: Any, y: Any, w: float, stored: Any, delay: float, is_new: bool, plain: Any
    ) -> Any:
        """Return calls that learn a row, given its stored forecast or None."""
        if type(row) is dict or plain is None:
            return NotImplemented
        if not self.is_number and not 0 <= y < self.experts.n_outputs:
            return NotImplemented
        of_kind = self._learn_number if self.is_number else self._learn_class
        calls, is_scaled, target = of_kind(row[0], y, w, stored, delay, is_new, plain)
        if calls is None:
            return NotImplemented
        values, numbers = row[0], self.numbers
        is_first = (self.factors == 0.0) & (values != 0.0) & (values == values)
        factors = np.where(is_first, 1.0 / units_of(np.where(is_first, values, 1.0)), self.factors)
        raw = np.where(values == values, values, self.scale[1]) * factors
        pending = [target, w, *np.clip(raw, -MAX_PLAIN_VALUE, MAX_PLAIN_VALUE)]
        last = -1 if self.is_number else y
        return (
            *calls,
            *(() if is_scaled else self._learn_scale(row)),
            (self.factors.__setitem__, ..., factors),
            (self.pending.__setitem__, ..., np.array(pending)),
            (numbers.__setitem__, slice(3), np.array([numbers[ROWS_LEARNT] + 1.0, delay, last])),
        )

    def _scaled(self, values: Floats) -> Floats:
        scaled = np.empty(len(values))
        scale(self.scale, values, scaled)
        return scaled

    def _learn_scale(self, row: PlacedRow) -> tuple[Call, ...]:
        values, gaps = row
        after, n_rows = np.empty_like(self.scale), self.n_scaled + 1.0
        scale_after(self.scale, values, after, float(n_rows[0]))
        known = gaps_after(self.known, gaps, float(n_rows[0]))
        changes = (self.scale, after), (self.n_scaled, n_rows), (self.known, known)
        return tuple((array.__setitem__, ..., new) for array, new in changes)

    def _scores(self, features: Floats, last: int) -> Floats:
        """Return the scores (n_experts, n_classes) of a row; those of plain least squares are 0."""
        n_classes = self.experts.n_outputs
        scores = np.zeros((N_EXPERTS, n_classes))
        self.experts.scores(features, last, scores[:PLAIN])
        return scores

    def _voted(self, scores: Floats, plain: Floats) -> tuple[Floats, Floats]:
        """Return the best class of every expert, and the mixture of their scores."""
        best, mixture = np.empty(N_EXPERTS), np.empty(scores.shape[1])
        scores[PLAIN], rate = plain, LABEL_RATE * pace_of(float(self.numbers[DELAY]))
        mix_scores(scores, self.priors, self.errors, best, mixture, rate)
        return best, mixture

    def _learn_class(self, values: Floats, *lesson: Any) -> tuple[Any, bool, float]:
        column, w, stored, delay, is_new, plain = lesson
        features, is_scaled = self._scaled(values), False
        best: Any = None
        mixture = np.zeros(0)
        last = -1 if delay else int(self.numbers[LAST_LABEL])
        if stored is not None:
            n_features, end = int(stored[N_FEATURES]), int(stored[N_FEATURES]) + N_HEAD
            features[:n_features], is_scaled = stored[N_HEAD:end], bool(stored[IN_SCALE])
            if stored[N_BEST]:
                last, best = int(stored[LABEL_BEFORE]), stored[end : end + N_EXPERTS]
                mixture = stored[end + N_EXPERTS :]
        scores = self._scores(features, last)
        if not self.experts.prepare(w):
            return None, False, 0.0
        if best is None and not is_new:
            best, mixture = self._voted(scores, plain)
        judged, losses = ERROR_DECAY * self.errors, self.losses.copy()
        if column < len(mixture):  # No expert could predict a class that was unknown.
            judged, count = self.errors.copy(), float(self.numbers[ROWS_LEARNT])
            judge_row(best, mixture, self.scales, judged, losses, column, count, w)
        errors = -scores[:N_LINEAR]
        errors[:, column] += 1.0
        calls = (
            *self.experts.plan(errors, column, is_new, w),
            (self.errors.__setitem__, ..., judged),
            (self.losses.__setitem__, ..., losses),
        )
        return calls, is_scaled, column

    def _seen(self, values: Floats, past: Floats) -> Floats:
        """Return what the memories see of a row: scaled features, their changes, and lags."""
        features, n = self._scaled(values), len(values)
        if not self.numbers[ROWS_LEARNT]:
            return np.concatenate((features, np.zeros(n + N_LAGS)))
        lags = np.array([past[LATEST], past[LATEST] - past[BEFORE]])
        scale(self.targets, lags, lags)
        return np.concatenate((features, features - self._scaled(past[N_LAGS:]), lags))

    def _mixed(self, values: Floats, past: Floats, plain: Any) -> tuple[Floats, Floats, Floats]:
        """Return the scores of the memories, the forecasts of all experts, and their mixture."""
        scores, forecasts = np.empty(len(self.quantities)), np.empty(len(self.priors))
        numbers = self.numbers
        self.experts.scores(self._seen(values, past), -1, scores)
        rate = NUMBER_RATE * pace_of(float(numbers[DELAY]))
        value = mix_forecasts(
            scores,
            self.targets,
            self.quantities,
            self.priors,
            self.losses,
            forecasts,
            plain=float(plain[0]),
            unit=float(numbers[TARGET_UNIT]),
            last=float(past[LATEST]),
            low=float(numbers[LEAST_TARGET]),
            high=float(numbers[LARGEST_TARGET]),
            rate=rate,
        )
        if not numbers[N_ERRORS]:
            # A median limits the effect of an expert far from all others, until errors are known.
            value = median_of(forecasts, shares_of(self.losses, rate, self.priors))
        return scores, forecasts, np.array([value])

    def _learn_number(self, values: Floats, *lesson: Any) -> tuple[Any, bool, float]:
        y, w, stored, delay, _, plain = lesson
        n, numbers, n_experts = len(values), self.numbers.copy(), len(self.priors)
        is_first, is_stored = not numbers[ROWS_LEARNT], stored is not None and len(stored) > 0
        # Among late rows, a row without a forecast is as late as the row before.
        past = self.late if delay and stored is None else self.past
        if delay and is_stored:
            past = np.zeros(N_LAGS + n)
            past[: len(stored) - n_experts - 1] = stored[n_experts + 1 :]
        scores, *judged = self._mixed(values, past, plain)
        # A row of history is judged by the current forecast.
        if is_stored and (delay or len(stored) == n_experts + 1 + N_LAGS + n):
            judged = [stored[:n_experts], stored[n_experts : n_experts + 1]]
        elif delay or is_first:
            judged = []
        if not self.experts.prepare(w):
            return None, False, 0.0
        both = np.array([y, np.nan if is_first else y - past[LATEST]])
        scaled, targets, losses = np.empty(2), np.empty_like(self.targets), self.losses.copy()
        scale(self.targets, both, scaled)
        scale_after(self.targets, both, targets, float(numbers[ROWS_LEARNT]) + 1.0)
        if judged:
            known = slice(N_ERRORS, LOG_WIDTH + 1)
            n_errors, weight, error, width = numbers[known].tolist()
            of_row = float(judged[1][0]), y, w, pace_of(delay)
            errors = judge_forecast(judged[0], losses, n_errors, weight, error, width, *of_row)
            numbers[known] = errors
        numbers[LEAST_TARGET] = y if is_first else min(y, numbers[LEAST_TARGET])
        numbers[LARGEST_TARGET] = y if is_first else max(y, numbers[LARGEST_TARGET])
        if not numbers[TARGET_UNIT] and y:
            numbers[TARGET_UNIT] = units_of(np.array([y]))[0]
        new_past = np.concatenate(([np.nan if is_first else self.past[LATEST], y], values))
        changes = [(self.numbers, numbers), (self.losses, losses), (self.past, new_past)]
        changes += [(self.targets, targets)] + ([(self.late, past.copy())] if delay else [])
        calls = self.experts.plan(scaled.take(self.quantities) - scores, -1, False, w)
        target = y / (float(numbers[TARGET_UNIT]) or 1.0)
        writes = tuple((array.__setitem__, ..., new) for array, new in changes)
        return (*calls, *writes), False, min(max(target, -MAX_PLAIN_VALUE), MAX_PLAIN_VALUE)


def median_of(values: Floats, shares: Floats) -> float:
    """Return the weighted median, interpolated between the middles of the shares.

    Examples
    --------
    >>> median_of(np.array([9.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25]))
    1.6666666666666665
    """
    order = values.argsort(kind="stable")
    ordered = shares[order]
    return float(np.interp(0.5, ordered.cumsum() - ordered / 2.0, values[order]))
