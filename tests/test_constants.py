"""Constants of C and of Python have one value."""

import re
from pathlib import Path

import pytest

from onlinels.core import constants

FOLDER = Path(constants.__file__).parent
SOURCES = sorted([*FOLDER.glob("*.h"), *FOLDER.glob("*.c")])
OF_PYTHON = {name: value for name, value in vars(constants).items() if name.isupper()}

OF_C = "ROWS_AT_ONCE COLUMNS_AT_ONCE MAX_COUNTED N_FACTORS COUNTS MEANS VARIANCES FAR N_SCALE_PARTS"
OF_C += " N_SHARED X TARGETS W SCORES SPREADS TIMES N_ARRAYS MOST_COARSE MOST_FINE"
OF_C += " FACTORS_AT_ONCE MOST_TURNS LEVEL CHANGE N_QUANTITIES PLAIN_NUMBER LAST_NUMBER"
OF_C += " MEAN_NUMBER N_OTHERS MAX_FORECASTS MIN_ROWS_FOLLOWED NAIVE_EPOCH EPOCH UTC TZINFO"
OF_C += " DAYS SECONDS MICROSECONDS N_OF_DATES SCALES_AT_ONCE GOLDEN_SECTION"
OF_C += " BYTES_VERSION CLASSIFIES CRC_SIZE HEAD_SIZE SINGLES WHOLES DOUBLES"
OF_C += " LEAST_RIDGE MOST_TEXT MOST_ROWS MOST_VALUE"
OF_C += " TAKEN DAMAGED OF_ANOTHER_MODEL TOO_LARGE NOT_NEWER NOT_WRITTEN"
"""What C alone needs: steps of its loops, and places in its own arrays."""


def constants_in(code, known):
    """Return the numbers that a C source names, by `#define` or in an `enum`."""
    code, found = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL), dict(known)
    numbers = re.findall(r"^#define (\w+) +([-\d.(][^\n]*)|\benum \{([^}]*)\}", code, re.MULTILINE)
    for name, number, members in numbers:
        if name and "Py" not in name + number:  # Those of Python's headers are not known here.
            found[name] = eval(number, {}, found)
        value = -1
        for member in filter(None, map(str.strip, members.split(","))):
            own, _, start = member.partition(" = ")
            value = found[own] = eval(start, {}, found) if start else value + 1
    return found


@pytest.fixture(scope="module")
def of_c():
    found = {}
    for path in sorted(SOURCES, key=lambda path: (path.suffix == ".c", path.name)):
        found = constants_in(path.read_text(encoding="utf-8"), found)
    return found


def test_constants_are_read_as_a_compiler_reads_them():
    code = """
    #define FEW 3.0 /* not 4 */
    #define SHARE (2.0 * FEW)
    #define KERNEL COMPILED("O3")
    enum { FIRST, SECOND = FEW, /* a place, */
           THIRD, N_ALL };
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    found = {"FEW": 3.0, "SHARE": 6.0, "FIRST": 0, "SECOND": 3.0, "THIRD": 4.0, "N_ALL": 5.0}
    assert constants_in(code, {}) == found


def test_both_languages_have_the_same_constants(of_c):
    own = {name: value for name, value in of_c.items() if name not in OF_C.split()}
    assert own == OF_PYTHON


def test_no_constant_is_forgotten_or_left_over(of_c):
    """Whoever adds one to C says whether Python needs it, too."""
    assert set(OF_C.split()) <= set(of_c)
    assert not set(OF_C.split()) & set(OF_PYTHON)
