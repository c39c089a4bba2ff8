"""Commands: ``python -m onlinels merge all.npz sites/*.npz`` merges what many sites have saved."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onlinels.sites import Tell, merge_files

MERGE = """Merge the newest save of every site into one file.

One path is one site: a site overwrites its file, and files of one name in two folders are two
sites. The output is made of the newest save of each site, of those merged before too, so that a
save that comes twice or late counts once. A manifest beside it, OUTPUT.json, names the saves and
their SHA-256. Outputs merge as saves do: sites into regions, regions into a nation. Exit code 2:
files do not fit, or rows would count twice, and nothing is written.
"""


def main(argv: list[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m onlinels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    form = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(
        "merge", help="merge what sites have saved", description=MERGE, formatter_class=form
    )
    command.add_argument("output", type=Path, help="file of the merged model")
    command.add_argument("files", type=Path, nargs="+", help="files that sites have saved")
    arguments = parser.parse_args(argv)
    try:
        with shown() as tell:
            merge_files(arguments.output, arguments.files, tell)
    except (OSError, TypeError, ValueError) as error:
        command.exit(2, f"{command.prog}: {error}\n")
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def shown() -> Iterator[Tell]:
    """Give what prints a line for every file, above a progress bar where rich is installed."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
    except ImportError:
        yield lambda line, done, total: print(line, flush=True)
        return
    with Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        bar = progress.add_task("", total=None)

        def tell(line: str, done: int, total: int) -> None:
            progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
            progress.update(bar, completed=done, total=total)

        yield tell


if __name__ == "__main__":
    main()
