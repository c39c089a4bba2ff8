"""Declarations of the river pipelines, transformers and drift detectors that can be saved.

Classes that hold functions, random generators or large compiled state are left out.
"""

from __future__ import annotations

import copy
import numbers
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
from river import compose, drift, feature_extraction, feature_selection, preprocessing, stats, utils
from river.preprocessing import impute

from onlinels.saving.fields import (
    DEFAULT_FACTORIES,
    FLAG,
    NOTHING,
    SAVABLE_INSTEAD,
    SAVABLE_KINDS,
    SHARE,
    TEXT,
    WHOLE,
    Field,
    Fields,
    State,
    in_plain_types,
    is_plain,
    listed,
    made_of,
    maybe,
    row,
    saved,
    table,
)

NUMBER = Field("a number", lambda n: isinstance(n, (int, float, np.number)) and type(n) is not bool)
# Values of rows become names of categories; they may be numpy scalars.
NAME = Field(
    "a name", lambda value: is_plain(in_plain_types(value)) or isinstance(value, np.generic)
)
NAMES = Field("names", lambda value: type(value) is set and all(map(NAME.fits, value)))

BYTES = Field("bytes", lambda value: type(value) is bytes)
SMALL_WHOLE = Field(
    "an int up to 10,000", lambda value: type(value) is int and 0 <= value <= 10_000
)
OPTIONAL = maybe(NUMBER)
CATEGORIES = maybe(table(NAME, NAMES))

FIELDS_BY_TYPE = {
    type(None): OPTIONAL,
    bool: FLAG,
    int: NUMBER,
    float: NUMBER,
    str: NAME,
    set: NAMES,
    tuple: row(OPTIONAL),
    dict: table(NAME, NAME),
    Counter: table(NAME, NUMBER, Counter),
}
"""The kind of an attribute, by its type in a new object."""


def _fields_of(state: State) -> dict[str, Field]:
    return {name: _field_of(value) for name, value in state.items()}


def _field_of(value: Any) -> Field:
    if isinstance(value, defaultdict):
        factory: Any = value.default_factory
        return table(NAME, _field_of(factory()), defaultdict)
    return FIELDS_BY_TYPE.get(type(value)) or made_of(type(value))


def _saved_as_new(*makers: Callable[[], Any], **others: Field) -> None:
    """Declare that objects have the attributes of new ones, with other kinds for some."""
    for new in (make() for make in makers):
        saved(type(new), _fields_of(vars(new)) | others)


def _saved_as_filled(
    made: Any, settings: Fields, contents: Fields, new: Callable[..., Any] | None = None
) -> None:
    """Declare that objects consist of settings, which make new ones, and of their contents.

    The default factories of their tables then follow from the settings and are in no file.
    """

    def _take(value: Any) -> State:
        held = {name: getattr(value, name) for name in (*settings, *contents)}
        return {name: dict(each) if isinstance(each, dict) else each for name, each in held.items()}

    def _make(state: State) -> Any:
        value = (new or made)(**{name: state[name] for name in settings})
        for name in contents:
            if isinstance(state[name], dict):
                getattr(value, name).update(state[name])
            else:
                setattr(value, name, state[name])
        return value

    saved(made, {**settings, **contents}, take=_take, make=_make)


N_PROBES = 64
"""Number of values with which a copy of compiled state from a file is tested."""


def _saved_as_bytes(called: str, new: Callable[[], Any]) -> None:
    """Declare that compiled objects consist of bytes, which the compiled code must accept."""

    def _take(value: Any) -> State:
        return {"state": bytes(value.__getstate__())}

    def _make(state: State) -> Any:
        value, said = new(), state["state"]
        try:
            value.__setstate__(said)
            fits = bytes(value.__getstate__()) == said
            probed = copy.deepcopy(value)
            for count in range(N_PROBES):
                probed.update(count % 2)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # Errors of river's compiled code are no Exception.
            raise ValueError(f"the state of its {called} is invalid") from error
        if not fits:
            raise ValueError(f"the state of its {called} has superfluous bytes")
        return value

    saved(type(new()), {"state": BYTES}, take=_take, make=_make)


# Some statistics are default factories too.
FACTORY_STATISTICS = (stats.Mean, stats.Var, stats.Min, stats.Max, stats.AbsMax)
DEFAULT_FACTORIES.update(
    {made.__name__: made for made in (float, int, set, dict, *FACTORY_STATISTICS)}
)
STATISTICS: tuple[type, ...] = (*FACTORY_STATISTICS, stats.Sum, stats.Count, stats.Mode)
COMPILED_STATISTICS: dict[type, str] = {
    stats.Quantile: "_quantile",
    stats.IQR: "_iqr",
    stats.EWMean: "_ewmean",
    stats.EWVar: "_ewvar",
}
"""Statistics with a few hundred bytes of compiled state, and the attribute that holds it."""
STATISTIC = made_of(impute.Constant, *STATISTICS, *COMPILED_STATISTICS)
AGGREGATE = made_of(*STATISTICS, *COMPILED_STATISTICS)
IMPUTER = Field("a name or statistic", lambda value: NAME.fits(value) or STATISTIC.fits(value))

