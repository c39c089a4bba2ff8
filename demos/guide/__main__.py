"""Build the guide into a site: HTML with search, two themes and an API reference.

Run `python demos/guide` with the extra `docs` installed. Whatever Sphinx warns of is an error.
"""

import argparse
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("site"), help="folder (%(default)s)")
    output = parser.parse_args().output
    # All pages anew: else pages that did not change keep old titles in their navigation.
    options = ["-W", "--keep-going", "-q", "-a", "-E"]
    code = int(build_main([*options, str(HERE), str(output)]))
    if code == 0:
        print(f"Open {output / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
