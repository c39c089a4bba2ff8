"""One or more models of every class that can be saved, and how each goes on learning."""

from __future__ import annotations

import numpy as np
from river import (
    compose,
    drift,
    feature_extraction,
    feature_selection,
    preprocessing,
    stats,
)

from onlinels import (
    ZCA,
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    GramAccumulator,
    HiddenLayer,
    ImagePreprocessing,
    KFold,
    KMeansPatches,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    OrthogonalAccumulator,
    Patches,
    ReceptiveFields,
    RecursiveAccumulator,
    ShallowConvClassifier,
    StreamClassifier,
    TwoSidedRectifier,
    WhitenedPatches,
    WindowedClassifier,
    WindowFeatures,
)


def rows(random, n_rows, n_features=4):
    X = random.normal(size=(n_rows, n_features))
    return X, (X[:, 0] + 0.5 * random.normal(size=n_rows) > 0).astype(int) + (X[:, 1] > 1)


def learn_rows(model, random):
    """Learn a batch, then single rows, some of them predicted first."""
    X, y = rows(random, 30)
    model.learn_many(X[:20], y[:20])
    for row, label in zip(X[20:], y[20:].tolist(), strict=True):
        if random.random() < 0.5:
            model.predict_one(dict(enumerate(row)))
        model.learn_one(dict(enumerate(row)), label)


def learn_numbers(model, random):
    X, y = rows(random, 30)
    model.learn_many(X, y.astype(float))
    for row in X[:5]:
        model.predict_one(dict(enumerate(row)), with_dist=True)
        model.learn_one(dict(enumerate(row)), float(row[0]))


def learn_targets(model, random):
    X, _ = rows(random, 20)
    model.learn_many(X, X[:, :2])


def learn_singly(model, random):
    X, y = rows(random, 25)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("abcd", row, strict=True)), label)
        model.predict_one(dict(zip("abcd", row, strict=True)))


def learn_words(model, random):
    words = np.array(["red", "green", "blue"])
    for label in random.integers(0, 3, 20).tolist():
        sample = {"colour": str(words[label]), "other": str(random.choice(words))}
        model.learn_one(sample, label)
        model.predict_one(sample)


def learn_mixed(model, random):
    X, y = rows(random, 40)
    for row, label in zip(X, y, strict=True):
        sample = {"a": row[0], "text": str(label), "gap": None if row[2] > 0 else 1.0}
        model.predict_one(sample)
        model.learn_one(sample, ("class", int(label)))


