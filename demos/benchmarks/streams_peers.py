"""Measure forests of CapyMOA on the streams of streams.py, for the same tables.

    python demos/benchmarks/streams_peers.py --data folder
    python demos/benchmarks/streams_peers.py --quick

Needs CapyMOA, with Java and PyTorch, best in an environment of its own (`pip install . capymoa
matplotlib rich`). Rows are made instances of MOA beforehand, which is not timed, and MOA is told
all labels of a stream before its first row. Java's compiler and memory have threads of their own.
"""

from __future__ import annotations

import one_thread as one_thread

# isort: split

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from own_process import until_interrupted
from results_file import ResultsFile
from stream_models import MODELS
from stream_runs import Plan, versions
from stream_sources import Row, Source
from streams import (
    choose_sources,
    exit_code,
    make_parser,
    measure_missing,
    read_arguments,
    report,
)

PEERS: dict[str, str] = {
    "MOA ARF": "AdaptiveRandomForestClassifier",
    "MOA SRP": "StreamingRandomPatches",
}
"""Names in the tables, and of classes of CapyMOA: forests of 10 trees, seed 1, one job."""


class Instances:
    """Makes rows instances of MOA, and models for those that it made last."""

    def __init__(self) -> None:
        self._schema: Any = None

    def source(self, source: Source) -> Source:
        """Return a stream of instances for one of dicts."""
        return lambda: self._read(source)

    def factory(self, name: str) -> Callable[[], MoaModel]:
        """Return what makes a classifier of CapyMOA, by its class."""
        return lambda: MoaModel(name, self._schema)

    def _read(self, source: Source) -> Iterator[tuple[Any, Any]]:
        from capymoa.core import LabeledInstance
        from capymoa.stream import Schema

        rows = list(source())
        features, labels = arrange(rows)
        categories = {"label": [str(label) for label in labels]}
        names = [str(feature) for feature in features]
        self._schema = Schema.from_custom([*names, "label"], "label", categories)
        for x, label in rows:
            values = np.array([float(x.get(feature, np.nan)) for feature in features])
            instance = LabeledInstance.from_array(self._schema, values, labels.index(label))
            # Made when first asked for, then kept.
            _ = instance.java_instance
            yield instance, str(label)


def arrange(rows: list[Row]) -> tuple[list[Any], list[Any]]:
    """Return the features and the labels of a stream, in the order in which they appear."""
    features = list(dict.fromkeys(feature for x, _ in rows for feature in x))
    return features, list(dict.fromkeys(label for _, label in rows))


class MoaModel:
    """A classifier of CapyMOA with the interface of river's."""

    def __init__(self, name: str, schema: Any) -> None:
        from capymoa import classifier

        self._labels = list(schema.get_label_values())
        make = getattr(classifier, name)
        self._model = make(schema=schema, random_seed=1, ensemble_size=10, number_of_jobs=1)

    def predict_proba_one(self, instance: Any) -> dict[str, float]:
        """Return the probability of every label, nothing as long as MOA says none."""
        shares = self._model.predict_proba(instance)
        return {} if shares is None else dict(zip(self._labels, shares.tolist(), strict=True))

    def learn_one(self, instance: Any, label: str) -> None:
        """Learn an instance, which has its label inside."""
        self._model.train(instance)


def main(argv: list[str] | None = None) -> int:
    parser = make_parser(__doc__, list(PEERS), list(PEERS))
    arguments = read_arguments(parser, argv)
    instances = Instances()
    try:
        results = ResultsFile(arguments.out / "results.jsonl")
        plan = Plan(arguments.rows, arguments.repeats, versions("capymoa", "numpy"))
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))
    factories = {name: instances.factory(PEERS[name]) for name in arguments.models}

    def compare() -> int:
        sources = choose_sources(arguments)
        made = {name: instances.source(source) for name, source in sources.items()}
        failed = measure_missing(plan, factories, made, results, arguments)
        report(plan, sources, list(MODELS), results, arguments.out)
        return exit_code(failed)

    return until_interrupted(compare)


if __name__ == "__main__":
    sys.exit(main())
