"""Remove a person from a trained model, prove it, and refuse to do it twice.

The data are the 569 breast tumours of scikit-learn, with 30 measurements each. Three hospitals send
files of statistics, not rows, and the files are merged. Then patients of the hospital "north" ask
to be removed, at last all of them. After each request, the model is compared with a model that
never saw these patients, and, as a control, so is the model that they are still in.

python demos/remove_person.py
"""

from __future__ import annotations

import hmac
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from show import BLUE, GREY, LINE, VERMILLION, figure, make_parser, table_of
from sklearn.datasets import load_breast_cancer

import onlinels
from onlinels import LeastSquaresClassifier

Patient = tuple[str, dict[str, float], str]  # Identifier, measurements and diagnosis.
Request = tuple[str, float, float]  # Who was removed; the difference without and with them.

SITES = "north", "south", "west"
N_TEST = 150
TITLE = "Difference to a model that never saw them"
KEY = b"kept apart from the files"  # Without a key, hashes of identifiers can be guessed.


def main(argv: list[str] | None = None) -> None:
    output = make_parser(__doc__, "remove_person.png").parse_args(argv).output
    console = Console()
    sites, test = read()
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{name}.npz") for name in SITES}
        for name, file in files.items():
            model = LeastSquaresClassifier()
            learn(model, sites[name])
            # The model and its ledger are one file: a crash leaves both as before, or as after.
            onlinels.save({"model": model, "removed": {}}, file)
        size = sum(file.stat().st_size for file in files.values()) / 1024
        console.print(f"Three hospitals sent {size:.0f} KiB of statistics and no rows.")
        requests = answer(files, sites, console)
        merged = merge(files)
        console.print(f"Without north, {accuracy(merged, test):.1%} of {N_TEST} others are right.")
    draw(output, requests)
    console.print(f"Picture: {output}")


def read() -> tuple[dict[str, list[Patient]], list[Patient]]:
    """Return the patients of each hospital, and those of the test."""
    data = load_breast_cancer()
    names, labels = data.feature_names.tolist(), np.array(["malign", "benign"])[data.target]
    patients = [
        (f"patient {number}", dict(zip(names, row, strict=True)), str(label))
        for number, (row, label) in enumerate(zip(data.data.tolist(), labels, strict=True))
    ]
    order = np.random.default_rng(0).permutation(len(patients)).tolist()
    parts = np.split(order, [N_TEST, N_TEST + 100, N_TEST + 250])
    test, *sites = ([patients[place] for place in part] for part in parts)
    return dict(zip(SITES, sites, strict=True)), test


def answer(
    files: dict[str, Path], sites: dict[str, list[Patient]], console: Console
) -> list[Request]:
    """Carry out requests of the patients of north, one after the other, and prove each."""
    north, others = sites["north"], sites["south"] + sites["west"]
    still_in, requests, n_gone = merge(files), list[Request](), 0
    table = table_of("removed", "without them", "control: still in", "ms", title=TITLE)
    for n_removed in (1, 5, 25, len(north)):
        began = datetime.now(UTC)
        remove(files["north"], north[n_gone:n_removed])
        n_gone, milliseconds = n_removed, (datetime.now(UTC) - began).total_seconds() * 1e3
        never = LeastSquaresClassifier()
        learn(never, others + north[n_removed:])
        models = merge(files), still_in, never
        for each in models:
            each.select_ridge()  # From all rows: ridge="auto" otherwise waits for a checkpoint.
        name = "1 patient" if n_removed == 1 else f"{n_removed} patients"
        without, with_them = (onlinels.difference(each, never) for each in models[:2])
        requests.append((name, without, with_them))
        table.add_row(name, f"{without:.0e}", f"{with_them:.0e}", f"{milliseconds:.0f}")
    console.print(table)
    try:
        remove(files["north"], north[:1])
    except ValueError as error:
        console.print(f"Asked again: {error}")
    return requests


def remove(file: Path, patients: Sequence[Patient]) -> None:
    """Remove patients from the model in a file, each of them once, and enter them in the ledger.

    Only one process at a time may do this: of two removals at the same time, one is lost.
    """
    state = onlinels.load(file)
    for identifier, *_ in patients:
        entry = hmac.new(KEY, identifier.strip().casefold().encode(), "sha256").hexdigest()
        if entry in state["removed"]:
            raise ValueError(f"{identifier} was removed at {state['removed'][entry]}.")
        state["removed"][entry] = datetime.now(UTC).isoformat(timespec="seconds")
    state["model"].unlearn_many([x for _, x, _ in patients], [y for *_, y in patients])
    onlinels.save(state, file)


def merge(files: dict[str, Path]) -> LeastSquaresClassifier:
    models: list[LeastSquaresClassifier] = [onlinels.load(file)["model"] for file in files.values()]
    return onlinels.merge(*models)


def learn(model: LeastSquaresClassifier, patients: Sequence[Patient]) -> None:
    model.learn_many([x for _, x, _ in patients], [y for *_, y in patients])


def accuracy(model: LeastSquaresClassifier, patients: Sequence[Patient]) -> float:
    answers: NDArray[Any] = model.predict_many([x for _, x, _ in patients])
    return float(np.mean([a == y for a, (*_, y) in zip(answers, patients, strict=True)]))


def draw(path: Path, requests: list[Request]) -> None:
    """Draw the difference to a model that never saw the patients, without and with them."""
    names, without, with_them = zip(*requests, strict=True)
    places = np.arange(len(names))[::-1]
    with figure(path, 6, 3.8, "Patients removed from a merged model") as made:
        axes = made.subplots()
        axes.hlines(places, without, with_them, color=LINE, zorder=0)
        for values, colour, text in (
            (without, BLUE, "removed"),
            (with_them, VERMILLION, "still in"),
        ):
            axes.scatter(values, places, s=90, color=colour)
            place = values[0], places[0] + 0.18
            axes.text(*place, text, color=colour, ha="center", size=11, weight="bold")
        axes.axvline(np.finfo(float).eps, color=GREY, lw=1, ls=":")
        axes.set_yticks(places, names)
        axes.set(xscale="log", xlim=(1e-17, 10.0), ylim=(-0.5, len(names) - 0.4))
        axes.set_xlabel(f"{TITLE[0].lower()}{TITLE[1:]}")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.text(np.finfo(float).eps, -0.42, " float64 rounds here", color=GREY, size=10)


if __name__ == "__main__":
    main()
