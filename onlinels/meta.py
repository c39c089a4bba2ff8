"""Wrappers of a classifier, or of a pipeline that ends in one, for drift and for calibration."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from river import base

from onlinels.checks import (
    Floats,
    by_row,
    check_between,
    check_mass,
    check_mergeable,
    check_weight,
    check_weights,
    checked_assignment,
    row_blocks,
    wrong_type,
)
from onlinels.core import losses_of
from onlinels.core.apply import apply
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import LinearModel, columns_for, scores_of
from onlinels.linear.prequential import Answers, labels_before
from onlinels.linear.scoring import (
    SCALE_PENALTIES,
    SOFTMAX_SCALES,
    ScoringClassifier,
    best_scale,
    best_scales,
    calibrate,
    log_losses,
    table_of,
    with_unseen_labels,
)
from onlinels.linear.single import rows_of
from onlinels.locks import Lock, all_held
from onlinels.numerics import Calls, is_array, read_whole, zero_added
from onlinels.pipelines import (
    FIXED_STEPS,
    columns_of_rows,
    emptied,
    is_pipeline,
    join,
    last_step,
    learning_step,
    steps_before,
    steps_of,
)
from onlinels.rows.answers import labels_like
from onlinels.rows.batch import (
    Batch,
    Row,
    matched_by_position,
    names_of,
    read_batch,
    read_sample,
    samples_of,
    source_of,
    warn_of_other_columns,
)
from onlinels.rows.labels import Label, read_known_labels, read_label, read_labels
from onlinels.saving import (
    locked_copy,
    locked_deepcopy,
    locked_state,
    locks_of,
    savable,
    save_method,
    settings_hold,
    unpacked_state,
)


def is_blank(model: Any) -> bool:
    """Return whether a classifier or pipeline knows no classes; False for other packages."""
    return not getattr(last_step(model), "classes", True)


def all_parts(model: Any) -> list[Any]:
    """Return the objects that a model or pipeline consists of, the last one last."""
    return [*(step for _, step in steps_before(model)), last_step(model)]


def aside(
    model: Any, parts: Callable[[Any], list[Any]] = all_parts
) -> tuple[Any, Callable[[], Calls]]:
    """Return a copy of a model, and a function that returns how its parts become those of the copy.

    Teach the copy, then apply what the function returns: the model learns all rows or none.
    """
    fixed = [part for part in parts(model) if isinstance(part, FIXED_STEPS)]
    # The locks are not copied: other threads may wait for them.
    copied = copy.deepcopy(model, {id(each): each for each in (*fixed, *locks_of(model))})
    pairs = [*zip(parts(model), parts(copied), strict=True)]
    return copied, lambda: tuple((vars(mine).update, vars(other)) for mine, other in pairs)


def learn_and_note(learn: Callable[[], Any], wrapper: Any, added: Floats) -> None:
    """Teach a wrapped model, and add losses to its wrapper's even if an interrupt comes between.

    A context manager cannot do this: an exception that is raised in it before its own code runs
    would be lost.
    """
    last, losses = last_step(wrapper.classifier), None
    before = getattr(last, "count", None)
    try:
        learn()
        # Code of the labels may have changed the losses meanwhile.
        losses = wrapper._losses + added
        wrapper._losses = losses
    except BaseException:
        if getattr(last, "count", None) != before and wrapper._losses is not losses:
            wrapper._losses = wrapper._losses + added
        raise


def warn_of_lacking(model: Any, batch: Batch) -> None:
    """Warn of columns of a linear model that a frame or an array lacks."""
    if isinstance(model, LinearModel):
        warn_of_other_columns(model._state.columns, batch)


class MetaClassifier(base.Classifier):
    """A classifier that wraps another classifier, whose ridge can be changed at any time."""

    _lock: Lock
    classifier: Any

    save = save_method
    __copy__, __deepcopy__ = locked_copy, locked_deepcopy
    __getstate__, __setstate__ = locked_state, unpacked_state
    __setattr__ = checked_assignment

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier"}


class WrappedClassifier(base.Wrapper[base.Estimator], ScoringClassifier):
    """Score like the wrapped classifier or pipeline; subclasses define how it learns."""

    classifier: Any

    save = save_method
    __copy__, __deepcopy__ = locked_copy, locked_deepcopy
    __getstate__, __setstate__ = locked_state, unpacked_state
    __setattr__ = checked_assignment
    _mutable_attributes = MetaClassifier._mutable_attributes

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": LeastSquaresClassifier()}

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        own = (each for name, each in vars(self).items() if name != "_lock")
        return *own, *last_step(self.classifier)._version

    @property
    def _wrapped_model(self) -> Any:
        return self.classifier

    @property
    def _core_rows(self) -> Any:
        """What answers single rows of the wrapped model; None if there are steps before it."""
        last = self.classifier
        # River's pipelines are instances of what they end in.
        if type(last) is not LeastSquaresClassifier:
            return None
        return last._state.following.rows or rows_of(last._state)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the wrapped model's label for one sample, None if nothing is learnt yet."""
        with self._lock:
            rows = self._core_rows
            label = NotImplemented if rows is None else rows.label(x)
            return super().predict_one(x) if label is NotImplemented else label

    def _row_features(self, x: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Return the features of a sample that the last step receives."""
        return self.classifier.transform_one(x) if is_pipeline(self.classifier) else x

    def _batch_features(self, X: Any) -> Any:
        """Return the features of a mini-batch that the last step receives if no other learns."""
        if all(isinstance(step, FIXED_STEPS) for step in steps_of(self.classifier)[:-1]):
            return self.classifier.transform_many(X) if is_pipeline(self.classifier) else X
        # Steps of other packages may not transform arrays or lists.
        return [self._row_features(x) for x in samples_of(X)]

    @property
    def _learning(self) -> list[Any]:
        """Objects that change in place with every row."""
        return all_parts(self.classifier)

    def _rows_learnt(
        self, ask: str | None, X: Any, y: Any, w: Any, others: dict[str, Any]
    ) -> tuple[list[Any], Sequence[Label], Calls]:
        """Teach a copy of the wrapper row by row; the wrapper does not change yet.

        Return the result of `ask` before each row, and the classes and the new state after all.
        """
        is_fixed = learning_step(self.classifier) is None
        if is_fixed:
            X = self._batch_features(X)
            # All rows are read first, so that errors name their places in the batch.
            batch = read_batch(X)
        else:
            batch = columns_of_rows(self.classifier, X)
        if ask is not None:
            warn_of_lacking(last_step(self.classifier), batch)
        rows = list(samples_of(X))
        n_rows = len(rows)
        labels = read_labels(y, n_rows)
        given = {name: by_row(name, value, n_rows) for name, value in others.items()}
        weights = np.broadcast_to(check_weights(w, n_rows), n_rows).tolist()
        later, parts_after = aside(self, lambda wrapper: wrapper._learning)
        last = last_step(later.classifier)
        if is_fixed:
            vars(later)["classifier"] = last
        if n_rows and hasattr(last, "_take_form"):
            # The rows come from a plain array.
            last._take_form(batch.layouts[-1])
        answers = []
        for row, each in enumerate(zip(rows, labels, weights, strict=True)):
            shares = later.predict_proba_one(each[0]) if ask == "predict_proba_one" else None
            label = later._learn_row(*each, {name: given[name][row] for name in given})
            answers.append(label if shares is None else shares)
        own = {name: value for name, value in vars(later).items() if name[0] == "_"}
        return answers, later.classes, ((vars(self).update, own), *parts_after())

    def _teach(self, x: Mapping[Any, Any], y: Any, **others: Any) -> None:
        """Teach the wrapped model a row; only the first row has not been checked before.

        Of a pipeline, the last step may refuse what other steps have learnt.
        """
        if not (is_pipeline(self.classifier) and is_blank(self.classifier)):
            self.classifier.learn_one(x, y, **others)
            return
        later, parts_after = aside(self.classifier)
        later.learn_one(x, y, **others)
        apply(parts_after())

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, **kwargs: Any) -> None:
        """Learn one sample, after it has been predicted or scored as the notes of the class say.

        Parameters
        ----------
        x : mapping
            Feature names to values.
        y : hashable
            Label of the sample.
        w : float
            Weight, at least 0.
        **kwargs
            Further arguments of the wrapped model's `learn_one`.

        Raises
        ------
        TypeError, ValueError
            If the wrapped model rejects the sample. The model is then unchanged.
        """
        with self._lock:
            read = read_whole(lambda: (read_label(y), check_weight(w)), self)
            self._learn_row(x, *read, kwargs)

    @abstractmethod
    def _learn_row(self, x: Row, y: Label, w: float, others: dict[str, Any]) -> Label | None:
        """Learn a row with a checked label and weight; return the label that was predicted."""

    def _answer_and_learn(self, ask: str, X: Any, y: Any, w: Any, others: dict[str, Any]) -> Any:
        """Learn rows; return the result of `ask` before each row, in the kind of `X`."""

        def read() -> tuple[Any, Calls]:
            answers, classes, calls = self._rows_learnt(ask, X, y, w, others)
            in_kind = labels_like if ask == "predict_one" else table_of
            return in_kind(source_of(X), answers, classes), calls

        with self._lock:
            made, calls = read_whole(read, self)
            apply(calls)
            return made

    @matched_by_position
    def predict_learn_many(self, X: Any, y: Any, w: Any = None, **kwargs: Any) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train. With
        any settings, the result equals `predict_one` and `learn_one` for each row in turn.

        Parameters
        ----------
        X, y, w, **kwargs
            Rows, labels, weights and further arguments of `learn_many`.

        Returns
        -------
        array, series or list of n_rows labels
            Predictions, in the kind of `X`. None for rows before the first learnt row.

        Raises
        ------
        TypeError, ValueError
            If the wrapped model rejects a row. The model is then unchanged.

        Notes
        -----
        The cost is that of the wrapped model's `predict_learn_many`, plus the cost that the wrapper
        adds to a row. A pipeline with steps that learn, such as river's scalers, processes the rows
        one by one.

        Examples
        --------
        >>> model = DriftAwareClassifier(LeastSquaresClassifier(ridge=1.0))
        >>> model.predict_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], ["low", "high", "high"])
        [None, 'low', 'high']
        """
        return self._answer_and_learn("predict_one", X, y, w, kwargs)

    @matched_by_position
    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, **kwargs: Any) -> Any:
        """Return the probabilities of every row before it is learnt, then learn it.

        See `predict_learn_many`. A `CalibratedClassifier` uses the scale at the time of each row.

        Returns
        -------
        table (n_rows, n_classes)
            Probabilities, in the kind of `X`. The table has a column for each class that is known
            after the batch, then for each class that was forgotten in it. A row has 0 for a class
            that was not known before the row. A dict holds the classes that were known.
        """
        return self._answer_and_learn("predict_proba_one", X, y, w, kwargs)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels of the wrapped model, in the order of its columns."""
        return tuple(last_step(self.classifier).classes)

    @property
    def count(self) -> int:
        """Number of rows that the wrapped model has learnt, regardless of their weights now."""
        return int(last_step(self.classifier).count)

    # River requires that the methods of a wrapper accept further arguments.

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Return the wrapped model's label for every row, in the kind of `X`."""
        return super().predict_many(X)

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`."""
        return super().predict_proba_many(X)

    def _scores_one(self, x: Mapping[Any, Any]) -> list[float]:
        # Before anything is learnt, values are not read and transformers are not called.
        features = x if is_blank(self.classifier) else self._row_features(x)
        scores: list[float] = last_step(self.classifier)._scores_one(features)
        return scores

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        return np.array(self._scores_one(x))

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        features = self.classifier.transform_many(X) if is_pipeline(self.classifier) else X
        source, scores = last_step(self.classifier)._batch_scores(features)
        return source, scores

    def _probabilities(self, scores: Floats) -> Floats:
        return np.asarray(last_step(self.classifier)._probabilities(scores))

    def _unseen(self, n_known: int) -> dict[Label, float]:
        return dict(last_step(self.classifier)._unseen(n_known))


Detector = base.DriftDetector | base.BinaryDriftDetector


@savable(settings_hold)
class DriftAwareClassifier(WrappedClassifier):
    """Reduce the weight of past rows of a classifier whenever a drift detector raises an alarm.

    Every row is predicted before it is learnt, and the detector is updated with the error: 1 if the
    prediction was wrong, otherwise 0. On an alarm the weights of all earlier rows are multiplied by
    `keep`, and then the row is learnt with its own weight. After alarms at rows d_1 < d_2 < ...
    row i has the weight w_i keep^k, where k is the number of alarms after the row, and the model
    equals the batch solution with these weights.

    Parameters
    ----------
    classifier : LeastSquaresClassifier, or a pipeline that ends in one
        The model that learns, with any accumulator. An alarm changes this last step only.
    detector : river.base.DriftDetector or river.base.BinaryDriftDetector, optional
        A detector of `river.drift` or `river.drift.binary`, by default a new ADWIN.
    keep : float
        Factor from 0 to 1 for the weights of earlier rows. 0 resets the model, and also forgets
        classes and features; 1 ignores alarms. See `LeastSquaresClassifier.fade`.

    Notes
    -----
    **Alarms.** Two-sided detectors also raise an alarm when the model improves, which is no reason
    to forget. If a detector has an estimate of the error (`estimation`, as ADWIN has), only alarms
    at which the estimate rose count. PageHinkley does the same with mode="up"; KSWIN cannot.
    FHDDM of river 0.26 raises an alarm only when errors become fewer, contrary to its
    documentation. The detector does not use the weights of rows. With delayed labels the error is
    that of a prediction made when the label arrives, just before the row is learnt.

    **Cost.** A row costs one more prediction and an update of the detector. `learn_many` predicts
    and learns row by row, with the features of a mini-batch computed at once if no step before the
    last one learns.

    **Errors.** If `learn_many` rejects a row, the model and the detector are unchanged. `learn_one`
    rejects bad input before the detector is updated. If the model rejects the row for another
    reason (its features do not fit in memory), or an interrupt comes between the two updates, only
    the detector has been updated. Steps of other packages may have learnt a row that a later step
    rejects.

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
            expected = "a LeastSquaresClassifier, or a pipeline that ends in one"
            remedy = "Pass LeastSquaresClassifier()."
            raise wrong_type("classifier", last_step(classifier), expected, remedy)
        if detector is not None and not isinstance(detector, Detector):
            remedy = "Pass river.drift.ADWIN()."
            raise wrong_type("detector", detector, "a drift detector", remedy)
        check_between("keep", keep, 0.0, 1.0)
        if detector is None:
            # Imported here because river.drift imports scikit-learn.
            from river.drift import ADWIN

            detector = ADWIN()  # type: ignore[no-untyped-call]
        self.classifier, self.detector = classifier, detector
        self.keep = keep
        self._n_alarms = 0
        self._lock = Lock()

    @property
    def _learning(self) -> list[Any]:
        return [*super()._learning, self.detector]

    @property
    def n_alarms(self) -> int:
        """Number of alarms after which the weights of past rows were reduced."""
        return self._n_alarms

    def _learn_row(self, x: Row, y: Label, w: float, others: dict[str, Any]) -> Label | None:
        last = last_step(self.classifier)

        def read() -> tuple[Label | None, bool | None]:
            """Return the prediction, and whether it is wrong; None if nothing is learnt."""
            # Before the first row there is no error, and transformers may not return numbers yet.
            if not last.classes:
                return None, None
            features = self._row_features(x)
            # Rows that the model rejects do not update the detector.
            predicted = last.predict_one(features)
            is_limited = getattr(last, "max_features", None) is not None
            if w > 1.0 or is_limited:
                row = read_sample(features)
                check_mass(row.values, w, lambda: [*names_of(row.layouts[0])])
            if is_limited:
                columns_for(last._state, row)
            return predicted, bool(predicted != y)

        predicted, is_wrong = read_whole(read, self)
        alarm = is_wrong is not None and alarms(self.detector, is_wrong)
        if alarm:
            last.fade(self.keep)
        self._teach(x, y, w=w, **others)
        self._n_alarms += alarm
        return predicted

    @matched_by_position
    def learn_many(self, X: Any, y: Any, w: Any = None, **kwargs: Any) -> None:
        """Learn a mini-batch, with the same result as `learn_one` in a loop, to rounding.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows.
        y : array, series or list of n_rows labels
            Labels.
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0, by default 1.
        **kwargs
            Further arguments of the wrapped model. Arrays and lists of n_rows values are passed
            row by row.

        Raises
        ------
        TypeError, ValueError
            If the wrapped model rejects a row. The model is then unchanged.
        """
        with self._lock:
            apply(read_whole(lambda: self._rows_learnt(None, X, y, w, kwargs)[-1], self))

    def empty(self) -> Self:
        """Return a wrapper of the same settings and fixed features that has learnt nothing."""
        return type(self)(emptied(self.classifier), self.detector.clone(), self.keep)


def alarms(detector: Any, is_wrong: bool) -> bool:
    """Update a detector with an error or none; return whether it alarms and errors have not fallen.

    Parameters
    ----------
    detector : river.base.DriftDetector or river.base.BinaryDriftDetector
        It is updated in place.
    is_wrong : bool
        Whether the prediction was wrong.
    """
    before = getattr(detector, "estimation", None)
    binary = isinstance(detector, base.BinaryDriftDetector)
    detector.update(is_wrong if binary else float(is_wrong))
    return bool(detector.drift_detected and (before is None or detector.estimation > before))


@savable(lambda model: is_array(model._losses, len(SOFTMAX_SCALES)) and settings_hold(model))
class CalibratedClassifier(WrappedClassifier):
    """Calibrate the probabilities of a least-squares classifier while it learns.

    Before a row is learnt, the wrapped model scores the row, and the log-loss of the scores is
    computed for each of 41 scales a from 1/4 to 256. The probabilities use the scale with the
    lowest log-loss so far: p_k = (n q_k + 1) / (n + N), q = softmax(a scores), for n rows learnt
    and N classes. The wrapper fits a single number, never changes a label, and cannot diverge.

    Parameters
    ----------
    classifier : LeastSquaresClassifier, ShallowConvClassifier, or a pipeline that ends in one
        The model to calibrate. It learns and predicts labels as it does without the wrapper.
    labels : sequence of labels, optional
        Labels of classes that are known beforehand, also if no row of them has come: see the notes.

    Notes
    -----
    **Classes that have not come.** With `labels`, `predict_proba_one` names all of them from the
    first question on, in equal shares before the first row. After n rows learnt, of K classes in
    all, a class without rows has the probability 1/2 / (n + K/2), the estimate of Krichevsky and
    Trofimov, and the classes with rows share the rest as they would without `labels`. No
    probability of two or more labels is 0 or 1. A class that `labels` do not name is learnt as
    ever, and then counts in K. Labels, scores and what is learnt stay the same. A class that a dict
    of the model's `priors` names has its prior instead, times what the others of `labels` leave.

    **Batches.** The scale depends on the order of the rows, but not on the size of the batches:
    `learn_many` and `learn_one` in a loop result in the same classifier, to rounding. In two cases
    a mini-batch is scored as a whole before any of its rows is learnt, and the scale depends a
    little on the size of the batches:

    - With ridge="paper" or 0.0, scaling="standard", accumulator="orthogonal", or forgetting in the
      Gram form, every score needs a new solution. A solution for each row would cost far more than
      learning.
    - In pipelines with steps that learn, these steps learn the whole mini-batch.

    **Cost.** Every row is scored once more: the features are computed twice, and the weights are
    solved once for each call, unless a prediction has solved them already. With the wrapper at the
    end of a pipeline (`scaler | layer | CalibratedClassifier(LeastSquaresClassifier())`) only the
    last step scores, on features that have already been computed. If the wrapper contains the
    pipeline, a row is scored with the transformers from before the row. Measured shares of the time
    are in demos/benchmarks/README.md.

    **Errors.** Bad input is rejected before anything changes. After an interrupt between the two
    steps of a call, a row may be learnt without counting for the scale. Steps of other packages may
    have learnt a row that a later step rejects.

    **Rows.** Rows with a new label do not change the scale. The weights of rows count.

    References
    ----------
    R. Krichevsky and V. Trofimov, "The performance of universal encoding", IEEE Transactions on
    Information Theory 27 (1981).

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from onlinels import LeastSquaresClassifier
    >>> for model in (LeastSquaresClassifier(), CalibratedClassifier(LeastSquaresClassifier())):
    ...     loss = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    ...     print(f"{loss.get():.2f}")
    0.31
    0.29
    """

    def __init__(self, classifier: base.Estimator, *, labels: Any = None) -> None:
        last = last_step(classifier)
        scores = isinstance(last, ScoringClassifier) and not isinstance(last, WrappedClassifier)
        # StreamClassifier learns a scale of its own, and does not merge.
        if not scores or not hasattr(last, "merge"):
            known = "a LeastSquaresClassifier or ShallowConvClassifier, or a pipeline with one last"
            remedy = "A StreamClassifier calibrates itself: pass LeastSquaresClassifier()."
            raise wrong_type("classifier", last, known, remedy)
        self.classifier = classifier
        self.labels = read_known_labels(labels)
        self._losses: Floats = np.zeros(len(SOFTMAX_SCALES))
        self._lock = Lock()

    def __setstate__(self, state: Any) -> None:
        # In files of earlier versions there are no labels.
        unpacked_state(self, state if "labels" in state else state | {"labels": None})

    @property
    def scale(self) -> float:
        """The current scale a; 4 before anything is learnt."""
        return best_scale(self._losses)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample, also of classes without rows.

        Without `labels`, the result is {} before anything is learnt.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = CalibratedClassifier(LeastSquaresClassifier(), labels=["ok", "fault"])
        >>> model.learn_many([{"rms": 0.2}] * 99, ["ok"] * 99)
        >>> model.predict_proba_one({"rms": 0.9})
        {'ok': 0.995, 'fault': 0.005}
        """
        with self._lock:
            rows = self._core_rows
            if rows is not None:
                known = rows.calibrated(x, SOFTMAX_SCALES, self._losses, SCALE_PENALTIES)
                if known is not NotImplemented:
                    if self.labels is None:
                        return known  # type: ignore[no-any-return]
                    return with_unseen_labels(known, self.labels, self.classifier.count)
            return super().predict_proba_one(x)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, **kwargs: Any) -> None:
        """Learn one sample; see `WrappedClassifier.learn_one`."""
        with self._lock:
            if not kwargs and type(self.classifier) is LeastSquaresClassifier:
                with self.classifier._lock:
                    rows, own = self._core_rows, (SOFTMAX_SCALES, self._losses)
                    # In one call, so that no interrupt comes between row and losses.
                    if rows and rows.learn(x, y, w, None, *own) is not NotImplemented:
                        return
            super().learn_one(x, y, w, **kwargs)

    def _scores_before(self, X: Any) -> Floats:
        """Return the scores of rows that are learnt next, from which columns may be absent."""
        features = self.classifier.transform_many(X) if is_pipeline(self.classifier) else X
        last = last_step(self.classifier)
        if isinstance(last, LinearModel):
            return scores_of(last, read_batch(features))
        return np.asarray(last._batch_scores(features)[1])

    def _calibrated(self, found: Answers, y: Any, w: Any, counts: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of rows by the scale before each row, and the losses after all.

        `counts` are the numbers of rows that were learnt before the scores were computed.
        """
        n_rows, n_known = len(found.known), np.maximum(found.known, 1)
        index = {label: column for column, label in enumerate(found.model.classes)}
        columns = np.array([index.get(label, -1) for label in read_labels(y, n_rows)], np.intp)
        columns = np.where(columns < found.known, columns, -1)
        scores = np.where(np.arange(len(index)) < n_known[:, None], found.scores, -np.inf)
        weights = np.broadcast_to(check_weights(w, n_rows), n_rows)
        losses, probabilities = self._losses, np.zeros(scores.shape)
        for rows in row_blocks(n_rows, len(SOFTMAX_SCALES) * len(index)):
            known = counts[rows], n_known[rows]
            added = log_losses(scores[rows], columns[rows], weights[rows], *known)
            running = np.cumsum(np.vstack((losses, added)), axis=0)
            scales, losses = best_scales(running[:-1])[:, None], running[-1]
            known = counts[rows, None], n_known[rows, None]
            probabilities[rows] = calibrate(scores[rows], scales, *known)
        return probabilities, losses

    def _rows_learnt(
        self, ask: str | None, X: Any, y: Any, w: Any, others: dict[str, Any]
    ) -> tuple[list[Any], Sequence[Label], Calls]:
        if learning_step(self.classifier) is not None:
            return super()._rows_learnt(ask, X, y, w, others)
        last = last_step(self.classifier)
        found = last._answered(self._batch_features(X), y, w, are_asked=ask is not None, **others)
        counts: Floats = float(last.count) + np.arange(float(len(found.known)))
        probabilities, losses = self._calibrated(found, y, w, counts)
        classes = found.model.classes
        answers: list[Any] = []
        if ask == "predict_one":
            answers = labels_before(found)
        elif ask is not None:
            rows = zip(probabilities.tolist(), found.known.tolist(), counts.tolist(), strict=True)
            for row, n, count in rows:
                shares, unseen = np.array(row[:n]), found.model._unseen(n)
                shares *= 1.0 - sum(unseen.values())
                before = dict(zip(classes[:n], shares.tolist(), strict=True)) | unseen
                answers.append(with_unseen_labels(before, self.labels or (), count))
        calls = (vars(last).update, vars(found.model)), (vars(self).update, {"_losses": losses})
        return answers, classes, calls

    def _learn_row(self, x: Row, y: Label, w: float, others: dict[str, Any]) -> Label | None:

        def read() -> tuple[Label | None, Floats]:
            """Return the prediction, and the losses of the scales in this row."""
            scores, classes = self._row_scores(x), self.classes
            added = np.zeros(len(SOFTMAX_SCALES))
            if y in classes:  # To the last bit as the core does.
                known = classes.index(y), float(self.count), w
                losses_of(scores, SOFTMAX_SCALES, added, *known)
            return classes[scores.argmax()] if classes else None, added

        predicted, added = read_whole(read, self)
        learn_and_note(partial(self._teach, x, y, w=w, **others), self, added)
        return predicted

    @matched_by_position
    def learn_many(self, X: Any, y: Any, w: Any = None, **kwargs: Any) -> None:
        """Score every row of a mini-batch before it is learnt, then learn it.

        If every score needs a new solution (see the notes of the class), the mini-batch is scored
        as a whole before any of its rows is learnt.

        Parameters
        ----------
        X, y, w
            Rows, labels and weights, as in the wrapped model's `learn_many`.
        **kwargs
            Further arguments of the wrapped model's `learn_many`.

        Raises
        ------
        TypeError, ValueError
            If the wrapped model rejects a row. The model is then unchanged.
        """
        with self._lock:
            last = last_step(self.classifier)
            # The linear layer of a network.
            linear = getattr(last, "classifier", last)
            if learning_step(self.classifier) is None and linear._state.settings.follows_rows:
                apply(read_whole(lambda: self._rows_learnt(None, X, y, w, kwargs)[-1], self))
                return
            learn = partial(self.classifier.learn_many, X, y, w=w, **kwargs)
            learn_and_note(learn, self, read_whole(lambda: self._losses_added(X, y, w), self))

    def _losses_added(self, X: Any, y: Any, w: Any) -> Floats:
        """Return the losses of rows that are all scored before the first of them is learnt."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if not (n_rows and self.classes):
            return np.zeros(len(SOFTMAX_SCALES))
        known = np.full(n_rows, len(self.classes))
        found = Answers(self, X, self._scores_before(X), known)
        return self._calibrated(found, y, w, np.full(n_rows, float(self.count)))[1] - self._losses

    def _probabilities(self, scores: Floats) -> Floats:
        return calibrate(scores, self.scale, float(self.count)) if scores.shape[1] else scores

    def empty(self) -> Self:
        """Return a wrapper of the same settings and fixed features that has learnt nothing."""
        return type(self)(emptied(self.classifier), labels=self.labels)

    def merge(self, other: Self) -> Self:
        """Add another wrapper in place: merge its model, and add its log-losses of every scale.

        Parameters
        ----------
        other : CalibratedClassifier
            Wrapper of a model of the same kind and settings. It does not change.

        Raises
        ------
        TypeError, ValueError
            If the models cannot be merged; see `onlinels.merge`. The wrapper is then unchanged.
        """
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            merge = partial(join, self.classifier, other.classifier)
            learn_and_note(merge, self, other._losses)
        return self

    def __add__(self, other: Self) -> Self:
        """Return a new wrapper that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added
