"""Constants that C and Python share, by name: tests compare them with the headers and _core.c.

They stand here too because Python needs them where no compiler was.
"""

from __future__ import annotations

LAYOUT = 34
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

# Classes.

SPREAD_PROBABILITY = 0.02
"""Probability that is always distributed equally over all classes.

Measured by progressive validation on four streams and on images: without it about one row in a
hundred has a label of probability 0, which adds more log-loss than all other rows. From 0.01 to
0.05 the log-loss hardly changes.
"""

MIN_CLASS_SHARE = 1e-20
"""Share of the total weight up to which a class counts as a class without weight.

The sums keep about 16 - log10(1 / share) / 2 digits of its mean.
"""

MAX_ROW_NOISE = 4.0
"""Largest noise of one row, in typical squared distances between classes, by which the mean of a
class is shrunk.
"""

MIN_SCATTER_SHARE = 1e-10
"""Smallest share of scatter within classes in a direction; rounding hides smaller shares."""

NO_PRIORS, LEARNT_PRIORS, EQUAL_PRIORS, GIVEN_PRIORS, OTHER_PRIORS = range(5)
"""Kinds of priors of `SingleRows`; with the last, other code answers."""

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

# Weights solved from the sums.

MAX_FEATURES_SOLVED = 128
"""Number of features up to which C, not LAPACK, selects a ridge and solves for the weights.

Up to this number, C learns the rows of small batches, too, not BLAS.
"""

MIN_EIGENVALUE_SOLVED = 1e-12
"""Smallest eigenvalue of the system scaled to unit diagonal, estimated, from which the core solves.

Below, LAPACK tells which directions are present (`onlinels.sums.solve`).
"""

MIN_EIGENVALUE_UNPENALISED = 1e-11
"""The same without a ridge, for each feature."""

MIN_PIVOT = 1e-8
"""Share of its squares that other features do not give, above which a feature is independent.

Without a ridge, features of which less is left are left out by the core, if all of them together
have at most `MAX_REST`; otherwise LAPACK tells. The core's solutions are nearer to those of the
rows in extended precision: 5e-13 instead of 5e-11 in the worst tenth of 724 draws.
"""

MAX_REST = 2e-13
"""What rounding may leave of features that others give: a fifth of `RANK_TOLERANCE`."""

MAX_NULL_ENTRY = 1e-13
"""Entry of a vector of the null space, for features of unit length, that is a rounding error.

The scale of a small feature would amplify it.
"""

MAX_BEYOND_ROWS = 1e-9
"""Rounding error of a row in directions that earlier rows do not have, relative to its terms."""

MIN_EIGENVALUE_UNREFINED = 1e-3
"""Smallest eigenvalue, of the system scaled to unit diagonal, that needs no refinement."""

MIN_SUM_OF_SQUARES = 1e-305
"""Sum of squares of a feature below which it counts as constant."""

MIN_DEVIATION = 1e-150
"""Standard deviation of a feature below which the feature counts as constant."""

MAX_ROUNDING = 16.0
"""Multiple of the estimated rounding error up to which a sum of squares may be nothing else."""

MIN_PAPER_RIDGE = 10.0 * EPS
"""Smallest ridge of "paper" per feature, relative to the median sum of squares."""

MAX_SHARE_LEFT_OUT = 1e-24
"""Sum of squares, relative to the penalty, of a feature that the core leaves out of an inverse."""

AS_THEY_ARE, GIVEN, DEVIATIONS = range(3)
"""What a ridge acts on: features as they are, divided by given deviations, or by those of all rows.
"""

# How a model answers.

FOLLOW, SOLVE, HAND_BACK = range(3)
"""How `SingleRows` answers questions: by a recursion that follows rows, and is begun and renewed in
the core; by solving the sums; or by weights that Python code has made."""

UNSOLVED, SOLVED, TO_TELL = range(3)
"""What became of a solution: Python code must make it; it answers; or it answers once Python code,
which has seen whether to warn of it, lets it (`SingleRows.hold`)."""

RENEWAL_ROWS, RENEWAL_ROWS_PER_FEATURE = 16_384, 16
"""A recursion is replaced at multiples of 16,384 rows, or of 16 rows per feature.

Learning never amplifies the errors of an inverse relative to the sums: the errors only add up.
Measured over 20,000 rows of 5 to 64 features, independent or correlated, with outliers or far from
0: the weights differ from solved weights by 1e-16 to 3e-12, after 20,000 rows as after 2,000.
"""

ROWS_BETWEEN_TRIALS = 1024
"""Number of rows after which an inverse that lacked digits is tried again."""

MAX_ROWS_BETWEEN_PREDICTIONS, FEATURES_PER_ROW_BETWEEN = 4, 16
"""A recursion learns rows only while every 4 rows, or features / 16, have a prediction."""

MAX_RUNNING_LEVERAGE = 1e4
"""Largest ratio of a row to earlier rows and ridge in a direction, for a recursion beside the sums.

It keeps 12 digits in every direction.
"""

# Registers of a model, and checkpoints of its ridge.

