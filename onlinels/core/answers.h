/* Answers of a model about a row: scores, labels, variances and intervals. */
#ifndef ONLINELS_ANSWERS_H
#define ONLINELS_ANSWERS_H

#include "checkpoints.h"
#include "classes.h"

/* Degrees of freedom, relative to the weight of the rows, below which they count as 0. */
#define MIN_FREE 1e-9

/* Whether the sums are solved here. */
static int can_solve(const SingleRows *self)
{
    return self->mode != HAND_BACK && self->sums.cross && self->sums.m <= MAX_FEATURES_SOLVED;
}

/* Take memory for weights, and for a solver if the sums are solved here. Return 0 if there is none. */
static int has_solver(SingleRows *self)
{
    const ptrdiff_t m = self->sums.m, n = self->sums.n;
    const int is_penalised = self->ridge.ridge != 0.0;
    const size_t size = can_solve(self) ? size_of_solver(m, n, is_penalised) : (size_t)(m * n);
    if (!self->solved && (self->solved = PyMem_Calloc(size + 1, sizeof(real))))
        place_solver(m, n, is_penalised, self->solved, &self->solver);
    return self->solved != NULL;
}

/* Let go of the memory of the solver, which is as large as P: the recursion answers now. */
static void drop_solver(SingleRows *self)
{
    PyMem_Free(self->solved);
    self->solved = self->solver.weights = NULL;
    self->solver.solved_at = self->solver.factored_at = -1.0;
}

/* Factor the system of the rows learnt so far, unless this is done. Return 0 if Python code must. */
static int is_factored(SingleRows *self)
{
    if (!can_solve(self) || !(self->sums.tally[1] > 0.0) || !has_solver(self))
        return 0;
    return self->solver.factored_at == self->sums.tally[0]
           || factor_system(&self->sums, &self->ridge, self->registers[SHARE], &self->solver);
}

/* Whether Python code may have to warn of the system that is factored. */
static int is_to_tell(const SingleRows *self)
{
    return self->warns || (!self->forgets && self->solver.n_narrow > self->n_told);
}

/* Begin a recursion from weights that were just solved, if predictions keep coming. Where its inverse lacks digits, the
 * sums are solved at every question, until the next trial. */
static void begin(SingleRows *self)
{
    double *registers = self->registers, step = RENEWAL_ROWS_PER_FEATURE;
    const double count = self->sums.tally[0], tried_at = -registers[VALID_UNTIL];
    const double since = count - registers[PREDICTED_AT]; /* 0 if a model from which this is copied was asked */
    const double least = tests_ridge(self) ? 1.0 : MIN_ROWS_FOLLOWED;
    if (self->mode != FOLLOW || !self->recursion.inverse || !(since > 0.0 && since <= self->patience)
        || !(registers[NEXT_DUE] > count + least) || self->ridge.ridge < 0.0 || !may_begin(&self->solver)
        || (tried_at > 0.0 && count < tried_at + ROWS_BETWEEN_TRIALS))
        return;
    for (ptrdiff_t k = 1; k < self->sums.m; k *= 2)
        step *= 2.0;
    step = step > RENEWAL_ROWS ? step : RENEWAL_ROWS;
    self->row.imaged_at = -1.0;
    registers[VALID_UNTIL] = begin_recursion(&self->sums, &self->solver, registers[SHARE], &self->recursion)
                                 ? (floor(count / step) + 1.0) * step
                                 : -count;
}

/* Whether the recursion has followed all rows. */
static int is_followed(const SingleRows *self)
{
    return self->recursion.inverse && self->sums.tally[0] < self->registers[VALID_UNTIL];
}

/* The weights that answer for the rows learnt so far; NULL if Python code must make them. A choice of a ridge that is
 * due is made here. */
static const real *weights_now(SingleRows *self, int is_told)
{
    const double count = self->sums.tally[0];
    if (!is_chosen(self))
        return NULL;
    if (is_followed(self) && (self->mode == FOLLOW || count == self->registers[PREDICTED_AT]))
        return self->recursion.weights;
    if (!self->solved || self->solver.solved_at != count) {
        if (!is_factored(self) || (!is_told && is_to_tell(self)))
            return NULL;
        solve_targets(&self->sums, &self->solver);
        self->ruled_at = -1.0;
        if (!is_to_tell(self))
            begin(self);
        if (self->mode == FOLLOW && is_followed(self)) {
            drop_solver(self);
            return self->recursion.weights;
        }
    }
    return self->solver.weights;
}

