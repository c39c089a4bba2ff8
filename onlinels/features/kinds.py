"""What is read: images of two axes, or windows of sensors of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What is read, in words for names and errors.

    Parameters
    ----------
    name : str
    pixel : str
        What one number of it is called.
    axes : tuple of str
        Its axes but for the channels.
    """

    name: str
    pixel: str
    axes: tuple[str, ...]

    @property
    def one(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name[0] in 'aeio' else 'a'} {self.name}"

    @property
    def sizes(self) -> str:
        """The shape without channels and with them, in words."""
        axes = ", ".join(self.axes)
        return f"({axes}{',' * (len(self.axes) == 1)}) or ({axes}, n_channels)"

    @property
    def batch(self) -> str:
        """The shape of a batch with channels, in words."""
        return f"(n, {', '.join(self.axes)}, n_channels)"

    @property
    def places(self) -> str:
        """The place of a pixel, in words."""
        return {1: "(time, channel)", 2: "(row, column[, channel])"}[len(self.axes)]

    @property
    def example(self) -> str:
        """A sample of this kind, in words."""
        return f'{{"{self.name}": array}}'


IMAGE = Kind("image", "pixel", ("height", "width"))
WINDOW = Kind("window", "value", ("length",))
