"""Classifiers around a classifier, or around a pipeline that ends in one: drift and calibration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, Self

import numpy as np
from river import base
from river.drift import ADWIN

from onlinels.checks import (
    Floats,
    by_row,
    check_between,
    check_mass,
    check_mergeable,
    check_not_empty,
    check_weights,
    checked_assignment,
)
from onlinels.labels import Label, check_one_each, read_label, read_labels
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import LinearModel
from onlinels.numerics import Lock, all_held, zero_added
from onlinels.pipelines import FIXED, emptied, is_pipeline, join, last_step, steps_of
from onlinels.rows import (
    check_aligned,
    check_mapping,
    names_of,
    read_batch,
    read_sample,
    samples_of,
    table_like,
)
from onlinels.saving import (
    VECTOR,
    WHOLE,
    locked_copy,
    locked_state,
    made_of,
    savable_settings,
    save_method,
    settings_hold,
)
from onlinels.scoring import SCALES, ScoringClassifier, best_scale, calibrate, log_losses


def is_blank(model: Any) -> bool:
    """Tell whether a classifier, or pipeline, knows no classes; of others than ours nobody can."""
    return not getattr(last_step(model), "classes", True)


@contextmanager
def restored_on_error(models: Sequence[Any]) -> Iterator[None]:
    """Put the state of models back if anything is raised; costs a copy of those that learn."""
    learning = [model for model in models if not isinstance(model, FIXED)]
    # The locks stay: others may wait for them.
    locks = [model._lock for model in learning if hasattr(model, "_lock")]
    before = copy.deepcopy(learning, {id(lock): lock for lock in locks})
    try:
        yield
    except BaseException:
        for model, copied in zip(learning, before, strict=True):
            model.__dict__ = vars(copied)
        raise


def learn_and_note(learn: Callable[[], Any], wrapper: Any, name: str, value: Any) -> None:
    """Let a wrapped model learn, and set its wrapper's attribute whatever is raised between.

    A context manager would not do: what is raised inside it before its own code runs is lost.
    """
    last = last_step(wrapper.classifier)
    before = getattr(last, "count", None)
    try:
        learn()
        setattr(wrapper, name, value)
    except BaseException:
        if getattr(last, "count", None) != before:
            setattr(wrapper, name, value)
        raise


class MetaClassifier(base.Classifier):
    """A classifier around another one, whose ridge may be changed at any time."""

    _lock: Lock
    classifier: Any

    save = save_method
    __copy__ = locked_copy
    __setattr__ = checked_assignment
    __getstate__ = locked_state

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier"}


class WrappedClassifier(base.Wrapper[base.Estimator], MetaClassifier):
    """Answer as the wrapped classifier, or pipeline, does; subclasses learn in their own way."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": LeastSquaresClassifier()}

    @property
    def _wrapped_model(self) -> Any:
        return self.classifier

    def _row_features(self, x: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Return what the last step meets of a sample."""
        return self.classifier.transform_one(x) if is_pipeline(self.classifier) else x

    def _teach(self, x: Mapping[Any, Any], y: Any, **others: Any) -> None:
        """Let the wrapped model learn a row, which was looked at before unless it is the first."""
        if not is_blank(self.classifier):
            self.classifier.learn_one(x, y, **others)
            return
        with restored_on_error(steps_of(self.classifier)[:-1]):
            self.classifier.learn_one(x, y, **others)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels that the wrapped model knows, in the order of its columns."""
        return tuple(last_step(self.classifier).classes)

    @property
    def count(self) -> int:
        """Number of rows that the wrapped model has learnt, whatever their weights are now."""
        return int(last_step(self.classifier).count)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the wrapped model's label for one sample; None before anything is learnt.

        Until then neither values are read nor transformers asked.
        """
        with self._lock:
            if is_blank(self.classifier):
                check_mapping(x)
                return None
            return self.classifier.predict_one(x, **kwargs)

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Return the wrapped model's label of every row, in the kind of `X`."""
        with self._lock:
            return self.classifier.predict_many(X, **kwargs)


Detector = base.DriftDetector | base.BinaryDriftDetector


@savable_settings(_n_alarms=WHOLE, _lock=made_of(Lock))
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

    A row costs one prediction more, and the detector. `learn_many` predicts and learns row by row,
    as it must; it keeps a copy of model and detector meanwhile, and puts them back as they were if
    a row is refused.

    Bad input is refused by `learn_one` before the detector hears of it. If the model refuses the
    row for another reason (there is no room for its features), or an interrupt comes between the
    two, only the detector has seen it. Steps of other packages may have learnt of a row that a
    later step refuses.

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
        self, classifier: base.Estimator, detector: Detector | None = None, keep: float = 0.0
    ) -> None:
        if not isinstance(last_step(classifier), LeastSquaresClassifier):
            came = f"classifier is of type {type(last_step(classifier)).__name__}"
            raise TypeError(f"{came}, expected a LeastSquaresClassifier, or a pipeline of one.")
        if detector is not None and not isinstance(detector, Detector):
            came = f"detector is of type {type(detector).__name__}"
            raise TypeError(f"{came}, expected a drift detector, such as river.drift.ADWIN().")
        check_between("keep", keep, 0.0, 1.0)
        self.classifier = classifier
        usual: Any = ADWIN
        self.detector: Detector = detector or usual()
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
            self._n_alarms += self._learn(x, read_label(y), check_weights(w, 1), kwargs)

    def _learn(self, x: Mapping[Any, Any], y: Label, w: Any, others: dict[str, Any]) -> bool:
        """Tell the detector of a row, weaken the past if it alarms, learn; return if it did."""
        alarm, last = False, last_step(self.classifier)
        # Before the first row there is no error, and transformers may not give numbers yet.
        if last.classes:
            features = self._row_features(x)
            # What the model would refuse, the detector is not told of.
            row = read_sample(features)
            check_mass(row.values, w, lambda: [*names_of(row.layouts[0])])
            alarm = alarms(self.detector, bool(last.predict_one(features) != y))
        if alarm:
            last.fade(self.keep)
        self._teach(x, y, w=w, **others)
        return alarm

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
            check_aligned(X, y=y, w=w, **kwargs)
            rows = list(samples_of(X))
            check_not_empty("X", len(rows))
            labels = read_labels(y, len(rows))
            weights = np.broadcast_to(check_weights(w, len(rows)), len(rows)).tolist()
            given = {name: by_row(name, value, len(rows)) for name, value in kwargs.items()}
            others = [{name: given[name][row] for name in given} for row in range(len(rows))]
            with restored_on_error([*steps_of(self.classifier), self.detector]):
                self._n_alarms += sum(map(self._learn, rows, labels, weights, others))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the wrapped model's probabilities for one sample; {} while it knows nothing."""
        with self._lock:
            if is_blank(self.classifier):
                check_mapping(x)
                return {}
            return dict(self.classifier.predict_proba_one(x, **kwargs))

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Return the wrapped model's probabilities, a column per class, in the kind of `X`."""
        with self._lock:
            return self.classifier.predict_proba_many(X, **kwargs)

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
    return bool(detector.drift_detected and (before is None or detector.estimation > before))


