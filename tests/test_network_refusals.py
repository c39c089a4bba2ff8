"""What the network refuses leaves no trace, whatever its parts and whenever it comes."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

import laws
from onlinels import (
    ZCA,
    ConvolutionalFeatures,
    FilterBank,
    HiddenLayer,
    ImagePreprocessing,
    KMeansPatches,
    LeastSquaresClassifier,
    Patches,
    Power,
    ShallowConvClassifier,
    WhitenedPatches,
    WindowFeatures,
)

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images, DIGITS.target

PARTS = {
    "filters of patches": ({}, {"filters": Patches(5, size=5)}),
    "whitened patches": ({}, {"filters": WhitenedPatches(5, size=3), "contrast_offset": 1.0}),
    "clusters": ({}, {"filters": ("hand-designed", KMeansPatches(5, size=3))}),
    "whitened images": ({"whitening": ZCA(0.1)}, {}),
    "all": (
        {"downsample": 2, "scale": 16.0, "whitening": ZCA(0.1)},
        {"filters": ("hand-designed", Patches(5, size=3)), "channels": "joint"},
    ),
    "single precision": (
        {"scale": 16.0, "whitening": ZCA(0.1), "dtype": "float32"},
        {"filters": Patches(5, size=3), "dtype": "float32"},
    ),
}


def network(parts="all", warm_up=20, **settings):
    preprocessing, features = PARTS[parts]
    settings = {"ridge": 1.0, "fit_intercept": False, **settings}
    return ShallowConvClassifier(
        ConvolutionalFeatures(**{"pool_size": 3, "stride": 4, "padding": 3, **features}),
        HiddenLayer(30, "difference"),
        LeastSquaresClassifier(**settings),
        warm_up=warm_up,
        preprocessing=ImagePreprocessing(image_shape=(8, 8), **preprocessing),
    )


@pytest.mark.parametrize("learnt", [0, 12, 20, 40])
@pytest.mark.parametrize("row", [0, 7, 8, 30])
@pytest.mark.parametrize("parts", PARTS)
def test_one_bad_image_among_many_changes_nothing(parts, row, learnt):
    """Before the edge of the warm-up, at it, after it and in a batch that crosses it."""
    model = network(parts)
    if learnt:
        model.learn_many(IMAGES[:learnt], LABELS[:learnt])
    before = pickle.dumps(model)
    images = IMAGES[40:80].copy()
    images[row, 3, 3] = 1e140
    with pytest.raises(ValueError, match="Rescale"):
        model.learn_many(images, LABELS[40:80])
    laws.assert_unchanged(before, model, pickle.dumps)
    model.learn_many(IMAGES[40:80], LABELS[40:80])
    assert model.count == learnt + 40


@pytest.mark.parametrize("row", [2, 30])
@pytest.mark.parametrize("parts", PARTS)
def test_a_batch_over_the_edge_is_learnt_whole_or_not_at_all(parts, row):
    """A pixel that may be held can still be too large for what is made of the images."""
    model = network(parts)
    model.learn_many(IMAGES[:12], LABELS[:12])
    before = pickle.dumps(model)
    images = IMAGES[12:52].copy()
    images[row] *= largest_held(parts)
    learnt = False
    with contextlib.suppress(ValueError):
        model.learn_many(images, LABELS[12:52])
        learnt = model.count == 52
    assert learnt or pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("activation", "size", "weight"), [("cube", 1e57, 1.0), ("square", 1e55, 1e149)]
)
def test_activations_that_are_refused_halfway_leave_nothing_learnt(
    monkeypatch, activation, size, weight
):
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 20)
    features = ConvolutionalFeatures(
        normalize=False, before_pooling=Power(1.0), after_pooling=Power(1.0)
    )
    model = ShallowConvClassifier(features, HiddenLayer(10, "gaussian", activation))
    model.learn_many(IMAGES[:30], LABELS[:30])
    before = pickle.dumps(model)
    images, w = IMAGES[30:80].copy(), np.ones(50)
    images[45] *= size
    w[45] = weight
    with pytest.raises(ValueError, match=r"[Rr]escale"):
        model.learn_many(images, LABELS[30:80], w)
    laws.assert_unchanged(before, model, pickle.dumps)


def test_images_are_processed_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 20)
    model, sizes = network("all"), []
    model.learn_many(IMAGES[:30], LABELS[:30])
    process = ImagePreprocessing.transform_many
    monkeypatch.setattr(
        ImagePreprocessing,
        "transform_many",
        lambda self, X: sizes.append(len(X)) or process(self, X),
    )
    model.learn_many(IMAGES[30:100], LABELS[30:100])
    model.predict_many(IMAGES[:50])
    assert max(sizes) == 20


def test_one_image_is_learnt_without_a_copy_of_what_was_learnt(monkeypatch):
    model = network("filters of patches", accumulator="recursive")
    model.learn_many(IMAGES[:30], LABELS[:30])
    monkeypatch.setattr("onlinels.network.copy.deepcopy", lambda _: pytest.fail("copied"))
    model.learn_one({"image": IMAGES[30]}, LABELS[30])


@pytest.mark.parametrize("learnt", [0, 12, 40])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((20, 9, 8)), LABELS[:20]), ValueError, "shape"),
        ((np.ones((20, 8, 8, 3)), LABELS[:20]), ValueError, "shape"),
        ((np.ones((20, 63)), LABELS[:20]), ValueError, "shape"),
        ((IMAGES[:20], LABELS[:19]), ValueError, "19 labels, expected 20"),
        ((IMAGES[:20], None), TypeError, "y is of type NoneType"),
        ((IMAGES[:20], [*LABELS[:19], None, None]), ValueError, "21 labels"),
        ((IMAGES[:20], LABELS[:20], np.ones(19)), ValueError, "w has shape"),
        ((IMAGES[:20].astype(complex), LABELS[:20]), TypeError, "dtype complex"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_calls_leave_the_state_untouched(parts, learnt, arguments, error, message):
    model = network(parts)
    if learnt:
        model.learn_many(IMAGES[:learnt], LABELS[:learnt])
    before = pickle.dumps(model)
    with pytest.raises(error, match=message):
        model.learn_many(*arguments)
    laws.assert_unchanged(before, model, pickle.dumps)


def masked_readers():
    masked = np.ma.array(np.where(IMAGES[:9] > 8.0, np.nan, IMAGES[:9]), mask=IMAGES[:9] > 8.0)
    network, recipe = ShallowConvClassifier(), WhitenedPatches(2, 3)
    yield lambda: ConvolutionalFeatures().transform_many(masked)
    yield lambda: ConvolutionalFeatures().transform_one({"image": masked[0]})
    yield lambda: ConvolutionalFeatures(masked)
    yield lambda: ConvolutionalFeatures((masked, "hand-designed"))
    yield lambda: ConvolutionalFeatures.from_examples(masked, filters=recipe)
    yield lambda: FilterBank(masked[..., None], np.zeros(9))
    yield lambda: WindowFeatures().transform_many(masked)
    yield lambda: WindowFeatures(masked)
    yield lambda: ImagePreprocessing().transform_many(masked)
    yield lambda: ImagePreprocessing.from_examples(masked)
    yield lambda: network.learn_many(masked, LABELS[:9])
    yield lambda: network.predict_many(masked)


@pytest.mark.parametrize("read", list(masked_readers()))
def test_masked_arrays_are_refused(read):
    """What is under a mask would be learnt, NaN included."""
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
    geometry = {"pool_size": 3, "padding": 4}
    with pytest.raises(ValueError, match=message):
        ShallowConvClassifier(
            ConvolutionalFeatures(**geometry, **features),
            preprocessing=ImagePreprocessing(**{"image_shape": (8, 8), **preprocessing}),
        ).learn_many(images, [1])


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("parts", PARTS)
def test_what_is_held_can_be_learnt_when_the_warm_up_ends(parts, row):
    """However large a pixel is held, whatever is then made of it."""
    model = network(parts)
    model.learn_many(IMAGES[row : row + 1] * largest_held(parts), LABELS[row : row + 1])
    model.learn_many(IMAGES[10:50], LABELS[10:50])
    assert model.count == 41


@pytest.mark.parametrize(
    ("settings", "hidden", "images", "cause"),
    [
        ({"accumulator": "recursive", "ridge": 1e-12}, {}, IMAGES * 1e5, "outweigh"),
        ({"ridge": 1.0}, {"activation": "cube", "dtype": "float32"}, IMAGES * 6e10, "float32"),
    ],
)
def test_images_held_that_cannot_be_learnt_say_what_to_do(settings, hidden, images, cause):
    """The advice about rows comes too late for those that are held."""
    plain = {"normalize": False, "before_pooling": Power(1.0), "after_pooling": Power(1.0)}
    features = ConvolutionalFeatures(np.ones((20, 3, 3)), pool_size=1, **plain)
    parts = (features, HiddenLayer(30, "difference", **hidden))
    model = ShallowConvClassifier(*parts, LeastSquaresClassifier(**settings), warm_up=20)
    with pytest.raises(ValueError, match=cause) as caught:
        model.learn_many(images[:20], LABELS[:20])
    assert "held" not in str(caught.value)
    model.learn_many(images[:12], LABELS[:12])
    before = pickle.dumps(model)
    message = rf"(?s){cause}.*12 of these images were held.*Start a new model"
    with pytest.raises(ValueError, match=message):
        model.learn_many(images[12:30], LABELS[12:30])
    with pytest.raises(ValueError, match=message):
        model.fix_features()
    laws.assert_unchanged(before, model, pickle.dumps)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("parts", PARTS)
def test_merging_is_all_or_nothing(parts, turned):
    """An image that was held may be too large for the filters of the other network."""
    fixed, waiting = network(parts), network(parts)
    fixed.learn_many(IMAGES[:30], LABELS[:30])
    waiting.learn_many(IMAGES[30:35], LABELS[30:35])
    large = largest_held(parts)
    waiting.learn_many(IMAGES[35:36] * large, LABELS[35:36])
    models = (waiting, fixed) if turned else (fixed, waiting)
    before = [pickle.dumps(model) for model in models]
    merged = False
    with contextlib.suppress(ValueError):
        merged = models[0].merge(models[1]).count == 36
    assert [pickle.dumps(model) for model in models][merged:] == before[merged:]


def largest_held(parts):
    """Return by how much digits can be multiplied and still be held, as a power of 10."""
    for exponent in range(140, 0, -1):
        try:
            network(parts).learn_many(IMAGES[35:36] * 10.0**exponent, LABELS[35:36])
        except ValueError:
            continue
        return 10.0**exponent
    return 1.0


def others():
    geometry = {"pool_size": 3, "stride": 4, "padding": 3}
    patches, zca = Patches(5, size=3), ZCA(0.1)
    fixed = ImagePreprocessing.from_examples(IMAGES[:50], whitening=zca)
    made = ConvolutionalFeatures.from_examples(IMAGES[:9], LABELS[:9], filters=patches, **geometry)
    for preprocessing, filters, name in [
        ({"scale": 16.0}, patches, "preprocessing"),
        ({"whitening": ZCA(0.2)}, patches, "preprocessing"),
        ({"whitening": fixed.whitening}, patches, "preprocessing"),
        ({"whitening": zca}, Patches(6, size=3), "features"),
        ({"whitening": zca}, Patches(5, size=4), "features"),
        ({"whitening": zca}, (patches, patches), "features"),
        ({"whitening": zca}, KMeansPatches(5, size=3), "features"),
        ({"whitening": zca}, np.ones((5, 3, 3)), "features"),
        ({"whitening": zca}, made.bank, "features"),
    ]:
        yield name, ImagePreprocessing(**preprocessing), ConvolutionalFeatures(filters, **geometry)


@pytest.mark.parametrize(("name", "preprocessing", "features"), list(others()))
def test_networks_of_other_parts_do_not_merge(name, preprocessing, features):
    geometry = {"pool_size": 3, "stride": 4, "padding": 3}
    mine = ConvolutionalFeatures(Patches(5, size=3), **geometry)
    zca = ImagePreprocessing(whitening=ZCA(0.1))
    model = ShallowConvClassifier(mine, warm_up=20, preprocessing=zca)
    other = ShallowConvClassifier(features, warm_up=20, preprocessing=preprocessing)
    for learnt in (0, 10, 30):
        if learnt:
            model.learn_many(IMAGES[:learnt], LABELS[:learnt])
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=rf"different settings \({name}: "):
            model.merge(other)
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("parts", PARTS)
def test_networks_of_other_warm_up_images_do_not_merge(parts):
    a, b, twin = network(parts), network(parts), network(parts)
    a.learn_many(IMAGES[:30], LABELS[:30])
    b.learn_many(IMAGES[30:60], LABELS[30:60])
    twin.learn_many(IMAGES[:30], LABELS[:30])
    with pytest.raises(ValueError, match="made from other images"):
        a.merge(b)
    assert a.merge(twin).count == 60


def test_a_bank_that_was_made_may_be_passed_on():
    """The same filters in two networks, which then merge."""
    model = network("filters of patches")
    model.learn_many(IMAGES[:30], LABELS[:30])
    assert isinstance(model.bank, FilterBank)
    sites = []
    for rows in (slice(0, 10), slice(10, 20)):
        features = ConvolutionalFeatures(model.bank, pool_size=3, stride=4, padding=3)
        site = ShallowConvClassifier(features, HiddenLayer(5, "gaussian"))
        assert site.bank is model.bank
        site.learn_many(IMAGES[rows], LABELS[rows])
        sites.append(site)
    assert (sites[0] + sites[1]).count == 20


@pytest.mark.parametrize("half_life", [5.0, 50.0])
def test_some_images_held_have_times_and_others_are_counted(half_life):
    settings = {"half_life": half_life, "fit_intercept": False, "ridge": 1.0}
    model = network(**settings)
    layer = LeastSquaresClassifier(**settings)
    batches = [(slice(0, 6), 3.0), (slice(6, 9), None), (slice(9, 30), 12.0), (slice(30, 35), None)]
    for rows, t in batches:
        model.learn_many(IMAGES[rows], LABELS[rows], t=t)
    for rows, t in batches:
        layer.learn_many(model.transform_many(IMAGES[rows]), LABELS[rows], t=t)
    scale = np.abs(layer.output_weights).max()
    np.testing.assert_allclose(model.output_weights, layer.output_weights, atol=1e-6 * scale)


@pytest.mark.parametrize("normalize", [False, "image", "map"])
@pytest.mark.parametrize("learnt", [0, 30])
def test_pixels_must_fit_the_precision_of_the_hidden_layer_too(monkeypatch, learnt, normalize):
    """Else a block that is learnt could stand before one that is refused, or a held image."""
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 20)
    features = ConvolutionalFeatures(normalize=normalize)
    hidden = HiddenLayer(10, "difference", dtype="float32")
    model = ShallowConvClassifier(features, hidden, warm_up=25)
    if learnt:
        model.learn_many(IMAGES[:learnt], LABELS[:learnt])
    before, images = pickle.dumps(model), IMAGES[30:80].copy()
    images[45] *= 1e45
    if normalize:
        model.learn_many(images, LABELS[30:80])
        assert model.count == learnt + 50
    else:
        with pytest.raises(ValueError, match=r"dtype='float32'.*Rescale"):
            model.learn_many(images, LABELS[30:80])
        laws.assert_unchanged(before, model, pickle.dumps)
