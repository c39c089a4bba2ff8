/* The linear experts of stream models, and what stream models do with a row. */
#ifndef ONLINELS_EXPERTS_H
#define ONLINELS_EXPERTS_H

#include "reading.h"
#include "stream.h"

/* Scale a row: scale(state, row, scaled). */
static PyObject *scale(PyObject *module, PyObject *arrays)
{
    const Py_ssize_t m = PyObject_Size(PyTuple_GetItem(arrays, 1));
    real *state = m < 0 ? NULL : memory_of(arrays, 0, N_SCALE_PARTS * m, REALS, TO_READ), *x, *z;
    if (!state || !(x = memory_of(arrays, 1, m, REALS, TO_READ)) || !(z = memory_of(arrays, 2, m, REALS, TO_WRITE)))
        return NULL;
    scale_row(m, state, x, z);
    Py_RETURN_NONE;
}

/* Learn a row into a new state: scale_after(state, row, new state). */
static PyObject *scale_after(PyObject *module, PyObject *arrays)
{
    const Py_ssize_t m = PyObject_Size(PyTuple_GetItem(arrays, 1)), size = N_SCALE_PARTS * m;
    real *state = m < 0 ? NULL : memory_of(arrays, 0, size, REALS, TO_READ), *x, *after;
    if (!state || !(x = memory_of(arrays, 1, m, REALS, TO_READ))
        || !(after = memory_of(arrays, 2, size, REALS, TO_WRITE)))
        return NULL;
    learn_scale(m, state, x, after);
    Py_RETURN_NONE;
}

/* Mix scores: mix_scores(scores, priors, errors, best, mixture, rate). */
static PyObject *mix_scores(PyObject *module, PyObject *args)
{
    const Py_ssize_t n = PyObject_Size(PyTuple_GetItem(args, 4));
    const Py_ssize_t sizes[] = {N_EXPERTS * n, N_EXPERTS, N_EXPERTS, N_EXPERTS, n};
    real *found[5];
    for (Py_ssize_t i = 0; i < 5; i++)
        if (n < 0 || !(found[i] = memory_of(args, i, sizes[i], REALS, i < 3 ? TO_READ : TO_WRITE)))
            return NULL;
    const double rate = PyFloat_AsDouble(PyTuple_GetItem(args, 5));
    if (PyErr_Occurred())
        return NULL;
    mix(n, found[0], found[1], found[2], rate, found[3], found[4]);
    Py_RETURN_NONE;
}

/* Judge a forecast, into new errors and losses: judge_row(best, mixture, scales, errors, losses, column, count,
 * w). */
static PyObject *judge_row(PyObject *module, PyObject *args)
{
    const Py_ssize_t n = PyObject_Size(PyTuple_GetItem(args, 1)), n_scales = PyObject_Size(PyTuple_GetItem(args, 2));
    const Py_ssize_t sizes[] = {N_EXPERTS, n, n_scales, N_EXPERTS, n_scales};
    real *found[5];
    for (Py_ssize_t i = 0; i < 5; i++)
        if (n < 0 || n_scales < 0
            || !(found[i] = memory_of(args, i, sizes[i], REALS, i < 3 ? TO_READ : TO_WRITE)))
            return NULL;
    const Py_ssize_t column = PyLong_AsSsize_t(PyTuple_GetItem(args, 5));
    const double count = PyFloat_AsDouble(PyTuple_GetItem(args, 6)), w = PyFloat_AsDouble(PyTuple_GetItem(args, 7));
    if (!PyErr_Occurred() && (column < 0 || column >= n))
        PyErr_SetString(PyExc_ValueError, "the class has no score");
    if (PyErr_Occurred())
        return NULL;
    judge(n, n_scales, column, count, w, found[0], found[1], found[2], found[3], found[4]);
    Py_RETURN_NONE;
}

/* Write the forecasts of all experts and return their mixture: mix_forecasts(scores, targets, quantities, priors,
 * losses, forecasts, plain, unit, last, low, high, rate). */
