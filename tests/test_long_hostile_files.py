"""Files changed at random and files made to do harm, many of them: read or refused.

Started by hand: ``ONLINELS_LONG=100000 pytest -m slow -s tests/test_long_hostile_files.py``.
Printed are a reader's files, those read and refused, milliseconds of the slowest and kB of the
largest allocation.
"""

import os

import numpy as np
import pytest

from support.untrusted_files import READERS, attempt, hostile, prepare

N_FILES = int(os.environ.get("ONLINELS_LONG", "2000"))
"""Of all readers together."""
SEED = int(os.environ.get("ONLINELS_SEED", "0"))
MEASURED_EVERY = 4
"""Allocations of one file in so many are traced, which makes its reading several times slower."""


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_every_file_is_read_or_refused(reader, tmp_path):
    path, outcomes = prepare(reader, tmp_path / "files"), []
    for number in range(N_FILES // len(READERS)):
        # So that a file can be made again by itself.
        content = hostile(reader, np.random.default_rng([SEED, READERS.index(reader), number]))
        outcomes.append(attempt(reader, path, content, number % MEASURED_EVERY == 0))
        kind = outcomes[-1].kind
        assert kind in ("read", "refused"), f"file {number} of seed {SEED}: {kind}"
    kinds = [outcome.kind for outcome in outcomes]
    slowest = 1000 * max(outcome.seconds for outcome in outcomes)
    largest = max(outcome.allocated for outcome in outcomes) / 1000
    print(
        f"\n| {reader.name} | {len(kinds):,} | {kinds.count('read'):,} | "
        f"{kinds.count('refused'):,} | {slowest:.1f} | {largest:,.0f} |"
    )
    assert {"read", "refused"} <= set(kinds)
