"""What river's transformers, and the statistics in them, consist of, as far as they can be saved.

Those are left out that hold functions, random generators or compiled state.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from river import compose, feature_extraction, feature_selection, preprocessing, stats
from river.preprocessing import impute

from onlinels.saving.fields import FLAG, NOTHING, TEXT, WHOLE, Field, fixed, made_of, maybe, row
from onlinels.saving.kinds import factory, saved
from onlinels.states.river_kinds import MEAN, NAME, NAMES, NUMBER, STATISTIC, held

saved(stats.Mean, {"n": NUMBER, "_mean": NUMBER})
saved(stats.Var, {"ddof": NUMBER, "mean": MEAN, "_S": NUMBER})
saved(stats.Min, {"min": NUMBER})
saved(stats.Max, {"max": NUMBER})
saved(stats.AbsMax, {"abs_max": NUMBER})
saved(stats.Sum, {"sum": NUMBER})
saved(stats.Count, {"n": NUMBER})
saved(stats.Mode, {"k": NUMBER, "counts": held(defaultdict, NUMBER)})
saved(impute.Constant, {"value": NAME})
saved(
    preprocessing.StandardScaler,
    {
        "with_std": FLAG,
        "window_size": NOTHING,
        "counts": held(Counter, NUMBER),
        "means": held(defaultdict, NUMBER),
        "vars": held(defaultdict, NUMBER),
    },
)
saved(
    preprocessing.MinMaxScaler,
    {
        "window_size": NOTHING,
        "min": held(defaultdict, made_of(stats.Min)),
        "max": held(defaultdict, made_of(stats.Max)),
    },
)
saved(
    preprocessing.MaxAbsScaler,
    {"window_size": NOTHING, "abs_max": held(defaultdict, made_of(stats.AbsMax))},
)
saved(preprocessing.Normalizer, {"order": NUMBER})
saved(
    preprocessing.OneHotEncoder,
    {
        "drop_zeros": FLAG,
        "drop_first": FLAG,
        "categories": maybe(held(dict, NAMES)),
        "_zero_dict": held(dict, NUMBER),
        "values": held(defaultdict, NAMES),
    },
)
saved(
    preprocessing.OrdinalEncoder,
    {
        "unknown_value": maybe(NUMBER),
        "none_value": maybe(NUMBER),
        "categories": maybe(held(dict, NAMES)),
        "values": held(defaultdict, held(dict, NUMBER)),
        "_reserved_category_codes": row(maybe(NUMBER)),
    },
)
_IMPUTER = Field("a statistic or a value", lambda v: NAME.fits(v) or STATISTIC.fits(v))
saved(
    preprocessing.StatImputer,
    {"imputers": row(fixed(NAME, _IMPUTER)), "stats": held(dict, STATISTIC)},
)
saved(preprocessing.PreviousImputer, {"_latest": held(dict, NAME)})
saved(
    preprocessing.FeatureHasher,
    {"n_features": WHOLE, "seed": maybe(NUMBER), "alternate_sign": FLAG, "_seed": NUMBER},
)
saved(
    feature_extraction.PolynomialExtender,
    {"degree": WHOLE, "interaction_only": FLAG, "include_bias": FLAG, "bias_name": NAME},
)
saved(
    feature_selection.VarianceThreshold,
    {
        "threshold": NUMBER,
        "min_samples": NUMBER,
        "variances": held(defaultdict, made_of(stats.Var)),
    },
)
saved(compose.Prefixer, {"prefix": TEXT})
saved(compose.Suffixer, {"suffix": TEXT})
saved(compose.Renamer, {"mapping": held(dict, NAME)})
saved(compose.Select, {"keys": NAMES})
saved(compose.Discard, {"keys": NAMES})

for _factory in (float, int, set, dict, stats.Min, stats.Max, stats.AbsMax, stats.Mean, stats.Var):
    factory(_factory)
