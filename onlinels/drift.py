"""DriftAwareClassifier: what was learnt counts less once a detector says that the world changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from river import base
from river.drift import ADWIN

from onlinels.ahead import FIXED, Ahead, learn_as_one
from onlinels.checks import check_between, check_not_empty, check_weights
from onlinels.classifier import LeastSquaresClassifier
from onlinels.commit import Commit
from onlinels.labels import Label, read_label, read_labels
from onlinels.numerics import Lock
from onlinels.wrapping import (
    WrappedClassifier,
    emptied,
    last_step,
    planned,
    samples_of,
    steps_of,
)

Detector = base.DriftDetector | base.BinaryDriftDetector


class DriftAwareClassifier(WrappedClassifier, base.MiniBatchClassifier):
    """Weaken the past of a least-squares classifier whenever a drift detector alarms.

    Every row is predicted before it is learnt, and the detector is told whether that was wrong, 1
    or 0. On an alarm the weight of all rows before is multiplied by `keep`; the row itself is then
    learnt with its own. After alarms at rows d_1 < d_2 < ... row i weighs w_i keep^k, k being the
    number of alarms after it, and the model equals the batch solution with these weights.

    Parameters
    ----------
    classifier : LeastSquaresClassifier, or a pipeline that ends in one
        Of any accumulator. On an alarm only this last step changes.
    detector : river.base.DriftDetector or river.base.BinaryDriftDetector, optional
        A detector of `river.drift` or `river.drift.binary`; by default a new ADWIN.
    keep : float
        From 0, which starts afresh (classes and features are forgotten too), to 1, which ignores
        alarms; see `LeastSquaresClassifier.fade`.

    Notes
    -----
    Detectors that look both ways alarm as well when the model gets better, which is no reason to
    forget. Where a detector tells its estimate of the error (`estimation`, as ADWIN does), only
    alarms at which that rose count. PageHinkley does it with mode="up"; KSWIN cannot tell. FHDDM of
    river 0.26 alarms only when errors become fewer, against what its documentation says.

    Weights of rows do not count for the detector. With delayed labels the error is that of a
    prediction made when the label comes, just before it is learnt.

    A row costs one prediction more, and a copy of the detector, so that a row that is refused
    leaves no trace: with ADWIN 30 to 70 us beside predicting and learning it, with HDDMW 100 to
    280. `learn_many` predicts and learns row by row, as it must, in a copy of the model; alarms
    copy it, too.

    Whatever is raised while it learns, by an interrupt too, wrapper, detector and wrapped model are
    all as before or all as after. Detectors and steps of other packages are not made for that: they
    learn in a copy, and take over what it became once the last step has learnt; a scaler of
    river's with 20 features inside costs 0.1 ms a row so. In front of the wrapper none is copied,
    or brought back.

    Examples
    --------
    >>> from onlinels import LeastSquaresClassifier
    >>> model = DriftAwareClassifier(LeastSquaresClassifier(), keep=0.1)
    >>> for k in range(2000):
    ...     model.learn_one({"a": k % 7}, (k % 7 > 3) == (k < 1000))
    >>> model.n_alarms > 0, model.predict_one({"a": 6.0})
    (True, False)
    """

    def __init__(
        self,
        classifier: base.Estimator,
        detector: Detector | None = None,
        keep: float = 0.0,
    ) -> None:
        if not isinstance(last_step(classifier), LeastSquaresClassifier):
            raise TypeError(
                f"classifier is of type {type(last_step(classifier)).__name__}, expected a "
                "LeastSquaresClassifier, or a pipeline that ends in one. Wrap one of these."
            )
        if detector is not None and not isinstance(detector, Detector):
            raise TypeError(
                f"detector is of type {type(detector).__name__}, expected a drift detector of "
                "river.drift or river.drift.binary. Pass one, for instance river.drift.ADWIN()."
            )
        check_between("keep", keep, 0.0, 1.0)
        self.classifier = planned(classifier)
        usual: Any = ADWIN
        self.detector: Detector = usual() if detector is None else detector
        self.keep = keep
        self._n_alarms = 0
        self._lock = Lock()

    @property
    def n_alarms(self) -> int:
        """Number of times that the past was weakened."""
        return self._n_alarms

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, **kwargs: Any) -> None:
        """Predict one sample, weaken the past if the detector alarms, then learn it.

        Parameters
        ----------
        x : mapping
        y : hashable
        w : float
            Weight, at least 0.
        **kwargs
            Passed on to the wrapped model.

        Raises
        ------
        TypeError, ValueError
            As the wrapped model; nothing has changed then.
        """
        with self._lock:
            label = read_label(y)
            check_weights(w, 1)
            detector = Ahead(self.detector)
            alarm = self._tell(detector.copy, x, label)
            n_alarms = self._n_alarms + alarm

            def learn(model: Any) -> None:
                """Weaken the past, if need be, and learn the row."""
                if alarm:
                    last_step(model).fade(self.keep)
                model.learn_one(x, y, w=w, **kwargs)

            def gather(commit: Commit) -> None:
                """Gather what the detector and this wrapper know of it."""
                detector.gather(commit)
                commit.set(self, _n_alarms=n_alarms)

            learn_as_one(self.classifier, learn, gather, [last_step(self.classifier)] * alarm)

    def _tell(self, detector: Any, x: Mapping[Any, Any], label: Label) -> bool:
        """Tell a detector whether a row is predicted as it is labelled; return if it alarms."""
        model: Any = self.classifier
        is_wrong = bool(model.predict_one(x) != label)
        return bool(self.classes) and alarms(detector, is_wrong)

    def learn_many(self, X: Any, y: Any, w: Any = None, **kwargs: Any) -> None:
        """Learn a mini-batch, row by row: with the same result as looped `learn_one`.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0; 1 by default.
        **kwargs
            Passed on to the wrapped model: arrays and lists of n_rows values row by row.

        Raises
        ------
        TypeError, ValueError
            As the wrapped model; nothing has changed then.
        """
        with self._lock:
            rows = list(samples_of(X))
            check_not_empty("X", len(rows))
            labels = read_labels(y, len(rows))
            weights = np.broadcast_to(check_weights(w, len(rows)), len(rows)).tolist()
            by_row = {name: _by_row(name, value, len(rows)) for name, value in kwargs.items()}
            fixed = [step for step in steps_of(self.classifier) if isinstance(step, FIXED)]
            ahead, commit = Ahead(self, fixed), Commit()
            for number, row in enumerate(rows):
                others = {name: values[number] for name, values in by_row.items()}
                ahead.copy._learn_row(row, labels[number], weights[number], others)
            ahead.gather(commit)
            commit.make()

    def _learn_row(self, x: Mapping[Any, Any], y: Label, w: float, others: dict[str, Any]) -> None:
        """Learn a row of which nobody would see a half."""
        model: Any = self.classifier
        if self._tell(self.detector, x, y):
            last_step(model).fade(self.keep)
            self._n_alarms += 1
        model.learn_one(x, y, w=w, **others)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the wrapped model's probabilities for one sample; {} while it knows nothing."""
        with self._lock:
            model: Any = self.classifier
            probabilities: dict[Label, float] = model.predict_proba_one(x, **kwargs)
            return probabilities

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Return the wrapped model's probabilities, a column per class, in the kind of `X`."""
        with self._lock:
            model: Any = self.classifier
            return model.predict_proba_many(X, **kwargs)

    def empty(self) -> Self:
        """Return a wrapper of the same settings and fixed features that has learnt nothing."""
        return type(self)(emptied(self.classifier), self.detector.clone(), self.keep)


def alarms(detector: Any, is_wrong: bool) -> bool:
    """Tell a detector of an error or none; return whether it alarms, and not because errors fell.

    Parameters
    ----------
    detector : river.base.DriftDetector or river.base.BinaryDriftDetector
    is_wrong : bool
    """
    before = getattr(detector, "estimation", None)
    binary = isinstance(detector, base.BinaryDriftDetector)
    detector.update(is_wrong if binary else float(is_wrong))
    if not detector.drift_detected:
        return False
    return before is None or bool(detector.estimation > before)


def _by_row(name: str, value: Any, n_rows: int) -> Sequence[Any]:
    """Return every row's share of an argument: its entry of an array or list, else all of it."""
    if np.ndim(value) == 0:
        return [value] * n_rows
    values: Any = np.asarray(value, dtype=object)
    if len(values) != n_rows:
        raise ValueError(
            f"{name} has shape {values.shape}, expected ({n_rows},). "
            "Pass one value per row, or one for all."
        )
    return list(values)
