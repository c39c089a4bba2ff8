/* A stream by recursion.h and solve.h alone, whose first row becomes the origin; a ridge by selection.h alone. */
#include "selection.h"
#include "solve.h"
#include <stdlib.h>

#ifdef __cplusplus
extern "C"
#endif
/* Predict rows (k, m + n), each before it is learnt. Solve for the weights after all rows, and begin a recursion; write
 * both weights and J, the leverage of the last row and the logarithm of the determinant. Return the number of rows
 * that the weights followed, or -1 without memory or solution. */
ptrdiff_t
learn(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const real *rows, real ridge, double decay, real *scores,
      real *weights, real *criterion, real *solved, real *begun, real *least, double *others)
{
    const ptrdiff_t size = m + n, block = size * size, width = m / 2;
    real *of = (real *)calloc((size_t)(16 * block), sizeof(real)), *memory;
    solver_t v;
    const ridge_t penalty = {ridge, AS_THEY_ARE, NULL};
    uint64_t *prints = (uint64_t *)calloc((size_t)(3 * size), sizeof(uint64_t));
    real **squares = (real **)calloc((size_t)size, sizeof(real *));
    double tally[3] = {0.0, 0.0, 0.0}, factors[N_FACTORS] = {1.0, 0.0, 1.0};
    panel_t panels[2] = {{0, width, of, of}, {width, m - width, of + block, of + 2 * block}};
    sums_t s;
    recursion_t r;
    row_t row;
    ptrdiff_t i = 0;
    memory = (real *)calloc(size_of_solver(m, n, 1), sizeof(real));
    if (!of || !prints || !squares || !memory)
        return -1;
    memset(&v, 0, sizeof(v));
    memset(&s, 0, sizeof(s));
    memset(&r, 0, sizeof(r));
    memset(&row, 0, sizeof(row));
    s.m = m, s.n = n, s.n_panels = 2, s.panels = panels, s.tally = tally, s.prints = prints;
    s.is_centred = 1, s.origin = of + 3 * block, s.offset = of + 4 * block;
    s.cross = of + 5 * block, s.squares = squares;
    for (ptrdiff_t j = 0; j < m; j++) {
        const panel_t *p = panels + (j >= width);
        squares[j] = p->corner + (j - p->start) * (p->width + 1);
    }
    for (ptrdiff_t j = 0; j < n; j++)
        squares[m + j] = of + 6 * block + j;
    r.inverse = of + 7 * block, r.pending = of + 8 * block, r.factors = factors;
    r.weights = weights, r.criterion = criterion, r.penalties = of + 14 * block;
    row.values = of + 9 * block, row.about = of + 10 * block, row.image = of + 11 * block;
    row.scores = of + 12 * block, row.errors = of + 13 * block;
    row.imaged = of + 15 * block, row.imaged_at = -1.0, row.own = 1.0;
    for (ptrdiff_t j = 0; j < m; j++)
        r.inverse[j * m + j] = 1 / ridge, r.penalties[j] = ridge;
    for (; i < k; i++) {
        memcpy(row.values, rows + i * size, (size_t)size * sizeof(real));
        predict(&s, r.weights, &row);
        for (ptrdiff_t j = 0; j < n; j++)
            scores[i * n + j] = row.scores[j];
        prepare(&s, &row, 1.0, decay);
        if (!follow(&s, &r, &row, 1e4))
            break;
        add_row(&s, &row);
    }
    row.own = 1.0;
    place_solver(m, n, 1, memory, &v);
    centre(&s, &row);
    if (!factor_system(&s, &penalty, 1.0, &v))
        return -1;
    solve_targets(&s, &v);
    memcpy(solved, v.weights, (size_t)(m * n) * sizeof(real));
    others[0] = spread_of_factor(&s, &v, &penalty, &row, 0);
    others[1] = row.errors[0];
    others[2] = spread(&s, &r, &row, 0);
    others[3] = row.errors[0];
    others[4] = 0;
    for (ptrdiff_t j = 0; j < m; j++) /* log det of A'A + D, by the reciprocals of the pivots */
        others[4] -= 2.0 * (log((double)v.factor[j * (m + 1)]) + log((double)v.scale[j]));
    r.weights = begun, r.criterion = least;
    if (!begin_recursion(&s, &v, 1.0, &r))
        return -1;
    others[5] = spread(&s, &r, &row, 0);
    others[6] = row.errors[0];
    others[7] = is_accepted(&s, &r, row.image);
    free(memory);
    free(of);
    free(prints);
    free(squares);
    return i;
}

/* Sums of rows; `numbers` are Y'Y, the weight, the number of free parameters, and whether rows are forgotten fast. */
static products_t
sums_of(ptrdiff_t m, ptrdiff_t n, const real *gram, const real *cross, const double *squares, const double *numbers)
{
    const products_t s = {m, n, gram, cross, squares, numbers[0], numbers[1], (int)numbers[2], (int)numbers[3]};
    return s;
}

#ifdef __cplusplus
extern "C"
#endif
/* Select a ridge for one or two kinds of units, NULL for features as they are. Return the kind, or -1 if other code
 * must select. */
int
choose(ptrdiff_t m, ptrdiff_t n, const real *gram, const real *cross, const double *squares, const double *numbers,
       int n_kinds, const double *units, const double *others, double *ridge)
{
    const double *kinds[2] = {units, others};
    const products_t s = sums_of(m, n, gram, cross, squares, numbers);
    real *scratch = (real *)calloc((size_t)scratch_for_selection(m, n), sizeof(real));
    int which = -1;
    if (scratch && !select_ridge(&s, kinds, n_kinds, NULL, scratch, ridge, &which))
        which = -1;
    free(scratch);
    return which;
}

#ifdef __cplusplus
extern "C"
#endif
/* Whether the score test accepts a ridge; -1 if other code must test it. */
int
is_kept(ptrdiff_t m, ptrdiff_t n, const real *gram, const real *cross, const double *squares, const double *numbers,
        const double *units, double ridge)
{
    const products_t s = sums_of(m, n, gram, cross, squares, numbers);
    real *scratch = (real *)calloc((size_t)scratch_for_selection(m, n), sizeof(real));
    spectrum_t t;
    const int is_found = scratch && find_spectrum(&s, units, scratch, &t), is_kept = is_found && accepts(&t, ridge);
    free(scratch);
    return is_found ? is_kept : -1;
}
