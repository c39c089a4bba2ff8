/* Weights from the sums: (A'A + D) W = A'Y by Cholesky, for at most MAX_FEATURES_SOLVED features.
 *
 * C99 without Python, malloc, BLAS or global state, like recursion.h. With f = (diag(A'A) + D)^-1/2, the system
 * f (A'A + D) f has a unit diagonal, so that the units of features do not matter. Its factor U is upper triangular,
 * from the last feature to the first:
 *
 *     f (A'A + D) f = U U'        P = f U^-T U^-1 f        W = P A'Y
 *
 * So all loops run down columns of the upper triangle, where A'A lies. On the diagonal are the reciprocals of the
 * pivots. Features that hold rounding alone have f = 0: in the system, a 1 on the diagonal and 0 elsewhere.
 *
 * Without a ridge, W has the minimum norm. If features depend on others, as they do in fewer rows than features, those
 * that others give are left out (f = 0), which has the right fit, and W is projected to the space of the rows.
 *
 * Sources: G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), section 4.2, for the factor; N. J. Higham,
 * "Accuracy and Stability of Numerical Algorithms" (2002), chapter 15, for the norm of the inverse; C. Lucas, LAPACK
 * working note 161 (2004), for pivots.
 */
#ifndef ONLINELS_SOLVE_H
#define ONLINELS_SOLVE_H

#include <math.h>

#include "recursion.h"

#define MAX_FEATURES_SOLVED 128
#define MIN_EIGENVALUE_SOLVED 1e-12
#define MIN_EIGENVALUE_UNPENALISED 1e-11
#define MIN_EIGENVALUE_UNREFINED 1e-3
#define MIN_SUM_OF_SQUARES 1e-305
#define MIN_DEVIATION 1e-150
#define MAX_ROUNDING 16.0
#define MIN_PAPER_RIDGE (10.0 * EPS)
#define MAX_SHARE_LEFT_OUT 1e-24
#define GOLDEN_SECTION 0.6180339887498949
#define MIN_PIVOT 1e-8
#define MAX_REST 2e-13
#define MAX_BEYOND_ROWS 1e-9
#define MAX_NULL_ENTRY 1e-13

/* ---- Triangular matrices ------------------------------------------------------------------------ */

/* Factor A = U U' (m, m) in place. Return the determinant, or -1 if a pivot's square is at most `least`.
 *
 * Four pivots at a time, so that the columns before them are read and written once for four. */
SUM_KERNEL double factor_in_place(ptrdiff_t m, double least, real *a)
{
    REORDER
    double determinant = 1.0;
    for (ptrdiff_t end = m, start; end > 0; end = start) {
        start = end % COLUMNS_AT_ONCE ? end - 1 : end - COLUMNS_AT_ONCE;
        for (ptrdiff_t k = end - 1; k >= start; k--) {
            real *RESTRICT own = a + k * m;
            for (ptrdiff_t j = k + 1; j < end; j++) {
                const real *RESTRICT u = a + j * m, x = u[k];
                for (ptrdiff_t i = 0; i <= k; i++)
                    own[i] -= x * u[i];
            }
            const double square = (double)own[k];
            if (!(square > least))
                return -1.0;
            determinant *= square;
            const real pivot = own[k] = (real)(1.0 / sqrt(square));
            for (ptrdiff_t i = 0; i < k; i++)
                own[i] *= pivot;
        }
        const real *RESTRICT u = a + start * m;
        if (end - start == 1) {
            for (ptrdiff_t j = 0; j < start; j++)
                for (ptrdiff_t i = 0; i <= j; i++)
                    a[j * m + i] -= u[j] * u[i];
            continue;
        }
        const real *RESTRICT u1 = u + m, *RESTRICT u2 = u1 + m, *RESTRICT u3 = u2 + m;
        for (ptrdiff_t j = 0; j < start; j++) {
            const real x = u[j], x1 = u1[j], x2 = u2[j], x3 = u3[j];
            real *RESTRICT to = a + j * m;
            for (ptrdiff_t i = 0; i <= j; i++)
                to[i] -= x * u[i] + x1 * u1[i] + x2 * u2[i] + x3 * u3[i];
        }
    }
    return determinant;
}

