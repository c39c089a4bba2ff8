/* The arrays of the linear experts of stream models, which are checked when they are taken. */
#ifndef ONLINELS_EXPERTS_H
#define ONLINELS_EXPERTS_H

#include "reading.h"
#include "stream.h"

/* Whether n places lie from `least` to below `end`; a place outside counts for nothing where it is used. */
static int are_places(Py_ssize_t n, const int64_t *places, int64_t least, int64_t end)
{
    for (Py_ssize_t i = 0; i < n; i++)
        if (places[i] < least || places[i] >= end)
            return 0;
    return 1;
}

/* An array to take: where its pointer goes, its number of numbers, their types, and their order. */
typedef struct {
    void *place;
    Py_ssize_t size;
    const char *formats;
    int order;
} wanted_t;

/* Take n arrays from the i-th on. Return 0 with an exception if they do not fit. */
static int take_wanted(PyObject *arrays, Py_ssize_t i, Py_ssize_t n, const wanted_t *wanted)
{
    for (const wanted_t *each = wanted; each < wanted + n; each++, i++) {
        void *found = memory_of(arrays, i, each->size, each->formats, PyBUF_WRITABLE | each->order);
        if (!found)
            return 0;
        memcpy(each->place, &found, sizeof(found));
    }
    return 1;
}

#define N_SHARED 12 /* arrays before those of linear experts */

/* Take the arrays of linear experts, of which the first have a memory. Return 0 with an exception if they do not
 * fit. */
static int take_linear(experts_t *e, PyObject *arrays, Py_ssize_t n_memories)
{
    Py_ssize_t i = N_SHARED;
    for (linear_t *l = e->linear; l < e->linear + N_LINEAR; l++) {
        const int n_arrays = l < e->linear + n_memories ? 5 : 2;
        PyObject *weights = PyTuple_GetItem(arrays, i + 1);
        PyObject *transposed = weights ? PyObject_GetAttrString(weights, "T") : NULL;
        const Py_ssize_t size = l->size = PyObject_Size(PyTuple_GetItem(arrays, i));
        const Py_ssize_t n = l->n = transposed ? PyObject_Size(transposed) : -1;
        const wanted_t wanted[] = {
            {&l->view, size, INTEGERS, PyBUF_C_CONTIGUOUS}, {&l->memory.weights, size * n, REALS, PyBUF_F_CONTIGUOUS},
            {&l->memory.inverse, size * size, REALS, PyBUF_F_CONTIGUOUS},
            {&l->memory.pending, size, REALS, PyBUF_C_CONTIGUOUS},
            {&l->memory.factors, N_FACTORS, REALS, PyBUF_C_CONTIGUOUS},
        };
        Py_XDECREF(transposed);
        if (PyErr_Occurred() || !take_wanted(arrays, i, n_arrays, wanted))
            return 0;
        e->n_scores += n;
        e->n = n_arrays == 2 ? n : 0;
        i += n_arrays;
    }
    return 1;
}

/* Take the arrays of experts, and make room for a row. Return this memory, or NULL with an exception if they do not
 * fit. */
static real *take_experts(experts_t *e, stream_row_t *row, PyObject *arrays)
{
    const Py_ssize_t n_units = e->n_units = PyObject_Size(PyTuple_GetItem(arrays, 1));
    const Py_ssize_t n_parts = e->n_parts = PyObject_Size(PyTuple_GetItem(arrays, 7));
    const Py_ssize_t m = e->m = PyObject_Size(PyTuple_GetItem(arrays, 8));
    const Py_ssize_t n_labels = e->n_labels = PyObject_Size(PyTuple_GetItem(arrays, 9));
    const Py_ssize_t n_memories = PyObject_Size(PyTuple_GetItem(arrays, 11));
    const Py_ssize_t size = e->size = n_units + 1 + m + 2 * n_labels;
    const int by_rows = PyBUF_C_CONTIGUOUS;
    if (PyErr_Occurred())
        return NULL;
    e->n_cells = CELLS_OF_PARTITION * n_parts + 1 + n_labels;
    const wanted_t shared[] = {
        {&e->input_weights, m * n_units, REALS, by_rows}, {&e->biases, n_units, REALS, by_rows},
        {&e->seen, 3 * n_parts, INTEGERS, by_rows}, {&e->bins, 3 * n_parts, REALS, by_rows},
        {&e->shifts, 3 * n_parts, REALS, by_rows}, {&e->decays, n_parts + 1, REALS, by_rows},
        {&e->cells, e->n_cells * (1 + n_labels), REALS, by_rows}, {&e->shares, n_parts, REALS, by_rows},
        {&e->features, m, INTEGERS, by_rows}, {&e->labels, n_labels, INTEGERS, by_rows},
        {&e->mixture, n_labels, INTEGERS, by_rows}, {&e->forgetting, n_memories, REALS, by_rows},
    };
    if (!take_wanted(arrays, 0, N_SHARED, shared) || !take_linear(e, arrays, n_memories))
        return NULL;
    int fits = are_places(3 * n_parts, e->seen, -1, m) && are_places(m, e->features, 0, size);
    fits = fits && are_places(n_labels, e->labels, 0, size) && are_places(n_labels, e->mixture, 0, size);
    Py_ssize_t n_numbers = m + size + e->n_scores + e->n + 2 * n_parts + 1;
    for (const linear_t *l = e->linear; l < e->linear + N_LINEAR; n_numbers += 2 * l->size, l++)
        fits = fits && are_places(l->size, l->view, 0, size) && (l->memory.inverse || l->n == e->n);
    if (!fits || n_labels > e->n)
        return (real *)PyErr_Format(PyExc_ValueError, "places of features or labels lie outside a row");
    if (!(row->z = PyMem_Calloc((size_t)n_numbers, sizeof(real))))
        return (real *)PyErr_NoMemory();
    row->wide = row->z + m;
    row->scores = row->wide + size;
    row->likelihoods = row->scores + e->n_scores + e->n;
    row->cells = (int64_t *)(row->likelihoods + n_parts);
    real *left = (real *)(row->cells + n_parts + 1);
    for (linear_t *l = e->linear; l < e->linear + N_LINEAR; left += 2 * l->size, l++) {
        l->seen = l > e->linear && l->view == e->linear->view ? e->linear->seen : left + l->size;
        l->image = left;
    }
    return row->z;
}

#endif