static PyObject *mix_numbers(PyObject *module, PyObject *args)
{
    const Py_ssize_t n = PyObject_Size(PyTuple_GetItem(args, 0)), n_all = n + N_OTHERS;
    numbers_t t = {0};
    double plain;
    PyObject *a; /* an array, which is taken below */
    real *scores, *forecasts;
    if (n < 0
        || !PyArg_ParseTuple(args, "OOOOOOdddddd", &a, &a, &a, &a, &a, &a, &plain, &t.unit, &t.last, &t.low, &t.high,
                             &t.rate)
        || !(scores = memory_of(args, 0, n, REALS, TO_READ))
        || !(t.targets = memory_of(args, 1, N_SCALE_PARTS * N_QUANTITIES, REALS, TO_READ))
        || !(t.quantities = memory_of(args, 2, n, INTEGERS, TO_READ))
        || !(t.priors = memory_of(args, 3, n_all, REALS, TO_READ))
        || !(t.losses = memory_of(args, 4, n_all, REALS, TO_READ))
        || !(forecasts = memory_of(args, 5, n_all, REALS, TO_WRITE)))
        return NULL;
    if (n_all > MAX_FORECASTS)
        return PyErr_Format(PyExc_ValueError, "there are too many forecasts");
    return PyFloat_FromDouble(mix_forecasts(n, &t, scores, (real)plain, forecasts));
}

/* Judge a forecast, into new losses, and return what follows of its errors: judge_forecast(forecasts, losses,
 * n_errors, weight, error, width, mixture, target, w, pace). */
static PyObject *judge_forecast(PyObject *module, PyObject *args)
{
    const Py_ssize_t n = PyObject_Size(PyTuple_GetItem(args, 0));
    numbers_t t = {0};
    double mixture, target, w, pace;
    PyObject *a; /* an array, which is taken below */
    real *forecasts;
    if (n < 0
        || !PyArg_ParseTuple(args, "OOdddddddd", &a, &a, &t.n_errors, &t.weight, &t.error, &t.width, &mixture,
                             &target, &w, &pace)
        || !(forecasts = memory_of(args, 0, n, REALS, TO_READ))
        || !(t.losses = memory_of(args, 1, n, REALS, TO_WRITE)))
        return NULL;
    judge_number(n, &t, forecasts, mixture, target, w, pace);
    return Py_BuildValue("dddd", t.n_errors, t.weight, t.error, t.width);
}

typedef struct {
    PyObject_HEAD
    PyObject *args; /* the arguments, which own the arrays */
    experts_t experts;
    stream_row_t row;
    real *numbers;  /* the memory of the row */
    int is_scored;  /* whether the row is scored, with nothing learnt since */
} Experts;

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

/* Take the arrays of experts, and make room for a row. Return -1 with an exception if they do not fit. */
static int take_experts(Experts *self, PyObject *arrays)
{
    experts_t *e = &self->experts;
    stream_row_t *row = &self->row;
    const Py_ssize_t n_units = e->n_units = PyObject_Size(PyTuple_GetItem(arrays, 1));
    const Py_ssize_t n_parts = e->n_parts = PyObject_Size(PyTuple_GetItem(arrays, 7));
    const Py_ssize_t m = e->m = PyObject_Size(PyTuple_GetItem(arrays, 8));
    const Py_ssize_t n_labels = e->n_labels = PyObject_Size(PyTuple_GetItem(arrays, 9));
    const Py_ssize_t n_memories = PyObject_Size(PyTuple_GetItem(arrays, 11));
    const Py_ssize_t size = e->size = n_units + 1 + m + 2 * n_labels;
    const int by_rows = PyBUF_C_CONTIGUOUS;
    if (PyErr_Occurred())
        return -1;
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
        return -1;
    int fits = are_places(3 * n_parts, e->seen, -1, m) && are_places(m, e->features, 0, size);
    fits = fits && are_places(n_labels, e->labels, 0, size) && are_places(n_labels, e->mixture, 0, size);
    Py_ssize_t n_numbers = m + size + e->n_scores + e->n + 2 * n_parts + 1;
    for (const linear_t *l = e->linear; l < e->linear + N_LINEAR; n_numbers += 2 * l->size, l++)
        fits = fits && are_places(l->size, l->view, 0, size) && (l->memory.inverse || l->n == e->n);
    if (!fits || n_labels > e->n)
        PyErr_SetString(PyExc_ValueError, "places of features or labels lie outside a row");
    else if (!(row->z = self->numbers = PyMem_Calloc(n_numbers, sizeof(real))))
        PyErr_NoMemory();
    if (PyErr_Occurred())
        return -1;
    row->wide = row->z + m;
    row->scores = row->wide + size;
    row->likelihoods = row->scores + e->n_scores + e->n;
    row->cells = (int64_t *)(row->likelihoods + n_parts);
    real *left = (real *)(row->cells + n_parts + 1);
    for (linear_t *l = e->linear; l < e->linear + N_LINEAR; left += 2 * l->size, l++) {
        l->seen = l > e->linear && l->view == e->linear->view ? e->linear->seen : left + l->size;
        l->image = left;
    }
    return 0;
}

