/* Sums as bytes, weights from bytes: what a device sends home, and what comes back into one of two slots.
 *
 * C99 without Python, malloc or global state; also valid C++. Bytes are little-endian on every machine; both
 * kinds end in the CRC-32 of all bytes before it, which finds accidents. It does not find forgeries: sign the
 * bytes for that. `onlinels/devices.py` reads and writes them.
 *
 *     head     magic (4), version u8, kind u8, m u16, n u16, flags u16, serial number u32, fingerprint u64,
 *              size of the labels u32
 *     labels   for each class: the first letter of str, int or bool, size of the text u8, text in UTF-8
 *     sums     head of "OLSD", device u64, labels, tally (3) of f64, then numbers of one kind: origin (m + n),
 *              offset or sums (m + n), upper triangle of A'A by columns, A'Y (m, n) by columns, squares (n)
 *     weights  head of "OLSW", origin (m), weights (m, n) by columns, and intercept (n) of f32, labels:
 *              scores are (x - origin)'weights + intercept
 *
 * Without classes there are no labels. Numbers of sums are f32, i64 or f64, by the kind.
 */
#ifndef ONLINELS_PORTABLE_H
#define ONLINELS_PORTABLE_H

#include "recursion.h"

#define BYTES_VERSION 1
#define HEAD_SIZE 28 /* divides by 4, so that f32 can be read in place */
#define CRC_SIZE 4
#define CLASSIFIES 2 /* a flag; the other, 1, says that sums are about the mean, or that there is an intercept */
enum { SINGLES, WHOLES, DOUBLES }; /* kinds of numbers */

/* ---- Whole numbers ------------------------------------------------------------------------------ */

/* Exact sums of rows of whole numbers, each weighing 1, about an origin: of x and y about it. */
typedef struct {
    ptrdiff_t m, n;
    int64_t rows;
    int32_t *origin;  /* (m + n): the first row; 0 for one-hot targets */
    int64_t *sums;    /* (m + n) */
    int64_t *gram;    /* (m (m + 1) / 2): the upper triangle of A'A by columns */
    int64_t *cross;   /* (m, n): A'Y */
    int64_t *squares; /* (n) */
} wholes_t;

/* sums = sums + f z, for a size above 0: 7 instructions a sum on a Cortex-M4, by -Os too, which took 14 for loops
 * inside those of the next function. */
static void add_whole_multiple(ptrdiff_t size, int32_t f, const int32_t *RESTRICT z, int64_t *RESTRICT sums)
{
    do
        *sums++ += (int64_t)f * *z++;
    while (--size);
}

/* Add a row x (m) with its label or, if y is not NULL, its targets y (n). `z` (m) is scratch memory.
 *
 * Products of differences of 16-bit numbers are below 2^32: the sums of 2^31 rows fit 64 bits. Return 0, with
 * nothing changed, for the row after these. */
static int add_whole_row(wholes_t *s, const int16_t *x, const int16_t *y, ptrdiff_t label, int32_t *z)
{
    int64_t *column = s->gram;
    if (s->rows == INT32_MAX)
        return 0;
    for (ptrdiff_t i = 0; s->rows == 0 && i < s->m + s->n; i++)
        s->origin[i] = i < s->m ? x[i] : y ? y[i - s->m] : 0;
    for (ptrdiff_t j = 0; j < s->m; j++)
        z[j] = x[j] - s->origin[j];
    add_whole_multiple(s->m, 1, z, s->sums);
    for (ptrdiff_t j = 0; j < s->m; j++) {
        add_whole_multiple(j + 1, z[j], z, column);
        column += j + 1;
    }
    for (ptrdiff_t k = y ? 0 : label; k < (y ? s->n : label + 1); k++) {
        const int32_t v = y ? y[k] - s->origin[s->m + k] : 1;
        s->sums[s->m + k] += v;
        s->squares[k] += (int64_t)v * v;
        add_whole_multiple(s->m, v, z, s->cross + k * s->m);
    }
    s->rows++;
    return 1;
}

/* ---- Bytes -------------------------------------------------------------------------------------- */

/* Where bytes go, one after the other, so that no copy of the sums needs memory. */
typedef struct {
    void (*send)(void *to, uint8_t byte); /* NULL: bytes are only counted */
    void *to;
    size_t size;
    uint32_t crc;
} writer_t;

static uint32_t crc_after(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int i = 0; i < 8; i++)
        crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0u);
    return crc;
}

static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++)
        crc = crc_after(crc, bytes[i]);
    return ~crc;
}

static void put_bits(writer_t *w, uint64_t bits, int size)
{
    for (int i = 0; i < size; i++, bits >>= 8, w->size++) {
        w->crc = crc_after(w->crc, (uint8_t)bits);
        if (w->send)
            w->send(w->to, (uint8_t)bits);
    }
}

static void put_double(writer_t *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_bits(w, bits, 8);
}

