/* The heart in C, bound to CPython's limited API: rows of dicts and arrays, predicted and learnt.
 *
 * A `Reader` reads dicts into a row. `SingleRows` belongs to a model in one state: it holds the
 * model's own arrays as buffers, so that learning a row only writes to memory. Both are handed what
 * they do not know, and return NotImplemented with nothing changed: then Python code learns or refuses
 * the row. Their caller holds the model's lock.
 *
 * No Python code runs inside a call: names and labels of other types than Python's and numpy's own,
 * whose `__eq__` might be Python code, are handed back. So no other thread, and no interrupt, comes
 * between the first look at a row and its last number.
 */
#define Py_LIMITED_API 0x030B0000 /* CPython 3.11 and later, with one binary */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "Without the global interpreter lock, rows are learnt by onlinels/core/reference.py."
#endif

#include <math.h>

#include "recursion.h"

/* The number of this file's arguments and arrays (see `onlinels/core/reference.py`). */
#define LAYOUT 2

#define NOT_KNOWN (Py_INCREF(Py_NotImplemented), Py_NotImplemented)

/* Sum of squares of values and targets up to which sums stay within float64; not NaN. */
#define MAX_SQUARES 1e150
/* Weight of a row, relative to the rows before, from which it becomes the origin of the mean. */
#define MUCH_HEAVIER 1000.0
/* Degrees of freedom, relative to the weight of the rows, below which they count as 0. */
#define MIN_FREE 1e-9

/* ---- Reading ----------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *columns;   /* dict: the column of every name that was met; the columns of an array's
                            name are (first, length) */
    PyObject *types;     /* frozenset: the types of numpy's numbers */
    PyObject *array_type; /* numpy.ndarray */
    PyObject **keys;     /* (size): the names of the last dict, in its order */
    Py_ssize_t *places;  /* (size): their (first) columns */
    Py_ssize_t *lengths; /* (size): the lengths of arrays, 0 for numbers */
    int64_t *seen;       /* (size): the last dict that had each column */
    int64_t n_read;
    Py_buffer buffer;
    real *values;        /* (size) */
    Py_ssize_t size;
} Reader;

/* Return 1 if a value is of one of some types. Types of a metaclass, which may hash and compare by
 * Python code, are none of them. */
static int is_one_of(PyObject *types, PyObject *value)
{
    PyObject *type = (PyObject *)Py_TYPE(value);
    return Py_TYPE(type) == &PyType_Type && PySet_Contains(types, type) == 1;
}

/* Return 1 if a value is a number of a known type, and store it. */
static int read_number(PyObject *types, PyObject *value, real *out)
{
    PyTypeObject *type = Py_TYPE(value);
    double number;
    if (type == &PyFloat_Type)
        number = PyFloat_AsDouble(value);
    else if (type == &PyLong_Type || type == &PyBool_Type)
        number = PyLong_AsDouble(value);
    else if (is_one_of(types, value))
        number = PyFloat_AsDouble(value);
    else
        return 0;
    if (number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    *out = number;
    return 1;
}

/* Return 1 if a value is an array of `length` numbers, and store them. */
static int read_array(const Reader *self, PyObject *value, Py_ssize_t length, real *out)
{
    Py_buffer buffer;
    int fits;
    if ((PyObject *)Py_TYPE(value) != self->array_type)
        return 0;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
        PyErr_Clear();
        return 0;
    }
    fits = buffer.ndim == 1 && buffer.len == length * buffer.itemsize;
    if (fits && !strcmp(buffer.format, "d"))
        memcpy(out, buffer.buf, (size_t)buffer.len);
    else if (fits && !strcmp(buffer.format, "f"))
        for (Py_ssize_t i = 0; i < length; i++) { /* An array may lie at any byte. */
            float number;
            memcpy(&number, (char *)buffer.buf + i * (Py_ssize_t)sizeof(number), sizeof(number));
            out[i] = number;
        }
    else
        fits = 0;
    PyBuffer_Release(&buffer);
    return fits;
}

