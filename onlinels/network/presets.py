"""Settings of `ShallowConvClassifier` that are known to classify well, by name."""

from __future__ import annotations

from typing import Any, get_type_hints

from onlinels.checks import check_choice, settings_of
from onlinels.features.filters import Patches
from onlinels.network.stages import Network

PresetSettings = dict[str, Any]

KINDS = {part: kind for part, kind in get_type_hints(Network).items() if part != "shape"}
"""Classes of the parts of the network, in order."""

PART_PARAMETERS = {part: {*settings_of(kind)} - {"prefix"} for part, kind in KINDS.items()}
# The preprocessing reads the images and knows the shape of those that it passes on.
PART_PARAMETERS["features"].remove("image_shape")
PART_PARAMETERS["network"] = {"warm_up", "image_shape", "few_images_ridge"}
"""Settings of every part of the network; precision and seed belong to several parts."""

COMMON_SETTINGS: PresetSettings = {
    "drop_ring": 5,
    "normalize": "image",
    "dtype": "float32",
    "input_weights": "centred-difference",
    "activation": "square",
    "bias": False,
    "ridge": 5e-7,
    "few_images_ridge": 1e-4,
    "scaling": None,
    "fit_intercept": False,
    "priors": "equal",
    "warm_up": 4000,
}
"""Common settings of the presets unless they replace them: those that classify best.

The paper's text divides every map by its sum and keeps all pooled positions. The author's script
drops the ring of positions whose windows extend beyond the image, which classifies better (MNIST,
3,200 units: 0.58% errors without the ring, 0.68% with it). Dividing all features of an image by
their length, which neither the text nor the script does, lowers the squared error by 2% and hardly
changes the number of errors. Linear discriminants with equal priors, in place of the paper's
least-squares scores, make fewer errors on digits and CIFAR-10, and recognise new classes after a
few images. On MNIST, with 12,000 hidden units, the error is 0.37% without priors and 0.41% with
equal priors.

The paper's ridge grows with the number of images, so every image changes the whole solution. One
number for all counts of images classifies as well or better, since all features have the same
length. Errors on MNIST with 2,000 units (demos/benchmarks/README.md):

    images           4,000   10,000  60,000
    one number       0.95%   0.66%   0.51%
    paper's ridge    1.00%   0.66%   0.53%

The ridges of "norb" and "svhn" are those of "mnist" and "cifar10".
"""

PRESET_COLUMNS = ("image_shape", "filters", "pool_size", "stride", "n_hidden")


def _preset(*row: Any, **others: Any) -> PresetSettings:
    """Return the settings of `PRESET_COLUMNS`, as in the paper's tables, and other settings."""
    return COMMON_SETTINGS | dict(zip(PRESET_COLUMNS, row, strict=True)) | others


PAPER_FILTERS = ("hand-designed", Patches(17))
COLOUR_SETTINGS: PresetSettings = {"scale": 255.0, "grey_channel": True, "ridge": 1e-4}
PAPER_FEATURES: PresetSettings = {"normalize": True, "input_weights": "difference"}
PAPER_SETTINGS = PAPER_FEATURES | {"drop_ring": 0, "ridge": "paper", "priors": None}
DIGIT_SETTINGS = PAPER_FEATURES | {"dtype": "float64", "warm_up": 200, "ridge": 5e-6}
for _settings in (PAPER_SETTINGS, DIGIT_SETTINGS):
    _settings["few_images_ridge"] = None

PRESETS: dict[str, PresetSettings] = {
    # Tables 1, 2 and 4: C = 1, W = 7, Q = 8, D = 2, P = 60, M = 12,000.
    "mnist-paper": _preset((28, 28), PAPER_FILTERS, 8, 2, 12_000, **PAPER_SETTINGS),
    # The same sizes: 0.37% errors on average over five draws, 0.41% with box pooling.
    "mnist": _preset((28, 28), PAPER_FILTERS, 8, 2, 12_000, pooling="gaussian", priors=None),
    # C = 2 (stereo), 96 x 96 pixels downsampled to 32 x 32, W = 7, Q = 10, D = 2, P = 60,
    # M = 10,000.
    "norb": _preset((96, 96, 2), PAPER_FILTERS, 10, 2, 10_000, downsample=3, scale=255.0),
    # C = 4 (RGB and grey), W = 7, Q = 7, D = 5, P = 96, M = 40,000.
    "svhn": _preset((32, 32, 3), Patches(96), 7, 5, 40_000, **COLOUR_SETTINGS),
    # C = 4, ZCA whitening of every channel, W = 7, Q = 7, D = 3, P = 96, M = 40,000.
    "cifar10": _preset((32, 32, 3), Patches(96), 7, 3, 40_000, **COLOUR_SETTINGS, whitening=0.001),
    # With normalised responses and 400 units, the condition number of the Gram is about 1e7, so
    # online and batch weights agree to 9 digits. With 800 units and no normalisation, they agree to
    # 6 digits, and the accuracy is no better.
    "digits": _preset((8, 8), "hand-designed", 3, 2, 400, padding=6, drop_ring=2, **DIGIT_SETTINGS),
}
"""Values of M. D. McDonnell and T. Vladusich (2015), Tables 1 (data), 2 (stage 1) and 4 (P and M).

For "svhn" and "cifar10", the paper uses the filters of OverFeat's first stage, which may not be
redistributed: if you have them, pass them as an array (96, 7, 7, 3), ``filters=array``. These
presets use the same number of patches of the training images, of the same size, instead.
"""


def preset_settings(name: str, overrides: PresetSettings) -> dict[str, PresetSettings]:
    """Return a preset's settings by part of the network, after replacing some.

    Raises
    ------
    ValueError
        If the preset or a setting is unknown.

    Examples
    --------
    >>> preset_settings("mnist", {"n_hidden": 100})["hidden"]["n_hidden"]
    100
    """
    check_choice("name", name, PRESETS)
    known = {setting for settings in PART_PARAMETERS.values() for setting in settings}
    for setting in overrides.keys() - known:
        problem = f"{setting!r} is not a setting of the network, expected one of"
        raise ValueError(f"{problem} {', '.join(sorted(known))}. Remove or rename it.")
    # A ridge of the caller's is in force whatever the number of images.
    own = {"few_images_ridge": None} if "ridge" in overrides else {}
    chosen = PRESETS[name] | own | overrides
    parts = {
        part: {setting: chosen[setting] for setting in chosen if setting in settings}
        for part, settings in PART_PARAMETERS.items()
    }
    # Images of another size than the preset's may come, but not of another than the caller's.
    del parts["network" if "image_shape" in overrides else "preprocessing"]["image_shape"]
    return parts