static void put_reals(writer_t *w, ptrdiff_t size, const real *values)
{
    for (ptrdiff_t i = 0; i < size; i++) {
        uint32_t bits = 0;
        if (sizeof(real) == 8) {
            put_double(w, (double)values[i]);
        } else {
            memcpy(&bits, values + i, sizeof(bits));
            put_bits(w, bits, 4);
        }
    }
}

static void put_wholes(writer_t *w, ptrdiff_t size, const int64_t *values)
{
    for (ptrdiff_t i = 0; i < size; i++)
        put_bits(w, (uint64_t)values[i], 8);
}

static uint64_t bits_at(const uint8_t *bytes, int size)
{
    uint64_t bits = 0;
    while (size--)
        bits = bits << 8 | bytes[size];
    return bits;
}

/* ---- Sums go home ------------------------------------------------------------------------------- */

/* What the bytes say besides the sums. */
typedef struct {
    uint64_t device, fingerprint; /* `onlinels.devices.fingerprint` of the model */
    uint32_t serial;              /* larger than that of all bytes sent before */
    int is_centred, is_classifier;
    const uint8_t *labels;        /* as in the bytes */
    size_t size_of_labels;
} sender_t;

static writer_t begin_bytes(const sender_t *from, int kind, ptrdiff_t m, ptrdiff_t n, const double *tally,
                            void (*send)(void *to, uint8_t byte), void *to)
{
    writer_t w = {send, to, 0, 0xFFFFFFFFu};
    put_bits(&w, 0x44534C4Fu, 4); /* "OLSD" */
    put_bits(&w, BYTES_VERSION | (uint64_t)kind << 8, 2);
    put_bits(&w, (uint64_t)m, 2);
    put_bits(&w, (uint64_t)n, 2);
    put_bits(&w, (from->is_centred ? 1 : 0) | (from->is_classifier ? CLASSIFIES : 0), 2);
    put_bits(&w, from->serial, 4);
    put_bits(&w, from->fingerprint, 8);
    put_bits(&w, from->size_of_labels, 4);
    put_bits(&w, from->device, 8);
    for (size_t i = 0; i < from->size_of_labels; i++)
        put_bits(&w, from->labels[i], 1);
    for (int i = 0; i < 3; i++)
        put_double(&w, tally[i]);
    return w;
}

/* Send the sums of a device. Return the number of bytes: with send = NULL, without sending them. */
static size_t send_sums(const sender_t *from, const sums_t *s, void (*send)(void *to, uint8_t byte), void *to)
{
    const int kind = sizeof(real) == 8 ? DOUBLES : SINGLES;
    const double tally[3] = {s->tally[0], s->tally[1], s->tally[2]};
    writer_t w = begin_bytes(from, kind, s->m, s->n, tally, send, to);
    put_reals(&w, s->m + s->n, s->origin);
    put_reals(&w, s->m + s->n, s->offset);
    for (const panel_t *p = s->panels; p < s->panels + s->n_panels; p++)
        for (ptrdiff_t j = 0; j < p->width; j++) {
            put_reals(&w, p->start, p->above + j * p->start);
            put_reals(&w, j + 1, p->corner + j * p->width);
        }
    put_reals(&w, s->m * s->n, s->cross);
    for (ptrdiff_t j = 0; j < s->n; j++)
        put_reals(&w, 1, s->squares[s->m + j]);
    put_bits(&w, ~w.crc, CRC_SIZE);
    return w.size;
}

/* Send exact sums of a device, as `send_sums` does. */
static size_t send_wholes(const sender_t *from, const wholes_t *s, void (*send)(void *to, uint8_t byte), void *to)
{
    const double rows = (double)s->rows, tally[3] = {rows, rows, rows};
    writer_t w = begin_bytes(from, WHOLES, s->m, s->n, tally, send, to);
    for (ptrdiff_t i = 0; i < s->m + s->n; i++)
        put_bits(&w, (uint64_t)(int64_t)s->origin[i], 8);
    put_wholes(&w, s->m + s->n, s->sums);
    put_wholes(&w, s->m * (s->m + 1) / 2, s->gram);
    put_wholes(&w, s->m * s->n, s->cross);
    put_wholes(&w, s->n, s->squares);
    put_bits(&w, ~w.crc, CRC_SIZE);
    return w.size;
}

/* ---- Weights come back -------------------------------------------------------------------------- */

/* Two slots of flash memory, of which one answers while the other is written. */
typedef struct {
    uint64_t fingerprint;    /* of the model */
    uint32_t serial;         /* of the weights that the program began with; only later ones are taken */
    ptrdiff_t m, most;       /* numbers of features, and of classes or targets that the program has room for */
    const uint8_t *slots[2]; /* where they can be read */
    size_t size, unit;       /* of a slot, and of what flash memory writes at once: 4, 8, 16 or 32 */
    /* Erase the first `size` bytes of a slot if bytes is NULL, otherwise write them from `at` on, a multiple of
     * `unit`. Return 0 if that worked. */
    int (*write)(void *flash, int slot, size_t at, const uint8_t *bytes, size_t size);
    void *flash;
} slots_t;

