"""Compare ways to select the ridge with the best ridge in hindsight, and time the selection.

python demos/benchmarks/ridge.py
python demos/benchmarks/ridge.py --data folder    (more data sets: .npz files with arrays x, y)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import (
    Array,
    Floats,
    bar,
    folder_of_arrays,
    in_words,
    machine,
    make_parser,
    positive,
    print_table,
    seconds_of,
    table_of,
    table_of_stream,
    tables_of,
)
from rich.table import Table
from river import datasets as streams
from sklearn import datasets
from sklearn.linear_model import RidgeCV

from onlinels import HiddenLayer, KFold, LeastSquaresClassifier, LeastSquaresRegressor

BEST = "hindsight"
"""The ridge with the smallest squared error on the held-out rows."""
OURS: dict[str, Any] = {"auto": "auto", "KFold(5)": KFold(5), "paper": "paper"}
"""The package's own methods; the others are implemented in this file."""
MOST_ROWS = 6000
"""Most rows of a data set; a larger one is sampled at random."""
LAYERS = [(0, ""), (200, "square"), (200, "relu"), (500, "square"), (500, "relu")]
SHARES = (0.7, 0.2)


@dataclass(frozen=True, eq=False)
class Case:
    """Rows, labels (or one numeric target), kind of features, and share of rows to learn."""

    name: str
    x: Floats
    y: Array
    n_hidden: int
    activation: str
    share: float

    @property
    def classifies(self) -> bool:
        """Whether the targets are labels."""
        return self.name not in ("diabetes", "TrumpApproval")


@dataclass(frozen=True)
class Result:
    """Errors of every method's ridge on held-out rows, and of the best ridge in hindsight."""

    n_train: int
    n_test: int
    n_features: int
    ratios: dict[str, float]
    errors: dict[str, float]

    def excess(self, name: str) -> float:
        """Return a method's test error minus that of the best ridge, in its standard errors."""
        best = self.errors[BEST]
        deviation = np.sqrt(max(best * (1.0 - best), 1e-9) / self.n_test)
        return float((self.errors[name] - best) / deviation)


Results = dict[Case, list[Result]]


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=folder_of_arrays, help="folder of .npz files with arrays x and y")
    add("--seeds", type=positive, default=5, help="random splits of each data set")
    add(
        "--random",
        type=positive,
        default=500,
        help="random problems with light tails, and as many with heavy tails",
    )
    add("--quick", action="store_true", help="four data sets, none of --data, small sizes")
    arguments = parser.parse_args()
    print(f"{machine()}, {arguments.seeds} random splits of each data set")
    print_table(random_table(20 if arguments.quick else arguments.random))
    results = {
        case: [run(case, seed) for seed in range(arguments.seeds)]
        for case in bar(list(cases(arguments)), "Choosing ridges")
    }
    print_table(ratio_table(results))
    print_table(error_table(results))
    print_table(summary_table(results))
    print_table(cost_table([100, 300] if arguments.quick else [100, 300, 1000, 3000]))


