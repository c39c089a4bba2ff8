"""What a classifier of dict streams answers: its experts' forecast, looked at once for a sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from onlinels.arrays import Floats
from onlinels.labels import Classes, Label
from onlinels.names import Name
from onlinels.outputs import table_like
from onlinels.scoring import ScoringClassifier
from onlinels.stream.activations import Activations
from onlinels.stream.placing import RowReader
from onlinels.stream.pool import EXPERTS, Outlook, Pool
from onlinels.stream.samples import ReadOnce, Sample, read_stream_batch
from onlinels.stream.scaling import RunningScaler
from onlinels.stream.units import RandomUnits
from onlinels.threads import CopyableLock

Look = tuple[Sample, int | None, Floats, Outlook]


class StreamForecasts(ScoringClassifier):
    """The answering half of `StreamClassifier`: a row is placed, scaled, spread and scored."""

    _alone: CopyableLock
    _samples: ReadOnce
    _reader: RowReader
    _scaler: RunningScaler
    _units: RandomUnits
    _activations: Activations
    _pool: Pool
    _classes: Classes
    _recent: deque[int]
    _count: int
    _seen: Look | None

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._classes.labels

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        return self._reader.names

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the four experts in the forecast, by what they see and how they remember."""
        return dict(zip(EXPERTS, self._pool.forecaster.shares.tolist(), strict=True))

    def _look(self, sample: Sample, last: int | None) -> Look:
        """Return a sample, the last label, the sample as a row, and what the experts think of it.

        A sample that is predicted and then learnt is looked at once.
        """
        seen = self._seen
        if seen is None or seen[0] is not sample or seen[1] != last:
            row = self._reader.row(sample)
            features = self._scaler.transform(row)
            activations = self._activations.of(self._units(features), features, last)
            self._seen = seen = sample, last, row, self._pool.look(activations)
        return seen

    def _mixture(self, sample: Sample) -> Floats:
        """Return the forecast (n_classes,) for a sample."""
        if not self._recent:
            return np.zeros(0)
        return self._look(sample, self._recent[-1])[3].mixture

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        return self._mixture(self._samples.read(x))[None]

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of highest score for one sample; None before anything is learnt."""
        with self._alone.lock:
            mixture = self._mixture(self._samples.read(x))
            return self._classes.labels[mixture.argmax()] if self._count else None

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        source, samples = read_stream_batch(X)
        return source, np.array([self._mixture(sample) for sample in samples])

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample; {} before anything is learnt."""
        with self._alone.lock:
            (probabilities,) = self._pool.forecaster.probabilities(self._row_scores(x))
            return dict(zip(self.classes, probabilities.tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`."""
        with self._alone.lock:
            source, scores = self._batch_scores(X)
            return table_like(source, self.classes, self._pool.forecaster.probabilities(scores))
