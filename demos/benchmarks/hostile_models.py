"""Files that claim to be saved models: descriptions that lie, with checksums that are right."""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hostile_changes import Change, Choices, any_number, one_of
from hostile_formats import METHODS, npy, zip_of
from river import preprocessing

import onlinels
from onlinels import (
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    StreamClassifier,
    WindowedClassifier,
)

Members = dict[str, bytes]
DESCRIPTION, CHECKSUM = "model.json", "model.sha256"

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0.5, -1.5, 1e308, "text", "", [], {}, [[]]),
    *({"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"int": "0x" + "f" * 5000}),
    *({"tuple": []}, {"dict": [[[], 1]]}, {"set": [[1]]}, {"range": [0, 10**30, 1]}),
    *({"same": 0}, {"same": 10**9}, {"array": "missing"}, {"constant": "unlabelled"}),
    *({"object": name, "number": 0, "state": {}} for name in ("Thread", "Lock", "Power")),
    *({"deque": [1], "most": most} for most in (-1, 10**30)),
    *({"defaultdict": [], "of": of, "with": [1, 2]} for of in ("eval", "dict")),
    *({"bytes": "zz"}, {"bytes": "ff" * 60}, {"scalar": "|O", "is": 1}, {"unknown": 1}),
)


def rows(n_rows: int) -> tuple[Any, list[str]]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 4))
    return X, np.where(X[:, 0] > 0, "high", "low").tolist()


def use(model: Any) -> None:
    """Predict and learn a little, each for itself: a model that lies may be refused here."""
    X, y = rows(6)
    numbers = X[:, 0].tolist()
    for row, label, number in zip(X.tolist(), y, numbers, strict=True):
        sample = dict(zip("abcd", row, strict=True))
        for learnt in (label, number):
            with suppress(Exception):
                model.predict_one(sample)
            with suppress(Exception):
                model.learn_one(sample, learnt)
    with suppress(Exception):
        model.learn_many([dict(zip("abcd", row, strict=True)) for row in X.tolist()], y)


def _of_windows() -> Any:
    examples = np.eye(12)[:, :, None] * np.ones(4)
    features = MiniRocketFeatures.from_examples(examples, n_features=84)
    return features | LeastSquaresClassifier()


MODELS: tuple[Callable[[], Any], ...] = (
    LeastSquaresClassifier,
    lambda: LeastSquaresClassifier(ridge=KFold(3), fit_intercept=False),
    lambda: LeastSquaresClassifier(accumulator="orthogonal", balance="priors"),
    lambda: LeastSquaresClassifier(1.0, "recursive", forgetting_factor=0.9),
    LeastSquaresRegressor,
    StreamClassifier,
    lambda: DriftAwareClassifier(LeastSquaresClassifier(balance="classwise")),
    lambda: WindowedClassifier(_of_windows(), window=12),
    lambda: (
        preprocessing.StandardScaler()
        | HiddenLayer(8, bias=True)
        | LeastSquaresClassifier(half_life=9)
    ),
)


@cache
def genuine() -> tuple[Members, ...]:
    """Return the members of files of all models, which have learnt a little."""
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for make in MODELS:
            model, path = make(), Path(folder) / "model.npz"
            for _ in range(4):
                use(model)
            onlinels.save(model, path)
            with zipfile.ZipFile(path) as file:
                files.append({info.filename: file.read(info) for info in file.infolist()})
    return tuple(files)


def with_checksum(members: Members) -> Members:
    checksum = hashlib.sha256(members[DESCRIPTION]).hexdigest()
    return members | {CHECKSUM: checksum.encode()}


def described(number: int) -> Callable[[Change], bytes]:
    """Return the file of a model as a form: what changes is its description."""

    def form(change: Change) -> bytes:
        members = genuine()[number]
        members = members | {DESCRIPTION: change(members[DESCRIPTION])}
        return zip_of(with_checksum(members), METHODS[0])

    return form


def read_model(path: Path) -> list[Any]:
    use(onlinels.load(path))
    return []


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all that a description holds."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def within(said: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        said = said[key]
    return said


def lie(choices: Choices) -> bytes:
    """Return a file whose description has one or two entries replaced or taken out."""
    members = one_of(choices, genuine())
    said = json.loads(members[DESCRIPTION])
    for _ in range(int(choices.integers(1, 3))):
        path = one_of(choices, list(places(said)))
        holder, kind = within(said, path[:-1]), int(choices.integers(0, 4))
        if kind == 0:
            del holder[path[-1]]
        elif kind == 1:
            holder[path[-1]] = any_number(choices)
        elif kind == 2:
            holder[path[-1]] = one_of(choices, VALUES)
        else:
            other = within(said, one_of(choices, list(places(said))))
            holder[path[-1]] = copy.deepcopy(other)
    members = members | {DESCRIPTION: json.dumps(said).encode()}
    return zip_of(with_checksum(members), METHODS[0])


def other_array(choices: Choices) -> bytes:
    """Return a file of which one array has another shape, type or content, and says so."""
    members = one_of(choices, genuine())
    said = json.loads(members[DESCRIPTION])
    name = one_of(choices, sorted(said["arrays"]))
    shape = [int(choices.integers(0, 6)) for _ in range(int(choices.integers(0, 4)))]
    value, dtype = one_of(choices, (0, 1, -1, 10**9)), one_of(choices, ("<f8", "<i8", "|b1", "<f4"))
    array = np.full(shape, value).astype(dtype)
    said["arrays"][name] = hashlib.sha256(npy(array)).hexdigest()
    members = members | {f"{name}.npy": npy(array), DESCRIPTION: json.dumps(said).encode()}
    return zip_of(with_checksum(members), one_of(choices, METHODS))
