"""Tour of onlinels in one screen and one picture: streams, merging, removal, serving, explanation.

The stream is river's ImageSegments: 2,310 patches of outdoor images, each of sky, grass, brick or
four other surfaces. The demo makes it harder: the hue becomes text, a tenth of the values is
dropped, and halfway the camera is turned upside down and swaps red and blue. StreamClassifier,
river's adaptive random forest and a model that repeats the last label predict each row and then
learn it.

The patients are those of scikit-learn's breast cancer data, with the largest values of eight
measurements. Nine of ten benign tumours are at the site "north", and nine of ten malignant tumours
at the site "south". The models of the sites are merged, and the patient with the largest tumour is
removed. A second process loads the saved model, predicts the largest of the other tumours, and
explains the prediction.

python demos/tour.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from rich.console import Console
from river import datasets, dummy, forest
from show import (
    BLUE,
    DASHED,
    GREY,
    INK,
    VERMILLION,
    figure,
    label_ends,
    make_parser,
    mark_shares,
    moving_accuracy,
    note,
    progress_bar,
    table_of,
)
from sklearn.datasets import load_breast_cancer
from threadpoolctl import threadpool_limits

import onlinels
from onlinels import LeastSquaresClassifier, StreamClassifier

Patients = tuple[list[dict[str, float]], list[str]]
Panel = tuple[str, dict[str, float], str]  # The title of a plot, its values, and their format.

N_ROWS, QUICK_ROWS = 2310, 400
GAPS = 0.1
RECENT_ROWS = 200
COLOURS = {"StreamClassifier": BLUE, "river ARF": VERMILLION, "last label": GREY}
COLUMNS = [20, 21, 24, 25, 26, 27, 28, 29]
"""The largest values ("worst"), without perimeter and area, which follow from the radius."""
N_TEST = 200
SERVER = """
import json, os, sys, onlinels
from onlinels.explain import feature_effects
model, x = onlinels.load(sys.argv[1]), json.load(sys.stdin)
answer = model.predict_one(x)
print(json.dumps([os.getpid(), answer, model.scores_one(x), feature_effects(model, x)[answer]]))
"""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "tour.png")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_ROWS} rows to stream")
    arguments = parser.parse_args(argv)
    console = Console()
    n_rows = QUICK_ROWS if arguments.quick else N_ROWS
    # On small matrices, several BLAS threads are slower than one, most of all on busy cores.
    with threadpool_limits(1, user_api="blas"):
        hits = follow_stream(n_rows, console)
        panels = follow_patients(console)
    draw(arguments.output, hits, panels)
    console.print(f"Picture: {arguments.output}")


# -- a stream with drift, text and gaps -----------------------------------------------------------


def harder_stream(n_rows: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield rows of ImageSegments with text instead of the hue, with gaps, and with drift."""
    chance = Random(0)  # noqa: S311 (not for secrets)
    rows = datasets.ImageSegments().take(n_rows)  # type: ignore[no-untyped-call]
    for number, (row, label) in enumerate(rows):
        x: dict[str, Any] = dict(row)
        if number >= n_rows // 2:
            for kind in ("raw", "ex"):
                red, blue = f"{kind}red-mean", f"{kind}blue-mean"
                x[red], x[blue] = x[blue], x[red]
            # The lines of an image, from 11 to 251.
            x["region-centroid-row"] = 262 - x["region-centroid-row"]
        del x["hue-mean"]
        x["hue"] = max(("red", "green", "blue"), key=lambda colour: x[f"ex{colour}-mean"])
        yield {name: value for name, value in x.items() if chance.random() >= GAPS}, label


