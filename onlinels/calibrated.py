"""CalibratedClassifier: probabilities fitted on the predictions made before learning."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Self, cast

import numpy as np
from river import base

from onlinels.ahead import Ahead, learn_as_one
from onlinels.checks import Floats, check_weights
from onlinels.commit import Commit
from onlinels.labels import Label, read_label, read_labels
from onlinels.merging import check_mergeable
from onlinels.numerics import Lock, all_held
from onlinels.rows import table_like
from onlinels.scoring import SCALES, ScoringClassifier, best_scale, calibrate, log_losses
from onlinels.wrapping import WrappedClassifier, emptied, is_pipeline, last_step, planned


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
    the last step scores, on features that are there already; wrap the pipeline and also its
    transformers are as they were before the row. Measured shares of the time are in
    demos/benchmarks/README.md.

    Whatever is raised while it learns, by an interrupt too, wrapper and wrapped model are both as
    before or both as after. Steps of other packages inside are not made for that: they learn in a
    copy, and take over what it became once the last step has learnt; a scaler of river's with 20
    features costs 0.1 ms a row so. In front of the wrapper none is copied, or brought back.
    Merging takes place in a copy of the wrapped model.

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
        if not isinstance(classifier, ScoringClassifier):
            raise TypeError(
                f"classifier is of type {type(classifier).__name__}, expected a "
                "LeastSquaresClassifier, a ShallowConvClassifier, or a pipeline that ends in one. "
                "Wrap one of these."
            )
        if "w" not in signature(type(last_step(classifier)).learn_one).parameters:
            raise TypeError(
                f"classifier is of type {type(last_step(classifier)).__name__}, whose rows have no "
                "weights, expected one whose have. Use it as it is: its probabilities are fitted "
                "to its own errors."
            )
        self.classifier = planned(classifier)
        self._losses: Floats = np.zeros(len(SCALES))
        self._lock = Lock()

    @property
    def _last_classifier(self) -> ScoringClassifier:
        return cast(ScoringClassifier, last_step(self.classifier))

    @property
    def scale(self) -> float:
        """The scale a in force; 4 before anything is known."""
        return best_scale(self._losses)

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        model: Any = self.classifier
        return self._last_classifier._row_scores(
            model.transform_one(x) if is_pipeline(model) else x
        )

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        model: Any = self.classifier
        return self._last_classifier._batch_scores(
            model.transform_many(X) if is_pipeline(model) else X
        )

    def _losses_with(self, scores: Floats, labels: Sequence[Label], w: float | Floats) -> Floats:
        """Return the losses of every scale, those of these rows included."""
        if not scores.shape[1]:
            return self._losses
        index = {label: column for column, label in enumerate(self.classes)}
        columns = np.array([index.get(label, -1) for label in labels], dtype=np.intp)
        weights = np.broadcast_to(w, len(labels))
        return self._losses + log_losses(scores, columns, weights, self.count)

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
            losses = self._losses_with(self._row_scores(x), [read_label(y)], check_weights(w, 1))
            learn_as_one(
                self.classifier,
                lambda model: model.learn_one(x, y, w=w, **kwargs),
                lambda commit: commit.set(self, _losses=losses),
            )

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
            _, scores = self._batch_scores(X)
            labels, weights = read_labels(y, len(scores)), check_weights(w, len(scores))
            losses = self._losses_with(scores, labels, weights)
            learn_as_one(
                self.classifier,
                lambda model: model.learn_many(X, y, w=w, **kwargs),
                lambda commit: commit.set(self, _losses=losses),
            )

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample; {} before anything is learnt."""
        with self._lock:
            scores = self._row_scores(x)
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
            If the models cannot merge; nothing has changed then. River's pipelines cannot.
        """
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            self._merge(other)
        return self

    def _merge(self, other: Self) -> None:
        if is_pipeline(self.classifier):
            raise TypeError(
                "classifier is a Pipeline, expected a model that merges. End the pipeline in "
                "CalibratedClassifier(...) and merge these last steps."
            )
        ahead, commit = Ahead(self.classifier), Commit()
        ahead.copy.merge(other.classifier)
        ahead.gather(commit)
        commit.set(self, _losses=self._losses + other._losses)
        commit.make()

    def __add__(self, other: Self) -> Self:
        """Return a new wrapper that has learnt the rows of both."""
        return copy.copy(self).merge(other)
