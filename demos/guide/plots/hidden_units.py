"""Draw the test error on 8x8 digits against hidden units: five seeds, 1,000 images learnt."""

from __future__ import annotations

import numpy as np
from drawing import BLUE, figure, output_of
from matplotlib.ticker import PercentFormatter, ScalarFormatter
from rich.progress import track
from sklearn.datasets import load_digits

from onlinels import ShallowConvClassifier

N_HIDDEN = [25, 50, 100, 200, 400, 800, 1600]
N_SEEDS, N_LEARNT = 5, 1000


def main() -> None:
    output = output_of(__doc__, "hidden-units")
    images, labels = load_digits(return_X_y=True)
    errors = np.zeros((len(N_HIDDEN), N_SEEDS))
    for k, n_hidden in enumerate(track(N_HIDDEN, "hidden units")):
        for seed in range(N_SEEDS):
            order = np.random.default_rng(seed).permutation(len(images))
            learnt, held_out = np.split(order, [N_LEARNT])
            model = ShallowConvClassifier.from_preset("digits", n_hidden=n_hidden, seed=seed)
            model.learn_many(images[learnt], labels[learnt])
            errors[k, seed] = np.mean(model.predict_many(images[held_out]) != labels[held_out])
    means = errors.mean(1)
    with figure(output, 6.0, 3.6) as made:
        axes = made.add_subplot()
        axes.fill_between(N_HIDDEN, errors.min(1), errors.max(1), color=BLUE, alpha=0.15, lw=0)
        axes.loglog(N_HIDDEN, means, "o-", color=BLUE, lw=1.8)
        for n_hidden, mean in zip(N_HIDDEN, means, strict=True):
            axes.annotate(f"{mean:.1%}", (n_hidden, mean), (0, 8), textcoords="offset points")
        axes.set_title("Error on digits held out: mean and range")
        axes.set_xlabel("hidden units")
        axes.set_xticks(N_HIDDEN)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter("")
        axes.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2])
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(bottom=0.002)
        axes.grid(axis="y")


if __name__ == "__main__":
    main()
