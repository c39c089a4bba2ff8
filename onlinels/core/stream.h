/* One row of a stream: scales, fixed units, cells, linear experts, and how the experts of classes are mixed.
 *
 * Like recursion.h, C99 without Python, malloc, BLAS or global state. What each part is for stands in
 * `onlinels/stream/features.py`, and which experts there are in `classifier.py` and `regressor.py` beside it.
 */
#ifndef ONLINELS_STREAM_H
#define ONLINELS_STREAM_H

#include <math.h>

#include "classes.h"
#include "recursion.h"

#define MAX_DEVIATIONS 6.0
#define LEAST_DEVIATION 1e-155
#define MIN_SCALE_WEIGHT 4.0
#define OUTLIERS_BEFORE_RESET 5.0
#define SCALE_DECAY 0.9995
#define CELLS_OF_PARTITION 64
#define DEVIATIONS_IN_BINS 4.0
#define LOG_LOSS_DECAY 0.995
#define MIN_PARTITION_SHARE 1e-300
#define GRADIENT_RATE 0.01
#define MAX_ROW_LEVERAGE 1e14
#define N_LINEAR 5
#define MIN_RIDGE_SHARE 0.0625
#define ERROR_DECAY 0.998
#define MIN_SCORE -0.5
#define MAX_SCORE 1.5
#define MAX_PLAIN_VALUE 1e140
#define NUMBER_ERROR_DECAY 0.99
#define MAX_RELATIVE_ERROR 100.0
#define MAX_RANGE_EXCESS 0.1
#define MIN_ERRORS 2
#define INTERVAL_PROBABILITY 0.9
#define INTERVAL_DEVIATIONS 1.6448536269514722
#define DEVIATION_PER_ABSOLUTE 1.2533141373155001
#define WIDTH_STEP 0.05
#define MAX_LOG_WIDTH 3.0
#define LATE_CAUTION 0.2
#define MAX_ROW_WEIGHT 1e5
#define MIN_RELATIVE_DEVIATION 1e-9
#define ROWS_OF_SCALE 1024
#define LABEL_RATE 0.5
#define NUMBER_RATE 0.2
#define DELAY_UNIT 5.0
#define MIN_UNIT_EXPONENT (-500)

/* Numbers of a stream model, which Python and C share: see constants.py. */
enum { ROWS_LEARNT, DELAY, LAST_LABEL, TARGET_UNIT, N_ERRORS, ERROR_WEIGHT, MEAN_ERROR, LOG_WIDTH, LEAST_TARGET,
       LARGEST_TARGET, N_STREAM_NUMBERS };

/* The factor on the speed at which shares and widths follow errors of labels that are `delay` rows late. */
INLINE double pace_of(double delay) { return 1.0 / sqrt(1.0 + delay / DELAY_UNIT); }

/* The power of 2 above a value other than 0. */
INLINE real unit_of(real value)
{
    int exponent;
    frexp(value, &exponent);
    return (real)ldexp(1.0, exponent > MIN_UNIT_EXPONENT ? exponent : MIN_UNIT_EXPONENT);
}

/* ---- Scales -------------------------------------------------------------------------------------- */

/* The parts of a scale of m features: each (m). */
enum { COUNTS, MEANS, VARIANCES, FAR, N_SCALE_PARTS };

/* z = (x - mean) / deviation, within 6 deviations; 0 if x is unknown (NaN) or no row is learnt. */
static void scale_row(ptrdiff_t m, const real *scale, const real *x, real *z)
{
    for (ptrdiff_t i = 0; i < m; i++) {
        const real difference = x[i] - scale[MEANS * m + i], deviation = sqrt(scale[VARIANCES * m + i]);
        real scaled = difference / deviation;
        if (!(deviation > LEAST_DEVIATION)) /* A value other than the only one counts as one deviation. */
            scaled = scale[i] == 0.0 ? 0.0 : (real)((difference > 0.0) - (difference < 0.0));
        scaled = scaled < MAX_DEVIATIONS ? scaled : scaled >= MAX_DEVIATIONS ? MAX_DEVIATIONS : 0.0;
        z[i] = scaled > -MAX_DEVIATIONS ? scaled : -MAX_DEVIATIONS;
    }
}

