/* `SingleRows` belongs to a model in one state: it holds the model's own arrays as buffers, so that learning a row
 * only writes to memory. What it does not know it hands back by NotImplemented, with nothing changed: then Python
 * code learns, refuses or answers the row. Its caller holds the model's lock. */
#ifndef ONLINELS_MODEL_H
#define ONLINELS_MODEL_H

#include "reading.h"
#include "solve.h"

/* ---- A model ----------------------------------------------------------------------------------- */

/* Registers of a model, counts of rows for the most part: see constants.py. */
enum { PREDICTED_AT, VALID_UNTIL, NEXT_DUE, SHARE, DUE_WEIGHT, TRIED_AT, N_REGISTERS };

/* Numbers of the choice of a ridge, and the units that a ridge may act on: see constants.py. */
enum { RIDGE, BASE_RIDGE, IS_SCALED, IS_BASE_SCALED, DOUBLES_AT, UNTIL_TIME, UNTIL_REST, IS_KNOWN, BEGAN, N_CHOICE };
enum { CHOSEN_ELSEWHERE, RAW, STANDARD, RAW_OR_STANDARD };
enum { NO_PRIORS, LEARNT_PRIORS, EQUAL_PRIORS, GIVEN_PRIORS, OTHER_PRIORS };
#define DUE_TOLERANCE 1e-9
#define LEAST_DUE_SHARE 0.25
#define ROWS_SELECTED_ONE_BY_ONE 16.0
#define MAX_UNITS_GROWTH 4.1
#define MIN_FEATURES_TO_KEEP_UNITS 16
#define MIN_ROWS_PER_FEATURE 3.0

/* Hands of a clock: see constants.py. */
enum { NOW, LOW, TIMED, HALF_LIFE, UNTIL, UNTIL_LOW, N_HANDS };
#define MAX_TIME 4611686018427387904.0
#define LOW_PART 4294967296.0
#define MAX_HALF_LIVES 40.0

/* By what dates are read: see `DATES_OF_CORE` in times.py. */
enum { NAIVE_EPOCH, EPOCH, UTC, TZINFO, DAYS, SECONDS, MICROSECONDS, N_OF_DATES };

/* How questions are answered: by a recursion that follows rows, and is begun and renewed here; by solving the sums;
 * or by weights that Python code has made. Rows may be learnt in all of them. */
enum { FOLLOW, SOLVE, HAND_BACK };
#define RENEWAL_ROWS 16384
#define RENEWAL_ROWS_PER_FEATURE 16
#define ROWS_BETWEEN_TRIALS 1024
#define MAX_ROWS_BETWEEN_PREDICTIONS 4
#define FEATURES_PER_ROW_BETWEEN 16
#define MAX_RUNNING_LEVERAGE 1e4

