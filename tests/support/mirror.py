"""recursion.h and solve.h in plain numpy, function by function: the oracle of the cores.

Functions have the names, the arguments and the order of these headers, where equations and sources
stand. `Reader` and `SingleRows` do what those of _core.c do.
"""

from datetime import datetime
from fractions import Fraction
from math import ceil, inf, isfinite
from types import SimpleNamespace

import numpy as np
from scipy.linalg.blas import ddot
from scipy.linalg.lapack import dpstrf

from onlinels.checks import MAX_COUNT
from onlinels.core.constants import (
    AS_THEY_ARE,
    BASE_RIDGE,
    BEGAN,
    CONSTANT_TOLERANCE,
    DEVIATIONS,
    DOUBLES_AT,
    DUE_TOLERANCE,
    DUE_WEIGHT,
    EPS,
    EQUAL_PRIORS,
    FEATURES_PER_ROW_BETWEEN,
    FOLLOW,
    GAIN,
    GIVEN,
    HALF_LIFE,
    HAND_BACK,
    IS_BASE_SCALED,
    IS_KNOWN,
    IS_SCALED,
    KEPT,
    LEARNT_PRIORS,
    LEAST_GROWTH,
    LOW,
    MAX_BEYOND_ROWS,
    MAX_FEATURES_SOLVED,
    MAX_HALF_LIVES,
    MAX_MEAN_WEIGHT,
    MAX_REST,
    MAX_ROUNDING,
    MAX_ROWS_BETWEEN_PREDICTIONS,
    MAX_RUNNING_LEVERAGE,
    MAX_SHARE_LEFT_OUT,
    MAX_SQUARES,
    MAX_TIME,
    MAX_UNITS_GROWTH,
    MIN_CLASS_SHARE,
    MIN_DEVIATION,
    MIN_EIGENVALUE_SOLVED,
    MIN_EIGENVALUE_UNPENALISED,
    MIN_EIGENVALUE_UNREFINED,
    MIN_FREE,
    MIN_INFORMATION,
    MIN_NOISE,
    MIN_PAPER_RIDGE,
    MIN_PIVOT,
    MIN_ROWS_DWARFED,
    MIN_SCALE,
    MIN_SCATTER_SHARE,
    MIN_SUM_OF_SQUARES,
    MUCH_HEAVIER,
    MUCH_LARGER,
    N_CHOICE,
    NEXT_DUE,
    NOW,
    OTHER_PRIORS,
    PREDICTED_AT,
    RENEWAL_ROWS,
    RENEWAL_ROWS_PER_FEATURE,
    RIDGE,
    ROWS_BETWEEN_ORIGINS,
    ROWS_BETWEEN_TRIALS,
    ROWS_SELECTED_ONE_BY_ONE,
    SCALE,
    SHARE,
    SOLVED,
    TIMED,
    TO_TELL,
    TRIED_AT,
    UNSOLVED,
    UNTIL,
    UNTIL_LOW,
    VALID_UNTIL,
)
from onlinels.core.reference import equal_rows, is_weight_due
from onlinels.linear.scoring import discriminant, posteriors, probabilities_of
from onlinels.rows.times import nanoseconds_of


def squares_of(s):
    diagonals = [np.diagonal(corner) for _, _, corner in s.panels]
    return np.concatenate([*diagonals, s.target_squares])


def mean_of(s):
    return s.origin + s.offset


def centre(s, row):
    row.about = (row.values - s.origin) - s.offset


def predict(s, weights, row):
    centre(s, row)
    row.scores = row.about[: s.m] @ weights + mean_of(s)[s.m :]


def whole(upper):
    """Return a symmetric matrix, of which the upper triangle is kept."""
    return np.triu(upper) + np.triu(upper, 1).T


def set_penalty(r, i, penalty):
    r.penalties[i] = penalty
    r.inverse[i, i] = r.factors[SCALE] / (r.factors[KEPT] * penalty)


def multiply(r, x):
    r.inverse += np.triu(r.factors[GAIN] * np.outer(r.pending, r.pending))
    r.factors[GAIN] = 0.0
    return whole(r.inverse) @ x


def leverage_of(s, r, row):
    row.image = multiply(r, row.about[: s.m])
    return row.image @ row.about[: s.m] / r.factors[SCALE]


def penalty_of(r):
    return r.factors[KEPT] * (r.penalties @ r.weights**2)


def weights_of_errors(s, forgets):
    mean = s.tally[2] / s.tally[1]
    decays, fills = forgets and mean < 1.0, mean > MAX_MEAN_WEIGHT
    return (mean if fills else 0.0) if decays else 1.0, mean if decays and fills else 1.0


