"""Save labels: request the label of an image only if the model is uncertain about it.

The demo makes one pass over a stream of scikit-learn's 8x8 digits. For every image, a strategy
measures how certain the model is, and a budget decides whether to request the label. Only images
with a label are learnt. The demo compares three strategies at equal budgets on held-out images:

- at random: certainty is a random number,
- small margin: the highest score minus the second highest (`margin_one`),
- margin in deviations: this margin divided by its standard deviation (`variance_one`).

The budget lowers its threshold after each requested label and raises it after each other image, so
that the share of requested labels approaches the budget. This follows the variable uncertainty
strategy of I. Zliobaite, A. Bifet, B. Pfahringer and G. Holmes, "Active Learning With Drifting
Streaming Data", IEEE Transactions on Neural Networks and Learning Systems 25(1), 2014. In contrast
to that strategy, the sizes of the two steps balance at the budget, and no label beyond the budget
is requested.

python demos/label_saving.py            # half a minute
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
from threadpoolctl import threadpool_limits

from onlinels import HiddenLayer, LeastSquaresClassifier

Array = NDArray[Any]
Sample = dict[str, Array]

N_TEST = 597
SHARES, N_HIDDEN, N_SEEDS = (0.05, 0.1, 0.2, 0.4), 150, 5
QUICK_SHARES, QUICK_HIDDEN, QUICK_SEEDS = (0.1, 0.2), 60, 3


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "label_saving.png")
    few = f"only {QUICK_SEEDS} streams and {QUICK_HIDDEN} hidden units"
    parser.add_argument("--quick", action="store_true", help=few)
    arguments = parser.parse_args(argv)
    console = Console()
    # On small matrices, several BLAS threads are slower than one, most of all on busy cores.
    with threadpool_limits(1, user_api="blas"):
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
    """Return the margin divided by the standard deviation of the difference of its scores."""
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
    """Request labels for the least certain share of a stream, for any scale of certainty.

    Parameters
    ----------
    share : float
        Share of labels that are requested.
    step : float
        The logarithm of the threshold falls by step (1 - share), or rises by step times share.
    allowance : int
        Labels that may be requested before the share allows them: the first labels help most.
    """

    def __init__(self, share: float, step: float = 0.05, allowance: int = 10) -> None:
        self.share, self.step, self.allowance = share, step, allowance
        self.threshold, self.n_seen, self.n_asked = 1.0, 0, 0

    def asks(self, ease: float) -> bool:
        """Tell whether to request the label of the next sample."""
        self.n_seen += 1
        if self.n_asked >= self.allowance + self.share * self.n_seen:
            # An image beyond the budget does not change the threshold.
            return False
        asks = ease < self.threshold
        self.threshold *= math.exp(self.step * (self.share - asks))
        self.n_asked += asks
        return asks


# -- the streams ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """Activations and labels of the stream, in its order, and of the held-out images."""

    stream: Array
    labels: Array
    test: Array
    test_labels: Array


@dataclass(frozen=True)
class Results:
    """Results of every strategy, by budget (rows) and seed (columns).

    Parameters
    ----------
    shares : tuple of float
        The budgets.
    asked, right : dict of ndarray (n_shares, n_seeds)
        Requested labels, and accuracy on held-out rows, by strategy.
    of_all : ndarray (n_seeds,)
        Accuracy on held-out rows after all labels are learnt.
    n_rows : int
        Rows of a stream.
    """

    shares: tuple[float, ...]
    asked: dict[str, Array]
    right: dict[str, Array]
    of_all: Array
    n_rows: int


def compare(shares: tuple[float, ...], n_hidden: int, n_seeds: int, console: Console) -> Results:
    """Make one pass over the stream for every strategy, share and seed."""
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
    """Shuffle the images, hold some out, and compute their activations in a new hidden layer."""
    images, labels = load_digits(return_X_y=True)
    hidden = HiddenLayer(n_hidden, activation="relu", bias=True, seed=seed)
    activations = hidden.transform_many(images / 16.0)
    test, stream = np.split(np.random.default_rng(seed).permutation(len(labels)), [N_TEST])
    return Digits(activations[stream], labels[stream], activations[test], labels[test])


def learn_some(digits: Digits, strategy: str, share: float, seed: int) -> LeastSquaresClassifier:
    """Make one pass over the stream, and learn the images whose labels are requested."""
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


# -- the results ----------------------------------------------------------------------------------


def summary(results: Results) -> Table:
    table = table_of("budget", *STRATEGIES, title="Requested labels: accuracy on held-out digits")
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
