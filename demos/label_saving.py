"""Ask for a label only when unsure: accuracy against labels asked, beside asking at random.

A stream of scikit-learn's 8x8 digits passes once. For every image the model says how easy it finds
it, and a keeper of the budget decides whether its label is asked for; only then is it learnt. Three
ways to tell what is easy are compared at the same budgets, on images that were held out:

- at random: whatever the image is,
- small margin: by how much the highest score exceeds the next (`margin_one`),
- margin in deviations: that, divided by its standard deviation (`variance_one`).

The keeper moves its threshold with every image, so that the stated share of labels is asked: down
with every label asked for and up with every other, as in the variable uncertainty strategy of
I. Zliobaite, A. Bifet, B. Pfahringer and G. Holmes, "Active Learning With Drifting Streaming Data",
IEEE Transactions on Neural Networks and Learning Systems 25(1), 2014. Here the steps balance where
the stated share is asked for, and nothing is asked for that cannot be paid.

python demos/label_saving.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter, PercentFormatter
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from show import (
    BLUE,
    DASHED,
    GREY,
    INK,
    VERMILLION,
    figure,
    make_parser,
    progress_bar,
    table_of,
)
from sklearn.datasets import load_digits

from onlinels import HiddenLayer, LeastSquaresClassifier

Array = NDArray[Any]
Sample = dict[str, Array]

N_TEST = 597
SHARES, N_HIDDEN, N_SEEDS = (0.05, 0.1, 0.2, 0.4), 150, 5
QUICK_SHARES, QUICK_HIDDEN, QUICK_SEEDS = (0.1, 0.2), 60, 3


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "label_saving.png")
    few = f"{QUICK_SEEDS} streams, {QUICK_HIDDEN} hidden units"
    parser.add_argument("--quick", action="store_true", help=few)
    arguments = parser.parse_args(argv)
    console = Console()
    if arguments.quick:
        results = compare(QUICK_SHARES, QUICK_HIDDEN, QUICK_SEEDS, console)
    else:
        results = compare(SHARES, N_HIDDEN, N_SEEDS, console)
    console.print(summary(results))
    draw(arguments.output, results)
    console.print(f"Picture: {arguments.output}")


# -- when to ask ----------------------------------------------------------------------------------


def at_random(_: LeastSquaresClassifier, __: Sample, chance: np.random.Generator) -> float:
    return chance.random()


def small_margin(model: LeastSquaresClassifier, x: Sample, _: np.random.Generator) -> float:
    return model.margin_one(x)


def margin_in_deviations(model: LeastSquaresClassifier, x: Sample, _: np.random.Generator) -> float:
    """Return the margin over the standard deviation of the two scores it lies between."""
    if len(model.classes) < 2:
        return 0.0
    scores, variances = model.scores_one(x), model.variance_one(x)
    first, second = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
    return model.margin_one(x) / math.sqrt(variances[first] + variances[second])


STRATEGIES: dict[str, Callable[[LeastSquaresClassifier, Sample, np.random.Generator], float]] = {
    "at random": at_random,
    "small margin": small_margin,
    "margin in deviations": margin_in_deviations,
}


class BudgetKeeper:
    """Ask about the hardest share of a stream, whatever the scale on which ease is measured.

    Parameters
    ----------
    share : float
        Of labels that are asked for.
    step : float
        By how much the logarithm of the threshold moves, down times 1 - share, up times share.
    allowance : int
        Labels that may be asked for ahead of the share: the first ones teach most.
    """

    def __init__(self, share: float, step: float = 0.05, allowance: int = 10) -> None:
        self.share, self.step, self.allowance = share, step, allowance
        self.threshold, self.n_seen, self.n_asked = 1.0, 0, 0

    def asks(self, ease: float) -> bool:
        """Tell whether to ask for the label of the next sample."""
        self.n_seen += 1
        if self.n_asked >= self.allowance + self.share * self.n_seen:
            # What cannot be paid for says nothing about the threshold.
            return False
        asks = ease < self.threshold
        self.threshold *= math.exp(self.step * (self.share - asks))
        self.n_asked += asks
        return asks


# -- the streams ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """Activations of images in the order of the stream, of those held out, and their labels."""

    stream: Array
    labels: Array
    test: Array
    test_labels: Array


@dataclass(frozen=True)
class Results:
    """What every strategy came to, by budget (rows) and seed (columns).

    Parameters
    ----------
    shares : tuple of float
        The budgets.
    asked, right : dict of ndarray (n_shares, n_seeds)
        Labels asked, and share of held-out rows read right, by strategy.
    of_all : ndarray (n_seeds,)
        Share of held-out rows read right once all labels are learnt.
    n_rows : int
        Rows of a stream.
    """

    shares: tuple[float, ...]
    asked: dict[str, Array]
    right: dict[str, Array]
    of_all: Array
    n_rows: int


def compare(shares: tuple[float, ...], n_hidden: int, n_seeds: int, console: Console) -> Results:
    """Pass the stream once for every strategy, share and seed."""
    asked = {name: np.zeros((len(shares), n_seeds)) for name in STRATEGIES}
    right = {name: np.zeros((len(shares), n_seeds)) for name in STRATEGIES}
    of_all = np.zeros(n_seeds)
    with progress_bar(console) as progress:
        task = progress.add_task("streams", total=n_seeds * len(shares) * len(STRATEGIES))
        for seed in range(n_seeds):
            digits = deal(n_hidden, seed)
            of_all[seed] = accuracy(learn_all(digits), digits)
            for (row, share), name in product(enumerate(shares), STRATEGIES):
                model = learn_some(digits, name, share, seed)
                asked[name][row, seed] = model.count
                right[name][row, seed] = accuracy(model, digits)
                progress.advance(task)
    return Results(shares, asked, right, of_all, len(digits.labels))


def deal(n_hidden: int, seed: int) -> Digits:
    """Shuffle the images, hold some out, and bring them through a hidden layer of its own."""
    images, labels = load_digits(return_X_y=True)
    hidden = HiddenLayer(n_hidden, activation="relu", bias=True, seed=seed)
    activations = hidden.transform_many(images / 16.0)
    test, stream = np.split(np.random.default_rng(seed).permutation(len(labels)), [N_TEST])
    return Digits(activations[stream], labels[stream], activations[test], labels[test])


def learn_some(digits: Digits, strategy: str, share: float, seed: int) -> LeastSquaresClassifier:
    """Pass the stream once, and learn the images whose labels are asked for."""
    model, keeper = LeastSquaresClassifier(), BudgetKeeper(share)
    ease_of, chance = STRATEGIES[strategy], np.random.default_rng(seed)
    for activations, label in zip(digits.stream, digits.labels.tolist(), strict=True):
        x = {"h": activations}
        if keeper.asks(ease_of(model, x, chance)):
            model.learn_one(x, label)
    return model


def learn_all(digits: Digits) -> LeastSquaresClassifier:
    model = LeastSquaresClassifier()
    model.learn_many([{"h": row} for row in digits.stream], digits.labels)
    return model


def accuracy(model: LeastSquaresClassifier, digits: Digits) -> float:
    predicted = model.predict_many([{"h": row} for row in digits.test])
    return float(np.mean(np.array(predicted) == digits.test_labels))


# -- what came of it ------------------------------------------------------------------------------


def summary(results: Results) -> Table:
    table = table_of("budget", *STRATEGIES, title="Labels asked, and held-out digits read right")
    for row, share in enumerate(results.shares):
        cells = [
            f"{results.asked[name][row].mean():.0f}: {results.right[name][row].mean():.1%} "
            f"± {100 * results.right[name][row].std():.1f}"
            for name in STRATEGIES
        ]
        table.add_row(f"{share:.0%}", *cells)
    table.add_row("all labels", f"{results.of_all.mean():.1%}", "", "")
    return table


def draw(path: Path, results: Results) -> None:
    """Draw means and standard deviations over seeds."""
    with figure(path, 8.5, 5.6) as made:
        axes = made.add_subplot()
        axes.set_title("Ask only when unsure", loc="left", size=15, weight="bold", pad=12)
        streams = f"mean and standard deviation of {len(results.of_all)} streams"
        axes.set_title(streams, loc="right", size=9.5, color=GREY, pad=12)
        all_labels = float(results.of_all.mean())
        axes.axhline(all_labels, color=INK, linewidth=1.2, linestyle=DASHED)
        text = f"all {results.n_rows:,} labels: {all_labels:.1%}"
        foot = axes.get_yaxis_transform()
        axes.text(0.01, all_labels, text, transform=foot, va="bottom", size=9.5)
        styles = ((GREY, "s"), (BLUE, "o"), (VERMILLION, "D"))
        for (name, right), (colour, marker) in zip(results.right.items(), styles, strict=True):
            asked = results.asked[name].mean(axis=1) / results.n_rows
            mean, spread = right.mean(axis=1), right.std(axis=1)
            band = mean - spread, mean + spread
            axes.fill_between(asked, *band, color=colour, alpha=0.15, linewidth=0)
            axes.plot(asked, mean, color=colour, marker=marker, linewidth=2.2, label=name)
        axes.set_xscale("log")
        axes.set_xticks(results.shares)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.set_xlabel(f"labels asked, of {results.n_rows:,} in the stream")
        axes.set_ylabel(f"right of {N_TEST} held-out digits")
        axes.legend(loc="lower right", frameon=False, reverse=True)


if __name__ == "__main__":
    main()