def scale_errors(s, row, e, leverage, n_parameters):
    free = s.tally[1] - e[0] * n_parameters
    factor = 1.0 + e[1] * (max(leverage, 0.0) + s.is_centred / s.tally[1])
    row.errors = np.maximum(row.errors, EPS * s.target_squares) / free * factor
    return float(free)


def spread(s, r, row, forgets):
    leverage = leverage_of(s, r, row)
    trace = r.penalties @ np.diagonal(r.inverse)
    row.errors = r.criterion - penalty_of(r)
    n_parameters = s.m + s.is_centred - r.factors[KEPT] / r.factors[SCALE] * trace
    return scale_errors(s, row, weights_of_errors(s, forgets), leverage, n_parameters)


def is_accepted(s, r):
    multiply(r, r.pending)
    kept, f = r.factors[KEPT] / r.factors[SCALE], s.tally[1] - s.is_centred
    least, squares, penalty = r.criterion.sum(), s.target_squares.sum(), penalty_of(r).sum()
    product = kept * whole(r.inverse) * r.penalties  # P D
    effective = s.m - np.trace(product)
    trace_of_square = s.m - 2.0 * np.trace(product) + (product * product.T).sum()
    score = f * penalty / least - effective
    information = trace_of_square - effective**2 / f
    is_known = f > 0.0 and least > MIN_NOISE * squares
    is_known = is_known and information > MIN_INFORMATION * trace_of_square
    return bool(is_known and score**2 <= 0.5 * information)


def prepare(s, row, w, decay):
    past = s.tally[1] * decay
    row.decay, row.w, row.total = decay, w, past + w
    row.weight = past * (w / row.total) if s.is_centred else w
    centre(s, row)


def dwarfs(s, row):
    squares, mean = squares_of(s), mean_of(s)
    varies = squares > CONSTANT_TOLERANCE**2 * s.tally[1] * mean**2
    is_larger = row.w * row.about**2 > MUCH_LARGER * squares
    are_many = s.tally[1] >= MIN_ROWS_DWARFED and row.decay >= EPS
    return bool(are_many and (is_larger & varies).any())


def absorb(r, decay, gain, image, errors):
    r.weights += gain * np.outer(image, errors)
    r.pending[:] = image
    r.factors[:] = r.factors[SCALE] * decay, -gain, r.factors[KEPT] * decay
    if r.factors[SCALE] < MIN_SCALE:
        multiply(r, image)
        r.inverse /= r.factors[SCALE]
        r.factors[SCALE] = 1.0


def follow(s, r, row, most):
    leverage = row.weight * leverage_of(s, r, row) / row.decay
    if not (leverage >= 0.0 and 1.0 + leverage <= most):
        return False
    scale = r.factors[SCALE] * row.decay
    gain = row.weight / (scale * (1.0 + leverage))
    errors = row.about[s.m :] - row.about[: s.m] @ r.weights
    r.criterion[:] = row.decay * r.criterion + gain * scale * errors**2
    absorb(r, row.decay, gain, row.image, errors)
    return True


def add_hashes(values, prints):
    bits = (values + 0.0).view(np.uint64) >> np.uint64(20)
    hashes = bits * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(43)
    prints += [hashes, hashes * hashes, (values != 0.0).astype(np.uint64)]


def move_mean(s, row):
    if MUCH_HEAVIER * row.weight < row.w:
        s.origin[:], s.offset[:] = row.values, -row.weight / row.w * row.about
    else:
        s.offset += row.w / row.total * row.about
    if s.tally[0] % ROWS_BETWEEN_ORIGINS == 0:
        mean = mean_of(s)
        way = mean - s.origin
        s.offset[:] = (s.origin - (mean - way)) + (s.offset - way)
        s.origin[:] = mean


def add_products(s, row, weight):
    z, v = np.split(row.about, [s.m])
    for start, above, corner in s.panels:
        own = z[start : start + len(corner)]
        above[:] = row.decay * above + weight * np.outer(z[:start], own)
        corner[:] = row.decay * corner + np.triu(weight * np.outer(own, own))
    s.cross[:] = row.decay * s.cross + weight * np.outer(z, v)
    s.target_squares[:] = row.decay * s.target_squares + weight * v**2


def fade(s, row):
    add_products(s, row, 0.0)
    s.tally *= 1.0, row.decay, row.decay**2


