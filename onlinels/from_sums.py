"""Create models from sums that a database, Spark or a device has computed, without any rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from onlinels.checks import (
    MAX_COUNT,
    Floats,
    Integers,
    check_values,
    ignoring,
    readable,
    refusal,
    wrong_type,
)
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import LinearModel
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.linear.ridge import KFold
from onlinels.rows.batch import Columns, Name, plain_names, sorted_names
from onlinels.rows.labels import Classes, as_list, read_label
from onlinels.sums.audit import check_sum
from onlinels.sums.axes import Places, reindexed
from onlinels.sums.forms import GramSums
from onlinels.sums.removals import Prints, prints_of_counts, unknown_prints
from onlinels.sums.rows import Mean
from onlinels.sums.statistics import RowSums, Statistics
from onlinels.sums.subsets import Subsets

__all__ = ["classifier_from_sums", "regressor_from_sums"]

Model = TypeVar("Model", bound=LinearModel)
Classifier = TypeVar("Classifier", bound=LeastSquaresClassifier)
Regressor = TypeVar("Regressor", LeastSquaresRegressor, LeastSquaresMultiTargetRegressor)

MAX_SUM = 1e280
"""Largest sum of products: multiplied by a number of rows, it still fits float64."""

SYMMETRY_TOLERANCE = 1e-9
"""Relative difference of two entries of a symmetric matrix that rounding errors can cause."""

CONSTANT_SHARE = 1e-13
"""Sum of squares about the mean, relative to that about the origin, that rounding can cause."""

CHECKED_RIDGE = 1e-6
"""Ridge, relative to the diagonal, at which sums about the mean are factored to check them."""

SUMS_REMEDY = "Compute all sums over the same rows, as sums and not as means."

ORIGIN_REMEDY = (
    f"{SUMS_REMEDY} If they are, large means have cost their digits: subtract an origin near the "
    "means from the rows first, and pass it as origin."
)


def classifier_from_sums(
    model: Classifier,
    gram: Any,
    sums_by_class: Any,
    counts: Any,
    labels: Any,
    origin: Any = None,
    *,
    feature_names: Iterable[Name] | None = None,
) -> Classifier:
    """Return a classifier that has learnt the rows whose sums are given.

    At the same ridge, the classifier equals one that has learnt the rows by `learn_many`: it can
    predict, learn more rows, merge, unlearn and be saved. The sums must leave out rows with missing
    values: a database counts such a row, but does not add its missing value.

    Parameters
    ----------
    model : LeastSquaresClassifier
        The settings of the new classifier. The model does not change.
    gram : array (n_features, n_features)
        The sums of products ``sum x_i x_j`` over all rows x.
    sums_by_class : array (n_classes, n_features)
        The sum of the rows of each class.
    counts : array (n_classes,)
        The number of rows of each class, or their total weight if the sums are weighted, above 0.
    labels : sequence of n_classes labels
        The labels of the classes, all different.
    origin : array (n_features,), optional
        Values that were subtracted from every row before the sums were computed, such as rough
        means. By default 0.
    feature_names : iterable of n_features names, optional
        Names of the features, by default 0, 1, … as for the columns of an array.

    Returns
    -------
    LeastSquaresClassifier
        A new classifier with the settings of `model`.

    Raises
    ------
    TypeError, ValueError
        If no rows can have these sums: shapes differ, a number is not finite, the Gram matrix is
        not symmetric, or sums about the mean are indefinite. Means in place of sums are not always
        noticed. Also if the settings need rows (accumulator="orthogonal", or a KFold as ridge), or
        if so many digits are lost that the sums about the mean are indefinite; in this case, pass
        an origin.

    Notes
    -----
    **Precision.** The sums about the mean are computed from the given sums. This loses
    ``2 log10(mean / deviation)`` of their 16 digits for each feature, with the mean measured from
    the origin. A feature with fewer than three digits left counts as constant, without a warning.
    Therefore pass an origin if means are large.

    **Ridge.** With ridge="auto" the ridge is selected from all rows when weights are first needed.
    A model that learns the rows may have selected its ridge at a smaller number of rows; `merge`
    selects it again.

    **Cost.** ``M^3 / 3`` operations for M features, to check that the Gram matrix is not
    indefinite.

    Examples
    --------
    >>> X, y = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 3.0]]), np.array(["a", "a", "b"])
    >>> sums = [X[y == label].sum(axis=0) for label in ("a", "b")]
    >>> model = classifier_from_sums(LeastSquaresClassifier(1.0), X.T @ X, sums, [2, 1], ["a", "b"])
    >>> model.count, model.predict_one({0: 1.0, 1: 1.0})
    (3, 'a')
    """
    check_takes_sums(model, (LeastSquaresClassifier,))
    found = as_list(labels, "label per class", "labels")
    names = [read_label(each, f"labels[{place}]") for place, each in enumerate(found)]
    classes, n_classes = Classes().extended(names), len(names)
    if len(classes) < n_classes:
        remedy = "Add up the sums and the counts of each label."
        raise refusal(f"labels={names!r}", "holds a label twice", "different labels", remedy)
    by_class = _numbers("sums_by_class", sums_by_class, (n_classes, "n_features"))
    counts, none = _counts("counts", counts, n_classes), np.zeros(n_classes)
    # Targets are 0 and 1: their sums and their squares are the weights of the classes.
    sums = RowSums(
        gram, by_class.T, by_class.sum(axis=0), counts, counts, counts.sum(), origin, none
    )
    n_rows = np.maximum(np.rint(counts), 1.0).astype(np.int64)
    news = {"outputs": classes, "counts": n_rows.astype(np.float64)}
    prints, order = prints_of_counts(n_rows), np.arange(n_classes)
    return _with_sums(model, sums, n_rows.sum(), feature_names, prints, order, news)


def regressor_from_sums(
    model: Regressor,
    gram: Any,
    cross: Any,
    sums: Any,
    target_sums: Any,
    target_squares: Any,
    count: float,
    origin: Any = None,
    target_origin: Any = None,
    *,
    feature_names: Iterable[Name] | None = None,
    target_names: Iterable[Name] | None = None,
) -> Regressor:
    """Return a regressor that has learnt the rows whose sums are given.

    Parameters
    ----------
    model : LeastSquaresRegressor or LeastSquaresMultiTargetRegressor
        The settings of the new regressor. The model does not change.
    gram : array (n_features, n_features)
        The sums of products ``sum x_i x_j`` over all rows x.
    cross : array (n_features, n_targets), or (n_features,) for one target
        The sums of products ``sum x_i y_k`` with the targets y.
    sums : array (n_features,)
        The sum of the rows.
    target_sums, target_squares : array (n_targets,), or number
        The sums ``sum y_k`` and ``sum y_k^2`` of the targets.
    count : float
        The number of rows, or their total weight if the sums are weighted, above 0.
    origin, target_origin : array (n_features,) and (n_targets,) or number, optional
        Values that were subtracted from every row, and from its targets, before the sums were
        computed.
    feature_names, target_names : iterable of names, optional
        Names of features and targets, by default 0, 1, … Names of targets are for a
        LeastSquaresMultiTargetRegressor.

    Returns
    -------
    LeastSquaresRegressor or LeastSquaresMultiTargetRegressor
        A new regressor with the settings of `model`.

    Raises
    ------
    TypeError, ValueError
        Under the conditions of `classifier_from_sums`.

    Notes
    -----
    The precision and the cost are those of `classifier_from_sums`.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    >>> sums = X.T @ X, X.T @ y, X.sum(axis=0), y.sum(), y @ y, len(y)
    >>> regressor_from_sums(LeastSquaresRegressor(ridge=0.0), *sums).output_weights.round(9)
    array([[2.]])
    """
    check_takes_sums(model, (LeastSquaresRegressor, LeastSquaresMultiTargetRegressor))
    row_sums = _numbers("sums", sums, ("n_features",))
    size = 1 if model._known_names else "n_targets"
    products = _numbers("cross", cross, (len(row_sums), size))
    n_targets, total = products.shape[1], _counts("count", count, 1)[0]
    target_sums = _numbers("target_sums", target_sums, (n_targets,))
    squares = _numbers("target_squares", target_squares, (n_targets,))
    given = RowSums(gram, products, row_sums, target_sums, squares, total, origin, target_origin)
    names: Any = model._known_names or _names("target_names", target_names, n_targets)
    outputs: Any = model._known_names or tuple(sorted_names(names))
    news, order = {"outputs": outputs}, np.array([names.index(name) for name in outputs])
    prints, n_rows = unknown_prints(n_targets), max(1, round(total))
    return _with_sums(model, given, n_rows, feature_names, prints, order, news)


def check_takes_sums(model: Any, kinds: tuple[type, ...]) -> None:
    """Raise unless a model is of one of these kinds, with settings for which sums suffice."""
    # Not isinstance: river's pipelines count as instances of the class of their last step.
    if not issubclass(type(model), kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        remedy = "For a pipeline, compute sums of the transformed features, and pass its last step."
        raise wrong_type("model", model, f"a {names}", remedy)
    if model.accumulator == "orthogonal" or isinstance(model.ridge, KFold):
        found = f"has accumulator={model.accumulator!r} and ridge={model.ridge!r}"
        expected = 'accumulator="gram" or "recursive" and no KFold'
        raise refusal("model", found, expected, "A factor and folds need the rows themselves.")


def _numbers(name: str, values: Any, shape: tuple[int | str, ...]) -> Floats:
    """Return sums as a non-empty float64 array of a shape; raise if a number is not finite.

    A text in the shape is the name of any size. The last dimension may be missing if it is 1.
    """
    try:
        array = np.asarray(readable(values)).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "Pass float(value) of each."
        raise TypeError(f"{name} is not an array of numbers: {error}. {remedy}") from error
    array = array[..., None] if array.ndim < len(shape) else array
    fits = array.ndim == len(shape) and array.size > 0
    if not fits or any(n not in (m, str(n)) for n, m in zip(shape, array.shape, strict=True)):
        sizes = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        expected = f"a shape ({sizes}) without a 0"
        raise refusal(name, f"has the shape {array.shape}", expected, "Pass such an array.")
    wrong = ~(np.abs(array) <= MAX_SUM)  # True also for NaN.
    if wrong.any():
        at, value = np.argwhere(wrong)[0].tolist(), array[wrong][0]
        remedy = "Leave rows with missing or infinite values out of all sums."
        raise refusal(f"{name}{at}", f"is {value}", f"a finite number up to {MAX_SUM:g}", remedy)
    return array


def _counts(name: str, values: Any, size: int) -> Floats:
    counts = _numbers(name, values, (size,))
    if not counts.min() > 0.0 or counts.sum() > MAX_COUNT:
        expected = f"numbers above 0, in all at most {float(MAX_COUNT):g}"
        remedy = "Leave out classes without rows, and pass the numbers of rows."
        raise ValueError(f"{name}={counts.tolist()!r}, expected {expected}. {remedy}")
    return counts


def _origin(name: str, values: Any, size: int) -> Floats:
    origin = _numbers(name, np.zeros(size) if values is None else values, (size,))
    check_values(name, origin)
    return origin


def _names(name: str, names: Iterable[Name] | None, size: int) -> range | tuple[Name, ...]:
    if isinstance(names, str):
        raise wrong_type(name, names, f"{size} names", "Pass a list of them.")
    found: range | tuple[Name, ...] = range(size) if names is None else plain_names(names)
    if len(found) != size or len(set(found)) < size:
        raise refusal(name, f"is {found!r}", f"{size} different names", "Pass one for each.")
    return found


def _about_means(sums: RowSums) -> tuple[Floats, Floats, Floats]:
    """Return A'A, A'Y and squares of targets about the means; raise if no rows have them."""
    n, totals, target_totals = sums.weight, sums.sums, sums.target_sums
    raw = sums.gram.diagonal()
    # Differences of products are exact for whole numbers below 2^53.
    gram = (n * sums.gram - np.outer(totals, totals)) / n
    cross = (n * sums.cross - np.outer(totals, target_totals)) / n
    squares = (n * sums.target_squares - target_totals**2) / n
    roots = np.sqrt(np.abs(raw))
    if (np.abs(gram - gram.T) > SYMMETRY_TOLERANCE * np.outer(roots, roots)).any():
        raise refusal("gram", "is not symmetric", "a symmetric matrix", SUMS_REMEDY)
    constant = np.abs(gram.diagonal()) <= CONSTANT_SHARE * raw
    gram[constant], gram[:, constant], cross[constant] = 0.0, 0.0, 0.0
    spare = CONSTANT_SHARE * np.abs(sums.target_squares)
    check_products(gram, cross, squares, CHECKED_RIDGE, spare)
    return gram, cross, np.maximum(squares, 0.0)


@ignoring("over", "invalid")
def check_products(
    gram: Floats, cross: Floats, squares: Floats, ridge: float, spare: Floats | float = 0.0
) -> None:
    """Raise ValueError if no rows have these sums of products, up to a relative ridge.

    One Cholesky factor shows that no combination of features has a negative sum of squares, and
    that the features explain no more than the squares of each target, which may lack `spare`.
    """
    sizes = np.where(gram.diagonal() == 0.0, 1.0, np.sqrt(np.abs(gram.diagonal())))
    scaled = gram / sizes / sizes[:, None] + ridge * np.eye(len(sizes))
    factor, n_failed = dpotrf(scaled, lower=True, overwrite_a=True)
    if n_failed or (gram.diagonal() < 0.0).any():
        raise refusal("gram", "is indefinite", "sums of products of rows", ORIGIN_REMEDY)
    explained = (solve_triangular(factor, cross / sizes[:, None], lower=True) ** 2).sum(axis=0)
    most = (1.0 + ridge) * squares + spare
    if not (explained <= most).all():
        place = int((~(explained <= most)).argmax())
        found = f"explain {explained[place]:g} of its sum of squares about the mean"
        expected = f"at most {most[place]:g}"
        raise refusal(f"The sums with target {place}", found, expected, ORIGIN_REMEDY)


def _with_sums(
    model: Model,
    given: RowSums,
    n_rows: int,
    feature_names: Iterable[Name] | None,
    target_prints: Prints,
    targets: Integers,
    news: dict[str, Any],
) -> Model:
    """Return a model that has learnt the rows, with its features in the order of `learn_many`.

    The Gram matrix and the origins are as they were passed, and are checked here.
    """
    n_features, n_targets = given.cross.shape
    gram = _numbers("gram", given.gram, (n_features, n_features))
    origin = _origin("origin", given.origin, n_features)
    target_origin = _origin("target_origin", given.target_origin, n_targets)
    layout = _names("feature_names", feature_names, n_features)
    columns, n = Columns().extended([layout]), float(given.weight)
    gram, cross, squares = _about_means(given._replace(gram=gram))
    totals = np.concatenate((given.sums, given.target_sums))
    mean = Mean(np.concatenate((origin, target_origin)), totals / n).settled()
    if not model.fit_intercept:
        at, to = np.split(mean.value, [n_features])
        gram, cross = gram + n * np.outer(at, at), cross + n * np.outer(at, to)
        squares = squares + n * to**2
    learnt = Statistics.empty(GramSums.of(gram, cross), model.fit_intercept).changed(
        tally=np.array([n_rows, n, n]),
        squares_of_targets=squares,
        mean=mean if model.fit_intercept else None,
        prints=np.hstack((unknown_prints(n_features), target_prints)),
    )
    places = Places(np.argsort(columns.locate(layout)), targets, n_features)
    return learnt_model(model, reindexed(learnt, places), columns, news)


def learnt_model(model: Model, learnt: Statistics, columns: Columns, news: dict[str, Any]) -> Model:
    """Return a model with the settings of another one that has learnt rows of these statistics."""
    new = model.empty()
    new._state.settings.check_feature_count(columns.names, 0)
    new._state.subsets.check_fits(*learnt.shape)
    check_sum(new._state.statistics, learnt)
    new._state = new._state.with_sums(Subsets(learnt), columns=columns, **news)
    return new
