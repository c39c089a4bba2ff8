/* The ridge with the largest restricted likelihood, from sums of at most MAX_FEATURES_SOLVED features.
 *
 * C99 like recursion.h, also valid C++. With f = weight - number of free parameters, and RSS(c) summed over targets,
 * the selected ridge c minimises (see `select_ridge` in onlinels/sums/selection.py)
 *
 *     log(RSS(c) + c |W(c)|^2) + sum_i log(1 + e_i / c) / f      over c = 10^(k / RIDGES_PER_DECADE),
 *
 * where e_i are the eigenvalues of A'A. Reflections make A'A tridiagonal, and implicit QL steps find its eigenvalues;
 * both turn A'Y along, and no eigenvectors are kept. With z_i for the turned A'Y,
 *
 *     RSS(c) + c |W(c)|^2 = Y'Y - sum_i z_i^2 / (e_i + c) = never + sum_i (z_i^2 / e_i) c / (e_i + c),
 *
 * where `never` is what no direction can fit. So every ridge costs O(m), and each is tested by Rao's score test too.
 *
 * Sources: G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), sections 8.3.1 (tridiagonal form) and 8.3.5;
 * J. H. Wilkinson and C. Reinsch, "Linear Algebra" (1971), contribution II/3 (implicit QL); S. N. Wood, "Fast stable
 * restricted maximum likelihood", JRSS B 73 (2011); C. Lucas, LAPACK working note 161 (2004), for pivots.
 */
#ifndef ONLINELS_SELECTION_H
#define ONLINELS_SELECTION_H

#include <math.h>

#include "solve.h"

/* What these mean stands in onlinels/core/constants.py. */
#define RIDGES_PER_DECADE 256
#define COARSE 128
#define FINE 8
#define MAX_RIDGE_EXPONENT 280.0
#define MIN_RELATIVE_RIDGE 1e-13
#define MAX_RELATIVE_RIDGE 1e3
#define TIE_TOLERANCE 1e-9
#define LIKELIHOOD_TOLERANCE 1e-3
#define SQUARED_ERROR_TOLERANCE 1e-6
#define MAX_TIE 2.0
#define MAX_UNITS_RATIO 2.1
#define MAX_ROUNDING_ERROR 1e-14
#define MAX_PARAMETERS_PER_ROW 5.0
#define MIN_RIDGE_IF_DEPENDENT 1e-6
#define MIN_INDEPENDENT_SHARE 1e-12
#define MIN_COMBINED_SHARE 1e-6

#define MOST_COARSE 64 /* coarse ridges: two a decade, over at most 16 decades, and some room */
#define MOST_FINE 33  /* 2 COARSE / FINE + 1 */
#define FACTORS_AT_ONCE 16 /* whose product, each being at most 1e17, is a number */
#define MOST_TURNS 60

/* Sums of rows, from which a ridge is selected. */
typedef struct {
    ptrdiff_t m, n;
    const real *gram;      /* (m, m): A'A */
    const real *cross;     /* (m, n): A'Y */
    const double *squares; /* (m): the diagonal of A'A, 0 for features that do not vary */
    double total;          /* Y'Y, summed over targets */
    double weight;         /* of all rows, or number of equally weighted rows */
    int n_free;            /* number of parameters without a penalty */
    int is_short;          /* whether rows are forgotten so fast that the error of a new row decides */
} products_t;

/* A'A in units, in its eigenbasis. To stay within the range of numbers, A'A is divided by a power of 2, `scale`, and
 * Y'Y by one that is the same for all units. */
typedef struct {
    ptrdiff_t m;             /* number of eigenvalues above 0: at most the rank, but for rounding */
    const real *eigenvalues; /* (m): e_i */
    const real *fitted;      /* (m): z_i^2 / e_i */
    double never, total;
    double norm;             /* of the diagonal of A'A, not divided; 0 if nothing varies */
    double freedom, weight, scale;
    int is_short;
} spectrum_t;

/* A selected ridge, its criterion, and the difference of the criterion up to which ridges are tied. */
typedef struct {
    double ridge, criterion, tie;
} choice_t;

/* The distance from 1 to the next number. */
static double rounding(void) { return sizeof(real) == sizeof(float) ? 1.1920929e-7 : EPS; }

