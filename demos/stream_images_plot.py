"""The picture of stream_images.py: accuracy, confusion matrix, filters and misread images."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray
from plot_style import BLUE, GREY, INK, PALE, SHADE, STYLE, VERMILLION

Array = NDArray[Any]

LEFT = 0.005
FILTERS = {
    "bars": range(0, 20, 2),
    "corners": range(20, 40, 3),
    "squares": range(40, 43),
}
"""Which of the bank's 20 bars, 20 corners and 3 squares are shown."""
FILTER_COLUMNS = 10


@dataclass
class Curve:
    """The course of the accuracy: in the recent window and in all, after every mini-batch."""

    window: int
    new_class: int
    new_class_at: int
    warm_up_rows: int = 0
    rows: list[int] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    overall: list[float] = field(default_factory=list)

    def add(self, rows: int, recent: float, overall: float) -> None:
        """Note the accuracy after so many rows."""
        self.rows.append(rows)
        self.recent.append(recent)
        self.overall.append(overall)


@dataclass(frozen=True)
class Tested:
    """Test images, their labels and what the model reads them as."""

    images: Array
    labels: Array
    predicted: Array

    @property
    def error(self) -> float:
        """Share of misread images."""
        return float(np.mean(self.labels != self.predicted))


def draw(path: Path, subtitle: str, curve: Curve, tested: Tested, bank: Array) -> None:
    """Draw all four parts and write them as a PNG file."""
    with rc_context(STYLE):
        figure = Figure(figsize=(13, 9), facecolor="white")
        FigureCanvasAgg(figure)
        figure.set_layout_engine("constrained", rect=(0.008, 0.01, 0.984, 0.98))
        grid = figure.add_gridspec(3, 2, width_ratios=(1.35, 1), height_ratios=(0.27, 2, 0.9))
        heading = figure.add_subfigure(grid[0, :])
        heading.text(
            LEFT / 2, 0.6, "A new class halfway through the stream", size=19, weight="bold"
        )
        heading.text(LEFT / 2, 0.15, subtitle, size=11.5, color=GREY)
        draw_accuracy(figure.add_subfigure(grid[1, 0]), curve)
        draw_confusion(figure.add_subfigure(grid[1, 1]), tested)
        draw_filters(figure.add_subfigure(grid[2, 0]), bank)
        draw_misread(figure.add_subfigure(grid[2, 1]), tested)
        figure.savefig(path, dpi=150)


def add_title(part: SubFigure, text: str) -> None:
    part.suptitle(text, size=12.5, weight="bold", x=LEFT, ha="left")


def draw_accuracy(part: SubFigure, curve: Curve) -> None:
    add_title(part, "Accuracy on rows not yet learnt")
    axes = part.subplots()
    settled = np.array(curve.rows) > curve.warm_up_rows
    shown = np.concatenate([np.array(curve.recent)[settled], np.array(curve.overall)[settled]])
    axes.set_ylim(min(shown, default=0.0) - 0.05, 1.005)
    axes.set_xlim(0, curve.rows[-1])
    axes.axvspan(0, curve.warm_up_rows, color=SHADE, linewidth=0, label="warm-up: raw pixels")
    axes.axvline(curve.new_class_at, color=VERMILLION, linewidth=1.5, linestyle=(0, (4, 3)))
    axes.plot(curve.rows, curve.overall, color=GREY, linewidth=1.6, label="all rows so far")
    axes.plot(
        curve.rows, curve.recent, color=BLUE, linewidth=2.4, label=f"last {curve.window:,} rows"
    )
    foot = axes.get_xaxis_transform()
    arrival = f"  from here on, class {curve.new_class} comes too"
    axes.text(curve.new_class_at, 0.03, arrival, color=VERMILLION, transform=foot)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.08), frameon=False, reverse=True)
    axes.set_xlabel("rows learnt")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y")


def draw_confusion(part: SubFigure, tested: Tested) -> None:
    add_title(part, f"What the {len(tested.labels):,} test images are read as")
    names, cells = np.unique([tested.labels, tested.predicted], return_inverse=True)
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, tuple(cells.reshape(2, -1)), 1)
    axes = part.subplots()
    # Logarithmic, so that a single misread image is not lost beside the diagonal.
    scale = LogNorm(vmin=0.4, vmax=1.5 * counts.max())
    axes.set_facecolor(PALE)
    axes.imshow(np.ma.masked_equal(counts, 0), cmap="Blues", norm=scale)
    for row, column in np.argwhere(counts):
        number = counts[row, column]
        colour = "white" if scale(number) > 0.6 else INK
        axes.text(column, row, f"{number}", ha="center", va="center", color=colour, size=9)
    for ticks in (axes.set_xticks, axes.set_yticks):
        ticks(np.arange(len(names)), [str(name) for name in names])
        ticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")


def draw_filters(part: SubFigure, bank: Array) -> None:
    chosen = [(name, number) for name, numbers in FILTERS.items() for number in numbers]
    add_title(part, f"{len(chosen)} of the {len(bank)} filters, which are fixed")
    tiles = part.subplots(len(chosen) // FILTER_COLUMNS, FILTER_COLUMNS).ravel()
    captioned = set()
    for axes, (name, number) in zip(tiles, chosen, strict=True):
        image = bank[number, :, :, 0]
        limit = np.abs(image).max()
        draw_tile(axes, image, cmap="RdBu", vmin=-limit, vmax=limit)
        if name not in captioned:
            axes.set_title(name, loc="left", size=9.5, color=GREY)
            captioned.add(name)


def draw_misread(part: SubFigure, tested: Tested) -> None:
    misread = np.flatnonzero(tested.labels != tested.predicted)
    n_rows, n_columns = (1 if len(misread) <= 6 else 2), (4 if len(misread) <= 4 else 6)
    shown = misread[: n_rows * n_columns]
    share = "All" if len(shown) == len(misread) else f"{len(shown)} of"
    add_title(part, f"{share} {len(misread):,} misread test images: true → predicted")
    tiles = part.subplots(n_rows, n_columns).ravel()
    for axes in tiles[len(shown) :]:
        axes.set_axis_off()
    for axes, number in zip(tiles, shown, strict=False):
        draw_tile(axes, np.squeeze(tested.images[number]), cmap="gray_r")
        axes.set_title(f"{tested.labels[number]} → {tested.predicted[number]}", size=10.5)


def draw_tile(axes: Axes, image: Array, **style: Any) -> None:
    axes.imshow(image, **style)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