/* Find the columns of the name at place i of a dict. */
static int find_column(Reader *self, PyObject *key, Py_ssize_t i)
{
    PyObject *old = self->keys[i], *found = NULL;
    Py_ssize_t first, length = 0;
    if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key))
        found = PyDict_GetItemWithError(self->columns, key);
    if (found && PyTuple_Check(found)) {
        length = PyLong_AsSsize_t(PyTuple_GetItem(found, 1));
        found = PyTuple_GetItem(found, 0);
    }
    first = found ? PyLong_AsSsize_t(found) : -1;
    if (first < 0 || length < 0 || first + (length ? length : 1) > self->size) {
        PyErr_Clear();
        return 0;
    }
    self->places[i] = first;
    self->lengths[i] = length;
    Py_INCREF(key);
    self->keys[i] = key;
    Py_XDECREF(old);
    return 1;
}

/* Read a dict of numbers by known names into the values; columns without a name are 0. Return the
 * number of names, or -1 if Python code must read the dict. */
static Py_ssize_t read_dict(Reader *self, PyObject *x)
{
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    if (!PyDict_CheckExact(x) || PyDict_Size(x) > self->size)
        return -1;
    self->n_read++;
    memset(self->values, 0, (size_t)self->size * sizeof(real));
    while (PyDict_Next(x, &position, &key, &value)) {
        /* Most dicts have the same names in the same order: names are compared by identity first. */
        if (key != self->keys[i] && !find_column(self, key, i))
            return -1;
        const Py_ssize_t column = self->places[i], length = self->lengths[i++];
        if (self->seen[column] == self->n_read) /* Two names of one feature. */
            return -1;
        self->seen[column] = self->n_read;
        if (length ? (PyDict_Size(x) > 1 || !read_array(self, value, length, self->values + column))
                   : !read_number(self->types, value, self->values + column))
            return -1;
    }
    return i;
}

static PyObject *Reader_row(Reader *self, PyObject *x)
{
    if (read_dict(self, x) < 0 || !(dot(self->size, self->values, self->values) <= MAX_SQUARES))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((char *)self->values, self->size * (Py_ssize_t)sizeof(real));
}

/* Take a writeable buffer of numbers of 8 bytes; `size` is -1 or the expected number. */
static int take(PyObject *array, Py_buffer *buffer, Py_ssize_t size)
{
    if (PyObject_GetBuffer(array, buffer, PyBUF_WRITABLE | PyBUF_ANY_CONTIGUOUS))
        return -1;
    if (buffer->itemsize == sizeof(real) && (size < 0 || buffer->len == size * (Py_ssize_t)sizeof(real)))
        return 0;
    PyErr_Format(PyExc_ValueError, "an array has %zd bytes, expected %zd numbers of 8 bytes", buffer->len, size);
    return -1;
}

static PyObject *Reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *columns, *values, *types, *array_type;
    if (!PyArg_ParseTuple(args, "O!OO!O", &PyDict_Type, &columns, &values, &PyFrozenSet_Type, &types,
                          &array_type))
        return NULL;
    Reader *self = (Reader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(self->columns = columns);
    Py_INCREF(self->types = types);
    Py_INCREF(self->array_type = array_type);
    if (take(values, &self->buffer, -1))
        goto failed;
    self->values = self->buffer.buf;
    self->size = self->buffer.len / (Py_ssize_t)sizeof(real);
    self->keys = PyMem_Calloc(self->size + 1, sizeof(PyObject *));
    self->places = PyMem_Calloc(self->size + 1, sizeof(Py_ssize_t));
    self->lengths = PyMem_Calloc(self->size + 1, sizeof(Py_ssize_t));
    self->seen = PyMem_Calloc(self->size + 1, sizeof(int64_t));
    if (self->keys && self->places && self->lengths && self->seen)
        return (PyObject *)self;
    PyErr_NoMemory();
failed:
    Py_DECREF(self);
    return NULL;
}

static void release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void Reader_dealloc(Reader *self)
{
    for (Py_ssize_t i = 0; self->keys && i < self->size; i++)
        Py_XDECREF(self->keys[i]);
    PyMem_Free(self->keys);
    PyMem_Free(self->places);
    PyMem_Free(self->lengths);
    PyMem_Free(self->seen);
    PyBuffer_Release(&self->buffer);
    Py_XDECREF(self->columns);
    Py_XDECREF(self->types);
    Py_XDECREF(self->array_type);
    release((PyObject *)self);
}

/* ---- Rows of a model --------------------------------------------------------------------------- */

/* Counts of rows, in an array of the model: at the last prediction; from which the weights no longer
 * answer; at which a ridge is chosen. And the share of the ridge that decay has left. */
