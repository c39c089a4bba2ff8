"""Reusable laws: what must hold between an online model and the batch solution."""

import copy
import functools
import io
import itertools
import pickle
import re
import tracemalloc
import zipfile
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import onlinels
from onlinels import LeastSquaresMultiTargetRegressor, StreamClassifier
from onlinels.stream import base as stream_base
from onlinels.stream.base import StreamModel
from onlinels.stream.waiting import Waiting
from support.strategies import splits

BLOCKS = {
    "onlinels.checks.BLOCK_BYTES": 200,
    "onlinels.linear.state.MIN_BLOCK_ROWS": 1,
    # Rows are predicted and learnt in blocks, too.
    "onlinels.linear.prequential.FEATURES_IN_BLOCKS": 0,
}

EPS = np.finfo(np.float64).eps
LARGEST = 1e9
"""No drawn rows have a larger sum of squares."""


BAD_ROWS = pytest.mark.parametrize(
    ("x", "y", "w"),
    [
        ({"a": float("nan")}, "yes", 1.0),
        ({"a": 1.0}, float("nan"), 1.0),
        ({"a": 1.0}, [], 1.0),
        ({"a": 1.0}, ["yes", "no"], 1.0),
        ({"a": 1.0}, "yes", -1.0),
        # Only a wrapped model refuses this one.
        ({"a": 1e150}, "yes", 1e3),
    ],
)


def taught(
    X, Y, w=None, ridge=1.0, accumulator="gram", fit_intercept=False, batches=(slice(None),)
):
    """Return a model of several targets that has learnt arrays, batch by batch."""
    model = LeastSquaresMultiTargetRegressor(ridge, accumulator, fit_intercept)
    for batch in batches:
        model.learn_many(X[batch], Y[batch], None if w is None else w[batch])
    return model


def one_hot(y, classes):
    """Return targets (n, n_classes)."""
    return np.array([[float(label == other) for other in classes] for label in y])


def outputs_of(model):
    """Return the names of the columns of a model's weights."""
    return model.classes if hasattr(model, "classes") else getattr(model, "target_names", ("y",))


def targets_of(model, y):
    """Return what a model regresses on, (n, n_targets): one-hot labels, or the numbers."""
    if hasattr(model, "classes"):
        assert set(model.classes) == set(y)
        return one_hot(y, model.classes)
    rows = [targets if isinstance(targets, dict) else {"y": targets} for targets in y]
    return np.array([[float(row[name]) for name in outputs_of(model)] for row in rows])


def weighted_centred(X, Y, w, fit_intercept):
    """Return sqrt(w)-weighted rows and targets about their means, and the means."""
    zero = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    weights = w / w.sum() if w.any() else w
    x_mean, y_mean = (weights @ X, weights @ Y) if fit_intercept else zero
    root = np.sqrt(w)[:, None]
    return root * (X - x_mean), root * (Y - y_mean), x_mean, y_mean


def at(model, **settings):
    """Return a copy of a model with other settings."""
    twin = copy.deepcopy(model)
    twin.mutate(settings)
    return twin


def prior_of(priors, label, share):
    """Return the prior probability of a class, up to a factor, for its share of the weight."""
    if isinstance(priors, str):
        return {"learnt": share, "equal": 1.0}[priors]
    return priors.get(label, 1.0)


def assert_absent_have_priors(model, probabilities, present):
    """Assert that classes without weight have the prior that a dict gives them, or else 0."""
    labels, given = list(model.classes), model.priors if isinstance(model.priors, dict) else {}
    labels += [label for label in given if label not in labels]
    total = sum(given.get(label, 1.0) for label in labels)
    absent = np.append(~present, np.ones(len(labels) - len(present), dtype=bool))
    expected = [given.get(label, 0.0) / total for label in labels]
    assert probabilities.shape[1] == len(labels)
    np.testing.assert_allclose(
        probabilities[:, absent], np.tile(np.array(expected)[absent], (len(probabilities), 1))
    )


