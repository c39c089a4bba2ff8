/* The weights of a model, and its answers about a row: scores, labels, probabilities, variances and intervals. */
#ifndef ONLINELS_ANSWERS_H
#define ONLINELS_ANSWERS_H

#include "checkpoints.h"
#include "classes.h"

/* Degrees of freedom, relative to the weight of the rows, below which they count as 0. */
#define MIN_FREE 1e-9

/* ---- The weights -------------------------------------------------------------------------------- */

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
    forget_answers(self);
}

/* Factor the system of the rows learnt so far, unless this is done. Return 0 if Python code must. */
static int is_factored(SingleRows *self)
{
    if (!can_solve(self) || !(self->sums.tally[1] > 0.0) || !has_solver(self))
        return 0;
    return self->solver.factored_at == self->sums.tally[0]
           || factor_system(&self->sums, &self->ridge, self->registers[SHARE], &self->solver);
}

/* Whether the solution is that of the rows learnt so far. */
static int is_solved(const SingleRows *self)
{
    return self->solved && self->solver.solved_at == self->sums.tally[0];
}

/* Whether Python code may have to warn of the system that is factored, before the solution answers. */
static int is_to_tell(const SingleRows *self)
{
    return self->warns || (!self->forgets && self->solver.n_narrow > self->n_told);
}

/* Whether the recursion has followed all rows. */
static int is_followed(const SingleRows *self)
{
    return self->recursion.inverse && self->sums.tally[0] < self->registers[VALID_UNTIL];
}

/* Whether its weights answer. Python code refines those that it has begun, at the first question after a row. */
static int does_follow(const SingleRows *self)
{
    return is_followed(self) && (self->mode == FOLLOW || self->sums.tally[0] == self->registers[PREDICTED_AT]);
}

/* Begin a recursion from the system that is factored, if predictions keep coming. Where its inverse lacks digits, the
 * sums are solved at every question, until the next trial. */
static void begin(SingleRows *self)
{
    double *registers = self->registers, step = RENEWAL_ROWS_PER_FEATURE;
    const double count = self->sums.tally[0];
    const double since = count - registers[PREDICTED_AT]; /* 0 if a model from which this is copied was asked */
    const double least = tests_ridge(self) ? 1.0 : MIN_ROWS_FOLLOWED;
    if (self->mode != FOLLOW || !self->recursion.inverse || !(since > 0.0 && since <= self->patience)
        || !(registers[NEXT_DUE] > count + least) || self->ridge.ridge < 0.0
        || count < registers[TRIED_AT] + ROWS_BETWEEN_TRIALS || self->solver.factored_at != count
        || !may_begin(&self->solver))
        return;
    if (!begin_recursion(&self->sums, &self->solver, registers[SHARE], &self->recursion)) {
        registers[TRIED_AT] = count;
        return;
    }
    for (ptrdiff_t k = 1; k < self->sums.m; k *= 2)
        step *= 2.0;
    step = step > RENEWAL_ROWS ? step : RENEWAL_ROWS;
    registers[VALID_UNTIL] = (floor(count / step) + 1.0) * step;
    drop_solver(self);
}

/* The weights that answer for the rows learnt so far: those that follow rows, or else the solution of the sums. NULL if
 * Python code must make them, or must see first whether to warn of them. */
static const real *weights_now(SingleRows *self)
{
    if (!is_chosen(self))
        return NULL;
    if (!does_follow(self)) {
        if (!is_solved(self) && !is_factored(self))
            return NULL;
        if (!is_solved(self))
            solve_targets(&self->sums, &self->solver);
        if (is_to_tell(self))
            return NULL;
        begin(self);
    }
    return does_follow(self) ? self->recursion.weights : self->solver.weights;
}

/* What became of a solution: Python code must make it; it answers; or it answers once Python code, which has seen
 * whether to warn of it, lets it (`hold`). */
enum { UNSOLVED, SOLVED, TO_TELL };

/* Write the weights for the rows learnt so far into an array (m, n), and return what became of them: solve(weights). */
static PyObject *SingleRows_solve(SingleRows *self, PyObject *array)
{
    const Py_ssize_t size = self->sums.m * self->sums.n;
    real *out = memory_in(array, size, REALS, TO_WRITE);
    const real *weights = out ? weights_now(self) : NULL;
    const int done = weights ? SOLVED : is_solved(self) ? TO_TELL : UNSOLVED;
    if (!out)
        return NULL;
    if (done != UNSOLVED)
        memcpy(out, weights ? weights : self->solver.weights, (size_t)size * sizeof(real));
    return PyLong_FromLong(done);
}

/* Let weights (m, n) answer until the next row, which Python code has solved or seen: hold(weights). */
static PyObject *SingleRows_hold(SingleRows *self, PyObject *array)
{
    const Py_ssize_t size = self->sums.m * self->sums.n;
    const real *weights = memory_in(array, size, REALS, PyBUF_F_CONTIGUOUS);
    if (!weights)
        return NULL;
    self->warns = 0;
    self->n_told = self->solver.n_narrow;
    if (has_solver(self)) {
        memcpy(self->solver.weights, weights, (size_t)size * sizeof(real));
        self->solver.solved_at = self->sums.tally[0];
        self->ruled_at = -1.0;
        begin(self);
    }
    Py_RETURN_NONE;
}

