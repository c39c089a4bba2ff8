/* A device: rows learnt by recursion.h, or whole numbers by portable.h; its bytes; and slots of flash memory. */
#include "portable.h"
#include <stdlib.h>

#ifdef __cplusplus
#define C_NAME extern "C"
#else
#define C_NAME
#endif

typedef struct {
    uint8_t *bytes;
    size_t size;
} buffer_t;

static void append(void *to, uint8_t byte)
{
    buffer_t *buffer = (buffer_t *)to;
    buffer->bytes[buffer->size++] = byte;
}

/* Learn rows (k, m + n) of given weights, in panels of `width` columns. Write the bytes of their sums; return their
 * number, and with bytes = NULL nothing else. */
C_NAME size_t learn(const sender_t *from, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const real *rows, const double *w,
                    ptrdiff_t width, uint8_t *bytes)
{
    const ptrdiff_t size = m + n;
    real *of = (real *)calloc((size_t)(size * (2 * size + 6)), sizeof(real)), *at = of;
    uint64_t *prints = (uint64_t *)calloc((size_t)(3 * size), sizeof(uint64_t));
    real **squares = (real **)calloc((size_t)size, sizeof(real *));
    panel_t *panels = (panel_t *)calloc((size_t)m, sizeof(panel_t));
    double tally[3] = {0.0, 0.0, 0.0};
    buffer_t buffer = {bytes, 0};
    size_t told = 0;
    sums_t s;
    row_t row;
    memset(&s, 0, sizeof(s));
    memset(&row, 0, sizeof(row));
    s.m = m, s.n = n, s.panels = panels, s.is_centred = from->is_centred, s.tally = tally, s.prints = prints;
    s.origin = at, s.offset = at + size, row.values = at + 2 * size, row.about = at + 3 * size, at += 4 * size;
    s.squares = squares, s.cross = at, at += m * n;
    for (ptrdiff_t start = 0; start < m; start += width, s.n_panels++) {
        panel_t *p = panels + s.n_panels;
        p->start = start, p->width = m - start < width ? m - start : width;
        p->above = at, p->corner = at + start * p->width, at += (start + p->width) * p->width;
        for (ptrdiff_t j = 0; j < p->width; j++)
            squares[start + j] = p->corner + j * (p->width + 1);
    }
    for (ptrdiff_t j = 0; j < n; j++)
        squares[m + j] = at++;
    for (ptrdiff_t i = 0; i < k; i++) {
        memcpy(row.values, rows + i * size, (size_t)size * sizeof(real));
        prepare(&s, &row, w[i], 1.0);
        add_row(&s, &row);
    }
    told = send_sums(from, &s, bytes ? append : NULL, &buffer);
    free(of), free(prints), free(squares), free(panels);
    return bytes && buffer.size != told ? 0 : told;
}

/* Learn whole rows (k, m) with labels (k), or with targets (k, n) if y is not NULL; otherwise as `learn`. */
C_NAME size_t learn_wholes(const sender_t *from, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const int16_t *x,
                           const int16_t *y, const int64_t *labels, uint8_t *bytes)
{
    int64_t *of = (int64_t *)calloc((size_t)((m + n) * (m + n + 4)), sizeof(int64_t));
    int32_t *numbers = (int32_t *)calloc((size_t)(2 * m + n), sizeof(int32_t));
    buffer_t buffer = {bytes, 0};
    size_t told = 0;
    wholes_t s = {m, n, 0, numbers, of, of + m + n, NULL, NULL};
    s.cross = s.gram + m * (m + 1) / 2, s.squares = s.cross + m * n;
    for (ptrdiff_t i = 0; i < k; i++)
        if (!add_whole_row(&s, x + i * m, y ? y + i * n : NULL, y ? 0 : labels[i], numbers + m + n))
            told = 1;
    told = told ? 0 : send_wholes(from, &s, bytes ? append : NULL, &buffer);
    free(of), free(numbers);
    return bytes && buffer.size != told ? 0 : told;
}

/* Slots of flash memory whose power is cut after some bytes were written or erased. */
typedef struct {
    uint8_t *slots[2];
    ptrdiff_t left;
} flash_t;

static int write_flash(void *of, int slot, size_t at, const uint8_t *bytes, size_t size)
{
    flash_t *flash = (flash_t *)of;
    for (size_t i = 0; i < size; i++) {
        uint8_t *to = flash->slots[slot] + at + i;
        if (flash->left-- <= 0 || (bytes && *to != 0xFF)) /* What is not erased cannot be written. */
            return 1;
        *to = bytes ? bytes[i] : 0xFF;
    }
    return 0;
}

/* Take weights into slots (2, size), of which the power is cut after `left` bytes. */
C_NAME int take(uint64_t fingerprint, uint32_t serial, ptrdiff_t m, ptrdiff_t most, uint8_t *slots, size_t size,
                size_t unit, const uint8_t *bytes, size_t n_bytes, ptrdiff_t left)
{
    flash_t flash = {{slots, slots + size}, left};
    const slots_t s = {fingerprint, serial, m, most, {slots, slots + size}, size, unit, write_flash, &flash};
    return take_weights(&s, bytes, n_bytes);
}

/* Return the place of the weights that answer, or -1; and their number `number`, and the letter of a label. */
C_NAME ptrdiff_t asked(uint64_t fingerprint, uint32_t serial, ptrdiff_t m, ptrdiff_t most, const uint8_t *slots,
                       size_t size, size_t number, ptrdiff_t label, double *value, uint8_t *letter)
{
    const slots_t s = {fingerprint, serial, m, most, {slots, slots + size}, size, 4, NULL, NULL};
    const uint8_t *now = answering(&s);
    if (!now)
        return -1;
    *value = (double)number_at(now, number);
    *letter = label < 0 ? 0 : *label_at(now, label);
    return now - slots;
}
