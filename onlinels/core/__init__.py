"""One row, read, predicted and learnt: in C, or in numpy where no compiler was."""

import logging
import os
from contextlib import suppress
from functools import cache
from typing import Any

from onlinels.core.constants import LAYOUT
from onlinels.core.reference import losses_of, settle

__all__ = ["IN_USE", "Reader", "SingleRows", "StreamRows", "losses_of", "note_core"]
__all__ += ["settle"]

Reader: Any = None
"""What reads dicts; None without the extension, where other code does."""

SingleRows: Any = None
"""What predicts and learns single rows; None without the extension: a row is a batch of one."""

StreamRows: Any = None
"""What predicts and learns rows of stream models; None without the extension."""

IN_USE = "reference"
"""What learns single rows: "compiled", or "reference" without the extension.

The environment variable ONLINELS_CORE=reference leaves the extension out.
"""

if os.environ.get("ONLINELS_CORE") != "reference":
    with suppress(ImportError, AttributeError):
        import onlinels.core._core as compiled

        # A file that another version has left beside its source would write to other memory.
        if compiled.LAYOUT == LAYOUT:
            Reader, SingleRows = compiled.Reader, compiled.SingleRows
            StreamRows = compiled.StreamRows
            losses_of, settle = compiled.losses_of, compiled.settle
            IN_USE = "compiled"


@cache
def note_core() -> None:
    """Log once that there is no compiled core, unless the environment asks for none.

    This is no warning: where warnings are errors, no model could be made.
    """
    if IN_USE != "compiled" and os.environ.get("ONLINELS_CORE") != "reference":
        logging.getLogger("onlinels").warning(
            "onlinels has no compiled core here: numpy predicts and learns single rows, and takes "
            "10 to 250 times as long. Install a C compiler (apt install gcc python3-dev), then "
            "onlinels again. To stay with numpy, set the environment variable "
            "ONLINELS_CORE=reference."
        )
