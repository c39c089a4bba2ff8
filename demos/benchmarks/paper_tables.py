"""Measure image networks on the data sets of McDonnell and Vladusich (2015), as Table 4.

python demos/benchmarks/paper_tables.py --data data
python demos/benchmarks/paper_tables.py --data data --only mnist --n-hidden 6400 --draws 1
python demos/benchmarks/paper_tables.py --data data --only svhn --filters net_weight_1 --draws 1

The folder holds any of mnist, fashion-mnist, norb, svhn and cifar10, each as a folder with the
published files, or as an .npz file (mnist.npz) with x_train, y_train, x_test and y_test. To
download one of them (for svhn, also svhn-extra into the same folder):

python demos/image_data.py norb data/norb

Every finished run is a line in a results file, so the same command resumes after an interruption.
Training images are learnt in mini-batches, so that most of the memory is that of the images, a byte
a pixel, and of the statistics: about 4 n_hidden^2 bytes, and the same again while the weights are
computed.

For svhn and cifar10, the paper uses OverFeat's filters, which may not be redistributed. Pass their
file with --filters; without it, the filters are patches of the training images. Data that cannot be
measured are listed at the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from common import (
    Array,
    ResultsFile,
    bar,
    machine,
    make_parser,
    memory,
    positive,
    print_table,
    row_slices,
    table_of,
)
from image_data import read_image_data

from onlinels import (
    ShallowConvClassifier,
    __version__,
)
from onlinels.network import preset_settings

PAPER = {"mnist": 0.37, "fashion-mnist": None, "norb": 2.21, "svhn": 3.96, "cifar10": 24.14}
"""Test errors in the paper's Table 4, in percent. Fashion-MNIST is newer than the paper."""
BATCH, PRETRAINED = 1000, ("svhn", "cifar10")
"""Images in a mini-batch, and data sets that the paper classifies with OverFeat's filters."""
OVERFEAT = {583_683_488: (96, 3, 11, 11), 578_625_952: (96, 3, 7, 7)}
"""Shapes of the first layers at the start of net_weight_0 and net_weight_1, by size of the file."""