/* X = U^-1 X for `n` columns of X (m, n), as many as compilers know, whose rows from `top` on are 0. */
INLINE void substitute(ptrdiff_t m, ptrdiff_t top, ptrdiff_t n, const real *RESTRICT u, real *RESTRICT x)
{
    ptrdiff_t k = top;
    for (; k % COLUMNS_AT_ONCE; k--) {
        const real *RESTRICT own = u + (k - 1) * m;
        for (ptrdiff_t j = 0; j < n; j++) {
            const real y = x[j * m + k - 1] *= own[k - 1];
            for (ptrdiff_t i = 0; i < k - 1; i++)
                x[j * m + i] -= y * own[i];
        }
    }
    for (k -= COLUMNS_AT_ONCE; k >= 0; k -= COLUMNS_AT_ONCE) {
        const real *RESTRICT a = u + k * m, *RESTRICT b = a + m, *RESTRICT c = b + m, *RESTRICT d = c + m;
        for (ptrdiff_t j = 0; j < n; j++) {
            real *RESTRICT y = x + j * m;
            const real yd = y[k + 3] * d[k + 3], yc = (y[k + 2] - yd * d[k + 2]) * c[k + 2];
            const real yb = (y[k + 1] - yd * d[k + 1] - yc * c[k + 1]) * b[k + 1];
            const real ya = (y[k] - yd * d[k] - yc * c[k] - yb * b[k]) * a[k];
            y[k] = ya, y[k + 1] = yb, y[k + 2] = yc, y[k + 3] = yd;
            for (ptrdiff_t i = 0; i < k; i++)
                y[i] -= ya * a[i] + yb * b[i] + yc * c[i] + yd * d[i];
        }
    }
}

/* X = U^-T U^-1 X for X (m, n) */
SUM_KERNEL void solve_factored(ptrdiff_t m, ptrdiff_t n, const real *RESTRICT u, real *RESTRICT x)
{
    REORDER
    for (; n > 0; n--, x += m) {
        ptrdiff_t k = 0;
        substitute(m, m, 1, u, x);
        for (; k + COLUMNS_AT_ONCE <= m; k += COLUMNS_AT_ONCE) {
            const real *RESTRICT a = u + k * m, *RESTRICT b = a + m, *RESTRICT c = b + m, *RESTRICT d = c + m;
            real sa = 0, sb = 0, sc = 0, sd = 0;
            for (ptrdiff_t i = 0; i < k; i++) {
                sa += a[i] * x[i];
                sb += b[i] * x[i];
                sc += c[i] * x[i];
                sd += d[i] * x[i];
            }
            const real xa = x[k] = (x[k] - sa) * a[k];
            const real xb = x[k + 1] = (x[k + 1] - sb - xa * b[k]) * b[k + 1];
            const real xc = x[k + 2] = (x[k + 2] - sc - xa * c[k] - xb * c[k + 1]) * c[k + 2];
            x[k + 3] = (x[k + 3] - sd - xa * d[k] - xb * d[k + 1] - xc * d[k + 2]) * d[k + 3];
        }
        for (; k < m; k++) {
            real sum = 0;
            for (ptrdiff_t i = 0; i < k; i++)
                sum += u[k * m + i] * x[i];
            x[k] = (x[k] - sum) * u[k * m + k];
        }
    }
}

/* |U^-1 x|^2; x is overwritten */
SUM_KERNEL double square_of_solved(ptrdiff_t m, const real *RESTRICT u, real *RESTRICT x)
{
    REORDER
    double square = 0;
    substitute(m, m, 1, u, x);
    for (ptrdiff_t i = 0; i < m; i++)
        square += (double)x[i] * (double)x[i];
    return square;
}

