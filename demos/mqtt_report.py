"""What the demo says at its end, and how far its weights are from those of one batch."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from mqtt_learner import Learner
from mqtt_model import RIDGE, classifier_of
from mqtt_simulator import Row, labelled_rows, script
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table
from river import compose


def summary(learner: Learner, before: int, arguments: argparse.Namespace) -> Table:
    table = Table(box=SIMPLE, show_header=False)
    table.add_row("Rows learnt; before this start", f"{learner.learnt:,}; {before:,}")
    table.add_row("Predicted right", share(learner.right, learner.learnt))
    table.add_row("Duplicates, without effect", f"{learner.duplicates:,}")
    waiting = len(learner.join.readings), len(learner.join.labels)
    table.add_row("Readings that wait; labels", "{:,}; {:,}".format(*waiting))
    table.add_row("Waited too long, dropped", f"{learner.join.dropped:,}")
    table.add_row("Numbers given up, in gaps", f"{learner.join.given_up:,}")
    table.add_row("Refused", f"{learner.refused:,}  {escape(learner.last_refusal)}")
    if not arguments.learn:
        rows = labelled_rows(script(arguments.rows, arguments.seed))
        if len(rows) == learner.learnt:
            difference = difference_to_batch(learner.model, rows)
            table.add_row("Difference to batch weights", f"{difference:.1e}")
        else:
            table.add_row("Rows sent with labels", f"{len(rows):,}")
    table.add_row("State, to go on from", str(arguments.state))
    return table


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none yet"


def difference_to_batch(model: compose.Pipeline, rows: list[Row]) -> float:
    """Return the largest difference to weights that plain numpy solves, relative to the largest."""
    online = classifier_of(model)
    *transformers, _ = model.steps.values()
    activations = np.empty((len(rows), len(online.feature_names)))
    for place, (values, _) in enumerate(rows):
        sample: dict[Any, Any] = values
        for transformer in transformers:
            sample = transformer.transform_one(sample)
        activations[place] = [sample[name] for name in online.feature_names]
    targets = np.array([[label == each for each in online.classes] for _, label in rows], float)
    centred = activations - activations.mean(axis=0)
    system = centred.T @ centred + RIDGE * np.eye(centred.shape[1])
    batch = np.linalg.solve(system, centred.T @ (targets - targets.mean(axis=0)))
    return float(np.abs(online.output_weights - batch).max() / np.abs(batch).max())
