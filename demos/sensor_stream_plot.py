"""The pictures of sensor_stream.py: accuracy over time, of the watch and of the gas sensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray
from plot_style import BLUE, GREEN, GREY, INK, PALE, SHADE, STYLE, VERMILLION
from sensor_stream_data import SAMPLE_RATE, GasRows, Recordings
from sensor_stream_gas import EXACT, FADING, ONCE, STREAM, months
from sensor_stream_watch import WARM_UP, WINDOW, Followed, seen

Array = NDArray[Any]

WATCH_COLOURS = {"MiniRocket": BLUE, "filter responses": GREEN, "single readings": GREY}
GAS_COLOURS = {FADING: BLUE, STREAM: GREEN, EXACT: GREY, ONCE: VERMILLION}
RECENT_RECORDINGS, RECENT_ROWS = 12, 300
"""What the accuracy looks back on."""
LOWEST_ZOOMED = 0.8


def moving_accuracy(hits: Array, window: int) -> NDArray[np.float64]:
    """Return the share of hits among the last `window` ones, fewer at the start, for every row."""
    sums = np.concatenate([[0], np.cumsum(hits)])
    ends = np.arange(1, len(hits) + 1)
    starts = np.maximum(ends - window, 0)
    shares: NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return shares


def draw_watch(path: Path, recordings: Recordings, results: dict[str, Followed]) -> None:
    """Draw a recording of each activity, and below how many answers were right."""
    activities = list(dict.fromkeys(recordings.labels.tolist()))
    with rc_context(STYLE):
        figure = Figure(figsize=(10.5, 7.2), facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        heading = "Which activity, from a watch's readings one at a time"
        figure.suptitle(heading, x=0.01, ha="left", size=16, weight="bold")
        grid = figure.add_gridspec(2, 1, height_ratios=(0.8, 2))
        above, below = (figure.add_subfigure(grid[row, 0]) for row in range(2))
        panels = above.subplots(1, len(activities), sharey=True, squeeze=False)[0]
        for axes, activity in zip(panels, activities, strict=True):
            draw_recording(axes, recordings, activity)
        panels[0].set_ylabel("acceleration")
        draw_answers(below.subplots(), recordings, results)
        figure.savefig(path, dpi=150)


def first_of(recordings: Recordings, activity: str) -> int:
    return int(np.argmax(recordings.labels == activity))


def draw_recording(axes: Axes, recordings: Recordings, activity: str) -> None:
    first = first_of(recordings, activity)
    readings = recordings.readings[first]
    seconds = np.arange(len(readings)) / SAMPLE_RATE
    for column, colour in enumerate((BLUE, VERMILLION, GREEN)):
        axes.plot(seconds, readings[:, column], color=colour, linewidth=1.0)
    axes.axvspan(0, WINDOW / SAMPLE_RATE, color=SHADE, linewidth=0)
    axes.set_title(activity, loc="left", size=11)
    axes.set_xlabel("seconds (shaded: a window)" if first == 0 else "seconds")


def draw_answers(axes: Axes, recordings: Recordings, results: dict[str, Followed]) -> None:
    title = f"answers right, in the last {RECENT_RECORDINGS} recordings; each is learnt afterwards"
    axes.set_title(title, loc="left", size=11)
    ends = []
    for name, followed in results.items():
        n_answers = followed.hits.shape[1]
        recent = moving_accuracy(followed.hits.ravel(), RECENT_RECORDINGS * n_answers)
        learnt = WARM_UP + np.arange(1, recent.size + 1) / n_answers
        # The share of a few answers says nothing yet.
        shown = slice(n_answers - 1, None)
        axes.plot(learnt[shown], recent[shown], color=WATCH_COLOURS[name], linewidth=2.2)
        overall = f"{seen(name)}: {followed.hits.mean():.1%} of all"
        ends.append((recent[-1], overall, WATCH_COLOURS[name]))
    axes.set_xlim(0, len(recordings))
    axes.set_ylim(top=1.005)
    axes.axvspan(0, WARM_UP, color=SHADE, linewidth=0)
    foot = axes.get_xaxis_transform()
    axes.text(WARM_UP / 2, 0.03, "warm-up", rotation=90, color=GREY, ha="center", transform=foot)
    for activity in dict.fromkeys(recordings.labels.tolist()):
        first = first_of(recordings, activity)
        if first >= WARM_UP:
            axes.axvline(first, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
            note(axes, first, f"the first {activity}", INK)
    finish(axes, "recordings of ten seconds")
    label_ends(axes, ends, gap=0.055)


def note(axes: Axes, at: float, text: str, colour: str) -> None:
    """Write at the foot of an axis, to the right of a place."""
    foot = axes.get_xaxis_transform()
    axes.text(at, 0.03, f" {text}", color=colour, size=9.5, transform=foot)


def draw_gas(path: Path, rows: GasRows, results: dict[str, Array]) -> None:
    """Draw the moving accuracy of all models, and below once more what lies close to 100%."""
    window = min(RECENT_ROWS, max(1, len(rows) // 10))
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 7.6), facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        heading = "Sensors age: what was learnt once goes wrong"
        figure.suptitle(heading, x=0.01, ha="left", size=16, weight="bold")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1))
        above.set_ylim(0, 1.01)
        below.set_ylim(LOWEST_ZOOMED, 1.002)
        title = f"gases told right, in the last {window} rows  (above the line: months)"
        above.set_title(title, loc="left", pad=32, size=11)
        below.set_title("the same, enlarged", loc="left", size=11)
        for axes in (above, below):
            mark_batches(axes, rows, named=axes is above)
            draw_models(axes, results, window, gap=0.06 if axes is above else 0.09)
            finish(axes, "rows, in the order of time")
        above.set_xlabel("")
        end = int(rows.is_first.sum())
        above.axvline(end, color=VERMILLION, linewidth=1.2, linestyle=(0, (4, 3)))
        note(above, end, f"from here on, what is {ONCE} learns no more", VERMILLION)
        figure.savefig(path, dpi=150)


def draw_models(axes: Axes, results: dict[str, Array], window: int, gap: float) -> None:
    """Draw a line each; labels tell the accuracy over all rows shown."""
    ends = []
    for name, hits in results.items():
        recent = moving_accuracy(hits, window)
        axes.plot(np.arange(1, len(hits) + 1), recent, color=GAS_COLOURS[name], linewidth=1.9)
        if recent[-1] >= axes.get_ylim()[0]:
            ends.append((recent[-1], f"{name}: {hits.mean():.1%} in all", GAS_COLOURS[name]))
    axes.set_xlim(0, len(hits))
    label_ends(axes, ends, gap)


def mark_batches(axes: Axes, rows: GasRows, named: bool) -> None:
    numbers, starts, counts = np.unique(rows.batches, return_index=True, return_counts=True)
    for place, (number, start, count) in enumerate(zip(numbers, starts, counts, strict=True)):
        if place % 2 == 0:
            axes.axvspan(start, start + count, color=PALE, linewidth=0)
        if named:
            # Short batches have their names one line higher, in turns.
            short = count < 0.04 * len(rows)
            height = 1.075 if short and place % 2 else 1.015
            axes.text(
                start + count / 2,
                height,
                months(number),
                ha="center",
                size=9,
                color=GREY,
                transform=axes.get_xaxis_transform(),
            )


def finish(axes: Axes, name: str) -> None:
    axes.set_xlabel(name)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y")


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], gap: float) -> None:
    """Write labels to the right of lines' ends, apart by a share of the axis' height."""
    low, high = axes.get_ylim()
    ordered = sorted(ends)
    places = apart([(value - low) / (high - low) for value, _, _ in ordered], gap)
    for place, (_, text, colour) in zip(places, ordered, strict=True):
        axes.text(1.01, place, text, color=colour, va="center", transform=axes.transAxes)


def apart(places: list[float], gap: float) -> list[float]:
    """Return ascending places, moved down where they are closer than the gap."""
    moved: list[float] = []
    for place in reversed(places):
        moved.append(min(place, moved[-1] - gap) if moved else place)
    return moved[::-1]