/* Learn the n-th row x into the scale: Welford's recursion with weights that decay. */
static void learn_scale(ptrdiff_t m, double n, const real *x, real *scale)
{
    /* The mean of a value that has become constant never converges exactly. */
    const int clears = fmod(n, ROWS_OF_SCALE) == 0.0;
    for (ptrdiff_t i = 0; i < m; i++) {
        const real mean = scale[MEANS * m + i], known = x[i] == x[i], least = MIN_RELATIVE_DEVIATION * mean;
        const real was = scale[VARIANCES * m + i];
        const real variance = clears && was > 0.0 && was < least * least ? least * least : was;
        real count = scale[i], difference = known != 0.0 ? x[i] - mean : 0.0, n_far = 0.0;
        const real deviation = sqrt(variance), limit = MAX_DEVIATIONS * deviation;
        if (difference * difference > MAX_DEVIATIONS * MAX_DEVIATIONS * variance && deviation > LEAST_DEVIATION
            && count >= MIN_SCALE_WEIGHT) {
            n_far = scale[FAR * m + i] + 1.0;
            difference = difference > limit ? limit : difference < -limit ? -limit : difference;
        }
        const int is_reset = n_far == OUTLIERS_BEFORE_RESET;
        count = SCALE_DECAY * (is_reset ? 0.0 : count) + known;
        if (is_reset)
            difference = 0.0;
        const real share = known / (count > 1.0 ? count : 1.0), square = difference * difference;
        const real old = is_reset ? 0.0 : variance;
        scale[i] = count;
        scale[MEANS * m + i] = (is_reset ? x[i] : mean) + share * difference;
        scale[VARIANCES * m + i] = old + share * (square - share * square - old);
        scale[FAR * m + i] = is_reset ? 0.0 : n_far;
    }
}

/* ---- Experts ------------------------------------------------------------------------------------- */

/* A linear expert: a recursion or, without an inverse, a softmax regression. */
typedef struct {
    ptrdiff_t size, n;   /* numbers of the activations that it sees, and of its outputs */
    const int64_t *view; /* (size): places of these activations in a row; equal views have one `seen` */
    recursion_t memory;
    real *seen, *image;  /* (size): the activations z of a row, and B z */
    double gain;
} linear_t;

typedef struct {
    ptrdiff_t m, n_units, n_parts, n_labels, n_cells, size, n_scores, n;
    const real *input_weights;      /* (m, n_units), by rows */
    const real *biases;             /* (n_units) */
    const int64_t *seen;            /* (3, n_parts): the features of every partition, */
    const real *bins, *shifts;      /* (3, n_parts): and how they are cut */
    const real *decays;             /* (n_parts + 1): of partitions, and of the cells of last labels */
    real *cells;                    /* (n_cells, 1 + n_labels), by rows: weight in all and of every class */
    real *shares;                   /* (n_parts): of partitions in the mixture */
    const int64_t *features;        /* (m): places of features, */
    const int64_t *labels, *mixture; /* (n_labels): of last labels, and of the mixture */
    const double *forgetting;       /* of the memories of the first linear experts */
    linear_t linear[N_LINEAR];      /* with n_scores outputs in all, and n of each softmax regression */
} experts_t;

/* The scores of a row, by expert: linear ones first, then the shares of classes after the last label. The last
 * one is left to other code. */
enum { PLAIN = N_LINEAR + 1, N_EXPERTS };

typedef struct {
    ptrdiff_t last;    /* the column of the last label; -1 for none */
    real *z;           /* (m) */
    real *wide;        /* (size): [units, 1, then features, last labels, mixture at their places] */
    real *scores;      /* (n_scores + n) */
    real *likelihoods; /* (n_parts) */
    int64_t *cells;    /* (n_parts + 1) */
} stream_row_t;

/* The share of a class in a cell, by Laplace's rule of succession for one row in all. */
INLINE real share_of(const experts_t *e, int64_t cell, ptrdiff_t label)
{
    const real *sums = e->cells + cell * (1 + e->n_labels);
    return (sums[1 + label] + 1.0 / (real)e->n_labels) / (sums[0] + 1.0);
}

/* Whether a place from an array lies from 0 to below `end`, checked wherever a place is used. */
INLINE int is_place(int64_t place, ptrdiff_t end) { return place >= 0 && place < end; }

/* A number within [0, most]; 0 for NaN. */
INLINE real within(real x, real most) { return x > 0.0 ? (x < most ? x : most) : 0.0; }