def shrunken_means(means, mean, root, weights, rounding=0.0):
    """Return means of classes (n_features, n_classes) shrunk towards the mean of all rows.

    One by one, from the squared distances between them: by as much as their typical distance from
    the others exceeds that of all, up to four such distances for every row. The covariance within
    classes is root'root: with a small ridge its inverse would have no digits.
    """
    _, lengths, axes = np.linalg.svd(root, full_matrices=False)

    def square(apart):
        """Return the squared Mahalanobis length of a difference."""
        return np.sum((axes @ apart / lengths) ** 2)

    pairs = itertools.permutations(range(len(weights)), 2)
    squares = {(j, k): square(means[:, j] - means[:, k]) + rounding for j, k in pairs}
    if len(weights) < 3:
        return means

    def typical(pairs):
        """Return the weighted harmonic mean of squared distances."""
        sizes = [weights[j] * weights[k] for j, k in pairs]
        with np.errstate(divide="ignore"):
            return sum(sizes) / sum(np.divide(sizes, [squares[pair] for pair in pairs]))

    shrunken, usual = means.copy(), typical([*squares])
    for k, weight in enumerate(weights):
        noise = min(typical([pair for pair in squares if pair[1] == k]) - usual, 4 * usual / weight)
        apart = means[:, k] - mean
        length = square(apart)
        if 0.0 < noise < np.inf and length:
            shrunken[:, k] -= min(1.0, noise / length) * apart
    return shrunken


def assert_is_discriminant(model, rows, columns=None, size=0.0):
    """Assert that weights and constants are the linear discriminants of these rows.

    That is by the backward residual of (S_w + D) V / n = M, for the scatter S_w within classes and
    the means M of the classes, about the mean of all rows if there is an intercept. With equal
    priors the means are shrunk.
    """
    X = rows.X.astype(np.float64)[:, list(model.feature_names if columns is None else columns)]
    Y, V = one_hot(rows.y, model.classes), model.output_weights
    weights, total = rows.w @ Y, rows.w.sum()
    present = weights > 1e-20 * total
    assert (model.intercept[~present] == (-np.inf if present.any() else 0.0)).all()
    assert not V[:, ~present].any()
    samples = [dict(zip(model.feature_names, row, strict=True)) for row in X.tolist()]
    probabilities = np.array([[*row.values()] for row in model.predict_proba_many(samples)])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    if not present.any():
        return
    assert_absent_have_priors(model, probabilities, present)
    Y, V, weights = Y[:, present], V[:, present], weights[present]
    x_mean = rows.w @ X / total if model.fit_intercept else np.zeros(X.shape[1])
    means = ((rows.w[:, None] * Y).T @ X / weights[:, None]).T
    apart = np.sqrt(rows.w)[:, None] * (X - Y @ means.T)
    D, means = model.ridge_diagonal, means - x_mean[:, None]
    within = apart.T @ apart + np.diag(D)
    whole, roots = within + (means * weights) @ means.T, np.sqrt(rows.w)[:, None]
    # What the rows, with the ridge below them, explain of the classes: in orthonormal columns.
    bases = np.linalg.svd(np.vstack([roots * (X - x_mean), np.diag(np.sqrt(D))]), False)[0]
    shares = np.linalg.norm(bases[: len(X)].T @ (roots * Y / np.sqrt(weights)), 2) ** 2
    if not D.all() or shares > 1.0 - 1e-7:
        # All but separated: as far as rounding can tell.
        return
    lost = np.sqrt(total / weights.min())
    hidden = 0.0
    if model.priors == "equal":
        # Distances are inverse to a scatter that may be all ridge.
        root = np.vstack([apart, np.diag(np.sqrt(D))]) / np.sqrt(total)
        known = means, rows.w @ X / total - x_mean, root, weights
        means = shrunken_means(*known)
        # Distances round at the size of the largest: those of classes that coincide are all error.
        rounding = 10.0 * EPS * lost**2 / (1.0 - shares)
        hidden = total * np.abs(shrunken_means(*known, rounding) - means).max(initial=0.0)
    residual = within @ V - total * means
    size = (np.linalg.norm(whole) + size) * (1.0 + np.linalg.norm(V))
    size += total * (np.linalg.norm(means) + np.linalg.norm(x_mean))
    allowed = 1e3 * EPS * (size + 1.0) * lost + hidden
    assert np.abs(residual).max(initial=0.0) <= allowed, (np.abs(residual).max(), allowed)
    labels = [label for label, is_there in zip(model.classes, present, strict=True) if is_there]
    shares = weights / total
    priors = np.array([prior_of(model.priors, *each) for each in zip(labels, shares, strict=True)])
    parts = np.array([-x_mean @ V, -0.5 * (V * means).sum(axis=0), np.log(priors / priors.sum())])
    allowed = 1e-7 * (1.0 + np.abs(parts).max()) * lost
    np.testing.assert_allclose(model.intercept[present], parts.sum(axis=0), rtol=0.0, atol=allowed)


