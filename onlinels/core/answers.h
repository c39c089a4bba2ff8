/* Answers of a model about a row: scores, labels, variances and intervals. */
#ifndef ONLINELS_ANSWERS_H
#define ONLINELS_ANSWERS_H

#include "classes.h"
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

/* Find the map to discriminant scores for the rows learnt so far. Return 0 if Python code must. */
static int find_rule(SingleRows *self)
{
    const sums_t *s = &self->sums;
    const ptrdiff_t m = s->m, n = s->n;
    const double count = s->tally[0];
    real *matrix = self->rule, *constant = matrix + n * n, *weights = constant + n, *centre = weights + n;
    if (self->ruled_at == count)
        return 1;
    if (!s->cross || !matrix)
        return 0;
    weights_of_classes(s, self->hidden, weights);
    for (ptrdiff_t j = 0; j < n; j++) {
        centre[j] = mean_of(s, m + j);
        for (ptrdiff_t i = 0; i < n; i++)
            matrix[j * n + i] = dot(m, self->recursion.weights + i * m, s->cross + j * m);
    }
    const real *priors = self->kind == LEARNT_PRIORS ? weights : self->priors;
    const int shrinks = self->kind == EQUAL_PRIORS;
    self->ruled_at = -1.0;
    if (!discriminant(n, weights, centre, priors, shrinks, matrix, constant, centre + n))
        return 0;
    self->ruled_at = count;
    return 1;
}

/* Compute the scores of classes with priors as discriminants, otherwise as `answer`. */
static int score_row(SingleRows *self, PyObject *x)
{
    const ptrdiff_t n = self->sums.n;
    if (!answer(self, x) || (self->kind != NO_PRIORS && !find_rule(self)))
        return 0;
    if (self->kind != NO_PRIORS)
        discriminate(n, self->rule, self->rule + n * n, self->row.scores, self->row.errors);
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
    return score_row(self, x) ? list_of(self->sums.n, self->row.scores, NULL) : not_known();
}

/* The scores of an array (m,) that Python code has checked. */
static PyObject *SingleRows_scores_of(SingleRows *self, PyObject *row)
{
    if (!read_array(self->features->array_type, row, self->sums.m, self->row.values) || !score_row(self, NULL))
        return not_known();
    return list_of(self->sums.n, self->row.scores, NULL);
}

static PyObject *SingleRows_label(SingleRows *self, PyObject *x)
{
    Py_ssize_t best = 0;
    if (!score_row(self, x))
        return not_known();
    for (ptrdiff_t j = 1; j < self->sums.n; j++)
        if (self->row.scores[j] > self->row.scores[best]) /* the first of equal ones */
            best = j;
    return Py_XNewRef(PyTuple_GetItem(self->labels, best));
}

/* The probability of every label, a dict; a list if labels are compared by Python code. */
static PyObject *SingleRows_probabilities(SingleRows *self, PyObject *x)
{
    const Py_ssize_t n = self->sums.n, n_labels = PyTuple_Size(self->labels);
    real *p = self->row.scores;
    double left = 1.0; /* by classes that have a prior, but no row so far */
    if (n > n_labels || !score_row(self, x))
        return not_known();
    for (Py_ssize_t k = n; k < n_labels; k++)
        left -= self->fixed[k];
    if (self->kind == NO_PRIORS)
        project(n, p, self->row.errors);
    else
        softmax(n, p, self->fixed, left);
    const int is_plain = PyDict_CheckExact(self->targets) && PyDict_Size(self->targets) == n;
    PyObject *found = is_plain ? PyDict_New() : PyList_New(n_labels);
    for (Py_ssize_t k = 0; found && k < n_labels; k++) {
        PyObject *share = PyFloat_FromDouble(k < n ? p[k] : self->fixed[k]);
        if (!share || (is_plain ? PyDict_SetItem(found, PyTuple_GetItem(self->labels, k), share)
                                : PyList_SetItem(found, k, Py_XNewRef(share))))
            Py_CLEAR(found);
        Py_XDECREF(share);
    }
    return found;
}

/* Write the map to discriminant scores: rule(matrix, constant). Return whether Python code need not find it. */
static PyObject *SingleRows_rule(SingleRows *self, PyObject *arrays)
{
    const Py_ssize_t n = self->sums.n;
    real *matrix = memory_of(arrays, 0, n * n, REALS, TO_WRITE);
    real *constant = matrix ? memory_of(arrays, 1, n, REALS, TO_WRITE) : NULL;
    if (!constant)
        return NULL;
    const int is_known = self->kind != NO_PRIORS && can_answer(self) && find_rule(self);
    if (is_known) {
        memcpy(matrix, self->rule, (size_t)(n * n) * sizeof(real));
        memcpy(constant, self->rule + n * n, (size_t)n * sizeof(real));
    }
    return PyBool_FromLong(is_known);
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
