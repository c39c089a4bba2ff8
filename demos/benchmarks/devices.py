"""Count what a classifier of three labels takes on a microcontroller, an emulated Cortex-M4.

Bytes of flash memory are those of a program that calls the header, without those of an empty
program. RAM is without the stack. The first table is of headers that predict, the second of headers
that learn.

apt install qemu-system-arm gcc-arm-none-eabi libnewlib-arm-none-eabi
python demos/benchmarks/devices.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from common import Array, make_parser, table_of
from device.board import HERE, build, instructions, missing, run, sizes
from rich.console import Console

from onlinels import LeastSquaresClassifier, export
from onlinels.export.c_learning import MAX_FEATURES_SOLVED_THERE

FEATURES, N_LABELS, N_ROWS = (8, 16, 32, 64, 96), 3, 300

STEPS = ("to learn", "to predict", "flash to solve", "to solve")

SOURCE = Path(__file__).with_suffix(".c")
OTHER_RAM = 3 * 4096
"""Bytes of the slots, which are flash memory, and of the weights received."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.parse_args(argv)
    if packages := missing(on_board=True):
        parser.error(f"programs cannot be compiled or run. Install {packages}")
    console = Console()
    predicting = table_of("weights", "features", "flash", "beyond weights", "instructions")
    learning = table_of("rows", "features", "flash", "RAM", "sent", *STEPS)
    with tempfile.TemporaryDirectory() as folder, console.status("Counting"):
        for m in FEATURES:
            for weights, size in (("float32", 4), ("int8", 1)):
                flash, steps = predicted(m, Path(folder), weights)
                told = f"{flash:,}", f"{flash - size * N_LABELS * m:,}", f"{steps:,.0f}"
                predicting.add_row(weights, str(m), *told)
            for rows in ("int16", "float32"):
                numbers = learnt(m, Path(folder), rows)
                learning.add_row(rows, str(m), *(f"{n:,.0f}" if n else "" for n in numbers))
    console.print(predicting, learning)


def rows_of(m: int) -> tuple[Array, Array]:
    """Return whole numbers (n_rows, m) and their labels."""
    random = np.random.default_rng(0)
    labels = random.integers(0, N_LABELS, N_ROWS)
    centres = 500.0 * random.normal(size=(N_LABELS, m)) / m**0.5
    return np.rint(centres[labels] + 300.0 * random.normal(size=(N_ROWS, m))), labels


def predicted(m: int, folder: Path, weights: str) -> tuple[int, float]:
    """Return the bytes of a header in flash memory, and its instructions for a row."""
    X, labels = rows_of(m)
    model = LeastSquaresClassifier()
    model.learn_many(X, labels)
    export.c(model, folder / "model.h", prefix="fan", weights=weights)
    own = f"-DM={m}", "-DVALUE=float", '-DMODEL="model.h"', "-DPREDICT(x)=fan_predict(x)"
    run(build(HERE / "answers.c", folder, *own, on_board=True), X.astype(np.float32).tobytes())
    return bytes_of(folder, "-DPREDICTS", *own)[0], instructions(folder)[0]


def learnt(m: int, folder: Path, rows: str) -> tuple[float, ...]:
    """Return the bytes that a header takes and sends, and its instructions for a row."""
    X, labels = rows_of(m)
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many(X, labels)
    export.c(model, folder / "fan.h", learn=True, rows=rows)
    numbers = [row.astype(rows).tobytes() for row in X]
    line = [b"L%d\0%b" % row for row in zip(labels, numbers, strict=True)]
    line += [b"O", *(b"P" + row for row in numbers)]
    (folder / "flash").unlink(missing_ok=True)
    flags = ["-DSOLVES"] * (m <= MAX_FEATURES_SOLVED_THERE)
    program = build(HERE / "fan.c", folder, *flags, on_board=True)
    run(program, b"".join(line))
    steps, sent = instructions(folder), len(run(program, b"S\1\0\0\0"))
    flash, ram = bytes_of(folder, "-DLEARNS")
    solving = bytes_of(folder, "-DLEARNS", *flags)[0] - flash
    return flash, ram - OTHER_RAM, sent, steps[0], steps[1], solving, steps[2]


def bytes_of(folder: Path, *flags: str) -> tuple[int, int]:
    """Return the bytes of flash memory and RAM that a program takes beyond an empty one."""
    flash, ram = sizes(build(SOURCE, folder, *flags, on_board=True))
    others = sizes(build(SOURCE, folder, on_board=True))
    return flash - others[0], ram - others[1]


if __name__ == "__main__":
    main()