/* Numbers of scratch memory for m features and n targets. */
static ptrdiff_t scratch_for_selection(ptrdiff_t m, ptrdiff_t n) { return m * (m + 2 * n + 4); }

/* ---- The spectrum ------------------------------------------------------------------------------ */

/* a = a - f x - g y */
KERNEL void take_multiples(ptrdiff_t m, real f, const real *x, real g, const real *y, real *RESTRICT a)
{
    for (ptrdiff_t i = 0; i < m; i++)
        a[i] -= f * x[i] + g * y[i];
}

/* x = s y + c x, and y = c y - s x */
INLINE void rotate(ptrdiff_t n, real s, real c, real *RESTRICT x, real *RESTRICT y)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        const real below = x[j], above = y[j];
        x[j] = s * above + c * below;
        y[j] = c * above - s * below;
    }
}

/* Make A, which is overwritten, tridiagonal by reflections I - tau v v' from the last row up: the diagonal d and,
 * beside it, e. Turn Z (m, n), too. p (m) is scratch memory. */
static void make_tridiagonal(ptrdiff_t m, ptrdiff_t n, real *a, real *z, real *d, real *e, real *p)
{
    /* Of r < m rows, rounding is left after about r reflections. */
    double square = 0.0;
    for (ptrdiff_t i = 0; i < m; i++)
        square += (double)a[i * m + i] * a[i * m + i];
    const double tiny = 16.0 * rounding() * rounding() * square;
    for (ptrdiff_t i = m - 1; i > 0; i--) {
        real *v = a + i * m; /* column i, above the diagonal */
        const double rest = dot(i - 1, v, v), alpha = v[i - 1];
        d[i] = v[i];
        e[i - 1] = (real)alpha;
        if (!(rest > tiny))
            continue;
        /* (I - tau v v') a_i has only the entry beta */
        const double length = sqrt(alpha * alpha + rest), beta = alpha > 0.0 ? -length : length;
        const double tau = (beta - alpha) / beta;
        for (ptrdiff_t k = 0; k < i - 1; k++)
            v[k] *= (real)(1.0 / (alpha - beta));
        v[i - 1] = 1;
        e[i - 1] = (real)beta;
        memset(p, 0, (size_t)i * sizeof(real));
        for (ptrdiff_t j = 0; j < i; j++) { /* p = A v */
            add_multiple(j, v[j], a + j * m, p);
            p[j] += dot(j + 1, a + j * m, v);
        }
        const double half = 0.5 * tau * tau * dot(i, p, v);
        for (ptrdiff_t k = 0; k < i; k++) /* w = tau p - tau^2 (p'v) v / 2 */
            p[k] = (real)(tau * p[k] - half * v[k]);
        for (ptrdiff_t j = 0; j < i; j++) /* A = A - v w' - w v' */
            take_multiples(j + 1, p[j], v, v[j], p, a + j * m);
        for (ptrdiff_t j = 0; j < n; j++) /* z = z - tau v v'z */
            add_multiple(i, (real)(-tau * dot(i, v, z + j * m)), v, z + j * m);
    }
    d[0] = a[0];
}

/* Find the eigenvalues of a tridiagonal matrix d, e (m each), into d, and turn the rows of Z (m, n), which is
 * stored by rows here. Return 0 if they are not found.
 *
 * The variant of Pal, Walker and Kahan (LAPACK's dsterf) works on squares of e and of sines and cosines. Here the
 * roots turn Z, so that no step waits for a root: two thirds of the time at 64 features. */
