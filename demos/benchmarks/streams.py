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
from collections.abc import Mapping
from pathlib import Path

from command_line import folder_of_arrays, positive
from own_process import until_interrupted
from results_file import ResultsFile
from rich.console import Console
from rich.progress import track
from stream_figure import draw
from stream_models import MODELS, OURS, PEER, QUICK
from stream_runs import Factory, Measured, Plan, collect, machine, measure, versions
from stream_sources import NAMES, Source, find_sources
from stream_tables import make_sheets, summary

QUICK_STREAMS = ("Phishing", "ImageSegments", "SEA")
QUICK_ROWS = 300


def main(argv: list[str] | None = None) -> int:
    parser = make_parser(__doc__, list(MODELS))
    arguments = read_arguments(parser, argv)
    try:
        results = ResultsFile(arguments.out / "results.jsonl")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    plan = Plan(arguments.rows, arguments.repeats, versions("river", "numpy", "scipy"))
    factories = {name: MODELS[name] for name in arguments.models}
    return until_interrupted(lambda: run(plan, factories, results, arguments))


def run(
    plan: Plan,
    factories: Mapping[str, Factory],
    results: ResultsFile,
    arguments: argparse.Namespace,
) -> int:
    """Measure what is not in the results yet, and report; return the exit code."""
    streams, failed = measure_streams(plan, factories, results, arguments)
    measured = collect(plan, streams, results)
    peers = {model for found in measured.values() for model in found} - set(MODELS)
    report(measured, [*factories, *sorted(peers)], plan, arguments.out)
    for name, message in failed.items():
        print(f"Not measured: {name}. {message}", file=sys.stderr)
    return 1 if failed else 0


def measure_streams(
    plan: Plan,
    factories: Mapping[str, Factory],
    results: ResultsFile,
    arguments: argparse.Namespace,
) -> tuple[dict[str, Source], dict[str, str]]:
    """Do the runs that are missing; return the streams that are there, and what went wrong."""
    sources, absent = find_sources(arguments.data)
    for name in arguments.streams:
        if name in absent:
            print(f"{name} left out: {absent[name]}", file=sys.stderr)
    sources = {name: sources[name] for name in arguments.streams if name in sources}
    missing = plan.missing(sources, factories, results)
    console = Console(stderr=True)
    runs = track(missing, f"{len(missing)} runs", console=console, disable=not arguments.progress)
    return sources, measure(plan, runs, sources, factories, results)


def report(measured: Measured, models: list[str], plan: Plan, folder: Path) -> None:
    """Print the tables and the summary, write them as markdown, and draw the figure."""
    models = [model for model in models if any(model in found for found in measured.values())]
    if not models:
        return
    used = ", ".join(f"{name} {number}" for name, number in plan.versions.items())
    where = machine()
    lines = [
        *summary(measured, OURS, PEER),
        f"{where['processor']}, {where['cores']} cores, one thread; medians of {plan.repeats}.",
        f"Rows of a stream at most: {plan.at_most or 'all'}. {used}.",
    ]
    sheets = make_sheets(measured, models, PEER)
    console = Console(width=170, force_jupyter=False, highlight=False)
    for sheet in sheets:
        console.print(sheet.terminal())
    for line in lines:
        console.print(line, soft_wrap=True)
    text = "\n".join(
        [*(sheet.markdown() for sheet in sheets), *(f"- {line}" for line in lines), ""]
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.md").write_text(text, "utf-8")
    if draw(measured, models, folder / "streams.png"):
        print(f"Accuracy against time: {folder / 'streams.png'}")


def make_parser(description: str | None, models: list[str]) -> argparse.ArgumentParser:
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
    return parser


def read_arguments(
    parser: argparse.ArgumentParser, argv: list[str] | None = None
) -> argparse.Namespace:
    """Read the command line; --quick stands for what is not given."""
    arguments = parser.parse_args(argv)
    quick = arguments.quick
    arguments.models = arguments.models or list(QUICK if quick else MODELS)
    arguments.streams = arguments.streams or list(QUICK_STREAMS if quick else NAMES)
    arguments.rows = arguments.rows or (QUICK_ROWS if quick else None)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
