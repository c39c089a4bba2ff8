"""The network with every kind of part: always the explicit chain and a batch solution."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import strategies
from onlinels import (
    ZCA,
    ConvolutionalFeatures,
    HiddenLayer,
    ImagePreprocessing,
    LeastSquaresClassifier,
    Patches,
    ShallowConvClassifier,
)


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
        hidden = HiddenLayer.from_examples(features.transform_many(first), names, **case.hidden)
        processed = before.transform_many(case.images)
        activations = hidden.transform_many(features.transform_many(processed))
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

    def assert_learnt(self, model, rows, w=1.0):
        """The network is the chain with the batch ridge solution of these rows."""
        A, rows = self.activations, list(rows)
        size = np.abs(A).max(initial=1e-9)
        found = model.transform_many(self.case.images)
        np.testing.assert_allclose(found, A, atol=1e-8 * size)
        targets = [[self.case.labels[row] == label for label in model.classes] for row in rows]
        gram = w * A[rows].T @ A[rows] + self.ridge * np.eye(A.shape[1])
        weights = np.linalg.solve(gram, w * A[rows].T @ np.array(targets, dtype=float))
        scores = model.scores_many(self.case.images)
        np.testing.assert_allclose(scores, A @ weights, atol=1e-6)
        assert model.count == w * len(rows)


COPIES = {
    "none": lambda model: model,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "copy": copy.copy,
    "empty": lambda model: model.empty() + model,
}


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=40, deadline=None)
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


@settings(max_examples=30, deadline=None)
@given(st.data(), strategies.network_cases())
def test_what_is_unlearnt_was_never_learnt(data, case):
    """The features stay: they were made from the warm-up images."""
    chain = Chain.of(case)
    model = chain.learn(chain.network(), range(len(case)))
    n_out = data.draw(st.integers(1, len(case) - 1))
    out = data.draw(st.permutations(range(len(case))))[:n_out]
    if out[1:]:
        model.unlearn_many(case.images[out[1:]], [case.labels[row] for row in out[1:]])
    model.unlearn_one({"image": case.images[out[0]]}, case.labels[out[0]])
    chain.assert_learnt(model, sorted(set(range(len(case))) - set(out)))


@pytest.mark.parametrize(
    ("shape", "n_pixels"),
    [((32, 32), 1024), ((33, 64), 17 * 32), ((32, 32, 3), 768), ((1, 1, 2000), 2000)],
)
def test_large_images_are_made_small_for_answers_in_the_warm_up(shape, n_pixels):
    images = np.random.default_rng(0).integers(1, 256, (6, *shape)).astype(np.uint8)
    model = ShallowConvClassifier(ConvolutionalFeatures(padding=3))
    model.learn_many(images, list("ababab"))
    assert model.output_weights.shape == (n_pixels, 2)
    assert list(model.predict_many(images)) == list("ababab")
    if n_pixels == 768:
        means = images.reshape(6, 16, 2, 16, 2, 3).mean(axis=(2, 4))
        rows = means.reshape(6, -1) / np.linalg.norm(means.reshape(6, -1), axis=1, keepdims=True)
        expected = rows @ model.output_weights + model.intercept
        np.testing.assert_allclose(model.scores_many(images), expected, atol=1e-9)


FORMS = {
    "array": lambda images: images,
    "flat": lambda images: images.reshape(len(images), -1),
    "images": lambda images: [{"image": image} for image in images],
    "dicts": lambda images: [dict(enumerate(image.ravel().tolist())) for image in images],
    "frame": lambda images: pd.DataFrame(
        images.reshape(len(images), -1), columns=[f"pixel_{k}" for k in range(images[0].size)]
    ),
}


@pytest.mark.parametrize("preprocessed", [False, True])
def test_images_in_every_form(preprocessed):
    """Rows of pixels go by the shape of images as they come, not as the filters meet them."""
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (40, 8, 10, 3)), list("abcd" * 10)
    steps = {"downsample": 2, "scale": 255.0, "grey_channel": True, "whitening": ZCA(0.1)}
    before = ImagePreprocessing(image_shape=(8, 10, 3), **(steps if preprocessed else {}))
    features = ConvolutionalFeatures(Patches(5, size=3), pool_size=2, padding=1)
    answers = []
    for form in FORMS.values():
        layer = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
        hidden = HiddenLayer(9, "difference")
        model = ShallowConvClassifier(features, hidden, layer, 20, preprocessing=before)
        for rows in (slice(0, 7), slice(7, 31), slice(31, 32)):
            model.learn_many(form(images[rows]), labels[rows])
        for image, label in zip(images[32:], labels[32:], strict=True):
            model.learn_one(dict(enumerate(image.ravel().tolist())), label)
        assert list(model.predict_many(form(images))) == list(model.predict_many(images))
        answers.append(model.scores_many(images))
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=1e-6)


def digits(n_images):
    """Return a network that has learnt so many digits, and all digits with their labels."""
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8))
    model = ShallowConvClassifier(
        ConvolutionalFeatures(Patches(5, size=3), pool_size=2),
        HiddenLayer(20, "difference"),
        LeastSquaresClassifier(ridge=1.0, half_life=10.0, fit_intercept=False),
        warm_up=20,
        preprocessing=ImagePreprocessing(whitening=ZCA(0.1)),
    )
    model.learn_many(images[:n_images], list("abcd" * 10)[:n_images])
    return model, images, list("abcd" * 10)


def test_networks_of_empty_learn_apart_and_merge():
    first, images, labels = digits(40)
    sites = [first.empty(), first.empty()]
    before = [pickle.dumps(model) for model in (first, sites[1])]
    sites[0].learn_many(images, labels)
    sites[0].predict_many(images)
    assert [pickle.dumps(model) for model in (first, sites[1])] == before
    pair = pickle.loads(pickle.dumps(sites))
    pair[0].learn_many(images, labels)
    assert (sites[0].count, pair[0].count, pair[1].count) == (40, 80, 0)
    assert (pair[0] + sites[1] + copy.deepcopy(first)).count == 120


def test_a_bank_that_was_made_may_be_passed_on():
    """The same filters in two networks, which then merge."""
    model, images, labels = digits(30)
    sites = []
    for rows in (slice(0, 10), slice(10, 20)):
        features = ConvolutionalFeatures(model.bank, pool_size=3, stride=4, padding=3)
        site = ShallowConvClassifier(features, HiddenLayer(5, "gaussian"))
        assert site.bank is model.bank
        site.learn_many(images[rows], labels[rows])
        sites.append(site)
    assert (sites[0] + sites[1]).count == 20


def test_some_images_held_have_times_and_others_are_counted():
    model, images, labels = digits(6)
    layer = model.classifier.clone()
    batches = [(slice(6, 9), 3.0), (slice(9, 30), None), (slice(30, 35), 12.0)]
    for rows, t in batches:
        model.learn_many(images[rows], labels[rows], t=t)
    for rows, t in [(slice(0, 6), None), *batches]:
        layer.learn_many(model.transform_many(images[rows]), labels[rows], t=t)
    scale = np.abs(layer.output_weights).max()
    np.testing.assert_allclose(model.output_weights, layer.output_weights, atol=1e-6 * scale)


def test_images_are_worked_through_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 5)
    (model, images, labels), sizes = digits(20), []
    process = ImagePreprocessing.transform_many
    monkeypatch.setattr(
        ImagePreprocessing,
        "transform_many",
        lambda self, X: sizes.append(len(X)) or process(self, X),
    )
    model.learn_many(images[20:], labels[20:])
    model.predict_many(images)
    assert max(sizes) == 5
    assert model.count == 40


def test_answers_in_the_warm_up_do_not_depend_on_questions_before():
    asked, images, labels = digits(7)
    plain, *_ = digits(7)
    for start in range(7, 19):
        rows = slice(start, start + 1)
        asked.predict_many(images[rows])
        for model in (asked, plain):
            model.learn_many(images[rows], labels[rows])
    scores = plain.scores_many(images)
    np.testing.assert_allclose(asked.scores_many(images), scores, atol=1e-9)
    assert asked.classes == plain.classes == tuple("abcd")
