"""LeastSquaresClassifier: exact online least squares behind river's classifier interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinels.accumulators.statistics import SLACK
from onlinels.checks import Floats, Integers, Matrix
from onlinels.labels import Classes, Label, read_label, read_labels
from onlinels.linalg.selection import Ridge
from onlinels.linear.discriminant import (
    Discriminant,
    Priors,
    discriminant,
    posteriors,
    read_priors,
)
from onlinels.linear.forgetting import HalfLife
from onlinels.linear.model import (
    LINEAR,
    LinearModel,
    Settings,
    Targets,
    linear_is_sound,
    read_asked,
    without,
)
from onlinels.linear.penalty import Scaling
from onlinels.linear.prequential import (
    Answers,
    answered,
    label_and_learn,
    tabulate_and_learn,
)
from onlinels.numerics import Update, apply, enlarged, product
from onlinels.rows import Batch, check_mapping, read_sample, table_like
from onlinels.saving import WHOLE, listed, made_of, savable
from onlinels.scoring import ScoringClassifier


@savable(
    {**LINEAR, "_classes": made_of(Classes), "_class_counts": listed(WHOLE)},
    lambda model: len(model._class_counts) == len(model._classes) and linear_is_sound(model),
)
class LeastSquaresClassifier(LinearModel, ScoringClassifier):
    """Classify by ridge regression on one-hot labels, learnt online and exactly.

    After any sequence of `learn_one`, `learn_many` and `merge`, the output weights equal those of
    the batch solution W = (A'A + c S)^-1 A'Y on all rows learnt (equation 3 of the paper, with
    samples as rows), in any order and however the stream was cut. There is no learning rate and
    no row is kept.

    Parameters
    ----------
    ridge : float, "auto", "paper" or KFold
        The ridge c >= 0, on all features but not on the intercept. "auto" is selected from the
        statistics alone (`onlinels.linalg.selection.select_ridge`), `KFold` by exact
        cross-validation from statistics in folds: after every row from the second to the 16th,
        then whenever the rows have grown by a sixteenth (with more than 128 features by more, up to
        doublings; with a KFold at least by a quarter); where rows are forgotten, after four times
        the rows (or the time) in which weights fall to 1/e; and after merging, unlearning, fading
        and a change of the ridge. Where fewer rows are remembered than there are features, pass a
        number or a KFold: "auto" then takes much for noise. "paper" is the heuristic
        (N/M)^2 min(diag(A'A)) for N classes and M features (sums of squares about the mean where
        there is an intercept). 0.0 gives the minimum-norm (pseudo-inverse) solution. It may be
        changed at any time, but not to a KFold; in the recursive form every change costs M^3,
        those at the counts above too.
    accumulator : "gram", "orthogonal" or "recursive"
        What is remembered of the stream: sums of products; the factor R of A = QR, which keeps the
        digits of nearly collinear features but cannot unlearn; or an inverse and the weights, for
        predicting and learning row by row. See `onlinels.GramAccumulator` and the others.
    fit_intercept : bool
        Whether every class has a constant, exact and without ridge (by means and co-moments).
    forgetting_factor : float
        Factor in (0, 1] on the weight of all rows before, with every row learnt.
    half_life : float or timedelta, optional
        Time in which weights halve, in units of the times `t` of rows (one per row where they
        come without); see `onlinels.linear.forgetting.Clock`. The data decays, the ridge does
        not.
    priors : None, "learnt", "equal" or dict
        None: the label is that of the highest least-squares score, and probabilities are the
        scores projected. Otherwise the model answers by linear discriminant analysis from the same
        statistics. The prior of a class is its share of the weight learnt ("learnt"), the same for
        all classes ("equal"), or its value in a dict {label: prior}; priors need not sum to 1, and
        a label that is not there counts as 1. "equal" also shrinks the means of classes of few
        rows, which finds a new class after a few examples; ``{}`` gives equal priors without
        shrinkage. The setting may be changed at any time. See the notes.
    scaling : "auto", "standard" or None
        What the ridge acts on, S above. None: features as they are, S = I. "standard": features
        divided by their standard deviations s_j over all rows (without an intercept by the root of
        their mean square), S = diag(s_j^2). "auto": the likelier of the two where the ridge is
        selected ("standard" in the recursive form); None elsewhere, so that a number is that
        number. See the notes.

    Notes
    -----
    For M features the model takes about ``4 M^2`` bytes (``8 M^2`` up to 1,024 features), and about
    as much again while weights are solved.

    What a row costs. To learn a row takes ``M^2`` operations; above some 500 features `learn_many`
    is the quicker way. Weights are solved when they are first asked for after learning, for
    ``M^3 / 3`` operations (10 times that, about, when a ridge is selected). Where they are asked
    for between single rows, at least once in max(4, M/16) of them, the last solution goes on
    row by row beside the sums, for ``3 M^2`` operations a row and ``8 M^2`` bytes more. It is
    made anew at multiples of max(1,024, 16 M rounded up to a power of two) rows, and whenever
    something but single rows has changed; its
    weights may differ from a solution made anew by rounding, the sums do not. It cannot go on
    with ridge="paper" or 0.0, with scaling="standard", with a forgetting_factor or half_life, with
    accumulator="orthogonal", and where features are all but collinear:
    there every answer after a row is solved anew. Where rows are predicted one by one, take
    accumulator="recursive" and a number as ridge: ``3 M^2`` operations a row, and nothing is
    solved; what forgetting adds stands in `onlinels.RecursiveAccumulator`.

    Units of features. With scaling="standard" they do not matter: multiply any feature by anything,
    and shift it where there is an intercept, and no prediction changes. It is ridge regression
    behind a scaler that had seen all rows, exactly, whatever was merged, unlearnt or forgotten:
    s_j^2 is (A'A)_jj / n, weighted and decayed like the rows. (A KFold deals rows by what is in
    them: other units, other folds.) A feature that is constant has the weight 0. Where "auto"
    selects it, the s_j are those of the rows with which the ridge was selected last; a feature that
    begins to vary later takes the s_j of its first two values. So a solution can go on from row to
    row, and no cutting of the stream changes it; `ridge_diagonal` is the ridge in force on each
    feature. An explicit "standard" follows every row, and costs a solution for every answer
    between single rows.

    A feature that is absent from a sample counts as 0, whether it was never seen or is missing
    today. Where a frame that is passed to a prediction lacks learnt columns, a warning names them.
    New features and new classes may come at any time; the weights are then those that
    had resulted if they had been known from the start. Order of dict keys and of frame columns
    never matters. Before anything is learnt `predict_one` is None and `predict_proba_one` is {},
    whatever the values of the sample: they are not read.

    Priors. The least-squares scores of a rare class are small, so by default it is hardly ever
    predicted. With `priors` the score of class k is its linear discriminant function,
    x'R^-1 m_k - m_k'R^-1 m_k / 2 + log p_k, with the mean m_k of the class, its prior p_k and the
    covariance within classes R = (S_w + c S) / n: S_w is the scatter of the rows about the means of
    their classes, n the weight of all rows. With an intercept, x and m_k are about the mean of all
    rows. Probabilities are the softmax of the scores, which is Bayes' rule for normal classes of
    one covariance. With "learnt" and ridge=0.0 they are those of scikit-learn's
    ``LinearDiscriminantAnalysis(solver="lsqr")``, after merging, unlearning and forgetting too;
    other priors in a dict change only the constants (scikit-learn also weighs R by them).
    With "equal" the means are shrunken means. The mean of n_k rows is noisy, and in many features
    the noise makes a class of few rows look farther from all others than it is, so that it is
    hardly ever predicted. Where the typical squared distance of a class from the others exceeds
    the typical one between classes, t, the excess, but at most 4 t / n_k, counts as noise, and the
    mean is shrunk towards the mean of all rows (`onlinels.linear.discriminant.shrinkage`). This
    vanishes as 1 / n_k, and changes nothing where there are two classes.
    The discriminants of K classes are the least-squares weights times a K x K matrix (Hastie, Buja
    and Tibshirani, "Penalized discriminant analysis", 1995). So no further statistics are kept, and
    a solution costs ``M K^2 + 20 K^3`` operations more. A class without weight has the score -inf.
    In a direction in which classes are separated to ten digits, 1e-10 of the scatter counts as
    scatter within classes; with ridge=0.0 and fewer rows than features this is every direction.
    Probabilities are too sure where rows are few beside the features; `CalibratedClassifier`
    calibrates them. With ``{}`` and a fixed ridge the rule is that of deep streaming linear
    discriminant analysis (Hayes and Kanan 2020).

    `X` may be an array (n_rows, n_features), a scipy.sparse matrix, a pandas, polars or pyarrow
    frame, or a list of dicts, and answers come in kind (of a sparse matrix an array). Sparse rows
    are learnt by sparse products where that is quicker, in the Gram form with a number as ridge,
    else in blocks of 64 MiB. A dict's values are numbers or arrays: an array under "h"
    counts as the features ("h", 0), ("h", 1), … Columns of a plain array are named 0, 1, …

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LeastSquaresClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 88.87%
    """

    _names_outputs = "_classes"

    def __init__(
        self,
        ridge: Ridge = "auto",
        accumulator: str = "gram",
        fit_intercept: bool = True,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
        priors: Priors = None,
        scaling: Scaling = "auto",
    ) -> None:
        self._classes = Classes()
        # Rows of every class that were learnt and not taken out again.
        self._class_counts: list[int] = []
        priors = read_priors(priors)
        settings = ridge, accumulator, fit_intercept, forgetting_factor, half_life, priors, scaling
        super().__init__(Settings(*settings))

    @property
    def priors(self) -> Any:
        """The setting of the priors, which may be changed at any time; a dict is a copy."""
        return copy.copy(self._settings.priors)

    @priors.setter
    def priors(self, priors: Priors) -> None:
        priors = read_priors(priors)
        if priors == self._settings.priors:
            return
        with self._lock:
            self._statistics.products.check_has_sums()
            solution = self._solution and self._solution._replace(rule=None)
            settings = self._settings._replace(priors=priors)
            apply(Update(state=((self, "_settings", settings), (self, "_solution", solution))))

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"ridge", "priors"}

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order of the columns of `output_weights`."""
        return self._classes.labels

    @property
    def _outputs(self) -> tuple[Label, ...]:
        return self._classes.labels

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        y : hashable
            The label; new ones at any time. None, NaN and pandas.NA count as missing: refused.
        w : float
            Weight, at least 0: learning with weight 2 equals learning twice.
        t : number or datetime, optional
            Time of the sample, for models with a `half_life`; by default one unit passes. Not used
            without a `half_life`. Datetimes without a time zone count as UTC.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> model = LeastSquaresClassifier()
        >>> model.learn_one({"age": 3.0}, "young")
        >>> model.predict_one({"age": 4.0})
        'young'
        """
        with self._lock:
            if type(w) is float and w == 1.0 and t is None:
                column, one_hot = self._classes.of_row(y)
                if column is not None:
                    counts = self._class_counts
                    counting = counts.__setitem__, column, counts[column] + 1
                    if self._learn_row(x, one_hot, counting):
                        return
            self._learn_sample(x, self._read_targets(y, None), w, t)

    def _read_targets(self, y: Any, n_rows: int | None) -> Targets:
        labels = [read_label(y)] if n_rows is None else read_labels(y, n_rows)
        classes = self._classes.extended(labels)
        return Targets(classes.columns(labels), classes)

    def _counts(self, targets: Matrix, n_targets: int) -> dict[str, Any]:
        counts = self._counts_of(n_targets) + np.bincount(targets, minlength=n_targets)
        return {"_class_counts": counts.tolist()}

    def _counts_of(self, n_classes: int) -> Integers:
        """Return the rows of every class, 0 of those that are not known yet, as a new array."""
        return enlarged(np.array(self._class_counts, dtype=np.int64), n_classes)

    def _unlearn(self, batch: Batch, read: Targets, w: float | Floats) -> None:
        targets, classes = read
        unknown = classes.labels[len(self.classes) :]
        if unknown:
            raise ValueError(
                f"y holds {unknown[0]!r}, expected labels that were learnt. "
                "Take out only rows that are in."
            )
        removed = np.bincount(targets, minlength=len(self.classes))
        counts = self._counts_of(len(self.classes)) - removed
        if (counts < 0).any():
            column = int((counts < 0).argmax())
            raise ValueError(
                f"y holds {self.classes[column]!r} {removed[column]} times, expected at most the "
                f"{self._class_counts[column]} rows learnt. Take out only rows that are in."
            )
        left = without(self, batch, targets, w)
        # What was taken out with less weight than it had stays, and so does its class.
        kept = np.flatnonzero((counts > 0) | (left.held_targets(SLACK) > 0.0))
        classes = Classes().extended(self.classes[column] for column in kept)
        news = {"_classes": classes, "_class_counts": counts[kept].tolist()}
        self._put_in_place(left.reindexed(np.arange(left.n_features), kept), **news)

    def _matched(self, other: Self) -> tuple[Integers, dict[str, Any]]:
        classes = self._classes.extended(other.classes)
        places = classes.columns(other.classes)
        counts = self._counts_of(len(classes))
        counts[places] += other._counts_of(len(other.classes))
        return places, {"_classes": classes, "_class_counts": counts.tolist()}

    def _target_of(self, read: Targets, row: int) -> Label:
        return read.outputs.labels[read.values[row]]

    def _rule(self) -> Discriminant:
        """Return what makes discriminant scores of least-squares scores, as of now."""
        solution, statistics = self._solved(), self._statistics
        if solution.rule is None:
            explained = statistics.products.explained_products(solution.output_weights)
            known = (
                statistics.held_targets(),
                statistics.target_mean,
                self._settings.priors,
                self.classes,
            )
            solution = solution._replace(rule=discriminant(explained, *known))
            self._solution = solution
        assert solution.rule is not None
        return solution.rule

    def _weights(self) -> tuple[Floats, Floats]:
        weights, intercept = super()._weights()
        if self._settings.priors is None:
            return weights, intercept
        rule = self._rule()
        return product(weights, rule.matrix), rule.scores(intercept)

    def _answers(self, outputs: Floats) -> Floats:
        return outputs if self._settings.priors is None else self._rule().scores(outputs)

    def _probabilities(self, scores: Floats) -> Floats:
        return (
            super()._probabilities(scores) if self._settings.priors is None else posteriors(scores)
        )

    def _independent(self) -> Self:
        new = super()._independent()
        vars(new)["_class_counts"] = list(self._class_counts)
        return new

    def _answered(self, X: Any, y: Any, w: Any, t: Any = None) -> Answers:
        """Return the scores of rows before each is learnt, and a model that has learnt them."""
        with self._lock:
            return answered(self, X, y, w, t)

    def predict_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train: the
        result is that of `predict_one` and `learn_one` for one row after the other, at the speed of
        a batch. The errors are the recursive residuals of the stream.

        Parameters
        ----------
        X, y, w, t
            As `learn_many` reads them.

        Returns
        -------
        array, series or list of n_rows labels
            In the kind of `X`. None for a row before which nothing was learnt.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Notes
        -----
        In blocks of 32 or 64 rows, ``3 M^2`` operations a row for M features, by matrix products:
        with accumulator="recursive", and in the Gram form wherever the last solution goes on from
        row to row (see the notes of the class). Blocks end where the ridge is selected and before a
        new class; where few rows are known, these are often. With ridge="paper" or 0.0,
        scaling="standard", accumulator="orthogonal", or forgetting in the Gram form, every answer
        is solved anew, and the call costs what the loop costs.

        References
        ----------
        A. P. Dawid, "Present position and potential developments: some personal views. Statistical
        theory: the prequential approach" (1984).

        Examples
        --------
        >>> model = LeastSquaresClassifier(ridge=1.0)
        >>> model.predict_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], ["low", "high", "high"])
        [None, 'low', 'high']
        """
        with self._lock:
            return label_and_learn(self, X, y, w, t)

    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Return the probabilities of every row before it is learnt, then learn it.

        See `predict_learn_many`.

        Returns
        -------
        table (n_rows, n_classes)
            In the kind of `X`, with a column for each class that is known after the batch: 0 in
            rows before the first row of the class. Dicts hold the classes that were known.

        Examples
        --------
        >>> model = LeastSquaresClassifier(ridge=1.0)
        >>> model.predict_proba_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], list("xyy"))[:2]
        [{}, {'x': 1.0}]
        """
        with self._lock:
            return tabulate_and_learn(self, X, y, w, t)

    def variance_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the variance of the score of every class for one sample; see `variance_many`."""
        with self._lock:
            if self._is_blank:
                check_mapping(x)
                return {}
            variances = self._variances(read_sample(x), own=0.0)[0].tolist()
            return dict(zip(self.classes, variances, strict=True))

    def variance_many(self, X: Any) -> Any:
        """Return the variances of the scores, a column per class, in the kind of `X`.

        The score of class k has the variance s_k^2 x'(A'A + c I)^-1 x, the intercept's part
        included, where s_k^2 = RSS_k / (n - p) is the residual sum of squares over the total
        weight of the rows minus the effective number of parameters. It says how far the score may
        be from its limit for infinitely many rows; to a row's label, 0 or 1, it is s_k
        more.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts

        Returns
        -------
        table (n_rows, n_classes)
            Squared units of a score; infinite as long as n is not above p.

        Raises
        ------
        ValueError
            If the model has priors: those scores are no least-squares scores.

        Notes
        -----
        ``M^2`` operations a row, once the covariance is there: about ``M^3`` after learning, a
        single row too, and another ``8 M^2`` bytes. Weights count as numbers of rows, and the ridge
        as knowledge about the weights; see `LeastSquaresRegressor.predict_one`.

        References
        ----------
        C. M. Bishop, "Pattern Recognition and Machine Learning", 2006, equation 3.59.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0], [3.0]]), list("aabb"))
        >>> model.variance_many(np.array([[1.5], [9.0]])).round(3)
        array([[0.025, 0.025],
               [1.15 , 1.15 ]])
        """
        with self._lock:
            batch = read_asked(self, X)
            return table_like(batch.source, self.classes, self._variances(batch, own=0.0))

    def _variances(self, batch: Batch, own: float) -> Floats:
        if self._settings.priors is not None:
            raise ValueError(
                f"priors={self.priors!r}, expected None for variances: they are those of "
                "least-squares scores. Set priors=None first."
            )
        return super()._variances(batch, own)
