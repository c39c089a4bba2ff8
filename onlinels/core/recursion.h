/* One row of exact online least squares: sums about a running mean, and weights that follow rows.
 *
 * C99 without Python, malloc, BLAS or global state; also valid C++. Numbers are `real`: double, or
 * float with `#define REAL float`; weights of rows are `tally_t`, double or TALLY. Matrices are stored
 * by columns (Fortran order); of symmetric ones only the upper triangle is read and written.
 *
 * For rows x with targets y, where z is x, and v is y, about the mean of all rows:
 *
 *     A'A, A'Y   sums of w z z' and w z v'                       gram, cross
 *     P          (A'A + D)^-1 with a diagonal ridge D            inverse
 *     W          P A'Y, the output weights                       weights
 *     J          min sum w |v - W'z|^2 + W'DW                    criterion
 *
 * A row is learnt in three steps, of which none fails: `prepare` takes it about the mean; P, W and J
 * `follow` it, unless it outweighs them; and `add_row` adds it to the sums.
 *
 * Sources: T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance",
 * The American Statistician 37 (1983), for the mean; A. Bjorck, "Numerical Methods for Least Squares
 * Problems" (1996), section 3.2, for P and W; R. L. Brown, J. Durbin and J. M. Evans, "Techniques for
 * testing the constancy of regression relationships over time" (1975), for J.
 */
#ifndef ONLINELS_RECURSION_H
#define ONLINELS_RECURSION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef REAL
#define REAL double
#endif
typedef REAL real;
#ifndef TALLY
#define TALLY double
#define COUNTED int64_t /* what holds a number of rows in a tally */
#endif
typedef TALLY tally_t;
typedef COUNTED counted_t;

/* Kernels use the widest vectors of the machine at hand, unless ANY_MACHINE is defined. In sums of products,
 * the compiler may also reorder the terms. */
#if !defined(ANY_MACHINE) && defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDEST "arch=x86-64-v4", "arch=x86-64-v3", "default"
#define COMPILED(options) __attribute__((noinline, target_clones(WIDEST), optimize(options))) static
#define INLINE __attribute__((always_inline)) inline static
#else
#define COMPILED(options) static
#define INLINE inline static
#endif
#define KERNEL COMPILED("O3")
#define SUM_KERNEL COMPILED("O3,associative-math,no-signed-zeros,no-trapping-math")
#define RESTRICT __restrict /* in C and C++, of gcc, clang and MSVC */
#if defined(__clang__)
#define REORDER _Pragma("clang fp reassociate(on) contract(fast)")
#else
#define REORDER
#endif

#define ROWS_AT_ONCE 4
#define COLUMNS_AT_ONCE 4
#define ROWS_BETWEEN_ORIGINS 64
#define MUCH_HEAVIER 1000.0
#define MAX_COUNTED 9007199254740992.0 /* 2^53: later rows are not told apart */
#define MIN_SCALE (1.0 / 4294967296.0)
#define EPS 2.220446049250313e-16 /* of double */
#define CONSTANT_TOLERANCE (2.0 * EPS)
#define MIN_NOISE 1e-8
#define MIN_INFORMATION 1e-12
#define MAX_MEAN_WEIGHT 0.55
#define MUCH_LARGER 1e4
#define MIN_ROWS_DWARFED 16.0

/* ---- Products ---------------------------------------------------------------------------------- */

/* x'y */
SUM_KERNEL real dot(ptrdiff_t m, const real *x, const real *y)
{
    REORDER
    real sum = 0;
    for (ptrdiff_t i = 0; i < m; i++)
        sum += x[i] * y[i];
    return sum;
}

/* sum_i w_i x_i^2 */
SUM_KERNEL real weighted_squares(ptrdiff_t m, const real *w, const real *x)
{
    REORDER
    real sum = 0;
    for (ptrdiff_t i = 0; i < m; i++)
        sum += w[i] * x[i] * x[i];
    return sum;
}

/* A = decay A + f x y', for A (m, n) */
SUM_KERNEL void add_outer(ptrdiff_t m, ptrdiff_t n, real decay, real f, const real *x, const real *y,
                          real *RESTRICT a)
{
    for (ptrdiff_t j = 0; j < n; j++, a += m) {
        const real fy = f * y[j];
        for (ptrdiff_t i = 0; i < m; i++)
            a[i] = decay * a[i] + fy * x[i];
    }
}

