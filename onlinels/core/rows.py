"""Single rows in numpy, where no compiler was: what recursion.h and _core.c do with a row.

Functions have the names of those in C, where equations and sources stand; `learning` is `learn`
there. Those that change arrays there return planned changes here (`onlinels.core.apply`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import ddot, dgemm, dsyrk

from onlinels.core.apply import Call, apply
from onlinels.core.constants import (
    BEGAN,
    CONSTANT_TOLERANCE,
    DUE_WEIGHT,
    EPS,
    FOLLOW,
    IS_KNOWN,
    MAX_SQUARES,
    MIN_ROWS_DWARFED,
    MUCH_HEAVIER,
    MUCH_LARGER,
    N_CHOICE,
    NEXT_DUE,
    PREDICTED_AT,
    ROWS_BETWEEN_ORIGINS,
    SCALE,
    SHARE,
    UNSOLVED,
    VALID_UNTIL,
)
from onlinels.core.reference import Numbers, absorb, is_weight_due, leverage_of, prints_of_row


class SumsOfRows:
    """The arrays of statistics, into which rows are learnt."""

    def __init__(self, statistics: Any) -> None:
        self.tally, self.prints = statistics.tally, statistics.prints
        self.target_squares = statistics.squares_of_targets
        self.m = len(self.prints[0]) - len(self.target_squares)
        self.is_centred = statistics.mean is not None
        nowhere = np.zeros(len(self.prints[0]))
        self.origin: Numbers
        self.offset: Numbers
        self.origin, self.offset = statistics.mean or (nowhere, nowhere)
        arrays: Any = statistics.products.row_arrays() or (None,)
        self.cross: Any = arrays[0]
        self.panels = list(zip(arrays[1::2], arrays[2::2], strict=True))
        self.diagonals = [corner.diagonal() for _, corner in self.panels]

    def centre(self, values: Numbers) -> Numbers:
        """Return z and v of a row with its targets."""
        about: Numbers = values - self.origin
        about -= self.offset
        return about

    def dwarfs(self, about: Numbers, w: float, decay: float) -> bool:
        """Return whether a row dwarfs the sums in some column that varies."""
        weight, mean = float(self.tally[1]), self.origin + self.offset
        squares = np.concatenate((*self.diagonals, self.target_squares))
        varies = squares > CONSTANT_TOLERANCE**2 * weight * mean**2
        is_larger = w * about**2 > MUCH_LARGER * squares
        are_many = weight >= MIN_ROWS_DWARFED and decay >= EPS
        return are_many and bool((is_larger & varies).any())

    def weight_of(self, w: float, decay: float) -> float:
        """Return the weight of z z' in A'A."""
        past = float(self.tally[1]) * decay
        return past * (w / (past + w)) if self.is_centred else w

    def add_products(self, about: Numbers, w: float, decay: float) -> list[Call]:
        """Return the changes of A'A, A'Y and the squares of targets."""
        z, v, squares, start = about[None, : self.m], about[None, self.m :], self.target_squares, 0
        # Arguments by position take half the time of arguments by name; some are defaults.
        calls: list[Call] = [
            (dgemm, w, z, v, decay, self.cross, 1, 0, 1),
            (squares.__setitem__, ..., decay * squares + w * v[0] ** 2),
        ]
        for above, corner in self.panels:
            own = z[:, start : start + len(corner)]
            calls.append((dsyrk, w, own, decay, corner, 1, 0, 1))
            if start:
                calls.append((dgemm, w, z[:, :start], own, decay, above, 1, 0, 1))
            start += len(corner)
        return calls

    def fade(self, about: Numbers, decay: float) -> list[Call]:
        """Return the changes of sums that decay by a row that is not added."""
        decays = (np.multiply, self.tally, np.array([1.0, decay, decay**2]), self.tally)
        return [*self.add_products(about, 0.0, decay), decays]

    def add_row(self, values: Numbers, about: Numbers, w: float, decay: float) -> list[Call]:
        """Return the changes of all sums."""
        count, weight, squared = self.tally.tolist()
        after = np.array([count + 1.0, weight * decay + w, decay**2 * squared + w**2])
        calls = self.add_products(about, self.weight_of(w, decay), decay)
        calls.append((np.add, self.prints, prints_of_row(values), self.prints))
        calls.append((self.tally.__setitem__, ..., after))
        moved = self.move_mean(values, about, w, weight * decay, after[0])
        return calls + moved if self.is_centred else calls

    def move_mean(
        self, values: Numbers, about: Numbers, w: float, past: float, count: float
    ) -> list[Call]:
        """Return the changes of the mean, and of its origin."""
        origin, offset, rest = self.origin, self.offset + w / (past + w) * about, past / (past + w)
        if MUCH_HEAVIER * rest < 1.0:
            origin, offset = values, -rest * about
        if count % ROWS_BETWEEN_ORIGINS == 0:
            mean = origin + offset
            way = mean - origin
            offset = (origin - (mean - way)) + (offset - way)
            origin = mean
        return [(self.origin.__setitem__, ..., origin), (self.offset.__setitem__, ..., offset)]


class SingleRows:
    """Single rows of a model in one state, read by other code: dicts are handed back to it.

    The arguments are those of `SingleRows` in _core.c; readers and labels are not needed. Other
    code solves the sums.
    """

    solves = False

    def __init__(
        self,
        *,
        whole: Any,
        inliers: Any,
        recursion: Any,
        registers: Numbers,
        counts: Numbers | None,
        choice: tuple[Any, ...] | None,
        hands: Numbers | None,
        priors: Any,
        decay: float,
        most: float,
        least_share: float,
        patience: float,
        mode: int,
        learns: bool,
        **of_readers: Any,
    ) -> None:
        self.sums, self.inliers = SumsOfRows(whole), inliers and SumsOfRows(inliers)
        self.recursion = recursion
        # Where there is a clock, other code passes its time.
        self.learns = learns and self.sums.cross is not None and hands is None
        self.solved: Any = None
        self.solved_at = -1.0
        self.registers, self.counts = registers, counts
        numbers = np.zeros(N_CHOICE) if choice is None else choice[0]
        self.began, constants = float(numbers[BEGAN]), numbers[N_CHOICE + 2 * self.sums.m :]
        # If a feature begins to vary, other code learns a row.
        is_known = numbers[IS_KNOWN] and (constants == constants).any()
        self.constants = constants if is_known else None
        self.priors, self.decay, self.most, self.least_share = priors, decay, most, least_share
        self.patience, self.mode = patience, mode

    def hand_over(self, *arguments: Any) -> Any:
        """Return NotImplemented."""
        return NotImplemented

    def choose(self) -> bool:
        """Return whether no ridge is due: other code chooses one."""
        return bool(self.sums.tally[0] < self.registers[NEXT_DUE])

    label = scores = probabilities = calibrated = hand_over
    normals = spread = variances = interval = learn = learn_new = hand_over

    def rule(self, *arrays: Numbers) -> bool:
        """Return False: other code finds the map to discriminant scores."""
        return False

    def solve(self, weights: Numbers) -> int:
        """Return that other code must solve for the weights."""
        return UNSOLVED

    def hold(self, weights: Numbers) -> None:
        """Let weights that other code has solved answer until the next row."""
        self.solved, self.solved_at = weights, float(self.sums.tally[0])

    def weights_now(self) -> Any:
        """Return the weights that answer for the rows learnt so far; None if there are none."""
        count, registers = self.sums.tally[0], self.registers
        if not count < registers[NEXT_DUE]:
            return None
        is_refined = self.mode == FOLLOW or count == registers[PREDICTED_AT]
        if self.recursion is not None and count < registers[VALID_UNTIL] and is_refined:
            return self.recursion.weights
        return self.solved if count == self.solved_at else None

    def scores_of(self, row: Any) -> Any:
        """Return the scores of a row (m,), a list; NotImplemented if other code must answer."""
        weights = self.weights_now()
        if weights is None or self.priors is not None or type(row) is dict:
            return NotImplemented
        m, origin, offset = self.sums.m, self.sums.origin, self.sums.offset
        self.registers[PREDICTED_AT] = self.sums.tally[0]
        scores = (row - origin[:m] - offset[:m]) @ weights + (origin[m:] + offset[m:])
        return scores.tolist()

    def learn_read(self, values: Numbers, w: float, column: int) -> bool:
        """Learn a row with its targets, of which a label has this column.

        Return whether it is learnt; otherwise nothing has changed, and other code must learn it.
        """
        if not self.is_plain(values, w):
            return False
        registers, decay, calls = self.registers, self.decay, list[Call]()
        share = float(registers[SHARE]) * (decay if self.sums.tally[1] else 1.0)
        is_restored = share < self.least_share
        if self.least_share > 0.0:
            calls.append((registers.__setitem__, SHARE, 1.0 if is_restored else share))
        if self.counts is not None:
            calls.append((self.counts.__setitem__, column, self.counts[column] + 1.0))
        if self.constants is not None and not self.sums.tally[0] and self.sums.is_centred:
            calls.append((self.constants.__setitem__, ..., values[: self.sums.m].copy()))
        apply(calls + self.learning(values, w, decay, is_restored))
        return True

    def is_plain(self, values: Numbers, w: float) -> bool:
        """Return whether a row can be learnt here: only numbers change, and no choice is due."""
        sums, inliers = self.sums, self.inliers
        count, weight, _ = sums.tally.tolist()
        is_first = not count and sums.is_centred
        can = self.learns and 0.0 < w <= MAX_SQUARES and (weight > 0.0 or not count)
        if not (can and count < self.registers[NEXT_DUE]):
            return False
        if max(w, 1.0) * ddot(values, values) > MAX_SQUARES:
            return False
        if self.constants is not None and not is_first:
            changes = (values[: sums.m] != self.constants) & (self.constants == self.constants)
            if changes.any():
                return False
        return inliers is not None or not sums.dwarfs(sums.centre(values), w, self.decay)

    def learning(
        self, values: Numbers, w: float, decay: float, is_restored: bool = False
    ) -> list[Call]:
        """Return the changes by a row with its targets, of the sums and of what follows them."""
        about, registers, calls = self.sums.centre(values), self.registers, list[Call]()
        count, weight, squared = self.sums.tally.tolist()
        if self.recursion is not None:
            since = count - registers[PREDICTED_AT]
            follows = not is_restored and (since == 0.0 or since + 1.0 <= self.patience)
            if follows and count < registers[VALID_UNTIL]:
                calls += self.follow(about, self.sums.weight_of(w, decay), decay)
            calls = calls or [(registers.__setitem__, VALID_UNTIL, 0.0)]
        began, due = self.began, float(registers[DUE_WEIGHT])
        after = weight * decay + w, decay**2 * squared + w**2
        if is_weight_due(count + 1.0 - began, *after, due):
            calls.append((registers.__setitem__, NEXT_DUE, count + 1.0))
        calls += self.sums.add_row(values, about, w, decay)
        if self.inliers is None:
            return calls
        about = self.inliers.centre(values)
        if self.inliers.dwarfs(about, w, decay):
            return calls + self.inliers.fade(about, decay)
        return calls + self.inliers.add_row(values, about, w, decay)

    def follow(self, about: Numbers, w: float, decay: float) -> list[Call]:
        """Return the changes of P, W and J; none if the row outweighs earlier rows and ridge."""
        z, v, r = about[: self.sums.m], about[self.sums.m :], self.recursion
        image, leverage = leverage_of(r.inverse, r.pending, r.factors, z)
        leverage *= w / decay
        if not (leverage >= 0.0 and 1.0 + leverage <= self.most):
            return []
        errors, ratio = v - z @ r.weights, w / (1.0 + leverage)
        gain = ratio / float(r.factors[SCALE] * decay)
        return [
            (r.criterion.__setitem__, ..., decay * r.criterion + ratio * errors**2),
            *absorb(r.inverse, r.weights, r.factors, decay, gain, image, errors),
        ]
