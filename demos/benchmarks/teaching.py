"""Measure how many lessons by hand a sign needs, and how long a lesson takes (demos/teach).

python demos/benchmarks/teaching.py --data mnist.npz
python demos/benchmarks/teaching.py               # without the accuracies: only the times

A simulated writer teaches ten digits, and every drawing is tested in turn by a model that has not
learnt it: the model unlearns the drawing, predicts it, and learns it again. The drawings are rows
of MNIST. They are of many hands (any rows), or of one hand (one row for each digit, turned, scaled
and slanted at random for each drawing). In the third case, the model has learnt scikit-learn's
digits except one, and the writer teaches this tenth digit with rows of many hands. The tenth digit
then comes from another source than the other nine, which may make it easy to recognise. In the
fourth case, the same model predicts rows of MNIST of the other nine digits: what the tenth costs.

The times are those of the server's own functions, the journal on the disk included. Between a
lesson and the next prediction, the model is saved if a save is due: the server does so once it has
answered.
"""

from __future__ import annotations

import os

# As in the demo.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from common import Array, Floats, bar, machine, make_parser, positive, print_table, table_of
from image_data import read_image_data
from matplotlib.axes import Axes
from scipy.ndimage import affine_transform
from show import BLUE, GREEN, GREY, VERMILLION, figure, label_ends, mark_shares
from teach.drawing import digits
from teach.kinds import blank
from teach.server import Browsers, change, predict

LESSONS = 1, 2, 5, 10
NEW, OTHERS = "a tenth digit", "the other nine digits"
COLOURS = {"one hand": BLUE, "many hands": VERMILLION, NEW: GREEN, OTHERS: GREY}


def main() -> None:
    parser = make_parser(__doc__, "teaching.png")
    parser.add_argument("--data", type=Path, help="MNIST: published files, or an .npz file")
    parser.add_argument("--writers", type=positive, default=20, help="simulated (%(default)s)")
    parser.add_argument("--drawings", type=positive, default=1000, help="timed (%(default)s)")
    arguments = parser.parse_args()
    print(machine())
    shares: dict[str, list[float]] = {}
    if arguments.data:
        data = read_image_data(arguments.data)
        shares = measure(data.x_test, data.y_test.ravel().astype(str), arguments.writers)
        table = table_of("right after lessons for each sign", *map(str, LESSONS))
        for name, values in shares.items():
            table.add_row(name, *(f"{share:.1%}" for share in values))
        print_table(table)
    times = time_lessons(arguments.drawings)
    table = table_of("milliseconds", "median", "99%", "longest", "median of the last 100")
    for name, taken in times.items():
        figures = np.median(taken), np.quantile(taken, 0.99), taken.max(), np.median(taken[-100:])
        table.add_row(name, *(f"{1e3 * each:.1f}" for each in figures))
    print_table(table)
    with figure(arguments.output, 10, 4) as made:
        left, right = made.subplots(1, 2)
        draw_shares(left, shares)
        draw_times(right, times)


def measure(images: Array, labels: Array, n_writers: int) -> dict[str, list[float]]:
    """Return for each kind of drawings the share recognised after lessons."""
    without = {sign: taught_without(sign) for sign in np.unique(labels).tolist()}
    found = {name: np.zeros((n_writers, len(LESSONS))) for name in COLOURS}
    for writer in bar(range(n_writers), "Writers", n_writers):
        random = np.random.default_rng(writer)
        for place, n_lessons in enumerate(LESSONS):
            signs = np.unique(labels).repeat(n_lessons + 1)
            many = np.concatenate([drawn(random, labels, each, n_lessons + 1) for each in without])
            one = drawn(random, labels, np.unique(labels), 1).repeat(n_lessons + 1)
            varied = np.stack([distorted(random, image) for image in images[one]])
            new = str(random.integers(10))
            is_new, beside = signs == new, without[new] + without[new].empty()
            for name, model, drawings, names in (
                ("one hand", blank().empty(), varied, signs),
                ("many hands", blank().empty(), images[many], signs),
                (NEW, beside, images[many[is_new]], signs[is_new]),
            ):
                found[name][writer, place] = left_out(model, drawings, names)
            guesses = beside.predict_many(images[many[~is_new]])
            found[OTHERS][writer, place] = np.mean(guesses == signs[~is_new])
    return {name: shares.mean(axis=0).tolist() for name, shares in found.items()}


