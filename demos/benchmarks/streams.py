"""Compare classifiers on streams: each row is predicted and then learnt.

python demos/benchmarks/streams.py
python demos/benchmarks/streams.py --data folder    (elec2, gas and wisdm, too: .npz files)
python demos/benchmarks/streams.py --peers          (MOA's forests, in the same tables)
python demos/benchmarks/streams.py --quick          (seconds)

The script writes tables (tables.md) of accuracy, Cohen's kappa, log-loss, microseconds per row and
bytes of the pickled model, and a figure (streams.png), to the folder --out. Every finished run is a
line of results.jsonl there, so an interrupted command resumes where it stopped.

--peers measures CapyMOA's forests instead (MOA's forests, in Java), best in a separate environment
(`pip install . capymoa torch matplotlib rich scikit-learn`). Rows are converted to instances of MOA
before timing, and MOA gets all labels of a stream before its first row. Java's compiler and garbage
collector run in their own threads.
"""

from __future__ import annotations

import os

# Before numpy is imported.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})

# isort: split
import argparse
import gc
import math
import pickle
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any

import numpy as np
from common import (
    Line,
    Measured,
    ResultsFile,
    bar,
    folder_of_arrays,
    in_times,
    machine,
    make_parser,
    markdown,
    measure_and_report,
    positive,
    print_sheet,
    shared_streams,
    values_of,
    versions,
)
from matplotlib.ticker import FuncFormatter, NullLocator
from river import (
    datasets,
    dummy,
    ensemble,
    forest,
    linear_model,
    metrics,
    naive_bayes,
    neighbors,
    tree,
)
from river.datasets import synth
from river.preprocessing import StandardScaler
from scipy.stats import rankdata
from show import GREY, figure

from onlinels import HiddenLayer, LeastSquaresClassifier, StreamClassifier

Row = tuple[Any, Hashable]
Source = Callable[[], Iterable[Row]]

# -- streams --------------------------------------------------------------------------------------