/* V = U^-1, the columns j to j + n - 1, of which rows from j + n on are not written. */
INLINE void invert_columns(ptrdiff_t m, ptrdiff_t j, ptrdiff_t n, const real *RESTRICT u, real *RESTRICT v)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        memset(v + k * m, 0, (size_t)(j + n) * sizeof(real));
        v[k * m + j + k] = 1;
    }
    substitute(m, j + n, n, u, v);
}

/* V = U^-1: the upper triangle of V (m, m) */
SUM_KERNEL void invert_factor(ptrdiff_t m, const real *RESTRICT u, real *RESTRICT v)
{
    REORDER
    ptrdiff_t j = 0;
    for (; j + COLUMNS_AT_ONCE <= m; j += COLUMNS_AT_ONCE)
        invert_columns(m, j, COLUMNS_AT_ONCE, u, v + j * m);
    for (; j < m; j++)
        invert_columns(m, j, 1, u, v + j * m);
}

/* tr P D = sum_j f_j^2 d_j |U^-1 e_j|^2; `scratch` is (m, COLUMNS_AT_ONCE) */
SUM_KERNEL double penalised_trace(ptrdiff_t m, const real *RESTRICT u, const real *RESTRICT f,
                                  const real *RESTRICT d, real *RESTRICT scratch)
{
    REORDER
    double trace = 0;
    for (ptrdiff_t j = 0, n; j < m; j += n) {
        n = j + COLUMNS_AT_ONCE <= m ? COLUMNS_AT_ONCE : 1;
        if (n == 1)
            invert_columns(m, j, 1, u, scratch);
        else
            invert_columns(m, j, COLUMNS_AT_ONCE, u, scratch);
        for (ptrdiff_t k = 0; k < n; k++) {
            real square = 0;
            for (ptrdiff_t i = 0; i <= j + k; i++)
                square += scratch[k * m + i] * scratch[k * m + i];
            trace += (double)(f[j + k] * f[j + k] * d[j + k] * square);
        }
    }
    return trace;
}

/* y = y + f x */
KERNEL void add_multiple(ptrdiff_t m, real f, const real *x, real *RESTRICT y)
{
    for (ptrdiff_t i = 0; i < m; i++)
        y[i] += f * x[i];
}

/* Factor A = L L' (m, m), given both its triangles: column k of L takes the place of the column pivots[k] of A.
 * `left` (m) is the diagonal, below 0 for columns to leave out; then what the pivots leave of it, below 0 for them, too.
 * The next pivot is the largest left. Return the rank, at which at most `least` is left. */
static ptrdiff_t factor_pivoted(ptrdiff_t m, double least, real *a, real *left, ptrdiff_t *pivots)
{
    for (ptrdiff_t rank = 0;; rank++) {
        ptrdiff_t p = 0;
        for (ptrdiff_t i = 1; i < m; i++)
            p = left[i] > left[p] ? i : p;
        if (!(left[p] > least))
            return rank;
        real *own = a + p * m;
        const real pivot = (real)sqrt((double)left[p]);
        left[p] = -1;
        for (ptrdiff_t i = 0; i < m; i++)
            own[i] = left[i] < 0 ? 0 : own[i] / pivot;
        own[p] = pivot;
        for (ptrdiff_t i = 0; i < m; i++) {
            if (left[i] < 0)
                continue;
            add_multiple(m, -own[i], own, a + i * m);
            left[i] = a[i * m + i] > 0 ? a[i * m + i] : 0;
        }
        pivots[rank] = p;
    }
}

/* ---- The system --------------------------------------------------------------------------------- */

/* What a ridge c acts on: features as they are, divided by given deviations, or by those of all rows. */
enum { AS_THEY_ARE, GIVEN, DEVIATIONS };

typedef struct {
    double ridge;      /* c; below 0 for the paper's */
    int scaling;
    const real *units; /* (m): the given deviations, 0 for constant features */
} ridge_t;

