/* Answers of a model about a row: scores, labels, variances and intervals. */
#ifndef ONLINELS_ANSWERS_H
#define ONLINELS_ANSWERS_H

#include "model.h"

/* Degrees of freedom, relative to the weight of the rows, below which they count as 0. */
#define MIN_FREE 1e-9

/* Whether the weights answer for the rows learnt so far. */
static int can_answer(const SingleRows *self)
{
    const double count = self->sums.tally[0];
    return self->recursion.weights && count < self->registers[VALID_UNTIL] && count < self->registers[NEXT_DUE]
           && !(self->refines && count != self->registers[PREDICTED_AT]);
}

/* Compute the scores of a dict, or of the row that is read. Return 0 if Python code must answer. */
static int answer(SingleRows *self, PyObject *x)
{
    if (!can_answer(self) || (x && read_dict(self->features, x, self->row.values) < 0))
        return 0;
    predict(&self->sums, &self->recursion, &self->row);
    self->registers[PREDICTED_AT] = self->sums.tally[0];
    return 1;
}

/* A list of n numbers, or of pairs of numbers if there are second ones. */
static PyObject *list_of(Py_ssize_t n, const real *first, const real *second)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t j = 0; list && j < n; j++) {
        PyObject *item = second ? Py_BuildValue("dd", first[j], second[j]) : PyFloat_FromDouble(first[j]);
        if (!item || PyList_SetItem(list, j, item))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *SingleRows_scores(SingleRows *self, PyObject *x)
{
    return answer(self, x) ? list_of(self->sums.n, self->row.scores, NULL) : not_known();
}

/* The scores of an array (m,) that Python code has checked. */
static PyObject *SingleRows_scores_of(SingleRows *self, PyObject *row)
{
    if (!read_array(self->features->array_type, row, self->sums.m, self->row.values) || !answer(self, NULL))
        return not_known();
    return list_of(self->sums.n, self->row.scores, NULL);
}

static PyObject *SingleRows_label(SingleRows *self, PyObject *x)
{
    Py_ssize_t best = 0;
    if (!answer(self, x))
        return not_known();
    for (ptrdiff_t j = 1; j < self->sums.n; j++)
        if (self->row.scores[j] > self->row.scores[best]) /* the first of equal ones */
            best = j;
    return Py_XNewRef(PyTuple_GetItem(self->labels, best));
}

/* Compute the scores of a dict, and the variances of new targets about them into the errors. Return
 * the degrees of freedom, or 0 if Python code must answer. */
static double spread_of(SingleRows *self, PyObject *x)
{
    if (!self->recursion.inverse || self->refines || !answer(self, x) || !is_constant_where_known(self))
        return 0.0;
    const double free = spread(&self->sums, &self->recursion, &self->row, self->forgets);
    return free > MIN_FREE * self->sums.tally[1] ? free : 0.0;
}

static PyObject *SingleRows_spread(SingleRows *self, PyObject *x)
{
    const Py_ssize_t n = self->sums.n;
    const double free = spread_of(self, x);
    if (!(free > 0.0))
        return not_known();
    return Py_BuildValue("NNd", list_of(n, self->row.scores, NULL), list_of(n, self->row.errors, NULL), free);
}

/* The ends of an interval for each target of a dict: interval(x, least, terms). With at least `least`
 * degrees of freedom, Student's quantile is the sum of the terms over powers of these. */
static PyObject *SingleRows_interval(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    real *lower = self->row.scores, *upper = self->row.errors;
    if (n_args != 3 || !PyFloat_Check(args[1]) || !PyTuple_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "interval(x, least, terms)");
    const double free = spread_of(self, args[0]);
    if (!(free > 0.0 && free >= PyFloat_AsDouble(args[1])))
        return not_known();
    double quantile = 0.0;
    for (Py_ssize_t i = PyTuple_Size(args[2]); i-- > 0;)
        quantile = quantile / free + PyFloat_AsDouble(PyTuple_GetItem(args[2], i));
    for (ptrdiff_t j = 0; j < self->sums.n; j++) {
        const double score = self->row.scores[j], half = quantile * sqrt(self->row.errors[j]);
        lower[j] = score - half;
        upper[j] = score + half;
    }
    return list_of(self->sums.n, lower, upper);
}

#endif
