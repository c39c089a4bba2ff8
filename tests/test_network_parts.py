"""The network of every kind of part: the explicit chain and a batch solution, and refusals."""

import contextlib
import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)
from onlinels.images import ImagePreprocessing, Patches
from support import digits_network, laws, strategies
from support.digits_network import IMAGES, LABELS

# Features of two images, or of one image much brighter than the others, are often equal.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Most hidden units are 0:UserWarning"),
    pytest.mark.filterwarnings("ignore:Features are made from few:UserWarning"),
]

IN_SINGLE = HiddenLayer(10, "difference", dtype="float32")
PLAIN = {"normalize": False, "before_pooling": 1.0, "after_pooling": 1.0}

PARTS = {
    "whitened patches": ({}, {"filters": Patches(5, 3, whitening=1.0)}),
    "clusters": ({}, {"filters": ("hand-designed", Patches(5, 3, whitening=1.0, n_iterations=10))}),
    "all": (
        {"downsample": 2, "scale": 16.0, "whitening": 0.1},
        {"filters": ("hand-designed", Patches(5, size=3)), "channels": "joint"},
    ),
    "single precision": (
        {"scale": 16.0, "whitening": 0.1, "dtype": "float32"},
        {"filters": Patches(5, size=3), "dtype": "float32"},
    ),
}


@dataclass(frozen=True)
class Chain:
    """A case worked through part by part, the features made from its first images."""

    case: strategies.NetworkCase
    activations: np.ndarray
    ridge: float

    @classmethod
    def of(cls, case):
        first, labels = case.images[: case.warm_up], case.labels[: case.warm_up]
        before = ImagePreprocessing.from_examples(first, **case.preprocessing)
        first = before.transform_many(first)
        features = ConvolutionalFeatures.from_examples(first, labels, **case.features)
        names = labels if len(set(labels)) > 1 else list(range(len(labels)))
        rows = np.asarray(features.transform_many(first))
        hidden = HiddenLayer.from_examples(rows, names, **case.hidden, standardize=False)
        processed = before.transform_many(case.images)
        activations = hidden.transform_many(np.asarray(features.transform_many(processed)))
        # Differences of images that are nearly the same are noise, another one in each batch.
        assume(np.abs(activations).max() > 1e-6 or not activations.any())
        ridge = case.ridge_share * float(np.square(activations).sum(axis=0).mean())
        return cls(case, activations, ridge or 1.0)

    def network(self):
        """Return a network of the same settings that has learnt nothing."""
        return ShallowConvClassifier(
            ConvolutionalFeatures(**self.case.features),
            HiddenLayer(**self.case.hidden),
            LeastSquaresClassifier(ridge=self.ridge, fit_intercept=False),
            warm_up=self.case.warm_up,
            preprocessing=ImagePreprocessing(**self.case.preprocessing),
        )

    def learn(self, model, rows, singly=False):
        """Let a network learn some rows, as a batch or one by one."""
        rows, labels = list(rows), self.case.labels
        if singly:
            for row in rows:
                model.learn_one({"image": self.case.images[row]}, labels[row])
        elif rows:
            model.learn_many(self.case.images[rows], [labels[row] for row in rows])
        return model

    def assert_learnt(self, model, rows):
        """The network is the chain with the batch ridge solution of these rows."""
        A, rows = self.activations, list(rows)
        size = np.abs(A).max(initial=1e-9)
        found = model.transform_many(self.case.images)
        np.testing.assert_allclose(found, A, atol=1e-8 * size)
        targets = [[self.case.labels[row] == label for label in model.classes] for row in rows]
        gram = A[rows].T @ A[rows] + self.ridge * np.eye(A.shape[1])
        weights = np.linalg.solve(gram, A[rows].T @ np.array(targets, dtype=float))
        scores = model.scores_many(self.case.images)
        np.testing.assert_allclose(scores, A @ weights, atol=1e-6)
        assert model.count == len(rows)


COPIES = {
    "none": lambda model: model,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "copy": copy.copy,
    "empty": lambda model: model.empty() + model,
}


@strategies.examples(100)
@given(st.data(), strategies.network_cases())
def test_any_stream_is_the_chain_and_the_batch_solution(data, case):
    """Cut anywhere, in batches or one by one, copied in between."""
    chain = Chain.of(case)
    model = chain.network()
    for rows in data.draw(strategies.splits(len(case))):
        chain.learn(model, rows, data.draw(st.booleans()))
        model.predict_many(case.images[:2])
        model = COPIES[data.draw(st.sampled_from(sorted(COPIES)))](model)
    chain.assert_learnt(model, range(len(case)))


