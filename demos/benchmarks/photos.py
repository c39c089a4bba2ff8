"""Compare presets, pixels and embeddings of a pretrained network on 20 to 300 photos.

python demos/benchmarks/photos.py --data photos.npz
python demos/benchmarks/photos.py --data photos.npz --network efficientnet-lite0.onnx

The file holds photos (n, height, width, 3) of 0 to 255 as `x_train` and `x_test`, and their labels
as `y_train` and `y_test`. The network takes `images` (n, 3, height, width), of twice the size of
the photos, and returns a row of numbers for each; the guide's page on images makes one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Array, Floats, bar, machine, make_parser, positive, print_table, table_of
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onlinels import ShallowConvClassifier
from onlinels.sklearn import IncrementalRidgeClassifier

N_PHOTOS = 20, 50, 100, 200, 300
SMALL = {"n_hidden": 1000, "warm_up": 500}

Answers = Callable[[Array, Array, Array], Array]
"""What learns photos with labels and names other photos."""


def preset(name: str) -> Answers:
    """Return what a preset of the network answers, for at most some hundred photos."""

    def answers(x: Array, y: Array, others: Array) -> Array:
        model = ShallowConvClassifier.from_preset(name, **SMALL)
        model.learn_many(x, y)
        return np.asarray(model.predict_many(others))

    return answers


def fitted(make: Callable[[], Any]) -> Answers:
    """Return what a model of rows answers."""

    def answers(x: Array, y: Array, others: Array) -> Array:
        model = make()
        model.fit(x.reshape(len(x), -1), y)
        return np.asarray(model.predict(others.reshape(len(others), -1)))

    return answers


sgd = fitted(lambda: make_pipeline(StandardScaler(), SGDClassifier(random_state=0)))
neighbours = fitted(lambda: KNeighborsClassifier(3))

OF_PIXELS = {
    'preset "mnist"': preset("mnist"),
    'preset "svhn"': preset("svhn"),
    "SGDClassifier": sgd,
    "three nearest neighbours": neighbours,
}
OF_EMBEDDINGS = {
    "three nearest neighbours": neighbours,
    "SGDClassifier": sgd,
    "LogisticRegression": fitted(lambda: LogisticRegression(max_iter=1000)),
    "LeastSquaresClassifier()": fitted(IncrementalRidgeClassifier),
}


def embeddings(path: Path) -> Callable[[Array], Floats]:
    """Return a function that embeds photos by a network in ONNX's format, on one thread."""
    import onnxruntime
    from PIL import Image

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)

    def embed(photos: Array) -> Floats:
        height, width = photos.shape[1:3]
        larger = (Image.fromarray(photo).resize((2 * width, 2 * height)) for photo in photos)
        pixels = (np.stack([*map(np.asarray, larger)]) - np.float32(127)) / np.float32(128)
        return np.asarray(session.run(None, {"images": pixels.transpose(0, 3, 1, 2).copy()})[0])

    return embed


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="photos and labels, an .npz file")
    parser.add_argument("--network", type=Path, help="pretrained network, an .onnx file")
    parser.add_argument("--orders", type=positive, default=3, help="orders of the photos")
    arguments = parser.parse_args()
    with np.load(arguments.data) as data:
        x, y, test, labels = (data[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    print(f"{machine()}, {len(x)} photos of {x.shape[1:]}, {len(np.unique(y))} classes")
    ways = {f"pixels: {name}": (x / 255, test / 255, way) for name, way in OF_PIXELS.items()}
    if arguments.network:
        embed, start = embeddings(arguments.network), time.perf_counter()
        rows, test_rows = (
            np.concatenate([*map(embed, np.array_split(part, 20))]) for part in (x, test)
        )
        spent = 1e3 * (time.perf_counter() - start) / (len(x) + len(test))
        size = arguments.network.stat().st_size / 1e6
        print(f"{rows.shape[1]} numbers a photo, {spent:.1f} ms a photo, a file of {size:.1f} MB")
        ways |= {f"embeddings: {n}": (rows, test_rows, way) for n, way in OF_EMBEDDINGS.items()}
    sizes = [n for n in N_PHOTOS if n <= len(x)]
    table = table_of("accuracy after so many photos", *map(str, sizes))
    for name, (own, others, way) in bar(ways.items(), "Ways", len(ways)):
        cells = []
        for n_photos in sizes:
            right = []
            for seed in range(arguments.orders):
                order = np.random.default_rng(seed).permutation(len(x))[:n_photos]
                right.append(np.mean(way(own[order], y[order], others) == labels))
            cells.append(f"{100 * np.mean(right):.0f}%")
        table.add_row(name, *cells)
    print_table(table)


if __name__ == "__main__":
    main()
