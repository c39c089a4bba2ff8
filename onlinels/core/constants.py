"""Constants that C and Python share, by name: tests compare them with the headers and _core.c.

They stand here too because Python needs them where no compiler was.
"""

from __future__ import annotations

LAYOUT = 14
"""Number of the arguments and arrays of the classes in _core.c, and of what their methods change.

It is raised with every change of these, so that a compiled file of another version is not used.
"""

EPS = 2.0**-52
"""The distance from 1 to the next number in float64."""

# Sums and single rows.

MAX_SQUARES = 1e150
"""Sum of squares of values and targets up to which sums stay within float64."""

MUCH_HEAVIER = 1000.0
"""Weight of a row, relative to the rows before, from which it becomes the origin of the mean."""

ROWS_BETWEEN_ORIGINS = 64
"""Number of single rows after which the origin of the mean becomes the mean."""

MUCH_LARGER = 1e4
"""Square of a row, relative to a sum of squares, above which the row dwarfs the sum.

Its removal would leave at most twelve digits.
"""

MIN_ROWS_DWARFED = 16
"""Total weight of rows from which another row can dwarf them."""

CONSTANT_TOLERANCE = 2.0 * EPS
"""Relative deviation from the mean, or from the only value, up to which a feature is constant.

These are two to four units in the last place: what rounding does to values that would be equal.
"""

MIN_FREE = 1e-9
"""Degrees of freedom, relative to the weight of the rows, below which they count as 0."""

# Recursions.

SCALE, GAIN, KEPT = range(3)
"""Factors of a recursion: P = (B + gain u u') / scale, and the share of D that decay has left."""

MIN_SCALE = 2.0**-32
"""Smallest scale that is kept apart from the inverse; a smaller scale is multiplied in."""

MAX_MEAN_WEIGHT = 0.55
"""Mean weight of rows, sum w^2 / sum w, up to which a memory is full.

It falls from 1 to a half while the memory fills: with a forgetting factor f, it is
(1 + f^n) / (1 + f) after n rows.
"""

MIN_NOISE = 1e-8
"""Minimum of |Y - A W|^2 + W'D W, relative to Y'Y, below which rounding prevails in a test."""

MIN_INFORMATION = 1e-12
"""Information about the ridge, relative to the trace of K^2, below which rounding prevails."""

# Registers of a model, and checkpoints of its ridge.

PREDICTED_AT, VALID_UNTIL, NEXT_DUE, SHARE = range(4)
"""Registers of a model, the few numbers that Python and C share: counts of rows at the last
prediction, from which the weights no longer answer, and at which a ridge is chosen; and the share
of the ridge that decay has left."""

DUE_WEIGHT = 4
"""Register of a model: weight of all rows at which a ridge is chosen, also before the count of rows
says so, if the rows are far from equally weighted; 0.0 if the weight does not matter."""

BEGAN, LEAST_ROWS, DOUBLES_AT, GROWTH, SCALED = range(5, 10)
"""Registers for checkpoints of the ridge, which `SingleRows` passes while the ridge is kept: count
of rows from which other counts begin; numbers of equally weighted rows from which, and up to which,
it may be kept; the growth of the number of rows from one checkpoint to the next, 0.0 if other code
must choose; and the ridge if it acts on scaled features, else 0.0."""

N_REGISTERS = 10

DUE_TOLERANCE = 1e-9
"""Rounding of the weight of all rows, relative to it, that does not make a ridge due or not."""

LEAST_DUE_SHARE = 0.25
"""Share of the weight at which a ridge is due, below which it is due, too: from a half to a quarter
of the weight at the last choice is left."""

ROWS_SELECTED_ONE_BY_ONE = 16
"""Number of rows up to which every row is a checkpoint."""

MAX_UNITS_GROWTH = 4.1
"""Factor by which the square of a unit may have changed before a choice is not kept.

It is hardly ever met exactly, where rounding would decide.
"""

# Rows of streams.

MAX_DEVIATIONS = 6.0
"""Limit of a value in standard deviations, so that an outlier affects a single row."""

LEAST_DEVIATION = 1e-155
"""Standard deviation below which values count as equal: dividing by less would overflow."""

MIN_SCALE_WEIGHT = 4.0
"""Minimum weight of rows for a scale that can identify outliers."""

OUTLIERS_BEFORE_RESET = 5
"""Number of successive outliers after which the scale of a feature is reset."""

SCALE_DECAY = 0.9995
"""Factor on a row's weight in its scale with each further row: about 2,000 rows count.

From 0.999 to 1 the mean accuracy on sixteen streams stayed within 0.1 points.
"""

CELLS_OF_PARTITION = 64
"""Number of cells of a partition."""

DEVIATIONS_IN_BINS = 4.0
"""Standard deviations about the mean that the bins of a partition cover."""

LOG_LOSS_DECAY = 0.995
"""Factor on the log-loss of a partition with each further row: about 200 rows count."""

MIN_PARTITION_SHARE = 1e-300
"""Minimum share of a partition in the mixture, so that it can grow again."""

GRADIENT_RATE = 0.01
"""Learning rate of the softmax regressions, as in river's models."""

MAX_ROW_LEVERAGE = 1e14
"""Largest ratio of a row to earlier rows and ridge in its direction; no digit is left above it."""

MIN_RIDGE_SHARE = 0.0625
"""Share to which the ridge may decay before it is restored, a quarter as often as with 0.5."""

N_LINEAR = 5
"""Number of linear experts of a stream model: recursions, then softmax regressions."""

PLAIN = 6
"""The place of the expert whose scores come from other code."""

N_EXPERTS = 7

ERROR_DECAY = 0.998
"""Factor on an error with each further row: about 500 rows count.

From 0.995 to 0.999 the mean accuracy on twenty-five streams stayed within 0.1 points.
"""

MIN_SCORE = -0.5
"""Scores are at least this: a single wrong expert must not outvote the others."""

MAX_SCORE = 1.5
"""Scores are at most this."""

MAX_PLAIN_VALUE = 1e140
"""Limit of a value of plain least squares: its square times the largest weight stays within float64
in all sums."""

NUMBER_ERROR_DECAY = 0.99
"""Factor on an error of a forecast number with each further row: about 100 rows count."""

MAX_RELATIVE_ERROR = 100.0
"""Limit of a single error, in recent mean errors.

Without it an outlier would dominate all other errors for hundreds of rows. With 20 the mean
absolute error on twenty streams is 0.1% smaller, with 10 it is 0.2% larger.
"""

MAX_RANGE_EXCESS = 0.1
"""Share of the range of all targets by which a forecast may exceed the range."""

MIN_ERRORS = 2
"""Minimum number of errors, of any weight above 0, for a finite deviation."""

INTERVAL_PROBABILITY = 0.9
"""Probability of the central interval whose coverage is controlled."""

INTERVAL_DEVIATIONS = 1.6448536269514722
"""Standard deviations on each side that contain 90% of a normal distribution."""

DEVIATION_PER_ABSOLUTE = 1.2533141373155001
"""Standard deviation of a normal distribution in units of its mean absolute deviation, the root of
half of pi."""

WIDTH_STEP = 0.05
"""Step of the logarithm of the width of intervals, for one miss more than expected.

With it 90% intervals contained 87.9% to 90.7% of the targets on twenty streams.
"""

MAX_LOG_WIDTH = 3.0
"""Limit of the logarithm of the width, in both directions."""
