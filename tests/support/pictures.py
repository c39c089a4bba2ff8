"""Whether a file holds a picture, whatever its size in bytes."""

import pytest


def is_drawn(path):
    """Tell whether a PNG file has a picture that is neither tiny nor of one colour."""
    picture = pytest.importorskip("matplotlib.image").imread(path)
    return min(picture.shape[:2]) > 200 and picture.std() > 0.01
