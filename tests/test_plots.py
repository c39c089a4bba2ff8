"""Pictures of filters, and of alarms whose labels come late."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import matplotlib as mpl
from alarms import (
    AlarmLog,
    draw,
    draw_alarms,
    draw_labels,
    draw_last_alarm,
    draw_waiting,
    fault_spans,
    reliability,
)
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.image import imread

from onlinels import ConvolutionalFeatures
from onlinels.images import Patches, plot_filters
from support.pictures import is_drawn

mpl.use("Agg")


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
    axes = plot_filters(filters, Figure().add_subplot(), n_columns=n_columns)
    picture = np.asarray(axes.images[0].get_array())
    assert picture.min() >= 0.0
    assert picture.max() == 1.0
    in_colour = n_channels in (1, 3)
    per_row = n_columns or int(np.ceil(np.sqrt(n_filters)))
    n_tiles = 1 if in_colour else n_channels
    for k, h in enumerate(filters):
        row, column = divmod(k, min(per_row, n_filters))
        expected = (h - h.min()) / (h.max() - h.min()) if k and h.size > 1 else h * 0 + 0.5
        for tile in range(n_tiles):
            top, left = 1 + row * (size + 1), 1 + (column * n_tiles + tile) * (size + 1)
            own = picture[top : top + size, left : left + size]
            shown = expected if in_colour else expected[..., tile : tile + 1]
            np.testing.assert_allclose(own, np.broadcast_to(shown, own.shape))
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


# -- alarms ---------------------------------------------------------------------------------------


@given(
    rows=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60),
    n_bins=st.integers(1, 12),
)
def test_reliability_is_that_of_each_bin(rows, n_bins):
    probabilities, faults = map(np.array, zip(*rows, strict=True))
    means, shares, counts, low, high = reliability(probabilities, faults, n_bins)
    places = [min(int(p * n_bins), n_bins - 1) for p in probabilities]
    for place in range(n_bins):
        mine = [row for row, each in zip(rows, places, strict=True) if each == place]
        assert counts[place] == len(mine)
        expected = np.mean(mine, axis=0) if mine else (np.nan, np.nan)
        np.testing.assert_allclose((means[place], shares[place]), expected, atol=1e-12)
        # Wilson: where the share is 1.96 deviations of a binomial share away.
        for bound in (low[place], high[place]):
            deviation = np.sqrt(np.maximum(bound * (1 - bound), 0.0) / max(len(mine), 1))
            np.testing.assert_allclose(abs(shares[place] - bound), 1.96 * deviation, atol=1e-6)


@pytest.fixture
def log():
    """Return a log of six readings: two faults, one found; a false alarm; two labels not there."""
    log = AlarmLog(threshold=0.6)
    for time, probability in enumerate([0.1, 0.7, 0.2, 0.6, 0.3, 0.9]):
        assert log.add_forecast(("pump", time), time, probability) == (probability >= 0.6)
    for time, label_time in ((0, 2.5), (2, 3.5), (1, 4.5), (3, 4.5)):
        log.add_label(("pump", time), label_time, time in (1, 2))
    log.add_label(("unknown", 0), 5.0, True)
    log.reasons = {"a": 1.0, "b": 20.5}, {"a": 0.5, "b": -0.75}
    return log


def drawn(draw_panel, *words):
    axes = Figure().add_subplot()
    draw_panel(axes, *words)
    return axes


def test_alarms_and_labels_are_drawn_where_they_came(log):
    axes = drawn(draw_alarms, log)
    quiet, alarms, threshold = (line.get_xydata().tolist() for line in axes.lines)
    assert quiet == [[0, 0.1], [2, 0.2], [4, 0.3]]
    assert alarms == [[1, 0.7], [3, 0.6], [5, 0.9]]
    assert [height for _, height in threshold] == [0.6, 0.6]
    shades = [patch.get_bbox() for patch in axes.patches if hasattr(patch, "get_bbox")]
    assert [(shade.x0, shade.x1) for shade in shades] == [(1, 3)]
    assert axes.get_title() == "Alarms: 1 of 2 readings with a fault; 1 false alarms\n"
    normal, faults = drawn(draw_labels, log).collections
    assert [path.vertices[0, 0] for path in normal.get_paths()] == [2.5, 4.5]
    assert sorted(path.vertices[0, 0] for path in faults.get_paths()) == [3.5, 4.5]
    log.add_label(("pump", 5), 6.0, True)
    assert fault_spans(log) == [(1, 3), (5, 5)]


def test_forecasts_that_wait_and_effects_are_drawn(log):
    axes = drawn(draw_waiting, log, "days")
    times, waiting = axes.lines[0].get_xydata().T.tolist()
    assert times == [0, 1, 2, 2.5, 3, 3.5, 4, 4.5, 4.5, 5]
    assert waiting == [1, 2, 3, 2, 3, 2, 3, 2, 1, 2]
    assert axes.get_title().endswith("median delay 2 days")
    axes = drawn(draw_last_alarm, log, "days")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a\n1", "b\n20.5"]
    assert [bar.get_width() for bar in axes.patches] == [0.5, -0.75]
    assert axes.get_title() == "The last alarm: 90%\nat 5 days"


def test_a_log_keeps_its_last_forecasts_and_its_last_alarm():
    log = AlarmLog(most=2)
    for key in "abcd":
        log.add_forecast(key, 2.0, 0.8 if key == "d" else 0.1)
    assert [*log.forecasts] == ["c", "d"]
    log.add_label("a", 1.0, True)
    assert log.labelled() == []
    log.reasons = {"x": 3.0}, {"x": 0.4}
    for key in "ef":
        log.add_forecast(key, 3.0, 0.1)
    assert log.alarms() == []
    assert drawn(draw_last_alarm, log, "s").get_title() == "The last alarm: 80%\nat 2 s"


def test_what_is_no_forecast_is_refused():
    log = AlarmLog()
    for probability in (np.nan, 1.7, -0.1, np.inf):
        with pytest.raises(ValueError, match="probability="):
            log.add_forecast("a", 0.0, probability)
    assert log.add_forecast("a", 1.0, 1.0 + 1e-15)
    with pytest.raises(ValueError, match="key='a' has a forecast"):
        log.add_forecast("a", 2.0, 0.1)
    assert (log.forecasts["a"].time, log.last_alarm.time) == (1.0, 1.0)


def test_a_log_without_alarms_or_labels_is_drawn(tmp_path):
    log = AlarmLog()
    log.add_forecast("a", 0.0, 0.1)
    draw(tmp_path / "quiet.png", log, "s")
    assert is_drawn(tmp_path / "quiet.png")
    assert not drawn(draw_last_alarm, log, "s").axison