def add_to_sums(s, row):
    add_products(s, row, row.weight)
    s.tally[:] = s.tally[0] + 1.0, row.total, row.decay**2 * s.tally[2] + row.w**2
    if s.is_centred:
        move_mean(s, row)


def add_row(s, row):
    add_hashes(row.values, s.prints)
    add_to_sums(s, row)


def told(s):
    squares = squares_of(s)
    least = MAX_ROUNDING * s.rounding
    if s.is_centred:
        least = np.maximum(least, CONSTANT_TOLERANCE**2 * s.tally[1] * mean_of(s) ** 2)
    is_known = squares > least
    is_known[: s.m] &= squares[: s.m] >= MIN_SUM_OF_SQUARES
    return np.where(is_known, squares, 0.0)


def paper_ridge(m, n, squares):
    active = squares[squares > 0.0]
    if not active.size:
        return 0.0
    return max((n / m) ** 2 * active.min(), MIN_PAPER_RIDGE * active.size * np.median(active))


def set_penalties(s, c, share, v):
    raw, squares, units = squares_of(s)[: s.m], told(s)[: s.m], np.ones(s.m)
    errors = s.rounding[: s.m]
    v.n_narrow = int(((squares == 0.0) & (raw >= MIN_SUM_OF_SQUARES) & (errors == 0.0)).sum())
    if c.scaling == GIVEN:
        units = c.units**2
    elif c.scaling == DEVIATIONS:
        units = squares / s.tally[1]
        units[units < MIN_DEVIATION**2] = 0.0
    squares, units = np.where(units > 0.0, squares, 0.0), np.where(units > 0.0, units, 1.0)
    n_targets = len(s.target_squares)
    ridge = paper_ridge(s.m, n_targets, squares / units) if c.ridge < 0.0 else c.ridge
    v.in_force = share * ridge
    v.penalties = v.in_force * units
    active = squares > 0.0
    v.n_active, v.n_dependent = int(active.sum()), 0
    v.scale = np.where(active, 1.0 / np.sqrt(np.where(active, squares + v.penalties, 1.0)), 0.0)
    v.is_whole = bool((active | (raw <= MAX_SHARE_LEFT_OUT * v.penalties)).all())


def scale_gram(s, v):
    system = product_of(s, slice(None), slice(None)) * np.outer(v.scale, v.scale)
    np.fill_diagonal(system, 1.0)
    return system


def norm_of_inverse(system):
    return 1.0 / max(np.linalg.eigvalsh(system)[0], 1e-300)


def product_of(s, i, j):
    gram = np.zeros((s.m, s.m))
    for start, above, corner in s.panels:
        own = slice(start, start + len(corner))
        gram[:start, own], gram[own, own] = above, np.triu(corner)
    return whole(gram)[i, j]


def factor_scaled(s, least, v):
    v.system = scale_gram(s, v)
    v.norm = norm_of_inverse(v.system)
    return v.norm * least < 1.0


def leave_out_dependent(s, v):
    active = np.flatnonzero(v.scale)
    factor, pivots, rank, _ = dpstrf(v.system[np.ix_(active, active)], tol=MIN_PIVOT)
    left_out = active[pivots[rank:] - 1]
    v.n_dependent, v.n_active, v.is_whole = len(left_out), rank, False
    known, others = np.triu(factor)[:rank, :rank], np.triu(factor)[:rank, rank:]
    rest = v.system[left_out, left_out] - (others**2).sum(axis=0)
    v.scale[left_out] = 0.0
    return bool(len(left_out) and known.size and np.maximum(rest, 0.0).sum() <= MAX_REST)


def find_beyond(s, v):
    left_out = np.flatnonzero((v.scale == 0.0) & (told(s)[: s.m] > 0.0))
    cross = product_of(s, slice(None), left_out)
    v.beyond = -v.scale[:, None] * np.linalg.solve(v.system, v.scale[:, None] * cross)
    v.beyond[left_out] = np.eye(len(left_out))
    v.beyond = np.linalg.qr(v.beyond)[0]
    return True


def factor_system(s, c, share, v):
    v.factored_at = -1.0
    set_penalties(s, c, share, v)
    least = MIN_EIGENVALUE_SOLVED if v.in_force > 0.0 else MIN_EIGENVALUE_UNPENALISED * s.m
    if not factor_scaled(s, least, v):
        can = c.ridge == 0.0 and leave_out_dependent(s, v) and factor_scaled(s, least, v)
        if not (can and find_beyond(s, v)):
            return False
    v.factored_at = s.tally[0]
    return True