typedef struct {
    double solved_at, factored_at; /* after these numbers of rows; -1 if not known */
    double norm;                   /* of the inverse of the scaled system, at least; 0 if it is not large */
    double in_force;               /* the ridge c, decayed */
    ptrdiff_t n_active, n_narrow;  /* features that vary; that vary by rounding alone, as far as can be told */
    ptrdiff_t n_dependent;         /* features left out because others give them, without a ridge */
    int is_whole;                  /* whether nothing of the sums is left out */
    real *weights;                 /* (m, n): W */
    real *penalties;               /* (m): D */
    real *scale;                   /* (m): f */
    real *scratch;                 /* (m, COLUMNS_AT_ONCE) */
    real *factor;                  /* (m, m): U */
    real *beyond;                  /* (m, n_dependent): an orthonormal basis of what no row has; (m, m), or NULL */
} solver_t;

/* Number of `real` of a solver for m features and n targets, with a ridge or without. */
static size_t size_of_solver(ptrdiff_t m, ptrdiff_t n, int is_penalised)
{
    return (size_t)(m * (m + n + 2 + COLUMNS_AT_ONCE + (is_penalised ? 0 : m)));
}

/* Divide memory of this size among the arrays of a solver. */
static void place_solver(ptrdiff_t m, ptrdiff_t n, int is_penalised, real *memory, solver_t *v)
{
    v->weights = memory;
    v->penalties = memory + m * n;
    v->scale = v->penalties + m;
    v->scratch = v->scale + m;
    v->factor = v->scratch + COLUMNS_AT_ONCE * m;
    v->beyond = is_penalised ? NULL : v->factor + m * m;
    v->solved_at = v->factored_at = -1.0;
}

/* The sum of squares of a feature, or of a target after these; 0 where it can be rounding alone. */
static double told(const sums_t *s, ptrdiff_t i)
{
    const double square = (double)*s->squares[i], mean = (double)mean_of(s, i);
    const double of_removals = s->rounding ? MAX_ROUNDING * s->rounding[i] : 0.0;
    const double of_mean = s->is_centred ? CONSTANT_TOLERANCE * CONSTANT_TOLERANCE * s->tally[1] * mean * mean : 0.0;
    return square > of_removals && square > of_mean && (i >= s->m || square >= MIN_SUM_OF_SQUARES) ? square : 0.0;
}

/* The ridge of McDonnell and Vladusich (2015), section II-C: (N / M)^2 times the least of the sums of squares
 * (m) that are not 0, which are sorted here; at least a share of their median. */
static double paper_ridge(ptrdiff_t m, ptrdiff_t n, real *squares)
{
    ptrdiff_t active = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
        const real square = squares[i];
        ptrdiff_t j = active;
        if (!(square > 0))
            continue;
        for (; j > 0 && squares[j - 1] > square; j--)
            squares[j] = squares[j - 1];
        squares[j] = square;
        active++;
    }
    if (!active)
        return 0.0;
    const double share = (double)n / (double)m, own = share * share * (double)squares[0];
    const double median = 0.5 * ((double)squares[(active - 1) / 2] + (double)squares[active / 2]);
    const double least = MIN_PAPER_RIDGE * (double)active * median;
    return own > least ? own : least;
}

/* Set D and f, with a share of the ridge. */
static void set_penalties(const sums_t *s, const ridge_t *c, double share, solver_t *v)
{
    double ridge = c->ridge;
    v->n_narrow = v->n_active = v->n_dependent = 0;
    v->is_whole = 1;
    for (ptrdiff_t i = 0; i < s->m; i++) {
        double square = told(s, i), unit = 1.0;
        v->n_narrow += square == 0.0 && *s->squares[i] >= MIN_SUM_OF_SQUARES && !(s->rounding && s->rounding[i] != 0);
        if (c->scaling == GIVEN)
            unit = c->units[i] > 0 ? c->units[i] * c->units[i] : 0.0;
        else if (c->scaling == DEVIATIONS)
            unit = square >= MIN_DEVIATION * MIN_DEVIATION * s->tally[1] ? square / s->tally[1] : 0.0;
        if (!(unit > 0.0)) { /* Its weight is 0. */
            unit = 1.0;
            square = 0.0;
        }
        v->penalties[i] = (real)unit;
        v->scale[i] = (real)square;
        v->scratch[i] = (real)(square / unit);
        v->n_active += square > 0.0;
    }
    if (ridge < 0.0)
        ridge = paper_ridge(s->m, s->n, v->scratch);
    v->in_force = ridge *= share;
    for (ptrdiff_t i = 0; i < s->m; i++) {
        const double square = v->scale[i], penalty = ridge * v->penalties[i];
        v->penalties[i] = (real)penalty;
        v->scale[i] = square > 0.0 ? (real)(1.0 / sqrt(square + penalty)) : 0;
        v->is_whole &= square > 0.0 || *s->squares[i] <= MAX_SHARE_LEFT_OUT * penalty;
    }
}