@strategies.examples(40)
@given(st.data(), strategies.network_cases())
def test_networks_merge_in_every_state(data, case):
    """Two that wait, one that waits and one that is fixed either way round, and two fixed ones."""
    chain = Chain.of(case)
    edges = sorted(data.draw(st.tuples(*[st.integers(0, len(case))] * 3)))
    cuts = [range(*pair) for pair in zip([0, *edges], [*edges, len(case)], strict=True)]
    first = chain.learn(chain.network(), cuts[0])
    merged = first
    for rows in cuts[1:]:
        # A site starts from features that are fixed, or if it waits, waits for its whole share.
        waits = not merged.features_fixed or data.draw(st.booleans())
        site = chain.network() if waits else merged.empty()
        if waits and len(rows) >= case.warm_up:
            chain.learn(merged, rows)
            continue
        chain.learn(site, rows, data.draw(st.booleans()))
        turned = merged.features_fixed and data.draw(st.booleans())
        before = pickle.dumps(merged if turned else site)
        merged = site + merged if turned else merged.merge(site)
        if not turned:
            assert pickle.dumps(site) == before
    merged.fix_features()
    chain.assert_learnt(merged, range(len(case)))


@pytest.mark.parametrize(
    ("shape", "n_pixels"),
    [((32, 32), 1024), ((33, 64), 17 * 32), ((32, 32, 3), 768), ((1, 1, 2000), 2000)],
)
def test_large_images_are_made_small_for_answers_in_the_warm_up(shape, n_pixels):
    images = np.random.default_rng(0).integers(1, 256, (6, *shape)).astype(np.uint8)
    model = ShallowConvClassifier(ConvolutionalFeatures(padding=3))
    model.learn_many(images, list("ababab"))
    assert list(model.predict_many(images)) == list("ababab")
    layer = model._stage.draft.made[1].classifier
    assert layer.output_weights.shape == (n_pixels, 2)
    if n_pixels == 768:
        means = images.reshape(6, 16, 2, 16, 2, 3).mean(axis=(2, 4))
        rows = means.reshape(6, -1) / np.linalg.norm(means.reshape(6, -1), axis=1, keepdims=True)
        expected = rows @ layer.output_weights + layer.intercept
        np.testing.assert_allclose(model.scores_many(images), expected, atol=1e-9)


def test_rows_of_pixels_go_by_the_shape_of_images_as_they_come():
    """Not as the filters meet them, after they were made smaller and greyed."""
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (40, 8, 10, 3)), list("abcd" * 10)
    flat = images.reshape(40, -1)
    before = ImagePreprocessing(2, 255.0, True, 0.1, image_shape=(8, 10, 3))
    features = ConvolutionalFeatures(Patches(5, size=3), pool_size=2, padding=1)
    answers = []
    for X in (images, flat, [dict(enumerate(row)) for row in flat.tolist()], pd.DataFrame(flat)):
        layer = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
        hidden = HiddenLayer(9, "difference")
        model = ShallowConvClassifier(features, hidden, layer, 20, preprocessing=before)
        for rows in (slice(0, 7), slice(7, 31), slice(31, 40)):
            model.learn_many(X[rows], labels[rows])
        assert list(model.predict_many(X)) == list(model.predict_many(images))
        answers.append(model.scores_many(images))
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=1e-6)


def network(parts="all", learnt=0):
    preprocessing, features = PARTS[parts]
    before = ImagePreprocessing(image_shape=(8, 8), **preprocessing)
    return digits_network.small(learnt=learnt, before=before, **features)


def assert_refused(model, images, labels, message, w=None):
    laws.assert_refused(lambda: model.learn_many(images, labels, w), model, message)


def test_images_are_worked_through_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr("onlinels.network.stages.BLOCK_IMAGES", 5)
    model, sizes, process = network(learnt=20), [], ImagePreprocessing.outlook
    monkeypatch.setattr(
        ImagePreprocessing,
        "outlook",
        lambda self, X: sizes.append(len(X)) or process(self, X),
    )
    model.learn_many(IMAGES[20:40], LABELS[20:40])
    model.predict_many(IMAGES[:40])
    assert max(sizes) == 5
    assert model.count == 40


@pytest.mark.parametrize("learnt", [0, 12, 40])
@pytest.mark.parametrize("parts", PARTS)
def test_one_bad_image_among_many_changes_nothing(parts, learnt):
    """Before the edge of the warm-up, at it, after it and in a batch that crosses it."""
    model = network(parts, learnt)
    for row in (0, 7, 8, 30):
        images = IMAGES[40:80].copy()
        images[row, 3, 3] = 1e140
        assert_refused(model, images, LABELS[40:80], "Rescale")
    model.learn_many(IMAGES[40:80], LABELS[40:80])
    assert model.count == learnt + 40


