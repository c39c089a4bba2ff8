"""The one home of hypothesis strategies: data and hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from formats import make_data
from onlinels import KFold
from onlinels.datasets import ImageData

ridges = st.one_of(
    st.sampled_from(["paper", "auto"]),
    st.just(0.0),
    st.floats(1e-3, 1e3),
    st.sampled_from([1e-15, 1e-12, 1e-8, 1e-6, 1.0, 10.0]),
)
ridges_of = {
    "gram": st.one_of(ridges, st.builds(KFold, st.integers(2, 4))),
    "orthogonal": ridges,
    "recursive": st.one_of(st.sampled_from(["paper", "auto"]), st.floats(1e-3, 1e3)),
}
positive_ridges = st.floats(1e-2, 1e3)
accumulators = st.sampled_from(["gram", "orthogonal", "recursive"])
unlearning_accumulators = st.sampled_from(["gram", "recursive"])
dtypes = st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.int16])
labels = st.sampled_from(
    [("cat", "dog", "emu", "fox"), (0, 1, 2, 3), (False, True), ("a", 1, (2, "b"), None), (7,)]
)


@st.composite
def classifier_settings(draw: Any, accumulators: Any = accumulators) -> dict[str, Any]:
    """Draw the hyperparameters of a LeastSquaresClassifier."""
    accumulator = draw(accumulators)
    return {
        "ridge": draw(ridges_of[accumulator]),
        "fit_intercept": draw(st.booleans()),
        "accumulator": accumulator,
    }


@st.composite
def hidden_settings(draw: Any) -> dict[str, Any]:
    """Draw the hyperparameters of a HiddenLayer with random input weights."""
    return {
        "n_hidden": draw(st.integers(1, 24)),
        "input_weights": draw(st.sampled_from(["gaussian", "uniform", "bipolar"])),
        "activation": draw(st.sampled_from(["square", "relu", "logistic"])),
        "seed": draw(st.integers(0, 1000)),
    }


@dataclass(frozen=True)
class Rows:
    """Rows with labels and whole-number weights."""

    X: np.ndarray
    y: list[Any]
    w: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> Rows:
        """Return some of the rows."""
        rows = list(rows)
        return Rows(self.X[rows], [self.y[row] for row in rows], self.w[rows])

    def dicts(self, names: Any = None) -> list[dict[Any, float]]:
        """Return the rows as river samples, named as columns of an array are, or otherwise."""
        names = range(self.X.shape[1]) if names is None else names
        return [dict(zip(names, row, strict=True)) for row in self.X.tolist()]


@st.composite
def rows(
    draw: Any, min_rows: int = 1, max_rows: int = 24, max_features: int = 6, whole: bool = False
) -> Rows:
    """Draw rows, often rank-deficient, of any dtype: whole numbers, or such that sums round."""
    n_rows = draw(st.integers(min_rows, max_rows))
    n_features = draw(st.integers(1, max_features))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.integers(0, 6, (n_rows, n_features))
    if draw(st.booleans()):
        X[:, random.integers(n_features)] = X[:, 0]
    if draw(st.booleans()):
        X[:, random.integers(n_features)] = 0
    if not whole and draw(st.booleans()):
        # Sums round, and constants have no exact value; spread stays in sight beside the mean.
        scale, offset = draw(st.sampled_from([(0.1, 0.7), (1e-3, 0.0), (37.2, 1e3), (0.3, -5.1)]))
        X = X * scale + offset
    choice = draw(labels)
    y = [choice[k] for k in random.integers(0, len(choice), n_rows)]
    w = random.integers(0, 4, n_rows) if draw(st.booleans()) else np.ones(n_rows, dtype=np.int64)
    w[random.integers(n_rows)] = 1
    fractions = not whole and draw(st.booleans())
    return Rows(X.astype(draw(dtypes)), y, w * (random.random(n_rows) if fractions else 1.0))


@st.composite
def real_rows(
    draw: Any,
    names: tuple[Any, ...] = (),
    scales: tuple[float, ...] = (1.0, 1e-3, 1e3),
    **sizes: Any,
) -> Rows:
    """Draw rows whose targets are numbers, or dicts of numbers by name if there are names."""
    drawn = draw(rows(**sizes))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random.integers(-9, 10, (len(drawn), max(1, len(names)))) * draw(
        st.sampled_from(scales)
    )
    if draw(st.booleans()):
        values += 100.0 * draw(st.sampled_from(scales))
    y = [dict(zip(names, row, strict=True)) if names else row[0] for row in values.tolist()]
    return Rows(drawn.X, y, drawn.w)


@st.composite
def splits(draw: Any, n_rows: int) -> list[range]:
    """Draw a way to cut rows into mini-batches."""
    cuts = draw(st.sets(st.integers(1, max(1, n_rows - 1)), max_size=n_rows))
    edges = [0, *sorted(cut for cut in cuts if cut < n_rows), n_rows]
    return [range(start, stop) for start, stop in pairwise(edges)]


@st.composite
def image_data(draw: Any) -> tuple[str, bool, ImageData]:
    """Draw a format, whether its files are compressed, and an image data set to write in it."""
    kind = draw(st.sampled_from(["idx", "cifar", "svhn", "norb"]))
    zipped = kind != "cifar" and draw(st.booleans())
    n_train, n_test = draw(st.integers(5, 13)), draw(st.integers(1, 5))
    return kind, zipped, make_data(kind, n_train, n_test, draw(st.integers(0, 1000)))