/* The upper triangle of f A'A f, with a unit diagonal, as f A'A f + f D f has it */
KERNEL void scale_gram(const sums_t *s, const real *RESTRICT f, real *RESTRICT a)
{
    for (const panel_t *p = s->panels; p < s->panels + s->n_panels; p++)
        for (ptrdiff_t j = 0; j < p->width; j++) {
            const real *RESTRICT above = p->above + j * p->start, *RESTRICT own = p->corner + j * p->width;
            const real *RESTRICT g = f + p->start, fj = g[j];
            real *RESTRICT to = a + (p->start + j) * s->m;
            for (ptrdiff_t i = 0; i < p->start; i++)
                to[i] = above[i] * f[i] * fj;
            for (ptrdiff_t i = 0; i < j; i++)
                to[p->start + i] = own[i] * g[i] * fj;
            to[p->start + j] = 1;
        }
}

/* The entry i, j of A'A, for i <= j */
static real product_of(const sums_t *s, ptrdiff_t i, ptrdiff_t j)
{
    const panel_t *p = s->panels;
    while (j >= p->start + p->width)
        p++;
    j -= p->start;
    return i < p->start ? p->above[j * p->start + i] : p->corner[j * p->width + i - p->start];
}

/* Estimate the norm of the inverse of U U', at most from below, by two steps of inverse iteration. They begin in the
 * same direction for every system: a model and its copy must go on alike. */
static double norm_of_inverse(ptrdiff_t m, const real *u, real *x)
{
    double norm = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
        const double turn = (double)(i + 1) * GOLDEN_SECTION;
        x[i] = (real)(turn - floor(turn) - 0.5);
    }
    for (int step = 0; step < 2; step++) {
        const real length = (real)(1.0 / sqrt((double)dot(m, x, x)));
        for (ptrdiff_t i = 0; i < m; i++)
            x[i] *= length;
        solve_factored(m, 1, u, x);
        norm = sqrt((double)dot(m, x, x));
    }
    return norm;
}

/* Factor the system for f. Return whether the factor has its digits: whether no eigenvalue is below `least`.
 *
 * The larger eigenvalues of a matrix of unit diagonal multiply to at most (m / (m - 1))^(m - 1) < e, so that the
 * smallest is at least its determinant / e. The norm of the inverse is estimated where this is too little to tell. */
static int factor_scaled(const sums_t *s, double least, solver_t *v)
{
    scale_gram(s, v->scale, v->factor);
    const double determinant = factor_in_place(s->m, least, v->factor);
    if (!(determinant >= 0.0))
        return 0;
    v->norm = determinant > 3.0 * least ? 0.0 : norm_of_inverse(s->m, v->factor, v->scratch);
    return v->norm * least < 1.0;
}

/* Leave out the features that others, the pivots, give. Return 0 if there are none, or if rounding might decide on the
 * rank: no pivot is small, and nothing but rounding is left of the others. */
static int leave_out_dependent(const sums_t *s, solver_t *v)
{
    const ptrdiff_t m = s->m;
    real *a = v->beyond, *left = v->scratch, rest = 0;
    ptrdiff_t pivots[MAX_FEATURES_SOLVED];
    scale_gram(s, v->scale, a);
    for (ptrdiff_t j = 0; j < m; j++) {
        left[j] = v->scale[j] > 0 ? 1 : -1;
        for (ptrdiff_t i = 0; i < j; i++)
            a[i * m + j] = a[j * m + i];
    }
    v->n_dependent = v->n_active - factor_pivoted(m, MIN_PIVOT, a, left, pivots);
    v->n_active -= v->n_dependent;
    v->is_whole = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
        rest += left[i] < 0 ? 0 : left[i];
        v->scale[i] = left[i] < 0 ? v->scale[i] : 0;
    }
    return v->n_dependent && rest <= MAX_REST;
}