/* The cells of a row: one of each partition, and one of the last label. */
static void find_cells(const experts_t *e, const stream_row_t *row)
{
    const ptrdiff_t n = e->n_parts;
    for (ptrdiff_t part = 0; part < n; part++) {
        int64_t cell = 0, stride = 1;
        for (ptrdiff_t k = part; k < 3 * n; k += n) {
            const real z = is_place(e->seen[k], e->m) ? row->z[e->seen[k]] : 0.0;
            const real last = within(e->bins[k] - 1.0, CELLS_OF_PARTITION - 1.0);
            cell += stride * (int64_t)within(z * (e->bins[k] / DEVIATIONS_IN_BINS) + e->shifts[k], last);
            stride *= (int64_t)last + 1;
        }
        row->cells[part] = CELLS_OF_PARTITION * part + (is_place(cell, CELLS_OF_PARTITION) ? cell : 0);
    }
    row->cells[n] = CELLS_OF_PARTITION * n + (is_place(row->last, e->n_labels) ? 1 + row->last : 0);
}

/* tanh(z'V + b), for units. */
static void activate(const experts_t *e, const stream_row_t *row)
{
    real *units = row->wide;
    const real one = 1.0;
    memcpy(units, e->biases, (size_t)e->n_units * sizeof(real));
    for (ptrdiff_t j = 0; j < e->m; j++)
        add_outer(e->n_units, 1, 1, row->z[j], e->input_weights + j * e->n_units, &one, units);
    for (ptrdiff_t i = 0; i < e->n_units; i++)
        units[i] = tanh(units[i]);
}

/* Compute the activations and scores of a row. */
static void score(const experts_t *e, const stream_row_t *row)
{
    const ptrdiff_t n_labels = e->n_labels;
    real *scores = row->scores;
    memset(row->wide, 0, (size_t)e->size * sizeof(real));
    activate(e, row);
    row->wide[e->n_units] = 1.0;
    for (ptrdiff_t j = 0; j < e->m; j++)
        if (is_place(e->features[j], e->size))
            row->wide[e->features[j]] = row->z[j];
    if (is_place(row->last, n_labels) && is_place(e->labels[row->last], e->size))
        row->wide[e->labels[row->last]] = 1.0;
    find_cells(e, row);
    for (ptrdiff_t k = 0; k < n_labels; k++) {
        real mixture = -1.0 / (real)n_labels;
        for (ptrdiff_t part = 0; part < e->n_parts; part++)
            mixture += e->shares[part] * share_of(e, row->cells[part], k);
        if (is_place(e->mixture[k], e->size))
            row->wide[e->mixture[k]] = mixture;
    }
    for (const linear_t *l = e->linear; l < e->linear + N_LINEAR; l++) {
        for (ptrdiff_t i = 0; i < l->size && (l == e->linear || l->view != e->linear->view); i++)
            l->seen[i] = is_place(l->view[i], e->size) ? row->wide[l->view[i]] : 0.0;
        for (ptrdiff_t k = 0; k < l->n; k++)
            scores[k] = dot(l->size, l->memory.weights + k * l->size, l->seen);
        if (!l->memory.inverse)
            exponentiate(l->n, 1.0, scores);
        scores += l->n;
    }
    for (ptrdiff_t k = 0; k < e->n; k++)
        scores[k] = k < n_labels ? share_of(e, row->cells[e->n_parts], k) : 0.0;
}

/* Compute what it takes to learn a scored row of weight w. Return 0 if the row outweighs others too much, or if a
 * ridge has to be restored before. */
static int prepare_experts(experts_t *e, double w)
{
    const double *decay = e->forgetting;
    for (linear_t *l = e->linear; l < e->linear + N_LINEAR && l->memory.inverse; l++, decay++) {
        const double *factors = l->memory.factors, scale = factors[SCALE] * *decay;
        multiply(l->size, &l->memory, l->seen, l->image);
        const double total = scale + w * (double)dot(l->size, l->image, l->seen);
        if (!(total > 0.0 && total <= MAX_ROW_LEVERAGE * scale) || factors[KEPT] * *decay < MIN_RIDGE_SHARE)
            return 0;
        l->gain = w / total;
    }
    return 1;
}

/* Learn a prepared row of weight w and of a class, given the errors of all scores of linear experts; no expert
 * could predict a new class. */
