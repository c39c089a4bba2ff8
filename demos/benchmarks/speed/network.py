"""The whole network, from raw images to the test error: against the sum of its bare BLAS calls.

python demos/benchmarks/speed/network.py --data mnist.npz
python demos/benchmarks/speed/network.py --quick

The "mnist" preset with 6,400 hidden units. The floor is what the same sizes cost in matrix
products, one symmetric update a batch and one Cholesky factor alone, on arrays that are in place.
Without --data images are random: the time is the same, the error says nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Piece,
    bar,
    draw,
    in_words,
    print_table,
    row_slices,
    seconds_of,
    speed_arguments,
    speed_parser,
    table_of,
)

from onlinels import ShallowConvClassifier
from onlinels.datasets import ImageData, read_image_data

BATCH, TILE = 1000, 16


def main() -> None:
    parser = speed_parser(__doc__, repeats=3)
    parser.add_argument("--data", help=".npz file or folder of IDX files (random images)")
    arguments = speed_arguments(parser)
    data = random_images(arguments.quick) if arguments.data is None else read(arguments.data)
    n_hidden, warm_up = (300, 500) if arguments.quick else (6400, 4000)
    n_learnt, n_tested = len(data.x_train), len(data.x_test)
    whole, floors = [], []
    for _ in bar(range(arguments.repeats), "Measuring"):
        whole.append(run(data, n_hidden, warm_up))
        floors.append(bare(n_hidden, warm_up, n_learnt, n_tested))
    table = table_of("bare calls", "time", title=f"{n_learnt} images learnt, {n_tested} tested")
    total = statistics.median(sum(each.values()) for each in floors)
    for name in floors[0]:
        table.add_row(name, in_words(statistics.median(each[name] for each in floors)))
    seconds = statistics.median(each for each, _ in whole)
    table.add_row("their sum", in_words(total))
    table.add_row("the network", in_words(seconds))
    print_table(table)
    print(f"{seconds / total:.2f} times the sum; test error {whole[0][1]:.2%}")


def read(path: str) -> ImageData:
    return read_image_data(path)


def random_images(quick: bool) -> ImageData:
    random = np.random.default_rng(0)
    n_train, n_test = (2000, 500) if quick else (60_000, 10_000)
    x = random.integers(0, 256, (n_train + n_test, 28, 28), dtype=np.uint8)
    y = (np.arange(len(x)) % 10).astype(np.uint8)
    return ImageData(x[:n_train], y[:n_train], x[n_train:], y[n_train:])


def run(data: ImageData, n_hidden: int, warm_up: int) -> tuple[float, float]:
    """Return the seconds of everything, and the test error."""
    started = time.perf_counter()
    model = ShallowConvClassifier.from_preset("mnist", n_hidden=n_hidden, warm_up=warm_up)
    for rows in row_slices(len(data.x_train), BATCH):
        model.learn_many(data.x_train[rows], data.y_train[rows])
    error = float(np.mean(model.predict_many(data.x_test) != data.y_test))
    return time.perf_counter() - started, error


def bare(n_hidden: int, warm_up: int, n_learnt: int, n_tested: int) -> dict[str, float]:
    """Return the seconds of the network's calls of BLAS and LAPACK."""
    n_features, n_images = 6000, n_learnt + n_tested
    patches, kernel = draw(22, 49, TILE * 22), draw(60, 49)
    pooling, maps, pooled = draw(10, 22), draw(22, 60 * TILE * 22), draw(600 * TILE, 22)
    features, landmarks = draw(BATCH, n_features), draw(n_features, min(warm_up, 2 * n_hidden))
    rows, gram = draw(BATCH, n_hidden).astype(np.float64), np.zeros((n_hidden, n_hidden), order="F")
    system = np.asfortranarray(np.eye(n_hidden) * n_hidden + 1.0)
    activations, weights = draw(BATCH, n_hidden), draw(n_hidden, 10)
    n_tiles, n_batches, n_updates = n_images / TILE, n_images / BATCH, n_learnt / BATCH
    return {
        "convolution": n_tiles * median_seconds(lambda: kernel @ patches),
        "pooling": n_tiles * median_seconds(lambda: (pooling @ maps, pooled @ pooling.T)),
        "landmarks": n_batches * median_seconds(lambda: features @ landmarks),
        "Gram": n_updates * median_seconds(lambda: dsyrk(1.0, rows.T, 1.0, gram, overwrite_c=1)),
        "factor": median_seconds(lambda: dpotrf(system), 1),
        "scores": n_tested / BATCH * median_seconds(lambda: activations @ weights),
    }


def median_seconds(piece: Piece, repeats: int = 5) -> float:
    return statistics.median(seconds_of(piece) for _ in range(repeats))


if __name__ == "__main__":
    main()
