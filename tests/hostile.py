"""Strategies of hostile files: genuine ones changed, and such as were made to do harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hostile_readers import hostile
from hypothesis import strategies as st


@dataclass
class Drawn:
    """What decides how a file is changed, drawn so that failing files get simpler."""

    draw: Any

    def integers(self, low, high):
        return self.draw(st.integers(low, high - 1))

    def bytes(self, length):
        return self.draw(st.binary(min_size=length, max_size=length))


@st.composite
def hostile_files(draw, reader):
    return hostile(reader, Drawn(draw))