/* A = decay A + f x x', for a symmetric A (m, m) */
SUM_KERNEL void add_square(ptrdiff_t m, real decay, real f, const real *x, real *RESTRICT a)
{
    for (ptrdiff_t j = 0; j < m; j++, a += m) {
        const real fx = f * x[j];
        for (ptrdiff_t i = 0; i <= j; i++)
            a[i] = decay * a[i] + fx * x[i];
    }
}

/* A = A + sum_k f_k x_k x_k' over ROWS_AT_ONCE rows x_k, the first m of `size` numbers each, for a
 * symmetric A (m, m), in one pass over A: rows of a batch cost half of single rows at 64 features. */
SUM_KERNEL void add_squares(ptrdiff_t m, ptrdiff_t size, const real *f, const real *x, real *RESTRICT a)
{
    for (ptrdiff_t j = 0; j < m; j++, a += m)
        for (ptrdiff_t i = 0; i <= j; i++)
            for (ptrdiff_t k = 0; k < ROWS_AT_ONCE; k++)
                a[i] += f[k] * x[k * size + j] * x[k * size + i];
}

/* What the next function does with columns from j on, as many as `width`, which compilers know. */
INLINE void add_and_multiply(ptrdiff_t j, ptrdiff_t width, ptrdiff_t m, real f, const real *RESTRICT u,
                             real *RESTRICT a, const real *RESTRICT x, real *RESTRICT y)
{
    REORDER
    real sum[COLUMNS_AT_ONCE] = {0};
    a += j * m;
    for (ptrdiff_t i = 0; i < j; i++) { /* rows above the diagonal block */
        real of_row = 0;
        for (ptrdiff_t k = 0; k < width; k++) {
            const real b = a[k * m + i] + f * u[j + k] * u[i];
            a[k * m + i] = b;
            of_row += x[j + k] * b;
            sum[k] += b * x[i];
        }
        y[i] += of_row;
    }
    for (ptrdiff_t k = 0; k < width; k++, a += m) {
        const real fu = f * u[j + k], xk = x[j + k];
        for (ptrdiff_t i = j; i < j + k; i++) {
            a[i] += fu * u[i];
            y[i] += xk * a[i];
            sum[k] += a[i] * x[i];
        }
        a[j + k] += fu * u[j + k];
        y[j + k] = sum[k] + xk * a[j + k];
    }
}

/* A = A + f u u', then y = A x, for a symmetric A (m, m), in one pass over A.
 *
 * Four columns at a time, so that y is read and written once for four columns. */
SUM_KERNEL void add_square_and_multiply(ptrdiff_t m, real f, const real *RESTRICT u, real *RESTRICT a,
                                        const real *RESTRICT x, real *RESTRICT y)
{
    ptrdiff_t j = 0;
    memset(y, 0, (size_t)m * sizeof(real));
    for (; j + COLUMNS_AT_ONCE <= m; j += COLUMNS_AT_ONCE)
        add_and_multiply(j, COLUMNS_AT_ONCE, m, f, u, a, x, y);
    for (; j < m; j++)
        add_and_multiply(j, 1, m, f, u, a, x, y);
}

/* ---- What is kept, and a row -------------------------------------------------------------------- */

/* Columns of A'A from `start` on: their rows above `start`, and the diagonal block. */
typedef struct {
    ptrdiff_t start, width;
    real *above;      /* (start, width) */
    real *corner;     /* (width, width) */
} panel_t;

typedef struct {
    ptrdiff_t m, n, n_panels;
    int is_centred;   /* Without a mean, the next two are 0. */
    real *origin;     /* (m + n): the mean is origin + offset, */
    real *offset;     /* (m + n), with twice the digits */
    tally_t *tally;   /* number of rows, total weight, and sum of squares of the weights */
    const real *rounding; /* (m + n): errors that removals have left in the squares; NULL for none */
    panel_t *panels;  /* A'A */
    real *cross;      /* (m, n): A'Y */
    real **squares;   /* (m + n): where the diagonals of A'A and Y'Y lie */
    uint64_t *prints; /* (3, m + n): sums of hashes of all values, and of their squares; values not 0 */
} sums_t;

typedef struct {
    real *inverse;    /* (m, m): B of P = (B + gain u u') / scale; NULL if no weights follow rows */
    real *pending;    /* (m): u, which the next pass over B adds */
    double *factors;  /* scale, gain, and the share of D that decay has left */
    real *weights;    /* (m, n): W */
    real *criterion;  /* (n): J */
    real *penalties;  /* (m): D without decay */
} recursion_t;
enum { SCALE, GAIN, KEPT, N_FACTORS };