typedef struct {
    PyObject_HEAD
    PyObject *args;        /* what owns the objects and memory below: some arguments, and arrays */
    Reader *features;
    PyObject *targets;     /* dict: the column of every label; Reader of named targets; or None */
    PyObject *names;       /* tuple: labels of the classes, then of classes that have a prior, but no row so far; or
                              names of targets; empty if the only target has no name */
    PyObject *label_types; /* frozenset: types of labels that are compared without Python code */
    sums_t sums, inliers;  /* of all rows; of all but those that dwarf them, without columns if these are none */
    recursion_t recursion;
    ridge_t ridge;
    solver_t solver;       /* its weights answer until the next row; other copies of the model have their own */
    real *solved;          /* the memory of the solver; NULL before the first question */
    row_t row, inlier;     /* the row, and the row about the mean of the inliers */
    real *numbers;         /* the memory of both rows */
    double *registers;
    double *counts;        /* (n): rows of every class; or NULL */
    real *choice;          /* (N_CHOICE + 3 m): the choice of a ridge, with its units, those of the last doubling, and
                              the only values of features; or NULL */
    real *constants;       /* (m): of the choice, the only value of every feature, NaN if it varies; NULL if all vary,
                              or if none is known */
    real *of_choice;       /* memory to choose in; NULL between choices */
    double memory;         /* number of rows in which weights decay to 1/e; infinite without a factor */
    double between;        /* time after a choice in which the next is due, whole if times are dates; infinite without a
                              half-life */
    int kinds;             /* CHOSEN_ELSEWHERE, or the units that the ridge may act on */
    int keeps;             /* whether the ridge of the last doubling may be kept */
    double *hands;         /* (N_HANDS): the clock of a half-life; or NULL */
    double time[2];        /* of the row, in two parts, as that of the clock */
    double passed;         /* time from the clock to the row */
    double decay;          /* factor on all earlier weights by the row; constant without a half-life */
    real *priors;          /* (n): of the classes; */
    real *fixed;           /* of all labels: the probability where a class has no weight; */
    real *hidden;          /* (n + 1): rounding errors; see `weights_of_classes`. All NULL without priors */
    real *rule;            /* the map to discriminant scores, and scratch memory; or NULL */
    double ruled_at;       /* number of rows of this map; -1 if it is not known */
    double least_share, patience;
    int kind;              /* of priors */
    Py_ssize_t column;     /* of the label of the row */
    Py_ssize_t n_told;     /* number of features that vary by rounding alone of which Python code has warned */
    int mode;              /* FOLLOW, SOLVE or HAND_BACK */
    int learns;            /* whether rows may be learnt without other code */
    int forgets;           /* whether the weights of rows decay */
    PyObject *dates;       /* tuple by which dates are read (see `read_date`) if times are dates, in nanoseconds; or
                              None */
    int counts_dates;      /* whether they are */
    int warns;             /* whether Python code may warn of lost digits when the sums are solved */
} SingleRows;

/* Forget what was derived for the rows learnt so far: the factor, the weights, the map to discriminant scores, and the
 * image of a row. */
static void forget_answers(SingleRows *self)
{
    self->solver.factored_at = self->solver.solved_at = self->ruled_at = self->row.imaged_at = -1.0;
}

/* An object that a list keeps alive; NULL with an exception if there is none. */
static PyObject *kept_in(PyObject *kept, PyObject *found)
{
    const int failed = !found || PyList_Append(kept, found);
    Py_XDECREF(found);
    return failed ? NULL : found;
}

/* The attribute of an object, which a list keeps alive; NULL with an exception if there is none. */
static PyObject *kept_attribute(PyObject *kept, PyObject *owner, const char *name)
{
    PyObject *key = owner ? PyUnicode_InternFromString(name) : NULL; /* types remember what they are asked for */
    PyObject *found = key ? PyObject_GetAttr(owner, key) : NULL;
    Py_XDECREF(key);
    return kept_in(kept, found);
}

/* Take an array that is an attribute. Return 0 with an exception if it does not fit. */
static int take(PyObject *kept, PyObject *owner, const char *name, Py_ssize_t size, const char *formats, void *place)
{
    void *found = memory_in(kept_attribute(kept, owner, name), size, formats, TO_WRITE);
    memcpy(place, &found, sizeof(found));
    return found != NULL;
}

