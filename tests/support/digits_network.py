"""Handwritten digits, and a small network that learns them."""

from sklearn.datasets import load_digits

from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images, DIGITS.target


def small(
    warm_up=20,
    n_hidden=30,
    input_weights="difference",
    ridge=1.0,
    learnt=0,
    before=None,
    **features,
):
    features = {"pool_size": 3, "stride": 4, "padding": 3} | features
    if before is None:
        features |= {"image_shape": (8, 8)}
    model = ShallowConvClassifier(
        ConvolutionalFeatures(**features),
        HiddenLayer(n_hidden, input_weights),
        LeastSquaresClassifier(ridge=ridge, fit_intercept=False),
        warm_up=warm_up,
        preprocessing=before,
    )
    return learn(model, learnt) if learnt else model


def learn(model, *edges):
    """Learn digits up to a number, or from one to another; return the model."""
    rows = slice(*edges)
    model.learn_many(IMAGES[rows], LABELS[rows])
    return model
