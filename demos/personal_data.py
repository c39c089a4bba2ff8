"""Three hospitals learn apart, merge, and one takes its patients out again: as if never learnt.

The data are scikit-learn's 569 tumours of the breast, 30 measurements each, dealt to three sites
with different shares of malign ones. Sites send files of statistics, not rows; whoever withdraws
shows the rows once more, so that they can be taken out. After every step the weights are compared
with those that plain numpy solves at once from the rows that should be in.

python demos/personal_data.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]

from onlinels import HiddenLayer, LeastSquaresClassifier, load

Array = NDArray[Any]

SITES = "north", "south", "west"
MALIGN_SHARES = (0.2, 0.4, 0.6)
RIDGE = 0.1
N_TEST = 150
LABELS = "benign", "malign"


@dataclass(frozen=True)
class Rows:
    """Activations of some patients, and what they had."""

    activations: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def without(self, place: int) -> Rows:
        """Return all rows but one."""
        return Rows(np.delete(self.activations, place, axis=0), np.delete(self.labels, place))


@dataclass(frozen=True)
class Step:
    """A model, and the rows that it should know."""

    name: str
    model: LeastSquaresClassifier
    rows: Rows


def main() -> None:
    sites, test = deal(*read())
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{name}.npz") for name in SITES}
        for name, file in files.items():
            learn(sites[name]).save(file)
        sent = sum(file.stat().st_size for file in files.values())
        models = {name: load(file) for name, file in files.items()}
    console = Console()
    console.print(f"Sent: {sent / 1024:.0f} KiB of statistics from three sites, and no row.")
    table = Table(
        "model", "patients", f"right of {N_TEST} others", "difference to batch", box=SIMPLE
    )
    for step in steps(sites, models):
        table.add_row(
            step.name,
            str(step.model.count),
            f"{accuracy(step.model, test):.1%}",
            f"{difference(step.model, step.rows):.0e}",
        )
    console.print(table)


def read() -> tuple[Array, Array]:
    """Return activations of all patients, in units that the sites agreed on, and labels."""
    measurements, benign = load_breast_cancer(return_X_y=True)
    units = 10.0 ** np.ceil(np.log10(measurements.max(axis=0)))
    # The same seed gives the same hidden units everywhere.
    hidden = HiddenLayer(100, activation="relu", bias=True, seed=0)
    return hidden.transform_many(measurements / units), np.array(LABELS)[1 - benign]


def deal(activations: Array, labels: Array) -> tuple[dict[str, Rows], Rows]:
    """Deal patients to the sites, malign tumours in unequal shares, and keep some for testing."""
    random = np.random.default_rng(0)
    order = random.permutation(len(labels))
    test, train = order[:N_TEST], order[N_TEST:]
    shares = np.where(labels[train, None] == "malign", MALIGN_SHARES, MALIGN_SHARES[::-1])
    up_to = shares.cumsum(axis=1) / shares.sum(axis=1, keepdims=True)
    site = (random.random((len(train), 1)) > up_to).sum(axis=1)
    rows = {
        name: Rows(activations[train[site == number]], labels[train[site == number]])
        for number, name in enumerate(SITES)
    }
    return rows, Rows(activations[test], labels[test])


def learn(rows: Rows) -> LeastSquaresClassifier:
    model = LeastSquaresClassifier(ridge=RIDGE)
    model.learn_many(rows.activations, rows.labels)
    return model


def steps(sites: dict[str, Rows], models: dict[str, LeastSquaresClassifier]) -> list[Step]:
    """Merge the sites, and take one patient and then one site out again."""
    north, south, west = (sites[name] for name in SITES)
    alone = [Step(f"{name} alone", models[name], sites[name]) for name in SITES]
    merged = models["north"] + models["south"] + models["west"]
    all_rows = joined([north, south, west])
    one_less = models["north"] + models["south"] + models["west"]
    one_less.unlearn_many(north.activations[:1], north.labels[:1])
    site_less = models["north"] + models["south"] + models["west"]
    site_less.unlearn_many(west.activations, west.labels)
    return [
        *alone,
        Step("all three, merged", merged, all_rows),
        Step("less one patient", one_less, all_rows.without(0)),
        Step("without west", site_less, joined([north, south])),
    ]


def joined(parts: Sequence[Rows]) -> Rows:
    return Rows(
        np.concatenate([part.activations for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )


def accuracy(model: LeastSquaresClassifier, rows: Rows) -> float:
    return float(np.mean(np.asarray(model.predict_many(rows.activations)) == rows.labels))


def difference(model: LeastSquaresClassifier, rows: Rows) -> float:
    """Return the largest difference to the batch weights, relative to the largest of these."""
    targets = (rows.labels[:, None] == np.array(model.classes)).astype(float)
    centred = rows.activations - rows.activations.mean(axis=0)
    system = centred.T @ centred + RIDGE * np.eye(centred.shape[1])
    batch = np.linalg.solve(system, centred.T @ (targets - targets.mean(axis=0)))
    return float(np.abs(model.output_weights - batch).max() / np.abs(batch).max())


if __name__ == "__main__":
    main()
