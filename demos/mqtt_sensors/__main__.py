"""Learn from sensors behind an MQTT broker: predictions go out at once, labels come in later.

Readings arrive on one topic, predictions go out on a second, labels come on a third and find their
reading by its key. The state is saved every so many messages; interrupt it (Ctrl-C) or kill it
(kill -9) at any moment and start it again: it goes on where it stopped, no labelled row is learnt
twice or lost, and the weights are those of a run without a stop. `session.py` says why.

At the end, a picture shows what a technician looks at: the probability of a fault and the alarms,
the labels as they come, how reliable the probability is, and why the last alarm was raised.

mosquitto -c demos/mqtt_sensors/mosquitto.conf   # a broker, if none is running
python demos/mqtt_sensors                        # learner and simulated sensors, some 20 seconds
python demos/mqtt_sensors --learn                # the learner alone, until it is interrupted
python demos/mqtt_sensors --simulate             # the sensors alone

For sensors of your own, change NORMAL, USUAL and UNIT in `learner.py`.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1]))

from alarms import AlarmLog, draw
from show import make_parser, positive, table_of

from mqtt_sensors.learner import NORMAL, RIDGE, Key, LabelValue, Learner, Predicted, Topics, scaled
from mqtt_sensors.session import WINDOW, Session
from mqtt_sensors.simulator import Row, labelled_rows, publish, script
from onlinels.explain import feature_effects

QUIET = 1.0
"""Seconds without a message, after the last of the sensors', that end the demo."""


def main(argv: list[str] | None = None) -> None:
    parser = parser_of_options()
    arguments = parser.parse_args(argv)
    try:
        if arguments.simulate:
            messages = script(arguments.rows, arguments.seed)
            publish(messages, arguments.topics, arguments.host, arguments.port, arguments.rate)
        else:
            learn(arguments, Learner.load(arguments.state), Console())
    except (ConnectionRefusedError, TimeoutError):
        where = f"{arguments.host}:{arguments.port}"
        start = "mosquitto -c demos/mqtt_sensors/mosquitto.conf"
        parser.error(f"no broker answers at {where}. Start one: {start}")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        # The sensors fall silent; the learner has its own way to end.
        sys.exit(130)


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__, "mqtt_sensors.png")
    part, add = parser.add_mutually_exclusive_group(), parser.add_argument
    part.add_argument("--learn", action="store_true", help="only learn, until interrupted")
    part.add_argument("--simulate", action="store_true", help="only simulate the sensors")
    add("--host", default="localhost", help="of the broker (%(default)s)")
    add("--port", type=sixteen_bits, default=1883, help="of the broker (%(default)s)")
    add("--prefix", dest="topics", type=Topics, default=Topics(), help="of topics (sensors)")
    add("--client-id", default="onlinels", help="of the learner (%(default)s)")
    add("--state", type=Path, default=Path("mqtt_sensors.state"), help="file (%(default)s)")
    add("--save-every", type=sixteen_bits, default=WINDOW, help="messages, at most (%(default)s)")
    add("--rows", type=positive, default=3000, help="simulated (%(default)s)")
    add("--rate", type=positive, default=250, help="rows a second (%(default)s)")
    add("--seed", type=int, default=0, help="of the simulation (%(default)s)")
    return parser


def sixteen_bits(text: str) -> int:
    """Read a whole number from 1 to 65,535, as ports and windows are."""
    number = positive(text)
    if number > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 65535")
    return number


def learn(arguments: argparse.Namespace, found: Learner | None, console: Console) -> None:
    """Learn until a signal comes or the simulated sensors are done, save, and sum up."""
    stopped = heed_signals()
    learner = found or Learner()
    before = learner.learnt
    state, name = arguments.state, arguments.client_id
    window, known = arguments.save_every, found is not None
    session = Session(learner, state, arguments.topics, name, window=window, known=known)
    session.connect(arguments.host, arguments.port)
    while not session.ready and not stopped():
        session.step()
    if not session.ready:
        # A state on disk would say that the broker keeps messages for this client.
        console.print("Stopped before the broker answered: nothing is saved.")
        return
    log = watched(learner, AlarmLog())
    # Only now: what is published before the first subscription goes nowhere.
    sensors = None if arguments.learn else start_sensors(arguments)
    try:
        watch(session, sensors, stopped, console)
    finally:
        if sensors is not None:
            sensors.terminate()
            sensors.wait()
    session.close()
    console.print(summary(learner, before, arguments))
    if log.forecasts:
        draw(arguments.output, log, "s")
        console.print(f"Picture: {arguments.output}")
    else:
        console.print(f"No new reading came: no picture. To begin anew, remove {arguments.state}.")


