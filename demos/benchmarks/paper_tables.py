"""Re-run Table 4 and Figure 2 of McDonnell and Vladusich (2015) on the data that a folder holds.

python demos/benchmarks/paper_tables.py --data data
python demos/benchmarks/paper_tables.py --data data --only norb --markdown norb.md
python demos/benchmarks/paper_tables.py --data data --only svhn --filters net_weight_1 --draws 1
python demos/benchmarks/paper_tables.py --data data --draws 1 --n-hidden 1000 --rows 10000

The folder holds any of mnist, fashion-mnist, norb, svhn and cifar10: a folder each with the files
as they are published, or an .npz file (mnist.npz) with x_train, y_train, x_test and y_test. To get
one of them (for svhn, svhn-extra into the same folder too):

python -c "from onlinels.datasets import download; download('norb', 'data/norb')"

Every finished run is a line in a results file: the same command goes on where an interruption
stopped it. Training images are read in mini-batches, so that memory is mostly that of the
statistics: about 4 n_hidden^2 bytes, and as much again while they are solved.

In the paper the filters of svhn and cifar10 are OverFeat's, which may not be passed on. Name their
file with --filters; without it patches of the training images stand in. Data that cannot be
measured are named at the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from own_process import CallFailedError, call_alone, until_interrupted
from paper_figure import check_settings, measure_curve
from paper_options import make_parser, read_overrides
from paper_report import Plan, commands, markdown, notes, terminal_table
from paper_runs import NETWORKS, DataSet, Run, Settings
from results_file import ResultsFile
from rich.console import Console


def main(argv: list[str] | None = None) -> int:
    parser = make_parser(__doc__)
    arguments = parser.parse_args(argv)
    try:
        found = find_data(arguments.data, arguments.only)
        overrides = {name: read_overrides(name, arguments) for name in found}
        if arguments.figure_draws and "mnist" in found:
            check_settings(overrides["mnist"])
        results = ResultsFile(arguments.results)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    return until_interrupted(lambda: measure_all(found, overrides, results, arguments))


def measure_all(
    found: dict[str, Path],
    overrides: Mapping[str, Settings],
    results: ResultsFile,
    arguments: argparse.Namespace,
) -> int:
    """Measure what is not in the results yet, and report; return the exit code."""
    failed: dict[str, str] = {}
    plans: dict[str, Plan] = {}
    for name, path in found.items():
        try:
            data = DataSet.open(name, path, arguments.rows)
            filters = arguments.filters.get(name)
            plans[name] = Plan(data, overrides[name], filters, arguments)
            measure_draws(plans[name].runs, results)
        except (CallFailedError, OSError, ValueError) as error:
            failed[name] = str(error)
            print(f"{name}: {error}", file=sys.stderr)
    report(list(plans.values()), results, arguments)
    if arguments.figure_draws and "mnist" in plans and "mnist" not in failed:
        try:
            make_figure(plans["mnist"], results, arguments)
        except (CallFailedError, OSError, ValueError) as error:
            failed["figure"] = str(error)
    for name, message in failed.items():
        print(f"Not measured: {name}. {message}", file=sys.stderr)
    return 1 if failed else 0


def measure_draws(runs: list[Run], results: ResultsFile) -> None:
    """Measure the draws that are not in the results yet, each in a process of its own."""
    for run in runs:
        if results.find(run.key) is None:
            print(f"{run.data.name}: draw {run.seed + 1} of {len(runs)}", file=sys.stderr)
            results.add(run.key, call_alone(Run.measure, run))


def report(plans: list[Plan], results: ResultsFile, arguments: argparse.Namespace) -> None:
    """Print the table and the commands that reproduce it, and write them as markdown."""
    measured = [plan for plan in plans if plan.measured(results)]
    if not measured:
        return
    console = Console(highlight=False, markup=False)
    console.print(terminal_table(measured, results))
    console.print(notes(measured), end="\n\n")
    for command in commands(measured):
        console.print(command, soft_wrap=True)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(measured, results), "utf-8")


def make_figure(plan: Plan, results: ResultsFile, arguments: argparse.Namespace) -> None:
    """Measure and draw the error against the number of hidden units."""
    curve = measure_curve(
        plan.data, plan.overrides, arguments.figure_draws, results, arguments.cache
    )
    # Imported here: no other process, and no command without a figure, needs matplotlib.
    from paper_plot import draw_figure

    draw_figure(curve, plan.data.rows, arguments.figure)
    print(f"Error against hidden units: {arguments.figure}")


def find_data(folder: Path, only: list[str] | None) -> dict[str, Path]:
    """Return the data sets that lie in a folder, by name.

    Raises
    ------
    FileNotFoundError
        If there is none, or one that was asked for is not there.
    """
    places = {name: (folder / name, folder / f"{name}.npz") for name in NETWORKS}
    found = {
        name: next(place for place in both if place.exists())
        for name, both in places.items()
        if any(place.exists() for place in both) and name in (only or NETWORKS)
    }
    missing = [name for name in only or [] if name not in found]
    if missing or not found:
        sought = " and ".join(missing) or f"any of {', '.join(NETWORKS)}"
        raise FileNotFoundError(f"{folder} does not hold {sought}, a folder or .npz file each.")
    return found


if __name__ == "__main__":
    sys.exit(main())