enum { PREDICTED_AT, VALID_UNTIL, NEXT_DUE, SHARE, N_MARKS };

typedef struct {
    PyObject_HEAD
    Reader *features, *targets; /* write into row.values; `targets` for several named targets, or NULL */
    PyObject *columns;          /* dict: the column of every label, or NULL */
    PyObject *labels;           /* tuple */
    PyObject *label_types;      /* frozenset: types of labels that are compared without Python code */
    PyObject *arrays;           /* tuple: owners of the buffers */
    Py_buffer *buffers;
    Py_ssize_t n_buffers;
    sums_t sums;
    recursion_t recursion;
    row_t row;
    double *marks;
    int64_t *counts;            /* (n): rows of every class; or NULL */
    real *constants;            /* (m): the only value of every feature, NaN if it varies; or NULL */
    double decay, most, least_share, patience;
    int refines;                /* whether the weights are corrected by the sums before they answer */
} SingleRows;

/* Whether the weights answer for the rows learnt so far. */
static int can_answer(const SingleRows *self)
{
    const double count = self->sums.tally[0];
    return self->recursion.weights && count < self->marks[VALID_UNTIL]
           && !(self->refines && count != self->marks[PREDICTED_AT]);
}

/* Read a label or targets into the row. Return 1, or 0 if Python code must read them. */
static int read_target(SingleRows *self, PyObject *y, Py_ssize_t *column)
{
    real *targets = self->row.values + self->sums.m;
    if (self->targets)
        return read_dict(self->targets, y) == self->sums.n;
    if (!self->columns)
        return read_number(self->features->types, y, targets);
    if (!is_one_of(self->label_types, y))
        return 0;
    PyObject *found = PyDict_GetItemWithError(self->columns, y);
    *column = found ? PyLong_AsSsize_t(found) : -1;
    if (*column < 0 || *column >= self->sums.n) {
        PyErr_Clear();
        return 0;
    }
    memset(targets, 0, (size_t)self->sums.n * sizeof(real));
    targets[*column] = 1.0;
    return 1;
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

/* Whether a row that is read can be learnt here: no choice of a ridge is due with it, no feature
 * begins to vary, and its numbers stay within float64. */
static int is_plain(const SingleRows *self, double w)
{
    const ptrdiff_t m = self->sums.m;
    const real *x = self->row.values;
    const double past = self->sums.tally[1] * self->decay;
    if (!self->sums.cross || !self->marks || !(w > 0.0 && w <= 1.0 && w <= MUCH_HEAVIER * past))
        return 0;
    if (self->sums.tally[0] + 1.0 >= self->marks[NEXT_DUE])
        return 0;
    return is_constant_where_known(self) && dot(m + self->sums.n, x, x) <= MAX_SQUARES;
}

/* Learn the row: into the sums, and into the weights if these follow rows. */
static void learn(SingleRows *self, double w, double decay, int is_restored)
{
    double *marks = self->marks;
    const double count = self->sums.tally[0];
    /* Weights follow rows only while predictions keep coming. */
    int follows = self->recursion.inverse && !is_restored && count < marks[VALID_UNTIL]
                  && (count == marks[PREDICTED_AT] || count + 1.0 - marks[PREDICTED_AT] <= self->patience);
    prepare_sums(&self->sums, &self->row, w, decay);
    follows = follows && prepare_recursion(&self->sums, &self->recursion, &self->row, self->most);
    if (follows)
        commit_recursion(&self->sums, &self->recursion, &self->row);
    else if (self->recursion.inverse)
        marks[VALID_UNTIL] = 0.0;
    commit_sums(&self->sums, &self->row, w);
}

/* Learn a row that is read, with the decay of the model. */
static void learn_read(SingleRows *self, double w, Py_ssize_t column)
{
    int is_restored = 0;
    if (self->least_share > 0.0) {
        /* The ridge decays with the rows, until it is set to its full size again. */
        self->marks[SHARE] *= self->decay;
        is_restored = self->marks[SHARE] < self->least_share;
        if (is_restored)
            self->marks[SHARE] = 1.0;
    }
    if (self->counts)
        self->counts[column]++;
    learn(self, w, self->decay, is_restored);
}

static PyObject *SingleRows_learn(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    Py_ssize_t column = 0;
    double w;
    if (n_args != 3)
        return PyErr_Format(PyExc_TypeError, "learn(x, y, w)");
    if (!PyFloat_CheckExact(args[2]) || read_dict(self->features, args[0]) < 0
        || !read_target(self, args[1], &column) || !is_plain(self, w = PyFloat_AsDouble(args[2])))
        return NOT_KNOWN;
    learn_read(self, w, column);
    Py_RETURN_NONE;
}

/* Load `size` numbers that Python code has checked into the row; -1 with an exception on failure. */
static int load(SingleRows *self, PyObject *numbers, Py_ssize_t size)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(numbers, &buffer, PyBUF_ANY_CONTIGUOUS))
        return -1;
    const int fits = buffer.len == size * (Py_ssize_t)sizeof(real);
    if (fits)
        memcpy(self->row.values, buffer.buf, (size_t)buffer.len);
    else
        PyErr_Format(PyExc_ValueError, "a row has %zd bytes, expected %zd numbers", buffer.len, size);
    PyBuffer_Release(&buffer);
    return fits ? 0 : -1;
}