@pytest.mark.parametrize(
    ("hidden", "n_learnt", "size", "weight", "message"),
    [
        (HiddenLayer(10, "gaussian", "cube"), 30, 1e57, 1.0, r"[Rr]escale"),
        (HiddenLayer(10, "gaussian", "square"), 30, 1e55, 1e149, r"[Rr]escale"),
        # Pixels must fit the precision of the hidden layer, too, also before it is made.
        *((IN_SINGLE, n_learnt, 1e45, 1.0, r"dtype='float32'.*Rescale") for n_learnt in (0, 30)),
    ],
)
def test_images_that_are_refused_halfway_leave_nothing_learnt_or_held(
    monkeypatch, hidden, n_learnt, size, weight, message
):
    monkeypatch.setattr("onlinels.network.stages.BLOCK_IMAGES", 20)
    features = ConvolutionalFeatures(**(PLAIN if hidden is not IN_SINGLE else {}))
    model = ShallowConvClassifier(features, hidden, warm_up=25)
    if n_learnt:
        model.learn_many(IMAGES[:n_learnt], LABELS[:n_learnt])
    images, w = IMAGES[30:80].copy(), np.ones(50)
    images[45] *= size
    w[45] = weight
    assert_refused(model, images, LABELS[30:80], message, w)


def test_masked_arrays_are_refused():
    """What is under a mask would be learnt, NaN included."""
    masked = np.ma.array(np.where(IMAGES[:9] > 8.0, np.nan, IMAGES[:9]), mask=IMAGES[:9] > 8.0)
    for read in (
        lambda: ConvolutionalFeatures().transform_many(masked),
        lambda: ConvolutionalFeatures().transform_one({"image": masked[0]}),
        lambda: ConvolutionalFeatures(masked),
        lambda: ConvolutionalFeatures.from_examples(masked, filters=Patches(2, 3, whitening=0.1)),
        lambda: ImagePreprocessing().transform_many(masked),
        lambda: ImagePreprocessing.from_examples(masked),
        lambda: ShallowConvClassifier().learn_many(masked, LABELS[:9]),
        lambda: ShallowConvClassifier().predict_many(masked),
    ):
        with pytest.raises(TypeError, match=r"is a masked array.*filled"):
            read()


@pytest.mark.parametrize(
    ("preprocessing", "features", "images", "message"),
    [
        ({}, {"filters": Patches(5, size=9)}, np.ones((1, 8, 8)), "size=9 exceeds images of 8 x 8"),
        ({"downsample": 3}, {}, np.ones((1, 8, 8)), "multiples of downsample=3"),
        ({"downsample": 2}, {"image_shape": (8, 8)}, np.ones((1, 8, 8)), r"expected \(8, 8\)"),
        ({}, {"image_shape": (9, 9)}, np.ones((1, 9, 9)), r"expected \(8, 8\)"),
        ({"grey_channel": True, "image_shape": (8, 8, 2)}, {}, np.ones((1, 8, 8, 2)), "3 .RGB"),
        ({}, {"filters": np.ones((2, 3, 3, 5))}, np.ones((1, 8, 8)), "1 channels, expected 5"),
    ],
)
def test_images_that_can_never_be_learnt_are_not_held(preprocessing, features, images, message):
    """Else the end of the warm-up would be refused, however the stream went on."""
    with pytest.raises(ValueError, match=message):
        ShallowConvClassifier(
            ConvolutionalFeatures(pool_size=3, padding=4, **features),
            preprocessing=ImagePreprocessing(**{"image_shape": (8, 8), **preprocessing}),
        ).learn_many(images, [1])


def largest_held(parts):
    """Return by how much digits can be multiplied and still be held, as a power of 10."""
    for exponent in range(140, 0, -1):
        with contextlib.suppress(ValueError):
            network(parts).learn_many(IMAGES[35:36] * 10.0**exponent, LABELS[35:36])
            return 10.0**exponent
    return 1.0


@pytest.mark.parametrize("parts", PARTS)
def test_what_is_held_can_be_learnt_when_the_warm_up_ends(parts):
    """However large a pixel is held, whatever is then made of it."""
    model = laws.fitted(network(parts), IMAGES[:1] * largest_held(parts), LABELS[:1])
    model.learn_many(IMAGES[10:50], LABELS[10:50])
    assert model.count == 41


def test_images_held_that_cannot_be_learnt_stay_held():
    features, images = (
        ConvolutionalFeatures(np.ones((20, 3, 3)), pool_size=1, **PLAIN),
        IMAGES * 6e10,
    )
    hidden = HiddenLayer(30, "difference", activation="cube", dtype="float32")
    model = ShallowConvClassifier(features, hidden, LeastSquaresClassifier(1.0), warm_up=20)
    with pytest.raises(ValueError, match="float32"):
        model.learn_many(images[:20], LABELS[:20])
    model.learn_many(images[:12], LABELS[:12])
    assert_refused(model, images[12:30], LABELS[12:30], "float32")
    with pytest.raises(ValueError, match="float32"):
        model.fix_features()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("parts", PARTS)