def assert_is_batch_solution(model, rows, columns=None, size=0.0, count=None):
    """Assert that the weights solve the batch problem on these rows, by the backward residual.

    Relative to the size of its terms it is at rounding level whatever the condition number. At
    ridge 0 the weights have no part in the null space, unless rounding errors of rows that were
    taken out hide it. The model's features are columns of the rows, by number unless `columns` says
    otherwise; `size` is what rows that were taken out weighed, `count` less if some were in part.
    """
    if getattr(model, "priors", None) is not None:
        assert_is_discriminant(model, rows, columns, size)
        model = at(model, priors=None)
    assert model.count == (len(rows) if count is None else count)
    X = rows.X.astype(np.float64)[:, list(model.feature_names if columns is None else columns)]
    Y = targets_of(model, rows.y)
    A, T, x_mean, y_mean = weighted_centred(X, Y, rows.w, model.fit_intercept)
    W = model.output_weights
    assert W.shape == (X.shape[1], Y.shape[1])
    residual = A.T @ (A @ W - T) + model.ridge_diagonal[:, None] * W
    largest = max(1.0, np.abs(Y).max(initial=0.0))
    hidden = size > 0.0
    size += np.linalg.norm(A) ** 2 * max(1.0, np.linalg.norm(W))
    size += np.linalg.norm(A) * len(Y) * largest
    allowed = 1e4 * EPS * (size + 1.0)
    assert np.abs(residual).max(initial=0.0) <= allowed, (np.abs(residual).max(), allowed)
    if model.ridge_ == 0.0 and not hidden:
        # Minimum norm: W = A^+ A W.
        projected = np.linalg.pinv(A, rcond=1e-9) @ (A @ W)
        np.testing.assert_allclose(W, projected, atol=1e-7 * (1.0 + np.abs(W).max(initial=0.0)))
    if model.fit_intercept:
        constant = y_mean - x_mean @ W
        np.testing.assert_allclose(model.intercept, constant, atol=1e-10 * largest)
    else:
        assert not model.intercept.any()