/* Take the arrays of statistics of m features, by name. Return 0 with an exception if they do not fit. */
static int take_sums(PyObject *kept, PyObject *statistics, Py_ssize_t m, sums_t *s)
{
    PyObject *numbers = kept_attribute(kept, statistics, "numbers"), *panels;
    PyObject *row_arrays = kept_attribute(kept, kept_attribute(kept, statistics, "products"), "row_arrays");
    PyObject *is_centred = kept_attribute(kept, statistics, "is_centred");
    const Py_ssize_t length = numbers ? PyObject_Size(numbers) : -1, n = (length - 3 - 5 * m) / 6, size = m + n;
    Py_ssize_t start = 0;
    if (length < 0 || !row_arrays || !is_centred
        || !(s->tally = memory_in(numbers, n < 0 ? -1 : 3 + n + 5 * size, REALS, TO_WRITE))
        || !(s->rounding = memory_in(kept_attribute(kept, kept_attribute(kept, statistics, "rounding"), "squares"),
                                     size, REALS, TO_READ))
        || !(panels = kept_in(kept, PyObject_CallNoArgs(row_arrays))))
        return 0;
    s->m = m;
    s->n = n;
    s->prints = (uint64_t *)(s->tally + 3 + n);
    s->is_centred = is_centred == Py_True;
    s->origin = s->tally + 3 + n + 3 * size;
    s->offset = s->origin + size;
    const Py_ssize_t n_arrays = PyTuple_Size(panels); /* none if sums of this form learn no single rows */
    s->panels = PyMem_Calloc((size_t)n_arrays + 1, sizeof(panel_t));
    s->squares = PyMem_Calloc((size_t)size + 1, sizeof(real *));
    if (!s->panels || !s->squares)
        return PyErr_NoMemory() != NULL;
    s->cross = n_arrays ? memory_of(panels, 0, m * n, REALS, TO_WRITE) : NULL;
    for (Py_ssize_t i = 1; s->cross && i < n_arrays; i += 2) {
        const Py_ssize_t width = PyObject_Size(PyTuple_GetItem(panels, i + 1));
        real *above = start ? memory_of(panels, i, start * width, REALS, TO_WRITE) : NULL;
        real *corner = above || !start ? memory_of(panels, i + 1, width * width, REALS, TO_WRITE) : NULL;
        if (!corner || start + width > m)
            break;
        s->panels[s->n_panels++] = (panel_t){start, width, above, corner};
        for (Py_ssize_t j = 0; j < width; j++)
            s->squares[start++] = corner + j * width + j;
    }
    if (s->cross && start != m && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the panels have other columns than the features");
    for (Py_ssize_t j = 0; j < n; j++)
        s->squares[m + j] = s->tally + 3 + j;
    return !PyErr_Occurred();
}

/* Take the arrays of a recursion, by name. Return 0 with an exception if they do not fit. */
static int take_recursion(PyObject *kept, PyObject *object, Py_ssize_t m, Py_ssize_t n, recursion_t *r)
{
    if (!take(kept, object, "inverse", m * m, REALS, &r->inverse)
        || !take(kept, object, "numbers", N_FACTORS + 2 * m + n + m * n, REALS, &r->factors))
        return 0;
    r->penalties = r->factors + N_FACTORS;
    r->pending = r->penalties + m;
    r->criterion = r->pending + m;
    r->weights = r->criterion + n;
    return 1;
}

/* Take the memory of an argument, an array or None. Return 0 with an exception if it does not fit. */
static int take_argument(PyObject *array, Py_ssize_t size, void *place)
{
    void *found = array == Py_None ? NULL : memory_in(array, size, REALS, TO_WRITE);
    memcpy(place, &found, sizeof(found));
    return found || array == Py_None;
}

/* Take the priors of classes, by name. Return 0 with an exception if they do not fit. */
static int take_priors(SingleRows *self, PyObject *kept, PyObject *priors)
{
    const Py_ssize_t n = self->sums.n, n_labels = PyTuple_Size(self->names);
    PyObject *kind = kept_attribute(kept, priors, "kind");
    self->kind = kind ? (int)PyLong_AsLong(kind) : NO_PRIORS;
    if (PyErr_Occurred() || n_labels < n || self->kind <= NO_PRIORS || self->kind > OTHER_PRIORS) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the labels or the kind of priors do not fit");
        return 0;
    }
    if (self->kind == OTHER_PRIORS)
        return 1;
    if (!(self->rule = PyMem_Calloc((size_t)(n * (n + 8)) + 1, sizeof(real))))
        return PyErr_NoMemory() != NULL;
    return take(kept, priors, "given", n, REALS, &self->priors)
           && take(kept, priors, "fixed", n_labels, REALS, &self->fixed)
           && take(kept, priors, "hidden", n + 1, REALS, &self->hidden);
}

