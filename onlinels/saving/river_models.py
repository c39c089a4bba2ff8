"""Of what river's pipelines, transformers and drift detectors consist, as far as they can be saved.

Those are left out that hold functions, random generators or compiled state.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import Any

import numpy as np
from river import compose, drift, feature_extraction, feature_selection, preprocessing, stats
from river.preprocessing import impute

from onlinels.saving.fields import (
    FACTORIES,
    FLAG,
    KINDS,
    NOTHING,
    SHARE,
    TEXT,
    WHOLE,
    Field,
    State,
    at_most,
    fixed,
    is_plain,
    made_of,
    maybe,
    row,
    saved,
    table,
)

NUMBER = Field(
    "a number",
    lambda value: isinstance(value, (int, float, np.number)) and not isinstance(value, bool),
)
# Rows' own values are names of categories, numpy's scalars among them.
NAME = Field("a name", lambda value: is_plain(value) or isinstance(value, np.generic))
NAMES = Field("names", lambda value: type(value) is set and all(map(NAME.fits, value)))
MEAN = made_of(stats.Mean)


def _by_name(of: type[dict[Any, Any]], value: Field) -> Field:
    return table(NAME, value, of)


def _numbers(*names: str) -> dict[str, Field]:
    return dict.fromkeys(names, NUMBER)


# Statistics.

STATISTICS: dict[type, dict[str, Field]] = {
    stats.Mean: _numbers("n", "_mean"),
    stats.Var: {"ddof": NUMBER, "mean": MEAN, "_S": NUMBER},
    stats.Min: _numbers("min"),
    stats.Max: _numbers("max"),
    stats.AbsMax: _numbers("abs_max"),
    stats.Sum: _numbers("sum"),
    stats.Count: _numbers("n"),
    stats.Mode: {"k": NUMBER, "counts": _by_name(defaultdict, NUMBER)},
    impute.Constant: {"value": NAME},
}
STATISTIC = made_of(*STATISTICS)
IMPUTER = Field("a statistic or a value", lambda v: NAME.fits(v) or STATISTIC.fits(v))

for _made in (float, int, set, dict, stats.Min, stats.Max, stats.AbsMax, stats.Mean, stats.Var):
    FACTORIES[_made.__name__] = _made

# Transformers.

TRANSFORMERS: dict[type, dict[str, Field]] = {
    preprocessing.StandardScaler: {
        "with_std": FLAG,
        "window_size": NOTHING,
        "counts": _by_name(Counter, NUMBER),
        "means": _by_name(defaultdict, NUMBER),
        "vars": _by_name(defaultdict, NUMBER),
    },
    preprocessing.MinMaxScaler: {
        "window_size": NOTHING,
        "min": _by_name(defaultdict, made_of(stats.Min)),
        "max": _by_name(defaultdict, made_of(stats.Max)),
    },
    preprocessing.MaxAbsScaler: {
        "window_size": NOTHING,
        "abs_max": _by_name(defaultdict, made_of(stats.AbsMax)),
    },
    preprocessing.Normalizer: _numbers("order"),
    preprocessing.OneHotEncoder: {
        "drop_zeros": FLAG,
        "drop_first": FLAG,
        "categories": maybe(_by_name(dict, NAMES)),
        "_zero_dict": _by_name(dict, NUMBER),
        "values": _by_name(defaultdict, NAMES),
    },
    preprocessing.OrdinalEncoder: {
        "unknown_value": maybe(NUMBER),
        "none_value": maybe(NUMBER),
        "categories": maybe(_by_name(dict, NAMES)),
        "values": _by_name(defaultdict, _by_name(dict, NUMBER)),
        "_reserved_category_codes": row(maybe(NUMBER)),
    },
    preprocessing.StatImputer: {
        "imputers": row(fixed(NAME, IMPUTER)),
        "stats": _by_name(dict, STATISTIC),
    },
    preprocessing.PreviousImputer: {"_latest": _by_name(dict, NAME)},
    preprocessing.FeatureHasher: {
        "n_features": WHOLE,
        "seed": maybe(NUMBER),
        "alternate_sign": FLAG,
        "_seed": NUMBER,
    },
    feature_extraction.PolynomialExtender: {
        "degree": WHOLE,
        "interaction_only": FLAG,
        "include_bias": FLAG,
        "bias_name": NAME,
    },
    feature_selection.VarianceThreshold: {
        "threshold": NUMBER,
        "min_samples": NUMBER,
        "variances": _by_name(defaultdict, made_of(stats.Var)),
    },
    compose.Prefixer: {"prefix": TEXT},
    compose.Suffixer: {"suffix": TEXT},
    compose.Renamer: {"mapping": _by_name(dict, NAME)},
    compose.Select: {"keys": NAMES},
    compose.Discard: {"keys": NAMES},
}

# Drift detectors.

WARNED = {"_drift_detected": FLAG, "_warning_detected": FLAG}
DETECTORS: dict[type, dict[str, Field]] = {
    drift.NoDrift: {"_drift_detected": FLAG},
    drift.binary.DDM: {
        **WARNED,
        **_numbers("warm_start", "warning_threshold", "drift_threshold"),
        "_p": MEAN,
        **dict.fromkeys(("_p_min", "_s_min", "_ps_min"), maybe(NUMBER)),
    },
    drift.binary.EDDM: {
        **WARNED,
        **_numbers("warm_start", "alpha", "beta"),
        "_error_distances": made_of(stats.Var),
        **dict.fromkeys(("_n", "_last_error", "_n_errors", "_p2s_prime_max"), maybe(NUMBER)),
    },
    drift.binary.HDDMA: {
        **WARNED,
        **_numbers("drift_confidence", "warning_confidence"),
        "two_sided_test": FLAG,
        **dict.fromkeys(("_x_min", "_x_max", "_z"), MEAN),
    },
}

for _made, _fields in (STATISTICS | TRANSFORMERS | DETECTORS).items():
    saved(_made, _fields)

PAGE_HINKLEY = {
    "_drift_detected": FLAG,
    **_numbers("min_instances", "delta", "threshold", "alpha"),
    "mode": Field("up, down or both", lambda value: value in ("up", "down", "both")),
    "_x_mean": MEAN,
    **_numbers("_sum_increase", "_sum_decrease", "_min_increase", "_max_decrease"),
}


def _page_hinkley(state: State) -> Any:
    detector = drift.PageHinkley(mode=state["mode"])
    vars(detector).update(state)
    return detector


saved(
    drift.PageHinkley,
    PAGE_HINKLEY,
    take=lambda detector: {name: getattr(detector, name) for name in PAGE_HINKLEY},
    make=_page_hinkley,
)

ADWIN = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")
PROBES = 64
"""Values that an ADWIN out of a file is tried with, on a copy."""


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

# Pipelines.

STEPS = Field("steps by name", lambda steps: all(type(name) is str for name in steps))


def _check_steps(steps: dict[str, Any]) -> None:
    # River would make one of a class, or of a list, that stands for a step.
    for name, step in steps.items():
        if type(step) not in KINDS:
            raise ValueError(f"its step {name!r} is no step of a pipeline")


def _pipeline(state: State) -> Any:
    _check_steps(state["steps"])
    pipeline: Any = compose.Pipeline(*state["steps"].items())
    if hasattr(pipeline, "_build_plan"):
        # Else the first call does so, and threads that ask at once find half of it.
        pipeline._build_plan()
    return pipeline


def _union(state: State) -> Any:
    _check_steps(state["transformers"])
    return compose.TransformerUnion(*state["transformers"].items())


saved(
    compose.Pipeline,
    {"steps": STEPS},
    take=lambda pipeline: {"steps": OrderedDict(pipeline.steps)},
    make=_pipeline,
)
saved(
    compose.TransformerUnion,
    {"transformers": STEPS},
    take=lambda union: {"transformers": OrderedDict(union.transformers)},
    make=_union,
)
