"""Embedding: a function as the first step, in any form of rows, and identified in files."""

import copy
import functools
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import Embedding, LeastSquaresClassifier
from support import laws

WIDTH = 6


def embed(items):
    """Return embeddings of texts or images: whole numbers, so that sums are exact."""
    content = [item.encode() if isinstance(item, str) else np.asarray(item) for item in items]
    seeds = [zlib.crc32(bytes(each)) for each in content]
    return np.array([np.random.default_rng(seed).integers(-4, 5, WIDTH) for seed in seeds])


FORMS = {
    "dicts": lambda texts: [{"text": text} for text in texts],
    "items": list,
    "pandas": lambda texts: pd.DataFrame({"text": texts}),
    "polars": lambda texts: pl.DataFrame({"text": texts}),
    "array": lambda texts: np.array(texts),
}


texts = st.lists(st.text("abc ", min_size=1, max_size=4), min_size=2, max_size=14)


@given(texts, st.sampled_from(sorted(FORMS)))
def test_every_form_of_rows_has_the_embeddings_of_its_items(items, form):
    step = Embedding(embed)
    rows = laws.entries(step.transform_many(FORMS[form](items)))
    found = [[*np.hstack([*row.values()])] if isinstance(row, dict) else row for row in rows]
    np.testing.assert_array_equal(found, embed(items))
    one = step.transform_one({"text": items[0]})
    np.testing.assert_array_equal(one["h"], embed(items)[0])


@pytest.mark.parametrize("probes", ["texts", (4, 4, 3), ["one", "two"]])
def test_a_file_holds_a_fingerprint_and_no_function(tmp_path, probes):
    model = Embedding(embed, probes) | LeastSquaresClassifier(ridge=1.0)
    model.learn_many(["one", "two", "three"], ["a", "b", "a"])
    path = tmp_path / "model.npz"
    onlinels.save(model, path)
    assert b"embed(" not in path.read_bytes()
    # Another processor has errors of 1e-5.
    for function in (embed, lambda items: embed(items) * (1.0 + 1e-5)):
        loaded = onlinels.load(path, embed=function)
        assert loaded.predict_one({"text": "two"}) == model.predict_one({"text": "two"})
        assert onlinels.merge(model, loaded)["LeastSquaresClassifier"].count == 6
    assert onlinels.loads(onlinels.dumps(model), embed=embed).predict_many(["two"]) == ["b"]
    for other in (lambda items: embed(items) + 1, lambda items: np.tile(embed(items), 2)):
        with pytest.raises(ValueError, match="other embeddings for the probes"):
            onlinels.load(path, embed=other)
    bare = onlinels.load(path)
    assert onlinels.merge(bare, model)["LeastSquaresClassifier"].count == 6
    with pytest.raises(ValueError, match=r"load\(path, embed=function\)"):
        bare.predict_one({"text": "two"})
    # A model without its function saves as before.
    assert onlinels.dumps(onlinels.load(path)) == path.read_bytes()


def test_a_function_is_shared_by_copies_and_clones_and_not_called_again():
    calls = []

    def counting(items):
        calls.append(len(items))
        return embed(items)

    step = Embedding(counting)
    calls.clear()
    for twin in (copy.deepcopy(step), step.clone(), copy.copy(step)):
        assert twin.embed.function is counting
        twin.transform_many(["a", "b", "c"])
    assert calls == [3, 3, 3]
    assert len(step.clone({"probes": ["x", "y"]}).embed.fingerprint) == 2


def test_images_come_as_arrays_and_a_single_one_is_no_batch():
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    model = Embedding(embed, (4, 4, 3)) | LeastSquaresClassifier(1.0)
    laws.fitted_by_row(model, images, "ababa")
    for X in (images, [{"image": image} for image in images]):
        assert [model.predict_one(x) for x in X] == [*model.predict_many(X)]
    with pytest.raises(ValueError, match=r"shape \(4, 4, 3\) of one item, .* Pass X\[None\]"):
        model.predict_many(images[0])


def of_two_lengths(items):
    return np.ones((len(items), 1 + (items[0] == "long")))


def merged_with(step):
    return onlinels.merge(LAYER | LINEAR, step | LINEAR)


RANDOM, OF_OTHERS = np.random.default_rng(0), "another vector for an item alone"
BAD_FUNCTIONS = [
    (3, TypeError, "expected a function from a list"),
    (lambda items: {}["pixels"], ValueError, "^embed raised KeyError.*'pixels'.* Pass a shape s"),
    (lambda items: [[1.0]], ValueError, "one vector per item"),
    (lambda items: [1.0] * len(items), ValueError, r"of shape \(3,\) for 3 items, .* per item\.$"),
    (lambda items: [[1.0], [], []], ValueError, "^embed returned lists of"),
    (lambda items: [[np.nan]] * len(items), ValueError, r"^embed's result holds nan.*StatImputer"),
    (lambda items: [["x"]] * len(items), TypeError, "real numbers"),
    (lambda items: [[1.0, len(items)]] * len(items), ValueError, OF_OTHERS),
    (lambda items: RANDOM.normal(size=(len(items), 3)), ValueError, OF_OTHERS),
]
TWO_COLUMNS = pd.DataFrame({"a": ["x"], "b": ["y"]})
LAYER, LINEAR = Embedding(embed), LeastSquaresClassifier()
NO_EMBEDDING = functools.partial(onlinels.loads, onlinels.dumps(LINEAR))
BAD_CALLS = [
    (Embedding, (embed, "images"), ValueError, "describes no items"),
    (Embedding, (embed, ["one"]), ValueError, "describes no items"),
    (Embedding, (embed, (-1, 2)), ValueError, r"probes=\(-1, 2\) describes no items"),
    (LAYER.transform_one, ({"a": 1, "b": 2},), ValueError, "has 2 values"),
    (LAYER.transform_one, ("text",), ValueError, "x has the type str"),
    (LAYER.transform_one, ({"image": None},), ValueError, "x holds None"),
    (LAYER.transform_many, ("text",), TypeError, "X is of type str"),
    (LAYER.transform_many, ([{}],), ValueError, r"X\[0\] has 0 values"),
    (LAYER.transform_many, (TWO_COLUMNS,), ValueError, "expected one column"),
    (NO_EMBEDDING, (embed,), ValueError, "holds no Embedding"),
    (Embedding(of_two_lengths).transform_many, (["long"],), ValueError, "vectors of one length"),
    (merged_with, (Embedding(lambda items: -embed(items)),), ValueError, "differ in embed,"),
    (merged_with, (Embedding(embed, ["one", "two"]),), ValueError, "differ in embed, probes"),
]


@pytest.mark.parametrize(("call", "arguments", "error", "match"), BAD_CALLS)
def test_bad_input_is_refused(call, arguments, error, match):
    with pytest.raises(error, match=match):
        call(*arguments)


@pytest.mark.parametrize(("function", "error", "match"), BAD_FUNCTIONS)
def test_bad_functions_are_refused_also_for_a_file(function, error, match):
    for call in (Embedding, functools.partial(onlinels.loads, onlinels.dumps(LAYER))):
        with pytest.raises(error, match=match):
            call(embed=function)
