"""Models in files: written whole or not at all, read without running anything."""

from onlinels.saving.fields import (
    ANY_MATRIX,
    ANY_VECTOR,
    ANYTHING,
    LABEL,
    PLACES,
    VECTOR,
    WHOLE,
    array,
    made_of,
    maybe,
    row,
)
from onlinels.saving.files import Savable
from onlinels.saving.kinds import savable
from onlinels.saving.settings import savable_settings, settings_hold

__all__ = [
    "ANYTHING",
    "ANY_MATRIX",
    "ANY_VECTOR",
    "LABEL",
    "PLACES",
    "VECTOR",
    "WHOLE",
    "Savable",
    "array",
    "made_of",
    "maybe",
    "row",
    "savable",
    "savable_settings",
    "settings_hold",
]
