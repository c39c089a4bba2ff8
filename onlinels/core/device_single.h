/* Sums over rows in float on a microcontroller: see device.h. */
#ifndef ONLINELS_DEVICE_SINGLE_H
#define ONLINELS_DEVICE_SINGLE_H

#include "device.h"

#define MOST_ROWS 16777216 /* 2^24: float counts no further */
#define MOST_VALUE 1e15    /* of which MOST_ROWS squares are a float */

/* Labels, and sums over the rows learnt: plain data, which may be stored and read again. */
typedef struct {
    labels_t labels;
    tally_t tally[3];
    real origin[M + MOST], offset[M + MOST];
    real gram[SIZE], cross[M * MOST], squares[MOST];
    uint32_t crc; /* of all before, by `seal` */
} learner_t;

/* The same sums as recursion.h takes them. */
typedef struct {
    sums_t sums;
    panel_t panels[N_PANELS];
    real *squares[M + MOST];
} view_t;

static void view_sums(learner_t *l, view_t *v)
{
    const sums_t sums = {M,      l->labels.n, N_PANELS,  IS_CENTRED, l->origin,  l->offset,
                         l->tally, NULL,      v->panels, l->cross,   v->squares, NULL};
    real *a = l->gram;
    for (ptrdiff_t k = 0; k < N_PANELS; k++) {
        panel_t *p = v->panels + k;
        p->start = k * COLUMNS_AT_ONCE;
        p->width = p->start + COLUMNS_AT_ONCE <= M ? COLUMNS_AT_ONCE : M - p->start;
        p->above = a;
        p->corner = a + p->start * p->width;
        a = p->corner + p->width * p->width;
        for (ptrdiff_t j = 0; j < p->width; j++)
            v->squares[p->start + j] = p->corner + j * (p->width + 1);
    }
    for (ptrdiff_t j = 0; j < l->labels.n; j++)
        v->squares[M + j] = l->squares + j;
    v->sums = sums;
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
    return are_whole(&l->labels) && l->tally[0] >= 0 && l->tally[0] <= MOST_ROWS && l->crc == seal_of(l, offsetof(learner_t, crc));
}

static int fits(real value) { return value >= -(real)MOST_VALUE && value <= (real)MOST_VALUE; }

/* Learn a row with its label or, if y is not NULL, its targets. Return 0, with nothing changed, if there is no such
 * label, if labels are damaged, if a number is NaN or beyond MOST_VALUE, or after MOST_ROWS rows. */
static int learn_row(learner_t *l, const value_t *x, ptrdiff_t label, const real *y)
{
    const ptrdiff_t n = l->labels.n;
    real values[M + MOST], about[M + MOST];
    view_t v;
    row_t row;
    if (!are_whole(&l->labels) || !(l->tally[0] < MOST_ROWS) || (!y && (label < 0 || label >= n)))
        return 0;
    expand(x, values);
    for (ptrdiff_t j = 0; j < n; j++)
        values[M + j] = y ? y[j] : (real)(j == label);
    for (ptrdiff_t i = 0; i < M + n; i++)
        if (!fits(values[i]))
            return 0;
    view_sums(l, &v);
    memset(&row, 0, sizeof(row));
    row.values = values;
    row.about = about;
    prepare(&v.sums, &row, 1, 1);
    add_to_sums(&v.sums, &row);
    return 1;
}

/* Solve for the weights of the rows learnt, as `solve_sums` does, in a memory of MEMORY numbers. */
static real solve(learner_t *l, real *memory, answers_t *a)
{
    view_t v;
    if (!are_whole(&l->labels))
        return -1;
    view_sums(l, &v);
    return solve_sums(&v.sums, l->labels.said, memory, a);
}

/* Send all sums, byte by byte. Return the number of bytes: with send = NULL, without sending them;
 * 0, with nothing sent, if the labels are damaged. */
static size_t send_learnt(learner_t *l, uint64_t device, uint32_t serial, void (*send)(void *to, uint8_t byte), void *to)
{
    const sender_t from = sender_of(&l->labels, device, serial);
    view_t v;
    if (!are_whole(&l->labels))
        return 0;
    view_sums(l, &v);
    return send_sums(&from, &v.sums, send, to);
}

#endif