@dataclass(frozen=True)
class Network:
    """A data set, what differs from the preset of its network, and the rows to learn."""

    name: str
    path: Path
    overrides: dict[str, Any]
    filters: str | None
    rows: int | None

    @property
    def preset(self) -> str:
        """The preset of the data set; Fashion-MNIST has that of MNIST."""
        return "mnist" if self.name == "fashion-mnist" else self.name

    def key(self, seed: int) -> dict[str, Any]:
        """Return the key of a run in the results file: everything except the paths."""
        filters = None if self.filters is None else Path(self.filters).name
        settings = {name: repr(value) for name, value in self.overrides.items()}
        known = {"data": self.name, "rows": self.rows, "seed": seed}
        return known | {"settings": settings, "filters": filters, "version": __version__}

    def batches(self, part: str, rows: int | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield mini-batches of the first `rows` images and labels."""
        data = read_image_data(self.path)
        train = data.x_train[:rows], data.y_train[:rows]
        images, labels = train if part == "train" else (data.x_test, data.y_test)
        for some in bar(row_slices(len(labels), BATCH), f"{self.name}, {part}"):
            yield images[some], labels[some]


def main() -> int:
    parser = parser_of_options()
    arguments = parser.parse_args()
    try:
        networks = find_networks(arguments)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    results, failed = ResultsFile(arguments.results), {}
    for name, network in networks.items():
        try:
            for seed in range(arguments.draws):
                results.measured(network.key(seed), measure, network, seed)
        except (BrokenProcessPool, MemoryError, OSError, ValueError) as error:
            failed[name] = str(error)
    report(
        [each for name, each in networks.items() if name not in failed], results, arguments.draws
    )
    for name, message in failed.items():
        print(f"Not measured: {name}. {message}", file=sys.stderr)
    return 1 if failed else 0


def find_networks(arguments: argparse.Namespace) -> dict[str, Network]:
    """Return the networks for the data sets in the folder."""
    found = {}
    # The paper predicts by least-squares scores.
    overrides: dict[str, Any] = {"priors": None} | dict(arguments.set)
    if arguments.n_hidden is not None:
        overrides["n_hidden"] = arguments.n_hidden
    for name in arguments.only or PAPER:
        places = arguments.data / name, arguments.data / f"{name}.npz"
        for path in [place for place in places if place.exists()][:1]:
            filters = arguments.filters if name in PRETRAINED else None
            found[name] = Network(name, path, overrides, filters, arguments.rows)
            preset_settings(found[name].preset, overrides)
    missing = [name for name in arguments.only or [] if name not in found]
    if missing or not found:
        sought = " and ".join(missing) or f"any of {', '.join(PAPER)}"
        raise FileNotFoundError(
            f"{arguments.data} does not hold {sought}, each as a folder or an .npz file."
        )
    return found


def read_filters(path: str) -> Array:
    """Read filters (n_filters, W, W[, n_channels]), and remove each one's mean per channel.

    The file is OverFeat's, an .npy file, or an .npz file whose array is named "weights".
    """
    shape = OVERFEAT.get(Path(path).stat().st_size)
    if shape is not None:
        weights = np.fromfile(path, "<f4", int(np.prod(shape))).reshape(shape)
        filters = weights.transpose(0, 2, 3, 1)
    else:
        held = np.load(path)
        filters = held if isinstance(held, np.ndarray) else held["weights"]
    return np.asarray(filters - filters.mean(axis=(1, 2), keepdims=True, dtype=float))


def setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, a setting of the network, from a command line."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}, expected NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


# -- Table 4 --------------------------------------------------------------------------------------


def measure(network: Network, seed: int) -> dict[str, float]:
    """Learn in one pass, solve and test; the time of reading files does not count."""
    settings = {**network.overrides, "seed": seed}
    if network.filters is not None:
        settings["filters"] = read_filters(network.filters)
    if network.rows is not None:
        warm_up = preset_settings(network.preset, settings)["network"]["warm_up"]
        settings["warm_up"] = min(warm_up, network.rows)
    model = ShallowConvClassifier.from_preset(network.preset, **settings)
    learning = testing = 0.0
    for images, labels in network.batches("train", network.rows):
        started = time.perf_counter()
        model.learn_many(images, labels)
        learning += time.perf_counter() - started
    started = time.perf_counter()
    _ = model.output_weights
    solving = time.perf_counter() - started
    wrong, n_test = 0, 0
    for images, labels in network.batches("test"):
        started = time.perf_counter()
        answers = model.predict_many(images)
        testing += time.perf_counter() - started
        wrong += int(np.count_nonzero(answers != labels))
        n_test += len(labels)
    return {
        "error": wrong / n_test,
        "learning": learning,
        "solving": solving,
        "testing": testing,
        "peak_memory": memory("VmHWM") / 2**30,
        "images": float(model.count),
        "filters": float(len(model.bank)),
    }


def report(networks: list[Network], results: ResultsFile, draws: int) -> None:
    """Print the table, a column for each data set."""
    columns = [cells_of(network, results, draws) for network in networks]
    if columns:
        table = table_of("", *(cells["data"] for cells in columns))
        for heading in list(columns[0])[1:]:
            table.add_row(heading, *(cells[heading] for cells in columns))
        print(machine())
        print_table(table)


def cells_of(network: Network, results: ResultsFile, draws: int) -> dict[str, str]:
    """Return the table's cells for a data set, by heading."""
    found = (results.find(network.key(seed)) for seed in range(draws))
    measured = [each for each in found if each is not None]
    errors = [100 * run["error"] for run in measured]
    paper = PAPER[network.name]
    # The paper uses OverFeat's filters here.
    kind = " (patches)" if network.name in PRETRAINED else ""
    if network.filters:
        kind = f" of {Path(network.filters).name}"
    n_hidden = preset_settings(network.preset, network.overrides)["hidden"]["n_hidden"]
    cells = {
        "data": network.name,
        "hidden units": f"{n_hidden:,}",
        "filters": f"{measured[0]['filters']:.0f}{kind}",
        "training images": f"{measured[0]['images']:,.0f}",
        "paper's best error": "" if paper is None else f"{paper:.2f}%",
        "mean error here": f"{fmean(errors):.2f}%",
        "best error here": f"{min(errors):.2f}%",
        "draws": str(len(measured)),
    }
    for part in ("learning", "solving", "testing"):
        cells[f"{part}, s"] = f"{median(run[part] for run in measured):.1f}"
    return cells | {"peak memory, GiB": f"{max(run['peak_memory'] for run in measured):.2f}"}


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    add, default = parser.add_argument, " (%(default)s)"
    add("--data", type=Path, required=True, help="folder with the data sets")
    add("--only", nargs="+", choices=PAPER, metavar="NAME", help="only these data sets (all)")
    add("--draws", type=positive, default=5, help="networks per data set" + default)
    add("--n-hidden", type=positive, help="hidden units (the preset's)")
    add("--rows", type=positive, help="training images, the first ones (all)")
    add("--filters", metavar="PATH", help="file of filters for svhn and cifar10, as in the paper")
    other = "another setting of the networks, such as warm_up=2000; may be repeated"
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help=other)
    results = Path("paper_tables.jsonl")
    add("--results", type=Path, default=results, help="file with a line per finished run" + default)
    return parser


if __name__ == "__main__":
    sys.exit(main())
