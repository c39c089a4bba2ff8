"""What the scripts of the guide's pictures share: where a picture goes, and the demos' style."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from show import BLUE as BLUE
from show import DASHED as DASHED
from show import GREEN as GREEN
from show import GREY as GREY
from show import VERMILLION as VERMILLION
from show import figure as figure
from show import label_ends as label_ends
from show import make_parser
from show import mark_shares as mark_shares

PURPLE = "#8A5A9E"
IMAGES = Path(__file__).resolve().parents[1] / "images"


def output_of(description: str | None, name: str) -> Path:
    """Read --output from the command line; without it the picture of the page is made again."""
    path: Path = make_parser(description, str(IMAGES / f"{name}.png")).parse_args().output
    return path