# -- what is tried --------------------------------------------------------------------------------


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Yield every data set raw and with hidden units, with many and with few training rows."""
    for name, x, y in read_all(arguments):
        for n_hidden, activation in LAYERS[:3] if arguments.quick else LAYERS:
            for share in SHARES:
                yield Case(name, x, y, n_hidden, activation, share)


def read_all(arguments: argparse.Namespace) -> Iterator[tuple[str, Floats, Array]]:
    """Yield data sets of scikit-learn and river, and those in a folder."""
    for name in ("digits", "wine", "breast_cancer", "diabetes"):
        bunch = getattr(datasets, f"load_{name}")()
        yield name, bunch.data, bunch.target
    if not arguments.quick:
        for name in ("Phishing", "Bananas", "ImageSegments", "TrumpApproval"):
            yield name, *table_of_stream(getattr(streams, name)())
        yield from tables_of(arguments.data)


def split(case: Case, seed: int) -> tuple[Floats, Array, int]:
    """Return rows in random order, standardised by the training rows, which come first."""
    order = np.random.default_rng(seed).permutation(len(case.x))[:MOST_ROWS]
    n_train = int(case.share * len(order))
    x, y = case.x[order], case.y[order]
    deviation = x[:n_train].std(axis=0)
    x = (x - x[:n_train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    if case.n_hidden:
        layer = HiddenLayer(case.n_hidden, activation=case.activation, seed=seed, bias=False)
        x = layer.transform_many(x / np.sqrt(x.shape[1]))
    return x, y, n_train


class Rotated:
    """Centred training rows in the eigenvectors of their Gram.

    At ridge c, the weights are V diag(1 / (s + c)) V'A'Y for the eigenvalues s and eigenvectors V
    of A'A. The errors of all ridges follow without reading the rows again.
    """

    def __init__(self, x: Floats, y: Floats) -> None:
        self.means = x.mean(axis=0), y.mean(axis=0)
        centred, targets = x - self.means[0], y - self.means[1]
        eigenvalues, self.vectors = np.linalg.eigh(centred.T @ centred)
        self.eigenvalues = np.maximum(eigenvalues, 0.0)
        self.cross = self.vectors.T @ (centred.T @ targets)
        self.n = len(x)
        self.squares = float((targets**2).sum())
        # The candidate ridges, eight per decade.
        top = np.log10(self.eigenvalues[-1])
        self.ridges = 10.0 ** (np.arange(np.ceil(8 * (top - 13)), np.floor(8 * (top + 3))) / 8)

    def weights(self, ridge: float) -> Floats:
        """Return the output weights in the directions of the eigenvectors."""
        found: Floats = self.cross / (self.eigenvalues + ridge)[:, None]
        return found

    def scores(self, ridge: float, x: Floats) -> Floats:
        """Return the outputs for other rows."""
        found: Floats = (x - self.means[0]) @ (self.vectors @ self.weights(ridge)) + self.means[1]
        return found

    def held_out(self, ridges: Floats, x: Floats, y: Floats) -> Floats:
        """Return the sum of squared errors on other rows for every ridge."""
        rows, targets = (x - self.means[0]) @ self.vectors, y - self.means[1]
        gram, cross, squares = rows.T @ rows, rows.T @ targets, (targets**2).sum()
        weights = (self.weights(ridge) for ridge in ridges)
        return np.array([squares + (w * (gram @ w - 2.0 * cross)).sum() for w in weights])

    def criteria(self) -> dict[str, Floats]:
        """Return the logarithms of criteria computed from the statistics, for every ridge."""
        present = self.eigenvalues > 1e-13 * self.eigenvalues[-1]
        explained = (self.cross[present] ** 2).sum(axis=1) / self.eigenvalues[present]
        left = max(self.squares - explained.sum(), 1e-14 * self.squares)
        shrunk = self.ridges / (self.eigenvalues[:, None] + self.ridges)
        parameters = 1.0 + (1.0 - shrunk).sum(axis=0)
        errors = left + explained @ shrunk[present] ** 2

        def gcv(inflation: float) -> Floats:
            freedom = self.n - inflation * parameters
            possible = np.maximum(freedom, 1e-300)
            found: Floats = np.where(
                freedom > 1e-9 * self.n, np.log(errors) - 2 * np.log(possible), np.inf
            )
            return found

        traces = 1.0 + ((1.0 - shrunk) ** 2).sum(axis=0)
        complexity = -np.log(shrunk).sum(axis=0) / (self.n - 1)
        return {
            "GCV": gcv(1.0),
            "GCV 1.2": gcv(1.2),
            "GCV 1.4": gcv(1.4),
            # (gamma + (1 - gamma) tr(H^2) / n) GCV, gamma = 0.3 (Lukas 2006).
            "robust GCV": gcv(1.0) + np.log(0.3 + 0.7 * traces / self.n),
            "REML": np.log(left + explained @ shrunk[present]) + complexity,
        }


def run(case: Case, seed: int) -> Result:
    """Learn the training rows of a random split, select ridges, and test them on the others."""
    x, y, n_train = split(case, seed)
    targets = (y[:, None] == np.unique(y)) if case.classifies else y[:, None]
    targets = targets.astype(float)
    train = Rotated(x[:n_train], targets[:n_train])
    ridges = {name: our_ridge(case, how, x[:n_train], y[:n_train]) for name, how in OURS.items()}
    ridges["paper"] = max(ridges["paper"], float(train.ridges[0]))
    for name, criterion in train.criteria().items():
        # The largest of the best ridges.
        ridges[name] = float(train.ridges[np.flatnonzero(criterion <= criterion.min() + 1e-9)[-1]])
    # 16 ridges per decade, twice as many as the candidates.
    tried = np.concatenate([train.ridges, train.ridges * 10 ** (1 / 16), list(ridges.values())])
    squares = train.held_out(tried, x[n_train:], targets[n_train:])
    chosen = {BEST: float(tried[np.argmin(squares)])} | ridges
    errors = dict.fromkeys(chosen, np.nan)
    if case.classifies:
        for name, ridge in chosen.items():
            answers = train.scores(ridge, x[n_train:]).argmax(axis=1)
            errors[name] = float(np.mean(answers != targets[n_train:].argmax(axis=1)))
    relative = [1.0, *(squares[2 * len(train.ridges) :] / squares.min()).tolist()]
    ratios = dict(zip(chosen, relative, strict=True))
    return Result(n_train, len(x) - n_train, x.shape[1], ratios, errors)


def our_ridge(case: Case, ridge: Any, x: Floats, y: Array) -> float:
    """Return the ridge that a model selects from all rows: merging selects it anew."""
    make = LeastSquaresClassifier if case.classifies else LeastSquaresRegressor
    parts = []
    for part in (slice(0, -1), slice(-1, None)):
        model: Any = make(ridge, scaling=None)
        model.learn_many(x[part], y[part].tolist())
        parts.append(model)
    return float((parts[0] + parts[1]).ridge_)


# -- random problems ------------------------------------------------------------------------------


def random_problem(random: Any, heavy: bool) -> tuple[Floats, Floats, int]:
    """Return rows, targets and the number of training rows (at least 32, with 20 features or more).

    Features are independent, correlated, in different units, or indicators; few of them or all of
    them matter. With heavy tails, features and noise have Student's t distribution with two degrees
    of freedom.
    """
    n_train, size = (int(np.exp(random.uniform(*np.log(each)))) for each in ((32, 2000), (20, 200)))
    n_rows, kind = n_train + 3000, random.choice(["plain", "correlated", "units", "indicators"])
    x = random.standard_t(2, (n_rows, size)) if heavy else random.normal(size=(n_rows, size))
    spread = np.arange(1.0, size + 1.0) ** -random.choice([0.0, 0.0, 0.5, 1.0, 2.0])
    if kind == "indicators":
        x = (x < random.uniform(-2.0, 0.0, size)).astype(float)
    elif kind == "correlated":
        x = (x * spread) @ np.linalg.qr(random.normal(size=(size, size)))[0]
    else:
        x = x * spread * (10.0 ** random.uniform(-1.0, 1.0, size) if kind == "units" else 1.0)
    weights = random.normal(size=size) * random.choice([0.1, 1.0], size, p=[0.5, 0.5])
    signal = x @ weights
    noise = random.standard_t(2, n_rows) if heavy else random.normal(size=n_rows)
    ratio = 10.0 ** random.uniform(-1.0, 2.0)
    return x, signal + noise * (np.std(signal[:n_train]) or 1.0) / np.sqrt(ratio), n_train


def random_table(n_problems: int) -> Table:
    """Return a table of held-out squared errors relative to the best ridge, over problems."""
    columns = "tails", "method", "median", "99%", "share above 2", "worst"
    title = f"Random problems, {n_problems} each: held-out MSE / best in hindsight"
    table = table_of(*columns, title=title)
    for tails in ("light", "heavy"):
        ratios: dict[str, list[float]] = {"auto": [], "leave-one-out": []}
        for seed in bar(range(n_problems), f"Random, {tails}"):
            x, y, n_train = random_problem(np.random.default_rng(seed), tails == "heavy")
            train = Rotated(x[:n_train], y[:n_train, None])
            model = LeastSquaresRegressor(scaling=None)
            model.learn_many(x[:n_train], y[:n_train])
            beside = RidgeCV(alphas=train.ridges[::2]).fit(x[:n_train], y[:n_train])
            chosen = np.array([model.ridge_, beside.alpha_])
            errors = train.held_out(np.append(train.ridges, chosen), x[n_train:], y[n_train:, None])
            for name, error in zip(ratios, errors[-2:], strict=True):
                ratios[name].append(float(error / errors.min()))
        for name, found in ratios.items():
            above = float(np.mean(np.array(found) > 2.0))
            median, most = np.quantile(found, [0.5, 0.99])
            figures = f"{median:.4f}", f"{most:.3f}", f"{above:.2%}", f"{max(found):.3g}"
            table.add_row(tails, name, *figures)
    return table


# -- tables ---------------------------------------------------------------------------------------


def labels_of(case: Case, runs: list[Result]) -> list[str]:
    features = f"{case.n_hidden} {case.activation}" if case.n_hidden else "raw"
    return [case.name, features, str(runs[0].n_train), str(runs[0].n_features)]


def ratio_table(results: Results) -> Table:
    """Return a table of held-out squared errors relative to the best ridge, medians over splits."""
    methods = list(next(iter(results.values()))[0].ratios)[1:]
    title = "Held-out MSE / best in hindsight"
    table = table_of("data", "features", "n", "M", *methods, title=title)
    for case, runs in results.items():
        medians = [np.median([run.ratios[name] for run in runs]) for name in methods]
        table.add_row(*labels_of(case, runs), *(f"{median:.3f}" for median in medians))
    return table


def error_table(results: Results) -> Table:
    """Return a table of test errors minus those of the best ridge, medians over splits."""
    columns = ("data", "features", "n", "M", "test error at the best ridge", *OURS)
    title = "Test error above that of the best ridge, in standard errors"
    table = table_of(*columns, title=title)
    for case, runs in results.items():
        if case.classifies:
            medians = [np.median([run.excess(name) for run in runs]) for name in OURS]
            best = f"{np.median([run.errors[BEST] for run in runs]):.2%}"
            table.add_row(*labels_of(case, runs), best, *(f"{median:+.2f}" for median in medians))
    return table


def summary_table(results: Results) -> Table:
    """Return a table of every method's figures over all cases with one kind of features."""
    columns = ["cases", "method", "MSE ratio: median case", "within 2%", "within 5%", "worst case"]
    table = table_of(*columns, "mean test error", "within one standard error", title="All cases")
    groups: dict[str, list[list[Result]]] = {}
    for case, runs in results.items():
        few = "n < 2 M" if runs[0].n_train < 2 * runs[0].n_features else "n >= 2 M"
        groups.setdefault(f"{case.activation or 'raw'}, {few}", []).append(runs)
    for group, chosen in sorted(groups.items()):
        for name in chosen[0][0].ratios:
            table.add_row(f"{len(chosen)} {group}", name, *summary(chosen, name))
    return table