static int find_eigenvalues(ptrdiff_t m, ptrdiff_t n, real *d, real *e, real *z)
{
    double squares = (double)d[m - 1] * d[m - 1];
    int sign = 1;
    e[m - 1] = 0;
    for (ptrdiff_t i = 0; i < m - 1; i++) { /* Other signs of the rows of Z make e positive. */
        squares += (double)d[i] * d[i];
        sign = e[i] < 0 ? -sign : sign;
        for (ptrdiff_t j = 0; j < n; j++)
            z[(i + 1) * n + j] *= (real)sign;
        e[i] *= e[i];
    }
    const double least = 16.0 * rounding() * rounding() * squares; /* Smaller eigenvalues are rounding, too. */
    for (ptrdiff_t l = 0; l < m; l++)
        for (int turn = 0;; turn++) {
            ptrdiff_t k = l;
            while (k < m - 1 && e[k] > least)
                k++;
            if (k == l)
                break;
            if (turn == MOST_TURNS)
                return 0;
            /* the shift: the eigenvalue of the first two rows that is closer to d_l */
            const double root = sqrt(e[l]), half = (d[l + 1] - d[l]) / (2.0 * root), length = sqrt(half * half + 1.0);
            const double shift = d[l] - root / (half + (half >= 0.0 ? length : -length));
            double c = 1.0, s = 0.0, g = d[k] - shift, p = g * g, cosine = 1.0;
            for (ptrdiff_t i = k - 1; i >= l; i--) {
                const double square = e[i], r = p + square, old = g, before = c, of_c = r / p;
                if (i < k - 1)
                    e[i + 1] = (real)(s * r);
                c = p / r;
                s = square / r;
                cosine = before == 0.0 ? -cosine : (old < 0.0) == (cosine < 0.0) ? sqrt(c) : -sqrt(c);
                rotate(n, (real)sqrt(s), (real)cosine, z + (i + 1) * n, z + i * n);
                g = c * (d[i] - shift) - s * old;
                d[i + 1] = (real)(old + (d[i] - g));
                p = c > 0.0 ? g * g * of_c : before * square;
            }
            e[l] = (real)(s * p);
            d[l] = (real)(shift + g);
            if ((g < 0.0) != (cosine < 0.0))
                for (ptrdiff_t j = 0; j < n; j++)
                    z[l * n + j] = -z[l * n + j];
        }
    return 1;
}

/* The largest even exponent of 2 whose power is at most a positive number. */
static int even_exponent(double number)
{
    int exponent;
    frexp(number, &exponent);
    exponent--;
    return exponent - (exponent & 1);
}

/* The factor of a feature divided by its unit; 0 for one that is left out. Without units, the unit is 1. */
INLINE double factor_of(const products_t *s, const double *units, ptrdiff_t i)
{
    return s->squares[i] == 0.0 ? 0.0 : !units ? 1.0 : units[i] > 0.0 ? 1.0 / units[i] : 0.0;
}

/* The sum of squares of a feature divided by its unit. */
INLINE double square_of(const products_t *s, const double *units, ptrdiff_t i)
{
    const double f = factor_of(s, units, i);
    return s->squares[i] * f * f;
}

/* Find the spectrum of sums of features divided by units (m). Its arrays lie in the scratch memory. Return 0 if other
 * code must: sums are infinite or NaN. */