_saved_as_new(*STATISTICS, partial(impute.Constant, ""))
_saved_as_new(stats.Cov, stats.PearsonCorr)


def _answers(statistic: Any) -> bool:
    try:
        statistic.get()
    except KeyboardInterrupt:
        raise
    except BaseException:
        # For instance, a statistic that is marked as updated but never was.
        return False
    return True


def _compiled_part(made: type, attribute: str) -> Any:
    return getattr(made(), attribute)


for made, attribute in COMPILED_STATISTICS.items():
    _saved_as_bytes(made.__name__, partial(_compiled_part, made, attribute))
    saved(made, _fields_of(vars(made())), _answers)

WINDOW = Field(
    "the last numbers", lambda value: type(value) is deque and all(map(NUMBER.fits, value))
)
saved(
    utils.SortedWindow,
    {"data": listed(NUMBER), "unsorted_window": WINDOW},
    lambda window: window.data == sorted(window.unsorted_window) and window.size,
)
ROLLING: tuple[type, ...] = (stats.RollingMin, stats.RollingMax, stats.RollingAbsMax)
_saved_as_new(*(partial(each, 1) for each in ROLLING))

# Transformers.


def _by_feature(*of: type) -> Field:
    return table(NAME, made_of(*of))


ROLLING_FIELDS = {"window_size": maybe(SMALL_WHOLE)}
PROPORTION = Field("a number from 0 to 1", lambda q: NUMBER.fits(q) and 0.0 <= q <= 1.0)
_saved_as_new(preprocessing.StandardScaler)
_saved_as_filled(
    preprocessing.MinMaxScaler,
    ROLLING_FIELDS,
    {
        "min": _by_feature(stats.Min, stats.RollingMin),
        "max": _by_feature(stats.Max, stats.RollingMax),
    },
)
_saved_as_filled(
    preprocessing.MaxAbsScaler,
    ROLLING_FIELDS,
    {"abs_max": _by_feature(stats.AbsMax, stats.RollingAbsMax)},
)
_saved_as_filled(
    preprocessing.RobustScaler,
    {"with_centering": FLAG, "with_scaling": FLAG, "q_inf": PROPORTION, "q_sup": PROPORTION},
    {"median": _by_feature(stats.Quantile), "iqr": _by_feature(stats.IQR)},
)
_saved_as_filled(
    preprocessing.AdaptiveStandardScaler,
    {"fading_factor": PROPORTION},
    {"vars": _by_feature(stats.EWVar), "means": _by_feature(stats.EWMean)},
)
_saved_as_new(preprocessing.Normalizer, preprocessing.PreviousImputer, preprocessing.FeatureHasher)
_saved_as_new(feature_extraction.PolynomialExtender, feature_selection.VarianceThreshold)
_saved_as_new(compose.Select, compose.Discard, partial(compose.Renamer, {}))
_saved_as_new(partial(compose.Prefixer, ""), partial(compose.Suffixer, ""))
_saved_as_new(preprocessing.OneHotEncoder, categories=CATEGORIES)
_saved_as_new(
    preprocessing.OrdinalEncoder, categories=CATEGORIES, unknown_value=OPTIONAL, none_value=OPTIONAL
)
_saved_as_new(preprocessing.StatImputer, imputers=row(row(IMPUTER)), stats=table(NAME, STATISTIC))

TYPES = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in (
        *(bool, int, float, str),
        *(numbers.Number, numbers.Real, numbers.Integral),
        *(np.number, np.integer, np.floating, np.bool_, np.str_),
    )
}
"""Types by which features are selected or converted."""

TYPE = Field(f"one of {', '.join(TYPES)}", lambda value: value in TYPES)