def summary(chosen: list[list[Result]], name: str) -> list[str]:
    medians = np.array([np.median([run.ratios[name] for run in runs]) for runs in chosen])
    figures = [
        f"{np.median(medians):.3f}",
        f"{np.mean(medians <= 1.02):.0%}",
        f"{np.mean(medians <= 1.05):.0%}",
        f"{medians.max():.4g}",
    ]
    tested = [runs for runs in chosen if not np.isnan(runs[0].errors[name])]
    if not tested:
        return figures
    errors = np.mean([[run.errors[name] for run in runs] for runs in tested])
    excess = np.array([np.median([run.excess(name) for run in runs]) for runs in tested])
    return [*figures, f"{errors:.2%}", f"{np.mean(excess <= 1.0):.0%}"]


def cost_table(sizes: list[int]) -> Table:
    """Return a table of the time of a solution at a given ridge, and with selecting the ridge."""
    columns = "M", "solve", "auto", "auto / solve", "auto, raw features", "KFold(5)"
    table = table_of(*columns, title="Cost, 10 targets")
    for size in sizes:
        settings: list[Any] = [(1.0, None), ("auto", "auto"), ("auto", None), (KFold(5), None)]
        solve, auto, plain, folds = (cost(ridge, scaling, size) for ridge, scaling in settings)
        times = in_words(solve), in_words(auto), f"{auto / solve:.1f}", in_words(plain)
        table.add_row(str(size), *times, in_words(folds))
    return table


def cost(ridge: Any, scaling: Any, size: int, repeats: int = 3) -> float:
    """Return the seconds from a changed model to its weights: merging selects the ridge anew."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2 * size, size)), (np.arange(2 * size) % 10).tolist()
    model, row = (LeastSquaresClassifier(ridge, scaling=scaling) for _ in range(2))
    model.learn_many(x, y)
    row.learn_many(x[:1], y[:1])

    def choose_and_solve() -> None:
        model.merge(row)
        _ = model.output_weights

    return min(seconds_of(choose_and_solve) for _ in range(repeats))


if __name__ == "__main__":
    main()