@savable_settings(
    lambda model: len(model._losses) == len(SCALES) and settings_hold(model),
    _losses=VECTOR,
    _lock=made_of(Lock),
)
class CalibratedClassifier(WrappedClassifier):
    """Give a least-squares classifier probabilities that are calibrated while it learns.

    Before a row or mini-batch is learnt, the wrapped model scores it, and the scores tell how good
    each of 41 scales a from 1/4 to 256 would have been. Probabilities come from the scale of the
    least log-loss so far: p_k = (n q_k + 1) / (n + N), q = softmax(a scores), for n rows learnt
    and N classes. One number is fitted, labels never change, and nothing can diverge.

    Parameters
    ----------
    classifier : LeastSquaresClassifier, ShallowConvClassifier, or a pipeline that ends in one
        It learns and labels as it would alone.

    Notes
    -----
    The scale depends on the order of the rows, and on how the stream is cut: a mini-batch is
    scored before any of its rows is learnt, just as a user who predicts it and then learns it
    would see. So `learn_many` and looped `learn_one` make the same classifier, but scales that
    differ a little. The wrapped model keeps all its promises of exactness.

    Learning takes one more scoring of every row: the features are computed twice, and the weights
    are solved once for each call, unless a prediction has done so already. Put the wrapper at the
    end of a pipeline (`scaler | layer | CalibratedClassifier(LeastSquaresClassifier())`) and only
    the last step scores, on features that are there already; wrap the pipeline, and a row is scored
    with its transformers as they were before the row. Measured shares of the time are in
    demos/benchmarks/README.md.

    Bad input is refused before anything changes. An interrupt between the two steps of a call may
    leave a row that is learnt and does not count for the scale; steps of other packages may have
    seen a row that a later step refuses.

    Rows with a label never seen before teach the scale nothing. Weights of rows count.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from onlinels import LeastSquaresClassifier
    >>> for model in (LeastSquaresClassifier(), CalibratedClassifier(LeastSquaresClassifier())):
    ...     evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.31...
    LogLoss: 0.29...
    """

    def __init__(self, classifier: base.Estimator) -> None:
        last = last_step(classifier)
        scores = isinstance(last, ScoringClassifier)
        if not scores or "w" not in signature(last.learn_one).parameters:
            came = f"{type(last).__name__}{', whose rows have no weights' if scores else ''}"
            known = "a LeastSquaresClassifier or ShallowConvClassifier, or a pipeline of one"
            raise TypeError(f"classifier is of type {came}, expected {known}.")
        self.classifier = classifier
        self._losses: Floats = np.zeros(len(SCALES))
        self._lock = Lock()

    @property
    def scale(self) -> float:
        """The scale a in force; 4 before anything is known."""
        return best_scale(self._losses)

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        if is_blank(self.classifier):
            check_mapping(x)
            return np.zeros(0)
        return np.asarray(last_step(self.classifier)._row_scores(self._row_features(x)))

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        features = self.classifier.transform_many(X) if is_pipeline(self.classifier) else X
        source, scores = last_step(self.classifier)._batch_scores(features)
        return source, scores

    def _scores_before(self, X: Any) -> Floats:
        """Return the scores of rows that are learnt next: columns may be absent from these."""
        features = self.classifier.transform_many(X) if is_pipeline(self.classifier) else X
        last = last_step(self.classifier)
        if isinstance(last, LinearModel):
            return last._scores_of(read_batch(features))
        return np.asarray(last._batch_scores(features)[1])

    def _learn(self, learn: Callable[[], Any], scores: Floats, labels: list[Label], w: Any) -> None:
        """Let the wrapped model learn rows of these scores, which count for the scale."""
        index = {label: column for column, label in enumerate(self.classes)}
        columns = np.array([index.get(label, -1) for label in labels], dtype=np.intp)
        losses = log_losses(scores, columns, np.broadcast_to(w, len(labels)), self.count)
        learn_and_note(learn, self, "_losses", self._losses + losses)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, **kwargs: Any) -> None:
        """Score one sample, then learn it.

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
            labels, weight = [read_label(y)], check_weights(w, 1)
            scores = self._row_scores(x)[None]
            self._learn(partial(self._teach, x, y, w=w, **kwargs), scores, labels, weight)

    def learn_many(self, X: Any, y: Any, w: Any = None, **kwargs: Any) -> None:
        """Score a mini-batch as a whole, then learn it.

        Parameters
        ----------
        X, y, w
            As the wrapped model takes them.
        **kwargs
            Passed on to the wrapped model.

        Raises
        ------
        TypeError, ValueError
            As the wrapped model; nothing has changed then.
        """
        with self._lock:
            labels = read_labels(y)
            weights = check_weights(w, len(labels))
            check_one_each(labels, X.shape[0] if hasattr(X, "shape") else len(X))
            scores = self._scores_before(X)
            learn = partial(self.classifier.learn_many, X, y, w=w, **kwargs)
            self._learn(learn, scores, labels, weights)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample; {} before anything is learnt."""
        with self._lock:
            scores = self._row_scores(x)[None]
            return dict(zip(self.classes, self._probabilities(scores)[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`."""
        with self._lock:
            source, scores = self._batch_scores(X)
            return table_like(source, self.classes, self._probabilities(scores))

    def _probabilities(self, scores: Floats) -> Floats:
        return calibrate(scores, self.scale, self.count) if scores.shape[1] else scores

    def empty(self) -> Self:
        """Return a wrapper of the same settings and fixed features that has learnt nothing."""
        return type(self)(emptied(self.classifier))

    def merge(self, other: Self) -> Self:
        """Add what another wrapper has learnt, in place: its model, and its losses scale by scale.

        Parameters
        ----------
        other : CalibratedClassifier
            Its model is of the same kind and settings. It stays as it is.

        Raises
        ------
        TypeError, ValueError
            If the models cannot merge, as `onlinels.merge` says; nothing has changed then.
        """
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            merge = partial(join, self.classifier, other.classifier)
            learn_and_note(merge, self, "_losses", self._losses + other._losses)
        return self

    def __add__(self, other: Self) -> Self:
        """Return a new wrapper that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added