static int find_spectrum(const products_t *s, const double *units, real *scratch, spectrum_t *t)
{
    const ptrdiff_t m = s->m, n = s->n;
    real *a = scratch, *z = a + m * m, *by_rows = z + m * n, *d = by_rows + m * n, *e = d + m, *fitted = e + m;
    real *eigenvalues = fitted + m;
    double f[MAX_FEATURES_SOLVED], largest = 0.0, norm = 0.0, top = 0.0, explained = 0.0;
    for (ptrdiff_t i = 0; i < m; i++) {
        f[i] = factor_of(s, units, i);
        const double square = square_of(s, units, i);
        largest = square > largest ? square : largest;
    }
    t->m = 0;
    t->weight = s->weight;
    t->freedom = s->weight - s->n_free;
    t->is_short = s->is_short;
    t->norm = 0.0;
    if (!(largest > 0.0 && s->total > 0.0))
        return largest == 0.0 || s->total == 0.0;
    const int shift = even_exponent(largest), of_targets = even_exponent(s->total);
    t->scale = ldexp(1.0, shift);
    t->total = ldexp(s->total, -of_targets);
    for (ptrdiff_t i = 0; i < m; i++) {
        const double square = ldexp(square_of(s, units, i), -shift);
        norm += square * square;
    }
    t->norm = ldexp(sqrt(norm), shift);
    const double of_gram = ldexp(1.0, -shift), of_cross = ldexp(1.0, -(shift + of_targets) / 2);
    for (ptrdiff_t j = 0; j < m; j++)
        for (ptrdiff_t i = 0; i <= j; i++)
            a[j * m + i] = (real)(s->gram[j * m + i] * f[j] * f[i] * of_gram);
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t i = 0; i < m; i++)
            z[j * m + i] = (real)(s->cross[j * m + i] * f[i] * of_cross);
    make_tridiagonal(m, n, a, z, d, e, by_rows);
    for (ptrdiff_t i = 0; i < m; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            by_rows[i * n + j] = z[j * m + i];
    if (!find_eigenvalues(m, n, d, e, by_rows))
        return 0;
    for (ptrdiff_t i = 0; i < m; i++)
        top = d[i] > top ? d[i] : top;
    /* Directions whose eigenvalues are rounding fit nothing. */
    const double of_m = rounding() * (double)m, least_share = of_m > MAX_ROUNDING_ERROR ? of_m : MAX_ROUNDING_ERROR;
    for (ptrdiff_t i = 0; i < m; i++) {
        const real *own = by_rows + i * n;
        if (!(d[i] > 0))
            continue;
        eigenvalues[t->m] = d[i];
        fitted[t->m] = d[i] > least_share * top ? dot(n, own, own) / d[i] : 0;
        explained += fitted[t->m++];
    }
    const double never = t->total - explained, least = MAX_ROUNDING_ERROR * t->total;
    t->eigenvalues = eigenvalues;
    t->fitted = fitted;
    t->never = never > least ? never : least;
    return explained < HUGE_VAL && t->norm < HUGE_VAL;
}

/* ---- The ridge --------------------------------------------------------------------------------- */

/* Minus 2 / f times the restricted log-likelihood of a ridge, but for a constant that units share. */
SUM_KERNEL double likelihood_of(const spectrum_t *t, double ridge)
{
    REORDER
    const double inverse = t->scale / ridge;
    double left = 0.0, complexity = 0.0;
    for (ptrdiff_t i = 0; i < t->m; i++)
        left += t->fitted[i] / (1.0 + t->eigenvalues[i] * inverse);
    for (ptrdiff_t start = 0; start < t->m; start += FACTORS_AT_ONCE) {
        double product = 1.0;
        for (ptrdiff_t i = start; i < t->m && i < start + FACTORS_AT_ONCE; i++)
            product *= 1.0 + t->eigenvalues[i] * inverse;
        complexity += log(product);
    }
    return log(t->never + left) + complexity / t->freedom;
}

/* The logarithm of the squared error RSS(c) exp(p(c) / n) of a new row: see `new_row_criterion`. */
static double error_of_new_row(const spectrum_t *t, double ridge)
{
    const double inverse = t->scale / ridge;
    double left = t->never, n_parameters = 0.0;
    for (ptrdiff_t i = 0; i < t->m; i++) {
        const double shrunk = 1.0 / (1.0 + t->eigenvalues[i] * inverse);
        left += t->fitted[i] * shrunk * shrunk;
        n_parameters += 1.0 - shrunk;
    }
    return n_parameters > MAX_PARAMETERS_PER_ROW * t->weight ? HUGE_VAL : log(left) + n_parameters / t->weight;
}

static double ridge_at(ptrdiff_t power) { return pow(10.0, (double)power / RIDGES_PER_DECADE); }

/* The criterion of a ridge. With no more rows than free parameters, the largest ridge is the best. */
static double judged(const spectrum_t *t, double ridge)
{
    return t->is_short ? error_of_new_row(t, ridge) : t->freedom > 0.0 ? likelihood_of(t, ridge) : -ridge;
}

/* A power of the grid: the multiple of COARSE beside a share of the norm, on the side that `rounded` says. */
static ptrdiff_t end_of_grid(double share, double norm, double (*rounded)(double))
{
    double decades = log10(share) + log10(norm);
    decades = decades < -MAX_RIDGE_EXPONENT ? -MAX_RIDGE_EXPONENT : decades;
    decades = decades > MAX_RIDGE_EXPONENT ? MAX_RIDGE_EXPONENT : decades;
    return COARSE * (ptrdiff_t)rounded(decades * RIDGES_PER_DECADE / COARSE);
}

