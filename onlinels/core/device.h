/* A model on a microcontroller: answers by weights, and new weights from sums.
 *
 * `onlinels.export.c` cuts this file, device_single.h or device_whole.h, and what they call of recursion.h, solve.h and
 * portable.h out for a header of its own, and gives all names a prefix. The header defines before:
 *
 *     value_t                 float, or int16_t for rows of whole numbers
 *     expand(x, values)       which makes M numbers of a row
 *     M, N, MOST              numbers of these, of the exported labels or targets, and of those with room for others
 *     IS_CENTRED, IS_CLASSIFIER, IS_SCALED, RIDGE, FINGERPRINT    settings of the model
 *     LETTER, SIZE_OF_LABELS, ROOM_FOR_LABELS    type of the labels, their bytes (see portable.h), and room for all
 *     exported_origin, exported_weights, exported_intercept, exported_labels
 */
#ifndef ONLINELS_DEVICE_H
#define ONLINELS_DEVICE_H

#include "portable.h"
#include "solve.h"

#define LEAST_RIDGE 1e-6   /* share of the largest sum of squares */
#define MOST_TEXT 30       /* bytes of a new label */

/* ---- Answers ------------------------------------------------------------------------------------ */

/* Weights that answer: those that the header holds, those in a slot, or those solved here. */
typedef struct {
    ptrdiff_t n;            /* number of labels or targets */
    const real *origin;     /* (M) */
    const real *weights;    /* (M, n), by columns */
    const real *intercept;  /* (n) */
    const uint8_t *labels;  /* for each: letter of its type, size, and text in UTF-8; NULL for targets */
} answers_t;

/* The weights in bytes that `answering` has found, or the exported ones if bytes is NULL. */
static answers_t answers_of(const uint8_t *bytes)
{
    answers_t a = {N, exported_origin, exported_weights, exported_intercept, exported_labels};
    if (bytes) {
        a.n = (ptrdiff_t)bits_at(bytes + 8, 2);
        a.origin = (const real *)(const void *)(bytes + HEAD_SIZE);
        a.weights = a.origin + M;
        a.intercept = a.weights + M * a.n;
        a.labels = (const uint8_t *)(const void *)(a.intercept + a.n);
    }
    return a;
}

/* The scores of the labels, or the predictions of the targets (n): (x - origin)'weights + intercept. */
static void scores(const answers_t *a, const value_t *x, real *y)
{
    real z[M];
    expand(x, z);
    for (ptrdiff_t i = 0; i < M; i++)
        z[i] -= a->origin[i];
    for (ptrdiff_t j = 0; j < a->n; j++)
        y[j] = dot(M, a->weights + j * M, z) + a->intercept[j];
}

/* The number of the label with the highest score; of equal scores, the first. */
static ptrdiff_t predict_label(const answers_t *a, const value_t *x)
{
    real y[MOST];
    ptrdiff_t best = 0;
    scores(a, x, y);
    for (ptrdiff_t k = 1; k < a->n; k++)
        best = y[k] > y[best] ? k : best;
    return best;
}

/* Copy the text of a label, of at most 255 bytes, and a 0 behind it. */
static void copy_label(const answers_t *a, ptrdiff_t label, char *text)
{
    const uint8_t *at = a->labels;
    while (label-- > 0)
        at += 2 + at[1];
    memcpy(text, at + 2, at[1]);
    text[at[1]] = 0;
}

/* Two slots for weights from home: where they can be read, their size, and what writes them. */
static slots_t slots_of(const uint8_t *first, const uint8_t *second, size_t size, size_t unit,
                        int (*write)(void *flash, int slot, size_t at, const uint8_t *bytes, size_t size), void *flash)
{
    const slots_t s = {FINGERPRINT, 0, M, MOST, {first, second}, size, unit, write, flash};
    return s;
}

/* ---- Labels ------------------------------------------------------------------------------------- */

/* Labels that a device knows: the exported ones, then new ones. */
typedef struct {
    ptrdiff_t n; /* number of these, or of targets */
    size_t size;
    uint8_t said[ROOM_FOR_LABELS];
} labels_t;

static void begin_labels(labels_t *l)
{
    l->n = N;
    l->size = SIZE_OF_LABELS;
    memcpy(l->said, exported_labels, SIZE_OF_LABELS);
}

/* The CRC-32 of what a learner holds and of the model: memory that was stored and is read again may be damaged, empty,
 * or of another program. */
static uint32_t seal_of(const void *learner, size_t size)
{
    const uint64_t fingerprint = FINGERPRINT;
    const uint8_t *bytes = (const uint8_t *)learner;
    uint32_t crc = 0xFFFFFFFFu;
    for (int i = 0; i < 64; i += 8)
        crc = crc_after(crc, (uint8_t)(fingerprint >> i));
    for (size_t i = 0; i < size; i++)
        crc = crc_after(crc, bytes[i]);
    return ~crc;
}

