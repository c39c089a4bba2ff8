"""What the scripts of the guide's pictures share: where a picture goes, and the demos' style."""

from __future__ import annotations

import sys
from math import log10
from pathlib import Path

from matplotlib.axes import Axes

sys.path.append(str(Path(__file__).resolve().parents[2]))

from show import BLUE as BLUE
from show import GREEN as GREEN
from show import GREY as GREY
from show import VERMILLION as VERMILLION
from show import figure as figure
from show import label_ends as label_ends
from show import make_parser
from show import mark_shares as mark_shares
from show import moving_accuracy as moving_accuracy

PURPLE = "#8A5A9E"
IMAGES = Path(__file__).resolve().parents[1] / "images"


def output_of(description: str | None, name: str) -> Path:
    """Read --output from the command line; without it the picture of the page is made again."""
    path: Path = make_parser(description, str(IMAGES / f"{name}.png")).parse_args().output
    return path


def label_log_ends(axes: Axes, ends: list[tuple[float, str, str]], gap: float) -> None:
    """Write labels (height, text, colour) to the right of axes whose heights are logarithmic."""
    twin = axes.twinx()
    twin.set_ylim(*(log10(height) for height in axes.get_ylim()))
    twin.axis("off")
    label_ends(twin, [(log10(height), text, colour) for height, text, colour in ends], gap)