/* ---- Scores ------------------------------------------------------------------------------------- */

/* Compute the scores of a dict, or of the row that is read. Return the weights that answered; NULL if Python code must
 * answer: where rows dwarf the others, it sees from time to time whether they still do. */
static const real *answer(SingleRows *self, PyObject *x)
{
    const real *weights;
    if (self->inliers.m && fmod(self->sums.tally[0], ROWS_BETWEEN_ORIGINS) == 0.0)
        return NULL;
    if ((x && read_dict(self->features, x, self->row.values) < 0) || !(weights = weights_now(self)))
        return NULL;
    predict(&self->sums, weights, &self->row);
    self->registers[PREDICTED_AT] = self->sums.tally[0];
    return weights;
}

/* Find the map to discriminant scores for weights that answer now. Return 0 if Python code must. */
static int find_rule(SingleRows *self, const real *known)
{
    const sums_t *s = &self->sums;
    const ptrdiff_t m = s->m, n = s->n;
    const double count = s->tally[0];
    real *matrix = self->rule, *constant = matrix + n * n, *weights = constant + n, *centre = weights + n;
    if (self->ruled_at == count)
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
    const int is_found = discriminant(n, weights, centre, priors, shrinks, matrix, constant, centre + n);
    self->ruled_at = is_found ? count : -1.0;
    return is_found;
}

/* Compute the scores of classes with priors as discriminants, otherwise as `answer`. */
static int score_row(SingleRows *self, PyObject *x)
{
    const ptrdiff_t n = self->sums.n;
    const real *weights = answer(self, x);
    if (!weights || (self->kind != NO_PRIORS && !find_rule(self, weights)))
        return 0;
    if (self->kind != NO_PRIORS)
        discriminate(n, self->rule, self->rule + n * n, self->row.scores, self->row.errors);
    return 1;
}

/* A list of n numbers. */
static PyObject *list_of(Py_ssize_t n, const real *numbers)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t j = 0; list && j < n; j++) {
        PyObject *number = PyFloat_FromDouble(numbers[j]);
        if (!number || PyList_SetItem(list, j, number))
            Py_CLEAR(list);
    }
    return list;
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

/* A pair of numbers; or, given a type and the name of an attribute, an object with the pair as this attribute. */
static PyObject *pair_of(double first, double second, PyObject *const *kind)
{
    PyObject *pair = Py_BuildValue("dd", first, second);
    PyObject *made = pair && kind ? PyType_GenericAlloc((PyTypeObject *)kind[0], 0) : NULL;
    if (!pair || !kind)
        return pair;
    if (made && PyObject_SetAttr(made, kind[1], pair))
        Py_CLEAR(made);
    Py_DECREF(pair);
    return made;
}

/* A dict of what is found for the first `n_names` names: numbers, or pairs with a second number (`pair_of`). Names
 * after the first n have what is `fixed`. `columns` is a dict of the first n, or not, if Python code compares them, and
 * must answer. */
static PyObject *by_name(PyObject *names, PyObject *columns, Py_ssize_t n_names, Py_ssize_t n, const real *first,
                         const real *second, const real *fixed, PyObject *const *kind)
{
    if (!columns || PyDict_Size(columns) != n)
        return not_known();
    /* Garbage may be collected here, which runs Python code: it may ask for another row. */
    const size_t size = (size_t)n * sizeof(real);
    real *numbers = PyMem_Malloc(2 * size + 1);
    PyObject *found = NULL;
    if (!numbers)
        return PyErr_NoMemory();
    memcpy(numbers, first, size);
    memcpy(numbers + n, second ? second : first, size);
    found = PyDict_New();
    for (Py_ssize_t k = 0; found && k < n_names; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        PyObject *item = second ? pair_of(numbers[k], numbers[n + k], kind)
                                : PyFloat_FromDouble(k < n ? numbers[k] : fixed[k]);
        if (!name || !item || PyDict_SetItem(found, name, item))
            Py_CLEAR(found);
        Py_XDECREF(item);
    }
    PyMem_Free(numbers);
    return found;
}

/* What is found for every class or target, as `by_name`; a target without a name has no container. */
static PyObject *of_targets(const SingleRows *self, const real *first, const real *second, PyObject *const *kind)
{
    if (self->targets == Py_None)
        return second ? pair_of(*first, *second, kind) : PyFloat_FromDouble(*first);
    PyObject *columns = PyDict_CheckExact(self->targets) ? self->targets : ((Reader *)self->targets)->columns;
    return by_name(self->names, columns, self->sums.n, self->sums.n, first, second, NULL, kind);
}

