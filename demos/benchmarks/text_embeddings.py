"""Compare TF-IDF with the embeddings of a small pretrained encoder, for few and many examples.

python demos/benchmarks/text_embeddings.py

The texts are those of ``demos/new_classes.py --text``: descriptions of Debian's packages, of which
a third is held out, with 20 sections as classes. The table holds the accuracy after so many
examples of every class, a mean of three draws. TF-IDF learns the words of the examples.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.feature_extraction.text import TfidfVectorizer

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import Array, bar, make_parser, positive, print_table, table_of
from new_classes import Items, embedded, read_packages

from onlinels import HiddenLayer, LeastSquaresClassifier

N_EXAMPLES = 5, 20, 50, 200
N_DRAWS = 3
RULES = {
    "TF-IDF, LeastSquaresClassifier(1.0)": lambda: LeastSquaresClassifier(1.0),
    "embedding, LeastSquaresClassifier()": LeastSquaresClassifier,
    'embedding, priors="equal"': lambda: LeastSquaresClassifier(priors="equal"),
    "embedding, 2,000 hidden units": lambda: (
        HiddenLayer(2000, bias=False) | LeastSquaresClassifier()
    ),
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--limit", type=positive, help="texts to read at most (default: all)")
    items = read_packages(parser.parse_args().limit)
    train, test = embedded(items, Console(stderr=True))
    table = table_of("features and rule", *map(str, N_EXAMPLES))
    for name, make in bar(RULES.items(), "Rules", len(RULES)):
        cells = []
        for n_examples in N_EXAMPLES:
            accuracies = []
            for seed in range(N_DRAWS):
                rows = draw(items.train_labels, n_examples, seed)
                X, X_test = train.X[rows], test.X
                if name.startswith("TF-IDF"):
                    X, X_test = of_words(items, rows)
                model = make()
                model.learn_many(X, train.y[rows])
                accuracies.append(np.mean(np.asarray(model.predict_many(X_test)) == test.y))
            cells.append(f"{100 * np.mean(accuracies):.1f}")
        table.add_row(name, *cells)
    print_table(table)


def draw(labels: Array, n_examples: int, seed: int) -> Array:
    """Return the rows of so many examples of every class."""
    random = np.random.default_rng(seed)
    places = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return np.concatenate([random.permutation(own)[:n_examples] for own in places])


def of_words(items: Items, rows: Array) -> tuple[Any, Any]:
    """Return sparse TF-IDF rows of the examples and of the test texts."""
    vectorizer = TfidfVectorizer(min_df=2, max_features=8000)
    learnt = vectorizer.fit_transform([items.train[row] for row in rows])
    return learnt, vectorizer.transform(items.test)


if __name__ == "__main__":
    main()