def three_concepts(make: Callable[[int], Iterable[Row]], n_rows: int) -> Iterator[Row]:
    """Yield a third of the rows of concept 0, then of concept 1, then of concept 2."""
    return chain.from_iterable(islice(make(concept), n_rows // 3) for concept in range(3))


def random_rbf() -> Iterable[Row]:
    return synth.RandomRBFDrift(
        seed_model=1,
        seed_sample=2,
        n_classes=4,
        n_features=10,
        n_centroids=30,
        change_speed=0.001,
        n_drift_centroids=15,
    )


def random_tree() -> Iterable[Row]:
    return synth.RandomTree(
        seed_tree=1,
        seed_sample=2,
        n_classes=3,
        n_num_features=5,
        n_cat_features=3,
        max_tree_depth=6,
        first_leaf_level=3,
    )


def of_file(path: Path) -> Iterator[Row]:
    """Yield the rows of a file with arrays x and y, without features that are NaN.

    Raises
    ------
    ValueError
        If the file does not hold arrays x and y with the same number of rows.
    """
    with np.load(path) as arrays:
        if not {"x", "y"} <= set(arrays.files) or len(arrays["x"]) != len(arrays["y"]):
            problem = f"{path} does not hold arrays x and y with the same number of rows"
            raise ValueError(f"{problem}. Pass a folder with such files.")
        x, labels = np.asarray(arrays["x"], dtype=float), arrays["y"].tolist()
    for values, label in zip(x.tolist(), labels, strict=True):
        known = ((column, value) for column, value in enumerate(values) if value == value)
        yield {f"f{column}": value for column, value in known}, label


BUNDLED: dict[str, Source] = {
    "Phishing": datasets.Phishing,
    "Bananas": datasets.Bananas,
    "ImageSegments": datasets.ImageSegments,
    "Shuttle": lambda: islice(datasets.Shuttle(), 20_000),
}
"""All streams in river with one label per row, except those that need a download."""
MADE: dict[str, Source] = {
    "SEA": lambda: three_concepts(lambda k: synth.SEA(k, seed=1 + k, noise=0.1), 15_000),
    "Agrawal": lambda: three_concepts(lambda k: synth.Agrawal(k, seed=1 + k), 15_000),
    "LED": lambda: islice(
        synth.LEDDrift(seed=1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4),
        10_000,
    ),
    "RBFDrift": lambda: islice(random_rbf(), 15_000),
    "Hyperplane": lambda: islice(
        synth.Hyperplane(
            seed=1, n_features=10, n_drift_features=5, mag_change=0.001, noise_percentage=0.05
        ),
        15_000,
    ),
    "Sine": lambda: three_concepts(lambda k: synth.Sine(k, seed=1 + k), 9_000),
    "Mixed": lambda: three_concepts(lambda k: synth.Mixed(k % 2, 1 + k, False), 9_000),
    "STAGGER": lambda: three_concepts(lambda k: synth.STAGGER(k, seed=1 + k), 9_000),
    "RandomTree": lambda: islice(random_tree(), 10_000),
    "Waveform": lambda: islice(synth.Waveform(seed=1, has_noise=True), 8_000),
}
"""Streams generated by river; all except RandomTree and Waveform drift, abruptly or gradually."""
FILES = {"elec2": "elec2.npz", "gas": "gas_drift_b1-6_8_9.npz", "wisdm": "wisdm_transformed.npz"}
"""Electricity, Gas Sensor Array Drift and WISDM."""
NAMES = (*BUNDLED, *MADE, *FILES)


def sources_of(arguments: argparse.Namespace) -> dict[str, Source]:
    """Return the selected streams that are available; print why others are left out."""
    found: dict[str, Source] = {}
    for name in arguments.streams:
        if name not in FILES:
            found[name] = (BUNDLED | MADE)[name]
        elif arguments.data is not None and (arguments.data / FILES[name]).is_file():
            found[name] = partial(of_file, arguments.data / FILES[name])
        else:
            print(f"{name} is left out: --data has no file {FILES[name]}", file=sys.stderr)
    return found


# -- models ---------------------------------------------------------------------------------------

OURS, PEER = "StreamClassifier", "ARF"
"""The two models compared in the summary."""


def dict_pipeline() -> Any:
    """Return a river pipeline of onlinels' parts: one model with one forgetting factor."""
    last = LeastSquaresClassifier(1.0, accumulator="recursive", forgetting_factor=0.999)
    return StandardScaler() | HiddenLayer(300, activation="relu", bias=True) | last


MODELS: dict[str, Callable[[], Any]] = {
    OURS: StreamClassifier,
    "dict pipeline": dict_pipeline,
    PEER: lambda: forest.ARFClassifier(n_models=10, seed=1),
    "SRP": lambda: ensemble.SRPClassifier(n_models=10, seed=1),
    "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
    "KNN": lambda: StandardScaler() | neighbors.KNNClassifier(),
    "Softmax": lambda: StandardScaler() | linear_model.SoftmaxRegression(),
    "GaussianNB": naive_bayes.GaussianNB,
    "NoChange": dummy.NoChangeClassifier,
}
PEERS = {"MOA ARF": "AdaptiveRandomForestClassifier", "MOA SRP": "StreamingRandomPatches"}
"""Names in the tables, and CapyMOA's classes: forests of 10 trees, seed 1, one job."""
QUICK_MODELS = [OURS, "dict pipeline", "HAT", "Softmax", "GaussianNB", "NoChange"]
QUICK_STREAMS, QUICK_ROWS = ["Phishing", "ImageSegments", "SEA"], 300


def as_instances(rows: list[Row]) -> tuple[list[Row], Any]:
    """Return rows as instances of MOA, and their schema."""
    from capymoa.core import LabeledInstance
    from capymoa.stream import Schema

    features = list(dict.fromkeys(feature for x, _ in rows for feature in x))
    labels = list(dict.fromkeys(label for _, label in rows))
    categories = {"label": [str(label) for label in labels]}
    schema = Schema.from_custom([*map(str, features), "label"], "label", categories)
    made: list[Row] = []
    for x, label in rows:
        values = np.array([float(x.get(feature, np.nan)) for feature in features])
        instance = LabeledInstance.from_array(schema, values, labels.index(label))
        # Created at the first access, then cached.
        _ = instance.java_instance
        made.append((instance, str(label)))
    return made, schema


class MoaModel:
    """A CapyMOA classifier with river's interface."""

    def __init__(self, name: str, schema: Any) -> None:
        from capymoa import classifier

        self._labels = list(schema.get_label_values())
        make = getattr(classifier, PEERS[name])
        self._model = make(schema=schema, random_seed=1, ensemble_size=10, number_of_jobs=1)

    def predict_proba_one(self, instance: Any) -> dict[str, float]:
        """Return the probability of every label, or {} if MOA returns none."""
        shares = self._model.predict_proba(instance)
        return {} if shares is None else dict(zip(self._labels, shares.tolist(), strict=True))

    def learn_one(self, instance: Any, _label: str) -> None:
        """Learn an instance, which contains its label."""
        self._model.train(instance)


# -- measuring ------------------------------------------------------------------------------------

FLOOR = 1e-15
"""Smallest probability in the log-loss; the largest is 1."""


def main() -> int:
    arguments = parse_arguments()
    return measure_and_report(arguments, sources_of(arguments), measure_missing, report)


def conditions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the conditions that must be equal for times to be compared."""
    return {"at_most": arguments.rows, "machine": machine()}


def versions_of(peers: bool) -> dict[str, str]:
    """Return the versions of Python, of onlinels and of other libraries."""
    return versions(*(("capymoa", "numpy") if peers else ("river", "numpy", "scipy")))


def measure_missing(
    sources: Mapping[str, Source], results: ResultsFile, arguments: argparse.Namespace
) -> dict[str, str]:
    """Measure runs without a stored result; return error messages by model and stream."""
    failed, held = {}, ""
    known = conditions(arguments) | {"versions": versions_of(arguments.peers)}
    # On each stream, the models take turns.
    runs = [(s, r, m) for s in sources for r in range(arguments.repeats) for m in arguments.models]
    for stream, repeat, model in bar(runs, "runs"):
        key = known | {"stream": stream, "model": model, "repeat": repeat}
        if results.find(key) is not None:
            continue
        try:
            if stream != held:
                rows, schema = list(islice(sources[stream](), arguments.rows)), None
                if arguments.peers:
                    rows, schema = as_instances(rows)
                held = stream
            made = MoaModel(model, schema) if arguments.peers else MODELS[model]()
            # The garbage of the previous model must not count in the time of this one.
            gc.collect()
            results.add(key, test_then_train(made, rows))
        except Exception as error:
            failed[f"{model} on {stream}"] = f"{type(error).__name__}: {error}"
    return failed


def test_then_train(model: Any, rows: list[Row]) -> dict[str, float]:
    """Return scores, microseconds per row, and bytes of the pickled model at the end.

    Only `predict_proba_one` and `learn_one` are timed. The predicted label is the most probable
    one; a prediction without probabilities is wrong.
    """
    kappa: Any = metrics.CohenKappa()  # type: ignore[no-untyped-call]
    right, loss, seconds = 0, 0.0, 0.0
    for x, label in rows:
        started = time.perf_counter()
        shares = model.predict_proba_one(x)
        model.learn_one(x, label)
        seconds += time.perf_counter() - started
        predicted = max(shares, key=shares.__getitem__) if shares else None
        right += bool(shares) and predicted == label
        kappa.update(label, predicted)
        # In this order NaN counts as the floor.
        loss -= math.log(min(max(FLOOR, shares.get(label, 0.0)), 1.0))
    try:
        size = float(len(pickle.dumps(model)))
    except (AttributeError, RecursionError, TypeError, pickle.PicklingError):
        size = math.nan
    return {
        "accuracy": right / len(rows),
        "kappa": float(kappa.get()),
        "log_loss": loss / len(rows),
        "microseconds": seconds / len(rows) * 1e6,
        "bytes": size,
    }


def collect(streams: list[str], results: ResultsFile, arguments: argparse.Namespace) -> Measured:
    """Return medians over repeats, only of runs with the latest versions of the libraries."""
    wanted = conditions(arguments)
    lines = [line for line in results.lines if wanted.items() <= line["run"].items()]
    found: Measured = {}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["run"]["stream"], line["run"]["model"]), []).append(line)
    for (stream, model), runs in groups.items():
        last = runs[-1]["run"]["versions"]
        same = [run["result"] for run in runs if run["run"]["versions"] == last]
        medians = {name: median(result[name] for result in same) for name in same[0]}
        if stream in streams:
            found.setdefault(stream, {})[model] = medians
    return found


# -- tables ---------------------------------------------------------------------------------------


def report(streams: list[str], results: ResultsFile, arguments: argparse.Namespace) -> None:
    """Print the tables and the summary, write them as markdown, and draw the figure."""
    measured = collect(streams, results, arguments)
    known = {model for found in measured.values() for model in found}
    wanted = [*MODELS, *PEERS] if arguments.peers else [*arguments.models, *PEERS]
    models = [model for model in wanted if model in known]
    if not models:
        return
    tables = []
    for title, lines in sheets(measured, models):
        print_sheet(title, models, lines)
        tables.append(markdown(title, models, lines))
    used = ", ".join(f"{name} {number}" for name, number in versions_of(arguments.peers).items())
    notes = [
        *summary(measured),
        f"{machine()}, one thread; medians of {arguments.repeats}.",
        f"Most rows of a stream: {arguments.rows or 'all'}. {used}.",
    ]
    print(*notes, sep="\n")
    text = "\n".join([*tables, *(f"- {line}" for line in notes), ""])
    (arguments.out / "tables.md").write_text(text, "utf-8")
    shared = shared_streams(measured, models)
    if shared:
        draw(measured, shared, models, arguments.out / "streams.png")
        print(f"Accuracy against time: {arguments.out / 'streams.png'}")


def sheets(measured: Measured, models: list[str]) -> Iterator[tuple[str, list[Line]]]:
    """Yield a table of each figure by stream, and a table of means."""
    values = partial(values_of, measured, models)
    kinds = {
        "Accuracy": ("accuracy", ".2%", max),
        "Cohen's kappa": ("kappa", ".3f", max),
        "Log-loss": ("log_loss", ".3f", min),
        "Microseconds per row": ("microseconds", ",.1f", None),
        "Bytes of the pickled model after the last row": ("bytes", ",.0f", None),
    }
    for title, (name, form, best) in kinds.items():
        yield title, [(stream, values(stream, name), form, best) for stream in measured]
    shared = shared_streams(measured, models)
    if shared:
        table = {name: np.array([values(s, name) for s in shared]) for name, *_ in kinds.values()}
        ranks = rankdata(-table["accuracy"], axis=1).mean(axis=0)
        times = [geometric_mean(column) for column in table["microseconds"].T]
        means = {name: table[name].mean(axis=0).tolist() for name in table}
        yield (
            f"Means over the {len(shared)} streams on which all models were measured",
            [
                ("rank by accuracy", ranks.tolist(), ".2f", min),
                ("accuracy", means["accuracy"], ".2%", max),
                ("kappa", means["kappa"], ".3f", max),
                ("log-loss", means["log_loss"], ".3f", min),
                ("microseconds, geometric mean", times, ",.1f", None),
            ],
        )


def summary(measured: Measured) -> list[str]:
    """Describe on how many streams our model is as accurate as its peer, and its speed."""
    shared = shared_streams(measured, [OURS, PEER])
    if not shared:
        return []
    pairs = [(measured[stream][OURS], measured[stream][PEER]) for stream in shared]
    n_as_good = sum(one["accuracy"] >= other["accuracy"] for one, other in pairs)
    return [
        f"{OURS} is at least as accurate as {PEER} on {n_as_good} of {len(shared)} streams.",
        in_times(measured, OURS, PEER),
    ]


COLOURS = (
    *("#C44E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#6A3D9A", "#7F6A00"),
    *("#666666", "#8B1A1A", "#2E4A62"),
)
HARDLY_ANY = 5.0
"""Microseconds per row up to which a model is drawn as a horizontal line instead of points."""


def draw(measured: Measured, streams: list[str], models: list[str], path: Path) -> None:
    """Draw accuracy against time per row: small points for streams, large points for means."""
    with figure(path, 9, 6) as made:
        axes = made.subplots()
        axes.set_title(f"{len(streams)} streams (small) and their means (large)", size=11)
        for model, colour in zip([*MODELS, *PEERS], COLOURS, strict=True):
            if model not in models:
                continue
            times = [measured[stream][model]["microseconds"] for stream in streams]
            shares = [100 * measured[stream][model]["accuracy"] for stream in streams]
            taken, share = geometric_mean(times), fmean(shares)
            if taken < HARDLY_ANY:
                axes.axhline(share, color=GREY, linewidth=1, linestyle="--", zorder=1)
                text = f" {model} ({taken:.1f} µs)"
                place = axes.get_yaxis_transform()
                axes.text(0, share, text, color=GREY, va="bottom", transform=place)
                continue
            axes.scatter(times, shares, 14, color=colour, alpha=0.35, linewidth=0)
            label = f"{model}: {share:.1f}%, {taken:,.0f} µs"
            axes.scatter(taken, share, 110, color=colour, edgecolor="white", zorder=3, label=label)
        axes.set(xscale="log", xlabel="microseconds per row, to predict and learn it")
        axes.set_ylabel("accuracy before learning the row")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:,g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}%"))
        axes.grid(visible=True)
        made.legend(loc="outside right upper", frameon=False, fontsize=9)


def parse_arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    add = parser.add_argument
    names = [*MODELS, *PEERS]
    add("--models", nargs="+", choices=names, metavar="MODEL", help=f"any of {', '.join(names)}")
    add("--streams", nargs="+", choices=NAMES, metavar="STREAM", help=f"any of {', '.join(NAMES)}")
    add("--rows", type=positive, help="most rows of a stream, the first ones (default: all)")
    add("--repeats", type=positive, default=1, help="runs; times are medians (%(default)s)")
    folder = "folder with elec2, gas_drift and wisdm (default: none)"
    add("--data", type=folder_of_arrays, help=folder)
    add("--out", type=Path, default=Path("streams"), help="folder of results (%(default)s)")
    add("--peers", action="store_true", help="measure MOA's forests")
    add("--quick", action="store_true", help="few rows of few streams, only quick models")
    arguments = parser.parse_args()
    all_models, quick_models = list(MODELS), QUICK_MODELS
    if arguments.peers:
        all_models = quick_models = list(PEERS)
    if arguments.quick:
        arguments.models = arguments.models or quick_models
        arguments.streams = arguments.streams or QUICK_STREAMS
        arguments.rows = arguments.rows or QUICK_ROWS
    arguments.models = arguments.models or all_models
    arguments.streams = arguments.streams or list(NAMES)
    if arguments.peers != any(model in PEERS for model in arguments.models):
        parser.error("--peers measures only MOA's forests, which are not measured without it.")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