def heed_signals() -> Callable[[], bool]:
    """Return what tells whether SIGINT or SIGTERM has come."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: came.append(number))
    return lambda: bool(came)


def start_sensors(arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    words = ["--simulate", "--prefix", arguments.topics.prefix]
    for name in ("host", "port", "rows", "rate", "seed"):
        words += [f"--{name}", str(getattr(arguments, name))]
    # S603: our own program, with arguments that were parsed before.
    return subprocess.Popen([sys.executable, __file__, *words])  # noqa: S603


def watch(
    session: Session,
    sensors: subprocess.Popen[bytes] | None,
    stopped: Callable[[], bool],
    console: Console,
) -> None:
    """Learn, and show how it goes, until a signal comes or the sensors are done."""
    learner = session.learner
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)
        while not stopped():
            session.step()
            recent = sum(learner.recent) / max(1, len(learner.recent))
            overall = learner.right / max(1, learner.learnt)
            rows = f"{learner.learnt:,} rows learnt, {len(learner.join.readings)} waiting"
            accuracy = f"accuracy {recent:.1%} now, {overall:.1%} in all"
            progress.update(task, description=f"{rows}, {accuracy}")
            while session.notes:
                progress.console.print(escape(session.notes.pop(0)))
            done = sensors is not None and sensors.poll() is not None
            if done and session.quiet_for(QUIET):
                break


def watched(learner: Learner, log: AlarmLog) -> AlarmLog:
    """Fill a log from now on, with times in seconds since the first reading, and return the log."""
    start = None

    def note(key: Key, predicted: Predicted, label: LabelValue | None) -> None:
        nonlocal start
        now = time.monotonic()
        start = now if start is None else start
        now -= start
        if label is not None:
            log.add_label(key, now, label != NORMAL)
            return
        features = scaled(predicted.values)
        if log.add_forecast(key, now, of_faults(learner.model.predict_proba_one(features))):
            effects = feature_effects(learner.model, features)
            effect_of = {
                name: of_faults({label: effects[label][name] for label in effects})
                for name in features
            }
            log.reasons = predicted.values, effect_of

    learner.watch = note
    return log


def of_faults(by_label: Mapping[LabelValue, float]) -> float:
    """Return the sum over all labels that are faults, 0 if none is known."""
    return sum(value for label, value in by_label.items() if label != NORMAL)


# -- what came of it ------------------------------------------------------------------------------


def summary(learner: Learner, before: int, arguments: argparse.Namespace) -> Table:
    table = table_of()
    table.add_row("Rows learnt; before this start", f"{learner.learnt:,}; {before:,}")
    right = f"{learner.right / learner.learnt:.1%}" if learner.learnt else "none yet"
    table.add_row("Predicted right", right)
    table.add_row("Duplicates, without effect", f"{learner.duplicates:,}")
    waiting = len(learner.join.readings), len(learner.join.labels)
    table.add_row("Readings that wait; labels", "{:,}; {:,}".format(*waiting))
    table.add_row("Waited too long, dropped", f"{learner.join.dropped:,}")
    table.add_row("Numbers given up, in gaps", f"{learner.join.given_up:,}")
    table.add_row("Refused", f"{learner.refused:,}  {escape(learner.last_refusal)}")
    if not arguments.learn:
        rows = labelled_rows(script(arguments.rows, arguments.seed))
        if len(rows) == learner.learnt:
            difference = difference_to_batch(learner, rows)
            table.add_row("Difference to batch weights", f"{difference:.1e}")
        else:
            table.add_row("Rows sent with labels", f"{len(rows):,}")
    table.add_row("State, to go on from", str(arguments.state))
    return table


def difference_to_batch(learner: Learner, rows: list[Row]) -> float:
    """Return the largest difference to weights that plain numpy solves, relative to the largest."""
    online, (hidden, _) = learner.classifier, learner.model.steps.values()
    activations = np.empty((len(rows), len(online.feature_names)))
    for place, (values, _) in enumerate(rows):
        sample = hidden.transform_one(scaled(values))
        activations[place] = [sample[name] for name in online.feature_names]
    targets = np.array([[label == each for each in online.classes] for _, label in rows], float)
    centred = activations - activations.mean(axis=0)
    system = centred.T @ centred + RIDGE * np.eye(centred.shape[1])
    batch = np.linalg.solve(system, centred.T @ (targets - targets.mean(axis=0)))
    return float(np.abs(online.output_weights - batch).max() / np.abs(batch).max())


if __name__ == "__main__":
    main()