def test_merging_is_all_or_nothing(parts, turned):
    """An image that was held may be too large for the filters of the other network."""
    fixed, waiting = network(parts, learnt=30), network(parts)
    waiting.learn_many(IMAGES[30:35], LABELS[30:35])
    waiting.learn_many(IMAGES[35:36] * largest_held(parts), LABELS[35:36])
    models = (waiting, fixed) if turned else (fixed, waiting)
    before = [pickle.dumps(model) for model in models]
    merged = False
    with contextlib.suppress(ValueError):
        merged = models[0].merge(models[1]).count == 36
    assert [pickle.dumps(model) for model in models][merged:] == before[merged:]


MERGED = Patches(5, size=3), {"whitening": 0.1}
OTHERS = [
    ("preprocessing", Patches(5, size=3), {"scale": 16.0}),
    ("preprocessing", Patches(5, size=3), {"whitening": 0.2}),
    ("features", Patches(6, size=3), {"whitening": 0.1}),
    ("features", (Patches(5, size=3), Patches(5, size=3)), {"whitening": 0.1}),
    ("features", Patches(5, size=3, whitening=0.1), {"whitening": 0.1}),
    ("features", np.ones((5, 3, 3)), {"whitening": 0.1}),
]


def test_networks_of_other_parts_or_warm_up_images_do_not_merge():
    def made(filters, preprocessing):
        features = ConvolutionalFeatures(filters, pool_size=3, stride=4, padding=3)
        before = ImagePreprocessing(**preprocessing)
        return ShallowConvClassifier(features, warm_up=20, preprocessing=before)

    mine, twin, later = (made(*MERGED) for _ in range(3))
    with pytest.raises(ValueError, match="warm_up: 20 and 21"):
        mine.merge(mine.clone({"warm_up": 21}))
    with pytest.raises(TypeError, match="LeastSquaresClassifier"):
        mine.merge(LeastSquaresClassifier())
    for learnt in (10, 30):
        mine.learn_many(IMAGES[:learnt], LABELS[:learnt])
        before = pickle.dumps(mine)
        for name, *parts in OTHERS:
            with pytest.raises(ValueError, match=rf"different settings \({name}: "):
                mine.merge(made(*parts))
        assert pickle.dumps(mine) == before
    later.learn_many(IMAGES[30:60], LABELS[30:60])
    with pytest.raises(ValueError, match="made from other images"):
        mine.merge(later)
    twin.learn_many(IMAGES[:10], LABELS[:10])
    twin.learn_many(IMAGES[:30], LABELS[:30])
    assert mine.merge(twin).count == 80


FIRST = np.random.default_rng(0).random((9, 3, 24, 24))
"""Images with the channels first, as torch has them."""

READERS = {
    "patches": lambda X: ConvolutionalFeatures.from_examples(X, LABELS[:9], filters=Patches(2)),
    "maps": lambda X: ConvolutionalFeatures(padding=0).transform_many(X),
    "channels": lambda X: ConvolutionalFeatures(np.ones((1, 3, 3, 3)), padding=9).transform_many(X),
    "shape": lambda X: ConvolutionalFeatures(image_shape=(24, 24, 3)).transform_many(X),
    "one image": lambda X: ConvolutionalFeatures(padding=0).transform_one({"image": X[0]}),
    "grey": lambda X: ImagePreprocessing(grey_channel=True).transform_many(X),
    "blocks": lambda X: ImagePreprocessing(downsample=2).transform_many(X),
    "whitening": lambda X: ImagePreprocessing.from_examples(
        np.moveaxis(X, 1, -1), whitening=0.1
    ).transform_many(X),
    "network": lambda X: ShallowConvClassifier.from_preset("svhn").learn_many(X, LABELS[:9]),
    "later images": lambda X: laws.fitted(
        ShallowConvClassifier(), np.moveaxis(X, 1, -1), LABELS[:9]
    ).predict_many(X),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("n_channels", [1, 3])
def test_images_with_the_channels_first_are_told_how_to_move_them(reader, n_channels):
    message = rf"\. X looks channels first, \(n, {n_channels}, 24, 24\): pass np\.moveaxis\(X, 1,"
    with pytest.raises(ValueError, match=message):
        READERS[reader](FIRST[:, :n_channels])


def test_images_with_the_channels_last_are_not_told_so():
    with pytest.raises(ValueError, match=r"Pass a smaller size\.$"):
        ConvolutionalFeatures.from_examples(np.ones((9, 5, 24, 3)), LABELS[:9], filters=Patches(2))
