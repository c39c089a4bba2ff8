"""Draw the errors of long runs against rows: a panel for every accumulator and kind of stream."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

sys.path.append(str(Path(__file__).resolve().parents[1]))
from plot_style import BLUE, GREEN, GREY, STYLE, VERMILLION

COLOURS = {
    "nothing": BLUE,
    "factor 0.999": VERMILLION,
    "factor 0.99": GREEN,
    "half-life": "#8A5FBF",
}
FLOOR = 1e-17
"""Errors below are drawn here."""


def draw(results: Mapping[Any, Any], path: Path) -> None:
    """Draw the error of the weights as lines, that of the equations as thin ones."""
    names = list(dict.fromkeys(case.name for case in results))
    accumulators = list(dict.fromkeys(case.accumulator for case in results))
    with rc_context(STYLE):
        figure = Figure(figsize=(19, 9), facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(
            "Relative errors of the weights (thick) and of the equations (thin)",
            x=0.01,
            ha="left",
            size=16,
            weight="bold",
        )
        shape = len(accumulators), len(names)
        grid = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False)
        for row, accumulator in zip(grid, accumulators, strict=True):
            for axes, name in zip(row, names, strict=True):
                _draw_panel(axes, results, accumulator, name)
            row[0].set_ylabel(accumulator)
        for axes, name in zip(grid[0], names, strict=True):
            axes.set_title(name.replace(", ", ",\n"), loc="left", size=11)
        for axes in grid[-1]:
            axes.set_xlabel("rows learnt")
        figure.legend(handles=_handles(), loc="outside lower left", ncols=7, frameon=False)
        figure.savefig(path, dpi=110)


def _draw_panel(axes: Axes, results: Mapping[Any, Any], accumulator: str, name: str) -> None:
    axes.set(xscale="log", yscale="log", ylim=(FLOOR, 1.0))
    axes.grid(visible=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rows, _: f"{rows:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda error, _: f"{error:g}"))
    for case, result in results.items():
        if (case.accumulator, case.name) != (accumulator, name):
            continue
        colour = COLOURS[case.forgets]
        line = "--" if case.singly else "-" if case.fit_intercept else ":"
        for errors, width in ((result.errors, 1.6), (result.residuals, 0.6)):
            axes.plot(
                result.moments, np.maximum(errors, FLOOR), line, color=colour, linewidth=width
            )


def _handles() -> list[Line2D]:
    def line(label: str, colour: str = GREY, style: Any = "-") -> Line2D:
        return Line2D([], [], color=colour, linestyle=style, label=label)

    forgetting = [line(f"forgets: {name}", colour) for name, colour in COLOURS.items()]
    return [
        *forgetting,
        line("in batches, intercept"),
        line("in batches, no intercept", style=":"),
        line("one by one, intercept", style="--"),
    ]
