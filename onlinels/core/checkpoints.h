/* When and how a ridge is chosen: selection.h bound for Python, and the checkpoints of a model. */
#ifndef ONLINELS_CHECKPOINTS_H
#define ONLINELS_CHECKPOINTS_H

#include "model.h"
#include "selection.h"

/* ---- Sums of Python ----------------------------------------------------------------------------- */

/* Take sums of rows, and one or two kinds of units, of which None stands for features as they are: (gram, cross,
 * squares, (total, weight, n_free, is_short), *kinds). Return the number of kinds, or 0 with an exception. */
static int take_products(PyObject *args, products_t *s, const double **kinds)
{
    const Py_ssize_t n_kinds = PyTuple_Size(args) - 4;
    PyObject *squares = PyTuple_GetItem(args, 2), *numbers = PyTuple_GetItem(args, 3);
    s->m = squares ? PyObject_Size(squares) : -1;
    s->n = s->m < 0 ? -1 : PyObject_Size(PyTuple_GetItem(args, 1));
    if (s->m < 0 || s->n < 0 || !numbers
        || !PyArg_ParseTuple(numbers, "ddip", &s->total, &s->weight, &s->n_free, &s->is_short)
        || !(s->gram = memory_of(args, 0, s->m * s->m, REALS, PyBUF_F_CONTIGUOUS))
        || !(s->cross = memory_of(args, 1, s->m * s->n, REALS, TO_READ))
        || !(s->squares = memory_of(args, 2, s->m, REALS, TO_READ)))
        return 0;
    for (Py_ssize_t k = 0; k < n_kinds && k < 2; k++) {
        PyObject *units = PyTuple_GetItem(args, 4 + k);
        kinds[k] = NULL;
        if (units != Py_None && !(kinds[k] = memory_in(units, s->m, REALS, TO_READ)))
            return 0;
    }
    if (n_kinds >= 1 && n_kinds <= 2 && s->m >= 1 && s->m <= MAX_FEATURES_SELECTED)
        return (int)n_kinds;
    PyErr_SetString(PyExc_ValueError, "expected 1 to 128 features, and one or two kinds of units");
    return 0;
}

/* Select a ridge and the kind of units: select_ridge(gram, cross, squares, numbers, *kinds), with A'Y by rows of
 * targets. Return (ridge, which), or None if other code must select. */
static PyObject *choose_ridge(PyObject *module, PyObject *args)
{
    const double *kinds[2];
    products_t sums;
    double ridge;
    int which;
    const int n_kinds = take_products(args, &sums, kinds);
    real *scratch = n_kinds ? PyMem_Calloc((size_t)scratch_for_selection(sums.m, sums.n), sizeof(real)) : NULL;
    if (!scratch)
        return n_kinds ? PyErr_NoMemory() : NULL;
    const int is_found = select_ridge(&sums, kinds, n_kinds, NULL, scratch, &ridge, &which);
    PyMem_Free(scratch);
    return is_found ? Py_BuildValue("di", ridge, which) : Py_NewRef(Py_None);
}

/* Whether Rao's score test accepts a ridge: accepts_ridge(gram, cross, squares, numbers, units, ridge); None if other
 * code must test. */
static PyObject *accepts_ridge(PyObject *module, PyObject *args)
{
    const double *units[2];
    products_t sums;
    spectrum_t spectrum;
    PyObject *given = PyTuple_GetSlice(args, 0, 5), *number = PyTuple_GetItem(args, 5);
    const double ridge = number ? PyFloat_AsDouble(number) : -1.0;
    const int is_taken = given && !PyErr_Occurred() && take_products(given, &sums, units);
    real *scratch = is_taken ? PyMem_Calloc((size_t)scratch_for_selection(sums.m, sums.n), sizeof(real)) : NULL;
    Py_XDECREF(given);
    if (!scratch)
        return is_taken ? PyErr_NoMemory() : NULL;
    const int is_found = find_spectrum(&sums, units[0], scratch, &spectrum);
    const int is_accepted = is_found && accepts(&spectrum, ridge);
    PyMem_Free(scratch);
    return is_found ? PyBool_FromLong(is_accepted) : Py_NewRef(Py_None);
}

#endif