/* Take the choice of a ridge and what decides on the next: (numbers, kinds, keeps, memory, between), or None. Return 0
 * with an exception if it does not fit. */
static int take_choice(SingleRows *self, PyObject *choice)
{
    const Py_ssize_t m = self->sums.m;
    PyObject *numbers;
    if (choice == Py_None)
        return 1;
    if (!PyTuple_Check(choice)
        || !PyArg_ParseTuple(choice, "Oipdd", &numbers, &self->kinds, &self->keeps, &self->memory, &self->between)
        || !(self->choice = memory_in(numbers, N_CHOICE + 3 * m, REALS, TO_WRITE))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "the choice of a ridge is no tuple");
        return 0;
    }
    self->ridge.units = self->choice + N_CHOICE;
    real *constants = self->choice + N_CHOICE + 2 * m;
    for (ptrdiff_t i = 0; self->choice[IS_KNOWN] != 0.0 && i < m; i++)
        self->constants = constants[i] == constants[i] ? constants : self->constants;
    return 1;
}

/* Take the arrays of statistics of all rows and of inliers, of a recursion, and other arrays. Return 0 with an
 * exception if they do not fit. */
static int take_arrays(SingleRows *self, PyObject *kept, PyObject *const *given)
{
    const Py_ssize_t m = self->features->size;
    if (!take_sums(kept, given[0], m, &self->sums)
        || (given[1] != Py_None && !take_sums(kept, given[1], m, &self->inliers)))
        return 0;
    const Py_ssize_t n = self->sums.n, size = m + n;
    const Py_ssize_t n_rows = given[1] == Py_None ? 4 : 5; /* Outliers are few: the last is of the inliers. */
    real *values = self->numbers = PyMem_Calloc((size_t)(n_rows * size) + 1, sizeof(real));
    if (!values)
        return PyErr_NoMemory() != NULL;
    real *about = values + size, *image = about + size;
    self->row = (row_t){.values = values, .about = about, .image = image, .imaged = image + m,
                        .scores = image + 2 * m, .errors = image + 2 * m + n, .own = 1.0};
    self->inlier = (row_t){.values = values, .about = image + 2 * size};
    forget_answers(self);
    self->forgets = self->decay != 1.0 || given[6] != Py_None;
    self->patience = fmax(MAX_ROWS_BETWEEN_PREDICTIONS, (double)(m / FEATURES_PER_ROW_BETWEEN));
    if (given[1] != Py_None && self->inliers.n != n)
        return PyErr_Format(PyExc_ValueError, "inliers have %zd targets, expected %zd", self->inliers.n, n) != NULL;
    return (given[2] == Py_None || take_recursion(kept, given[2], m, n, &self->recursion))
           && (self->registers = memory_in(given[3], N_REGISTERS, REALS, TO_WRITE))
           && take_argument(given[4], n, &self->counts) && take_choice(self, given[5])
           && take_argument(given[6], N_HANDS, &self->hands)
           && (given[7] == Py_None || take_priors(self, kept, given[7]));
}

/* What must live as long as a model, as a tuple: five arguments, the arguments that are arrays, and the arrays among
 * what was kept, alone or in a tuple. Thousands of models may be in memory, and the other arguments are larger. */
static PyObject *owners(const SingleRows *self, PyObject *kept, PyObject *const *given)
{
    PyObject *own[] = {(PyObject *)self->features, self->targets, self->names, self->label_types, self->dates,
                       given[3], given[4], given[5], given[6]};
    PyObject *found = PyList_New(0), *tuple = NULL;
    int failed = !found;
    for (size_t i = 0; !failed && i < sizeof(own) / sizeof(*own); i++)
        failed = PyList_Append(found, own[i]);
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(kept); i++) {
        PyObject *item = PyList_GetItem(kept, i);
        if (PyObject_CheckBuffer(item) || PyTuple_CheckExact(item))
            failed = PyList_Append(found, item);
    }
    tuple = failed ? NULL : PyList_AsTuple(found);
    Py_XDECREF(found);
    return tuple;
}

