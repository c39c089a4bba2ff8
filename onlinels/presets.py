"""Settings of ShallowConvClassifier that are known to classify well, by data set."""

from __future__ import annotations

from typing import Any

from onlinels.settings import check_choice

Settings = dict[str, Any]

PARTS = {
    "preprocessing": (
        "downsample",
        "scale",
        "grey_channel",
        "whitening",
        "image_shape",
        "dtype",
    ),
    "features": (
        "filters",
        "pool_size",
        "stride",
        "padding",
        "drop_ring",
        "normalize",
        "before_pooling",
        "after_pooling",
        "channels",
        "contrast_offset",
        "dtype",
        "seed",
    ),
    "hidden": (
        "n_hidden",
        "input_weights",
        "activation",
        "seed",
        "dtype",
        "bias",
        "receptive_fields",
    ),
    "classifier": (
        "ridge",
        "accumulator",
        "fit_intercept",
        "forgetting_factor",
        "half_life",
        "balance",
    ),
    "network": ("warm_up",),
}
"""Which part of the network takes which setting; precision and seed are set in several at once."""

PRESETS: dict[str, Settings] = {
    "mnist": {
        "image_shape": (28, 28),
        "pool_size": 8,
        "stride": 3,
        "drop_ring": 5,
        "normalize": False,
        "dtype": "float32",
        "n_hidden": 6400,
        "input_weights": "difference",
        "ridge": "paper",
        "fit_intercept": False,
        "warm_up": 4000,
    },
    # Normalised responses and 400 units keep the Gram's condition number near 1e7, so that online
    # and batch weights agree to 9 digits; 800 units without agree to 6 and classify no better.
    "digits": {
        "image_shape": (8, 8),
        "pool_size": 3,
        "stride": 2,
        "padding": 6,
        "drop_ring": 2,
        "normalize": True,
        "n_hidden": 400,
        "input_weights": "difference",
        "ridge": "paper",
        "fit_intercept": False,
        "warm_up": 200,
    },
}


def preset_settings(name: str, overrides: Settings) -> dict[str, Settings]:
    """Return a preset's settings by part of the network, with overrides in force.

    Raises
    ------
    ValueError
        If the preset or a setting is not known.

    Examples
    --------
    >>> preset_settings("mnist", {"n_hidden": 100})["hidden"]["n_hidden"]
    100
    """
    check_choice("name", name, PRESETS)
    known_settings = {setting for settings in PARTS.values() for setting in settings}
    for setting in overrides:
        if setting not in known_settings:
            raise ValueError(
                f"{setting!r} is no setting of the network. "
                f"Pass any of {', '.join(sorted(known_settings))}."
            )
    chosen = PRESETS[name] | overrides
    return {
        part: {setting: chosen[setting] for setting in settings if setting in chosen}
        for part, settings in PARTS.items()
    }
