"""Compare the test errors of input weights from pairs of few examples and from pairs of all.

python demos/benchmarks/landmarks.py --data mnist.npz --n-hidden 3200 --seeds 5
python demos/benchmarks/landmarks.py --quick

Differences of few examples (landmarks) need only products with these examples; differences among
60,000 need a full product with a column per unit. Stage 1 is that of the "mnist" preset, made once,
so that only the pairs differ. The landmarks are the first examples of the data for every seed.
speed/hidden.py measures the times. --quick uses scikit-learn's digits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Array, bar, digits_images, make_parser, positive, row_slices
from image_data import ImageData, read_image_data

from onlinels import ConvolutionalFeatures, HiddenLayer, LeastSquaresClassifier
from onlinels.network import preset_settings

BATCH = 1000
EXAMPLES = 4000
"""Images from which filters are made."""


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, help=".npz file or folder of IDX files (digits)")
    add("--n-hidden", type=positive, default=3200, help="hidden units (%(default)s)")
    add("--landmarks", type=positive, default=2000, help="few examples (%(default)s)")
    add("--seeds", type=positive, default=5, help="repeat with seeds 0, 1, ... (%(default)s)")
    add("--quick", action="store_true", help="small sizes, a few seconds in total")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.data, arguments.seeds = None, 2
        arguments.n_hidden, arguments.landmarks = 300, 100
    data = digits_images() if arguments.data is None else read_image_data(arguments.data)
    train, test = stage_1(data, "digits" if arguments.data is None else "mnist")
    print(f"{len(train)} images with {train.shape[1]} features, {arguments.n_hidden} units")
    sizes = min(arguments.landmarks, len(train)), len(train)
    errors = np.array(
        [
            [run(data, train, test, n, arguments.n_hidden, seed) for n in sizes]
            for seed in bar(range(arguments.seeds), "Seeds")
        ]
    )
    for n_examples, error in zip(sizes, errors.mean(axis=0), strict=True):
        print(f"pairs among {n_examples}: test error {100 * error:.3f}%")
    apart = 100 * (errors[:, 0] - errors[:, 1])
    if len(apart) > 1:
        deviation = apart.std(ddof=1) / len(apart) ** 0.5
        print(f"difference {apart.mean():+.3f} points, standard error {deviation:.3f}")


def stage_1(data: ImageData, preset: str) -> tuple[Array, Array]:
    """Return the features of training and test images."""
    settings = preset_settings(preset, {"dtype": "float32", "pooling": "box"})["features"]
    some = slice(0, EXAMPLES)
    stage = ConvolutionalFeatures.from_examples(data.x_train[some], data.y_train[some], **settings)

    def features(images: Array) -> Array:
        parts = (stage.transform_many(images[rows]) for rows in row_slices(len(images), BATCH))
        return np.concatenate(list(parts))

    return features(data.x_train), features(data.x_test)


def run(
    data: ImageData, train: Array, test: Array, n_examples: int, n_hidden: int, seed: int
) -> float:
    """Return the test error."""
    layer = HiddenLayer.from_examples(
        train[:n_examples],
        data.y_train[:n_examples],
        n_hidden,
        "centred-difference",
        activation="square",
        seed=seed,
        dtype="float32",
        bias=False,
        standardize=False,
    )
    model = LeastSquaresClassifier(ridge="paper", fit_intercept=False)
    for rows in row_slices(len(train), BATCH):
        model.learn_many(layer.transform_many(train[rows]), data.y_train[rows])
    wrong = 0
    for rows in row_slices(len(test), BATCH):
        found = model.predict_many(layer.transform_many(test[rows]))
        wrong += int((np.asarray(found) != data.y_test[rows]).sum())
    return wrong / len(test)


if __name__ == "__main__":
    main()