/* Find the basis of what no row has: e_d - sum_i w_i e_i for a feature d that is left out, where w solve it as a
 * target. Return 0 if units differ so much that these are nearly dependent. */
static int find_beyond(const sums_t *s, solver_t *v)
{
    const ptrdiff_t m = s->m;
    real *x = v->beyond;
    for (ptrdiff_t d = 0; d < m; d++) {
        if (v->scale[d] != 0 || !(told(s, d) > 0.0))
            continue;
        for (ptrdiff_t i = 0; i < m; i++)
            x[i] = v->scale[i] * product_of(s, i < d ? i : d, i < d ? d : i);
        solve_factored(m, 1, v->factor, x);
        const double length = sqrt(told(s, d));
        for (ptrdiff_t i = 0; i < m; i++) /* Entries that are rounding would be large in the units of small features. */
            x[i] = fabs((double)x[i]) > MAX_NULL_ENTRY * length ? -v->scale[i] * x[i] : 0;
        x[d] = 1;
        for (int turn = 0; turn < 2; turn++)
            for (const real *q = v->beyond; q < x; q += m)
                add_multiple(m, -dot(m, q, x), q, x);
        const double square = dot(m, x, x);
        if (!(square >= MIN_PIVOT && square < HUGE_VAL))
            return 0;
        for (ptrdiff_t i = 0; i < m; i++)
            x[i] *= (real)(1.0 / sqrt(square));
        x += m;
    }
    return 1;
}

/* Set D and f with a share of the ridge, and factor the system. Return whether the factor has its digits, and which
 * directions the rows have is beyond doubt: otherwise other code must tell. */
static int factor_system(const sums_t *s, const ridge_t *c, double share, solver_t *v)
{
    v->factored_at = -1.0;
    set_penalties(s, c, share, v);
    const double least = v->in_force > 0.0 ? MIN_EIGENVALUE_SOLVED : MIN_EIGENVALUE_UNPENALISED * (double)s->m;
    if (!factor_scaled(s, least, v)
        && !(v->beyond && v->in_force == 0.0 && leave_out_dependent(s, v) && factor_scaled(s, least, v)
             && find_beyond(s, v)))
        return 0;
    v->factored_at = s->tally[0];
    return 1;
}

/* W = P A'Y from the factor, in the space of the rows. The weights of targets that hold rounding alone are 0. */
static void solve_targets(const sums_t *s, solver_t *v)
{
    const ptrdiff_t m = s->m;
    for (ptrdiff_t j = 0; j < s->n; j++) {
        const real keeps = !s->is_centred || told(s, m + j) > 0.0;
        for (ptrdiff_t i = 0; i < m; i++)
            v->weights[j * m + i] = keeps * v->scale[i] * s->cross[j * m + i];
    }
    solve_factored(m, s->n, v->factor, v->weights);
    for (ptrdiff_t j = 0; j < s->n; j++)
        for (ptrdiff_t i = 0; i < m; i++)
            v->weights[j * m + i] *= v->scale[i];
    for (ptrdiff_t k = 0; k < v->n_dependent * s->n; k++) {
        real *w = v->weights + k % s->n * m;
        const real *q = v->beyond + k / s->n * m;
        add_multiple(m, -dot(m, q, w), q, w);
    }
    v->solved_at = s->tally[0];
}

/* Whether a recursion can follow rows from the factor, as far as is known without the inverse. */
static int may_begin(const solver_t *v) { return v->is_whole && v->norm * MIN_EIGENVALUE_UNREFINED <= 1.0; }

/* Begin a recursion from the weights and the factor, with a share of the ridge: P, W and J. Return 0 if its weights
 * would lose digits with later rows, by the norm of P in the scaled system; then P has no meaning. */