/* What is sent besides sums. */
static sender_t sender_of(const labels_t *l, uint64_t device, uint32_t serial)
{
    const sender_t s = {device, FINGERPRINT, serial, IS_CENTRED, IS_CLASSIFIER, l->said, l->size};
    return s;
}

/* Whether there are as many labels as they say, so that nothing beyond them is read: what was stored may be damaged. */
static int are_whole(const labels_t *l)
{
    size_t at = 0;
    if (l->n < N || l->n > MOST || l->size > (size_t)ROOM_FOR_LABELS)
        return 0;
    for (ptrdiff_t k = 0; IS_CLASSIFIER && k < l->n; k++) {
        if (at + 2 > l->size)
            return 0;
        at += 2 + (size_t)l->said[at + 1];
    }
    return at == l->size;
}

/* Whether a text is an integer of 64 bits as Python writes it, which home reads: neither "+5" nor "007". */
static int is_integer(const char *text)
{
    const char *digits = text + (*text == '-');
    const size_t size = strlen(digits);
    for (size_t i = 0; i < size; i++)
        if (digits[i] < '0' || digits[i] > '9')
            return 0;
    if (size < 1 || size > 19 || (*digits == '0' && (size > 1 || *text == '-')))
        return 0;
    return size < 19 || strcmp(digits, *text == '-' ? "9223372036854775808" : "9223372036854775807") <= 0;
}

/* Whether a text is UTF-8, which home reads: no surrogate, and no character in more bytes than it needs. */
static int is_utf8(const char *text)
{
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        const int more = *at < 0x80 ? 0 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : 3;
        const uint32_t least = more == 0 ? 0 : more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
        uint32_t character = more ? *at & (0x3Fu >> more) : *at;
        if (*at > 0xF4 || (*at & 0xC0) == 0x80)
            return 0;
        at++;
        for (int i = 0; i < more; i++, at++) {
            if ((*at & 0xC0) != 0x80)
                return 0;
            character = character << 6 | (*at & 0x3Fu);
        }
        if (character < least || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000))
            return 0;
    }
    return 1;
}

/* The number of a label by its text, of which a new one takes a place; -1 if no place is left, if the text has more
 * than MOST_TEXT bytes, or if home cannot read it. */
static ptrdiff_t find_or_add(labels_t *l, const char *text)
{
    const size_t size = strlen(text);
    uint8_t *at = l->said;
    if (!are_whole(l))
        return -1;
    for (ptrdiff_t k = 0; k < l->n; k++, at += 2 + at[1])
        if (at[1] == size && !memcmp(at + 2, text, size))
            return k;
    if (l->n == MOST || size > MOST_TEXT || l->size + 2 + size > (size_t)ROOM_FOR_LABELS)
        return -1;
    if (!(LETTER == 'i' ? is_integer(text) : is_utf8(text)))
        return -1;
    at[0] = LETTER;
    at[1] = (uint8_t)size;
    memcpy(at + 2, text, size);
    l->size += 2 + size;
    return l->n++;
}

/* ---- Weights from sums -------------------------------------------------------------------------- */

/* Solve for the weights, with the exported ridge, or with the least multiple by a power of 10 that leaves `real` its
 * digits. Return the ridge, or -1 without rows or if sums are not finite. The answers lie in `memory`: origin, intercept,
 * and a solver. */
static real solve_sums(const sums_t *s, const uint8_t *labels, real *memory, answers_t *a)
{
    ridge_t c = {RIDGE, IS_SCALED ? DEVIATIONS : AS_THEY_ARE, NULL};
    solver_t v;
    real *origin = memory, *intercept = memory + M;
    double largest = 0.0;
    for (ptrdiff_t i = 0; i < M; i++) {
        const double square = told(s, i);
        largest = square > largest ? square : largest;
    }
    const double least = LEAST_RIDGE * (IS_SCALED ? (double)s->tally[1] : largest);
    place_solver(M, s->n, 1, intercept + s->n, &v);
    if (!(s->tally[0] > 0) || !(largest < HUGE_VAL))
        return -1;
    while (!factor_system(s, &c, 1.0, &v) && c.ridge < HUGE_VAL)
        c.ridge = 10.0 * c.ridge > least ? 10.0 * c.ridge : least;
    solve_targets(s, &v);
    for (ptrdiff_t i = 0; i < M; i++)
        origin[i] = mean_of(s, i);
    for (ptrdiff_t j = 0; j < s->n; j++) {
        intercept[j] = mean_of(s, M + j);
        for (ptrdiff_t i = 0; i < M; i++) /* what rounding the origin has moved it by */
            intercept[j] += ((origin[i] - s->origin[i]) - s->offset[i]) * v.weights[j * M + i];
    }
    a->n = s->n;
    a->origin = origin;
    a->weights = v.weights;
    a->intercept = intercept;
    a->labels = labels;
    return c.ridge < HUGE_VAL ? (real)c.ridge : -1;
}

#endif
