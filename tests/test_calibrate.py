"""CalibratedClassifier: labels unchanged, one scale fitted on predictions made before learning."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
)
from onlinels.linear.scoring import (
    SCALE_PENALTIES,
    SOFTMAX_SCALES,
    best_scale,
    calibrate,
    log_losses,
)
from support import laws, strategies
from support.strategies import classifier_settings, rows, splits


def learnt(rows, parts, settings):
    """Return a wrapper that learnt the rows in these mini-batches, a single row by `learn_one`."""
    model = CalibratedClassifier(LeastSquaresClassifier(**settings))
    for part in map(rows.take, parts):
        if len(part) > 1:
            model.learn_many(part.X, part.y, part.w)
        else:
            laws.fitted_by_row(model, part.dicts(), part.y, part.w.tolist())
        model = pickle.loads(pickle.dumps(model))
    return model


def scored_together(parts, ridge, accumulator, scaling, **others):
    """Return the parts of rows that are scored before any of them is learnt.

    These are single rows, but where a solution does not go on from row to row.
    """
    is_solved_anew = ridge == 0.0 or ridge == "paper" or scaling == "standard"
    if accumulator == "orthogonal" or is_solved_anew:
        return parts
    return [range(row, row + 1) for part in parts for row in part]


def expected_losses(rows, parts, settings):
    """Return every scale's log-loss from scores that are all stored, entry by entry."""
    plain, losses = LeastSquaresClassifier(**settings), np.zeros(len(SOFTMAX_SCALES))
    for part in map(rows.take, scored_together(parts, **settings)):
        for scores, label, w in zip(plain.scores_many(part.X), part.y, part.w, strict=True):
            if label in plain.classes:
                likelihoods = np.exp(np.outer(SOFTMAX_SCALES, scores - scores.max(initial=-np.inf)))
                shares = likelihoods / likelihoods.sum(axis=1, keepdims=True)
                share = shares[:, plain.classes.index(label)]
                losses -= w * np.log((plain.count * share + 1) / (plain.count + len(scores)))
        plain.learn_many(part.X, part.y, part.w)
    return losses, plain


def allowed_errors(rows, plain, losses):
    """Return by how much every scale's log-loss may be off by rounding, (n_scales,).

    A scale multiplies the errors of scores.
    """
    of_scores = 1e-2 * laws.EPS
    return 1e-9 * (1.0 + np.abs(losses)) + of_scores * rows.w.sum() * SOFTMAX_SCALES


@strategies.examples(100)
@given(rows(), classifier_settings(), st.data())
def test_losses_equal_those_of_stored_scores_and_labels_are_unchanged(rows, settings, data):
    parts, priors = data.draw(splits(len(rows))), st.one_of(st.none(), strategies.priors(rows.y))
    settings["priors"] = data.draw(priors)
    model, (losses, plain) = learnt(rows, parts, settings), expected_losses(rows, parts, settings)
    assert (np.abs(model._losses - losses) <= allowed_errors(rows, plain, losses)).all()
    assert model.scale == best_scale(model._losses)
    assert (model._losses + SCALE_PENALTIES).min() == (model._losses + SCALE_PENALTIES)[
        model.scale == SOFTMAX_SCALES
    ].item()
    np.testing.assert_allclose(plain.output_weights, model.classifier.output_weights, atol=1e-6)
    labels = model.classifier.predict_many(rows.X).tolist()
    assert model.predict_many(rows.X).tolist() == labels
    np.testing.assert_array_equal(model.scores_many(rows.X), model.classifier.scores_many(rows.X))
    table = model.predict_proba_many(rows.X)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    assert table.min() > 0.0
    for x, label, row in zip(rows.dicts(), labels, table, strict=True):
        assert model.predict_one(x) == model.classifier.predict_one(x)
        assert row[model.classes.index(label)] == row.max()
        one = model.predict_proba_one(x)
        assert tuple(one) == model.classes
        np.testing.assert_allclose(list(one.values()), row, rtol=1e-5)


LABELS = ["a", 1, 2.5, "b", ("c", 1)]


@given(
    st.sampled_from([None, "equal", "learnt", {"a": 2.0, "never": 0.5}]),
    st.sampled_from([LABELS[:4], LABELS[::-1]]),
    st.integers(0, 2**32 - 1),
)
def test_losses_of_single_rows_are_those_of_their_scores(priors, labels, seed):
    """By compiled code, also where labels are not of plain types, and from a pickle on."""
    random, losses = np.random.default_rng(seed), np.zeros(len(SOFTMAX_SCALES))
    model = CalibratedClassifier(LeastSquaresClassifier(1.0, priors=priors))
    for step in range(40):
        column, w = int(random.integers(len(labels))), float(random.choice([1.0, 0.5, 0.0]))
        x, y = {"x": column + random.normal(), "y": random.normal()}, labels[column]
        classes, (scores,) = model.classes, model.scores_many([x])
        if y in classes:
            row = np.array([[*scores.values()]]), np.array([classes.index(y)])
            losses += log_losses(*row, w, float(model.count), len(classes))[0]
        model.predict_one(x)
        model.learn_one(x, y, w)
        np.testing.assert_allclose(model._losses, losses, rtol=1e-9, atol=1e-9)
        if step == 20:
            model = pickle.loads(pickle.dumps(model))


@given(rows(), rows(), classifier_settings())
def test_merging_adds(first, second, settings):
    a = learnt(first, [range(k, k + 1) for k in range(len(first))], settings)
    b = learnt(second, [range(k, k + 1) for k in range(len(second))], settings)
    before = pickle.dumps(b)
    both = a + b
    assert both.count == a.count + b.count
    assert (both._losses == a._losses + b._losses).all()
    inner = a.classifier + b.classifier
    assert (both.classifier.output_weights == inner.output_weights).all()
    assert pickle.dumps(b) == before
    np.testing.assert_array_equal((a + a.empty())._losses, a._losses)


@pytest.mark.parametrize("scale", SOFTMAX_SCALES)
def test_far_scores_do_not_overflow(scale):
    shares = calibrate(np.array([[1e150, -1e150, 0.0]]), scale, 10)
    np.testing.assert_allclose(shares, [[11 / 13, 1 / 13, 1 / 13]])


def test_models_of_other_settings_are_not_merged():
    pipelines = [CalibratedClassifier(HiddenLayer(n) | LeastSquaresClassifier()) for n in (3, 4)]
    models = [CalibratedClassifier(LeastSquaresClassifier(ridge=r)) for r in (1.0, 2.0)]
    for one, other in (pipelines, models):
        laws.assert_refused(lambda a=one, b=other: a.merge(b), one, "different settings")