typedef struct {
    real *values;     /* (m + n): a row x, followed by its targets y */
    real *about;      /* (m + n): z and v */
    real *image;      /* (m): B z, */
    real *imaged;     /* (m): of this z, */
    double imaged_at; /* after this number of rows */
    real *scores;     /* (n): W'z + mean of y */
    real *errors;     /* (n): v - W'z */
    tally_t decay;    /* factor on all earlier weights */
    tally_t w, total; /* weight of the row, and of all rows with it */
    double own;       /* variance about the score, in units of the noise: 1 of a new target, 0 of the limit */
    tally_t weight;   /* of z z' in A'A */
} row_t;

INLINE real mean_of(const sums_t *s, ptrdiff_t column) { return s->origin[column] + s->offset[column]; }

/* z = x - mean, and v = y - mean */
KERNEL void centre(const sums_t *s, const row_t *row)
{
    const real *x = row->values, *origin = s->origin, *offset = s->offset;
    real *RESTRICT z = row->about;
    for (ptrdiff_t i = 0; i < s->m + s->n; i++)
        z[i] = (x[i] - origin[i]) - offset[i];
}

/* ---- Predicting --------------------------------------------------------------------------------- */

/* Compute the scores of a row from weights W: W'z, plus the mean of y. */
static void predict(const sums_t *s, const real *weights, const row_t *row)
{
    centre(s, row);
    for (ptrdiff_t j = 0; j < s->n; j++)
        row->scores[j] = dot(s->m, weights + j * s->m, row->about) + mean_of(s, s->m + j);
}

/* y = B x, by one pass over B, which adds the pending product too. */
static void multiply(ptrdiff_t m, const recursion_t *r, const real *x, real *y)
{
    add_square_and_multiply(m, (real)r->factors[GAIN], r->pending, r->inverse, x, y);
    r->factors[GAIN] = 0.0;
}

/* z'P z; without a pass over B if the same row was just asked for. */
static double leverage_of(const sums_t *s, const recursion_t *r, row_t *row)
{
    const size_t size = (size_t)s->m * sizeof(real);
    if (row->imaged_at != s->tally[0] || memcmp(row->imaged, row->about, size)) {
        multiply(s->m, r, row->about, row->image);
        memcpy(row->imaged, row->about, size);
        row->imaged_at = s->tally[0];
    }
    return (double)dot(s->m, row->image, row->about) / r->factors[SCALE];
}

/* W'DW of a target */
static double penalty_of(const sums_t *s, const recursion_t *r, ptrdiff_t target)
{
    return r->factors[KEPT] * weighted_squares(s->m, r->penalties, r->weights + target * s->m);
}

/* The factors v of the noise variance RSS / (n - v p) and u of u P, for p parameters: see reference.py. */
typedef struct {
    double of_parameters, of_inverse;
} errors_t;

static errors_t weights_of_errors(const sums_t *s, int forgets)
{
    const double mean = s->tally[2] / s->tally[1];
    const int decays = forgets && mean < 1.0, fills = mean > MAX_MEAN_WEIGHT;
    const errors_t e = {!decays ? 1.0 : fills ? mean : 0.0, decays && fills ? mean : 1.0};
    return e;
}

/* Turn the residual sums of squares in the errors of a row into variances about its scores. Return
 * the degrees of freedom: the weight of the rows minus the effective number of parameters. If rows are forgotten,
 * their mean weight sum w^2 / sum w comes in. */
static double scale_errors(const sums_t *s, row_t *row, errors_t e, double leverage, double n_parameters)
{
    const double free = s->tally[1] - e.of_parameters * n_parameters;
    const double factor = row->own + e.of_inverse * ((leverage > 0.0 ? leverage : 0.0) + s->is_centred / s->tally[1]);
    for (ptrdiff_t j = 0; j < s->n; j++) {
        const double left = row->errors[j], least = EPS * *s->squares[s->m + j]; /* what rounding leaves */
        row->errors[j] = (real)((left > least ? left : least) / free * factor);
    }
    return free;
}

/* Compute the variances about the scores of a row into its errors. Return the degrees of freedom,
 * with the number of parameters tr P A'A = m - tr P D. */
static double spread(const sums_t *s, const recursion_t *r, row_t *row, int forgets)
{
    const double leverage = leverage_of(s, r, row); /* from here on, P = B / scale */
    double trace = 0; /* of B D */
    for (ptrdiff_t i = 0; i < s->m; i++)
        trace += r->penalties[i] * r->inverse[i * s->m + i];
    for (ptrdiff_t j = 0; j < s->n; j++) /* RSS = J - W'DW */
        row->errors[j] = (real)(r->criterion[j] - penalty_of(s, r, j));
    const double n_parameters = (double)(s->m + s->is_centred) - r->factors[KEPT] / r->factors[SCALE] * trace;
    return scale_errors(s, row, weights_of_errors(s, forgets), leverage, n_parameters);
}

