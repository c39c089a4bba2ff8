"""Least squares on labels: classes come with their first row and go with their last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.ledger import lengthened
from onlinels.balance import Balance, balancing_factors
from onlinels.checks import Floats, Integers, Matrix
from onlinels.commit import Commit
from onlinels.facade import LeastSquaresFacade
from onlinels.labels import Classes, Label
from onlinels.linalg.selection import Ridge
from onlinels.linear.forgetting import HalfLife
from onlinels.rows import Batch, read_batch, read_sample, table_like
from onlinels.solution import Solution


class LabelledLeastSquares(LeastSquaresFacade):
    """Linear least squares on one-hot labels, a column per class.

    Every class is counted in rows, so that it can leave when the last of them is taken out.
    """

    def __init__(
        self,
        ridge: Ridge,
        accumulator: str,
        fit_intercept: bool,
        forgetting_factor: float,
        half_life: HalfLife,
        balance: Balance,
    ) -> None:
        super().__init__(ridge, accumulator, fit_intercept, forgetting_factor, half_life, balance)
        self.balance = balance
        self._classes = Classes()
        self._class_counts = np.zeros(0, dtype=np.int64)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order of the columns of `output_weights`."""
        return self._classes.labels

    @property
    def _outputs(self) -> tuple[Label, ...]:
        return self.classes

    def _corrected(self, output_weights: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        if self.balance != "priors":
            return output_weights, intercept
        factors = balancing_factors(self._statistics._held_squares)
        return output_weights * factors, intercept * factors

    def _uncorrected(self, solution: Solution) -> Floats:
        if self.balance != "priors":
            return solution.output_weights
        return self._statistics.solve(solution.ridge)

    def variance_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the variance of the score of every class for one sample; see `variance_many`."""
        with self._lock:
            row = read_sample(x)
            variances = self._score_variances(row)[0].tolist()
            return dict(zip(self.classes, variances, strict=True))

    def variance_many(self, X: Any) -> Any:
        """Return the variances of the scores, a column per class, in the kind of `X`.

        The score of class k has the variance s_k^2 x'(A'A + c I)^-1 x, the intercept's part
        included, where s_k^2 = RSS_k / (n - p) is the residual sum of squares over the total
        weight of the rows minus the effective number of parameters. It says how far the score may
        be from the one that rows without end would give; to a row's label, 0 or 1, it is s_k
        more. With balance="priors" it is that of the scaled score.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts

        Returns
        -------
        table (n_rows, n_classes)
            Squared units of a score; infinite as long as n is not above p.

        Notes
        -----
        ``M^2`` operations a row, once the covariance is there: ``M^3`` after learning, and another
        ``8 M^2`` bytes. Weights count as numbers of rows, and the ridge as knowledge about the
        weights; see `LeastSquaresRegressor.predict_one`.

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
            batch = read_batch(X)
            return table_like(batch.source, self.classes, self._score_variances(batch))

    def _score_variances(self, batch: Batch) -> Floats:
        rows = self._split(batch.layouts, batch.values)
        variances = self._known_spread().score_variances(*rows)
        if self.balance == "priors" and np.isfinite(variances).all():
            factors = balancing_factors(self._statistics._held_squares)
            with np.errstate(over="ignore"):  # Beyond float64 they are infinite.
                variances = variances * factors * factors
        return variances

    def _scores_at_hand(self, row: Floats) -> Floats | None:
        return None if self.balance == "priors" else super()._scores_at_hand(row)

    def _gather_labelled(self, x: Any, y: Any) -> bool:
        """Gather a sample of a known class; tell whether it could be."""
        column = self._classes.column(y)
        return column is not None and self._gather(x, column)

    def _learn(self, batch: Batch, labels: list[Label], w: float | Floats, t: Any) -> None:
        columns, classes = self._columns.extended(batch.layouts), self._classes.extended(labels)
        targets = classes.columns(labels)
        self._learn_rows(columns, batch, targets, w, t, _classes=classes)

    def _unlearn(self, batch: Batch, labels: list[Label], w: float | Floats) -> None:
        self._take_in()
        self._unlearn_rows(batch, self._columns_to_take_from(labels), w)

    def _columns_to_take_from(self, labels: list[Label]) -> Integers:
        known = set(self.classes)
        unknown = [label for label in labels if label not in known]
        if unknown:
            raise ValueError(
                f"y holds {unknown[0]!r}, expected labels that were learnt. "
                "Take out only rows that are in."
            )
        targets = self._classes.columns(labels)
        removed = np.bincount(targets, minlength=len(known))
        if (removed > self._class_counts).any():
            column = int((removed > self._class_counts).argmax())
            raise ValueError(
                f"y holds {self.classes[column]!r} {removed[column]} times, expected at most the "
                f"{self._class_counts[column]} rows learnt. Take out only rows that are in."
            )
        return targets

    def _counts_after(self, targets: Matrix, sign: int) -> dict[str, Any]:
        added = sign * np.bincount(targets, minlength=len(self._class_counts))
        return {"_class_counts": lengthened(self._class_counts, len(added)) + added}

    def _plan_count(self, target: Any, commit: Commit) -> bool:
        counts = self._class_counts
        if target < len(counts):
            commit.then(counts.__setitem__, target, counts[target] + 1)
        return bool(target < len(counts))

    def _outputs_left(self, sums: Accumulator, targets: Matrix, commit: Commit) -> dict[str, Any]:
        counts = self._counts_after(targets, -1)["_class_counts"]
        # What was taken out with less weight than it had stays, and so does its class.
        kept = np.flatnonzero((counts > 0) | ~sums._weightless)
        if len(kept) == len(counts):
            return {"_class_counts": counts}
        sums.plan_choice(kept, commit)
        classes = Classes().extended(self.classes[column] for column in kept)
        return {"_class_counts": counts[kept], "_classes": classes}

    def _merge(self, other: Self) -> None:
        self._take_in()
        other._take_in()
        columns = self._columns.extended(other._columns.layouts())
        classes = self._classes.extended(other.classes)
        places = classes.columns(other.classes)
        counts = np.zeros(len(classes), dtype=np.int64)
        counts[: len(self._class_counts)] = self._class_counts
        counts[places] += other._class_counts
        self._merge_rows(other, columns, places, _classes=classes, _class_counts=counts)
