/* Exact sums over rows of whole numbers on a microcontroller: see device.h. */
#ifndef ONLINELS_DEVICE_WHOLE_H
#define ONLINELS_DEVICE_WHOLE_H

#include "device.h"

/* Labels, and sums over the rows learnt: plain data, which may be stored and read again. */
typedef struct {
    labels_t labels;
    int64_t rows;
    int32_t origin[M + MOST];
    int64_t sums[M + MOST], gram[M * (M + 1) / 2], cross[M * MOST], squares[MOST];
    uint32_t crc; /* of all before, by `seal` */
} learner_t;

static wholes_t view_sums(learner_t *l)
{
    const wholes_t s = {M, l->labels.n, l->rows, l->origin, l->sums, l->gram, l->cross, l->squares};
    return s;
}

/* Begin without rows, with the exported labels. */
static void begin(learner_t *l)
{
    memset(l, 0, sizeof(*l));
    begin_labels(&l->labels);
}

/* Note the CRC-32 of all that was learnt, before it is stored. */
static void seal(learner_t *l) { l->crc = seal_of(l, offsetof(learner_t, crc)); }

/* Whether this is what a program of this model has sealed and stored: otherwise begin. */
static int is_sound(const learner_t *l)
{
    return are_whole(&l->labels) && l->rows >= 0 && l->rows <= INT32_MAX && l->crc == seal_of(l, offsetof(learner_t, crc));
}

/* Learn a row with its label or, if y is not NULL, its targets. Return 0, with nothing changed, if there is no such
 * label, if labels are damaged, or after 2^31 - 1 rows. */
static int learn_row(learner_t *l, const value_t *x, ptrdiff_t label, const int16_t *y)
{
    int32_t z[M];
    wholes_t s = view_sums(l);
    if (!are_whole(&l->labels) || (!y && (label < 0 || label >= l->labels.n)) || !add_whole_row(&s, x, y, label, z))
        return 0;
    l->rows = s.rows;
    return 1;
}

/* The product of two columns about points c (M + n) from the origin, whose sums and rows are known. */
static real about(const learner_t *l, int64_t product, ptrdiff_t i, ptrdiff_t j, const double *c)
{
    const double rows = (double)l->rows;
    return (real)(((double)product - c[i] * (double)l->sums[j]) - c[j] * ((double)l->sums[i] - rows * c[i]));
}

/* Solve for the weights of the rows learnt, as `solve_sums` does, in a memory of MEMORY numbers. */
static real solve(learner_t *l, real *memory, answers_t *a)
{
    if (!are_whole(&l->labels))
        return -1;
    const ptrdiff_t n = l->labels.n;
    real *gram = memory, *cross = gram + M * M, *squares = cross + M * n, *origin = squares + n, *offset = origin + M + n;
    real *at[M + MOST];
    tally_t tally[3] = {(tally_t)l->rows, (tally_t)l->rows, (tally_t)l->rows};
    panel_t panel = {0, M, NULL, gram};
    const sums_t s = {M, n, 1, IS_CENTRED, origin, offset, tally, NULL, &panel, cross, at, NULL};
    double c[M + MOST];
    const int64_t *product = l->gram;
    for (ptrdiff_t i = 0; i < M + n; i++) {
        c[i] = !IS_CENTRED ? -(double)l->origin[i] : l->rows ? (double)l->sums[i] / (double)l->rows : 0.0;
        origin[i] = IS_CENTRED ? (real)l->origin[i] : 0;
        offset[i] = IS_CENTRED ? (real)c[i] : 0;
        at[i] = i < M ? gram + i * (M + 1) : squares + i - M;
    }
    for (ptrdiff_t j = 0; j < M; j++)
        for (ptrdiff_t i = 0; i <= j; i++)
            gram[j * M + i] = about(l, *product++, i, j, c);
    for (ptrdiff_t j = 0; j < n; j++) {
        squares[j] = about(l, l->squares[j], M + j, M + j, c);
        for (ptrdiff_t i = 0; i < M; i++)
            cross[j * M + i] = about(l, l->cross[j * M + i], i, M + j, c);
    }
    return solve_sums(&s, l->labels.said, offset + M + n, a);
}

/* Send all sums, byte by byte. Return the number of bytes: with send = NULL, without sending them;
 * 0, with nothing sent, if the labels are damaged. */
static size_t send_learnt(learner_t *l, uint64_t device, uint32_t serial, void (*send)(void *to, uint8_t byte), void *to)
{
    const sender_t from = sender_of(&l->labels, device, serial);
    const wholes_t s = view_sums(l);
    if (!are_whole(&l->labels))
        return 0;
    return send_wholes(&from, &s, send, to);
}

#endif