def solve_targets(s, v):
    keeps = (told(s)[s.m :] > 0.0) if s.is_centred else 1.0
    scale = v.scale[:, None]
    v.weights = scale * np.linalg.solve(v.system, scale * s.cross) * keeps
    if v.n_dependent:
        v.weights -= v.beyond @ (v.beyond.T @ v.weights)
    v.solved_at = s.tally[0]


def may_begin(v):
    return v.is_whole and v.norm * MIN_EIGENVALUE_UNREFINED <= 1.0


def begin_recursion(s, v, share, r):
    inverse = np.linalg.inv(v.system)
    if np.abs(inverse).sum(axis=0).max() * MIN_EIGENVALUE_UNREFINED > 1.0:
        return False
    inverse *= np.outer(v.scale, v.scale)
    inverse += np.diag(np.where(v.scale == 0.0, 1.0 / v.penalties, 0.0))
    r.inverse[:], r.penalties[:], r.weights[:] = np.triu(inverse), v.penalties / share, v.weights
    r.criterion[:] = told(s)[s.m :] - (v.weights * s.cross).sum(axis=0)
    r.pending[:], r.factors[:] = 0.0, (1.0, 0.0, share)
    return True


def spread_of_factor(s, v, c, row, forgets):
    z, mean, left_out = row.about[: s.m], mean_of(s)[: s.m], v.scale == 0.0
    differs = left_out & (np.abs(z) > CONSTANT_TOLERANCE * np.abs(mean))
    inverse = np.outer(v.scale, v.scale) * np.linalg.inv(v.system)
    leverage = z @ inverse @ z
    if v.in_force > 0.0:
        leverage += (z[differs] ** 2 / v.penalties[differs]).sum()
    n_parameters = v.n_active + s.is_centred - v.penalties @ np.diagonal(inverse)
    row.errors = told(s)[s.m :] - (v.weights * s.cross).sum(axis=0) - v.penalties @ v.weights**2
    free = scale_errors(s, row, weights_of_errors(s, forgets), leverage, n_parameters)
    is_known = c.scaling == AS_THEY_ARE or not differs.any()
    if v.n_dependent:
        terms = v.beyond * z[:, None]
        is_known &= bool(
            (np.abs(terms.sum(axis=0)) <= MAX_BEYOND_ROWS * np.abs(terms).sum(axis=0)).all()
        )
    return free if is_known or free <= 0.0 else np.nan


def sums_of(statistics):
    """Return the arrays of statistics by the names of recursion.h."""
    (m, n), arrays = statistics.products.shape, statistics.products.row_arrays()
    s = SimpleNamespace(m=m, tally=statistics.tally, prints=statistics.prints)
    s.is_centred, nowhere = statistics.mean is not None, np.zeros(m + n)
    s.origin, s.offset = statistics.mean or (nowhere, nowhere)
    s.cross, s.target_squares = arrays[0] if arrays else None, statistics.squares_of_targets
    s.rounding = statistics.rounding.squares
    s.panels = [
        (len(above), above, own) for above, own in zip(*[iter(arrays[1:])] * 2, strict=True)
    ]
    return s


def recursion_of(recursion):
    """Return the arrays of a recursion by the names of recursion.h; None without one."""
    if recursion is None:
        return None
    names = "inverse", "pending", "weights", "criterion", "factors"
    r = SimpleNamespace(**{name: getattr(recursion, name) for name in names})
    r.penalties = recursion.full_penalties
    return r


class Reader:
    """What reads dicts of numbers, or of one array, by known names."""

    def __init__(self, columns, size, types, array_type):
        self.columns, self.size, self.array_type = columns, size, array_type
        self.types = types | {float, int, bool}

    def row(self, x):
        """Return the values of a dict; None if Python code must read it."""
        row, had = np.zeros(self.size), set()
        for name, value in x.items() if type(x) is dict else [(None, None)]:
            place = self.columns.get(name) if type(name) in (str, int) else None
            kind = type(value)
            if isinstance(place, tuple):
                first, length, *kinds = place
                is_known = len(x) == 1 and kind is [*kinds, self.array_type][0]
                if not (is_known and value.dtype.char in "df" and value.shape == (length,)):
                    return None
                row[first : first + length] = value
            elif place is None or place in had or type(kind) is not type or kind not in self.types:
                return None
            else:
                had.add(place)
                try:
                    row[place] = float(value)
                except OverflowError:
                    return None
        return row if ddot(row, row) <= MAX_SQUARES else None


