"""What river's drift detectors consist of, as far as they can be saved."""

from __future__ import annotations

from typing import Any

from river import drift, stats

from onlinels.saving.fields import FLAG, SHARE, Field, at_most, made_of, maybe
from onlinels.saving.kinds import State, saved
from onlinels.states.river_kinds import MEAN, NUMBER

PROBES = 64
"""Values that a detector out of a file is tried with, on a copy."""

saved(drift.NoDrift, {"_drift_detected": FLAG})

WARNED = {"_drift_detected": FLAG, "_warning_detected": FLAG}
saved(
    drift.binary.DDM,
    {
        **WARNED,
        **dict.fromkeys(("warm_start", "warning_threshold", "drift_threshold"), NUMBER),
        "_p": MEAN,
        **dict.fromkeys(("_p_min", "_s_min", "_ps_min"), maybe(NUMBER)),
    },
)
saved(
    drift.binary.EDDM,
    {
        **WARNED,
        **dict.fromkeys(("warm_start", "alpha", "beta"), NUMBER),
        "_error_distances": made_of(stats.Var),
        **dict.fromkeys(("_n", "_last_error", "_n_errors", "_p2s_prime_max"), maybe(NUMBER)),
    },
)
saved(
    drift.binary.HDDMA,
    {
        **WARNED,
        **dict.fromkeys(("drift_confidence", "warning_confidence"), NUMBER),
        "two_sided_test": FLAG,
        **dict.fromkeys(("_x_min", "_x_max", "_z"), MEAN),
    },
)

PAGE_HINKLEY = (
    "_drift_detected",
    "min_instances",
    "delta",
    "threshold",
    "alpha",
    "mode",
    "_x_mean",
    "_sum_increase",
    "_sum_decrease",
    "_min_increase",
    "_max_decrease",
)
ADWIN = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")


def _page_hinkley(state: State) -> Any:
    detector = drift.PageHinkley(mode=state["mode"])
    vars(detector).update(state)
    return detector


def _adwin(state: State) -> Any:
    # River does not say what types these take.
    make: Any = drift.ADWIN
    detector = make(**{name: state[name] for name in ADWIN})
    detector._drift_detected = state["_drift_detected"]
    try:
        detector._helper.__setstate__(state["window"])
        probed = make()
        probed._helper.__setstate__(state["window"])
        for count in range(PROBES):
            probed.update(count % 2)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # What river's compiled code raises is no Exception.
        raise ValueError("the state of its ADWIN is none") from error
    return detector


saved(
    drift.PageHinkley,
    {
        **dict.fromkeys(PAGE_HINKLEY, NUMBER),
        "_drift_detected": FLAG,
        "mode": Field("up, down or both", lambda value: value in ("up", "down", "both")),
        "_x_mean": MEAN,
    },
    take=lambda detector: {name: getattr(detector, name) for name in PAGE_HINKLEY},
    make=_page_hinkley,
)
saved(
    drift.ADWIN,
    {
        # Its compiled code takes as much memory as it is told to.
        **dict.fromkeys(ADWIN, at_most(10_000)),
        "delta": SHARE,
        "_drift_detected": FLAG,
        "window": Field("bytes", lambda value: type(value) is bytes),
    },
    take=lambda detector: {
        **{name: getattr(detector, name) for name in (*ADWIN, "_drift_detected")},
        "window": bytes(detector._helper.__getstate__()),
    },
    make=_adwin,
)