PREDICTED_AT, VALID_UNTIL, NEXT_DUE, SHARE = range(4)
"""Registers of a model, the few numbers that Python and C share: counts of rows at the last
prediction, from which the weights no longer answer, and at which a ridge is chosen; and the share
of the ridge that decay has left."""

DUE_WEIGHT = 4
"""Register of a model: weight of all rows at which a ridge is chosen, also before the count of rows
says so, if the rows are far from equally weighted; 0.0 if the weight does not matter."""

TRIED_AT = 5
"""Register of a model: count of rows at which the core met an inverse that lacked digits; minus
infinity if it has met none since the last choice of a ridge."""

N_REGISTERS = 6

RIDGE, BASE_RIDGE, IS_SCALED, IS_BASE_SCALED, DOUBLES_AT = range(5)
UNTIL_TIME, UNTIL_REST, IS_KNOWN, BEGAN = range(5, 9)
"""Numbers of the choice of a ridge, which Python and C write (see `onlinels.linear.ridge.Penalty`):
the ridge in force, and that selected when the number of rows last doubled, NaN for none; whether
each acts on scaled features; the number of rows at which the next doubles; the time at which a
choice is due, the sum of two numbers, NaN for none; whether the only values of features are known;
and the count of rows from which others begin."""

N_CHOICE = 9

CHOSEN_ELSEWHERE, RAW, STANDARD, RAW_OR_STANDARD = range(4)
"""The units that a ridge may act on which C selects: raw or standardised features, or either;
CHOSEN_ELSEWHERE if other code selects it."""

MIN_SELECTION_ROWS = 2
"""Total weight of rows from which a ridge is selected; below it, the paper's ridge is in force."""

LEAST_GROWTH, FEATURES_AT_DOUBLINGS = 1 / 16, 8192
"""After 16 rows, a checkpoint comes whenever the number of rows has grown by a sixteenth.

A choice costs the cube of the number of features, and learning only the square, so the growth is
larger with many features: an eighth with 512 features, a quarter with 2,048, and twofold from 8,192
on. Over forty simulated streams in a bad order, the squared error relative to that of a ridge
selected just then was 1.002 on average and at most 1.09; with checkpoints at doublings, up to 31.
"""

MEMORIES_BETWEEN_SELECTIONS = 4
"""Number of memories (rows or time in which weights decay to 1/e) after which a ridge is due."""

DUE_TOLERANCE = 1e-9
"""Rounding of the weight of all rows, relative to it, that does not make a ridge due or not."""

LEAST_DUE_SHARE = 0.25
"""Share of the weight at which a ridge is due, below which it is due, too: from a half to a quarter
of the weight at the last choice is left."""

ROWS_SELECTED_ONE_BY_ONE = 16
"""Number of rows up to which every row is a checkpoint."""

MIN_FEATURES_TO_KEEP_UNITS = 16
"""Number of varying features from which units are selected only when the number of rows doubles.

Measured on 107 fresh streams, relative to units that are selected with every ridge: with at least
18 features, errors were 0.96, 1.002 and 1.0002 times as large in rows 1 to 20, 21 to 100 and 101
to 1,000; with fewer features up to 1.7 times.
"""

MIN_ROWS_PER_FEATURE = 3.0
"""Rows per varying feature from which a choice may be kept, with more than 128 such features.

With fewer rows, selecting a ridge by the rank of the rows takes less time than testing one.
"""

MAX_UNITS_GROWTH = 4.1
"""Factor by which the square of a unit may have changed before a choice is not kept.

It is hardly ever met exactly, where rounding would decide.
"""

# The clock of a half-life.

NOW, LOW, TIMED, HALF_LIFE, UNTIL, UNTIL_LOW = range(6)
"""The hands of a clock, which rows move: the time of the latest row is NOW + LOW, of which dates,
in nanoseconds, need both; NOW is minus infinity before the first row, and NaN where these cannot
tell the time. Then, whether a row had a time; the half-life; and the time at which a ridge is
chosen, UNTIL + UNTIL_LOW."""

N_HANDS = 6

MAX_TIME = 2.0**62
"""Magnitude of times below which `onlinels.core` passes them."""

LOW_PART = 2**32
"""Nanoseconds of dates that LOW tells: NOW tells multiples of them."""

MAX_HALF_LIVES = 40.0
"""Half-lives after which the weight of a row, 1e-12, no longer counts."""
# Selection of a ridge.

RIDGES_PER_DECADE = 256
"""Number of ridges per decade in the finest grid."""

COARSE, FINE = RIDGES_PER_DECADE // 2, RIDGES_PER_DECADE // 32
"""Steps of the grids of ridges that are compared: over the whole range, then around the best."""

MIN_RELATIVE_RIDGE = 1e-13
"""Smallest ridge, relative to the norm of the Gram; below it float64 sums contain noise."""

MIN_RIDGE_IF_DEPENDENT = 1e-6
"""Smallest ridge if columns depend on each other, relative to the squares of these columns.

Weights along dependent combinations are rounding errors divided by the ridge. Measured at 1e-8:
the predictions of rows of weight 2 and of rows that come twice agreed to 7e-9; scikit-learn's
checks require 4e-9.
"""

