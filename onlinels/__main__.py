"""Commands: ``python -m onlinels merge all.npz sites/*.npz`` merges what many sites have saved."""

from __future__ import annotations

import argparse
import sys
from inspect import getdoc
from pathlib import Path

from onlinels.saving import load
from onlinels.sites import merge_files


def main(argv: list[str] | None = None) -> None:
    """Merge the newest save of every site into one file.

    One path is one site: a site overwrites its file, and files of one name in two folders are two
    sites. The output is made of the newest save of each site, of those merged before too, so that a
    save that comes twice or late counts once. Files may be bytes that devices have sent, if --model
    names a save of the model that their program was exported from. A manifest beside it,
    OUTPUT.json, names the saves and their SHA-256. Outputs merge as saves do: sites into regions,
    regions into a nation. Exit code 2: files do not fit, or rows would count twice, and nothing is
    written.
    """
    parser = argparse.ArgumentParser(prog="python -m onlinels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "merge",
        help="merge what sites have saved",
        description=getdoc(main),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("output", type=Path, help="file of the merged model")
    command.add_argument("files", type=Path, nargs="+", help="files that sites have saved")
    command.add_argument("--model", type=Path, help="file of the model of devices among the files")
    arguments = parser.parse_args(argv)
    try:
        model = arguments.model and load(arguments.model)
        paths = arguments.output, arguments.files
        merge_files(*paths, lambda line: print(line, flush=True), model)
    except (OSError, TypeError, ValueError) as error:
        command.exit(2, f"{command.prog}: {error}\n")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