/* Compute the scores of a dict, or of the row that is read. Return 0 if Python code must answer: where rows dwarf the
 * others, it sees from time to time whether they still do. */
static int answer(SingleRows *self, PyObject *x)
{
    const real *weights;
    if (self->inliers.m && fmod(self->sums.tally[0], ROWS_BETWEEN_ORIGINS) == 0.0)
        return 0;
    if ((x && read_dict(self->features, x, self->row.values) < 0) || !(weights = weights_now(self, 0)))
        return 0;
    predict(&self->sums, weights, &self->row);
    self->asked = weights;
    self->registers[PREDICTED_AT] = self->sums.tally[0];
    return 1;
}

/* Find the map to discriminant scores for weights that answer now. Return 0 if Python code must. */
static int find_rule(SingleRows *self, const real *known)
{
    const sums_t *s = &self->sums;
    const ptrdiff_t m = s->m, n = s->n;
    const double count = s->tally[0];
    real *matrix = self->rule, *constant = matrix + n * n, *weights = constant + n, *centre = weights + n;
    if (self->ruled_at == count && self->ruled == known)
        return 1;
    if (!s->cross || !matrix || !known)
        return 0;
    weights_of_classes(s, self->hidden, weights);
    for (ptrdiff_t j = 0; j < n; j++) {
        centre[j] = mean_of(s, m + j);
        for (ptrdiff_t i = 0; i < n; i++)
            matrix[j * n + i] = dot(m, known + i * m, s->cross + j * m);
    }
    const real *priors = self->kind == LEARNT_PRIORS ? weights : self->priors;
    const int shrinks = self->kind == EQUAL_PRIORS;
    self->ruled_at = -1.0;
    if (!discriminant(n, weights, centre, priors, shrinks, matrix, constant, centre + n))
        return 0;
    self->ruled_at = count;
    self->ruled = known;
    return 1;
}

/* Compute the scores of classes with priors as discriminants, otherwise as `answer`. */
static int score_row(SingleRows *self, PyObject *x)
{
    const ptrdiff_t n = self->sums.n;
    if (!answer(self, x) || (self->kind != NO_PRIORS && !find_rule(self, self->asked)))
        return 0;
    if (self->kind != NO_PRIORS)
        discriminate(n, self->rule, self->rule + n * n, self->row.scores, self->row.errors);
    return 1;
}

/* What became of a solution: Python code must make it; it answers; or it answers when Python code has seen whether to
 * warn of it. */
enum { UNSOLVED, SOLVED, TO_TELL };

/* Write the weights that answer now into an array (m, n), and return what became of them: solve(weights). */
static PyObject *SingleRows_solve(SingleRows *self, PyObject *array)
{
    const Py_ssize_t size = self->sums.m * self->sums.n;
    real *out = memory_in(array, size, REALS, TO_WRITE);
    const real *weights = out ? weights_now(self, 1) : NULL;
    if (!out)
        return NULL;
    if (!weights)
        return PyLong_FromLong(UNSOLVED);
    memcpy(out, weights, (size_t)size * sizeof(real));
    if (weights == self->solver.weights && is_to_tell(self)) {
        self->solver.solved_at = -1.0;
        return PyLong_FromLong(TO_TELL);
    }
    self->registers[PREDICTED_AT] = self->sums.tally[0];
    return PyLong_FromLong(SOLVED);
}

/* Let weights (m, n) that Python code has solved answer until the next row: hold(weights). */
static PyObject *SingleRows_hold(SingleRows *self, PyObject *array)
{
    const Py_ssize_t size = self->sums.m * self->sums.n;
    const real *weights = memory_in(array, size, REALS, PyBUF_F_CONTIGUOUS);
    if (weights && has_solver(self)) {
        memcpy(self->solver.weights, weights, (size_t)size * sizeof(real));
        self->solver.solved_at = self->sums.tally[0];
        self->ruled_at = -1.0;
    }
    if (!weights)
        return NULL;
    Py_RETURN_NONE;
}

