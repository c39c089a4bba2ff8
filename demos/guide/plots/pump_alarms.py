"""Draw the alarms of a simulated pump whose labels come late: by the code of the page itself."""

from __future__ import annotations

import doctest
from typing import Any

from drawing import IMAGES, output_of


def main() -> None:
    output = output_of(__doc__, "pump-alarms")
    blocks = (IMAGES.parent / "late.md").read_text("utf-8").split("```python\n")
    block = next(each for each in blocks if "AlarmLog" in each)
    examples = doctest.DocTestParser().get_examples(block)
    code = "".join(each.source for each in examples if doctest.SKIP not in each.options)
    names: dict[str, Any] = {}
    # S102: the code of the guide, which its tests run, too.
    exec(code, names)  # noqa: S102
    names["draw"](output, names["log"], "days")


if __name__ == "__main__":
    main()