/* Whether the restricted likelihood accepts the ridge D, by Rao's score test at half a standard
 * deviation: with K = P A'A = I - P D and f = weight - number of free parameters,
 *
 *     (f W'DW / J - tr K)^2  <=  (tr K^2 - (tr K)^2 / f) / 2.
 */
static int is_accepted(const sums_t *s, const recursion_t *r, real *scratch)
{
    const double kept = r->factors[KEPT] / r->factors[SCALE], f = s->tally[1] - s->is_centred;
    double least = 0, squares = 0, penalty = 0, trace = 0, square = 0;
    multiply(s->m, r, r->pending, scratch); /* Adds the pending product to B. */
    for (ptrdiff_t j = 0; j < s->n; j++) {
        least += r->criterion[j];
        squares += *s->squares[s->m + j];
        penalty += penalty_of(s, r, j);
    }
    for (ptrdiff_t j = 0; j < s->m; j++) { /* tr P D, and tr (P D)^2 = sum d_i d_j P_ij^2 */
        const real *b = r->inverse + j * s->m;
        const double d = kept * r->penalties[j], own = d * b[j];
        trace += own;
        square += own * own + 2.0 * kept * d * weighted_squares(j, r->penalties, b);
    }
    const double effective = (double)s->m - trace, trace_of_square = (double)s->m - 2.0 * trace + square;
    const double score = f * penalty / least - effective;
    const double information = trace_of_square - effective * effective / f;
    return f > 0.0 && least > MIN_NOISE * squares && information > MIN_INFORMATION * trace_of_square
           && score * score <= 0.5 * information;
}

/* Set the full penalty of a feature that was 0 so far, of which P has the inverse of the penalty in force. */
static void set_penalty(ptrdiff_t m, const recursion_t *r, ptrdiff_t i, double penalty)
{
    r->penalties[i] = (real)penalty;
    r->inverse[i * m + i] = (real)(r->factors[SCALE] / (r->factors[KEPT] * r->penalties[i]));
}

/* ---- Learning ----------------------------------------------------------------------------------- */

/* Prepare to learn `values` with a weight w > 0, after a decay of all earlier weights.
 *
 * With N for the weight of the rows before, A'A grows by N w / (N + w) z z' (Chan, Golub, LeVeque). */
static void prepare(const sums_t *s, row_t *row, tally_t w, tally_t decay)
{
    const tally_t past = s->tally[1] * decay;
    row->decay = decay;
    row->w = w;
    row->total = past + w;
    row->weight = s->is_centred ? past * (w / row->total) : w;
    centre(s, row);
}

/* Whether a prepared row dwarfs the sums in some column that varies: its square is so much larger that its
 * removal would leave few digits. */
static int dwarfs(const sums_t *s, const row_t *row)
{
    const double share = CONSTANT_TOLERANCE * CONSTANT_TOLERANCE * s->tally[1];
    if (s->tally[1] < MIN_ROWS_DWARFED || row->decay < EPS)
        return 0;
    for (ptrdiff_t i = 0; i < s->m + s->n; i++) {
        const double z = row->about[i], mean = mean_of(s, i), square = *s->squares[i];
        if (row->w * z * z > MUCH_LARGER * square && square > share * mean * mean)
            return 1;
    }
    return 0;
}

/* Learn a row z into P and W after a decay, given B z, v - W'z, and the gain: w P z / (1 + w z'P z) = gain B z. */
static void absorb(ptrdiff_t m, ptrdiff_t n, const recursion_t *r, double decay, double gain, const real *image,
                   const real *errors)
{
    double *factors = r->factors;
    /* W = W + gain B z e' */
    add_outer(m, n, 1, (real)gain, image, errors, r->weights);
    /* B = B - gain (B z)(B z)', which the next pass over B adds */
    memcpy(r->pending, image, (size_t)m * sizeof(real));
    factors[GAIN] = -gain;
    factors[SCALE] *= decay;
    factors[KEPT] *= decay;
    if (factors[SCALE] < MIN_SCALE) { /* P = B: a scale would leave the range of numbers in the end */
        add_square(m, (real)(1.0 / factors[SCALE]), (real)(-gain / factors[SCALE]), image, r->inverse);
        factors[GAIN] = 0.0;
        factors[SCALE] = 1.0;
    }
}

/* Learn a prepared row into P, W and J. Return 0, with nothing changed, if the row outweighs earlier rows and
 * ridge by more than `most` in its direction, so that P would lose its digits. */