/* Note that Python code has seen whether to warn of the last solution, so that it answers: told(). */
static PyObject *SingleRows_told(SingleRows *self, PyObject *unused)
{
    (void)unused;
    self->warns = 0;
    self->n_told = self->solver.n_narrow;
    if (self->solved && self->solver.factored_at == self->sums.tally[0]) {
        self->solver.solved_at = self->sums.tally[0];
        begin(self);
        self->registers[PREDICTED_AT] = self->sums.tally[0];
    }
    Py_RETURN_NONE;
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

/* The label with the highest of n scores, the first of equal ones. */
static PyObject *label_of(PyObject *labels, Py_ssize_t n, const real *scores)
{
    Py_ssize_t best = 0;
    for (Py_ssize_t k = 1; k < n; k++)
        if (scores[k] > scores[best])
            best = k;
    return Py_XNewRef(PyTuple_GetItem(labels, best));
}

/* Whether every class has a label, and every other label a probability. */
static int are_labelled(const SingleRows *self)
{
    const Py_ssize_t n = self->sums.n, n_labels = PyTuple_Size(self->labels);
    return n_labels == n || (n_labels > n && self->fixed);
}

static PyObject *SingleRows_label(SingleRows *self, PyObject *x)
{
    return score_row(self, x) ? label_of(self->labels, self->sums.n, self->row.scores) : not_known();
}

/* Return n probabilities by label: a dict, or a list if labels are compared by Python code. Labels of classes without
 * rows follow, which have what is `fixed`. */
static PyObject *by_label(PyObject *labels, int are_plain, Py_ssize_t n, const real *probabilities, const real *fixed)
{
    const Py_ssize_t n_labels = PyTuple_Size(labels);
    PyObject *found = are_plain ? PyDict_New() : PyList_New(n_labels);
    for (Py_ssize_t k = 0; found && k < n_labels; k++) {
        PyObject *share = PyFloat_FromDouble(k < n ? probabilities[k] : fixed[k]);
        if (!share || (are_plain ? PyDict_SetItem(found, PyTuple_GetItem(labels, k), share)
                                 : PyList_SetItem(found, k, Py_XNewRef(share))))
            Py_CLEAR(found);
        Py_XDECREF(share);
    }
    return found;
}

/* The scores of the row, which have become probabilities, by label. */
static PyObject *shares_by_label(const SingleRows *self)
{
    const int are_plain = PyDict_CheckExact(self->targets) && PyDict_Size(self->targets) == self->sums.n;
    return by_label(self->labels, are_plain, self->sums.n, self->row.scores, self->fixed);
}

/* What is left for the classes with rows. */
static double left_by_fixed(const SingleRows *self)
{
    const Py_ssize_t n_labels = PyTuple_Size(self->labels);
    double left = 1.0;
    for (Py_ssize_t k = self->sums.n; k < n_labels; k++)
        left -= self->fixed[k];
    return left;
}

static PyObject *SingleRows_probabilities(SingleRows *self, PyObject *x)
{
    const Py_ssize_t n = self->sums.n;
    if (!are_labelled(self) || !score_row(self, x))
        return not_known();
    if (self->kind == NO_PRIORS)
        project(n, self->row.scores, self->row.errors);
    else
        softmax(n, self->row.scores, self->fixed, left_by_fixed(self));
    return shares_by_label(self);
}

/* ---- Calibration ------------------------------------------------------------------------------- */

/* The probabilities of a dict by the scale of the least loss: calibrated(x, scales, losses, penalties). */
static PyObject *SingleRows_calibrated(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    const Py_ssize_t n = self->sums.n, size = n_args == 4 ? PyObject_Size(args[1]) : -1;
    const double *of_scales[3];
    for (Py_ssize_t i = 0; i < 3; i++)
        if (size < 1 || !(of_scales[i] = memory_in(args[1 + i], size, REALS, TO_READ)))
            return not_known();
    if (!are_labelled(self) || !score_row(self, args[0]))
        return not_known();
    calibrate(n, self->row.scores, self->sums.tally[0], size, of_scales[0], of_scales[1], of_scales[2]);
    const double left = left_by_fixed(self);
    for (Py_ssize_t k = 0; k < n; k++)
        self->row.scores[k] *= (real)left;
    return shares_by_label(self);
}

/* Add the losses of a dict with a label, for each scale, before it is learnt: add_losses(x, y, w, scales, losses). */
static PyObject *SingleRows_add_losses(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    const Py_ssize_t size = n_args == 5 ? PyObject_Size(args[3]) : -1;
    const double *scales = size < 1 ? NULL : memory_in(args[3], size, REALS, TO_READ);
    double *losses = scales ? memory_in(args[4], size, REALS, TO_WRITE) : NULL;
    const double w = losses && PyFloat_CheckExact(args[2]) ? PyFloat_AsDouble(args[2]) : -1.0;
    if (!(w >= 0.0 && w <= MAX_SQUARES) || !self->counts || !read_target(self, args[1]) || !score_row(self, args[0]))
        return not_known();
    add_losses(self->sums.n, self->row.scores, self->column, w, self->sums.tally[0], size, scales, losses);
    Py_RETURN_NONE;
}

/* ---- Discriminants ----------------------------------------------------------------------------- */

/* Write the map to discriminant scores: rule(matrix, constant). Return whether Python code need not find it. */
static PyObject *SingleRows_rule(SingleRows *self, PyObject *arrays)
{
    const Py_ssize_t n = self->sums.n;
    real *matrix = memory_of(arrays, 0, n * n, REALS, TO_WRITE);
    real *constant = matrix ? memory_of(arrays, 1, n, REALS, TO_WRITE) : NULL;
    if (!constant)
        return NULL;
    const int is_known = self->kind != NO_PRIORS && find_rule(self, weights_now(self, 0));
    if (is_known) {
        memcpy(matrix, self->rule, (size_t)(n * n) * sizeof(real));
        memcpy(constant, self->rule + n * n, (size_t)n * sizeof(real));
    }
    return PyBool_FromLong(is_known);
}

/* Compute the scores of a dict, or of the row that is read, and the variances about them into the errors: with `own`,
 * of new targets, else of the limit for many rows. They are infinite, and the degrees of freedom 0, unless the rows
 * outweigh the parameters. Return 0 if Python code must answer. */
static int spread_row(SingleRows *self, PyObject *x, double own, double *free)
{
    const sums_t *s = &self->sums;
    row_t *row = &self->row;
    *free = NAN;
    if (!answer(self, x))
        return 0;
    row->own = own;
    if (is_followed(self) && self->mode == FOLLOW)
        *free = spread(s, &self->recursion, row, self->forgets);
    else if (is_factored(self))
        *free = spread_of_factor(s, &self->solver, &self->ridge, row, self->forgets);
    if (*free != *free || *free > MIN_FREE * s->tally[1])
        return *free == *free && is_constant_where_known(self);
    *free = 0.0;
    for (ptrdiff_t j = 0; j < s->n; j++)
        row->errors[j] = HUGE_VAL;
    return 1;
}

static PyObject *SingleRows_spread(SingleRows *self, PyObject *x)
{
    const Py_ssize_t n = self->sums.n;
    double free;
    if (!spread_row(self, x, 1.0, &free))
        return not_known();
    return Py_BuildValue("NNd", list_of(n, self->row.scores, NULL), list_of(n, self->row.errors, NULL), free);
}

/* The variances of the scores of a dict: variances(x). */
static PyObject *SingleRows_variances(SingleRows *self, PyObject *x)
{
    double free;
    const int is_known = self->kind == NO_PRIORS && spread_row(self, x, 0.0, &free);
    return is_known ? list_of(self->sums.n, self->row.errors, NULL) : not_known();
}

/* The ends of an interval for each target of a dict: interval(x, least, terms). With at least `least`
 * degrees of freedom, Student's quantile is the sum of the terms over powers of these; with none, the ends are
 * infinite. */
static PyObject *SingleRows_interval(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    real *lower = self->row.scores, *upper = self->row.errors;
    if (n_args != 3 || !PyFloat_Check(args[1]) || !PyTuple_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "interval(x, least, terms)");
    double free;
    if (!spread_row(self, args[0], 1.0, &free) || !(free == 0.0 || free >= PyFloat_AsDouble(args[1])))
        return not_known();
    double quantile = free == 0.0;
    for (Py_ssize_t i = PyTuple_Size(args[2]); free > 0.0 && i-- > 0;)
        quantile = quantile / free + PyFloat_AsDouble(PyTuple_GetItem(args[2], i));
    for (ptrdiff_t j = 0; j < self->sums.n; j++) {
        const double score = self->row.scores[j], half = quantile * sqrt(self->row.errors[j]);
        lower[j] = score - half;
        upper[j] = score + half;
    }
    return list_of(self->sums.n, lower, upper);
}

#endif