/* Learn the row that is loaded: learn_loaded(w, decay, is_restored). This cannot fail. */
static PyObject *SingleRows_learn_loaded(SingleRows *self, PyObject *args)
{
    double w, decay;
    int is_restored;
    if (!PyArg_ParseTuple(args, "ddp", &w, &decay, &is_restored))
        return NULL;
    learn(self, w, decay, is_restored);
    Py_RETURN_NONE;
}

/* Load a sample (m + n,), and return calls for one C loop that learn it: plan_sample(sample, w, decay,
 * is_restored). */
static PyObject *SingleRows_plan_sample(SingleRows *self, PyObject *args)
{
    PyObject *sample, *learn_loaded;
    double w, decay;
    int is_restored;
    if (!PyArg_ParseTuple(args, "Oddp", &sample, &w, &decay, &is_restored)
        || load(self, sample, self->sums.m + self->sums.n))
        return NULL;
    learn_loaded = PyObject_GetAttrString((PyObject *)self, "learn_loaded");
    return learn_loaded ? Py_BuildValue("((Nddi))", learn_loaded, w, decay, is_restored) : NULL;
}

/* Compute the scores of the row that is read. */
static void answer_read(SingleRows *self)
{
    prepare_scores(&self->sums, &self->recursion, &self->row);
    self->marks[PREDICTED_AT] = self->sums.tally[0];
}

/* Read a dict and compute its scores. Return 0 if Python code must answer. */
static int answer(SingleRows *self, PyObject *x)
{
    if (!can_answer(self) || read_dict(self->features, x) < 0
        || !(dot(self->sums.m, self->row.values, self->row.values) <= MAX_SQUARES))
        return 0;
    answer_read(self);
    return 1;
}

static PyObject *SingleRows_label(SingleRows *self, PyObject *x)
{
    if (!answer(self, x))
        return NOT_KNOWN;
    PyObject *label = PyTuple_GetItem(self->labels, arg_max(self->sums.n, self->row.scores));
    Py_XINCREF(label);
    return label;
}

