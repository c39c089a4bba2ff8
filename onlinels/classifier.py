"""LeastSquaresClassifier: exact online least squares behind river's classifier interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinels.balance import Balance
from onlinels.checks import Floats, check_weights
from onlinels.labelled import LabelledLeastSquares
from onlinels.labels import read_label, read_labels
from onlinels.linalg.selection import Ridge
from onlinels.linear.forgetting import HalfLife
from onlinels.rows import read_batch, read_sample
from onlinels.scoring import ScoringClassifier


class LeastSquaresClassifier(LabelledLeastSquares, ScoringClassifier):
    """Classify by ridge regression on one-hot labels, learnt online and exactly.

    After any sequence of `learn_one`, `learn_many` and `merge`, the output weights equal those of
    the batch solution W = (A'A + c I)^-1 A'Y on all rows learnt (equation 3 of the paper, with
    samples as rows), in any order and however the stream was cut. There is no learning rate and
    no row is kept.

    Parameters
    ----------
    ridge : float, "auto", "paper" or KFold
        The ridge c >= 0, on all features but not on the intercept. "auto" is selected from the
        statistics alone (`onlinels.selection.gcv_ridge`), `KFold` by exact cross-validation from
        statistics in folds: when the count of rows is a power of two, from 16 on, and after
        merging and unlearning. "paper" is the heuristic (N/M)^2 min(diag(A'A)) for N classes
        and M features (sums of squares about the mean where there is an intercept). 0.0 gives the
        minimum-norm (pseudo-inverse) solution. It may be changed at any time, but not to a KFold;
        in the recursive form that costs M^3.
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
        come without); see `onlinels.decay.Clock`. The data decays, the ridge does not.
    balance : None, "classwise" or "priors"
        How rare classes get their due, at the class frequencies of now; None: as rows weigh. See
        the notes.

    Notes
    -----
    Learning n rows of M features costs ``n M^2`` operations, and the model takes about
    ``4 M^2`` bytes (``8 M^2`` up to 1,024 features).
    The weights are solved when they are first needed after learning, for ``M^3 / 3`` operations
    (10 to 20 times that when a ridge is selected). Asked for after every few rows they follow the
    rows for ``M^2`` a row and ``8 M^2`` bytes more, but not at ridge 0, with KFold or
    balance="classwise", where each solution is a new one.

    A feature that is absent from a sample counts as 0, whether it was never seen or is missing
    today. New features and new classes may come at any time; the weights are then those that
    had resulted if they had been known from the start. Order of dict keys and of frame columns
    never matters.

    On imbalanced streams the scores of a rare class are small, and it is hardly ever predicted.
    With n_k the weight of class k in the statistics, n that of all rows and K the number of
    classes with weight, two balances are exact functions of the statistics, so they hold at the
    frequencies of now, through merging, unlearning and forgetting:

    - "classwise" is the batch solution with every row's weight multiplied by n / (K n_k), ridge
      and intercept included. It keeps statistics for every class: K times the memory, and two
      more while weights are solved. Learning costs the same, but ``3 K M^2`` more come before
      each solution, and none is tracked from row to row: with 500 features and 10 classes, a row
      learnt and one predicted took 27 ms on one core, 1.7 ms without balance. "paper" and "auto"
      see the balanced statistics. It goes neither with accumulator="recursive" nor with KFold.
    - "priors" multiplies the scores of class k by n / (K n_k), that is divides them by K and by
      its prior n_k / n, for ``M K`` operations and no memory, with every accumulator. With an
      intercept the scores are (n_k / n) (1 + d_k(x)), d_k(x) = n (x - m)'(C + c I)^-1 (m_k - m)
      for the means m of all rows and m_k of the class and the co-moments C: the size of the class
      goes, m and C stay those of the frequent classes, and of two classes the border is at m.

    Take "classwise" where its memory allows: in demos/benchmarks/imbalance.py it was the best on
    held-out rows of seven data sets in nine, and never worse than no balance, which "priors" was
    on two of those with many classes. "priors" was the best on two with two classes.

    `X` may be an array (n_rows, n_features), a pandas, polars or pyarrow frame, or a list of
    dicts, and answers come in kind. A dict's values are numbers or arrays: an array under "h"
    counts as the features ("h", 0), ("h", 1), … Columns of a plain array are named 0, 1, …

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LeastSquaresClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 89.03%
    """

    def __init__(
        self,
        ridge: Ridge = "auto",
        accumulator: str = "gram",
        fit_intercept: bool = True,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
        balance: Balance = None,
    ) -> None:
        super().__init__(ridge, accumulator, fit_intercept, forgetting_factor, half_life, balance)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        y : hashable
            The label; new ones at any time.
        w : float
            Weight, at least 0: learning with weight 2 equals learning twice.
        t : number or datetime, optional
            Time of the sample, for models with a `half_life`; by default one unit passes.

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
            if type(w) is float and w == 1.0 and t is None and self._gather_labelled(x, y):
                return
            sample = read_sample(x)
            self._learn(sample, [read_label(y)], check_weights(w, 1), t)
            self._remember_names(sample.layouts[0])

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch, with the same result as learning its rows one by one.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0; 1 by default.
        t : number or datetime, or array, series or list of n_rows of them, optional
            Times of the rows, for models with a `half_life`; by default one unit passes per row.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Notes
        -----
        Whatever is raised, an interrupt from the keyboard or a lack of memory included: nothing has
        changed, or all of it has. The same holds for everything that changes the model.

        Examples
        --------
        >>> import numpy as np
        >>> model = LeastSquaresClassifier()
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
        >>> model.predict_many(np.array([[-1.0], [3.0]]))
        array(['low', 'high'], dtype='<U4')
        """
        with self._lock:
            batch = read_batch(X)
            n_rows = len(batch)
            self._learn(batch, read_labels(y, n_rows), check_weights(w, n_rows), t)

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one sample out again; see `unlearn_many`."""
        with self._lock:
            self._unlearn(read_sample(x), [read_label(y)], check_weights(w, 1))

    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Take rows out again: the model is then as if it had never seen them.

        A class leaves `classes` with the last of its rows; features stay, without effect.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels
        w : float, or array, series or list of n_rows floats, optional
            Weights as they count now: those the rows were learnt with, times what has decayed
            since. No time passes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be read, or more would be taken out than was learnt, so far as
            that shows; nothing has changed then. The orthogonal form cannot unlearn.

        Notes
        -----
        As cheap as learning. Digits are lost in proportion to how much is taken out beside what
        stays: rows that weighed 1e8 times as much as the rest leave 8 digits less.

        Examples
        --------
        >>> import numpy as np
        >>> model = LeastSquaresClassifier()
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
        >>> model.unlearn_one({0: 2.0}, "high")
        >>> model.classes, model.count
        (('low',), 2)
        """
        with self._lock:
            batch = read_batch(X)
            n_rows = len(batch)
            self._unlearn(batch, read_labels(y, n_rows), check_weights(w, n_rows))

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        batch = read_batch(X)
        return batch.source, self._scores(batch.layouts, batch.values)
