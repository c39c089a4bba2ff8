"""Draw accuracy against time per row: a large point for each model, a small one for each stream."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, NullLocator
from matplotlib.transforms import Bbox
from stream_runs import Measured
from stream_tables import shared_streams

COLOURS = (
    "#C44E00",
    "#E69F00",
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#CC79A7",
    "#6A3D9A",
    "#7F6A00",
    "#666666",
    "#8B1A1A",
    "#2E4A62",
    "#3B7A2A",
)

PLACES: tuple[Mapping[str, Any], ...] = (
    {"xytext": (9, 0), "ha": "left", "va": "center"},
    {"xytext": (-9, 0), "ha": "right", "va": "center"},
    {"xytext": (0, 8), "ha": "center", "va": "bottom"},
    {"xytext": (0, -8), "ha": "center", "va": "top"},
    {"xytext": (6, 5), "ha": "left", "va": "bottom"},
    {"xytext": (6, -5), "ha": "left", "va": "top"},
    {"xytext": (-6, 5), "ha": "right", "va": "bottom"},
    {"xytext": (-6, -5), "ha": "right", "va": "top"},
)
"""Where the name of a model may stand, beside its point."""

DOT = 8
"""Half the width that a large point needs, in pixels of the figure as it is laid out."""

HARDLY_ANY = 5.0
"""Microseconds a row below which a model is a level to compare with: a line, not points."""

HALO = [Stroke(linewidth=2.5, foreground="white", alpha=0.8), Normal()]


def draw(measured: Measured, models: list[str], path: Path) -> bool:
    """Draw the streams that all models have, if any; times are averaged geometrically."""
    streams = shared_streams(measured, models)
    if not streams:
        return False
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _mark_axes(axes, f"{len(streams)} streams (small) and their means (large)")
    centres = []
    for model, colour in zip(models, cycle(COLOURS)):
        found = [measured[stream][model] for stream in streams]
        times = [result["microseconds"] for result in found]
        shares = [100 * result["accuracy"] for result in found]
        time, share = geometric_mean(times), fmean(shares)
        if time < HARDLY_ANY:
            _draw_level(axes, share, f"{model} ({time:.1f} µs)")
            continue
        axes.scatter(times, shares, 14, color=colour, alpha=0.35, linewidth=0)
        axes.scatter(time, share, 110, color=colour, edgecolor="white", linewidth=1.2, zorder=3)
        centres.append((time, share, model, colour))
    # The layout moves the axes; labels are placed where they then are.
    figure.draw_without_rendering()
    _label(axes, centres)
    figure.savefig(path, dpi=150)
    return True


def _draw_level(axes: Axes, share: float, name: str) -> None:
    axes.axhline(share, color="0.4", linewidth=1, linestyle="--", zorder=1)
    axes.annotate(
        name,
        (0, share),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        color="0.4",
    )


def _mark_axes(axes: Axes, title: str) -> None:
    axes.set_title(title, size=11)
    axes.set(xscale="log", xlabel="microseconds a row, to predict and learn it")
    axes.set_ylabel("accuracy before learning the row")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}%"))
    axes.grid(visible=True, color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.08)


def _label(axes: Axes, centres: list[tuple[float, float, str, str]]) -> None:
    """Write the models' names beside their points, each where it hides least of the others."""
    taken = []
    for time, share, _, _ in centres:
        x, y = axes.transData.transform((time, share))
        taken.append(Bbox([[x - DOT, y - DOT], [x + DOT, y + DOT]]))
    for time, share, model, colour in centres:
        tried = [_annotate(axes, model, (time, share), colour, place) for place in PLACES]
        boxes = [annotation.get_window_extent() for annotation in tried]
        hidden = [_hidden(box, taken, axes) for box in boxes]
        chosen = hidden.index(min(hidden))
        for number, annotation in enumerate(tried):
            if number != chosen:
                annotation.remove()
        taken.append(boxes[chosen])


def _hidden(box: Bbox, taken: list[Bbox], axes: Axes) -> float:
    """Return the pixels of others that a name would lie on, and those outside the axes."""
    overlaps = (Bbox.intersection(box, other) for other in taken)
    area = sum(overlap.width * overlap.height for overlap in overlaps if overlap is not None)
    return float(area + max(0.0, box.x1 - axes.bbox.x1) * box.height)


def _annotate(
    axes: Axes, text: str, point: tuple[float, float], colour: str, place: Mapping[str, Any]
) -> Annotation:
    return axes.annotate(
        text,
        point,
        textcoords="offset points",
        color=colour,
        weight="bold",
        size=10,
        zorder=4,
        path_effects=HALO,
        **place,
    )
