"""Compare classifiers on streams, row by row: each row is predicted, then learnt.

python demos/benchmarks/streams.py
python demos/benchmarks/streams.py --data folder    (elec2, gas and wisdm, too: .npz files)
python demos/benchmarks/streams.py --quick          (seconds)

Accuracy, Cohen's kappa, log-loss, microseconds a row and bytes of the pickled model, as tables
(tables.md) and a figure (streams.png), in the folder that --out names. Every run is a line of
results.jsonl there: an interrupted command goes on where it stopped. What streams_peers.py has
added to that file stands in the same tables.
"""

from __future__ import annotations

import one_thread as one_thread

# isort: split
import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from command_line import folder_of_arrays, positive
from own_process import until_interrupted
from results_file import ResultsFile
from rich.console import Console
from rich.progress import track
from stream_figure import draw
from stream_models import MODELS, OURS, PEER, QUICK
from stream_runs import Factory, Plan, collect, machine, measure, versions
from stream_sources import NAMES, Source, find_sources
from stream_tables import make_sheets, summary

QUICK_STREAMS = ("Phishing", "ImageSegments", "SEA")
QUICK_ROWS = 300


def main(argv: list[str] | None = None) -> int:
    parser = make_parser(__doc__, list(MODELS), list(QUICK))
    arguments = read_arguments(parser, argv)
    try:
        results = ResultsFile(arguments.out / "results.jsonl")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    plan = Plan(arguments.rows, arguments.repeats, versions("river", "numpy", "scipy"))
    factories = {name: MODELS[name] for name in arguments.models}

    def compare() -> int:
        sources = choose_sources(arguments)
        failed = measure_missing(plan, factories, sources, results, arguments)
        report(plan, sources, list(factories), results, arguments.out)
        return exit_code(failed)

    return until_interrupted(compare)


def choose_sources(arguments: argparse.Namespace) -> dict[str, Source]:
    """Return the streams that were asked for and are there, and say why others are not."""
    sources, absent = find_sources(arguments.data)
    for name in arguments.streams:
        if name in absent:
            print(f"{name} left out: {absent[name]}", file=sys.stderr)
    return {name: sources[name] for name in arguments.streams if name in sources}


def measure_missing(
    plan: Plan,
    factories: Mapping[str, Factory],
    sources: Mapping[str, Source],
    results: ResultsFile,
    arguments: argparse.Namespace,
) -> dict[str, str]:
    """Measure what is not in the results yet; return what went wrong, by model and stream."""
    missing = plan.missing(sources, factories, results)
    console = Console(stderr=True)
    runs = track(missing, f"{len(missing)} runs", console=console, disable=not arguments.progress)
    return measure(plan, runs, sources, factories, results)


def exit_code(failed: Mapping[str, str]) -> int:
    """Say what could not be measured."""
    for name, message in failed.items():
        print(f"Not measured: {name}. {message}", file=sys.stderr)
    return 1 if failed else 0


def report(
    plan: Plan, streams: Iterable[str], models: list[str], results: ResultsFile, folder: Path
) -> None:
    """Print the tables and the summary, write them as markdown, and draw the figure."""
    measured = collect(plan, streams, results)
    known = {model for found in measured.values() for model in found}
    models = [model for model in models if model in known] + sorted(known - set(MODELS))
    if not models:
        return
    sheets = make_sheets(measured, models, PEER)
    lines = [*summary(measured, OURS, PEER), *conditions(plan, results)]
    console = Console(width=170, force_jupyter=False, highlight=False)
    for sheet in sheets:
        console.print(sheet.terminal())
    for line in lines:
        console.print(line, soft_wrap=True)
    tables = [sheet.markdown() for sheet in sheets]
    text = "\n".join([*tables, *(f"- {line}" for line in lines), ""])
    (folder / "tables.md").write_text(text, "utf-8")
    if draw(measured, models, folder / "streams.png"):
        print(f"Accuracy against time: {folder / 'streams.png'}")


def conditions(plan: Plan, results: ResultsFile) -> list[str]:
    """Say where, how often and with which versions the models were measured."""
    versions_of_all: dict[str, str] = {}
    for run, _ in results.matching(plan.conditions):
        versions_of_all |= run["versions"]
    used = ", ".join(f"{name} {number}" for name, number in versions_of_all.items())
    where = machine()
    return [
        f"{where['processor']}, {where['cores']} cores, one thread; medians of {plan.repeats}.",
        f"Rows of a stream at most: {plan.at_most or 'all'}. {used}.",
    ]


def make_parser(
    description: str | None, models: list[str], quick: list[str]
) -> argparse.ArgumentParser:
    """Return the options, for a choice among these models."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", nargs="+", choices=models, metavar="MODEL", help=f"of {', '.join(models)}")
    add("--streams", nargs="+", choices=NAMES, metavar="STREAM", help=f"of {', '.join(NAMES)}")
    add("--rows", type=positive, help="of each stream at most, the first ones (default: all)")
    add("--repeats", type=positive, default=1, help="times are medians (%(default)s)")
    add(
        "--data", type=folder_of_arrays, help="folder of elec2, gas_drift and wisdm (default: none)"
    )
    add("--out", type=Path, default=Path("streams"), help="folder of results (%(default)s)")
    add("--quick", action="store_true", help="few rows of few streams, the quick models")
    add("--no-progress", dest="progress", action="store_false")
    parser.set_defaults(all_models=models, quick_models=quick)
    return parser


def read_arguments(
    parser: argparse.ArgumentParser, argv: list[str] | None = None
) -> argparse.Namespace:
    """Read the command line; --quick stands for what is not given."""
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.models = arguments.models or parser.get_default("quick_models")
        arguments.streams = arguments.streams or list(QUICK_STREAMS)
        arguments.rows = arguments.rows or QUICK_ROWS
    arguments.models = arguments.models or parser.get_default("all_models")
    arguments.streams = arguments.streams or list(NAMES)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
