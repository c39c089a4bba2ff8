"""One or more models of every class that can be saved, and how each goes on learning."""

import numbers

import numpy as np
from river import compose, drift, feature_extraction, feature_selection, preprocessing, stats

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    Embedding,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)
from onlinels.export import answers_only
from onlinels.forecasting import DirectForecaster
from onlinels.images import ImagePreprocessing, Patches
from onlinels.lessons import LessonBook


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


def learn_lessons(book, random):
    X, y = rows(random, 6)
    for row, label in zip(X, y.tolist(), strict=True):
        book.add(("lesson", len(book.lessons)), row, label)
    book.correct(("lesson", 0), 1 - book.lessons["lesson", 0][1] // 2)


def learn_wide_rows(model, random):
    model.learn_many(*rows(random, 6, n_features=130))


def learn_wide_rows_singly(model, random):
    for row, label in zip(*rows(random, 6, n_features=130), strict=True):
        model.predict_one(dict(enumerate(row)))
        model.learn_one(dict(enumerate(row)), label)


def lengths(texts):
    return [[float(len(text)), float(text.count(" "))] for text in texts]


def learn_numbers(model, random):
    X, y = rows(random, 30)
    model.learn_many(X, y.astype(float))
    for row in X[:5]:
        model.predict_one(dict(enumerate(row)), with_dist=True)
        model.learn_one(dict(enumerate(row)), float(row[0]))


def learn_targets(model, random):
    X, _ = rows(random, 20)
    model.learn_many(X, X[:, :2])
    model.predict_one(dict(enumerate(X[0])))


def learn_and_predict_rows(model, random):
    learn_rows(model, random)
    predict(model, random)


def predict(model, random):
    model.predict_many(rows(random, 3)[0])


def learn_singly(model, random):
    X, y = rows(random, 25)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("abcd", row, strict=True)), label)
        model.predict_one(dict(zip("abcd", row, strict=True)))


def learn_words(model, random):
    words = np.array(["red", "green", "blue"])
    for label in random.integers(0, 3, 20).tolist():
        sample = {"colour": str(words[label]), "other": str(random.choice(words)), "number": label}
        model.learn_one(sample, label)
        model.predict_one(sample)


def mixed(random, n_rows):
    """Return samples of a number, a text and gaps, and their labels."""
    X, y = rows(random, n_rows)
    gaps = (None if row[2] > 0 else 1.0 for row in X)
    return [
        {"a": row[0], "text": f"t{label}", "gap": gap}
        for row, label, gap in zip(X, y, gaps, strict=True)
    ], y.tolist()


N_MIXED = 25


def learn_mixed(model, random):
    for sample, label in zip(*mixed(random, N_MIXED), strict=True):
        model.predict_one(sample)
        model.learn_one(sample, ("class", label))


def learn_late(model, random):
    """Learn rows that may wait, then others, some late, some at once; leave forecasts waiting."""
    samples, y = mixed(random, N_MIXED)
    for row in (4, 9, N_MIXED - 1):
        model.learn_one(samples[row], y[row])
    for row, sample in enumerate(samples):
        model.predict_one(sample)
        if row >= 6 and row % 5:
            model.learn_one(samples[row - 6], y[row - 6])
    model.predict_many(samples[:3])


def learn_with_keys(model, random):
    """Learn rows by their keys, some late, and leave forecasts waiting."""
    samples, y = mixed(random, 12)
    start = model.count
    for row, sample in enumerate(samples):
        model.predict_one(sample, key=(start, "\ud800", b"row", row))
        if row >= 4 and row % 3:
            model.learn_late((start, "\ud800", b"row", row - 4), y[row - 4])


def learn_mixed_numbers(model, random):
    for sample, label in zip(*mixed(random, 20), strict=True):
        model.predict_one(sample)
        model.learn_one(sample, sample["a"] + label)


def learn_late_numbers(model, random):
    """Learn rows that may wait, then others, and leave forecasts waiting."""
    later = [{"a": row[0], "later": row[1]} for row in rows(random, 6)[0]]
    model.learn_one(later[0], 1.0)
    learn_mixed_numbers(model, random)
    for sample in later:
        model.predict_one(sample)


N_READINGS = 35


