"""Receptive fields: weights outside a unit's rectangle are 0, and the others are as without."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import ConvolutionalFeatures, HiddenLayer, ShallowConvClassifier
from onlinels.features.input_weights import ReceptiveFields, draw_pairs
from support import laws, strategies


def masks(fields, n_hidden, seed, n_maps):
    """Return where every unit sees a feature, (n_features, n_hidden)."""
    seen = np.zeros((n_hidden, n_maps, *fields.map_shape), dtype=bool)
    for unit, (top, bottom, left, right) in enumerate(fields.rectangles(n_hidden, seed)):
        seen[unit, :, top:bottom, left:right] = True
    return seen.reshape(n_hidden, -1).T


@given(strategies.receptive_fields(), st.integers(0, 1000))
def test_rectangles_lie_inside_and_are_large_enough(fields, seed):
    rectangles = fields.rectangles(400, seed)
    np.testing.assert_array_equal(rectangles[:7], fields.rectangles(7, seed))
    for side, (start, stop) in zip(fields.map_shape, rectangles.T.reshape(2, 2, -1), strict=True):
        assert (start >= 0).all()
        assert (stop <= side).all()
        assert (stop - start >= fields.smallest).all()
        count = side - fields.smallest + 1
        assert len(set(zip(start.tolist(), stop.tolist(), strict=True))) == count * (count + 1) // 2


@given(strategies.receptive_fields(), strategies.hidden_settings(), st.integers(1, 3))
def test_random_weights_outside_are_0(fields, settings, n_maps):
    settings |= {"activation": "linear", "bias": False}
    layer = HiddenLayer(**settings, receptive_fields=fields)
    units = np.eye(n_maps * fields.map_shape[0] * fields.map_shape[1])
    weights = HiddenLayer(**settings).transform_many(units)
    seen = masks(fields, settings["n_hidden"], settings["seed"], n_maps)
    np.testing.assert_array_equal(layer.transform_many(units), weights * seen)


@given(strategies.receptive_fields(), strategies.hidden_settings(), st.randoms())
def test_features_lie_where_their_number_says(fields, settings, random):
    row = np.arange(1.0, 1.0 + 2 * fields.map_shape[0] * fields.map_shape[1])
    plain = HiddenLayer(**settings, receptive_fields=fields).transform_many(row[None])[0]
    names = list(range(len(row)))
    random.shuffle(names)
    by_name = HiddenLayer(**settings, receptive_fields=fields)
    if random.random() < 0.5:
        by_name.transform_one({f"h{names[0]}": 1.0})
    for x in (
        {f"h{name}": row[name] for name in names},
        {name: row[name] for name in names},
        {("h", name): row[name] for name in names},
    ):
        found = list(by_name.transform_one(x).values())
        np.testing.assert_allclose(found, plain, rtol=1e-7, atol=1e-9)
    found = HiddenLayer(**settings, receptive_fields=fields).transform_one({"h": row})["h"]
    np.testing.assert_allclose(found, plain, rtol=1e-7, atol=1e-9)


@given(st.data(), strategies.receptive_fields(), st.integers(1, 2))
def test_differences_are_of_what_is_seen(data, fields, n_maps):
    n_features = n_maps * fields.map_shape[0] * fields.map_shape[1]
    drawn = data.draw(strategies.differences(n_features, dtypes="d"))
    X = drawn.X
    plain = {"bias": False, "standardize": False, "receptive_fields": fields}
    layer = HiddenLayer.from_examples(
        X, drawn.y, drawn.n_hidden, drawn.kind, "linear", drawn.seed, **plain
    )
    first, second = draw_pairs(drawn.y, drawn.n_hidden, drawn.seed)
    seen = masks(fields, drawn.n_hidden, drawn.seed, n_maps).T
    for unit, (a, b, mask) in enumerate(zip(X[first], X[second], seen, strict=True)):
        w = np.where(mask, a - b, 0.0)
        if drawn.kind == "centred-difference":
            w[mask] -= w[mask].mean()
        w /= np.linalg.norm(w) if np.linalg.norm(w) > 0.1 else np.inf
        np.testing.assert_allclose(layer.input_weights.weights[:, unit], w, atol=1e-12)
        if drawn.kind == "centred-difference":
            midway = layer.transform_many((a + b)[None] / 2.0)[0, unit]
            assert midway == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((1, 13)), "There are 13 features, expected a multiple of 6 as of maps of 2 x 3"),
        ([{"h": np.ones(7)}], "There are 7 features"),
        ([{"a": 1.0, 0: 1.0}], "Feature 'a' has no position"),
        ([{("g", 1): 1.0}], r"Feature \('g', 1\) has no position"),
    ],
)
def test_what_does_not_fit_the_map_changes_nothing(x, message):
    layer = HiddenLayer(4, receptive_fields=ReceptiveFields((2, 3), smallest=1))
    layer.transform_one({"h1": 2.0, 5: 1.0})
    before = pickle.dumps(layer)
    with pytest.raises(ValueError, match=message):
        layer.transform_many(x)
    if not isinstance(x, np.ndarray):
        with pytest.raises(ValueError, match=message):
            layer.transform_one(x[0])
    laws.assert_unchanged(before, layer, pickle.dumps)
    twice = np.concatenate([x, x]) if isinstance(x, np.ndarray) else [*x, *x]
    with pytest.raises(ValueError, match=message):
        HiddenLayer.from_examples(twice, [0, 1], receptive_fields=layer.receptive_fields)


def test_a_network_says_at_its_first_image_that_its_maps_do_not_fit():
    features = ConvolutionalFeatures(padding=3)
    hidden = HiddenLayer(5, "difference", receptive_fields=ReceptiveFields((4, 3)))
    model = ShallowConvClassifier(features, hidden)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"map_shape=\(4, 3\).*expected \(8, 8\)"):
        model.learn_one({"image": np.ones((8, 8))}, 0)
    laws.assert_unchanged(before, model, pickle.dumps)


def test_a_network_with_receptive_fields_learns():
    random = np.random.default_rng(0)
    images, labels = random.random((40, 8, 8)), random.integers(0, 3, 40)
    features = ConvolutionalFeatures(padding=3)
    side = int((features.n_features((8, 8)) / len(features.bank)) ** 0.5)
    fields = ReceptiveFields((side, side))
    for kind in ("gaussian", "difference", "centred-difference"):
        hidden = HiddenLayer(10, kind, receptive_fields=fields)
        model = ShallowConvClassifier(features, hidden, warm_up=20)
        model.learn_many(images, labels)
        assert len(model.predict_many(images)) == 40


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"map_shape": 9}, ValueError, "map_shape=9 is no shape"),
        ({"map_shape": (3, 2.5)}, TypeError, "map_shape=2.5 must be an int"),
        ({"map_shape": (3, 3), "smallest": 0}, ValueError, "smallest=0 must be at least 1"),
        ({"map_shape": (3, 9), "smallest": 4}, ValueError, "expected at most 3"),
    ],
)
def test_bad_fields(settings, error, message):
    with pytest.raises(error, match=message):
        ReceptiveFields(**settings)
