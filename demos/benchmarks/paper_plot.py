"""Draw Figure 2 of the paper: test error on MNIST against the number of hidden units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from paper_figure import Curve
from paper_runs import NETWORKS

BLUE, VERMILLION = "#0072B2", "#C44E00"
PAPER_UNITS = 12_000
PERCENTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)


def draw_figure(curve: Curve, rows: int, path: Path) -> None:
    """Draw every draw as a dot, their mean as a line, and the paper's best error as a star."""
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    hidden = sorted(curve)
    n_draws = len(curve[hidden[0]])
    dots = [(size, 100 * error) for size in hidden for error in curve[size]]
    axes.plot(
        *zip(*dots, strict=True), "o", color="0.35", alpha=0.35, markersize=4, mew=0, zorder=3
    )
    means = [100 * float(np.mean(curve[size])) for size in hidden]
    label = f"mean of {n_draws} draw{'s' * (n_draws > 1)} of the input weights (dots)"
    axes.plot(hidden, means, "-", color=BLUE, linewidth=1.8, label=label)
    in_paper = NETWORKS["mnist"].paper_error or np.nan
    star = f"the paper's best: {in_paper}% at {PAPER_UNITS:,}"
    axes.plot([PAPER_UNITS], [in_paper], "*", color=VERMILLION, markersize=14, label=star)
    title = f"MNIST, one pass over {rows:,} images"
    axes.set(xlabel="hidden units", ylabel="test error", title=title)
    _mark_axes(axes, hidden)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def _mark_axes(axes: Axes, hidden: list[int]) -> None:
    """Make both axes logarithmic, with round numbers in plain figures."""
    axes.set(xscale="log", yscale="log")
    # A largest size next to another would write over it.
    apart = [size for size in hidden if size == hidden[-1] or size <= hidden[-1] / 1.4]
    units = apart if apart[-1] >= PAPER_UNITS / 1.4 else [*apart, PAPER_UNITS]
    low, high = axes.get_ylim()
    percents = [percent for percent in PERCENTS if low <= percent <= high]
    for axis, places in ((axes.xaxis, units), (axes.yaxis, percents)):
        axis.set_major_locator(FixedLocator(places))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda percent, _: f"{percent:g}%"))
    axes.grid(visible=True, color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