enum { TAKEN, DAMAGED, OF_ANOTHER_MODEL, TOO_LARGE, NOT_NEWER, NOT_WRITTEN };

static uint32_t serial_of(const uint8_t *bytes) { return (uint32_t)bits_at(bytes + 12, 4); }

/* Return the size of weights whose head fits this model, or 0. All sums of sizes fit 32 bits. */
static size_t size_of_weights(const slots_t *s, const uint8_t *bytes)
{
    const size_t m = (size_t)s->m, n = (size_t)bits_at(bytes + 8, 2), labels = (size_t)bits_at(bytes + 24, 4);
    if (bits_at(bytes + 6, 2) != m || n < 1 || n > (size_t)s->most || labels > s->size)
        return 0;
    return HEAD_SIZE + 4 * (m + m * n + n) + labels + CRC_SIZE;
}

/* Return whether the labels of weights are whole, and whether their numbers are finite. */
static int are_sound(const uint8_t *bytes, size_t size)
{
    const size_t end = size - CRC_SIZE, labels = (size_t)bits_at(bytes + 24, 4);
    size_t n = (size_t)bits_at(bytes + 8, 2), at = HEAD_SIZE;
    for (; at < end - labels; at += 4)
        if ((bits_at(bytes + at, 4) & 0x7F800000u) == 0x7F800000u)
            return 0;
    for (n = bits_at(bytes + 10, 2) & CLASSIFIES ? n : 0; n && at + 2 <= end; n--)
        at += 2 + (size_t)bytes[at + 1];
    return !n && at == end;
}

/* Return TAKEN, with nothing written, if weights are whole and fit this model, otherwise why not. */
static int check_weights(const slots_t *s, const uint8_t *bytes, size_t size)
{
    size_t told;
    if (size < HEAD_SIZE + CRC_SIZE || bits_at(bytes, 4) != 0x57534C4Fu) /* "OLSW" */
        return DAMAGED;
    if (bits_at(bytes + 4, 2) != BYTES_VERSION || bits_at(bytes + 16, 8) != s->fingerprint)
        return OF_ANOTHER_MODEL;
    told = size_of_weights(s, bytes);
    if (told == 0 || told > s->size)
        return TOO_LARGE;
    if (told > size || bits_at(bytes + told - CRC_SIZE, CRC_SIZE) != crc_of(bytes, told - CRC_SIZE))
        return DAMAGED;
    return are_sound(bytes, told) ? TAKEN : DAMAGED;
}

/* Return the weights that answer: those in the slot with the larger serial number, or NULL for those that the
 * program began with. */
static const uint8_t *answering(const slots_t *s)
{
    const uint8_t *best = NULL;
    uint32_t serial = s->serial;
    for (int i = 0; i < 2; i++)
        if (check_weights(s, s->slots[i], s->size) == TAKEN && serial_of(s->slots[i]) > serial) {
            best = s->slots[i];
            serial = serial_of(best);
        }
    return best;
}

/* Write new weights into the slot that does not answer, which answers after the last write: that of the first
 * unit. Until then, whatever happens, the weights before them answer. Return TAKEN or why not. */
static int take_weights(const slots_t *s, const uint8_t *bytes, size_t size)
{
    const uint8_t *now = answering(s);
    const int found = check_weights(s, bytes, size), slot = now != NULL && now == s->slots[0];
    if (found != TAKEN)
        return found;
    if (size != size_of_weights(s, bytes))
        return DAMAGED;
    if (serial_of(bytes) <= (now ? serial_of(now) : s->serial))
        return NOT_NEWER;
    if (s->write(s->flash, slot, 0, NULL, s->size)
        || s->write(s->flash, slot, s->unit, bytes + s->unit, size - s->unit)
        || memcmp(s->slots[slot] + s->unit, bytes + s->unit, size - s->unit)
        || s->write(s->flash, slot, 0, bytes, s->unit))
        return NOT_WRITTEN;
    return answering(s) == s->slots[slot] ? TAKEN : NOT_WRITTEN;
}

/* Return number i of the origin, the weights and the intercept, one after the other. On a little-endian machine
 * with REAL float, (const float *)(bytes + HEAD_SIZE) is the same without copies. */
static real number_at(const uint8_t *bytes, size_t i)
{
    const uint32_t bits = (uint32_t)bits_at(bytes + HEAD_SIZE + 4 * i, 4);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return (real)value;
}

/* Return the label of a class: its letter, the size of its text, and the text. */
static const uint8_t *label_at(const uint8_t *bytes, ptrdiff_t label)
{
    const size_t m = (size_t)bits_at(bytes + 6, 2), n = (size_t)bits_at(bytes + 8, 2);
    const uint8_t *at = bytes + HEAD_SIZE + 4 * (m + m * n + n);
    while (label-- > 0)
        at += 2 + at[1];
    return at;
}

#endif
