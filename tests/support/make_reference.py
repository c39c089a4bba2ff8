"""Make tests/reference.npz anew: `python tests/support/make_reference.py`.

The file is what models answered before a change of the code. Make it anew only if answers change on
purpose, and say which.
"""

import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.reference import ENTRIES

PATH = Path(__file__).parents[1] / "reference.npz"
SEPARATOR = " / "
"""Between the name of an entry and that of its array, in the names of the file's arrays."""


def make():
    """Return the arrays of all entries, as they are in the file."""
    return {
        f"{name}{SEPARATOR}{part}": values
        for name, function in ENTRIES.items()
        for part, values in function().items()
    }


if __name__ == "__main__":
    path = Path(sys.argv[1]) if sys.argv[1:] else PATH
    arrays = make()
    np.savez_compressed(path, **arrays)
    print(f"{path}: {len(ENTRIES)} entries, {len(arrays)} arrays, {path.stat().st_size:,} bytes")
