"""Models answer as they did when tests/reference.npz was made (`support.make_reference`)."""

import numpy as np
import pytest

from support.make_reference import PATH, SEPARATOR
from support.reference import ENTRIES

RELATIVE = 1e-9
"""Largest difference of a number, relative to the largest number of its array."""


def by_entry(names):
    """Return the names of the arrays of each entry, from the names in the file."""
    found = {}
    for name in names:
        entry, _, part = name.rpartition(SEPARATOR)
        found.setdefault(entry, []).append(part)
    return found


with np.load(PATH) as file:
    REFERENCE = {name: file[name] for name in file.files}
PARTS = by_entry(REFERENCE)


def test_the_file_holds_the_entries_and_no_others():
    assert sorted(PARTS) == sorted(ENTRIES)
    assert PATH.stat().st_size <= 2 << 20


@pytest.mark.filterwarnings("ignore:Numbers as text:UserWarning")
@pytest.mark.parametrize("name", ENTRIES)
def test_models_answer_as_before(name):
    found = ENTRIES[name]()
    assert sorted(found) == sorted(PARTS[name])
    for part, values in found.items():
        expected = REFERENCE[f"{name}{SEPARATOR}{part}"]
        assert values.shape == expected.shape, part
        if expected.dtype.kind != "f":
            assert (values == expected).all(), part
        elif expected.size:
            finite = np.isfinite(expected)
            largest = np.abs(expected[finite]).max(initial=0.0)
            np.testing.assert_allclose(
                values, expected, rtol=0.0, atol=RELATIVE * largest, err_msg=part
            )