static PyObject *Experts_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Experts *self = (Experts *)PyType_GenericAlloc(type, 0);
    PyObject *arrays;
    if (self && PyArg_ParseTuple(args, "O!", &PyTuple_Type, &arrays)) {
        Py_INCREF(self->args = args);
        if (!take_experts(self, arrays))
            return (PyObject *)self;
    }
    Py_XDECREF((PyObject *)self);
    return NULL;
}

static void Experts_dealloc(Experts *self)
{
    PyObject_GC_UnTrack(self);
    PyMem_Free(self->numbers);
    release((PyObject *)self);
}

/* Score a row of scaled features after a label, unless it was scored just now. */
static void score_scaled(Experts *self, const real *z, Py_ssize_t last)
{
    stream_row_t *row = &self->row;
    const size_t size = (size_t)self->experts.m * sizeof(real);
    if (self->is_scored && last == row->last && !memcmp(row->z, z, size))
        return;
    memcpy(row->z, z, size);
    row->last = last;
    score(&self->experts, row);
    self->is_scored = 1;
}

/* Score a row of scaled features after a label: scores(features, last, out). */
static PyObject *Experts_scores(Experts *self, PyObject *args)
{
    const experts_t *e = &self->experts;
    const stream_row_t *row = &self->row;
    const Py_ssize_t last = PyLong_AsSsize_t(PyTuple_GetItem(args, 1));
    real *z = PyErr_Occurred() ? NULL : memory_of(args, 0, e->m, REALS, TO_READ);
    const Py_ssize_t n = e->n_scores + e->n;
    real *out = z ? memory_of(args, 2, n, REALS, TO_WRITE) : NULL;
    if (!out)
        return NULL;
    score_scaled(self, z, last);
    memcpy(out, row->scores, (size_t)n * sizeof(real));
    Py_RETURN_NONE;
}

/* Prepare to learn the row that was scored last, with a weight. Return whether that is possible. */
static PyObject *Experts_prepare(Experts *self, PyObject *w)
{
    const double weight = PyFloat_AsDouble(w);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(prepare_experts(&self->experts, weight));
}

/* Read the arguments of `learn`. Return the errors, or NULL with an exception if they do not fit. */
static const real *read_lesson(const Experts *self, PyObject *args, Py_ssize_t *column, int *is_new, double *w)
{
    const experts_t *e = &self->experts;
    PyObject *errors;
    if (!PyArg_ParseTuple(args, "Onpd", &errors, column, is_new, w))
        return NULL;
    if (e->n && (*column < 0 || *column >= e->n)) {
        PyErr_SetString(PyExc_ValueError, "the class has no score");
        return NULL;
    }
    return memory_of(args, 0, e->n_scores, REALS, TO_READ);
}

/* Return calls for one C loop that learn the prepared row: plan(errors, column, is_new, w). */
static PyObject *Experts_plan(PyObject *self, PyObject *args)
{
    Py_ssize_t column;
    int is_new;
    double w;
    if (!read_lesson((Experts *)self, args, &column, &is_new, &w))
        return NULL;
    return Py_BuildValue("((NOOOO))", PyObject_GetAttrString(self, "learn"), PyTuple_GetItem(args, 0),
                         PyTuple_GetItem(args, 1), PyTuple_GetItem(args, 2), PyTuple_GetItem(args, 3));
}

/* Learn the prepared row: learn(errors, column, is_new, w). */
static PyObject *Experts_learn(Experts *self, PyObject *args)
{
    Py_ssize_t column;
    int is_new;
    double w;
    const real *errors = read_lesson(self, args, &column, &is_new, &w);
    if (!errors)
        return NULL;
    learn_experts(&self->experts, &self->row, errors, column, is_new, w);
    self->is_scored = 0;
    Py_RETURN_NONE;
}

#endif