static int begin_recursion(const sums_t *s, const solver_t *v, double share, const recursion_t *r)
{
    const ptrdiff_t m = s->m;
    real *sums = v->scratch, *p = r->inverse;
    double norm = 0;
    memset(sums, 0, (size_t)m * sizeof(real));
    memset(p, 0, (size_t)(m * m) * sizeof(real));
    invert_factor(m, v->factor, p);
    for (ptrdiff_t j = m - 1; j >= 0; j--) /* P = V'V, in place */
        for (ptrdiff_t i = j; i >= 0; i--) {
            const real entry = dot(i + 1, p + i * m, p + j * m), size = entry < 0 ? -entry : entry;
            sums[i] += size;
            sums[j] += i < j ? size : 0;
            p[j * m + i] = entry * v->scale[i] * v->scale[j];
        }
    for (ptrdiff_t i = 0; i < m; i++) {
        norm = (double)sums[i] > norm ? (double)sums[i] : norm;
        r->penalties[i] = (real)(v->penalties[i] / share);
        if (v->scale[i] == 0) {
            if (!(v->penalties[i] > 0))
                return 0;
            p[i * m + i] = 1 / v->penalties[i];
        }
    }
    if (!(norm * MIN_EIGENVALUE_UNREFINED <= 1.0))
        return 0;
    memcpy(r->weights, v->weights, (size_t)(m * s->n) * sizeof(real));
    for (ptrdiff_t j = 0; j < s->n; j++) /* J = Y'Y - W'A'Y */
        r->criterion[j] = (real)(told(s, m + j) - (double)dot(m, v->weights + j * m, s->cross + j * m));
    memset(r->pending, 0, (size_t)m * sizeof(real));
    r->factors[SCALE] = 1.0;
    r->factors[GAIN] = 0.0;
    r->factors[KEPT] = share;
    return 1;
}

/* What `spread` computes, from the weights and the factor. Return NaN if other code must: if there are degrees of
 * freedom, and a feature differs from its only value and has no unit, or the row has what no other row has. */
static double spread_of_factor(const sums_t *s, const solver_t *v, const ridge_t *c, row_t *row, int forgets)
{
    const ptrdiff_t m = s->m;
    const real *z = row->about;
    const errors_t e = weights_of_errors(s, forgets);
    int is_known = 1;
    double leverage = 0, n_parameters = (double)v->n_active + s->is_centred;
    for (ptrdiff_t i = 0; i < m; i++) {
        v->scratch[i] = v->scale[i] * z[i];
        if (v->scale[i] != 0 || fabs((double)z[i]) <= CONSTANT_TOLERANCE * fabs((double)mean_of(s, i)))
            continue;
        is_known = is_known && c->scaling == AS_THEY_ARE;
        leverage += v->penalties[i] > 0 ? (double)(z[i] * z[i] / v->penalties[i]) : 0.0;
    }
    leverage += square_of_solved(m, v->factor, v->scratch);
    for (ptrdiff_t k = 0; k < v->n_dependent; k++) {
        const real *q = v->beyond + k * m;
        double size = 0.0;
        for (ptrdiff_t i = 0; i < m; i++)
            size += fabs((double)q[i] * (double)z[i]);
        is_known = is_known && fabs((double)dot(m, q, z)) <= MAX_BEYOND_ROWS * size;
    }
    if (e.of_parameters > 0.0 && v->in_force > 0.0)
        n_parameters -= penalised_trace(m, v->factor, v->scale, v->penalties, v->scratch);
    for (ptrdiff_t j = 0; j < s->n; j++) { /* RSS = Y'Y - W'A'Y - W'DW */
        const real *w = v->weights + j * m;
        row->errors[j] = (real)(told(s, m + j) - dot(m, w, s->cross + j * m) - weighted_squares(m, v->penalties, w));
    }
    const double free = scale_errors(s, row, e, leverage, n_parameters);
    return is_known || free <= 0.0 ? free : (double)NAN;
}

#endif
