"""What a classifier of dict streams consists of."""

from __future__ import annotations

from collections import deque
from typing import Any

from onlinels.accumulators.fading import FadingRidge
from onlinels.labels import Classes
from onlinels.numerics import Lock
from onlinels.rows import Columns
from onlinels.saving import (
    COLUMNS,
    FLAG,
    LABEL,
    MATRIX,
    NOTHING,
    PLACES,
    POSITIVE,
    REAL,
    SHARE,
    TEXT,
    VECTOR,
    WHOLE,
    array,
    listed,
    made_of,
    saved,
    settings_hold,
    settings_of,
    table,
)
from onlinels.scoring import SCALES
from onlinels.stream.classifier import StreamClassifier
from onlinels.stream.experts import EXPERTS, Expert, Forecaster, Memories, Pool
from onlinels.stream.features import (
    N_DENSE,
    N_SPARSE,
    N_UNITS,
    Activations,
    RandomUnits,
    RunningScaler,
)
from onlinels.stream.rows import ReadOnce, RowReader


def _expert_fits(expert: Any) -> bool:
    size = len(expert.output_weights)
    return expert._inverse.shape == (size, size) and len(expert._ridges._entries) == size


def _memories_fit(memories: Any) -> bool:
    shapes = {expert.output_weights.shape for expert in memories.experts}
    return len(shapes) == 1


def _forecaster_fits(forecaster: Any) -> bool:
    return len(forecaster._errors) == len(EXPERTS) and len(forecaster._losses) == len(SCALES)


def _pool_fits(pool: Any) -> bool:
    shapes = [each.long.output_weights.shape for each in (pool.wide, pool.narrow)]
    return all(n_classes == pool.n_classes for _, n_classes in shapes)


def _scaler_fits(scaler: Any) -> bool:
    parts = (scaler.counts, scaler._n_far, scaler.means, scaler.variances)
    return len({len(part) for part in parts}) == 1


def _units_fit(units: Any) -> bool:
    n = len(units._weights)
    shapes = [(n, N_DENSE), (n, N_SPARSE), (n, N_SPARSE), (n, N_UNITS)]
    parts = (units._dense, units._sparse, units._ranks, units._weights)
    fits = [part.shape for part in parts] == shapes
    return fits and len(units._biases) == N_UNITS and len(units._n_seen) == N_SPARSE


def _activations_fit(activations: Any) -> bool:
    places = sorted([*activations._features, *activations._labels])
    same = activations._feature_places.tolist() == activations._features
    same = same and activations.n_wide == N_UNITS + 1 + len(places)
    return same and places == list(range(N_UNITS + 1, activations.n_wide))


def _placing_fits(reader: Any) -> bool:
    n_columns = len(reader._columns)
    return all(((each >= -1) & (each < n_columns)).all() for each in reader._places.values())


def _stream_fits(model: Any) -> bool:
    n_features, n_classes = len(model._reader.names), len(model._classes)
    pool, activations = model._pool, model._activations
    sizes = {len(model._scaler.means), len(model._units._weights), len(activations._features)}
    fits = sizes == {n_features} and pool.n_classes == n_classes
    fits = fits and _rows(pool.wide) in (0, activations.n_wide)
    fits = fits and _rows(pool.narrow) in (0, Activations.n_narrow(activations.n_wide))
    fits = fits and model._recent.maxlen == model.label_delay + 1
    fits = fits and all(type(each) is int and 0 <= each < n_classes for each in model._recent)
    return fits and settings_hold(model)


def _rows(memories: Any) -> int:
    return len(memories.long.output_weights)


saved(
    Expert,
    {
        "forgetting_factor": POSITIVE,
        "output_weights": COLUMNS,
        "_ridges": made_of(FadingRidge),
        "_inverse": COLUMNS,
        "_scale": POSITIVE,
    },
    _expert_fits,
)
saved(
    Memories,
    {
        "long": made_of(Expert),
        "short": made_of(Expert),
        "n_takeovers": WHOLE,
        "_lead": REAL,
        "_squares": SHARE,
    },
    _memories_fit,
)
saved(
    Forecaster,
    {"_errors": listed(SHARE), "_losses": VECTOR, "_scale": POSITIVE, "_count": WHOLE},
    _forecaster_fits,
)
saved(
    Pool,
    {
        "wide": made_of(Memories),
        "narrow": made_of(Memories),
        "forecaster": made_of(Forecaster),
        "n_classes": WHOLE,
    },
    _pool_fits,
)
saved(
    RunningScaler,
    {
        "_count": SHARE,
        "_n_rows": WHOLE,
        "counts": VECTOR,
        "_n_far": PLACES,
        "_any_far": FLAG,
        "means": VECTOR,
        "variances": VECTOR,
    },
    _scaler_fits,
)
saved(
    RandomUnits,
    {
        "_seed": WHOLE,
        "_n_seen": PLACES,
        "_biases": VECTOR,
        "_dense": MATRIX,
        "_sparse": MATRIX,
        "_ranks": MATRIX,
        "_weights": MATRIX,
    },
    _units_fit,
)
saved(
    Activations,
    {
        "_features": listed(WHOLE),
        "_labels": listed(WHOLE),
        "_feature_places": PLACES,
        "n_wide": WHOLE,
    },
    _activations_fit,
)
saved(ReadOnce, {"_last": NOTHING})
saved(
    RowReader,
    {
        "_columns": made_of(Columns),
        "_texts": table(LABEL, listed(TEXT)),
        "_places": table(LABEL, array("i8", 1)),
        "_last": NOTHING,
        "_complete": NOTHING,
    },
    _placing_fits,
)
saved(
    StreamClassifier,
    {
        **settings_of(StreamClassifier),
        "_lock": made_of(Lock),
        "_samples": made_of(ReadOnce),
        "_reader": made_of(RowReader),
        "_scaler": made_of(RunningScaler),
        "_units": made_of(RandomUnits),
        "_activations": made_of(Activations),
        "_pool": made_of(Pool),
        "_classes": made_of(Classes),
        "_recent": made_of(deque),
        "_count": WHOLE,
        "_seen": NOTHING,
    },
    _stream_fits,
)
