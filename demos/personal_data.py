"""Merge the models of three hospitals, and unlearn the patients of one hospital exactly.

The data are the 569 breast tumours of scikit-learn, with 30 measurements each. The demo distributes
them to three sites with different shares of malignant tumours. Sites send files of statistics, not
rows. To withdraw patients, a site passes their rows again, so that the model can unlearn them.
After every step, the demo compares the weights with a batch solution in numpy on the rows that the
model should contain.

python demos/personal_data.py
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from rich.console import Console
from show import BLUE, GREEN, GREY, VERMILLION, figure, make_parser, table_of
from sklearn.datasets import load_breast_cancer

from onlinels import HiddenLayer, LeastSquaresClassifier, load

Array = NDArray[Any]

SITES = "north", "south", "west"
MALIGN_SHARES = (0.2, 0.4, 0.6)
RIDGE = 0.1
N_TEST = 150
LABELS = "benign", "malign"


@dataclass(frozen=True)
class Rows:
    """Activations and labels of some patients."""

    activations: Array
    labels: Array

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            np.concatenate([self.activations, other.activations]),
            np.concatenate([self.labels, other.labels]),
        )

    def __getitem__(self, rows: Any) -> Rows:
        return Rows(self.activations[rows], self.labels[rows])


@dataclass(frozen=True)
class Step:
    """A model, its accuracy, and its difference to the batch weights of its rows."""

    name: str
    count: int
    accuracy: float
    difference: float
    colour: str


def main(argv: list[str] | None = None) -> None:
    output = make_parser(__doc__, "personal_data.png").parse_args(argv).output
    sites, test = deal(*read())
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{name}.npz") for name in SITES}
        for name, file in files.items():
            learn(sites[name]).save(file)
        sent = sum(file.stat().st_size for file in files.values())
        models = {name: load(file) for name, file in files.items()}
    console.print(f"Three sites sent {sent / 1024:.0f} KiB of statistics and no rows.")
    steps = merge_and_withdraw(sites, models, test)
    table = table_of("model", "patients", f"accuracy on {N_TEST} others", "difference to batch")
    for step in steps:
        cells = str(step.count), f"{step.accuracy:.1%}", f"{step.difference:.0e}"
        table.add_row(step.name, *cells)
    console.print(table)
    draw(output, steps)
    console.print(f"Picture: {output}")


def read() -> tuple[Array, Array]:
    """Return activations and labels of all patients. All sites use the same units."""
    measurements, benign = load_breast_cancer(return_X_y=True)
    units = 10.0 ** np.ceil(np.log10(measurements.max(axis=0)))
    # The same seed gives the same hidden units everywhere.
    hidden = HiddenLayer(100, activation="relu", bias=True, seed=0)
    return hidden.transform_many(measurements / units), np.array(LABELS)[1 - benign]


def deal(activations: Array, labels: Array) -> tuple[dict[str, Rows], Rows]:
    """Distribute patients to the sites, malignant tumours unequally, and to the test."""
    random = np.random.default_rng(0)
    order = random.permutation(len(labels))
    test, train = order[:N_TEST], order[N_TEST:]
    shares = np.where(labels[train, None] == "malign", MALIGN_SHARES, MALIGN_SHARES[::-1])
    up_to = shares.cumsum(axis=1) / shares.sum(axis=1, keepdims=True)
    site = (random.random((len(train), 1)) > up_to).sum(axis=1)
    patients = Rows(activations, labels)
    rows = {name: patients[train[site == number]] for number, name in enumerate(SITES)}
    return rows, patients[test]


def learn(rows: Rows) -> LeastSquaresClassifier:
    model = LeastSquaresClassifier(ridge=RIDGE)
    model.learn_many(rows.activations, rows.labels)
    return model


def merge_and_withdraw(
    sites: dict[str, Rows], models: dict[str, LeastSquaresClassifier], test: Rows
) -> list[Step]:
    """Merge the sites, and unlearn one patient or one site."""
    north, south, west = (sites[name] for name in SITES)

    def step(name: str, model: LeastSquaresClassifier, rows: Rows, colour: str) -> Step:
        right = np.asarray(model.predict_many(test.activations)) == test.labels
        return Step(name, model.count, float(right.mean()), difference(model, rows), colour)

    def merged() -> LeastSquaresClassifier:
        return models["north"] + models["south"] + models["west"]

    one_less, site_less = merged(), merged()
    one_less.unlearn_many(north.activations[:1], north.labels[:1])
    site_less.unlearn_many(west.activations, west.labels)
    return [
        *(step(f"{name} alone", models[name], sites[name], GREY) for name in SITES),
        step("all three merged", merged(), north + south + west, BLUE),
        step("without one patient", one_less, north[1:] + south + west, GREEN),
        step("without west", site_less, north + south, VERMILLION),
    ]


def difference(model: LeastSquaresClassifier, rows: Rows) -> float:
    """Return the largest difference to the batch weights, divided by the largest weight."""
    targets = (rows.labels[:, None] == np.array(model.classes)).astype(float)
    centred = rows.activations - rows.activations.mean(axis=0)
    system = centred.T @ centred + RIDGE * np.eye(centred.shape[1])
    batch = np.linalg.solve(system, centred.T @ (targets - targets.mean(axis=0)))
    return float(np.abs(model.output_weights - batch).max() / np.abs(batch).max())


def draw(path: Path, steps: list[Step]) -> None:
    """Draw the accuracy and the difference to the batch weights of each model."""
    names = [f"{step.name}\n{step.count} patients" for step in steps]
    colours = [step.colour for step in steps]
    places = np.arange(len(steps))[::-1]
    with figure(path, 11, 5, "Sites learn, merge and withdraw") as made:
        left, right = made.subplots(1, 2, sharey=True)
        accuracies = [step.accuracy for step in steps]
        left.scatter(accuracies, places, s=80, color=colours)
        left.set_yticks(places, names)
        left.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        left.set_title(f"accuracy on {N_TEST} other patients", loc="left", size=11)
        right.scatter([step.difference for step in steps], places, s=80, color=colours)
        right.set(xscale="log", xlim=(1e-16, 1.0))
        right.set_title("largest relative difference to batch weights", loc="left", size=11)
        for axes in (left, right):
            axes.tick_params(axis="y", length=0)
            axes.grid()


if __name__ == "__main__":
    main()
