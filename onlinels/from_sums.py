"""Create models from sums that a database, Spark or a device has computed, without any rows."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np

from onlinels.accumulators.gram import GramSums
from onlinels.accumulators.mean import Mean
from onlinels.accumulators.statistics import MAX_ROWS, Statistics
from onlinels.checks import Floats, Integers, Matrix, check_made, check_values, readable
from onlinels.labels import Classes, as_list, read_label
from onlinels.linalg.fingerprints import prints_of_counts, unknown_prints
from onlinels.linalg.selection import KFold
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.rows import Columns, Name, plain_names, sorted_names

Classifier = TypeVar("Classifier", bound=LeastSquaresClassifier)
Regressor = TypeVar("Regressor", LeastSquaresRegressor, LeastSquaresMultiTargetRegressor)

MAX_SUM = 1e280
"""Largest sum of products: multiplied by a number of rows, it still fits float64."""

INEQUALITY_TOLERANCE = 1e-9
"""Relative violation of an inequality that rounding errors of sums can cause."""

CONSTANT_SHARE = 1e-13
"""Sum of squares about the mean, relative to that about the origin, that rounding can cause."""

MAX_UNEXPLAINED_SHARE = 1e-6
"""Ridge, relative to the diagonal, at which the explained squares of targets are checked."""

SUMS_REMEDY = "Compute all sums over the same rows, as sums and not as means."


def classifier_from_sums(
    model: Classifier,
    gram: Any,
    sums_by_class: Any,
    counts: Any,
    labels: Any,
    *,
    origin: Any = None,
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
    counts : array (n_classes,) of whole numbers
        The number of rows of each class, at least 1.
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
        If no rows can have these sums: shapes differ, a number is not finite, counts are not whole,
        the Gram matrix is not symmetric or is indefinite, or a Cauchy-Schwarz inequality does not
        hold. Means in place of sums are not always noticed. Also if the settings need rows
        (accumulator="orthogonal", or a KFold as ridge), or if so many digits are lost that the sums
        about the mean are indefinite; in this case, pass an origin.

    Notes
    -----
    **Precision.** With an intercept, the sums about the mean are computed from the given sums. If
    all sums are whole numbers (integers and Decimals of any size, floats up to 2^53), the
    differences are exact and rounded once. Other sums lose ``2 log10(mean / deviation)`` of their
    16 digits for each feature, with the mean measured from the origin. A feature with fewer than
    three digits left counts as constant, without a warning. Therefore pass an origin if means are
    large.

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
    _check_model(model, (LeastSquaresClassifier,))
    by_class = _numbers("sums_by_class", sums_by_class, ("n_classes", "n_features"))
    n_classes, n_features = by_class.shape
    names = _labels(labels, n_classes)
    classes = Classes().extended(names)
    if len(classes) < n_classes:
        raise ValueError(
            f"labels={names!r} holds a label twice, expected different labels. Add up the sums and "
            "the counts of each label."
        )
    n_rows = _counts("counts", _numbers("counts", counts, (n_classes,)))
    sums = Sums(
        _numbers("gram", gram, (n_features, n_features)),
        by_class.T,
        (_whole(by_class) if _is_whole(by_class) else by_class).sum(axis=0),
        np.array(n_rows),
        np.array(n_rows),
        sum(n_rows),
        _origin("origin", origin, n_features),
        np.zeros(n_classes),
    )
    news = {"_classes": classes, "_class_counts": n_rows}
    new: Classifier = _with_sums(model, sums, feature_names, np.arange(n_classes), news)
    return new


def regressor_from_sums(
    model: Regressor,
    gram: Any,
    cross: Any,
    sums: Any,
    target_sums: Any,
    target_squares: Any,
    count: int,
    *,
    origin: Any = None,
    target_origin: Any = None,
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
    count : int
        The number of rows, at least 1.
    origin, target_origin : array (n_features,) and (n_targets,) or number, optional
        Values that were subtracted from every row, and from its targets, before the sums were
        computed.
    feature_names, target_names : iterable of names, optional
        Names of features and targets, by default 0, 1, … A LeastSquaresRegressor has no target
        name.

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
    _check_model(model, (LeastSquaresRegressor, LeastSquaresMultiTargetRegressor))
    row_sums = _numbers("sums", sums, ("n_features",))
    n_features = len(row_sums)
    products = _array("cross", cross)
    if products.ndim == 1:
        products = products[:, None]
    products = _numbers("cross", products, (n_features, "n_targets"))
    n_targets = products.shape[1]
    if isinstance(model, LeastSquaresRegressor) and (n_targets != 1 or target_names is not None):
        raise ValueError(
            f"cross has {n_targets} targets and target_names={target_names!r}, expected one target "
            "without a name. Use a LeastSquaresMultiTargetRegressor for several."
        )
    given = Sums(
        _numbers("gram", gram, (n_features, n_features)),
        products,
        row_sums,
        _numbers("target_sums", np.atleast_1d(target_sums), (n_targets,)),
        _numbers("target_squares", np.atleast_1d(target_squares), (n_targets,)),
        _counts("count", _numbers("count", np.atleast_1d(count), (1,)))[0],
        _origin("origin", origin, n_features),
        _origin("target_origin", target_origin, n_targets),
    )
    order, news = np.arange(n_targets), dict[str, Any]()
    if not isinstance(model, LeastSquaresRegressor):
        names = _names("target_names", target_names, n_targets)
        order = np.array([names.index(name) for name in sorted_names(names)])
        news["_target_names"] = tuple(names[place] for place in order)
    new: Regressor = _with_sums(model, given, feature_names, order, news)
    return new


def _check_model(model: Any, kinds: tuple[type, ...]) -> None:
    check_made(model)
    if type(model) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(
            f"model is of type {type(model).__name__}, expected a {names}. For a pipeline, compute "
            "sums of the transformed features, and pass its last step."
        )
    if model.accumulator == "orthogonal" or isinstance(model.ridge, KFold):
        raise ValueError(
            f"model has accumulator={model.accumulator!r} and ridge={model.ridge!r}, expected "
            'accumulator="gram" or "recursive" and no KFold: a factor and folds need the rows. '
            "Pass a model of other settings."
        )


def _labels(labels: Any, n_classes: int) -> list[Any]:
    found = as_list(labels, "label per class", "labels")
    if len(found) != n_classes:
        raise ValueError(
            f"labels has length {len(found)} and sums_by_class has {n_classes} rows, expected a "
            "row of sums for each label. Pass one label per class, and sums_by_class of shape "
            "(n_classes, n_features)."
        )
    return [read_label(each, f"labels[{place}]") for place, each in enumerate(found)]


def _array(name: str, values: Any) -> Matrix:
    try:
        return np.asarray(readable(values))
    except ValueError as error:
        problem = f"{name} holds lists of different lengths, expected equal lengths"
        raise ValueError(f"{problem}. Pass an array.") from error


def _numbers(name: str, values: Any, shape: tuple[int | str, ...]) -> Matrix:
    """Return sums as a non-empty array of a shape; raise if a number is not finite.

    A text in the shape is the name of any size.
    """
    array = _array(name, values)
    fits = array.ndim == len(shape) and array.size > 0
    if not fits or any(n not in (m, str(n)) for n, m in zip(shape, array.shape, strict=True)):
        fault = f"has the shape {array.shape}"
        if not array.ndim:
            fault = f"is {reprlib.repr(values)} of type {type(values).__name__}"
        sizes = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        expected = f"an array of shape ({sizes})" + " without a 0" * (array.size == 0)
        raise ValueError(f"{name} {fault}, expected {expected}. Pass one.")
    convert = "int" if name in ("count", "counts") else "float"
    if array.dtype.kind not in "iufO":
        problem = f"{name} is of dtype {array.dtype}, expected numbers"
        raise TypeError(f"{problem}. Pass {convert}(value) of each.")
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"{name} holds no numbers: {error}, expected numbers"
        raise TypeError(f"{problem}. Pass {convert}(value) of each.") from error
    wrong = ~(np.abs(floats) <= MAX_SUM)  # True also for NaN.
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        remedy = "Leave rows with missing or infinite values out of all sums."
        if "origin" in name:
            remedy = "Pass finite values, such as rough means."
        raise ValueError(
            f"{name}[{', '.join(map(str, place))}] is {floats[place]}, expected a finite number up "
            f"to {MAX_SUM:g}. {remedy}"
        )
    return array


_whole: Any = np.frompyfunc(int, 1, 1)


def _is_whole(values: Matrix) -> bool:
    """Return whether all numbers are whole and not rounded."""
    if values.dtype.kind == "f":
        return bool(((values == np.floor(values)) & (np.abs(values) <= 2.0**53)).all())
    return values.dtype.kind in "iu" or bool((values == _whole(values)).all())


def _as_floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _counts(name: str, values: Matrix) -> list[int]:
    counts: list[int] = _whole(values).tolist()
    if not _is_whole(values) or min(counts) < 1 or sum(counts) > MAX_ROWS:
        if name == "count":
            got, remedy = values.item(), "Pass the number of rows."
        else:
            got, remedy = values.tolist(), "Leave out classes without rows."
        raise ValueError(
            f"{name}={got!r}, expected whole numbers of at least 1, in all at most {MAX_ROWS}. "
            f"{remedy}"
        )
    return counts


def _origin(name: str, values: Any, size: int) -> Matrix:
    if values is None:
        return np.zeros(size)
    origin = _numbers(name, np.atleast_1d(values) if size == 1 else values, (size,))
    check_values(name, _as_floats(origin))
    return origin


def _names(name: str, names: Iterable[Name] | None, size: int) -> tuple[Name, ...]:
    found = tuple(range(size)) if names is None else tuple(plain_names(names))
    if len(found) != size or len(set(found)) < size:
        raise ValueError(f"{name}={found!r}, expected {size} different names. Pass one for each.")
    return found


class Sums(NamedTuple):
    """Sums over rows about an origin, with the names of `regressor_from_sums`."""

    gram: Matrix
    cross: Matrix
    sums: Matrix
    target_sums: Matrix
    target_squares: Matrix
    n_rows: int
    origin: Matrix
    target_origin: Matrix


def _check(sums: Sums, of_classes: bool) -> None:
    """Raise ValueError if a sum, or a pair of sums, cannot belong to any rows.

    Messages have the arguments of `classifier_from_sums` if `of_classes`.
    """
    gram, cross, totals, target_sums, target_squares, *_ = (_as_floats(each) for each in sums)
    squares, count = gram.diagonal(), float(sums.n_rows)
    for name, each in (("gram", squares), ("target_squares", target_squares)):
        if (each < 0.0).any():
            place = int(each.argmin())
            raise ValueError(
                f"{name} holds the sum of squares {each[place]:g} at place {place}, expected one "
                f"of at least 0. {SUMS_REMEDY}"
            )
    roots, target_roots = np.sqrt(squares), np.sqrt(target_squares)
    bounds = np.outer(roots, roots)
    odd = np.abs(gram - gram.T) > INEQUALITY_TOLERANCE * bounds
    if odd.any():
        i, j = map(int, np.argwhere(odd)[0])
        raise ValueError(
            f"gram[{i}, {j}] is {gram[i, j]} and gram[{j}, {i}] is {gram[j, i]}, expected a "
            f"symmetric matrix. {SUMS_REMEDY}"
        )
    compared = [
        ("gram[{}, {}]", "the sums of squares in gram", gram, bounds),
        ("sums[{}]", "gram and count", totals, roots * count**0.5),
        ("target_sums[{}]", "target_squares and count", target_sums, target_roots * count**0.5),
        ("cross[{}, {}]", "gram and target_squares", cross, np.outer(roots, target_roots)),
    ]
    if of_classes:
        compared[1] = "The sum of sums_by_class[:, {}]", "gram and counts", *compared[1][2:]
        compared[3] = "sums_by_class[{1}, {0}]", "gram and counts", *compared[3][2:]
    for name, cause, each, largest in compared:
        wrong = np.abs(each) > (1.0 + INEQUALITY_TOLERANCE) * largest
        if wrong.any():
            index = tuple(np.argwhere(wrong)[0].tolist())
            raise ValueError(
                f"{name.format(*index)} is {each[index]:g}, expected at most {largest[index]:g} in "
                f"absolute value, which {cause} allow. {SUMS_REMEDY}"
            )


def _statistics(sums: Sums, is_centred: bool) -> Statistics:
    """Return statistics in the Gram form; whole numbers are rounded only once."""
    exact = all(_is_whole(np.asarray(each)) for each in sums)
    read = _whole if exact else _as_floats
    n, at, to = sums.n_rows, read(sums.origin), read(sums.target_origin)
    left, right = read(sums.sums), read(sums.target_sums)

    def moved(products: Any, x: Any, y: Any, x_origin: Any, y_origin: Any) -> Any:
        """Return sums of products about the means, or about 0."""
        if is_centred:
            return (n * products - x * y) / n
        return products + x * y_origin + x_origin * y + n * x_origin * y_origin

    gram, cross = np.empty(sums.gram.shape), np.empty(sums.cross.shape)
    for row, (products, targets) in enumerate(zip(sums.gram, sums.cross, strict=True)):
        gram[row] = moved(read(products), left[row], left, at[row], at)
        cross[row] = moved(read(targets), left[row], right, at[row], to)
    squares = _as_floats(moved(read(sums.target_squares), right, right, to, to))
    if is_centred and not exact:
        constant = gram.diagonal() <= CONSTANT_SHARE * _as_floats(sums.gram.diagonal())
        gram[constant], gram[:, constant], cross[constant] = 0.0, 0.0, 0.0
    made = Statistics(GramSums.of(gram, cross), is_centred)
    made._count, made._weight = n, float(n)
    made._target_squares = np.maximum(squares, 0.0)
    if is_centred:
        made._mean = _mean_of(np.concatenate((at, to)), np.concatenate((left, right)), n, exact)
    made._prints = unknown_prints(len(made._rounding.squares))
    if not made.is_definite():
        raise ValueError(
            f"gram is indefinite, expected sums of products of rows. {SUMS_REMEDY} If they are, "
            "large means have cost their digits: subtract an origin near the means from the rows "
            "first, and pass it as origin."
        )
    # The squared errors of any weights are at least 0.
    weights = made.solve(MAX_UNEXPLAINED_SHARE * made.diagonal)
    explained, most = made.products.explained_squares(weights), made.target_squares
    roundings = CONSTANT_SHARE * _as_floats(sums.target_squares)
    wrong = explained > (1.0 + MAX_UNEXPLAINED_SHARE) * most + roundings
    if wrong.any():
        place = int(wrong.argmax())
        raise ValueError(
            f"The sums of products with target {place} explain {explained[place]:g} of its sum of "
            f"squares about the mean, expected at most {most[place]:g}. {SUMS_REMEDY} If they are, "
            "pass an origin near the means."
        )
    return made


def _mean_of(origin: Any, totals: Any, n: int, exact: bool) -> Mean:
    """Return the mean of rows with given sums about an origin."""
    if not exact:
        return Mean(origin.astype(float), _as_floats(totals / n)).settled()
    # The part of the mean beyond float64 counts when nearly all rows are removed.
    means = [Fraction(o) + Fraction(t) / n for o, t in zip(origin, totals, strict=True)]
    first = np.array([float(mean) for mean in means])
    rest = [float(mean - Fraction(f)) for mean, f in zip(means, first, strict=True)]
    return Mean(first, np.array(rest))


def _with_sums(
    model: Any,
    sums: Sums,
    feature_names: Iterable[Name] | None,
    targets: Integers,
    news: dict[str, Any],
) -> Any:
    """Return a model that has learnt the rows, with its features in the order of `learn_many`."""
    names = _names("feature_names", feature_names, len(sums.sums))
    layout = range(len(names)) if feature_names is None else names
    columns = Columns().extended([layout])
    of_classes = isinstance(model, LeastSquaresClassifier)
    _check(sums, of_classes)
    learnt = _statistics(sums, model.fit_intercept)
    if of_classes:
        learnt._prints[:, learnt.n_features :] = prints_of_counts(np.array(sums.target_squares))
    order = np.argsort(columns.locate(layout))
    learnt = learnt.reindexed(order, targets)
    new = model.empty()
    size = learnt.n_features, learnt.n_targets
    statistics = new._statistics.grown(*size).named(columns.names)
    statistics.check_joins(learnt, *size)
    statistics.absorb(learnt, 1.0)
    new._put_in_place(statistics, _columns=columns, **news)
    return new
