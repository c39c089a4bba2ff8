"""Colours and lines of the demos' pictures."""

from __future__ import annotations

from typing import Any

# Of Okabe and Ito, which colour-blind readers tell apart, and greys.
BLUE, VERMILLION, GREEN = "#0072B2", "#C44E00", "#007A5A"
INK, GREY, LINE, SHADE, PALE = "#222222", "#6B6B6B", "#CCCCCC", "#E4E4E4", "#F2F2F2"
STYLE: dict[Any, Any] = {
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": SHADE,
}
