"""Forecast the next steps of a time series directly: every step has weights of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import NoneType
from typing import Any

from river import base
from river.time_series.base import Forecaster

from onlinels.checks import (
    check_count,
    check_kind,
    checked_assignment,
    read_number,
    refusal,
    wrong_type,
)
from onlinels.linear.model import LinearModel, columns_for
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, check_level
from onlinels.linear.state import State
from onlinels.locks import Lock
from onlinels.pipelines import ask, copied, emptied, is_pipeline, last_step
from onlinels.rows.batch import Batch, check_mapping, read_batch, read_sample
from onlinels.saving import (
    locked_copy,
    locked_deepcopy,
    locked_state,
    savable,
    save_method,
    unpacked_state,
)

__all__ = ["DirectForecaster"]

VALUE_MISSING_REMEDY = "Fill a gap with the forecast of this step, or with the last value."

ROW_IS_SKIPPED = (
    "The row that was refused, with the features of {}, is skipped. "
    "The value passed now is kept: do not pass it again."
)


def makes_numbers(pipeline: Any, row: Mapping[Any, Any], y: float) -> bool:
    """Return whether the steps before the last one, which do not learn, make a row of numbers."""
    *before, _ = pipeline.steps.items()
    steps = type(pipeline)(*((name, copied(step)) for name, step in before))
    with suppress(Exception):
        steps.learn_one(row, y)
        read_sample(steps.transform_one(row))
        return True
    return False


@savable(lambda forecaster: len(forecaster.models) == forecaster._n_models)
class DirectForecaster(Forecaster):
    """Forecast each of the next steps directly from the last values of a time series.

    Every step has weights of its own, and no forecast is an input of another one. The weights of
    step h learn a value when it arrives, h steps after the values from which it was forecast.

    Parameters
    ----------
    model : regressor, or pipeline that ends in one
        A `LeastSquaresMultiTargetRegressor` forecasts all steps: the steps are its targets. Of a
        regressor of one target, every step gets a copy. `model` itself learns nothing.
    horizon : int
        Number of steps to forecast.
    lags : int or iterable of int
        The last values that are features, for every step the same. Lag 1 is the last value that is
        known at the time of the forecast. An int n stands for the lags 1 to n.

    Notes
    -----
    Other features of a step, such as its hour, are passed as `x` when its value is learnt, and in
    `xs` when it is forecast. Copies for every step get the features of their own step. A model for
    all steps gets those of the first step, which suffices for an hour, but not for the forecast of
    a temperature. Lags are named "y-1", "y-2" and so on, as in river's SNARIMAX.

    Step h learns its first row when ``max(lags) + h`` values have arrived, and a model for all
    steps when those of the last step have. Until then, forecasts of the step repeat the last value
    (0.0 before the first one), and its intervals are infinite. If `learn_one` is interrupted, or
    one of several models refuses a value, some models may have learnt it, and the lags lack it.

    Learning and forecasting cost what they cost in `models`. Memory holds, beside the models, the
    last ``max(lags) + horizon`` values.

    References
    ----------
    S. Ben Taieb, G. Bontempi, A. F. Atiya and A. Sorjamaa, "A review and comparison of strategies
    for multi-step ahead time series forecasting" (2012).

    Examples
    --------
    >>> from onlinels import LeastSquaresMultiTargetRegressor
    >>> forecaster = DirectForecaster(LeastSquaresMultiTargetRegressor(), horizon=3, lags=4)
    >>> for step in range(100):
    ...     forecaster.learn_one(float(step % 4))
    >>> [round(value) for value in forecaster.forecast(3)]
    [0, 1, 2]
    """

    save = save_method
    __copy__, __deepcopy__ = locked_copy, locked_deepcopy
    __getstate__, __setstate__ = locked_state, unpacked_state
    __setattr__ = checked_assignment

    def __init__(self, model: Any, horizon: int = 24, lags: int | Iterable[int] = 24) -> None:
        kinds = base.Regressor, base.MultiTargetRegressor
        if isinstance(model, base.Base) and not isinstance(model, kinds):
            remedy = "Pass one, such as LeastSquaresRegressor()."
            raise wrong_type("model", model, "a regressor, or a pipeline that ends in one", remedy)
        check_kind("model", model, kinds)
        if not isinstance(lags, Iterable):
            lags = range(1, check_count("lags", lags, 1) + 1)
        self.model, self._lock = model, Lock()
        self.horizon = check_count("horizon", horizon, 1)
        self.lags = tuple(dict.fromkeys(check_count("lags", lag, 1) for lag in lags))
        if not self.lags:
            raise refusal("lags", "is empty", "at least one lag", "Pass 1 for the last value.")
        self._models = tuple(emptied(model) for _ in range(self._n_models))
        # The newest ones first; tuples, which other threads may read while a value is learnt.
        self._values: tuple[float, ...] = ()
        self._features: tuple[Mapping[Any, Any], ...] = ()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": LeastSquaresMultiTargetRegressor(), "horizon": 3, "lags": 2}

    @property
    def models(self) -> tuple[Any, ...]:
        """The models that learn: one for all steps, or one for every step."""
        return self._models

    @property
    def _is_joint(self) -> bool:
        """Whether one model forecasts all steps."""
        return isinstance(last_step(self.model), base.MultiTargetRegressor)

    @property
    def _n_models(self) -> int:
        return 1 if self._is_joint else self.horizon

    @property
    def _n_values(self) -> int:
        """How many values are kept: those of the first row that the last step learns."""
        return max(self.lags) + self.horizon

    def _row(self, values: tuple[float, ...], x: Mapping[Any, Any] | None) -> dict[Any, Any]:
        """Return the features of a forecast from values, the newest one first."""
        return self._joined(x, {f"y-{lag}": values[lag - 1] for lag in self.lags})

    @staticmethod
    def _joined(x: Mapping[Any, Any] | None, lags: dict[str, float]) -> dict[Any, Any]:
        for name in lags.keys() & (x or {}):
            found, expected = "has the name of a lag", "another name"
            raise refusal(f"x[{name!r}]", found, expected, "Rename the feature.")
        return {**(x or {}), **lags}

    def _checked(self, y: float, x: Mapping[Any, Any] | None) -> dict[Any, Any]:
        """Return features; raise if a linear model could not learn them, before any step does."""
        model, known = self._models[0], dict(x or {})
        row = self._joined(known, {f"y-{lag}": 0.0 for lag in self.lags})
        if isinstance(last_step(model), LinearModel) and (known or not self._values):
            try:
                sample = read_sample(known)
            except (TypeError, ValueError):
                if not (is_pipeline(model) and makes_numbers(model, row, y)):
                    raise
            if not is_pipeline(model):
                self._check_names(model._state, sample, row)
        return known

    def _check_names(self, state: State, sample: Batch, row: Mapping[Any, Any]) -> None:
        """Raise if a model could not take the names of a row, which rows that wait may extend."""
        if not state.count or columns_for(state, sample) is not state.columns:
            waiting = self._features if self._is_joint else ()
            columns_for(state, read_batch([*waiting, row]))

    def learn_one(self, y: float, x: Mapping[Any, Any] | None = None) -> None:
        """Learn the next value of the series.

        Parameters
        ----------
        y : float
            The value.
        x : mapping, optional
            Features of this step, such as its hour.

        Raises
        ------
        TypeError, ValueError
            If the value is not a finite number, or a model rejects the features. Nothing is learnt
            then, and the value may be passed again. If a model rejects a row only when its values
            are known, a note on the exception says so: the model skips this row, and the value is
            kept.
        """
        if isinstance(y, Mapping):
            remedy = "Pass the value first: learn_one(y, x). Only a pipeline takes (x, y)."
            raise wrong_type("y", y, "the value, a number", remedy)
        y = read_number("y", y, missing=VALUE_MISSING_REMEDY)
        if x is not None:
            check_mapping(x)
        with self._lock:
            values = (y, *self._values)[: self._n_values]
            features = (self._checked(y, x), *self._features)[: self.horizon]
            try:
                self._teach(values, features)
            except Exception as error:
                if self._is_joint and self.horizon == 1:
                    raise
                late = f"the value {self.horizon - 1} steps ago" if self._is_joint else "this value"
                error.add_note(ROW_IS_SKIPPED.format(late))
                vars(self).update(_values=values, _features=features)
                raise
            vars(self).update(_values=values, _features=features)

    def _n_learnt(self, values: tuple[float, ...]) -> int:
        """Return how many of the next steps have learnt a row once these values have arrived."""
        steps = max(0, len(values) - max(self.lags))
        return 0 if self._is_joint and steps < self.horizon else steps

    def _teach(self, values: tuple[float, ...], features: tuple[Any, ...]) -> None:
        n_learnt = self._n_learnt(values)
        if self._is_joint and n_learnt:
            steps = {step: values[self.horizon - step] for step in range(1, self.horizon + 1)}
            self._models[0].learn_one(self._row(values[self.horizon :], features[-1]), steps)
            return
        errors = []
        for step, model in enumerate(self._models[:n_learnt], 1):
            try:
                model.learn_one(self._row(values[step:], features[0]), values[0])
            except Exception as error:  # The lags of other steps are other values.
                errors.append(error)
        if errors:
            raise errors[0]

    def forecast(self, horizon: int, xs: Iterable[Mapping[Any, Any]] | None = None) -> list[float]:
        """Return the forecasts of the next steps.

        Parameters
        ----------
        horizon : int
            Number of steps, at most that of the forecaster.
        xs : iterable of mappings, optional
            Features of each of these steps.

        Raises
        ------
        ValueError
            If `horizon` is larger than that of the forecaster, or `xs` has another length.
        """
        last = self._values[0] if self._values else 0.0
        return self._answers("predict_one", last, horizon, xs)

    def forecast_interval(
        self, horizon: int, xs: Iterable[Mapping[Any, Any]] | None = None, level: float = 0.9
    ) -> list[tuple[float, float]]:
        """Return an interval for each of the next steps that holds its value with a probability.

        Parameters
        ----------
        horizon, xs
            As in `forecast`.
        level : float
            The probability, above 0 and below 1, of each step by itself.

        Raises
        ------
        TypeError, ValueError
            As in `forecast`, and if `level` is not a number above 0 and below 1, or the model at
            the end of `model` has no ``predict_interval_one``.
        """
        last, endless = last_step(self.model), (-math.inf, math.inf)
        if not hasattr(last, "predict_interval_one"):
            expected = "a model with predict_interval_one, because others have no intervals"
            remedy = "Use forecast, or a LeastSquaresRegressor or StreamRegressor."
            raise wrong_type("The last step of model", last, expected, remedy)
        check_level(level)
        return self._answers("predict_interval_one", endless, horizon, xs, level=level)

    def _answers(
        self, question: str, unknown: Any, horizon: int, xs: Any, **options: float
    ) -> list[Any]:
        """Return what the models answer for each step, `unknown` before they have learnt."""
        if check_count("horizon", horizon, 1) > self.horizon:
            remedy = f"Make a forecaster with horizon={horizon}."
            raise refusal("horizon", f"is {horizon}", f"at most {self.horizon}", remedy)
        is_table = isinstance(xs, (str, Mapping)) or hasattr(xs, "columns")
        if is_table or not isinstance(xs, (Iterable, NoneType)):
            remedy = "Pass a list with a dict for each step; of a frame, frame.to_dict('records')."
            raise wrong_type("xs", xs, "a list of dicts of features", remedy)
        given = [{}] * horizon if xs is None else list(xs)
        if len(given) != horizon:
            remedy = "Pass the features of every step."
            raise refusal("xs", f"has {len(given)} entries", str(horizon), remedy)
        for step, x in enumerate(given):
            check_mapping(x, f"xs[{step}]")
        with self._lock:
            values, n_learnt = self._values, self._n_learnt(self._values)
            if self._is_joint and n_learnt:
                steps = ask(self._models[0], question, self._row(values, given[0]), **options)
                return [steps[step] for step in range(1, horizon + 1)]
            asked = zip(self._models[:n_learnt], given, strict=False)
            known = [ask(model, question, self._row(values, x), **options) for model, x in asked]
            return known + [unknown] * (horizon - len(known))
