"""Watch alarms whose labels come late: keep the forecasts of a stream, and draw four panels.

The panels answer what a technician asks: When was there an alarm, and was it right? Do the labels
keep up? Is the probability reliable? Which features made the last alarm?
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray
from show import BLUE, DASHED, GREY, INK, LINE, VERMILLION, figure

Floats = NDArray[np.float64]

N_BINS, MOST_EFFECTS = 10, 5
ROUNDING = 1e-9
"""What the sum of the probabilities of all faults may exceed 1 by."""
FAULT = "#F6D9C4"
"""Behind the time of a fault: a pale vermillion."""


@dataclass
class Forecast:
    """The probability of a fault, and its label once that has arrived."""

    time: float
    probability: float
    label_time: float = np.nan
    fault: bool | None = None


@dataclass
class AlarmLog:
    """The last forecasts of a stream by key, with the labels that have arrived.

    Parameters
    ----------
    threshold : float
        Probability of a fault from which on a forecast is an alarm.
    most : int
        Forecasts that are kept.
    last_alarm : Forecast, optional
        Also if its forecast is not kept any more.
    reasons : tuple, optional
        The sample of the last alarm and the effects of its features, set by who adds forecasts.
    """

    threshold: float = 0.5
    most: int = 5000
    last_alarm: Forecast | None = None
    reasons: tuple[Mapping[str, float], Mapping[str, float]] | None = None
    forecasts: dict[Hashable, Forecast] = field(default_factory=dict)

    def add_forecast(self, key: Hashable, time: float, probability: float) -> bool:
        """Add a forecast at its time, and return whether it is an alarm.

        Raises ValueError if the probability is none, or the key has a forecast: of a message that
        is delivered twice, the first forecast counts.
        """
        if not -ROUNDING <= probability <= 1.0 + ROUNDING:
            raise ValueError(f"probability={probability} is not from 0 to 1.")
        if key in self.forecasts:
            raise ValueError(f"key={key!r} has a forecast. Pass another key, or leave it out.")
        forecast = self.forecasts[key] = Forecast(time, probability)
        if len(self.forecasts) > self.most:
            del self.forecasts[next(iter(self.forecasts))]
        if probability < self.threshold:
            return False
        self.last_alarm, self.reasons = forecast, None
        return True

    def add_label(self, key: Hashable, time: float, fault: bool) -> None:
        """Add a label at the time of its arrival; a label without a forecast is left out."""
        if key in self.forecasts:
            self.forecasts[key].label_time, self.forecasts[key].fault = time, fault

    def labelled(self) -> list[Forecast]:
        """Return the forecasts whose labels have arrived, in the order of the forecasts."""
        return [each for each in self.forecasts.values() if each.fault is not None]

    def alarms(self) -> list[Forecast]:
        """Return the forecasts that were alarms."""
        return [each for each in self.forecasts.values() if each.probability >= self.threshold]


# -- numbers --------------------------------------------------------------------------------------


def fault_spans(log: AlarmLog) -> list[tuple[float, float]]:
    """Return from when to when there were faults: from their first row to the row after them."""
    spans, start, rows = [], None, log.labelled()
    for row in rows:
        if row.fault and start is None:
            start = row.time
        elif not row.fault and start is not None:
            spans.append((start, row.time))
            start = None
    return spans if start is None else [*spans, (start, rows[-1].time)]


def waiting(log: AlarmLog) -> tuple[Floats, NDArray[np.int64]]:
    """Return the times at which a forecast or a label came, and how many forecasts wait then."""
    came = [each.time for each in log.forecasts.values()]
    went = [each.label_time for each in log.labelled()]
    times, steps = np.array(came + went), np.repeat([1, -1], [len(came), len(went)])
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(steps[order])


def reliability(
    probabilities: Floats, faults: NDArray[np.bool_], n_bins: int = N_BINS
) -> tuple[Floats, Floats, NDArray[np.int64], Floats, Floats]:
    """Compare forecast probabilities with what was observed, in bins of equal width.

    Returns
    -------
    means, shares : ndarray (n_bins,)
        The mean probability and the share of faults in each bin, NaN if the bin is empty.
    counts : ndarray (n_bins,)
        The forecasts in each bin.
    low, high : ndarray (n_bins,)
        Wilson's 95% interval of the share, as if the rows were independent.
    """
    places = np.minimum((probabilities * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(places, minlength=n_bins)
    n = np.where(counts, counts, np.nan)
    means = np.bincount(places, probabilities, n_bins) / n
    shares = np.bincount(places, faults, n_bins) / n
    z = 1.96
    centre = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(shares * (1 - shares) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
    return means, shares, counts, centre - half, centre + half


# -- the picture ----------------------------------------------------------------------------------


def draw(path: Path, log: AlarmLog, unit: str) -> None:
    """Draw the panels of a log whose times are numbers of a unit, such as "days"."""
    with figure(path, 6.8, 8.4) as made:
        rows = made.add_gridspec(2, 1, height_ratios=[5.2, 3.2])
        grid = rows[0].subgridspec(3, 1, height_ratios=[3.2, 0.6, 1.4])
        probability = made.add_subplot(grid[0])
        labels = made.add_subplot(grid[1], sharex=probability)
        queue = made.add_subplot(grid[2], sharex=probability)
        draw_alarms(probability, log)
        draw_labels(labels, log)
        draw_waiting(queue, log, unit)
        for axes in (probability, labels):
            axes.tick_params(labelbottom=False)
        grid = rows[1].subgridspec(1, 2, width_ratios=[1.4, 1])
        draw_reliability(made.add_subplot(grid[0]), log)
        draw_last_alarm(made.add_subplot(grid[1]), log, unit)


def draw_alarms(axes: Axes, log: AlarmLog) -> None:
    """Draw the probability of a fault over time, the alarms, and when there were faults."""
    labelled, alarms = log.labelled(), log.alarms()
    quiet = [each for each in log.forecasts.values() if each.probability < log.threshold]
    axes.plot(*points(quiet), ".", color=BLUE, ms=3.5, mew=0, label="no alarm")
    axes.plot(*points(alarms), "^", color=VERMILLION, ms=5, mew=0, label="alarm")
    axes.axhline(log.threshold, color=INK, lw=1, ls=DASHED, label="threshold")
    for start, end in fault_spans(log):
        axes.axvspan(start, end, color=FAULT, lw=0, zorder=0)
    axes.fill([], [], color=FAULT, lw=0, label="fault, as labelled")
    found = sum(each.fault is True for each in alarms)
    false = sum(each.fault is False for each in alarms)
    faults = sum(each.fault is True for each in labelled)
    axes.set_title(
        f"Alarms: {found:,} of {faults:,} readings with a fault; {false:,} false alarms\n"
    )
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        borderpad=0,
        borderaxespad=0.4,
        handletextpad=0.4,
        columnspacing=1.4,
        frameon=False,
        markerscale=1.5,
        fontsize=9,
    )
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("probability of a fault")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def points(rows: list[Forecast]) -> tuple[list[float], list[float]]:
    return [each.time for each in rows], [each.probability for each in rows]


def draw_labels(axes: Axes, log: AlarmLog) -> None:
    """Draw every label at the time of its arrival."""
    for height, (fault, colour) in enumerate(((False, BLUE), (True, VERMILLION))):
        times = [each.label_time for each in log.labelled() if each.fault is fault]
        axes.vlines(times, height - 0.4, height + 0.4, color=colour, lw=0.4)
    axes.set_title("Labels as they come")
    axes.set_yticks([0, 1], ["normal", "fault"])
    axes.set_ylim(-0.5, 1.5)


def draw_waiting(axes: Axes, log: AlarmLog, unit: str) -> None:
    """Draw how many forecasts wait for their label over time."""
    delays = [each.label_time - each.time for each in log.labelled()]
    late = f", median delay {np.median(delays):.2g} {unit}" if delays else ""
    axes.step(*waiting(log), where="post", color=BLUE, lw=1.2)
    axes.set_title(f"Forecasts that wait for their label{late}")
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylim(0, None)
    axes.set_ylabel("forecasts")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def draw_reliability(axes: Axes, log: AlarmLog) -> None:
    """Draw the share of faults against the forecast probability, with counts."""
    rows = log.labelled()
    probabilities = np.array([each.probability for each in rows])
    faults = np.array([bool(each.fault) for each in rows])
    means, shares, counts, low, high = reliability(probabilities, faults)
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls=DASHED)
    errors = np.maximum([shares - low, high - shares], 0.0)
    axes.errorbar(means, shares, errors, fmt="o", color=BLUE, ms=5, elinewidth=1.4)
    axes.set_title("Reliability, and forecasts in each bin\n")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.03, 1.03))
    axes.set_xlabel("forecast probability")
    axes.set_ylabel("share of faults, 95% intervals")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for place, count in enumerate(counts):
        axes.text((place + 0.5) / N_BINS, 1.05, str(count), ha="center", size=7, color=GREY)


def draw_last_alarm(axes: Axes, log: AlarmLog, unit: str) -> None:
    """Draw the strongest effects of features in the last alarm, with the features' values."""
    alarm = log.last_alarm
    if alarm is None or log.reasons is None:
        axes.axis("off")
        return
    x, effects = log.reasons
    names = sorted(effects, key=lambda name: abs(effects[name]))[-MOST_EFFECTS:]
    sizes = [effects[name] for name in names]
    axes.barh(range(len(names)), sizes, 0.6, color=[VERMILLION if s > 0 else BLUE for s in sizes])
    axes.set_yticks(range(len(names)), [f"{name}\n{x[name]:.3g}" for name in names], size=9)
    axes.axvline(0, color=LINE, lw=1)
    axes.set_title(f"The last alarm: {alarm.probability:.0%}\nat {alarm.time:.4g} {unit}")
    axes.set_xlabel("effect on the score\nof a fault")