/* The best ridge; of tied ones, the largest. First over the whole grid, then around the best, with steps of 4 FINE
 * and of FINE; then at the vertex of the parabola through three values, if they differ by more than rounding. */
static choice_t best_ridge(const spectrum_t *t)
{
    double values[MOST_COARSE], fine[MOST_FINE], least = HUGE_VAL;
    const double likelihood_tie = 2.0 * LIKELIHOOD_TOLERANCE / (t->freedom > 1.0 ? t->freedom : 1.0);
    choice_t choice = {1.0, HUGE_VAL, TIE_TOLERANCE};
    if (!(t->norm >= 1.0 / ridge_at((ptrdiff_t)(MAX_RIDGE_EXPONENT * RIDGES_PER_DECADE))))
        return choice;
    const ptrdiff_t first = end_of_grid(MIN_RELATIVE_RIDGE, t->norm, ceil);
    const ptrdiff_t last = end_of_grid(MAX_RELATIVE_RIDGE, t->norm, floor);
    const ptrdiff_t n_coarse = (last - first) / COARSE + 1;
    choice.tie = likelihood_tie > TIE_TOLERANCE ? likelihood_tie : TIE_TOLERANCE;
    choice.tie = t->is_short ? SQUARED_ERROR_TOLERANCE : choice.tie;
    const double step_of_grid = ridge_at(COARSE);
    double ridge = ridge_at(first);
    ptrdiff_t best = first;
    for (ptrdiff_t i = 0; i < n_coarse && i < MOST_COARSE; i++, ridge *= step_of_grid) { /* A power takes longer. */
        values[i] = judged(t, ridge);
        least = values[i] < least ? values[i] : least;
    }
    for (ptrdiff_t i = 0; i < n_coarse && i < MOST_COARSE; i++)
        best = values[i] <= least + choice.tie ? first + i * COARSE : best;
    const ptrdiff_t from = best - COARSE > first ? best - COARSE : first;
    const ptrdiff_t to = best + COARSE < last ? best + COARSE : last, end = (to - from) / FINE;
    ptrdiff_t at = (best - from) / FINE;
    for (ptrdiff_t i = 0; i <= end; i++)
        fine[i] = NAN;
    for (ptrdiff_t step = 4; step; step = step == 4 ? 1 : 0) {
        const ptrdiff_t start = at - step * (at / step < 3 ? at / step : 3);
        const ptrdiff_t stop = at + 3 * step < end ? at + 3 * step : end;
        double lowest = HUGE_VAL;
        for (ptrdiff_t i = start; i <= stop; i += step) {
            if (fine[i] != fine[i])
                fine[i] = judged(t, ridge_at(from + i * FINE));
            lowest = fine[i] < lowest ? fine[i] : lowest;
        }
        for (ptrdiff_t i = start; i <= stop; i += step)
            at = fine[i] <= lowest + choice.tie ? i : at;
        least = lowest < least ? lowest : least;
    }
    best = from + at * FINE;
    if (at > 0 && at < end) {
        for (ptrdiff_t i = at - 1; i <= at + 1; i += 2)
            if (fine[i] != fine[i])
                fine[i] = judged(t, ridge_at(from + i * FINE));
        const double before = fine[at - 1] - fine[at], after = fine[at + 1] - fine[at], both = before + after;
        if (both > choice.tie && both < HUGE_VAL) {
            const double vertex = fine[at] - (before - after) * (before - after) / both / 8.0;
            best += (ptrdiff_t)rint(0.5 * FINE * (before - after) / both);
            least = vertex < least ? vertex : least;
        }
    }
    choice.ridge = ridge_at(best);
    choice.criterion = least;
    return choice;
}

/* Whether Rao's score test accepts a ridge: `is_accepted` of recursion.h in the eigenbasis, where K is diagonal. */
static int accepts(const spectrum_t *t, double ridge)
{
    const double inverse = t->scale / ridge, f = t->freedom;
    double least = t->never, penalty = 0.0, trace = 0.0, square = 0.0;
    if (!(t->norm > 0.0 && f > 0.0))
        return 0;
    for (ptrdiff_t i = 0; i < t->m; i++) {
        const double shrunk = 1.0 / (1.0 + t->eigenvalues[i] * inverse), kept = 1.0 - shrunk;
        least += t->fitted[i] * shrunk;
        penalty += t->fitted[i] * shrunk * kept; /* c |W|^2 */
        trace += kept;
        square += kept * kept;
    }
    const double score = f * penalty / least - trace, information = square - trace * trace / f;
    return least > MIN_NOISE * t->total && information > MIN_INFORMATION * square
           && score * score <= 0.5 * information;
}

