"""Fans that learn on their microcontrollers: what one of them has met, all of them know at last.

A fan is still, runs, or is blocked. The factory exports a program that knows only "still". The
first fan learns "still" and "running", a second one "blocked", each by its own program in C. At
home the sums of both are merged, and the first fan takes the new weights: it then knows all three
states. The vibrations are simulated.

The programs run on this machine; with --qemu, on an emulated Cortex-M4 that counts instructions.

python demos/device             # needs a C compiler
python demos/device --qemu      # needs qemu-system-arm and gcc-arm-none-eabi
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1]))

from show import BLUE, GREY, figure, make_parser, positive, table_of

from device.board import HERE, build, instructions, missing, run
from device.board import sizes as sizes_of
from onlinels import LeastSquaresClassifier, difference, export
from onlinels.devices import device_weights, merge_devices

STATES = ("still", "running", "blocked")
LEARNT_BY = {"first fan": ("still", "running"), "second fan": ("blocked",)}

BANDS = np.arange(50, 500, 50)
"""Upper limits of the bands of frequency, in Hz. A row holds the vibration in each, in mg / 10."""
RATE, SAMPLES = 1000, 250
"""Measurements a second, and in a row."""
PARTS = {
    "still": (30.0, []),
    "running": (40.0, [(25.0, 40.0), (175.0, 50.0)]),
    "blocked": (50.0, [(29.0, 50.0), (203.0, 25.0)]),
}
"""Noise in mg, and vibrations of the shaft and of its seven blades: Hz, and mg."""
FACTORY_ROWS = 20

Rows = NDArray[np.int16]


class Fan(NamedTuple):
    """A fan, with the program of its device.

    Attributes
    ----------
    program : Path
        It runs in a folder of its own.
    gains : ndarray (n_bands,)
        What the housing makes of vibrations.
    """

    program: Path
    gains: NDArray[np.float64]

    def learn(self, state: str, rows: Rows) -> None:
        """Let the device learn rows."""
        run(self.program, b"".join(b"L" + state.encode() + b"\0" + row.tobytes() for row in rows))

    def predict(self, rows: Rows, before: bytes = b"") -> list[str]:
        """Return the labels that the device predicts, after a command."""
        replies = run(self.program, before + b"".join(b"P" + row.tobytes() for row in rows))
        return replies.decode().split("\0")[:-1]

    def sent(self, serial: int) -> bytes:
        """Return the sums that the device sends."""
        return run(self.program, b"S" + struct.pack("<I", serial))

    def take(self, weights: bytes) -> bool:
        """Let the device take new weights; return whether it has taken them."""
        return run(self.program, b"W" + struct.pack("<I", len(weights)) + weights) == b"\0"


class Found(NamedTuple):
    """What the first fan knew, and what its program takes."""

    before: list[float]
    after: list[float]
    difference: float
    sizes: dict[str, int]
    steps: list[float]


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "device.png")
    parser.add_argument("--qemu", action="store_true", help="run the programs on a Cortex-M4")
    parser.add_argument("--rows", type=positive, default=200, help="of each state (%(default)s)")
    arguments = parser.parse_args(argv)
    if packages := missing(arguments.qemu):
        parser.error(f"programs in C cannot be compiled or run here. Install {packages}")
    console = Console()
    with tempfile.TemporaryDirectory() as folder, console.status("Fans learn"):
        found = follow(Path(folder), arguments.rows, arguments.qemu)
    draw(arguments.output, found)
    table = summary(found)
    table.add_row("Picture", str(arguments.output))
    console.print(table)


# -- fans -----------------------------------------------------------------------------------------


def follow(folder: Path, n_rows: int, on_board: bool) -> Found:
    """Let both fans learn, merge what they send, and ask the first one before and after."""
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier()
    learn_here(model, "still", vibrations("still", FACTORY_ROWS, np.ones(len(BANDS)), random))
    here, steps, fans = model.empty(), [], []
    for number, states in enumerate(LEARNT_BY.values(), 1):
        gains = random.normal(1.0, 0.1, len(BANDS))
        fans.append(Fan(program_of(model, folder / f"fan{number}", number, on_board), gains))
        for state in states:
            rows = vibrations(state, n_rows, gains, random)
            fans[-1].learn(state, rows)
            learn_here(here, state, rows)
            steps.append(instructions(fans[-1].program.parent)[0])
    first, second = fans
    tests = np.concatenate([vibrations(state, n_rows, first.gains, random) for state in STATES])
    before = shares(first.predict(tests, before=b"O"))
    received = [first.sent(serial=1), second.sent(serial=1)]
    home = merge_devices(model, received)
    weights = device_weights(home, model, serial=1)
    here.select_ridge()  # from all rows, as merging does
    if not first.take(weights):
        raise RuntimeError("The first fan has refused the weights.")
    after = shares(first.predict(tests))
    steps = [steps[0], instructions(first.program.parent)[1]]
    sizes = {"sums sent": len(received[0]), "weights received": len(weights)}
    if on_board:
        sizes["program, newlib included"] = sizes_of(first.program)[0]
    return Found(before, after, difference(home, here), sizes, steps)


def vibrations(
    state: str, n_rows: int, gains: NDArray[np.float64], random: np.random.Generator
) -> Rows:
    """Return rows (n_rows, n_bands) of a fan in a state."""
    noise, parts = PARTS[state]
    signals = noise * random.normal(size=(n_rows, SAMPLES))
    for frequency, size in parts:
        hertz = frequency * random.normal(1.0, 0.05, (n_rows, 1))
        phase = 2.0 * np.pi * random.random((n_rows, 1))
        signals += size * np.sin(2.0 * np.pi * hertz * np.arange(SAMPLES) / RATE + phase)
    power = 2.0 * np.abs(np.fft.rfft(signals)[:, 1:]) ** 2 / SAMPLES**2
    starts = np.searchsorted(np.fft.rfftfreq(SAMPLES, 1.0 / RATE)[1:], [0, *BANDS[:-1]])
    strengths = np.sqrt(np.add.reduceat(power, starts, axis=1))
    return np.rint(10.0 * gains * strengths).astype(np.int16)


def learn_here(model: LeastSquaresClassifier, state: str, rows: Rows) -> None:
    """Let a model in Python learn rows."""
    # Names of dicts are sorted, and a device has the features in the order of the names.
    names = [f"up to {band:03} Hz" for band in BANDS]
    samples = [dict(zip(names, row, strict=True)) for row in rows.astype(float).tolist()]
    model.learn_many(samples, [state] * len(rows))


def program_of(model: LeastSquaresClassifier, folder: Path, number: int, on_board: bool) -> Path:
    """Return the program of a device, which begins with a model."""
    folder.mkdir()
    export.c(model, folder / "fan.h", learn=True, rows="int16", room=2)
    flags = f"-DNUMBER={number}", "-DSOLVES"
    return build(HERE / "fan.c", folder, *flags, on_board=on_board)


def shares(labels: list[str]) -> list[float]:
    """Return the share of right labels for each state, which all have as many rows."""
    parts = np.split(np.array(labels), len(STATES))
    return [float(np.mean(part == state)) for part, state in zip(parts, STATES, strict=True)]


# -- what came of it ------------------------------------------------------------------------------


def summary(found: Found) -> Table:
    table = table_of("first fan", *STATES)
    for name, values in (("before", found.before), ("after", found.after)):
        table.add_row(f"right labels {name}", *(f"{value:.1%}" for value in values))
    table.add_row("Difference to a model of all rows", f"{found.difference:.0e}")
    for name, size in found.sizes.items():
        table.add_row(f"Bytes, {name}", f"{size:,}")
    if all(found.steps):
        for name, count in zip(("learn", "predict"), found.steps, strict=True):
            table.add_row(f"Instructions to {name} a row", f"{count:,.0f}")
    return table


def draw(path: Path, found: Found) -> None:
    """Draw what the first fan knew before and after, and bytes and instructions."""
    told = [f"{size:,} bytes: {name}" for name, size in found.sizes.items()]
    if all(found.steps):
        names = zip(("learn", "predict"), found.steps, strict=True)
        told += [f"{count:,.0f} instructions to {name} a row" for name, count in names]
    with figure(path, 8.5, 4.2, "What one fan has met, all fans know") as made:
        axes = made.add_subplot()
        places = np.arange(len(STATES))
        for shift, name, values, colour in (
            (-0.2, "after learning two states", found.before, GREY),
            (0.2, "with the weights of both fans", found.after, BLUE),
        ):
            bars = axes.bar(places + shift, values, 0.38, color=colour, label=name)
            axes.bar_label(bars, [f"{value:.0%}" for value in values], padding=2)
        axes.set_xticks(places, STATES, size=11)
        axes.set_yticks([])
        axes.set_ylim(0.0, 1.12)
        axes.set_title("Right labels of the first fan")
        axes.spines["left"].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
        for line, text in enumerate(told):
            axes.text(1.05, 0.6 - 0.09 * line, text, transform=axes.transAxes)


if __name__ == "__main__":
    main()
