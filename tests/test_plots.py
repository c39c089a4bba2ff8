"""Pictures of filters."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.image import imread

from onlinels import ConvolutionalFeatures
from onlinels.images import Patches, plot_filters

mpl.use("Agg")


def mosaic(filters, n_columns=None):
    axes = Figure().add_subplot()
    plot_filters(filters, axes, n_columns=n_columns)
    return np.asarray(axes.images[0].get_array())


@given(
    n_filters=st.integers(1, 12),
    size=st.integers(1, 4),
    n_channels=st.integers(1, 5),
    n_columns=st.one_of(st.none(), st.integers(1, 15)),
)
def test_every_filter_has_a_tile_scaled_to_its_own_range(n_filters, size, n_channels, n_columns):
    random = np.random.default_rng(0)
    filters = random.normal(size=(n_filters, size, size, n_channels))
    filters[0] = 3.0
    picture = mosaic(filters, n_columns)
    assert picture.min() >= 0.0
    assert picture.max() == 1.0
    in_colour = n_channels in (1, 3)
    per_row = n_columns or int(np.ceil(np.sqrt(n_filters)))
    n_tiles = 1 if in_colour else n_channels
    for k, h in enumerate(filters):
        row, column = divmod(k, min(per_row, n_filters))
        expected = (h - h.min()) / (h.max() - h.min()) if k and h.size > 1 else h * 0 + 0.5
        for tile in range(n_tiles):
            top = 1 + row * (size + 1)
            left = 1 + (column * n_tiles + tile) * (size + 1)
            drawn = picture[top : top + size, left : left + size]
            own = expected if in_colour else expected[..., tile : tile + 1]
            np.testing.assert_allclose(drawn, np.broadcast_to(own, drawn.shape))
    assert (picture[0] == 1.0).all()
    assert (picture[:, 0] == 1.0).all()


def test_a_picture_is_saved(tmp_path):
    open_figures = pyplot.get_fignums()
    filters = np.random.default_rng(0).normal(size=(5, 6, 6, 3))
    axes = plot_filters(filters, tmp_path / "bank.png", n_columns=5)
    picture = imread(tmp_path / "bank.png")[..., :3]
    # One pixel of the mosaic, 8 by 36, is a square of pixels of the picture.
    sizes = zip((8, 36), picture.shape[:2], strict=True)
    down, across = (((np.arange(n) + 0.5) * size / n).astype(int) for n, size in sizes)
    expected = axes.images[0].get_array()
    np.testing.assert_allclose(picture[np.ix_(down, across)], expected, atol=1 / 254)
    plot_filters("hand-designed", str(tmp_path / "hand.PDF"))
    assert (tmp_path / "hand.PDF").stat().st_size
    assert pyplot.get_fignums() == open_figures


def test_axes_of_ones_own_and_of_pyplot():
    mine = Figure().add_subplot()
    assert plot_filters(np.eye(3)[None], mine) is mine
    np.testing.assert_allclose(mine.images[0].get_array()[1:4, 1:4, 0], np.eye(3))
    shown = plot_filters(ConvolutionalFeatures().bank)
    assert shown.figure.number in pyplot.get_fignums()
    pyplot.close(shown.figure)


def test_what_cannot_be_drawn_or_saved(tmp_path):
    for filters, place, error, message in [
        (("hand-designed", Patches()), None, ValueError, r"from examples.*Pass the `bank` of"),
        ("hand-designed", 5, TypeError, "path_or_axes=5 .*a path for"),
        ("hand-designed", pyplot, TypeError, "path_or_axes=<module.*a path for.*gca"),
        ("hand-designed", tmp_path / "missing" / "bank.png", FileNotFoundError, "missing"),
        ("hand-designed", "bank.xyz", ValueError, r"xyz.* png"),
    ]:
        with pytest.raises(error, match=message):
            plot_filters(filters, place)
    with pytest.raises(ValueError, match="n_columns=0"):
        plot_filters("hand-designed", n_columns=0)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'onlinels\[demos\]'"):
        plot_filters("hand-designed", "bank.png")