static void learn_experts(const experts_t *e, const stream_row_t *row, const real *errors, ptrdiff_t column,
                          int is_new, double w)
{
    real sum = 0.0, most = 0.0;
    const double *decay = e->forgetting;
    for (const linear_t *l = e->linear; l < e->linear + N_LINEAR; errors += l->n, l++)
        if (l->memory.inverse)
            absorb(l->size, l->n, &l->memory, *decay++, l->gain, l->image, errors);
        else /* W += 0.01 w z (y - softmax(z'W))' */
            add_outer(l->size, l->n, 1, (real)(w * GRADIENT_RATE), l->seen, errors, l->memory.weights);
    /* A partition of loss L weighs exp(-L), where L decays. */
    for (ptrdiff_t part = 0; is_place(column, e->n_labels) && !is_new && part < e->n_parts; part++) {
        row->likelihoods[part] = share_of(e, row->cells[part], column);
        most = row->likelihoods[part] > most ? row->likelihoods[part] : most;
    }
    for (ptrdiff_t part = 0; most > 0.0 && part < e->n_parts; part++) {
        const real likelihood = row->likelihoods[part] / most;
        e->shares[part] = pow(e->shares[part], LOG_LOSS_DECAY) * (w == 1.0 ? likelihood : pow(likelihood, w));
        sum += e->shares[part];
    }
    for (ptrdiff_t part = 0; most > 0.0 && part < e->n_parts; part++) {
        const real share = e->shares[part] / sum;
        e->shares[part] = share > MIN_PARTITION_SHARE ? share : MIN_PARTITION_SHARE;
    }
    /* Rows without weight count nowhere. */
    for (ptrdiff_t part = 0; w > 0.0 && e->n_labels && part <= e->n_parts; part++) {
        real *sums = e->cells + row->cells[part] * (1 + e->n_labels);
        for (ptrdiff_t k = 0; k <= e->n_labels; k++)
            sums[k] = e->decays[part] * sums[k] + (real)w * (real)(k == 0 || k == 1 + column);
    }
}

/* The shares of n experts in a forecast: in proportion to p_i exp(-rate L_i), with priors p and discounted
 * errors L. */
static void share_out(ptrdiff_t n, const real *priors, const real *errors, double rate, real *shares)
{
    real fewest = errors[0], sum = 0.0;
    for (ptrdiff_t i = 1; i < n; i++)
        fewest = errors[i] < fewest ? errors[i] : fewest;
    for (ptrdiff_t i = 0; i < n; i++)
        sum += shares[i] = priors[i] * exp(rate * (fewest - errors[i]));
    for (ptrdiff_t i = 0; i < n; i++)
        shares[i] /= sum;
}

/* Mix the scores of experts, (N_EXPERTS, n), within a range, by their shares. Also store the best class of every
 * expert. */
static void mix(ptrdiff_t n, const real *scores, const real *priors, const real *errors, double rate, real *best,
                real *RESTRICT mixture)
{
    real shares[N_EXPERTS];
    share_out(N_EXPERTS, priors, errors, rate, shares);
    memset(mixture, 0, (size_t)n * sizeof(real));
    for (ptrdiff_t i = 0; i < N_EXPERTS; i++, scores += n) {
        ptrdiff_t most = 0;
        for (ptrdiff_t k = 0; k < n; k++) {
            real known = scores[k] > MIN_SCORE ? scores[k] : MIN_SCORE;
            known = known < MAX_SCORE ? known : MAX_SCORE;
            mixture[k] += shares[i] * known;
            most = scores[k] > scores[most] ? k : most;
        }
        best[i] = (real)most;
    }
}

/* Count the errors of experts whose best classes are known, and the losses of n_scales scales of a softmax of
 * their mixture (n), which `calibrate` in `onlinels/linear/scoring.py` defines, after a row of a class. */
static void judge(ptrdiff_t n, ptrdiff_t n_scales, ptrdiff_t column, double count, double w, const real *best,
                  const real *mixture, const real *scales, real *errors, real *losses)
{
    for (ptrdiff_t i = 0; i < N_EXPERTS; i++)
        errors[i] = ERROR_DECAY * errors[i] + (best[i] != (real)column ? (real)w : 0.0);
    add_losses(n, mixture, column, w, count, n_scales, scales, losses);
}

