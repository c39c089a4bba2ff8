"""Whole numbers on the demos' command lines; argparse says which kind it missed by the names."""


def positive(text: str) -> int:
    """Read a whole number, at least 1."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Read a whole number, at least 0."""
    return _at_least(0, text)


def _at_least(smallest: int, text: str) -> int:
    number = int(text)
    if number < smallest:
        raise ValueError(text)
    return number