/* The largest square, in units, of the columns that are part of a combination that is 0 in every row; 0 if columns
 * do not depend on each other: `dependent_columns` of selection.py. A Cholesky factorisation L L' of the columns
 * scaled to unit length stops where all rests are rounding. */
static double largest_dependent(const products_t *s, const double *units, real *scratch)
{
    const ptrdiff_t m = s->m;
    ptrdiff_t pivots[MAX_FEATURES_SOLVED];
    real *a = scratch, *left = a + m * m;
    double shares[MAX_FEATURES_SOLVED], largest = 0.0;
    for (ptrdiff_t j = 0; j < m; j++) {
        left[j] = s->squares[j] > 0.0 ? 1 : -1;
        for (ptrdiff_t i = 0; i < j; i++) {
            const double is_there = s->squares[i] > 0.0 && s->squares[j] > 0.0;
            const double scaled = is_there ? s->gram[j * m + i] / sqrt(s->squares[i]) / sqrt(s->squares[j]) : 0.0;
            a[j * m + i] = a[i * m + j] = (real)scaled;
        }
        a[j * m + j] = 1;
    }
    const ptrdiff_t rank = factor_pivoted(m, MIN_INDEPENDENT_SHARE, a, left, pivots);
    for (ptrdiff_t b = 0; b < m; b++) {
        if (left[b] < 0)
            continue;
        const double square_of_b = square_of(s, units, b);
        largest = square_of_b > largest ? square_of_b : largest;
        for (ptrdiff_t k = rank - 1; k >= 0; k--) { /* Column b is the sum of the pivots times shares. */
            const real *own = a + pivots[k] * m;
            double share = own[b];
            for (ptrdiff_t j = k + 1; j < rank; j++)
                share -= own[pivots[j]] * shares[j];
            shares[k] = share / own[pivots[k]];
            const double square = square_of(s, units, pivots[k]);
            largest = fabs(shares[k]) > MIN_COMBINED_SHARE && square > largest ? square : largest;
        }
    }
    return largest;
}

/* Select the ridge, and the units for which it is the best, among one or two kinds of units (m), of which NULL
 * stands for features as they are; the first of tied kinds. Restricted likelihoods for different units are
 * likelihoods of the same targets, and tied up to a difference of MAX_TIE in minus twice the logarithm. `known` is
 * the spectrum for the first kind, in the scratch memory, or NULL. Return 0 if other code must select. */
static int select_ridge(const products_t *s, const double *const *kinds, int n_kinds, const spectrum_t *known,
                        real *scratch, double *ridge, int *which)
{
    choice_t found[2];
    spectrum_t spectrum;
    double largest = 0.0;
    for (int k = 0; k < n_kinds; k++) {
        if (!(known && k == 0) && !find_spectrum(s, kinds[k], scratch, &spectrum))
            return 0;
        found[k] = best_ridge(known && k == 0 ? known : &spectrum);
    }
    *which = 0;
    if (n_kinds == 2) {
        const double freedom = s->weight - s->n_free, tie = MAX_TIE / (freedom > 1.0 ? freedom : 1.0);
        *which = !(found[0].criterion <= found[1].criterion + (tie > found[0].tie ? tie : found[0].tie));
    }
    *ridge = found[*which].ridge;
    for (ptrdiff_t i = 0; i < s->m; i++) {
        const double square = square_of(s, kinds[*which], i);
        largest = square > largest ? square : largest;
    }
    if (*ridge < MIN_RIDGE_IF_DEPENDENT * largest) {
        const double least = MIN_RIDGE_IF_DEPENDENT * largest_dependent(s, kinds[*which], scratch);
        *ridge = *ridge > least ? *ridge : least;
    }
    return 1;
}

#endif
