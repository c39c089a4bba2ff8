"""Learn from sensors behind an MQTT broker: predictions go out at once, labels come in later.

Readings arrive on one topic, predictions go out on a second, labels come on a third and find their
reading by its key. The state is saved every so many messages; interrupt it (Ctrl-C) or kill it
(kill -9) at any moment and start it again: it goes on where it stopped, no labelled row is learnt
twice or lost, and the weights are those of a run without a stop. `mqtt_session.py` says why.

mosquitto -c demos/mosquitto.conf          # a broker, if none is running
python demos/mqtt_sensors.py               # learner and simulated sensors, a quarter of a minute
python demos/mqtt_sensors.py --learn       # the learner alone, until it is interrupted
python demos/mqtt_sensors.py --simulate    # the sensors alone
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mqtt_learner import Learner
from mqtt_messages import Topics
from mqtt_report import summary
from mqtt_session import WINDOW, Session
from mqtt_simulator import publish, script
from mqtt_state import load_state, locked, save_state
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from whole_numbers import positive

QUIET = 1.0
"""Seconds without a message, after the last of the sensors', that end the demo."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        if arguments.simulate:
            simulate(arguments)
        else:
            with locked(arguments.state):
                learn(arguments, read_state(parser, arguments.state), Console())
    except (ConnectionRefusedError, TimeoutError):
        where = f"{arguments.host}:{arguments.port}"
        parser.error(f"no broker answers at {where}. Start one: mosquitto -c demos/mosquitto.conf")
    except BlockingIOError:
        parser.error(f"{arguments.state} is in use by another learner. Pass another --state.")
    except OSError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        # The sensors fall silent; the learner has its own way to end.
        sys.exit(130)


def simulate(arguments: argparse.Namespace) -> None:
    messages = script(arguments.rows, arguments.seed)
    publish(messages, arguments.topics, arguments.host, arguments.port, arguments.rate)


def read_state(parser: argparse.ArgumentParser, path: Path) -> Learner | None:
    try:
        return load_state(path)
    except ValueError as error:
        return parser.error(str(error))


def learn(arguments: argparse.Namespace, found: Learner | None, console: Console) -> None:
    """Learn until a signal comes or the simulated sensors are done, save, and sum up."""
    stopped = heed_signals()
    learner = found or Learner()
    before = learner.learnt
    save = partial(save_state, arguments.state)
    names = arguments.topics, arguments.client_id
    session = Session(learner, save, *names, window=arguments.save_every, known=found is not None)
    session.connect(arguments.host, arguments.port)
    while not session.ready and not stopped():
        session.step()
    if not session.ready:
        # A state on disk would say that the broker keeps messages for this client.
        console.print("Stopped before the broker answered: nothing is saved.")
        return
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


def heed_signals() -> Callable[[], bool]:
    """Return what tells whether SIGINT or SIGTERM has come."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: came.append(number))
    return lambda: bool(came)


def start_sensors(arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    options = {
        "--host": arguments.host,
        "--port": arguments.port,
        "--prefix": arguments.topics.prefix,
        "--rows": arguments.rows,
        "--rate": arguments.rate,
        "--seed": arguments.seed,
    }
    words = [str(word) for option in options.items() for word in option]
    # S603: our own program, with arguments that were parsed before.
    return subprocess.Popen([sys.executable, __file__, "--simulate", *words])  # noqa: S603


def watch(
    session: Session,
    sensors: subprocess.Popen[bytes] | None,
    stopped: Callable[[], bool],
    console: Console,
) -> None:
    """Learn, and show how it goes, until a signal comes or the sensors are done."""
    line = "{task.description} rows learnt, {task.fields[waiting]} waiting, accuracy "
    accuracy = "{task.fields[recent]:.1%} now, {task.fields[overall]:.1%} in all"
    columns = SpinnerColumn(), TextColumn(line + accuracy), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("0", total=None, waiting=0, recent=0.0, overall=0.0)
        while not stopped():
            session.step()
            show(progress, task, session.learner)
            while session.notes:
                progress.console.print(escape(session.notes.pop(0)))
            done = sensors is not None and sensors.poll() is not None
            if done and session.quiet_for(QUIET):
                break


def show(progress: Progress, task: Any, learner: Learner) -> None:
    progress.update(
        task,
        description=f"{learner.learnt:,}",
        waiting=len(learner.join.readings),
        recent=sum(learner.recent) / max(1, len(learner.recent)),
        overall=learner.right / max(1, learner.learnt),
    )


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--learn", action="store_true", help="only learn, until interrupted")
    part.add_argument("--simulate", action="store_true", help="only simulate the sensors")
    parser.add_argument("--host", default="localhost", help="of the broker (%(default)s)")
    parser.add_argument(
        "--port", type=sixteen_bits, default=1883, help="of the broker (%(default)s)"
    )
    parser.add_argument(
        "--prefix",
        dest="topics",
        type=Topics,
        default=Topics(),
        metavar="PREFIX",
        help="of the three topics (sensors)",
    )
    parser.add_argument("--client-id", default="onlinels", help="of the learner (%(default)s)")
    parser.add_argument(
        "--state", type=Path, default=Path("mqtt_sensors.state"), help="file (%(default)s)"
    )
    parser.add_argument(
        "--save-every", type=sixteen_bits, default=WINDOW, help="messages, at most (%(default)s)"
    )
    parser.add_argument("--rows", type=positive, default=3000, help="simulated (%(default)s)")
    parser.add_argument("--rate", type=positive, default=250, help="rows a second (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (%(default)s)")
    return parser


def sixteen_bits(text: str) -> int:
    """Read a whole number from 1 to 65,535, as ports and windows are."""
    number = positive(text)
    if number > 65_535:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    main()