/* ---- Numbers ------------------------------------------------------------------------------------- */

/* What is forecast: the target, and its change from the last target. */
enum { LEVEL, CHANGE, N_QUANTITIES };

/* Experts beside the linear ones: plain least squares, the last target, and the mean. */
enum { PLAIN_NUMBER, LAST_NUMBER, MEAN_NUMBER, N_OTHERS };
#define MAX_FORECASTS 16

/* What was known of earlier rows when a row was forecast: the last two targets, of which the first is NaN before the
 * second row; then the values (m) of the last row. */
enum { BEFORE, LATEST, N_LAGS };

/* What models of numbers have learnt beside their linear experts. */
typedef struct {
    real *targets;             /* (N_SCALE_PARTS, N_QUANTITIES): the scale of both quantities */
    const int64_t *quantities; /* the quantity that each output of a linear expert forecasts */
    const real *priors;        /* of all experts */
    real *losses;              /* of all experts, in mean errors of the forecast */
    real *past, *late;         /* (N_LAGS + m): of the last row, and of the last row whose target was late */
    double *numbers;           /* (N_STREAM_NUMBERS) */
} numbers_t;

/* The inputs (2 m + 2) of a row x: scaled features, their changes from the last row, and the last target and its
 * change. */
static void see_changes(ptrdiff_t m, const real *scale, const numbers_t *t, const real *past, const real *x,
                        real *inputs)
{
    const real lags[N_QUANTITIES] = {past[LATEST], past[LATEST] - past[BEFORE]};
    scale_row(m, scale, x, inputs);
    memset(inputs + m, 0, (size_t)(m + N_LAGS) * sizeof(real));
    if (t->numbers[ROWS_LEARNT] == 0.0)
        return;
    scale_row(m, scale, past + N_LAGS, inputs + m);
    for (ptrdiff_t i = 0; i < m; i++)
        inputs[m + i] = inputs[i] - inputs[m + i];
    scale_row(N_QUANTITIES, t->targets, lags, inputs + 2 * m);
}

/* The median of n values by shares, interpolated between the middles of the shares. */
static real median_of(ptrdiff_t n, const real *values, const real *shares)
{
    ptrdiff_t order[MAX_FORECASTS];
    real sum = 0.0, middle = 0.0;
    for (ptrdiff_t i = 0, k; i < n; order[k] = i, i++)
        for (k = i; k > 0 && values[order[k - 1]] > values[i]; k--)
            order[k] = order[k - 1];
    for (ptrdiff_t k = 0; k < n; k++) {
        const real before = middle, value = values[order[k]], share = shares[order[k]];
        middle = sum + share / 2.0;
        sum += share;
        if (middle > 0.5) {
            const real low = k ? values[order[k - 1]] : value;
            return k ? low + (value - low) / (middle - before) * (0.5 - before) : value;
        }
    }
    return values[order[n - 1]];
}

/* The quantity of an output of a linear expert. */
INLINE ptrdiff_t quantity_of(const numbers_t *t, ptrdiff_t output) { return t->quantities[output] == CHANGE; }

/* Write the forecasts of all experts, within the range of the targets and a margin, given the scores of n linear
 * outputs and of plain least squares, and what is known of earlier rows. Return their mixture. */
static real mix_forecasts(ptrdiff_t n, const numbers_t *t, const real *past, const real *scores, real plain,
                          real *forecasts)
{
    const double *numbers = t->numbers;
    const real mean = t->targets[MEANS * N_QUANTITIES], last = past[LATEST];
    const real margin = (real)(MAX_RANGE_EXCESS * (numbers[LARGEST_TARGET] - numbers[LEAST_TARGET]));
    const real least = (real)numbers[LEAST_TARGET] - margin, most = (real)numbers[LARGEST_TARGET] + margin;
    real shares[MAX_FORECASTS];
    for (ptrdiff_t k = 0; k < n; k++) { /* The mean or the last target, plus so many standard deviations. */
        const ptrdiff_t q = quantity_of(t, k);
        const real origin = t->targets[MEANS * N_QUANTITIES + q] + (q == CHANGE ? last : 0.0);
        forecasts[k] = scores[k] * sqrt(t->targets[VARIANCES * N_QUANTITIES + q]) + origin;
    }
    forecasts[n + PLAIN_NUMBER] = plain * (real)numbers[TARGET_UNIT];
    forecasts[n + LAST_NUMBER] = last;
    forecasts[n + MEAN_NUMBER] = mean;
    for (ptrdiff_t k = 0; k < n + N_OTHERS; k++) {
        forecasts[k] = forecasts[k] > least ? forecasts[k] : least;
        forecasts[k] = forecasts[k] < most ? forecasts[k] : most;
    }
    share_out(n + N_OTHERS, t->priors, t->losses, NUMBER_RATE * pace_of(numbers[DELAY]), shares);
    /* A median limits the effect of an expert far from all others, until errors are known. */
    return numbers[N_ERRORS] > 0.0 ? dot(n + N_OTHERS, shares, forecasts)
                                   : median_of(n + N_OTHERS, forecasts, shares);
}