def learn_readings(model, random):
    values = random.normal(size=(N_READINGS, 2))
    for number, row in enumerate(values.tolist()):
        reading = {"x": row[0], "y": row[1]}
        if model.timestamp is not None:
            reading["t"] = (model._state.time or 0.0) + 0.1 + 0.001 * (number % 3)
        model.predict_one(reading)
        if number == N_READINGS - 1:
            model.observe_one(reading)
        else:
            model.learn_one(reading, number // 10 % 2)


def learn_images(model, random):
    y = random.integers(0, 3, 12)
    images = random.random((12, 8, 8))
    images += (np.arange(8) > 2 * y[:, None])[:, None, :]
    model.learn_many(images, [f"class {label}" for label in y])
    model.predict_many(images[:2])


def learn_series(model, random):
    for value in random.normal(size=20).tolist():
        model.forecast(2, [{"even": 0}, {"even": 1}])
        model.learn_one(value, {"even": 1})


def transform(*shape):
    """Return what transforms a few arrays of a shape."""
    return lambda features, random: features.transform_many(random.random((3, *shape)))


def of(kind, **settings):
    return lambda random: kind(**settings)


def network(**settings):
    return lambda random: ShallowConvClassifier.from_preset("digits", n_hidden=30, **settings)


def scaled(**settings):
    imputer = preprocessing.StatImputer(("a", stats.Mean()), ("b", 0.0))
    return imputer | preprocessing.StandardScaler() | LeastSquaresClassifier(**settings)


def predictor(make_full, learn):
    def make(random):
        model = make_full()
        learn(model, random)
        return answers_only(model)

    return make


def union(random):
    both = preprocessing.MinMaxScaler() + (
        preprocessing.MaxAbsScaler() | HiddenLayer(5, activation="tanh")
    )
    return both | LeastSquaresClassifier(accumulator="recursive")


def windows(random):
    return MiniRocketFeatures.from_examples(random.normal(size=(6, 16, 2)), n_features=84)


def windowed(**settings):
    return lambda random: WindowedClassifier(
        windows(random) | LeastSquaresClassifier(ridge=1.0), window=16, hop=5, **settings
    )


def differences(n_rows, n_features, n_hidden):
    return lambda random: HiddenLayer.from_examples(
        random.random((n_rows, n_features)), [0, 1] * (n_rows // 2), n_hidden, "difference"
    )


def whitened(random):
    photos = random.random((9, 6, 6, 3))
    return ImagePreprocessing.from_examples(photos, whitening=0.1, downsample=2)


def patches(recipe):
    return lambda random: ConvolutionalFeatures.from_examples(
        random.random((20, 16, 16)), [0, 1] * 10, filters=recipe
    )


LINEAR = {
    f"{accumulator}, {settings}": (
        of(LeastSquaresClassifier, accumulator=accumulator, **settings),
        learn_rows,
    )
    for accumulator in ("gram", "orthogonal", "recursive")
    for settings in (
        {},
        {"ridge": 1.0, "fit_intercept": False},
        {"ridge": "paper", "forgetting_factor": 0.97},
        {"ridge": 0.5, "half_life": 20},
        {"priors": "learnt"},
    )
}
STEPS = [
    preprocessing.PreviousImputer(),
    preprocessing.Normalizer(),
    preprocessing.StatImputer(("a", stats.Sum()), ("b", stats.Count()), ("c", stats.Mode())),
    feature_extraction.PolynomialExtender(),
    compose.Select("a", "b"),
    compose.Discard("a"),
    compose.Prefixer("x_"),
    compose.Suffixer("_x"),
    compose.Renamer({"a": "other"}),
    compose.SelectType(numbers.Number, str),
    compose.TransformerProduct(compose.Select("a", "b"), compose.Select("c")),
    preprocessing.RobustScaler(q_inf=0.1),
    preprocessing.RobustScaler(with_centering=False),
    preprocessing.AdaptiveStandardScaler(0.2),
    preprocessing.MinMaxScaler(window_size=3),
    preprocessing.MaxAbsScaler(window_size=3),
    preprocessing.Binarizer(0.3, float),
    preprocessing.StatImputer(("a", stats.Quantile(0.3)), ("b", stats.Var())),
    feature_selection.VarianceThreshold(0.1),
    feature_selection.SelectKBest(stats.PearsonCorr(), k=2),
]
STEPS_OF_WORDS = [
    preprocessing.OneHotEncoder(),
    preprocessing.OrdinalEncoder(),
    preprocessing.FeatureHasher(n_features=8, seed=1),
    preprocessing.OneHotEncoder() + feature_extraction.BagOfWords("colour", ngram_range=(1, 2)),
    feature_extraction.TFIDF(on="colour", stop_words={"red"}),
    compose.Discard("other") | (preprocessing.OneHotEncoder() * "colour"),
    compose.Select("number") + feature_extraction.Agg("number", "colour", stats.EWMean()),
    feature_extraction.TargetAgg("colour", stats.Mean()),
]
DETECTORS = [
    drift.ADWIN(),
    drift.PageHinkley(),
    drift.binary.DDM(),
    drift.binary.EDDM(),
    drift.binary.HDDMA(),
    drift.NoDrift(),
]
RECIPES = [
    Patches(4, 3),
    Patches(4, 3, whitening=0.1),
    Patches(4, 3, whitening=0.1, n_iterations=5),
]


def named(prefix, things):
    models = {}
    for thing in things:
        name = f"{prefix} {type(thing).__name__}"
        models[f"{name} {len(models)}" if name in models else name] = thing
    return models


def after(step):
    return lambda random: step.clone() | LeastSquaresClassifier(ridge=1.0)


def warned_by(detector):
    return lambda random: DriftAwareClassifier(scaled(), detector.clone())


MODELS = {
    **LINEAR,
    "folds": (of(LeastSquaresClassifier, ridge=KFold(3)), learn_rows),
    "priors": (of(LeastSquaresClassifier, priors={"a": 0.1}), learn_and_predict_rows),
    "priors, orthogonal": (
        of(LeastSquaresClassifier, accumulator="orthogonal", priors={"a": 0.1}),
        learn_and_predict_rows,
    ),
    "lessons": (lambda random: LessonBook(LeastSquaresClassifier()), learn_lessons),
    "few rows": (of(LeastSquaresClassifier), learn_wide_rows),
    "few rows, followed": (of(LeastSquaresClassifier, ridge=1.0), learn_wide_rows_singly),
    "regressor": (of(LeastSquaresRegressor), learn_numbers),
    "targets": (of(LeastSquaresMultiTargetRegressor), learn_targets),
    "stream": (of(StreamClassifier, seed=3), learn_mixed),
    "late": (of(StreamClassifier, labels=["a", "never"], max_features=99), learn_late),
    "keys": (of(StreamClassifier), learn_with_keys),
    "stream of numbers": (of(StreamRegressor, seed=3), learn_mixed_numbers),
    "numbers that wait": (of(StreamRegressor), learn_late_numbers),
    "calibrated": (
        lambda random: CalibratedClassifier(LeastSquaresClassifier(), labels=["a", "never"]),
        learn_rows,
    ),
    "answers only": (
        predictor(lambda: HiddenLayer(6) | LeastSquaresClassifier(priors="equal"), learn_rows),
        predict,
    ),
    "answers only, numbers": (
        predictor(lambda: HiddenLayer(6) | LeastSquaresRegressor(), learn_numbers),
        predict,
    ),
    "scaled": (lambda random: scaled(ridge=0.1), learn_singly),
    "union": (union, learn_singly),
    **{name: (warned_by(each), learn_singly) for name, each in named("drift,", DETECTORS).items()},
    **{name: (after(step), learn_words) for name, step in named("after", STEPS_OF_WORDS).items()},
    **{name: (after(step), learn_singly) for name, step in named("after", STEPS).items()},
    "windowed": (windowed(), learn_readings),
    "timed": (windowed(timestamp="t"), learn_readings),
    "resampled": (windowed(timestamp="t", sample_rate=11.0), learn_readings),
    "unlabelled": (windowed(label_rule="unanimous"), learn_readings),
    "forecaster": (of(DirectForecaster, model=StreamRegressor(), horizon=2, lags=3), learn_series),
    "forecaster of all steps": (
        of(DirectForecaster, model=LeastSquaresMultiTargetRegressor(), horizon=2, lags=[1, 4]),
        learn_series,
    ),
    "network that waits": (network(warm_up=100), learn_images),
    "network": (network(warm_up=12), learn_images),
    "whitened network": (network(warm_up=12, whitening=0.001), learn_images),
    "network with patches": (
        network(input_weights="gaussian", dtype="float32", warm_up=12, filters=Patches(5, 3)),
        learn_images,
    ),
    "embedding": (of(Embedding, embed=lengths), lambda model, random: None),
    "hidden": (of(HiddenLayer, n_hidden=20, bias=True, seed=5), transform(9)),
    "hidden, float32": (of(HiddenLayer, n_hidden=20, dtype="float32"), transform(9)),
    "hidden, drawn": (of(HiddenLayer, n_hidden=20_000), transform(9)),
    "differences": (differences(8, 9, 15), transform(9)),
    "landmarks": (differences(4, 400, 900), transform(400)),
    "standardised": (
        lambda random: HiddenLayer.from_examples(random.random((5, 9)), prefix="u_", seed=3),
        transform(9),
    ),
    "convolution": (of(ConvolutionalFeatures), transform(16, 16)),
    "rectified": (
        lambda random: ConvolutionalFeatures(random.random((2, 3, 3)), before_pooling=1.0),
        transform(16, 16),
    ),
    **{name: (patches(each), transform(16, 16)) for name, each in named("fixed", RECIPES).items()},
    **{
        name: (of(ConvolutionalFeatures, filters=recipe), lambda features, random: None)
        for name, recipe in named("unfixed", RECIPES).items()
    },
    "minirocket": (windows, transform(16, 2)),
    "preprocessing": (whitened, transform(6, 6, 3)),
}


def learnt(name, n_times=1):
    """Return one of the models, which has learnt a little once or several times."""
    make, learn = MODELS[name]
    random = np.random.default_rng(0)
    model = make(random)
    for _ in range(n_times):
        learn(model, random)
    return model
