"""Models of format 3: files and pickles that this format's last version wrote, and new ones in it.

In `version_3.xz`, the keys "models", "pickles", "earlier_model" and "earlier_pickle" hold bytes of
models that have been taught `ROWS`, with what they answered to the rows of "answers"; an outlier
came last in "outlier". Those that are earlier have two marks less, counts that are integers, and
columns without what is new in them.
"""

import json
import lzma
import pickle
from pathlib import Path

import numpy as np

FIELDS = {
    "_sums": "products",
    "_mean": "mean",
    "_tally": "tally",
    "_target_squares": "squares_of_targets",
    "_prints": "prints",
    "_rounding": "rounding",
    "_weightless": "weightless",
}

X = np.random.default_rng(0).normal(size=(60, 2)).round(3)
ROWS = [dict(zip("ab", row, strict=True)) for row in X.tolist()]
LABELS = ["xyz"[k % 3] for k in range(60)]
NUMBERS = (X @ [2.0, -1.0] + 3.0).round(3).tolist()


def unpacked(name="version_3.xz"):
    """Return the contents of a file by key, those of "answers" by name of a model."""
    packed = (Path(__file__).parent.parent / name).read_bytes()
    contents = pickle.loads(lzma.decompress(packed))
    return contents | {"answers": json.loads(contents["answers"])}


def as_version_3(node):
    """Return the description of a value in a file, as format 3 describes it."""
    if isinstance(node, list):
        return [as_version_3(each) for each in node]
    if not isinstance(node, dict):
        return node
    state = node.get("state")
    held = state.get("_state") if isinstance(state, dict) else None
    if isinstance(held, dict) and held.get("object") == "State":
        return {"object": node["object"], "state": attributes(state)}
    return {name: as_version_3(each) for name, each in node.items()}


def attributes(model):
    """Return the attributes of a linear model, given its state."""
    state, outputs = model["_state"]["state"], model["_state"]["state"]["outputs"]
    following = state["following"]["state"]
    said = {f"_{name}": state[name] for name in ("settings", "columns", "clock", "penalty")}
    said |= {f"_{name}": following[name] for name in ("solution", "recursion", "rows")}
    said |= {
        "_marks": following["registers"],
        "_lock": model["_lock"],
        "_statistics": statistics(state["subsets"]["state"]),
    }
    if state["counts"] is None:
        return said | {"_target_names": {"tuple": ["y"]} if outputs == "y" else outputs}
    return said | {"_classes": outputs, "_class_counts": state["counts"]}


def statistics(subsets):
    """Return statistics that hold those without outliers, and those of folds."""
    fields = subsets["whole"]["state"]
    state = {former: fields[name] for former, name in FIELDS.items()}
    if subsets["inliers"] is not None:
        state["_beside"] = statistics({"whole": subsets["inliers"], "inliers": None, "folds": None})
    folds = subsets["folds"]["tuple"] if subsets["folds"] else []
    if not folds:
        return {"object": "Statistics", "state": state}
    state["_folds"] = [statistics(fold["state"]) for fold in folds]
    state |= {"_hashes": subsets["hashes"], "_n_named": 0}
    return {"object": "FoldedStatistics", "state": state}