def follow_stream(n_rows: int, console: Console) -> dict[str, NDArray[np.bool_]]:
    """Return for each model whether its predictions, made before it learnt a row, were correct."""
    made = StreamClassifier(), forest.ARFClassifier(seed=0), dummy.NoChangeClassifier()
    models: dict[str, Any] = dict(zip(COLOURS, made, strict=True))
    hits = {name: np.zeros(n_rows, dtype=bool) for name in models}
    seconds = dict.fromkeys(models, 0.0)
    console.print(
        f"ImageSegments, with the hue as text and {GAPS:.0%} of the values dropped. "
        f"From row {n_rows // 2 + 1:,} on, upside down, and red and blue swapped."
    )
    with progress_bar(console) as progress:
        task = progress.add_task("", total=n_rows)
        for number, (x, label) in enumerate(harder_stream(n_rows)):
            for name, model in models.items():
                began = time.perf_counter()
                hits[name][number] = model.predict_one(x) == label
                model.learn_one(x, label)
                seconds[name] += time.perf_counter() - began
            shares = (f"{name} {each[: number + 1].mean():.0%}" for name, each in hits.items())
            progress.update(task, advance=1, description=", ".join(shares))
    table = table_of("predicted, then learnt", "before the drift", "after", "all", "ms per row")
    half = n_rows // 2
    for name, each in hits.items():
        parts = (f"{part.mean():.1%}" for part in (each[:half], each[half:], each))
        table.add_row(name, *parts, f"{1e3 * seconds[name] / n_rows:.2f}")
    console.print(table)
    return hits


# -- patients of two sites ------------------------------------------------------------------------


def read_patients() -> tuple[Patients, Patients, Patients]:
    """Return the patients of north and south, and those of the test."""
    data, random = load_breast_cancer(), np.random.default_rng(0)
    names = [name.removeprefix("worst ") for name in data.feature_names[COLUMNS]]
    labels = data.target_names[data.target]
    order = random.permutation(len(labels))
    test, train = order[:N_TEST], order[N_TEST:]
    is_north = random.random(len(train)) < np.where(labels[train] == "benign", 0.9, 0.1)

    def chosen(rows: NDArray[Any]) -> Patients:
        values = data.data[rows][:, COLUMNS].tolist()
        return [dict(zip(names, row, strict=True)) for row in values], labels[rows].tolist()

    return chosen(train[is_north]), chosen(train[~is_north]), chosen(test)


def learn(X: list[dict[str, float]], y: list[str]) -> LeastSquaresClassifier:
    model = LeastSquaresClassifier()
    model.learn_many(X, y)
    return model


def accuracy(model: LeastSquaresClassifier, X: list[dict[str, float]], y: list[str]) -> float:
    return float(np.mean(np.equal(model.predict_many(X), y)))


def follow_patients(console: Console) -> list[Panel]:
    """Merge the models of two sites, remove a patient, and serve the model in a second process."""
    (X_north, y_north), (X_south, y_south), (X_test, y_test) = read_patients()
    north, south = learn(X_north, y_north), learn(X_south, y_south)
    merged, removed = north + south, north + south
    X, y = X_north + X_south, y_north + y_south
    batch = learn(X, y)
    largest = max(range(len(X)), key=lambda row: X[row]["radius"])
    removed.unlearn_one(X.pop(largest), y.pop(largest))
    never = learn(X, y)
    for model in (north, south, batch, never, merged, removed):
        model.select_ridge()  # From all rows: ridge="auto" otherwise waits for a checkpoint.
    models = {"north": north, "south": south, "merged": merged}
    accuracies = {
        f"{name}, {model.count} patients": accuracy(model, X_test, y_test)
        for name, model in models.items()
    }
    differences = {
        "merged and one batch": onlinels.difference(merged, batch),
        "removed and never seen": onlinels.difference(removed, never),
        "control: still in": onlinels.difference(merged, never),
    }
    title = f"Breast cancer: accuracy on {N_TEST} new patients, and difference of models"
    table = table_of("model", "accuracy", "compared", "difference", title=title)
    for (name, right), (pair, far) in zip(accuracies.items(), differences.items(), strict=True):
        table.add_row(name, f"{right:.1%}", pair, f"{far:.0e}")
    console.print(table)
    x = max(X_test, key=lambda x: x["radius"])
    process, answer, scores, effects = serve(removed, x)
    far = max(abs(score - scores[name]) for name, score in removed.scores_one(x).items())
    console.print(
        f"Process {process} loads the saved model: its scores differ from those here by {far:g}."
    )
    effects = dict(sorted(effects.items(), key=lambda item: -abs(item[1]))[:5])
    reasons = [f"{name} {x[name]:.3g} ({effect:+.2f})" for name, effect in effects.items()]
    console.print(
        f"It predicts {answer} with the score {scores[answer]:.2f}. "
        f"Largest effects: {', '.join(reasons[:3])}."
    )
    return [
        (f"accuracy on {N_TEST} new patients", accuracies, "{:.1%}"),
        ("relative difference of two models", differences, "{:.0e}"),
        (f"why {answer}: effects on the score", effects, "{:+.2f}"),
    ]


