/* Answers about classes from their least-squares scores: probabilities, and linear discriminants with priors.
 *
 * C99 like recursion.h: without Python, malloc, BLAS or global state; also valid C++. What the priors mean stands in
 * `onlinels/linear/scoring.py`, which has the same functions in numpy.
 */
#ifndef ONLINELS_CLASSES_H
#define ONLINELS_CLASSES_H

#include <math.h>

#include "recursion.h"

#define SPREAD_PROBABILITY 0.02
#define MIN_CLASS_SHARE 1e-20
#define MIN_SCATTER_SHARE 1e-10
#define MAX_ROW_NOISE 4.0
#define SCALES_AT_ONCE 64

/* ---- Probabilities ------------------------------------------------------------------------------- */

/* Replace n scores p by the nearest probabilities of at least 0.02 / n each: p = max(p - t, 0), with the t for which
 * they sum to 1, in what is left of 1 (J. Duchi et al., "Efficient projections onto the l1-ball for learning in high
 * dimensions", ICML 2008, figure 1). `sorted` (n) is scratch memory. */
static void project(ptrdiff_t n, real *p, real *sorted)
{
    const double least = SPREAD_PROBABILITY / (double)n;
    double highest = -HUGE_VAL, sum = 0, threshold = -HUGE_VAL;
    for (ptrdiff_t k = 0; k < n; k++) {
        p[k] = (real)((p[k] - least) / (1.0 - SPREAD_PROBABILITY));
        highest = p[k] > highest ? p[k] : highest;
    }
    for (ptrdiff_t k = 0; k < n; k++) { /* Relative to the highest, so that low ones cost no digits; descending */
        const real score = p[k] = (real)(p[k] - highest);
        ptrdiff_t i = k;
        for (; i > 0 && sorted[i - 1] < score; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = score;
    }
    for (ptrdiff_t k = 0; k < n; k++) { /* By the k highest alone, t would be (their sum - 1) / k. */
        sum += sorted[k];
        const double t = (sum - 1.0) / (double)(k + 1);
        threshold = t > threshold ? t : threshold;
    }
    for (ptrdiff_t k = 0; k < n; k++) {
        const double share = p[k] - threshold;
        p[k] = (real)(least + (1.0 - SPREAD_PROBABILITY) * (share > 0.0 ? share : 0.0));
    }
}

/* Replace n scores by their softmax. Where a score is -inf, the probability is `fixed` (n), and the others share what
 * that leaves of `left`. */
static void softmax(ptrdiff_t n, real *p, const real *fixed, double left)
{
    double highest = -HUGE_VAL, sum = 0;
    for (ptrdiff_t k = 0; k < n; k++)
        highest = p[k] > highest ? p[k] : highest;
    for (ptrdiff_t k = 0; k < n; k++) {
        const int is_known = p[k] > -HUGE_VAL;
        left -= is_known ? 0.0 : fixed[k];
        /* What is fixed is told from the others by its sign. */
        p[k] = is_known ? (real)exp(p[k] - highest) : fixed[k] > 0 ? -fixed[k] : 0;
        sum += p[k] > 0 ? p[k] : 0.0;
    }
    for (ptrdiff_t k = 0; k < n; k++)
        p[k] = p[k] < 0 ? -p[k] : (real)(p[k] / sum * left);
}

/* Replace n scores p by the softmax of them times a scale. */
static void exponentiate(ptrdiff_t n, double scale, real *p)
{
    double highest = -HUGE_VAL, sum = 0;
    for (ptrdiff_t k = 0; k < n; k++)
        highest = p[k] > highest ? p[k] : highest;
    for (ptrdiff_t k = 0; k < n; k++)
        sum += p[k] = (real)exp(scale * (p[k] - highest));
    for (ptrdiff_t k = 0; k < n; k++)
        p[k] = (real)(p[k] / sum);
}

/* Replace n scores p by the softmax of them times a scale, after Laplace's rule of succession, which counts one more
 * row of each class beside the rows learnt: the scale of the least loss, with penalties (n_scales). */
static void calibrate(ptrdiff_t n, real *p, double count, ptrdiff_t n_scales, const real *scales,
                      const real *losses, const real *penalties)
{
    ptrdiff_t best = 0;
    for (ptrdiff_t i = 1; i < n_scales; i++)
        if (losses[i] + penalties[i] < losses[best] + penalties[best])
            best = i;
    exponentiate(n, scales[best], p);
    for (ptrdiff_t k = 0; k < n; k++)
        p[k] = (real)((count * p[k] + 1.0) / (count + (double)n));
}

/* Add the loss of such probabilities, -w log p of a class, for each scale (n_scales) to the losses. If a scale is twice
 * that of four places before, its likelihood is the square of the one there, which takes a tenth of the time. */
static void add_losses(ptrdiff_t n, const real *scores, ptrdiff_t column, double w, double count, ptrdiff_t n_scales,
                       const real *scales, real *losses)
{
    double highest = -HUGE_VAL;
    for (ptrdiff_t k = 0; k < n; k++)
        highest = scores[k] > highest ? scores[k] : highest;
    for (; n_scales > 0; n_scales -= SCALES_AT_ONCE, scales += SCALES_AT_ONCE, losses += SCALES_AT_ONCE) {
        const ptrdiff_t size = n_scales < SCALES_AT_ONCE ? n_scales : SCALES_AT_ONCE;
        double sums[SCALES_AT_ONCE] = {0}, own[SCALES_AT_ONCE] = {0}, likelihoods[SCALES_AT_ONCE];
        for (ptrdiff_t k = 0; k < n; k++)
            for (ptrdiff_t i = 0; i < size; i++) {
                const int is_twice = i >= 4 && scales[i] == 2 * scales[i - 4];
                const double before = is_twice ? likelihoods[i - 4] : 0.0;
                likelihoods[i] = is_twice ? before * before : exp(scales[i] * (scores[k] - highest));
                sums[i] += likelihoods[i];
                own[i] = k == column ? likelihoods[i] : own[i];
            }
        for (ptrdiff_t i = 0; i < size; i++)
            losses[i] -= (real)(w * log((count * own[i] + sums[i]) / ((count + (double)n) * sums[i])));
    }
}

/* ---- Discriminants ------------------------------------------------------------------------------- */

/* The weights of n classes, in the sums of 0 and 1 that are their targets, about their mean or not: those at most
 * `errors` (n + 1) times the squares of rounding, and of the mean, that removals have left, are 0. */
static void weights_of_classes(const sums_t *s, const real *errors, real *weights)
{
    for (ptrdiff_t k = 0; k < s->n; k++) {
        const double mean = mean_of(s, s->m + k), weight = *s->squares[s->m + k] + s->tally[1] * mean * mean;
        weights[k] = (real)(weight > errors[k] + errors[s->n] * mean * mean ? weight : 0.0);
    }
}

/* Replace a symmetric positive definite A (n, n), of which both triangles are kept, by its inverse, pivot by pivot.
 * Return 0 if a pivot is not positive. */
KERNEL int invert(ptrdiff_t n, real *a)
{
    for (ptrdiff_t k = 0; k < n; k++) { /* The sweep operator: after all pivots, A is -A^-1. */
        real *RESTRICT own = a + k * n;
        const double pivot = own[k];
        if (!(pivot > 0.0))
            return 0;
        for (ptrdiff_t j = 0; j < n; j++) {
            real *RESTRICT other = a + j * n;
            const real f = (real)(other[k] / pivot);
            if (j == k)
                continue;
            for (ptrdiff_t i = 0; i < n; i++)
                other[i] -= f * own[i];
            other[k] = f;
        }
        for (ptrdiff_t i = 0; i < n; i++)
            own[i] = (real)(own[i] / pivot);
        own[k] = (real)(-1.0 / pivot);
    }
    for (ptrdiff_t i = 0; i < n * n; i++)
        a[i] = -a[i];
    return 1;
}

/* The factors (n) by which the means of classes are shrunk towards the mean of all rows (`shrinkage` in scoring.py;
 * W. James and C. Stein, "Estimation with quadratic loss", 1961), given the inner products of the means off the
 * diagonal, their squares (n), and the share of each class in the weight of all (n). */
static void shrink(ptrdiff_t n, const real *products, const real *squares, const real *shares, double total,
                   real *lengths, real *factors)
{
    double all_pairs = 0, all_inverses = 0, mean_length = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        double pairs = 0, inverses = 0;
        lengths[j] = 0;
        for (ptrdiff_t i = 0; i < n; i++) {
            const double distance = (double)squares[i] + squares[j] - 2.0 * products[j * n + i];
            const double pair = (double)shares[i] * shares[j];
            if (i == j || !(pair > 0.0))
                continue;
            lengths[j] += (distance > 0.0 ? distance : 0.0) * shares[i];
            pairs += pair;
            inverses += pair / (distance > 0.0 ? distance : 0.0);
        }
        factors[j] = (real)(pairs / inverses); /* the harmonic mean of distances; NaN without another class */
        mean_length += shares[j] * lengths[j];
        all_pairs += pairs;
        all_inverses += inverses;
    }
    const double typical = all_pairs / all_inverses;
    for (ptrdiff_t j = 0; j < n; j++) {
        const double excess = factors[j] - typical, most = MAX_ROW_NOISE * typical / (shares[j] * total);
        const double share = (excess > most ? most : excess) / (lengths[j] - 0.5 * mean_length);
        factors[j] = (real)(share > 0.0 ? (share < 1.0 ? 1.0 - share : 0.0) : 1.0);
    }
}