def error_of_fit(model, rows):
    """Return the error of a regressor's fit, relative to the targets about their mean.

    The truth is the batch solution of the rows at the ridges of the model, with means in long
    double. The error is the length of A (W - W*), the rows of the ridge among those of A, or that
    of the error of the mean prediction.
    """
    wide = np.longdouble
    X, y, w = rows.X.astype(wide), np.array(rows.y, dtype=wide), rows.w.astype(wide)
    order = [model.feature_names.index(name) for name in range(X.shape[1])]
    W, diagonal = model.output_weights[order, 0], model.ridge_diagonal[order]
    centred = model.fit_intercept
    mean, y_mean = (w @ X / w.sum(), w @ y / w.sum()) if centred else (0.0 * X[0], wide(0.0))
    A = (X - mean) * np.sqrt(w)[:, None]
    # Constant up to a few units in the last place.
    varies = np.sqrt((A**2).sum(axis=0)) > 4.0 * EPS * np.abs(mean) * np.sqrt(w.sum())
    stacked = np.vstack([A.astype(float), np.diag(np.sqrt(diagonal))]) * varies
    sizes = np.sqrt((stacked**2).sum(axis=0))
    used, targets = sizes > 0.0, ((y - y_mean) * np.sqrt(w)).astype(float)
    expected, padded = np.zeros(len(W)), np.append(targets, np.zeros(len(W)))
    solved = np.linalg.lstsq(stacked[:, used] / sizes[used], padded, rcond=1e-12)[0]
    expected[used] = solved / sizes[used]
    whole = float(np.sqrt(w @ y**2)) or 1.0
    error = np.linalg.norm(stacked @ (W - expected)) / max(np.linalg.norm(targets), 1e-9 * whole)
    missed = float(model.intercept[0] + mean @ W - y_mean) if centred else 0.0
    return max(error, abs(missed) * float(np.sqrt(w.sum())) / whole)


def sizes_of_scores(linear, X, spread=0.0):
    """Return the sums (n, n_outputs) of the absolute products of scores, and of their constants.

    Products are about the mean of the features, which may err by `spread`.
    """
    weights, mean = linear.output_weights, linear._state.statistics.feature_mean
    weights = weights.reshape(len(mean), -1)
    constant = np.abs(np.nan_to_num(linear.intercept + mean @ weights, neginf=0.0))
    return (np.abs(X - mean) + spread) @ np.abs(weights) + constant


def own_rounding(linear, X):
    """Return the errors in float64 of a model with priors, which maps scores to discriminants."""
    if getattr(linear, "priors", None) is None:
        return 1e-30
    own = np.abs(X) @ np.abs(linear._solved().output_weights) @ np.abs(linear._rule().matrix)
    return 1e-30 + 1e-13 * own


def stored_bytes(model):
    """Return all that a saved model holds, as bytes that are not compressed."""
    archive = zipfile.ZipFile(io.BytesIO(onlinels.dumps(model)))
    return b"".join(archive.read(name) for name in archive.namelist())


def aligned_weights(model, like):
    """Return a model's weights in the order of features and outputs of another."""
    features = [model.feature_names.index(name) for name in like.feature_names]
    outputs = [outputs_of(model).index(name) for name in outputs_of(like)]
    return model.output_weights[np.ix_(features, outputs)]


def assert_same_model(a, b, count=True):
    """Assert that two models have learnt the same, feature by feature and output by output.

    Where weights agree at ridges small and large beside the rows, the sums do.
    """
    assert a.count == b.count or not count
    if getattr(a, "priors", None) is not None:
        a, b = at(a, priors=None), at(b, priors=None)
    assert set(outputs_of(a)) == set(outputs_of(b))
    assert set(a.feature_names) == set(b.feature_names)
    for ridge in (1.0, 1e3, LARGEST):
        one, other = at(a, ridge=ridge), at(b, ridge=ridge)
        expected, found = one.output_weights, aligned_weights(other, one)
        allowed = (1e-10 + 10.0 * EPS * LARGEST / ridge) * np.abs(expected).max(initial=0.0)
        allowed += 1e-10 * (1.0 + np.abs(one.intercept).max(initial=0.0)) / ridge
        np.testing.assert_allclose(found, expected, atol=allowed, rtol=0.0)
        places = [outputs_of(other).index(name) for name in outputs_of(one)]
        allowed = 1e4 * allowed + 1e-10 * np.abs(one.intercept).max(initial=0.0)
        np.testing.assert_allclose(other.intercept[places], one.intercept, atol=allowed, rtol=0.0)


