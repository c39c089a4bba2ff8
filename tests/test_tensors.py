"""Tensors: read as arrays wherever arrays are, refused where numpy cannot see their numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import metrics

from onlinels import (
    Embedding,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    progressive_val_score,
)
from onlinels.rows.batch import as_numpy
from support import laws, models


class OnlyDLPack:
    """A tensor that shows nothing but its memory."""

    def __init__(self, values, dtype=None):
        self._values = np.asarray(values)
        self.dtype = dtype or self._values.dtype
        self.shape, self.ndim = self._values.shape, self._values.ndim

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


class Tensor(OnlyDLPack):
    """What a tensor of another library shows of itself."""

    def __array__(self, dtype=None, copy=None):
        if str(self.dtype) == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._values if dtype is None else self._values.astype(dtype)

    def __len__(self):
        return len(self._values)

    def tolist(self):
        return self._values.tolist()

    def float(self):
        return Tensor(self._values.astype(np.float32))


FORMS = {
    "float16": lambda X: Tensor(X.astype(np.float16)),
    "float32": lambda X: Tensor(X.astype(np.float32)),
    "float64": Tensor,
    "whole": lambda X: Tensor(X.astype(np.int32)),
    "bfloat16": lambda X: Tensor(X, dtype="torch.bfloat16"),
    "memory": lambda X: OnlyDLPack(X.copy()),
}
MODELS = "gram", "regressor", "several", "calibrated", "pipeline", "stream", "drift"


@given(st.sampled_from(sorted(FORMS)), st.sampled_from(MODELS), st.integers(0, 2**32 - 1))
def test_tensors_are_read_as_arrays(form, name, seed):
    random, make = np.random.default_rng(seed), models.MODELS[name]
    X = random.integers(-4, 5, (12, 3)).astype(float)
    y = random.integers(0, 3, (12, 2) if name == "several" else 12)
    model, other = make(), make()
    model.learn_many(X, y)
    other.learn_many(FORMS[form](X), Tensor(y) if form != "memory" else y)
    found, expected = other.predict_many(FORMS[form](X)), model.predict_many(X)
    assert type(found) is type(expected)
    np.testing.assert_array_equal(found, expected)


def answers(wrap):
    """Return answers of models whose images, samples and rows are wrapped."""
    images, labels = np.random.default_rng(0).random((6, 8, 8)), list("ababab")
    network = models.digits_network(warm_up=9)
    network.learn_one({"image": wrap(images[0])}, "a")
    network.learn_many([{"image": wrap(image)} for image in images[:2]], ["b", "a"])
    embed = Embedding(lambda items: [[item.sum(), item[0, 0]] for item in items], (8, 8))
    for model in (network, embed | LeastSquaresClassifier(1.0)):
        yield laws.fitted(model, wrap(images), labels).predict_proba_many(wrap(images))
    samples = [{"h": wrap(image.ravel())} for image in images]
    single = laws.fitted_by_row(LeastSquaresClassifier(1.0), samples, labels)
    yield [*single.predict_proba_one(samples[0]).values()]
    rows = wrap(images[:, 0]), labels
    yield progressive_val_score(rows, LeastSquaresClassifier(), metrics.LogLoss()).metric.get()


def test_tensors_in_samples_images_and_rows_to_evaluate():
    for found, expected in zip(answers(Tensor), answers(np.asarray), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_numpy_cannot_read_is_refused():
    class Elsewhere(OnlyDLPack):
        def __dlpack__(self, **options):
            raise BufferError("the memory is of another device")

    model, X = LeastSquaresClassifier(), Elsewhere(np.eye(2))
    message = r"the memory is of another device\. Pass a dense numpy array.*X\.detach\(\)"
    laws.assert_refused(lambda: model.learn_many(X, ["a", "b"]), model, message, TypeError)


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X = torch.arange(12.0).reshape(4, 3)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64):
        np.testing.assert_array_equal(as_numpy(X.to(dtype)), X.numpy())
    with pytest.raises(TypeError, match=r"requires grad.*dense numpy array"):
        as_numpy(X.requires_grad_())
    with pytest.raises(TypeError, match="dense numpy array"):
        as_numpy(torch.eye(3).to_sparse())


def test_an_array_that_was_only_asked_about_is_learnt_with_its_length():
    model = LeastSquaresRegressor(1.0)
    for number in range(6):
        x = {0: float(number), 1: number**2.0, 2: -number / 2.0, 3: 3.0}
        model.predict_one(x)
        model.learn_one(x, 1.0)
    for _ in range(2):
        model.predict_one({"h": np.ones(3)})
    model.learn_one({"h": np.ones(3)}, 1.0)
    with pytest.raises(ValueError, match=r"x\['h'\] has 4 values, expected 3"):
        model.learn_one({"h": np.ones(4)}, 1.0)
