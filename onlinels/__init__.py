"""Exact online least squares for streams of rows and images."""

import os
import platform
import sys
from importlib import import_module, metadata
from types import ModuleType

import numpy as np

from onlinels.checks import DataWarning
from onlinels.core import IN_USE
from onlinels.evaluate import progressive_val_score
from onlinels.features.convolution import ConvolutionalFeatures
from onlinels.features.embedding import Embedding
from onlinels.features.hidden import HiddenLayer
from onlinels.features.minirocket import MiniRocketFeatures
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.linear.ridge import KFold
from onlinels.meta import CalibratedClassifier, DriftAwareClassifier
from onlinels.network import ShallowConvClassifier
from onlinels.numerics import THREAD_VARIABLES, n_threads
from onlinels.pipelines import difference, merge
from onlinels.saving import dumps, load, loads, save
from onlinels.stream import StreamClassifier, StreamRegressor
from onlinels.windowed import WindowedClassifier

__version__ = "0.2.0"

__all__ = [
    "CalibratedClassifier",
    "ConvolutionalFeatures",
    "DataWarning",
    "DriftAwareClassifier",
    "Embedding",
    "HiddenLayer",
    "KFold",
    "LeastSquaresClassifier",
    "LeastSquaresMultiTargetRegressor",
    "LeastSquaresRegressor",
    "MiniRocketFeatures",
    "ShallowConvClassifier",
    "StreamClassifier",
    "StreamRegressor",
    "WindowedClassifier",
    "__version__",
    "difference",
    "dumps",
    "load",
    "loads",
    "merge",
    "progressive_val_score",
    "save",
    "show_versions",
]

LATE_SUBMODULES = ("devices", "export", "forecasting", "from_sums", "images", "lessons", "sites")
"""Submodules that are imported when they are used."""


def __getattr__(name: str) -> ModuleType:
    if name in LATE_SUBMODULES:
        return import_module(f"onlinels.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def show_versions() -> None:
    """Print the versions of onlinels and of what it uses, the core in use, the platform, threads.

    The core learns and predicts single rows. It is compiled, or else the same in numpy and slower:
    if the package was installed without a C compiler, or if ``ONLINELS_CORE=reference`` was set
    before the import.

    Examples
    --------
    >>> show_versions()  # doctest: +SKIP
    onlinels: 0.2.0
    core: compiled
    python: 3.14.0 (main, Oct 10 2025, 12:54:13) [GCC 14.2.0]
    numpy: 2.4.6
    scipy: 1.17.1
    river: 0.26.1
    narwhals: 2.29.0
    blas: scipy-openblas 0.3.31.188.0
    platform: Linux-6.12.48-x86_64-with-glibc2.41
    threads: 2
    """
    is_chosen = os.environ.get("ONLINELS_CORE") == "reference"
    numpy_core = "numpy, ONLINELS_CORE=reference" if is_chosen else "numpy, no extension"
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    settings = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    lines = {
        "onlinels": __version__,
        "core": "compiled" if IN_USE == "compiled" else numpy_core,
        "python": " ".join(sys.version.split()),
        **{name: metadata.version(name) for name in ("numpy", "scipy", "river", "narwhals")},
        "blas": f"{blas.get('name')} {blas.get('version')}",
        "platform": platform.platform(),
        "threads": ", ".join([str(n_threads()), *settings]),
    }
    for name, value in lines.items():
        print(f"{name}: {value}")
