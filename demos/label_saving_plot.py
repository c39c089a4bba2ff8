"""The picture of label_saving.py: accuracy against labels asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter
from numpy.typing import NDArray
from plot_style import BLUE, GREY, INK, STYLE, VERMILLION

Array = NDArray[Any]

COLOURS = GREY, BLUE, VERMILLION
MARKERS = "s", "o", "D"


@dataclass(frozen=True)
class Results:
    """What every strategy came to, by budget (rows) and seed (columns).

    Parameters
    ----------
    shares : tuple of float
        The budgets.
    asked, right : dict of ndarray (n_shares, n_seeds)
        Share of labels asked, and share of held-out rows read right, by strategy.
    of_all : ndarray (n_seeds,)
        Share of held-out rows read right once all labels are learnt.
    n_rows, n_test : int
        Rows of a stream, and rows held out.
    """

    shares: tuple[float, ...]
    asked: dict[str, Array]
    right: dict[str, Array]
    of_all: Array
    n_rows: int
    n_test: int

    def cell(self, name: str, row: int) -> str:
        """Return labels asked, and mean and standard deviation of the accuracy."""
        right = self.right[name][row]
        labels = self.n_rows * self.asked[name][row].mean()
        return f"{labels:.0f}: {right.mean():.1%} ± {100 * right.std():.1f}"


def draw(path: Path, results: Results) -> None:
    """Draw means and standard deviations over seeds, and write them as a PNG file."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8.5, 5.6), facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title("Ask only when unsure", loc="left", size=15, weight="bold", pad=12)
        all_labels = float(results.of_all.mean())
        axes.axhline(all_labels, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        note = f"all {results.n_rows:,} labels: {all_labels:.1%}"
        foot = axes.get_yaxis_transform()
        axes.text(0.01, all_labels, note, transform=foot, va="bottom", size=9.5)
        for name, colour, marker in zip(results.asked, COLOURS, MARKERS, strict=True):
            draw_strategy(axes, results, name, colour, marker)
        finish(axes, results)
        figure.savefig(path, dpi=150)


def draw_strategy(axes: Axes, results: Results, name: str, colour: str, marker: str) -> None:
    asked, right = results.asked[name].mean(axis=1), results.right[name]
    mean, spread = right.mean(axis=1), right.std(axis=1)
    axes.fill_between(asked, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axes.plot(asked, mean, color=colour, marker=marker, linewidth=2.2, markersize=6, label=name)


def finish(axes: Axes, results: Results) -> None:
    axes.set_xscale("log")
    ticks = np.array(results.shares)
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.set_xlabel(f"labels asked, of {results.n_rows:,} in the stream")
    axes.set_ylabel(f"right of {results.n_test} held-out digits")
    streams = f"mean and standard deviation of {len(results.of_all)} streams"
    axes.set_title(streams, loc="right", size=9.5, color=COLOURS[0], pad=12)
    axes.legend(loc="lower right", frameon=False, reverse=True)