/* The standard deviation of a new target, infinite before the second error. */
static double deviation_of(const double *numbers)
{
    return numbers[N_ERRORS] < MIN_ERRORS ? HUGE_VAL
                                          : DEVIATION_PER_ABSOLUTE * numbers[MEAN_ERROR] * exp(numbers[LOG_WIDTH]);
}

/* Count the errors of n forecasts and of their mixture, after a row of weight w. Errors of late targets count longer:
 * their pace is below 1. */
static void judge_number(ptrdiff_t n, const numbers_t *t, const real *forecasts, double mixture, double target,
                         double w, double pace)
{
    double *numbers = t->numbers;
    const double error = fabs(mixture - target), decay = 1.0 - (1.0 - NUMBER_ERROR_DECAY) * pace;
    if (numbers[N_ERRORS] >= MIN_ERRORS) {
        /* Compared with the current width, which earlier late targets have changed already. */
        const double missed = error > INTERVAL_DEVIATIONS * deviation_of(numbers);
        const double expected = (1.0 - INTERVAL_PROBABILITY) * (1.0 - LATE_CAUTION * (1.0 - pace));
        /* Larger weights would make the width oscillate. */
        const double width = numbers[LOG_WIDTH] + (w < 1.0 ? w : 1.0) * WIDTH_STEP * pace * (missed - expected);
        numbers[LOG_WIDTH] = width < -MAX_LOG_WIDTH ? -MAX_LOG_WIDTH : width < MAX_LOG_WIDTH ? width : MAX_LOG_WIDTH;
    }
    numbers[ERROR_WEIGHT] = decay * numbers[ERROR_WEIGHT] + w;
    const double mean = numbers[MEAN_ERROR], weight = numbers[ERROR_WEIGHT], most = MAX_RELATIVE_ERROR * mean;
    const double known = mean > 0.0 && error > most ? most : error;
    const double after = numbers[MEAN_ERROR] = weight != 0.0 ? mean + w * (known - mean) / weight : 0.0;
    for (ptrdiff_t k = 0; after > 0.0 && k < n; k++) {
        const double relative = fabs(forecasts[k] - target) / after;
        const double loss = relative < MAX_RELATIVE_ERROR ? relative : MAX_RELATIVE_ERROR;
        t->losses[k] = (real)(decay * t->losses[k] + w * loss);
    }
    numbers[N_ERRORS] += w > 0.0;
}

/* Learn a target and its row (m), after their errors are judged, given what is known of earlier rows. */
static void learn_number(ptrdiff_t m, const numbers_t *t, const real *past, double target, const real *x)
{
    double *numbers = t->numbers;
    const int is_first = numbers[ROWS_LEARNT] == 0.0;
    const real both[N_QUANTITIES] = {(real)target, is_first ? NAN : (real)target - past[LATEST]};
    numbers[LEAST_TARGET] = is_first || target < numbers[LEAST_TARGET] ? target : numbers[LEAST_TARGET];
    numbers[LARGEST_TARGET] = is_first || target > numbers[LARGEST_TARGET] ? target : numbers[LARGEST_TARGET];
    if (numbers[TARGET_UNIT] == 0.0 && target != 0.0)
        numbers[TARGET_UNIT] = unit_of((real)target);
    learn_scale(N_QUANTITIES, numbers[ROWS_LEARNT] + 1.0, both, t->targets);
    t->past[BEFORE] = is_first ? NAN : t->past[LATEST];
    t->past[LATEST] = (real)target;
    memcpy(t->past + N_LAGS, x, (size_t)m * sizeof(real));
}

#endif
