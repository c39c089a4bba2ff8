"""Programs in C, compiled and run on this machine or on a Cortex-M4 that QEMU emulates.

The emulated board is Arm's MPS2 with the image AN386. Its programs read and write files in their
folder on this machine, by semihosting, and one instruction takes a nanosecond of its time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

STANDARD = ["-std=c99", "-Os", "-Wall", "-Wextra", "-ffp-contract=off"]
"""Without fused products, sums have the same bits on all machines."""

HOST = ["cc", *STANDARD]

M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
NEWLIB = ["--specs=nano.specs", "--specs=rdimon.specs", "-nostartfiles"]
PLACED = ["-Wl,--gc-sections", "-T", str(HERE / "board.ld"), str(HERE / "board.c")]
BOARD = ["arm-none-eabi-gcc", *STANDARD, "-DBOARD", *M4, "-ffunction-sections"]

EMULATED = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-icount", "shift=0"]
EMULATED += ["-semihosting-config", "enable=on,target=native", "-kernel"]

INSTRUCTIONS_A_TICK = 40
"""The timer runs at 25 MHz."""

PACKAGES = {
    "cc": "a C compiler: apt install gcc",
    "arm-none-eabi-gcc": "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "qemu-system-arm": "apt install qemu-system-arm",
}


def missing(on_board: bool) -> str:
    """Return what to install before programs can run, or nothing."""
    names = ["arm-none-eabi-gcc", "qemu-system-arm"] if on_board else ["cc"]
    return "; ".join(PACKAGES[name] for name in names if shutil.which(name) is None)


def build(source: Path, folder: Path, *flags: str, on_board: bool = False) -> Path:
    """Compile a program with the headers in its folder, and return its path."""
    program = folder / f"{source.stem}{'.elf' if on_board else ''}"
    given = [f"-I{folder}", *flags, str(source), "-o", str(program), "-lm"]
    command = [*BOARD, *NEWLIB, *PLACED, *given] if on_board else [*HOST, *given]
    # S603: a compiler, and our own file.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return program


def run(program: Path, line: bytes) -> bytes:
    """Run a program in its folder, and return its replies to what comes over the line."""
    folder = program.parent
    (folder / "line").write_bytes(line)
    command = [*EMULATED, program.name] if program.suffix == ".elf" else [str(program)]
    # S603: as above. An emulated board would read commands from the terminal.
    subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, check=True)  # noqa: S603
    return (folder / "replies").read_bytes()


def instructions(folder: Path) -> list[float]:
    """Return the mean numbers of instructions of the last run on the emulated board."""
    lines = [line.split() for line in (folder / "ticks").read_text().splitlines()]
    return [INSTRUCTIONS_A_TICK * int(ticks) / max(1, int(times)) for ticks, times in lines]


def sizes(program: Path) -> tuple[int, int]:
    """Return the bytes of flash memory, and of RAM without the stack, of an emulated program."""
    command = ["arm-none-eabi-size", str(program)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    text, data, bss = map(int, re.findall(r"\d+", told.stdout)[:3])
    return text + data, data + bss