MIN_INDEPENDENT_SHARE = 1e-12
"""Share of the sum of squares of a column from which it is independent of the other columns."""

MIN_COMBINED_SHARE = 1e-6
"""Share, for columns of unit length, from which a column is part of a combination of others."""

MAX_RELATIVE_RIDGE = 1e3
"""Largest ridge, relative to the norm of the Gram: weights shrink to 0.1%."""

MAX_RIDGE_EXPONENT = 280
"""Ridges lie between 1e-280 and 1e280, so that no sum overflows."""

TIE_TOLERANCE = 1e-9
"""Difference from the minimum of a criterion up to which a larger ridge is preferred."""

LIKELIHOOD_TOLERANCE = 1e-3
"""The same difference for log-likelihoods.

If the rows do not outnumber the features, they can be fitted exactly: the likelihood is flat
towards 0, and rounding errors would decide.
"""

SQUARED_ERROR_TOLERANCE = 1e-6
"""The same relative difference for squared errors on held-out folds, far above rounding."""

MAX_ROUNDING_ERROR = 1e-14
"""Squared error, relative to the squares of the targets, up to which it is rounding."""

MAX_PARAMETERS_PER_ROW = 5.0
"""Parameters per row of weight 1 up to which errors of new rows are known from the residuals.

With more parameters, the remembered rows are interpolated, and the residuals are rounding.
"""

MAX_UNITS_RATIO = 2.1
"""Ratio of the largest unit to the smallest up to which raw features come first.

Few rows of small whole numbers often have the ratio 2 exactly, where rounding would decide.
"""

MAX_TIE = 2.0
"""Difference in minus twice the log-likelihood up to which the first of two kinds of units is
selected."""

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

LATE_CAUTION = 0.2
"""Part of the expected misses by which intervals are too wide if targets are very late.

The size of errors changes before late targets arrive, more often upwards. With 1,000 rows of delay,
90% intervals contained 1.5% more of the targets than without it.
"""

MIN_RELATIVE_DEVIATION = 1e-9
"""Standard deviation, relative to the mean, below which differences are rounding errors."""

ROWS_OF_SCALE = 1024
"""Number of rows after which variances that are rounding errors are cleared."""

MAX_ROW_WEIGHT = 1e5
"""Largest weight of a row."""

MAX_CATEGORIES = 64
"""Number of texts of one name that are features; later texts are unknown."""

MIN_UNIT_EXPONENT = -500
"""Least power of 2 as a unit, so that no value in this unit exceeds float64."""

LABEL_RATE = 0.5
"""Each further recent error multiplies the share of an expert of classes by exp(-0.5).

Errors are those made before learning each row.
"""

NUMBER_RATE = 0.2
"""The share of an expert of numbers is multiplied by exp(-0.2) for each error as large as the
recent mean error.

From 0.15 to 0.3 the mean absolute error on twenty streams stayed within 1%.
"""

DELAY_UNIT = 5.0
"""Delay in rows at which errors are 1.4 times less informative: see `pace_of`.

From 2 to 20 the mean accuracy on twenty-five streams stayed within 0.1 points. From 3 to 50 the
mean absolute error on twenty streams stayed within 1%; with 50, 90% intervals contain fewer late
targets.
"""

ROWS_LEARNT, DELAY, LAST_LABEL, TARGET_UNIT = range(4)
N_ERRORS, ERROR_WEIGHT, MEAN_ERROR, LOG_WIDTH, LEAST_TARGET, LARGEST_TARGET = range(4, 10)
"""Numbers of a stream model, which Python and C write: rows learnt; by how many rows the last label
was late; and its column, -1 for none. Of models of numbers: the unit of the targets of plain least
squares, the power of 2 above the first target other than 0; the number of errors of the forecast;
the weight of recent rows, the recent mean absolute error, and the logarithm of the factor on the
width of intervals that follows from this error; the smallest and the largest target."""

N_STREAM_NUMBERS = 10

N_FEATURES, LABEL_BEFORE, IN_SCALE, N_BEST, N_HEAD = range(5)
"""The first numbers of the forecast for a row of classes: of features; the column of the last
label; whether the scale has learnt the row; and of experts, 0 before the first row is learnt. Then
the scaled features, the class that each expert predicts, and the scores of their mixture."""

BEFORE, LATEST, N_LAGS = range(3)
"""What a row of numbers is learnt with: the last two targets, of which the first is NaN before the
second row, then the values of the last row. They follow the forecasts of all experts and their
mixture in the forecast for a row, which is empty before the first row is learnt.

On fifteen streams, one more lag reduces the mean absolute error by 0.0%, and one less increases it
by 0.4% (on elec2's demand by 9%).
"""

N_LABELS, N_LOST, N_UNSURE, N_ASKED, N_STORED, WERE_LOST, WERE_UNSURE, N_COUNTS = range(8)
"""Counts of labels and forecasts: see `onlinels.stream.waiting.Matches`."""

N_JUDGED_LABELS = 500
"""Number of labels after which the model looks at how many of them found their forecasts."""