/* A list of n numbers. */
static PyObject *list_of(Py_ssize_t n, const real *numbers)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t j = 0; list && j < n; j++) {
        PyObject *number = PyFloat_FromDouble(numbers[j]);
        if (!number || PyList_SetItem(list, j, number)) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *SingleRows_scores(SingleRows *self, PyObject *x)
{
    return answer(self, x) ? list_of(self->sums.n, self->row.scores) : NOT_KNOWN;
}

/* The scores of an array (m,). */
static PyObject *SingleRows_scores_of(SingleRows *self, PyObject *row)
{
    if (!can_answer(self))
        return NOT_KNOWN;
    if (load(self, row, self->sums.m))
        return NULL;
    answer_read(self);
    return list_of(self->sums.n, self->row.scores);
}

/* Compute the scores of a dict, and the variances of new targets about them into the errors. Return
 * the degrees of freedom, or 0 if Python code must answer. */
static double spread(SingleRows *self, PyObject *x)
{
    const sums_t *s = &self->sums;
    if (!self->recursion.inverse || self->refines || !answer(self, x) || !is_constant_where_known(self))
        return 0.0;
    const double weight = s->tally[1], free = weight - n_parameters(s, &self->recursion);
    const double leverage = prepare_leverage(s, &self->recursion, &self->row);
    const double factor = 1.0 + (leverage > 0.0 ? leverage : 0.0) + (s->origin ? 1.0 / weight : 0.0);
    for (ptrdiff_t j = 0; j < s->n; j++)
        self->row.errors[j] = residual_squares(s, &self->recursion, j) / free * factor;
    return free > MIN_FREE * weight ? free : 0.0;
}

static PyObject *SingleRows_spread(SingleRows *self, PyObject *x)
{
    const double free = spread(self, x);
    if (!(free > 0.0))
        return NOT_KNOWN;
    return Py_BuildValue("NNd", list_of(self->sums.n, self->row.scores),
                         list_of(self->sums.n, self->row.errors), free);
}

/* The ends of an interval for each target of a dict: interval(x, least, terms). With at least `least`
 * degrees of freedom, Student's quantile is the sum of the terms over powers of these. */
static PyObject *SingleRows_interval(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 3 || !PyTuple_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "interval(x, least, terms)");
    const double least = PyFloat_AsDouble(args[1]), free = spread(self, args[0]);
    if (!(free > 0.0 && free >= least) || PyErr_Occurred())
        return PyErr_Occurred() ? NULL : NOT_KNOWN;
    double quantile = 0.0;
    for (Py_ssize_t i = PyTuple_Size(args[2]); i-- > 0;)
        quantile = quantile / free + PyFloat_AsDouble(PyTuple_GetItem(args[2], i));
    PyObject *ends = PyList_New(self->sums.n);
    for (ptrdiff_t j = 0; ends && j < self->sums.n; j++) {
        const double half = quantile * sqrt(self->row.errors[j]), score = self->row.scores[j];
        PyObject *pair = Py_BuildValue("dd", score - half, score + half);
        if (!pair || PyList_SetItem(ends, j, pair)) {
            Py_CLEAR(ends);
        }
    }
    return ends;
}

/* Take the C-contiguous buffers of `count` arrays; -1 with an exception on failure. */
static int take_all(PyObject *arrays, Py_buffer *buffers, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyTuple_GetItem(arrays, i);
        if (!array || PyObject_GetBuffer(array, buffers + i, PyBUF_C_CONTIGUOUS | (i == 3 ? PyBUF_WRITABLE : 0))) {
            while (i-- > 0)
                PyBuffer_Release(buffers + i);
            return -1;
        }
    }
    return 0;
}

/* Load row k of an array, and its targets: numbers, or the column of its label, which is returned.
 * Return -1 if the label has no column. */
static Py_ssize_t load_row(SingleRows *self, const Py_buffer *rows, const Py_buffer *targets, Py_ssize_t k)
{
    const ptrdiff_t m = self->sums.m, n = self->sums.n;
    real *values = self->row.values;
    memcpy(values, (real *)rows->buf + k * m, (size_t)m * sizeof(real));
    if (!self->counts) {
        memcpy(values + m, (real *)targets->buf + k * n, (size_t)n * sizeof(real));
        return 0;
    }
    const Py_ssize_t column = (Py_ssize_t)((int64_t *)targets->buf)[k];
    if (column < 0 || column >= n)
        return -1;
    memset(values + m, 0, (size_t)n * sizeof(real));
    values[m + column] = 1.0;
    return column;
}

/* Whether arrays have `count` rows, targets, and numbers for each of `n` targets. */
static int fit(const SingleRows *self, const Py_buffer *found, Py_ssize_t count)
{
    const Py_ssize_t size = count * (Py_ssize_t)sizeof(real);
    return found[0].len == size * self->sums.m && found[1].len == size * (self->counts ? 1 : self->sums.n);
}

/* Predict each row, then learn it, up to a row that Python code must learn: predict_learn(X, targets,
 * w, scores). X is (k, m), targets (k, n) or columns of labels (k,), w (k,), scores (k, n), to write.
 * Return the number of rows. */