/* The affine map from least-squares scores to discriminant scores.
 *
 * With the weights n_k of n classes, N = diag(n_k), and G = W'A'Y: by Woodbury's formula, the inverse of the scatter
 * within classes and the ridge, times the means of the classes, is W (N - G)^-1. Of the shares N^-1/2 G N^-1/2, all
 * below 1, I - them is inverted (T. Hastie, A. Buja and R. Tibshirani, "Penalized discriminant analysis", The Annals
 * of Statistics 23, 1995).
 *
 * `matrix` (n, n) is G at first; `weights`, the mean of the targets or 0, and the weights of priors are (n). With
 * `shrinks`, means are shrunk. `scratch` is (5 n). Return 0 if a class is separated so well that rounding hides the
 * scatter within, or no class with weight has a prior. */
static int discriminant(ptrdiff_t n, const real *weights, const real *centre, const real *priors, int shrinks,
                        real *matrix, real *constant, real *scratch)
{
    real *roots = scratch, *squares = roots + n, *shares = squares + n, *lengths = shares + n, *factors = lengths + n;
    double total = 0, of_priors = 0, trace = 0;
    for (ptrdiff_t k = 0; k < n; k++)
        total += weights[k];
    for (ptrdiff_t k = 0; k < n; k++) {
        const int is_present = weights[k] > MIN_CLASS_SHARE * total;
        roots[k] = (real)(is_present ? 1.0 / sqrt(weights[k]) : 0.0);
        shares[k] = (real)(is_present ? weights[k] / total : 0.0);
        of_priors += is_present ? priors[k] : 0.0;
    }
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t i = 0; i <= j; i++) {
            const double both = 0.5 * roots[i] * roots[j] * ((double)matrix[j * n + i] + matrix[i * n + j]);
            matrix[j * n + i] = matrix[i * n + j] = (real)((i == j) - both);
        }
    if (!(of_priors > 0.0) || !invert(n, matrix))
        return 0;
    for (ptrdiff_t k = 0; k < n; k++)
        trace += matrix[k * n + k];
    if (!(trace * MIN_SCATTER_SHARE < 1.0)) /* So each share is known to leave more. */
        return 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        for (ptrdiff_t i = 0; i < n; i++)
            matrix[j * n + i] *= (real)(total * roots[i] * roots[j]);
        /* The inner products of the means are the matrix without total / n_k. */
        squares[j] = (real)(matrix[j * n + j] - total * roots[j] * roots[j]);
    }
    if (shrinks) {
        shrink(n, matrix, squares, shares, total, lengths, factors);
        double square = 0; /* of the mean of all rows */
        for (ptrdiff_t i = 0; i < n; i++) { /* times the shares: the matrix, and the products */
            constant[i] = lengths[i] = 0;
            for (ptrdiff_t k = 0; k < n; k++)
                constant[i] += matrix[k * n + i] * shares[k];
            lengths[i] = (real)(constant[i] - (roots[i] > 0 ? 1.0 : 0.0));
            square += shares[i] * lengths[i];
        }
        for (ptrdiff_t j = 0; j < n; j++) {
            const double f = factors[j], g = 1.0 - f;
            squares[j] = (real)(f * f * squares[j] + 2.0 * f * g * lengths[j] + g * g * square);
            for (ptrdiff_t i = 0; i < n; i++)
                matrix[j * n + i] = (real)(f * matrix[j * n + i] + g * constant[i]);
        }
    }
    for (ptrdiff_t j = 0; j < n; j++) {
        const double at_mean = dot(n, centre, matrix + j * n);
        constant[j] = (real)(roots[j] > 0 ? log(priors[j] / of_priors) - at_mean - 0.5 * squares[j] : -HUGE_VAL);
    }
    return 1;
}

/* The discriminant scores of n least-squares scores, which they replace. `scratch` is (n). */
static void discriminate(ptrdiff_t n, const real *matrix, const real *constant, real *scores, real *scratch)
{
    memcpy(scratch, scores, (size_t)n * sizeof(real));
    for (ptrdiff_t k = 0; k < n; k++)
        scores[k] = dot(n, scratch, matrix + k * n) + constant[k];
}

#endif
