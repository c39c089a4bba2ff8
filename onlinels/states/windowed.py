"""What a classifier of windows of readings consists of."""

from __future__ import annotations

from typing import Any

from onlinels.numerics import Lock
from onlinels.rows import Columns
from onlinels.saving import (
    FINITE,
    FLAG,
    LABEL,
    MATRIX,
    REAL,
    TEXT,
    VECTOR,
    WHOLE,
    Field,
    constant,
    made_of,
    maybe,
    saved,
    settings_hold,
    settings_of,
)
from onlinels.windowed import (
    UNLABELLED,
    Even,
    Follower,
    Position,
    ReadingState,
    Regular,
    Resampled,
    Sliding,
    WindowedClassifier,
    make_spacing,
)


def _sliding_fits(sliding: Any) -> bool:
    return len(sliding.values) == len(sliding.labels)


def _state_fits(state: Any) -> bool:
    n_channels = len(state.columns)
    fits = state.sliding is None or state.sliding.values.shape[1] == n_channels
    return fits and (state.position is None or len(state.position.values) == n_channels)


def _reached_fits(position: Any, spacing: Any) -> bool:
    """Tell whether samples were drawn up to the last reading: else the next draws those between."""
    if position is None or not isinstance(spacing, Resampled):
        return True
    ahead: float = (position.time - position.start) * spacing.rate - position.reached
    return abs(ahead) <= 2.0


def _windowed_fits(model: Any) -> bool:
    sliding, follower = model._state.sliding, model._follower
    if not _reached_fits(model._state.position, follower.spacing):
        return False
    fits = sliding is None or len(sliding.values) <= model.window
    fits = fits and (follower.window, follower.hop) == (model.window, model.hop)
    fits = fits and follower.label_rule == model.label_rule and settings_hold(model)
    times = model.timestamp, model.sample_rate, model.largest_gap
    return fits and follower.spacing == make_spacing(*times)


LABELS = Field("a tuple of labels", lambda value: type(value) is tuple)

saved(Even, {})
saved(Regular, {"name": LABEL})
saved(Resampled, {"name": LABEL, "rate": REAL, "largest_gap": REAL})
saved(
    Position,
    {
        "time": FINITE,
        "values": VECTOR,
        "start": FINITE,
        "reached": WHOLE,
        "spacing": maybe(REAL),
    },
)

saved(
    Sliding,
    {"values": MATRIX, "labels": LABELS, "since": maybe(WHOLE)},
    _sliding_fits,
)
constant("unlabelled", UNLABELLED)
saved(
    ReadingState,
    {
        "columns": made_of(Columns),
        "position": maybe(made_of(Position)),
        "sliding": maybe(made_of(Sliding)),
        "dates": maybe(FLAG),
    },
    _state_fits,
)
saved(
    Follower,
    {
        "window": WHOLE,
        "hop": WHOLE,
        "spacing": made_of(Even, Regular, Resampled),
        "label_rule": TEXT,
    },
)
saved(
    WindowedClassifier,
    {
        **settings_of(WindowedClassifier),
        "label_rule": TEXT,
        "_follower": made_of(Follower),
        "_state": made_of(ReadingState),
        "_n_windows": WHOLE,
        "_lock": made_of(Lock),
    },
    _windowed_fits,
)