static int follow(const sums_t *s, const recursion_t *r, row_t *row, double most)
{
    const double leverage = row->weight * leverage_of(s, r, row) / row->decay;
    if (!(leverage >= 0.0 && 1.0 + leverage <= most))
        return 0;
    const double scale = r->factors[SCALE] * row->decay, gain = row->weight / (scale * (1.0 + leverage));
    for (ptrdiff_t j = 0; j < s->n; j++) {
        row->errors[j] = row->about[s->m + j] - dot(s->m, r->weights + j * s->m, row->about);
        /* J = decay J + w e^2 / (1 + w z'P z): the product of the errors before and after the row */
        r->criterion[j] = (real)(row->decay * r->criterion[j] + gain * scale * row->errors[j] * row->errors[j]);
    }
    absorb(s->m, s->n, r, row->decay, gain, row->image, row->errors);
    return 1;
}

/* The hash of a value is the first 21 bits of its first 44 bits times 2^64 / golden ratio; values that are not 0
 * are counted, too (see `onlinels/sums/removals.py`). */
KERNEL void add_hashes(ptrdiff_t size, const real *values, uint64_t *RESTRICT prints)
{
    for (ptrdiff_t i = 0; i < size; i++) {
        const double value = (double)values[i] + 0.0; /* -0.0 becomes 0.0 */
        uint64_t hash;
        memcpy(&hash, &value, sizeof(hash));
        hash = (hash >> 20) * 0x9E3779B97F4A7C15ull >> 43;
        prints[i] += hash;
        prints[size + i] += hash * hash;
        prints[2 * size + i] += value != 0.0;
    }
}

/* Move the mean by the row's share of the way to the row. A row that is much heavier than all before, as the
 * first row is, becomes the origin. From time to time the mean does, and the offset keeps what rounding takes. */
static void move_mean(const sums_t *s, const row_t *row)
{
    real share = (real)(row->w / row->total);
    if ((tally_t)MUCH_HEAVIER * row->weight < row->w) {
        memcpy(s->origin, row->values, (size_t)(s->m + s->n) * sizeof(real));
        memset(s->offset, 0, (size_t)(s->m + s->n) * sizeof(real));
        share = (real)(-row->weight / row->w);
    }
    add_outer(s->m + s->n, 1, 1, 1, row->about, &share, s->offset);
    if (s->tally[0] > 0 && s->tally[0] < (tally_t)MAX_COUNTED && (counted_t)s->tally[0] % ROWS_BETWEEN_ORIGINS)
        return;
    for (ptrdiff_t i = 0; i < s->m + s->n; i++) {
        const volatile real mean = mean_of(s, i), way = mean - s->origin[i];
        s->offset[i] = (s->origin[i] - (mean - way)) + (s->offset[i] - way);
        s->origin[i] = mean;
    }
}

/* Decay all products, and add those of a prepared row, with a weight. */
static void add_products(const sums_t *s, const row_t *row, real weight)
{
    const real decay = (real)row->decay;
    const real *z = row->about, *v = row->about + s->m;
    for (const panel_t *p = s->panels; p < s->panels + s->n_panels; p++) { /* A'A = decay A'A + w z z' */
        add_outer(p->start, p->width, decay, weight, z, z + p->start, p->above);
        add_square(p->width, decay, weight, z + p->start, p->corner);
    }
    add_outer(s->m, s->n, decay, weight, z, v, s->cross); /* A'Y = decay A'Y + w z v' */
    for (ptrdiff_t j = 0; j < s->n; j++)
        *s->squares[s->m + j] = decay * *s->squares[s->m + j] + weight * v[j] * v[j];
}

/* Decay the sums as a prepared row does, which is not added. */
static void fade(const sums_t *s, const row_t *row)
{
    if (row->decay == 1.0)
        return;
    add_products(s, row, 0);
    s->tally[1] *= row->decay;
    s->tally[2] *= row->decay * row->decay;
}

/* Add a prepared row to the sums, but not to the prints. */
static void add_to_sums(const sums_t *s, const row_t *row)
{
    add_products(s, row, (real)row->weight);
    s->tally[0] += 1;
    s->tally[1] = row->total;
    s->tally[2] = row->decay * row->decay * s->tally[2] + row->w * row->w;
    if (s->is_centred)
        move_mean(s, row);
}

/* Add a prepared row to the sums. */
static void add_row(const sums_t *s, const row_t *row)
{
    add_hashes(s->m + s->n, row->values, s->prints);
    add_to_sums(s, row);
}

#endif