def learn_readings(model, random):
    values = random.normal(size=(50, 2))
    for number, row in enumerate(values.tolist()):
        reading = {"x": row[0], "y": row[1]}
        if model.timestamp is not None:
            reading["t"] = (model._state.time or 0.0) + 0.1 + 0.001 * (number % 3)
        model.predict_one(reading)
        if number == 49:
            model.observe_one(reading)
        else:
            model.learn_one(reading, number // 10 % 2)


def learn_images(model, random):
    y = random.integers(0, 3, 12)
    images = random.random((12, 8, 8)) + (np.arange(8) > 2 * y[:, None])[:, None, :]
    model.learn_many(images, [f"class {label}" for label in y])


def learn_sums(accumulator, random):
    X, y = rows(random, 20)
    accumulator.update(X, y)


def transform(features, random):
    features.transform_many(random.random((3, 9)))


def transform_images(features, random):
    features.transform_many(random.random((3, 16, 16)))


def transform_windows(features, random):
    features.transform_many(random.random((3, 16, 1)))


def linear(**settings):
    return lambda random: LeastSquaresClassifier(**settings)


def network(**settings):
    return lambda random: ShallowConvClassifier.from_preset("digits", n_hidden=30, **settings)


def windows(random):
    return random.normal(size=(6, 16, 2))


LINEAR = {
    f"{accumulator}, {settings}": (linear(accumulator=accumulator, **settings), learn_rows)
    for accumulator in ("gram", "orthogonal", "recursive")
    for settings in (
        {},
        {"ridge": 1.0, "fit_intercept": False},
        {"ridge": "paper", "forgetting_factor": 0.97},
        {"ridge": 0.5, "half_life": 20},
        {"balance": "priors"},
    )
}
STEPS_OF_NUMBERS = [
    (learn_singly, step)
    for step in (
        preprocessing.PreviousImputer(),
        preprocessing.Normalizer(),
        preprocessing.StatImputer(("a", stats.Sum()), ("b", stats.Count()), ("c", stats.Mode())),
        feature_extraction.PolynomialExtender(),
        feature_selection.VarianceThreshold(0.1),
        compose.Select("a", "b"),
        compose.Discard("a"),
        compose.Prefixer("x_"),
        compose.Suffixer("_x"),
        compose.Renamer({"a": "other"}),
    )
]
MODELS = {
    **LINEAR,
    "folds": (linear(ridge=KFold(3)), learn_rows),
    "classwise": (linear(balance="classwise"), learn_rows),
    "regressor": (lambda random: LeastSquaresRegressor(), learn_numbers),
    "targets": (lambda random: LeastSquaresMultiTargetRegressor(), learn_targets),
    "stream": (lambda random: StreamClassifier(seed=3), learn_mixed),
    "delayed": (lambda random: StreamClassifier(label_delay=4), learn_mixed),
    "calibrated": (lambda random: CalibratedClassifier(LeastSquaresClassifier()), learn_rows),
    "scaled": (lambda random: scaled(LeastSquaresClassifier(ridge=0.1)), learn_singly),
    "union": (lambda random: union(), learn_singly),
    **{
        f"drift, {type(detector).__name__}": (
            lambda random, detector=detector: DriftAwareClassifier(
                scaled(LeastSquaresClassifier()), detector.clone()
            ),
            learn_singly,
        )
        for detector in (
            drift.ADWIN(),
            drift.PageHinkley(),
            drift.binary.DDM(),
            drift.binary.EDDM(),
            drift.binary.HDDMA(),
            drift.NoDrift(),
        )
    },
    **{
        f"after {type(step).__name__}": (
            lambda random, step=step: step.clone() | LeastSquaresClassifier(ridge=1.0),
            learn,
        )
        for learn, step in (
            (learn_words, preprocessing.OneHotEncoder()),
            (learn_words, preprocessing.OrdinalEncoder()),
            (learn_words, preprocessing.FeatureHasher(n_features=8, seed=1)),
            *STEPS_OF_NUMBERS,
        )
    },
    "windowed": (lambda random: windowed(random), learn_readings),
    "timed": (lambda random: windowed(random, timestamp="t"), learn_readings),
    "resampled": (
        lambda random: windowed(random, timestamp="t", sample_rate=11.0),
        learn_readings,
    ),
    "unlabelled": (lambda random: windowed(random, label_rule="unanimous"), learn_readings),
    "network that waits": (network(warm_up=100), learn_images),
    "network": (network(warm_up=12), learn_images),
    "whitened network": (network(warm_up=12, whitening=ZCA()), learn_images),
    "network with fields": (
        network(input_weights="gaussian", dtype="float32", warm_up=12, filters=Patches(5, 3)),
        learn_images,
    ),
    "gram": (lambda random: GramAccumulator(), learn_sums),
    "orthogonal": (lambda random: OrthogonalAccumulator(), learn_sums),
    "recursive": (lambda random: RecursiveAccumulator(ridge=0.3), learn_sums),
    "recursive, no ridge yet": (lambda random: RecursiveAccumulator(), learn_sums),
    "hidden": (lambda random: HiddenLayer(20, bias=True, seed=5), transform),
    "hidden, float32": (lambda random: HiddenLayer(20, dtype="float32"), transform),
    "hidden, fields": (
        lambda random: HiddenLayer(9, receptive_fields=ReceptiveFields((3, 3), 2)),
        transform,
    ),
    "differences": (
        lambda random: HiddenLayer.from_examples(
            random.random((8, 9)), [0, 1] * 4, 15, "difference"
        ),
        transform,
    ),
    "landmarks": (
        lambda random: HiddenLayer.from_examples(
            random.random((4, 400)), [0, 1] * 2, 900, "difference"
        ),
        lambda layer, random: layer.transform_many(random.random((2, 400))),
    ),
    "convolution": (lambda random: ConvolutionalFeatures(), transform_images),
    "rectified": (
        lambda random: ConvolutionalFeatures(
            random.random((2, 3, 3)), before_pooling=TwoSidedRectifier(0.1)
        ),
        transform_images,
    ),
    **{
        f"fixed {type(recipe).__name__}": (
            lambda random, recipe=recipe: ConvolutionalFeatures.from_examples(
                random.random((20, 16, 16)), [0, 1] * 10, filters=recipe
            ),
            transform_images,
        )
        for recipe in (Patches(4, 3), WhitenedPatches(4, 3), KMeansPatches(4, 3))
    },
    **{
        f"unfixed {type(recipe).__name__}": (
            lambda random, recipe=recipe: ConvolutionalFeatures(filters=recipe),
            lambda features, random: None,
        )
        for recipe in (Patches(4, 3), WhitenedPatches(4, 3), KMeansPatches(4, 3))
    },
    "window features": (lambda random: WindowFeatures(), transform_windows),
    "minirocket": (
        lambda random: MiniRocketFeatures.from_examples(windows(random), n_features=168),
        lambda features, random: features.transform_many(windows(random)),
    ),
    "preprocessing": (
        lambda random: ImagePreprocessing.from_examples(
            random.random((9, 6, 6, 3)), whitening=ZCA(0.1), downsample=2
        ),
        lambda features, random: features.transform_many(random.random((2, 6, 6, 3))),
    ),
}


def scaled(classifier):
    imputer = preprocessing.StatImputer(("a", stats.Mean()), ("b", 0.0))
    return imputer | preprocessing.StandardScaler() | classifier


def union():
    both = preprocessing.MinMaxScaler() + (
        preprocessing.MaxAbsScaler() | HiddenLayer(5, activation="tanh")
    )
    return both | LeastSquaresClassifier(accumulator="recursive")


def windowed(random, **settings):
    features = MiniRocketFeatures.from_examples(windows(random), n_features=84)
    model = features | LeastSquaresClassifier(ridge=1.0)
    return WindowedClassifier(model, window=16, hop=5, **settings)
