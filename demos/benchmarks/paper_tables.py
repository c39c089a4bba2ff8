"""Re-run Table 4 and Figure 2 of McDonnell and Vladusich (2015) on the data that a folder holds.

python demos/benchmarks/paper_tables.py --data folder
python demos/benchmarks/paper_tables.py --data folder --draws 1 --n-hidden 1000 --rows 10000

The folder holds any of mnist, fashion-mnist, norb, svhn and cifar10: a folder each with the files
in their genuine format, or an .npz file (mnist.npz) with x_train, y_train, x_test and y_test.
Every finished run is a line in a results file; an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from paper_figure import draw_figure, measure_curve
from paper_runs import NETWORKS, Network, Run, run_network
from results_file import ResultsFile
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from onlinels.presets import PRESETS


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    found = find_data(arguments.data)
    if not found:
        parser.error(
            f"{arguments.data} holds none of {', '.join(NETWORKS)} (a folder or .npz each)"
        )
    console = Console()
    results = ResultsFile(arguments.results)
    for name, path in found.items():
        for seed in range(arguments.draws):
            run = Run(
                name, str(path), arguments.n_hidden, seed, arguments.rows, arguments.batch_size
            )
            if results.find(run.key) is None:
                console.print(f"{name}: draw {seed + 1} of {arguments.draws}")
                results.add(run.key, run_network(run))
    console.print(table(results, list(found), arguments))
    if arguments.figure_draws and "mnist" in found:
        curve = measure_curve(found["mnist"], results, arguments)
        draw_figure(curve, arguments.figure)
        console.print(f"Error against hidden units: {arguments.figure}")


def find_data(folder: Path) -> dict[str, Path]:
    """Return the data sets that lie in a folder, by name."""
    places = {name: (folder / name, folder / f"{name}.npz") for name in NETWORKS}
    return {
        name: next(place for place in both if place.exists())
        for name, both in places.items()
        if any(place.exists() for place in both)
    }


def table(results: ResultsFile, names: list[str], arguments: argparse.Namespace) -> Table:
    """Set what was measured beside what the paper reports."""
    shown = Table(
        box=SIMPLE,
        title=f"{os.cpu_count()} cores, {arguments.draws} draws, one pass over the training rows",
    )
    for heading in (
        "data",
        "hidden units",
        "test error in the paper",
        "here: mean",
        "best",
        "seconds: learning",
        "solving",
        "testing",
        "peak memory, GiB",
    ):
        shown.add_column(heading, justify="right")
    for name in names:
        shown.add_row(*cells(name, results, arguments))
    return shown


def cells(name: str, results: ResultsFile, arguments: argparse.Namespace) -> list[str]:
    network: Network = NETWORKS[name]
    keys = [
        Run(name, "", arguments.n_hidden, seed, arguments.rows, arguments.batch_size).key
        for seed in range(arguments.draws)
    ]
    measured = [found for key in keys if (found := results.find(key)) is not None]
    errors = [run["error"] for run in measured]
    middle = {
        part: sorted(run[part] for run in measured)[len(measured) // 2]
        for part in ("learning", "solving", "testing", "peak_memory")
    }
    in_paper = "" if network.paper_error is None else f"{network.paper_error:.2f}%"
    return [
        name,
        str(arguments.n_hidden or PRESETS[network.preset]["n_hidden"]),
        in_paper,
        f"{100 * sum(errors) / len(errors):.2f}%",
        f"{100 * min(errors):.2f}%",
        f"{middle['learning']:.0f}",
        f"{middle['solving']:.0f}",
        f"{middle['testing']:.0f}",
        f"{middle['peak_memory']:.2f}",
    ]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--draws", type=int, default=5, help="networks per data set (%(default)s)")
    parser.add_argument("--n-hidden", type=int, help="hidden units (the preset's)")
    parser.add_argument("--rows", type=int, help="training rows (all)")
    parser.add_argument("--batch-size", type=int, default=1000, help="rows at a time (%(default)s)")
    parser.add_argument(
        "--figure-draws",
        type=int,
        default=10,
        help="draws of the input weights for the curve of error against hidden units, 0 for none "
        "(%(default)s)",
    )
    parser.add_argument(
        "--figure", type=Path, default=Path("paper_figure.png"), help="picture (%(default)s)"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("paper_tables.jsonl"),
        help="results so far, a line per run (%(default)s)",
    )
    parser.add_argument(
        "--cache", type=Path, help="folder to keep the curve's features in between commands (none)"
    )
    return parser


if __name__ == "__main__":
    main()
