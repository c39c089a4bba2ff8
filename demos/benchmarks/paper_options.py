"""The options of paper_tables.py, and the settings of the networks that they stand for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from command_line import not_negative, positive, setting
from paper_runs import NETWORKS

from onlinels import read_filters
from onlinels.presets import preset_settings

PRETRAINED = ("svhn", "cifar10")
"""The data sets that the paper classifies with OverFeat's filters."""


def read_overrides(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what is set otherwise than in the preset of a data set.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If a setting is not known, or the filters cannot be read.
    """
    overrides = dict(arguments.set)
    if arguments.n_hidden is not None:
        overrides["n_hidden"] = arguments.n_hidden
    if name in arguments.filters:
        overrides["filters"] = read_filters(arguments.filters[name])
    preset_settings(NETWORKS[name].preset, overrides)
    return overrides


class FiltersAction(argparse.Action):
    """Read PATH, for the data sets that the paper has pretrained filters for, or NAME=PATH."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add a file of filters to those named before."""
        name, equals, path = str(values).partition("=")
        named = equals and name in NETWORKS
        chosen = {name: path} if named else dict.fromkeys(PRETRAINED, str(values))
        setattr(namespace, self.dest, getattr(namespace, self.dest) | chosen)


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of all options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_runs(parser)
    _add_files(parser)
    return parser


def _add_runs(parser: argparse.ArgumentParser) -> None:
    add, default = parser.add_argument, " (%(default)s)"
    add("--data", type=Path, required=True, help="folder with the data sets")
    add("--only", nargs="+", choices=NETWORKS, metavar="NAME", help="these data sets (all there)")
    add("--draws", type=positive, default=5, help="networks per data set" + default)
    add("--n-hidden", type=positive, help="hidden units (the preset's)")
    add("--rows", type=positive, help="training images, the first ones (all)")
    add("--batch-size", type=positive, default=1000, help="images at a time" + default)
    filters = (
        "pretrained filters, OverFeat's file or .npy or .npz: of svhn and cifar10 as in the "
        "paper, or of the data set NAME; may be repeated"
    )
    add("--filters", action=FiltersAction, default={}, metavar="[NAME=]PATH", help=filters)
    other = "another setting of the networks, as warm_up=2000; may be repeated"
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help=other)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add, default = parser.add_argument, " (%(default)s)"
    results, figure = Path("paper_tables.jsonl"), Path("paper_figure.png")
    add("--results", type=Path, default=results, help="a line per finished run" + default)
    add("--markdown", type=Path, metavar="PATH", help="write the table there, too")
    draws = "draws for the curve of MNIST's error against hidden units, 0 for none" + default
    add("--figure-draws", type=not_negative, default=10, help=draws)
    add("--figure", type=Path, default=figure, help="its picture" + default)
    add(
        "--cache",
        type=Path,
        help="folder to keep the curve's features in, 1.7 GB (a temporary one)",
    )