static PyObject *SingleRows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"features", "targets", "names", "label_types", "whole", "inliers", "recursion",
                            "registers", "counts", "choice", "hands", "priors", "ridge", "scaling",
                            "decay", "least_share", "mode", "dates", "learns", "warns", NULL};
    SingleRows *self = (SingleRows *)PyType_GenericAlloc(type, 0);
    PyObject *a[8], *kept = PyList_New(0);
    if (self && kept
        && PyArg_ParseTupleAndKeywords(args, kwargs, "$OOO!O!OOOOOOOOdiddiOpp", names, &self->features,
                                       &self->targets, &PyTuple_Type, &self->names, &PyFrozenSet_Type,
                                       &self->label_types, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7,
                                       &self->ridge.ridge, &self->ridge.scaling, &self->decay,
                                       &self->least_share, &self->mode, &self->dates, &self->learns, &self->warns)) {
        self->counts_dates = self->dates != Py_None;
        if (!has_dealloc((PyObject *)self->features, (void *)Reader_dealloc)
            || !(self->targets == Py_None || PyDict_CheckExact(self->targets)
                 || has_dealloc(self->targets, (void *)Reader_dealloc)))
            PyErr_SetString(PyExc_TypeError, "features or targets are no reader");
        else if (self->counts_dates && !(PyTuple_Check(self->dates) && PyTuple_Size(self->dates) == N_OF_DATES))
            PyErr_SetString(PyExc_TypeError, "dates are not what dates are read by");
        else if (self->ridge.scaling == GIVEN && a[5] == Py_None)
            PyErr_SetString(PyExc_ValueError, "the units are not given");
        else if (take_arrays(self, kept, a))
            self->args = owners(self, kept, a);
    }
    Py_XDECREF(kept);
    if (self && self->args)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}

static void SingleRows_dealloc(SingleRows *self)
{
    PyObject_GC_UnTrack(self);
    PyMem_Free(self->sums.panels);
    PyMem_Free(self->sums.squares);
    PyMem_Free(self->inliers.panels);
    PyMem_Free(self->inliers.squares);
    PyMem_Free(self->numbers);
    PyMem_Free(self->of_choice);
    PyMem_Free(self->rule);
    PyMem_Free(self->solved);
    release((PyObject *)self);
}

/* Set the targets of the row to those of its label. Return 0 if no target has this column. */
static int set_label(SingleRows *self, Py_ssize_t column)
{
    real *targets = self->row.values + self->sums.m;
    if (column < 0 || column >= self->sums.n)
        return 0;
    memset(targets, 0, (size_t)self->sums.n * sizeof(real));
    targets[column] = 1.0;
    self->column = column;
    return 1;
}

/* Read a label or targets into the row. Return 1, or 0 if Python code must read them. */
static int read_target(SingleRows *self, PyObject *y)
{
    real *targets = self->row.values + self->sums.m;
    if (self->targets == Py_None)
        return self->sums.n == 1 && read_number(self->features->types, y, targets);
    if (!PyDict_CheckExact(self->targets)) {
        Reader *reader = (Reader *)self->targets;
        return !self->counts && reader->size == self->sums.n && read_dict(reader, y, targets) == self->sums.n;
    }
    PyObject *found = is_one_of(self->label_types, y) ? PyDict_GetItemWithError(self->targets, y) : NULL;
    return found && set_label(self, PyLong_AsSsize_t(found));
}

/* Whether features that have not varied so far do not vary in the row that is read. */
static int is_constant_where_known(const SingleRows *self)
{
    const real *constants = self->constants, *x = self->row.values;
    for (ptrdiff_t i = 0; constants && i < self->sums.m; i++)
        if (constants[i] == constants[i] && x[i] != constants[i])
            return 0;
    return 1;
}

#endif