static PyObject *SingleRows_predict_learn(SingleRows *self, PyObject *arrays)
{
    Py_buffer found[4];
    Py_ssize_t k = 0;
    const ptrdiff_t n = self->sums.n;
    if (take_all(arrays, found, 4))
        return NULL;
    const Py_ssize_t n_rows = found[2].len / (Py_ssize_t)sizeof(real);
    const int fits = fit(self, found, n_rows) && found[3].len == n_rows * n * (Py_ssize_t)sizeof(real);
    for (; fits && k < n_rows; k++) {
        const double w = ((double *)found[2].buf)[k];
        const Py_ssize_t column = load_row(self, found, found + 1, k);
        if (column < 0 || !can_answer(self) || !is_plain(self, w))
            break;
        answer_read(self);
        memcpy((real *)found[3].buf + k * n, self->row.scores, (size_t)n * sizeof(real));
        learn_read(self, w, column);
    }
    for (int i = 0; i < 4; i++)
        PyBuffer_Release(found + i);
    return fits ? PyLong_FromSsize_t(k) : PyErr_Format(PyExc_ValueError, "arrays have other sizes than expected");
}

/* Whether all rows of an array, each of weight 1, can be learnt here. */
static int are_plain(SingleRows *self, const Py_buffer *found, Py_ssize_t k)
{
    const sums_t *s = &self->sums;
    int can = fit(self, found, k) && s->cross && s->n_panels == 1 && self->decay == 1.0
              && 1.0 <= MUCH_HEAVIER * s->tally[1] && s->tally[0] + (double)k < self->marks[NEXT_DUE]
              && dot(k * s->m, found[0].buf, found[0].buf) <= MAX_SQUARES
              && (self->counts || dot(k * s->n, found[1].buf, found[1].buf) <= MAX_SQUARES);
    for (Py_ssize_t i = 0; can && (self->constants || self->counts) && i < k; i++)
        can = load_row(self, found, found + 1, i) >= 0 && is_constant_where_known(self);
    return can;
}

/* Learn the rows of an array (k, m), which Python code has not checked, all or none: learn_many(X,
 * targets). Return whether that was possible. */
static PyObject *SingleRows_learn_many(SingleRows *self, PyObject *arrays)
{
    const sums_t *s = &self->sums;
    row_t *row = &self->row;
    Py_buffer found[2];
    real weights[ROWS_AT_ONCE];
    if (take_all(arrays, found, 2))
        return NULL;
    const Py_ssize_t k = s->m ? found[0].len / (s->m * (Py_ssize_t)sizeof(real)) : 0;
    const int can = self->marks && are_plain(self, found, k);
    for (Py_ssize_t i = 0; can && i < k; i++) {
        const Py_ssize_t column = load_row(self, found, found + 1, i), at = i % ROWS_AT_ONCE;
        if (self->counts)
            self->counts[column]++;
        prepare_sums(s, row, 1.0, 1.0);
        weights[at] = row->weight;
        memcpy(row->block + at * s->m, row->about, (size_t)s->m * sizeof(real));
        commit_all_but_gram(s, row, 1.0);
        if (at == ROWS_AT_ONCE - 1)
            add_squares(s->m, weights, row->block, s->panels->corner);
        else if (i == k - 1)
            for (Py_ssize_t j = 0; j <= at; j++)
                add_square(s->m, 1.0, weights[j], row->block + j * s->m, s->panels->corner);
    }
    if (can) {
        self->marks[PREDICTED_AT] = -HUGE_VAL;
        self->marks[VALID_UNTIL] = 0.0;
    }
    for (int i = 0; i < 2; i++)
        PyBuffer_Release(found + i);
    return PyBool_FromLong(can);
}

/* The next of the model's arrays, as memory to write to; NULL for None or if it does not fit. */
static void *next_array(SingleRows *self, Py_ssize_t size)
{
    PyObject *array = PyTuple_GetItem(self->arrays, self->n_buffers);
    if (!array || PyErr_Occurred())
        return NULL;
    self->n_buffers++;
    if (array == Py_None || take(array, self->buffers + self->n_buffers - 1, size))
        return NULL;
    return self->buffers[self->n_buffers - 1].buf;
}