def serve(model: LeastSquaresClassifier, x: dict[str, float]) -> Any:
    """Return what a second process answers, which loads the model from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.npz")
        model.save(file)
        done = subprocess.run(  # noqa: S603 (a fixed command)
            [sys.executable, "-c", SERVER, file],
            input=json.dumps(x),
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout)


# -- the picture ----------------------------------------------------------------------------------


def draw(path: Path, hits: dict[str, NDArray[np.bool_]], panels: list[Panel]) -> None:
    """Draw the stream above, and the patients below."""
    heading = "A stream that drifts, two sites that merge, and a patient who is removed"
    with figure(path, 12, 7.6, heading) as made:
        grid = made.add_gridspec(2, 1, height_ratios=(1.25, 1))
        draw_stream(made.add_subfigure(grid[0, 0]).subplots(), hits)
        below = made.add_subfigure(grid[1, 0]).subplots(1, 3)
        for axes, panel in zip(below, panels, strict=True):
            draw_values(axes, *panel)
        below[0].xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        below[1].set(xscale="log", xlim=(1e-16, 1e3), xticks=[1e-15, 1e-10, 1e-5, 1.0])


def draw_stream(axes: Axes, hits: dict[str, NDArray[np.bool_]]) -> None:
    """Draw the moving accuracy of all models, and the row from which the stream is different."""
    window, ends = min(RECENT_ROWS, len(hits["last label"]) // 4), []
    for name, each in hits.items():
        recent = moving_accuracy(each, window)
        axes.plot(np.arange(window, len(each) + 1), recent[window - 1 :], color=COLOURS[name], lw=2)
        ends.append((float(recent[-1]), f"{name}: {each.mean():.1%} of all", COLOURS[name]))
    axes.set(xlim=(0, len(each)), ylim=(0, 1.02))
    half = len(each) // 2
    axes.axvline(half, color=INK, linewidth=1.2, linestyle=DASHED)
    note(axes, half, "from here on, upside down, red and blue swapped", INK)
    title = f"accuracy over the last {window} patches, each predicted and then learnt"
    axes.set_title(title, loc="left", size=11)
    mark_shares(axes, "patches of outdoor images, with text and gaps")
    label_ends(axes, ends, gap=0.08)


def draw_values(axes: Axes, title: str, values: dict[str, float], style: str) -> None:
    """Draw a bar for each value, with its name and the value as text."""
    places = np.arange(len(values))[::-1]
    colours = [VERMILLION if name.startswith("control") else BLUE for name in values]
    bars = axes.barh(places, list(values.values()), 0.6, color=colours)
    axes.bar_label(bars, [style.format(value) for value in values.values()], padding=4)
    names = [name.replace(", ", "\n").replace(" and ", "\nand ") for name in values]
    axes.set_yticks(places, names)
    axes.set_title(title, loc="left", size=11)
    axes.margins(x=0.25)
    axes.tick_params(axis="y", length=0)


if __name__ == "__main__":
    main()
