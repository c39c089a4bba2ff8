"""One row, read, predicted and learnt: in C, or in numpy where no compiler was."""

import os
from contextlib import suppress

from onlinels.core.constants import LAYOUT
from onlinels.core.reference import (
    Experts,
    Reader,
    SingleRows,
    judge_row,
    mix_scores,
    scale,
    scale_after,
    settle,
)

__all__ = ["IN_USE", "Experts", "Reader", "SingleRows", "judge_row", "mix_scores"]
__all__ += ["scale", "scale_after", "settle"]

IN_USE = "reference"
"""What learns single rows: "compiled", or "reference" without the extension.

The environment variable ONLINELS_CORE=reference leaves the extension out.
"""

if os.environ.get("ONLINELS_CORE") != "reference":
    with suppress(ImportError, AttributeError):
        import onlinels.core._core as compiled

        # A file that another version has left beside its source would write to other memory.
        if compiled.LAYOUT == LAYOUT:
            Reader, SingleRows = compiled.Reader, compiled.SingleRows  # type: ignore[misc]
            Experts, settle = compiled.Experts, compiled.settle  # type: ignore[misc]
            judge_row, mix_scores = compiled.judge_row, compiled.mix_scores
            scale, scale_after = compiled.scale, compiled.scale_after
            IN_USE = "compiled"