static PyObject *SingleRows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *features, *targets, *labels, *label_types, *arrays;
    double decay, most, least_share, patience;
    int refines;
    if (!PyArg_ParseTuple(args, "OOOOO!ddddp", &features, &targets, &labels, &label_types, &PyTuple_Type,
                          &arrays, &decay, &most, &least_share, &patience, &refines))
        return NULL;
    SingleRows *self = (SingleRows *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(features);
    self->features = (Reader *)features;
    Py_INCREF(self->labels = labels);
    Py_INCREF(self->label_types = label_types);
    Py_INCREF(self->arrays = arrays);
    if (PyDict_CheckExact(targets)) {
        Py_INCREF(targets);
        self->columns = targets;
    } else if (targets != Py_None) {
        Py_INCREF(targets);
        self->targets = (Reader *)targets;
    }
    self->decay = decay;
    self->most = most;
    self->least_share = least_share;
    self->patience = patience;
    self->refines = refines;

    const Py_ssize_t n_arrays = PyTuple_Size(arrays), n_others = 16;
    sums_t *s = &self->sums;
    recursion_t *r = &self->recursion;
    row_t *row = &self->row;
    s->n_panels = (n_arrays - n_others) / 2;
    self->buffers = PyMem_Calloc(n_arrays + 1, sizeof(Py_buffer));
    s->panels = PyMem_Calloc(s->n_panels + 1, sizeof(panel_t));
    if (!self->buffers || !s->panels) {
        PyErr_NoMemory();
        goto failed;
    }
    row->values = next_array(self, -1);
    s->m = self->features->size;
    s->n = row->values ? self->buffers[0].len / (Py_ssize_t)sizeof(real) - s->m : 0;
    s->tally = next_array(self, 2);
    s->origin = next_array(self, s->m + s->n);
    s->offset = next_array(self, s->m + s->n);
    s->cross = next_array(self, s->m * s->n);
    s->squares = next_array(self, s->n);
    s->prints = next_array(self, 2 * (s->m + s->n));
    r->inverse = next_array(self, s->m * s->m);
    r->pending = next_array(self, s->m);
    r->weights = next_array(self, s->m * s->n);
    r->criterion = next_array(self, s->n);
    r->factors = next_array(self, N_FACTORS);
    r->penalties = next_array(self, s->m);
    self->marks = next_array(self, N_MARKS);
    self->counts = next_array(self, s->n);
    self->constants = next_array(self, s->m);
    for (Py_ssize_t i = 0, start = 0; i < s->n_panels && !PyErr_Occurred(); i++) {
        panel_t *panel = s->panels + i;
        panel->start = start;
        panel->above = next_array(self, -1);
        panel->corner = next_array(self, -1);
        const Py_ssize_t number = (Py_ssize_t)sizeof(real), corner = self->buffers[self->n_buffers - 1].len;
        while (panel->corner && panel->width * panel->width * number < corner)
            panel->width++;
        if (panel->width * panel->width * number != corner
            || start * panel->width * number != self->buffers[self->n_buffers - 2].len)
            PyErr_SetString(PyExc_ValueError, "a panel is not a block of columns");
        start += panel->width;
    }
    const panel_t *last = s->n_panels ? s->panels + s->n_panels - 1 : NULL;
    if (!PyErr_Occurred() && s->cross && (!last || last->start + last->width != s->m))
        PyErr_SetString(PyExc_ValueError, "the panels have other columns than the features");
    if (!PyErr_Occurred() && self->features->values != row->values)
        PyErr_SetString(PyExc_ValueError, "the features are read into other memory than the row");
    row->about = PyMem_Calloc(3 * (s->m + s->n) + ROWS_AT_ONCE * s->m + 1, sizeof(real));
    if (!row->about)
        PyErr_NoMemory();
    row->image = row->about + s->m + s->n;
    row->imaged = row->image + s->m;
    row->imaged_at = -1.0;
    row->block = row->imaged + s->m;
    row->scores = row->block + ROWS_AT_ONCE * s->m;
    row->errors = row->scores + s->n;
    if (!PyErr_Occurred())
        return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void SingleRows_dealloc(SingleRows *self)
{
    for (Py_ssize_t i = 0; i < self->n_buffers; i++)
        PyBuffer_Release(self->buffers + i);
    PyMem_Free(self->buffers);
    PyMem_Free(self->sums.panels);
    PyMem_Free(self->row.about);
    Py_XDECREF((PyObject *)self->features);
    Py_XDECREF((PyObject *)self->targets);
    Py_XDECREF(self->columns);
    Py_XDECREF(self->labels);
    Py_XDECREF(self->label_types);
    Py_XDECREF(self->arrays);
    release((PyObject *)self);
}

/* ---- The module -------------------------------------------------------------------------------- */

static PyMethodDef reader_methods[] = {
    {"row", (PyCFunction)Reader_row, METH_O, "Return the values of a dict as bytes; None if it is not known."},
    {NULL, NULL, 0, NULL}};

static PyMethodDef rows_methods[] = {
    {"label", (PyCFunction)SingleRows_label, METH_O, "Return the label of a dict with the highest score."},
    {"scores", (PyCFunction)SingleRows_scores, METH_O, "Return the scores of a dict, a list."},
    {"scores_of", (PyCFunction)SingleRows_scores_of, METH_O, "Return the scores of a checked row."},
    {"spread", (PyCFunction)SingleRows_spread, METH_O, "Return the scores, variances and degrees of freedom of a dict."},
    {"interval", (PyCFunction)(void (*)(void))SingleRows_interval, METH_FASTCALL,
     "Return the ends of intervals of a dict: interval(x, least, terms)."},
    {"learn", (PyCFunction)(void (*)(void))SingleRows_learn, METH_FASTCALL, "Learn a dict: learn(x, y, w)."},
    {"learn_loaded", (PyCFunction)SingleRows_learn_loaded, METH_VARARGS,
     "Learn the row that is loaded: learn_loaded(w, decay, is_restored)."},
    {"learn_many", (PyCFunction)SingleRows_learn_many, METH_VARARGS,
     "Learn the rows of an array: learn_many(X, targets); return whether that was possible."},
    {"plan_sample", (PyCFunction)SingleRows_plan_sample, METH_VARARGS,
     "Return calls for one C loop that learn a checked sample."},
    {"predict_learn", (PyCFunction)SingleRows_predict_learn, METH_VARARGS,
     "Predict rows, each before it is learnt: predict_learn(X, targets, w, scores)."},
    {NULL, NULL, 0, NULL}};

/* Add the pending product of a recursion: settle(inverse, pending, factors). */
static PyObject *settle_arrays(PyObject *module, PyObject *args)
{
    PyObject *arrays[3];
    Py_buffer found[3];
    Py_ssize_t n = 0, m;
    if (!PyArg_ParseTuple(args, "OOO", arrays, arrays + 1, arrays + 2))
        return NULL;
    while (n < 3 && !take(arrays[n], found + n, n == 2 ? N_FACTORS : -1))
        n++;
    m = n == 3 ? found[1].len / (Py_ssize_t)sizeof(real) : 0;
    real *scratch = PyMem_Calloc(m + 1, sizeof(real));
    if (scratch && n == 3 && found[0].len == m * found[1].len) {
        const recursion_t recursion = {found[0].buf, found[1].buf, NULL, NULL, NULL, found[2].buf};
        settle(m, &recursion, scratch);
    } else if (!PyErr_Occurred())
        PyErr_NoMemory();
    PyMem_Free(scratch);
    while (n-- > 0)
        PyBuffer_Release(found + n);
    return PyErr_Occurred() ? NULL : (Py_INCREF(Py_None), Py_None);
}

static PyMethodDef module_methods[] = {
    {"settle", settle_arrays, METH_VARARGS, "Add the pending product of a recursion to its inverse."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot reader_slots[] = {{Py_tp_new, Reader_new},
                                     {Py_tp_dealloc, Reader_dealloc},
                                     {Py_tp_methods, reader_methods},
                                     {0, NULL}};
static PyType_Slot rows_slots[] = {{Py_tp_new, SingleRows_new},
                                   {Py_tp_dealloc, SingleRows_dealloc},
                                   {Py_tp_methods, rows_methods},
                                   {0, NULL}};
static PyType_Spec reader_spec = {"onlinels.core._core.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT,
                                  reader_slots};
static PyType_Spec rows_spec = {"onlinels.core._core.SingleRows", sizeof(SingleRows), 0,
                                Py_TPFLAGS_DEFAULT, rows_slots};

static int add_types(PyObject *module)
{
    PyObject *reader = PyType_FromSpec(&reader_spec), *rows = PyType_FromSpec(&rows_spec);
    const int failed = !reader || !rows || PyModule_AddObjectRef(module, "Reader", reader)
                       || PyModule_AddObjectRef(module, "SingleRows", rows)
                       || PyModule_AddIntConstant(module, "LAYOUT", LAYOUT);
    Py_XDECREF(reader);
    Py_XDECREF(rows);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_types}, {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, module_methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module); }