class SingleRows:
    """What predicts and learns single rows in the arrays of a model."""

    def __init__(self, *, whole, inliers, recursion, ridge, scaling, choice, **others):
        vars(self).update(others)
        self.counts_dates = self.dates is not None
        self.choice, self.keeps, self.constants, units = None, False, None, None
        if choice is not None:
            # Other code chooses.
            self.choice, _, self.keeps, _, _ = choice
            units, self.base_units, constants = self.choice[N_CHOICE:].reshape(3, -1)
            is_known = self.choice[IS_KNOWN] and not np.isnan(constants).all()
            self.constants = constants if is_known else None
        self.s, self.inliers = sums_of(whole), inliers and sums_of(inliers)
        self.forgets = self.decay != 1.0 or self.hands is not None
        self.patience = max(MAX_ROWS_BETWEEN_PREDICTIONS, self.s.m // FEATURES_PER_ROW_BETWEEN)
        self.r, self.row, self.inlier = (
            recursion_of(recursion),
            SimpleNamespace(),
            SimpleNamespace(),
        )
        self.ridge = SimpleNamespace(ridge=ridge, scaling=scaling, units=units)
        self.v = SimpleNamespace(solved_at=-1.0, factored_at=-1.0, n_narrow=0)
        self.n_told = 0

    def load(self, x, targets):
        self.row.values = self.inlier.values = np.append(x, targets)

    # Predicting.

    def is_factored(self):
        can = self.mode != HAND_BACK and self.s.cross is not None
        if not can or self.s.m > MAX_FEATURES_SOLVED or not self.s.tally[1] > 0.0:
            return False
        if self.v.factored_at == self.s.tally[0]:
            return True
        return factor_system(self.s, self.ridge, self.registers[SHARE], self.v)

    def is_to_tell(self):
        return self.warns or (not self.forgets and self.v.n_narrow > self.n_told)

    def begin(self):
        count, registers = self.s.tally[0], self.registers
        least = 1.0 if self.tests_ridge() else 4.0
        can = self.mode == FOLLOW and self.r is not None and registers[NEXT_DUE] > count + least
        can = can and 0.0 < count - registers[PREDICTED_AT] <= self.patience
        can = can and count >= registers[TRIED_AT] + ROWS_BETWEEN_TRIALS
        if not (can and self.v.factored_at == count and may_begin(self.v)):
            return
        if not begin_recursion(self.s, self.v, registers[SHARE], self.r):
            registers[TRIED_AT] = count
            return
        step = RENEWAL_ROWS_PER_FEATURE << max(0, self.s.m - 1).bit_length()
        step = max(RENEWAL_ROWS, step)
        registers[VALID_UNTIL] = (count // step + 1.0) * step

    def does_follow(self):
        count, registers = self.s.tally[0], self.registers
        is_refined = self.mode == FOLLOW or count == registers[PREDICTED_AT]
        return self.r is not None and count < registers[VALID_UNTIL] and is_refined

    def weights_now(self):
        count = self.s.tally[0]
        if not count < self.registers[NEXT_DUE]:
            return None
        if not self.does_follow():
            if self.v.solved_at != count:
                if not self.is_factored():
                    return None
                solve_targets(self.s, self.v)
            if self.is_to_tell():
                return None
            self.begin()
        return self.r.weights if self.does_follow() else self.v.weights

    def solve(self, out):
        weights, done = self.weights_now(), SOLVED
        if weights is None and self.v.solved_at == self.s.tally[0]:
            weights, done = self.v.weights, TO_TELL
        if weights is None:
            return UNSOLVED
        out[:] = weights
        return done

    def hold(self, weights):
        self.v.weights, self.v.solved_at = weights.copy(), self.s.tally[0]
        self.warns, self.n_told = False, self.v.n_narrow
        self.begin()

    def answer(self, x):
        known = x if isinstance(x, np.ndarray) else self.features.row(x)
        is_seen = self.inliers is not None and self.s.tally[0] % ROWS_BETWEEN_ORIGINS == 0.0
        weights = None if known is None or is_seen else self.weights_now()
        if weights is None:
            return None
        self.row.values = np.append(known, np.zeros(len(self.s.target_squares)))
        predict(self.s, weights, self.row)
        self.asked = weights
        self.registers[PREDICTED_AT] = self.s.tally[0]
        return self.row.scores.tolist()

    def find_rule(self, known):
        """Return the map to discriminant scores; None if Python code must find it."""
        s, p, n = self.s, self.priors, len(self.s.target_squares)
        if p is None or s.cross is None or p.kind == OTHER_PRIORS or known is None:
            return None
        shares = mean_of(s)[s.m :]
        weights = s.target_squares + s.tally[1] * shares**2
        weights[weights <= p.hidden[:n] + p.hidden[n] * shares**2] = 0.0
        explained, present = known.T @ s.cross, weights > MIN_CLASS_SHARE * weights.sum()
        roots = np.where(present, weights, np.inf) ** -0.5
        left = 1.0 - np.linalg.eigvalsh(0.5 * (explained + explained.T) * np.outer(roots, roots))
        if not (left.min() > 0.0 and (1.0 / left).sum() * MIN_SCATTER_SHARE < 1.0):
            return None  # Rounding prevails.
        kinds = {LEARNT_PRIORS: "learnt", EQUAL_PRIORS: "equal"}
        given = kinds.get(p.kind, dict(enumerate(p.given.tolist())))
        return discriminant(explained, weights, shares, given, range(n))

    def rule(self, matrix, constant):
        found = self.find_rule(self.weights_now())
        if found is not None:
            matrix[:], constant[:] = found
        return found is not None

    def scores_of(self, x):
        scores = self.answer(x)
        if scores is None or self.priors is None:
            return NotImplemented if scores is None else scores
        rule = self.find_rule(self.asked)
        return NotImplemented if rule is None else rule.scores(np.array(scores)).tolist()

    def by_name(self, found, names=None):
        """Return what is found for every class or target; a target without a name has no dict."""
        if self.targets is None:
            return found[0]
        names = self.names[: len(found)] if names is None else names
        columns = self.targets if isinstance(self.targets, dict) else self.targets.columns
        is_plain = len(columns) == len(self.s.target_squares)
        return dict(zip(names, found, strict=True)) if is_plain else NotImplemented

    def scores(self, x):
        scores = self.scores_of(x)
        return scores if scores is NotImplemented else self.by_name(scores)

    def label(self, x):
        scores = self.scores_of(x)
        return scores if scores is NotImplemented else self.names[int(np.argmax(scores))]

    def probabilities(self, x):
        scores = self.scores_of(x)
        if scores is NotImplemented or len(self.names) < len(scores):
            return NotImplemented
        n, scores = len(scores), np.array([scores])
        if self.priors is None:
            found = probabilities_of(scores)[0]
        else:
            absent, fixed = np.isneginf(scores[0]), self.priors.fixed
            left = 1.0 - fixed[n:].sum() - fixed[:n][absent].sum()
            found = np.append(np.where(absent, fixed[:n], left * posteriors(scores)[0]), fixed[n:])
        return self.by_name(found.tolist(), self.names)

    def variances_about(self, x):
        """Return scores, variances and degrees of freedom."""
        scores = self.answer(x)
        if scores is None:
            return NotImplemented
        is_valid = self.s.tally[0] < self.registers[VALID_UNTIL]
        if self.r is not None and self.mode == FOLLOW and is_valid:
            free = spread(self.s, self.r, self.row, self.forgets)
        elif self.is_factored():
            free = spread_of_factor(self.s, self.v, self.ridge, self.row, self.forgets)
        else:
            return NotImplemented
        if np.isnan(free):
            return NotImplemented
        if not free > MIN_FREE * self.s.tally[1]:
            self.row.errors[:], free = np.inf, 0.0
        elif not self.is_constant_where_known():
            return NotImplemented
        return scores, self.row.errors.tolist(), free

    def hand_over(self, *_):
        return NotImplemented

    variances = calibrated = hand_over

    def spread(self, x):
        known = self.variances_about(x)
        if known is NotImplemented:
            return known
        scores, variances, free = known
        pairs = self.by_name([*zip(scores, variances, strict=True)])
        return pairs if pairs is NotImplemented else (pairs, free)

    def normals(self, x, kind, _):
        known = self.variances_about(x)
        if known is NotImplemented:
            return known
        return self.by_name([kind.of(*pair) for pair in zip(*known[:2], strict=True)])

    def interval(self, x, least, terms):
        known = self.variances_about(x)
        if known is NotImplemented or not (known[2] == 0.0 or known[2] >= least):
            return NotImplemented
        scores, variances, free = known
        quantile = np.polyval(terms[::-1], 1.0 / free) if free else 1.0
        halves = quantile * np.sqrt(variances)
        ends = zip(scores, halves.tolist(), strict=True)
        return self.by_name([(score - half, score + half) for score, half in ends])

    # Learning.

    def is_constant_where_known(self):
        if self.constants is None:
            return True
        same = self.row.values[: self.s.m] == self.constants
        return bool((same | np.isnan(self.constants)).all())

    def is_first(self):
        return self.s.tally[0] == 0.0 and self.s.is_centred

    def prepare(self, w, decay):
        prepare(self.s, self.row, w, decay)
        if self.inliers is not None:
            prepare(self.inliers, self.inlier, w, decay)

    def is_plain(self, w):
        (count, weight, _), values = self.s.tally, self.row.values
        can_learn = self.learns and self.s.cross is not None and count < self.registers[NEXT_DUE]
        can_learn = can_learn and 0.0 < w <= MAX_SQUARES and (weight > 0.0 or count == 0.0)
        if not (can_learn and max(w, 1.0) * ddot(values, values) <= MAX_SQUARES):
            return False
        self.prepare(w, self.decay)
        return self.inliers is not None or not dwarfs(self.s, self.row)

    def learn_prepared(self, is_restored=False):
        registers, count = self.registers, self.s.tally[0]
        since = count - registers[PREDICTED_AT]
        follows = self.r is not None and not is_restored and count < registers[VALID_UNTIL]
        follows = follows and (since == 0.0 or since + 1.0 <= self.patience)
        if not (follows and follow(self.s, self.r, self.row, MAX_RUNNING_LEVERAGE)):
            registers[VALID_UNTIL] = 0.0
        add_row(self.s, self.row)
        if self.inliers is not None:
            change = fade if dwarfs(self.inliers, self.inlier) else add_row
            change(self.inliers, self.inlier)
        self.pass_checkpoint()

    def choose(self):
        return bool(self.s.tally[0] < self.registers[NEXT_DUE])

    def are_units_alike(self):
        if not self.choice[IS_BASE_SCALED]:
            return True
        now = np.sqrt(told(self.s)[: self.s.m] / self.s.tally[1])
        now, then = np.where(now < MIN_DEVIATION, 0.0, now) ** 2, self.base_units**2
        return not (np.maximum(now, then) > MAX_UNITS_GROWTH * np.minimum(now, then)).any()

    def tests_ridge(self):
        c = self.choice
        if c is None or not self.keeps or c[RIDGE] != c[BASE_RIDGE]:
            return False
        same = c[IS_SCALED] == c[IS_BASE_SCALED]
        return same and (not c[IS_SCALED] or (self.ridge.units == self.base_units).all())

    def pass_checkpoint(self):
        registers, (count, weight, squared) = self.registers, self.s.tally
        if self.choice is None:
            return
        rows, doubles_at = count - self.choice[BEGAN], self.choice[DOUBLES_AT]
        if is_weight_due(rows, weight, squared, registers[DUE_WEIGHT]):
            registers[NEXT_DUE] = count
        is_between = 0.25 * doubles_at <= equal_rows(rows, weight, squared) < doubles_at
        can_keep = count == registers[NEXT_DUE] and is_between and self.tests_ridge()
        can_keep = can_keep and self.r is not None and count < registers[VALID_UNTIL]
        can_keep = can_keep and self.mode == FOLLOW and self.are_units_alike()
        if can_keep and is_accepted(self.s, self.r):
            one_by_one = rows < ROWS_SELECTED_ONE_BY_ONE
            registers[NEXT_DUE] = count + (1.0 if one_by_one else ceil(LEAST_GROWTH * rows))
            registers[DUE_WEIGHT] = weight * (1.0 + LEAST_GROWTH) * (1.0 - DUE_TOLERANCE)

    def note_changes(self):
        c, x, share = self.choice, self.row.values[: self.s.m], self.row.w / self.row.total
        share *= 1.0 - share if self.s.is_centred else 1.0
        known = ~np.isnan(self.constants)
        begin = np.abs(x - self.constants) > CONSTANT_TOLERANCE * np.abs(self.constants)
        units = np.sqrt(share) * np.abs(x - self.constants)
        if begin.any() and known.all():
            c[BEGAN] = max(0.0, self.s.tally[0] - 1.0)
        self.constants[begin] = np.nan
        for i in np.flatnonzero(begin & (units > 0.0) & bool(c[IS_SCALED])):
            self.ridge.units[i] = units[i]
            self.base_units[i] = units[i] if c[IS_BASE_SCALED] else self.base_units[i]
            if self.r is not None:
                set_penalty(self.r, i, c[RIDGE] * units[i] ** 2)
        if (begin == known).all():
            self.constants = None

    def learn_read(self, column):
        share = self.registers[SHARE] * (self.decay if self.s.tally[1] > 0.0 else 1.0)
        is_restored = share < self.least_share
        if self.least_share > 0.0:
            self.registers[SHARE] = 1.0 if is_restored else share
        if self.counts is not None:
            self.counts[column] += 1.0
        if self.constants is not None and self.is_first():
            self.constants[:] = self.row.values[: self.s.m]
        elif self.constants is not None:
            self.note_changes()
        self.learn_prepared(is_restored)

    def targets_of(self, y):
        """Return the targets, and the column of a label; None if Python code must read them."""
        kind, n = type(y), len(self.s.target_squares)
        if isinstance(self.targets, dict):
            is_known = type(kind) is type and kind in self.label_types and y in self.targets
            return (np.eye(n)[self.targets[y]], self.targets[y]) if is_known else None
        named, y = self.targets, y if self.targets else {"y": y}
        read = named or Reader({"y": 0}, 1, self.features.types, np.ndarray)
        targets = read.row(y)
        return None if targets is None or len(y) < n else (targets, 0)

    # The time of a row: an exact number, or None, by which one unit passes.

    def pass_time(self, w, time):
        """Return the weight of a row by its time; None if Python code must find it."""
        if self.hands is None:
            return w
        before = float(self.hands[NOW])
        now = (
            int(before) + int(self.hands[LOW]) if self.counts_dates and isfinite(before) else before
        )
        if time is None and before == -inf:
            before = now = 0.0
        if time is None and not self.counts_dates and abs(before) + 1.0 < MAX_COUNT:
            time = before + 1.0
        is_known = (int,) if self.counts_dates else (int, float)
        if type(time) not in is_known or (
            type(time) is int and not self.counts_dates and abs(time) >= MAX_COUNT
        ):
            return None
        self.time = time
        self.passed = (
            float(Fraction(time) - Fraction(now))
            if isfinite(time) and isfinite(now)
            else time - now
        )
        half_lives = 0.0 if before == -inf else self.passed / self.hands[HALF_LIFE]
        if not (abs(half_lives) <= MAX_HALF_LIVES and abs(time) < MAX_TIME):
            return None
        self.decay = 0.5 ** max(half_lives, 0.0)
        return w * 2.0 ** min(half_lives, 0.0)

    def move_clock(self, is_timed):
        if self.hands is None:
            return
        if self.passed > 0.0:
            low = self.time % 2**32 if self.counts_dates else 0
            self.hands[NOW : LOW + 1] = self.time - low, low
        self.hands[TIMED] = self.hands[TIMED] or is_timed
        passed = self.hands[NOW] - self.hands[UNTIL] + (self.hands[LOW] - self.hands[UNTIL_LOW])
        if passed >= 0.0:
            self.registers[NEXT_DUE] = self.s.tally[0] + 1.0

    def learn(self, x, y, w, t=None):
        values, known = self.features.row(x), self.targets_of(y)
        if type(w) not in (float, int) or values is None or known is None:
            return NotImplemented
        self.load(values, known[0])
        if self.counts_dates and type(t) is datetime:
            t = nanoseconds_of(t)
        w = self.pass_time(float(w), t)
        if w is None or not self.is_plain(w):
            return NotImplemented
        self.move_clock(t is not None)
        self.learn_read(known[1])
        return None

    def learn_new(self, x, y, w, t, attributes, state):
        if self.learn(x, y, w, t) is NotImplemented:
            return NotImplemented
        attributes["_state"] = state
        return None

    def learn_checked(self, row, w, decay):
        self.load(row, ())
        self.prepare(w, decay)
        self.learn_prepared()

    def learn_many(self, X, targets, times=None):
        return False  # Other code learns them.

    def predict_learn(self, X, targets, w, scores, variances, times):
        n = scores.shape[1]
        for k, x in enumerate(X):
            column = 0 if self.counts is None else targets[k]
            if not 0 <= column < n:
                return k
            known = targets[k] if self.counts is None else np.eye(n)[column]
            self.load(x, known)
            t = None if times is None else float(times[k, 0])
            t = int(t) + int(times[k, 1]) if times is not None and self.counts_dates else t
            own = self.pass_time(w[k], t)
            ask = self.scores_of if variances is None else self.variances_about
            found = ask(x) if own and self.is_plain(own) else NotImplemented
            if found is NotImplemented:
                return k
            scores[k] = found if variances is None else found[0]
            if variances is not None:
                variances[k] = found[1]
            self.load(x, known)
            self.prepare(own, self.decay)
            self.move_clock(times is not None)
            self.learn_read(column)
        return len(X)
