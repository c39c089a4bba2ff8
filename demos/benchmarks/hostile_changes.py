"""Changes that make a hostile file of a genuine one, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Change = Callable[[bytes], bytes]

NUMBERS = (
    *(0, 1, 2, 3, 7, 32, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 2**24),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Sizes and counts that headers are made to state: small ones, and the ends of number types."""

EDGE = 96
"""Bytes at the beginning and at the end that are changed more often: headers lie there."""


class Choices(Protocol):
    """What decides how a file is changed: numpy's random generator, or a test's own."""

    def integers(self, low: int, high: int, /) -> Any:
        """Return a whole number from `low` to below `high`."""

    def bytes(self, length: int, /) -> bytes:
        """Return so many bytes."""


def one_of(choices: Choices, things: Sequence[T]) -> T:
    return things[int(choices.integers(0, len(things)))]


def any_number(choices: Choices) -> int:
    """Return one of `NUMBERS`, or one beside it."""
    return max(0, one_of(choices, NUMBERS) + int(choices.integers(-1, 2)))


def as_bytes(choices: Choices, number: int) -> bytes:
    """Return a number in a width and an order of bytes, whether it fits or not."""
    width = one_of(choices, (1, 2, 4, 4, 4, 8, 8))
    in_order: bytes = (number % 256**width).to_bytes(width, "big")
    return in_order[:: one_of(choices, (1, -1))]


def changed(content: bytes, choices: Choices) -> bytes:
    """Return content changed in one to three ways."""
    for _ in range(int(choices.integers(1, 4))):
        content = one_of(choices, CHANGES)(content, choices)
    return content


def place(content: bytes, choices: Choices) -> int:
    """Return a place in content: near its beginning, near its end, or anywhere."""
    n = len(content)
    starts = (0, max(0, n - 4 * EDGE), 0)
    ends = (min(n, EDGE), n, n)
    part = int(choices.integers(0, 3))
    return int(choices.integers(starts[part], ends[part] + 1))


def truncated(content: bytes, choices: Choices) -> bytes:
    return content[: place(content, choices)]


def beheaded(content: bytes, choices: Choices) -> bytes:
    return content[place(content, choices) :]


def with_bits_turned(content: bytes, choices: Choices) -> bytes:
    turned = bytearray(content)
    for _ in range(int(choices.integers(1, 9))):
        at = place(content, choices)
        if at < len(turned):
            turned[at] ^= 1 << int(choices.integers(0, 8))
    return bytes(turned)


def overwritten(content: bytes, choices: Choices) -> bytes:
    at, some = place(content, choices), some_bytes(choices)
    return content[:at] + some + content[at + len(some) :]


def lengthened(content: bytes, choices: Choices) -> bytes:
    at = place(content, choices)
    return content[:at] + some_bytes(choices) + content[at:]


def shortened(content: bytes, choices: Choices) -> bytes:
    at = place(content, choices)
    return content[:at] + content[at + int(choices.integers(1, 33)) :]


def repeated(content: bytes, choices: Choices) -> bytes:
    at, length = place(content, choices), int(choices.integers(1, 2 * EDGE))
    return content[: at + length] + content[at:]


def with_a_number(content: bytes, choices: Choices) -> bytes:
    # Where numbers lie in most formats, or anywhere.
    at = place(content, choices) & one_of(choices, (-4, -4, -1))
    number = as_bytes(choices, any_number(choices))
    return content[:at] + number + content[at + len(number) :]


def followed(content: bytes, choices: Choices) -> bytes:
    return content + one_of(choices, (some_bytes(choices), content, bytes(1000)))


def noise(content: bytes, choices: Choices) -> bytes:
    return choices.bytes(int(choices.integers(0, 300)))


def noise_behind_the_beginning(content: bytes, choices: Choices) -> bytes:
    return content[: int(choices.integers(1, 17))] + noise(content, choices)


def some_bytes(choices: Choices) -> bytes:
    length = int(choices.integers(1, 17))
    fill = one_of(choices, (b"\0", b"\xff", b"(", b"'", b"9", b""))
    return fill * length if fill else choices.bytes(length)


CHANGES = (
    truncated,
    beheaded,
    with_bits_turned,
    overwritten,
    lengthened,
    shortened,
    repeated,
    with_a_number,
    with_a_number,
    with_a_number,
    followed,
    noise,
    noise_behind_the_beginning,
)