/* The scores of a dict by name: scores(x). */
static PyObject *SingleRows_scores(SingleRows *self, PyObject *x)
{
    return score_row(self, x) ? of_targets(self, self->row.scores, NULL, NULL) : not_known();
}

/* The scores of a dict, or of an array (m,) that Python code has checked, as a list: scores_of(x). */
static PyObject *SingleRows_scores_of(SingleRows *self, PyObject *x)
{
    const int is_row = read_array(self->features->array_type, x, self->sums.m, self->row.values);
    return score_row(self, is_row ? NULL : x) ? list_of(self->sums.n, self->row.scores) : not_known();
}

static PyObject *SingleRows_label(SingleRows *self, PyObject *x)
{
    return score_row(self, x) ? label_of(self->names, self->sums.n, self->row.scores) : not_known();
}

/* Add the losses of scores of classes, for each scale: losses_of(scores, scales, losses, column, count, w). */
static PyObject *losses_of(PyObject *module, PyObject *args)
{
    const Py_ssize_t n = PyObject_Size(PyTuple_GetItem(args, 0)), n_scales = PyObject_Size(PyTuple_GetItem(args, 1));
    PyObject *a; /* an array, which is taken below */
    real *scores, *scales, *losses;
    Py_ssize_t column;
    double count, w;
    if (n < 0 || n_scales < 0 || !PyArg_ParseTuple(args, "OOOndd", &a, &a, &a, &column, &count, &w)
        || !(scores = memory_of(args, 0, n, REALS, TO_READ)) || !(scales = memory_of(args, 1, n_scales, REALS, TO_READ))
        || !(losses = memory_of(args, 2, n_scales, REALS, TO_WRITE)))
        return NULL;
    if (column < 0 || column >= n)
        return PyErr_Format(PyExc_ValueError, "the class has no score");
    add_losses(n, scores, column, w, count, n_scales, scales, losses);
    Py_RETURN_NONE;
}

/* ---- Probabilities ------------------------------------------------------------------------------ */

/* Whether every class has a label, and every other label a probability. */
static int are_labelled(const SingleRows *self)
{
    const Py_ssize_t n = self->sums.n, n_labels = PyTuple_Size(self->names);
    return n_labels == n || (n_labels > n && self->fixed);
}

/* The scores of the row, which have become probabilities, by label. */
static PyObject *by_label(const SingleRows *self)
{
    PyObject *columns = PyDict_CheckExact(self->targets) ? self->targets : NULL;
    return by_name(self->names, columns, PyTuple_Size(self->names), self->sums.n, self->row.scores, NULL, self->fixed,
                   NULL);
}

/* What is left for the classes with rows. */
static double left_by_fixed(const SingleRows *self)
{
    const Py_ssize_t n_labels = PyTuple_Size(self->names);
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
    return by_label(self);
}

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
    return by_label(self);
}

/* Write the map to discriminant scores: rule(matrix, constant). Return whether Python code need not find it. */
static PyObject *SingleRows_rule(SingleRows *self, PyObject *arrays)
{
    const Py_ssize_t n = self->sums.n;
    real *matrix = memory_of(arrays, 0, n * n, REALS, TO_WRITE);
    real *constant = matrix ? memory_of(arrays, 1, n, REALS, TO_WRITE) : NULL;
    if (!constant)
        return NULL;
    const int is_known = self->kind != NO_PRIORS && find_rule(self, weights_now(self));
    if (is_known) {
        memcpy(matrix, self->rule, (size_t)(n * n) * sizeof(real));
        memcpy(constant, self->rule + n * n, (size_t)n * sizeof(real));
    }
    return PyBool_FromLong(is_known);
}

/* ---- Variances ---------------------------------------------------------------------------------- */

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
    if (self->mode == FOLLOW && is_followed(self))
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

/* The normal distributions of new targets of a dict by name, each an object of a type, with the mean and the variance
 * as an attribute of some name: normals(x, type, name). */
static PyObject *SingleRows_normals(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    double free;
    if (n_args != 3 || !PyType_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "normals(x, type, name)");
    const int is_known = spread_row(self, args[0], 1.0, &free);
    return is_known ? of_targets(self, self->row.scores, self->row.errors, args + 1) : not_known();
}

/* The scores of a dict and their variances by name, and the degrees of freedom: spread(x). */
static PyObject *SingleRows_spread(SingleRows *self, PyObject *x)
{
    double free;
    PyObject *named = spread_row(self, x, 1.0, &free) ? of_targets(self, self->row.scores, self->row.errors, NULL)
                                                      : not_known();
    return named == Py_NotImplemented ? named : Py_BuildValue("Nd", named, free);
}

/* The variances of the scores of a dict by name: variances(x). */
static PyObject *SingleRows_variances(SingleRows *self, PyObject *x)
{
    double free;
    const int is_known = self->kind == NO_PRIORS && spread_row(self, x, 0.0, &free);
    return is_known ? of_targets(self, self->row.errors, NULL, NULL) : not_known();
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
    return of_targets(self, lower, upper, NULL);
}

#endif