def _name_of(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


saved(
    compose.SelectType,
    {"types": row(TYPE)},
    take=lambda select: {"types": tuple(map(_name_of, select.types))},
    make=lambda state: compose.SelectType(*map(TYPES.__getitem__, state["types"])),
)
saved(
    preprocessing.Binarizer,
    {"threshold": NUMBER, "dtype": TYPE},
    take=lambda made: {"threshold": made.threshold, "dtype": _name_of(made.dtype)},
    make=lambda state: cast(Any, preprocessing.Binarizer)(
        state["threshold"], TYPES[state["dtype"]]
    ),
)

# A search for a malicious pattern could take forever.
TOKENIZER_PATTERN = feature_extraction.BagOfWords().tokenizer_pattern
TEXT_FIELDS = {
    "on": maybe(TEXT),
    "strip_accents": FLAG,
    "lowercase": FLAG,
    "preprocessor": NOTHING,
    "stop_words": maybe(NAMES),
    "tokenizer_pattern": Field(
        f"river's own, {TOKENIZER_PATTERN}", lambda value: value == TOKENIZER_PATTERN
    ),
    "tokenizer": NOTHING,
    "ngram_range": row(SMALL_WHOLE),
}
_saved_as_filled(feature_extraction.BagOfWords, TEXT_FIELDS, {})
_saved_as_filled(
    feature_extraction.TFIDF,
    {"normalize": FLAG, **TEXT_FIELDS},
    {"dfs": table(NAME, NUMBER), "n": WHOLE},
)

BY_FIELD = listed(NAME)
AGGREGATE_FIELDS = {"on": TEXT, "by": maybe(BY_FIELD), "how": AGGREGATE}
GROUP_FIELDS = {"_groups": table(maybe(row(NAME)), AGGREGATE)}
_saved_as_filled(feature_extraction.Agg, AGGREGATE_FIELDS, GROUP_FIELDS)
_saved_as_filled(
    feature_extraction.TargetAgg,
    AGGREGATE_FIELDS,
    GROUP_FIELDS,
    new=lambda on, by, how: feature_extraction.TargetAgg(by, how, on),
)
_saved_as_filled(
    feature_selection.SelectKBest,
    {"similarity": made_of(stats.PearsonCorr), "k": SMALL_WHOLE, "use_abs": FLAG},
    {"similarities": _by_feature(stats.PearsonCorr), "leaderboard": table(NAME, NUMBER)},
)
STEP = Field("a step that can be saved", lambda value: type(value) in SAVABLE_KINDS)
_saved_as_filled(
    compose.Grouper, {"transformer": STEP, "by": BY_FIELD}, {"transformers": table(NAME, STEP)}
)

HIDDEN_LAYER_REMEDY = "Use onlinels.HiddenLayer instead."
TEXT_STEPS_REMEDY = "Use BagOfWords, TFIDF or FeatureHasher instead."
SAVABLE_INSTEAD.update(
    {
        compose.FuncTransformer: "Call its function before the pipeline.",
        feature_extraction.RBFSampler: HIDDEN_LAYER_REMEDY,
        feature_extraction.RandomTreesEmbedding: HIDDEN_LAYER_REMEDY,
        preprocessing.GaussianRandomProjector: HIDDEN_LAYER_REMEDY,
        preprocessing.SparseRandomProjector: HIDDEN_LAYER_REMEDY,
        feature_selection.PoissonInclusion: "Use SelectKBest or VarianceThreshold instead.",
        preprocessing.LDA: TEXT_STEPS_REMEDY,
        preprocessing.GapEncoder: TEXT_STEPS_REMEDY,
    }
)

# Drift detectors.

_saved_as_new(drift.NoDrift, drift.binary.EDDM, drift.binary.HDDMA)
_saved_as_new(drift.binary.DDM, _ps_min=OPTIONAL)


# Without `_test_drift`, a method that follows from the mode.
PAGE_HINKLEY = _fields_of(vars(drift.PageHinkley()))
del PAGE_HINKLEY["_test_drift"]
_saved_as_filled(drift.PageHinkley, {"mode": PAGE_HINKLEY.pop("mode")}, PAGE_HINKLEY)

DETECTOR_SIZES = dict.fromkeys(
    ("clock", "max_buckets", "min_window_length", "grace_period"), SMALL_WHOLE
)
"""Attributes that decide how much memory the compiled code allocates."""

_saved_as_new(drift.ADWIN, **DETECTOR_SIZES, delta=SHARE)
_saved_as_bytes("ADWIN", lambda: cast(Any, drift.ADWIN)()._helper)

# Pipelines.

STEPS = Field("steps by name", lambda steps: all(type(name) is str for name in steps))


def _saved_by_steps(made: Any, attribute: str) -> None:
    def _make(state: State) -> Any:
        for name, step in state[attribute].items():
            # River would convert a class or a list into a step.
            if type(step) not in SAVABLE_KINDS:
                raise ValueError(f"its step {name!r} is not a step that can be saved")
        whole = made(*state[attribute].items())
        # Otherwise the first call builds the plan, and concurrent threads may find half of it.
        getattr(whole, "_build_plan", list)()
        return whole

    fields = {attribute: STEPS}
    saved(made, fields, take=lambda whole: {attribute: dict(getattr(whole, attribute))}, make=_make)


_saved_by_steps(compose.Pipeline, "steps")
_saved_by_steps(compose.TransformerUnion, "transformers")
_saved_by_steps(compose.TransformerProduct, "transformers")
