"""Models of format 4: files and pickles that this format's last version wrote, and new ones in it.

In `version_4.xz`, the keys "models" and "pickles" hold bytes of a dict of models that have been
taught the rows of `version_3`, with what they answered to the rows of "answers"; an outlier came
last in "outlier", and a row was taken out and learnt again in "removed". The models of streams are
`test_stream.taught`.
"""

import json
from functools import partial

from support import version_3
from support.untrusted_files import (
    BLOCK,
    DESCRIPTION,
    arrays_of,
    members_of,
    npy,
    zip_of,
)

unpacked = partial(version_3.unpacked, "version_4.xz")


def in_version_4(path):
    """Let a file of the present format be one of format 4, in which arrays are members."""
    members = members_of(path.read_bytes())
    said, arrays = json.loads(members.pop(DESCRIPTION)), arrays_of(members_of(path.read_bytes()))
    members.pop(BLOCK)
    # Of every array and object in the order in which they are completed: what refers to it.
    known, n_objects = [], [0]

    def rewritten(node):
        if isinstance(node, list):
            return [rewritten(each) for each in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("array"), str):
            name = f"array.{sum('array' in each for each in known)}"
            members[f"{name}.npy"] = npy(arrays[len(members)])
            known.append({"array": name})
            return known[-1]
        if "same" in node:
            return known[node["same"]]
        new = {name: rewritten(each) for name, each in node.items()}
        if "object" in node:
            known.append({"same": n_objects[0]})
            n_objects[0] += 1
        return new

    said = said | {"format": 4, "model": rewritten(said["model"])}
    path.write_bytes(zip_of(members | {DESCRIPTION: json.dumps(said).encode()}))