def small_blocks(monkeypatch):
    """Let batches of few rows be learnt in several blocks."""
    for name, size in BLOCKS.items():
        monkeypatch.setattr(name, size)


def fitted(model, *batch, **given):
    """Let a model learn a batch, and return it."""
    model.learn_many(*batch, **given)
    return model


def fitted_by_row(model, *columns):
    """Let a model learn the rows of a batch one by one, and return it."""
    for row in zip(*columns, strict=True):
        model.learn_one(*row)
    return model


def learnt(make, rows):
    """Return a model that learnt rows as one batch."""
    return fitted(make(), rows.X, rows.y, rows.w)


def unlearn(model, rows):
    """Let a model unlearn rows, a single one by unlearn_one."""
    if len(rows) == 1:
        model.unlearn_one(rows.dicts()[0], rows.y[0], rows.w[0])
    else:
        model.unlearn_many(rows.X, rows.y, rows.w)


def outcome(call, *values):
    """Return what a call answers or refuses, to the last bit."""
    try:
        answer = call(*values)
    except ValueError as error:
        return str(error)
    # The digits of a float that are printed tell it from all others.
    return answer.tolist() if isinstance(answer, np.ndarray) else repr(answer)


STEPS = "learn one", "learn many", "unlearn", "merge", "ridge", "answer"


def step(model, make, what, one, some):
    """Change or ask a model in one of these ways, by one row or some, and return the outcome."""
    match what:
        case "merge":
            return outcome(lambda: model.merge(learnt(make, some)).count)
        case "unlearn":
            return outcome(model.unlearn_many, one.X, one.y, one.w)
        case "ridge":
            return outcome(setattr, model, "ridge", 2.0)
        case "answer":
            return outcome(model.predict_many, some.X)
        case "learn many":
            return outcome(model.learn_many, some.X, some.y, some.w)
    (x,) = one.dicts()
    answer = outcome(getattr(model, "scores_one", model.predict_one), x)
    return answer, outcome(model.learn_one, x, one.y[0], one.w[0])


def learn_in_batches(model, rows, data, ask=False, singly=False, times=None):
    """Learn rows in drawn batches, of one row perhaps by learn_one; return the model."""
    for batch in data.draw(splits(len(rows))):
        part, t = rows.take(batch), {} if times is None else {"t": times[batch]}
        if singly and len(batch) == 1 and data.draw(st.booleans()):
            t = {name: each[0] for name, each in t.items()}
            model.learn_one(part.dicts()[0], part.y[0], part.w[0], **t)
        else:
            model.learn_many(part.X, part.y, part.w, **t)
        if ask and data.draw(st.booleans()):
            model.predict_many(part.X)
    return model


def entries(values):
    """Return the entries of an array, series or list as Python values, rows of a table as dicts."""
    if isinstance(values, pd.DataFrame):
        return values.to_dict("records")
    read = (getattr(values, way, None) for way in ("to_pylist", "to_dicts", "to_list", "tolist"))
    return values if isinstance(values, list) else next(filter(None, read))()


def merged_in_any_tree(models, data):
    """Return what models merge to, two that are drawn at a time."""
    while len(models) > 1:
        right = models.pop(data.draw(st.integers(0, len(models) - 1)))
        left = models.pop(data.draw(st.integers(0, len(models) - 1)))
        models.append(left + right if data.draw(st.booleans()) else left.merge(right))
    return models[0]


def assert_refused(call, model, match, error=ValueError, dump=pickle.dumps):
    """Assert that a call raises an error and leaves no trace in a model's state."""
    before = dump(model)
    with pytest.raises(error, match=match):
        call()
    assert dump(model) == before