def drawn(random: np.random.Generator, labels: Array, signs: Any, n: int) -> Array:
    """Return the numbers of `n` rows of each sign."""
    places = [random.choice(np.flatnonzero(labels == each), n, False) for each in np.ravel(signs)]
    return np.concatenate(places)


def taught_without(sign: str) -> Any:
    """Return a model of scikit-learn's digits except one."""
    images, labels = digits()
    others = np.array(labels) != sign
    model = blank().empty()
    model.learn_many(images[others], np.array(labels)[others])
    return model


def left_out(model: Any, images: Array, labels: Array) -> float:
    """Return the share of drawings recognised by a model of all others."""
    model.learn_many(images, labels)
    hits = []
    for image, label in zip(images, labels.tolist(), strict=True):
        model.unlearn_one(image, label)
        hits.append(model.predict_one(image) == label)
        model.learn_one(image, label)
    return float(np.mean(hits))


def distorted(random: np.random.Generator, image: Array) -> Array:
    """Return an image turned, scaled, slanted and moved at random, about its middle."""
    turn, slant = random.normal(0.0, [0.12, 0.12])
    matrix = np.diag(random.normal(1.0, 0.1, 2)) @ [
        [np.cos(turn), -np.sin(turn)],
        [np.sin(turn) + slant, np.cos(turn)],
    ]
    offset = 13.5 - matrix @ (13.5 + random.normal(0.0, 0.5, 2))
    return np.asarray(affine_transform(image, matrix, offset, order=1))


def time_lessons(n_drawings: int) -> dict[str, Floats]:
    """Return the seconds of predictions and lessons, of twenty signs in turn."""
    random = np.random.default_rng(0)
    signs = random.uniform(100, 900, (20, 6, 2))
    predictions, lessons = [], []
    with tempfile.TemporaryDirectory() as folder:
        browsers, cookie = Browsers(Path(folder)), "0" * 32
        for number in bar(range(n_drawings), "Lessons", n_drawings):
            strokes = [(signs[number % 20] + random.normal(0.0, 30.0, (6, 2))).tolist()]
            data = {"do": "teach", "image": strokes, "label": f"sign {number % 20}"}
            times = [perf_counter()]
            for function, sent in ((predict, strokes), (change, data)):
                browsers.work(cookie, function, sent, 60)
                times.append(perf_counter())
            browsers.save(cookie)  # The server does this once it has answered.
            predictions.append(times[1] - times[0])
            lessons.append(times[2] - times[1])
    return {"prediction": np.array(predictions), "lesson": np.array(lessons)}


def draw_shares(axes: Axes, shares: dict[str, list[float]]) -> None:
    axes.set_title("Drawings recognised, each by a model of all others")
    if not shares:
        return
    mark_shares(axes, "lessons for each sign")
    for name, values in shares.items():
        axes.plot(LESSONS, values, "o-", color=COLOURS[name], lw=2, ms=5)
    axes.set(xticks=LESSONS, ylim=(0.0, 1.02))
    label_ends(axes, [(values[-1], name, COLOURS[name]) for name, values in shares.items()], 0.07)


def draw_times(axes: Axes, times: dict[str, Floats]) -> None:
    axes.set_title(f"Times of {len(times['lesson']):,} predictions and lessons")
    bins = np.geomspace(0.5, 100.0, 60).tolist()
    for (name, taken), colour in zip(times.items(), (BLUE, VERMILLION), strict=True):
        axes.hist(1e3 * taken, bins, color=colour, alpha=0.8, label=name)
    axes.set(xscale="log", xlabel="milliseconds", ylabel="number")
    axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.legend(frameon=False)


if __name__ == "__main__":
    main()
