"""Files changed at random and files made to do harm, many of them: read or refused.

Started by hand: ``ONLINELS_LONG=100000 pytest -m slow tests/test_long_hostile_files.py``.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from hostile import READERS, attempt, hostile, prepare

N_FILES = int(os.environ.get("ONLINELS_LONG", "2000"))
"""Of all readers together."""
SEED = int(os.environ.get("ONLINELS_SEED", "0"))
MEASURED_EVERY = 4
"""Allocations of one file in so many are traced, which makes its reading several times slower."""


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_every_file_is_read_or_refused(reader, tmp_path):
    path, kinds = prepare(reader, tmp_path / "files"), {"read": 0, "refused": 0}
    for number in range(N_FILES // len(READERS)):
        # So that a file can be made again by itself.
        content = hostile(reader, np.random.default_rng([SEED, READERS.index(reader), number]))
        kind = attempt(reader, path, content, number % MEASURED_EVERY == 0).kind
        assert kind in kinds, f"file {number} of seed {SEED}: {kind}"
        kinds[kind] += 1
    assert all(kinds.values()), kinds