def assert_batches_refused(model, X, y):
    """Assert that bad batches, answered before they are learnt, leave no trace in a model."""
    broken = X.copy()
    broken[len(X) * 3 // 4].flat[1] = np.inf
    for message, *batch in (
        ("X|x|inf", broken, y),
        ("y", X, y[:-1]),
        ("y", X, [*y[:-1], None]),
        ("w", X, y, -np.ones(len(X))),
        ("w", X, y, [*np.ones(len(X) - 1), np.nan]),
        ("w has shape", X, y, [1.0, 2.0]),
    ):
        for name in ("predict_learn_many", "predict_proba_learn_many"):
            if learn := getattr(model, name, None):
                assert_refused(functools.partial(learn, *batch), model, message)


def settings_refused(kind, table):
    """Return a test of a table of bad settings."""

    @pytest.mark.parametrize(("settings", "error", "message"), table)
    def test(settings, error, message):
        with pytest.raises(error, match=message):
            kind(**settings)

    return test


def peak_of(call):
    """Return the most bytes that Python holds for a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def saved(model):
    """Return a model as bytes, which are a function of what it has learnt, to the last one."""
    return onlinels.dumps(model)


def assert_solves_weighted_ridge(W, diagonal, A, Y, w):
    """Assert (A'DA + R) W = A'DY for weights D = diag(w) and ridge R, by the backward residual.

    Relative to the size of its terms it is at rounding level, times the digits lost by what has
    grown beside the ridge.
    """
    assert W.shape == (A.shape[1], Y.shape[1])
    assert diagonal.shape == (A.shape[1],)
    residual = A.T @ (w[:, None] * (A @ W - Y)) + diagonal[:, None] * W
    squares = float(w @ (A**2).sum(axis=1))
    size = squares * np.linalg.norm(W) + np.sqrt(squares * w.sum())
    allowed = 10.0 * EPS * (1.0 + squares / diagonal.min(initial=np.inf)) * (1.0 + size)
    assert np.abs(residual).max(initial=0.0) <= allowed, (np.abs(residual).max(), allowed)


def unasked(model):
    """Return a copy of a model; of a stream's model, one for which no forecast waits."""
    model = copy.deepcopy(model)
    if isinstance(model, StreamModel):
        model._state.waiting = Waiting()
    return model


def answers_of(model, samples):
    """Return probabilities, or means and deviations, of all samples."""
    if isinstance(model, StreamClassifier):
        return model.predict_proba_many(samples)
    return [(each.mu, each.sigma) for each in model.predict_many(samples, with_dist=True)]


def learnt_late(samples, labels, late=3):
    """Return a model that has predicted every row and learnt it late; the last few rows wait."""
    model = StreamClassifier()
    for row, x in enumerate(samples):
        model.predict_one(x)
        if row >= late:
            model.learn_one(samples[row - late], labels[row - late])
    return model


def arguments_of_rows(model):
    """Return the arguments of `StreamRows` for the state of a stream model."""
    state = model._state
    state.made = None
    with mock.patch.object(stream_base, "StreamRows", lambda **named: named):
        named = state.rows
    state.made = None
    return named


def in_batch(message):
    """Return a pattern for a message about "x" that matches if "X[3]" is named instead."""
    return re.sub(r"^x(?=\\| )", r"[xX](\\[\\d\\])?", message)


def minimum_norm(A, Y, rank_tolerance=1e-9):
    """Return the minimum-norm solution, with the rank found on columns of unit length.

    A+ = N (A D N')+ by an orthonormal basis of the row space of A = (A D) D^-1, D of any scale.
    """
    lengths = np.linalg.norm(A, axis=0)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    _, singular, right = np.linalg.svd(A * scale)
    rank = int((singular > rank_tolerance * singular.max(initial=0.0)).sum())
    if not rank:
        return np.zeros((A.shape[1], Y.shape[1]))
    basis = np.linalg.qr(lengths[:, None] * right[:rank].T)[0]
    reduced = A @ basis
    size = np.linalg.norm(reduced, axis=0)
    return basis @ (np.linalg.lstsq(reduced / size, Y, rcond=None)[0] / size[:, None])
