/* The heart in C, bound to CPython's limited API: rows of dicts and arrays, predicted and learnt.
 *
 * A `Reader` reads dicts into a row. `SingleRows` belongs to a model in one state: it holds the
 * model's own arrays as buffers, so that learning a row only writes to memory. What they do not know
 * they hand back with nothing changed, `SingleRows` by NotImplemented and `Reader.row` by None: then
 * Python code learns or refuses the row. Their caller holds the model's lock.
 *
 * No Python code runs inside a call: names and labels of other types than Python's and numpy's own,
 * whose `__eq__` might be Python code, are handed back. So no other thread, and no interrupt, comes
 * between the first look at a row and its last number.
 *
 * Models come from files of strangers. So objects and arrays are checked when they are taken, and a
 * number that is an index wherever it is used as one, whoever checked it before.
 */
#define Py_LIMITED_API 0x030B0000 /* CPython 3.11 and later, with one binary */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "Without the global interpreter lock, rows are learnt by onlinels/core/rows.py."
#endif

#include <math.h>

#include "recursion.h"
#include "stream.h"

/* The number of this file's arguments and arrays (see `onlinels/core/constants.py`). */
#define LAYOUT 13

/* Sum of squares of values and targets up to which sums stay within float64; not NaN. */
#define MAX_SQUARES 1e150
/* Degrees of freedom, relative to the weight of the rows, below which they count as 0. */
#define MIN_FREE 1e-9

/* What methods return for what Python code must handle. What reads for them returns 0 or -1, with or without
 * an exception. */
static PyObject *not_known(void)
{
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

/* ---- Reading ----------------------------------------------------------------------------------- */

typedef struct {
    PyObject *key;             /* the name at this place of the last dict, */
    Py_ssize_t column, length; /* its (first) column, and the length of its array, 0 for a number */
    PyObject *kind;            /* the type of the array, which is only compared */
    int64_t had_at;            /* number of the last dict that had the column of this place */
} place_t;

typedef struct {
    PyObject_HEAD
    PyObject *args;       /* the arguments, which own the next three */
    PyObject *columns;    /* dict: the column of every name that was met; the columns of an array's
                             name are (first, length), and its type if that is not array_type */
    PyObject *types;      /* frozenset: the types of numpy's numbers */
    PyObject *array_type; /* numpy.ndarray */
    Py_ssize_t size;      /* number of columns */
    place_t *places;      /* (size) */
    int64_t n_read;
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
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !is_one_of(types, value))
        return 0;
    *out = PyFloat_AsDouble(value);
    return *out != -1.0 || !PyErr_Occurred();
}

/* Return 1 if a value is an array of a type, of `length` numbers, and store them. */
static int read_array(const PyObject *kind, PyObject *value, Py_ssize_t length, real *out)
{
    Py_buffer buffer;
    if ((PyObject *)Py_TYPE(value) != kind
        || PyObject_GetBuffer(value, &buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS))
        return 0;
    const int is_float = !strcmp(buffer.format, "f"), is_known = is_float || !strcmp(buffer.format, "d");
    const int fits = is_known && buffer.ndim == 1 && buffer.len == length * buffer.itemsize;
    if (fits && !is_float)
        memcpy(out, buffer.buf, (size_t)buffer.len);
    for (Py_ssize_t i = 0; fits && is_float && i < length; i++) { /* An array may lie at any byte. */
        float number;
        memcpy(&number, (char *)buffer.buf + i * buffer.itemsize, sizeof(number));
        out[i] = number;
    }
    PyBuffer_Release(&buffer);
    return fits;
}

/* Find the columns of a name, and store both at a place. */
static int find_column(const Reader *self, PyObject *key, place_t *place)
{
    PyObject *old = place->key, *found = NULL, *kind = self->array_type;
    Py_ssize_t first = -1, length = 0;
    if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key))
        found = PyDict_GetItemWithError(self->columns, key);
    if (found && PyTuple_Check(found))
        PyArg_ParseTuple(found, "nn|O", &first, &length, &kind);
    else if (found)
        first = PyLong_AsSsize_t(found);
    if (first < 0 || length < 0 || length > self->size || first > self->size - (length ? length : 1))
        return 0;
    place->column = first;
    place->length = length;
    place->kind = kind;
    Py_INCREF(place->key = key);
    Py_XDECREF(old);
    return 1;
}

/* Read a dict of numbers by known names; columns without a name are 0. Return the number of names, or
 * -1 if Python code must read the dict. */
static Py_ssize_t read_dict(Reader *self, PyObject *x, real *out)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    place_t *place = self->places;
    if (!PyDict_CheckExact(x) || PyDict_Size(x) > self->size)
        return -1;
    self->n_read++;
    memset(out, 0, (size_t)self->size * sizeof(real));
    for (; PyDict_Next(x, &position, &key, &value); place++) {
        /* Most dicts have the same names in the same order: names are compared by identity first. */
        if (key != place->key && !find_column(self, key, place))
            return -1;
        int64_t *had_at = &self->places[place->column].had_at;
        if (*had_at == self->n_read) /* Two names of one feature. */
            return -1;
        *had_at = self->n_read;
        real *to = out + place->column;
        if (place->length ? PyDict_Size(x) > 1 || !read_array(place->kind, value, place->length, to)
                          : !read_number(self->types, value, to))
            return -1;
    }
    return dot(self->size, out, out) <= MAX_SQUARES ? place - self->places : -1;
}

static PyObject *Reader_row(Reader *self, PyObject *x)
{
    PyObject *row = PyBytes_FromStringAndSize(NULL, self->size * (Py_ssize_t)sizeof(real));
    if (!row || read_dict(self, x, (real *)PyBytes_AsString(row)) >= 0)
        return row;
    Py_DECREF(row);
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *Reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Reader *self = (Reader *)PyType_GenericAlloc(type, 0);
    if (self && PyArg_ParseTuple(args, "O!nO!O", &PyDict_Type, &self->columns, &self->size, &PyFrozenSet_Type,
                                 &self->types, &self->array_type)) {
        Py_INCREF(self->args = args);
        if (self->size < 0)
            PyErr_SetString(PyExc_ValueError, "the number of columns is below 0");
        else if ((self->places = PyMem_Calloc((size_t)self->size + 1, sizeof(place_t))))
            return (PyObject *)self;
        else
            PyErr_NoMemory();
    }
    Py_XDECREF((PyObject *)self);
    return NULL;
}

/* ---- Objects of the types of this file ---------------------------------------------------------- */

/* What they all begin with. They take part in garbage collection, because a label, a name or a target may
 * refer to its model. Like a tuple, they cannot be cleared: what they hold is older than they are, so that
 * every cycle has an object of another type, and memory that they write to stays as long as they live. */
typedef struct {
    PyObject_HEAD
    PyObject *args; /* the arguments, which own all other objects */
} object_t;

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((object_t *)self)->args);
    return 0;
}

static void release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((object_t *)self)->args);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static void Reader_dealloc(Reader *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; self->places && i < self->size; i++)
        Py_XDECREF(self->places[i].key); /* str or int, which are in no cycle */
    PyMem_Free(self->places);
    release((PyObject *)self);
}

static int is_reader(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)Reader_dealloc;
}

/* ---- Arrays ------------------------------------------------------------------------------------ */

/* Formats of the numbers of arrays, of 8 bytes each. */
#define REALS "d"
#define INTEGERS "lq"
#define HASHES "LQ"

/* The memory of an array, of `size` numbers of a format; NULL with an exception if it does not fit. An array of
 * numpy keeps its memory as long as it lives. */
static void *memory_in(PyObject *array, Py_ssize_t size, const char *formats, int flags)
{
    Py_buffer buffer;
    if (!array || PyObject_GetBuffer(array, &buffer, flags | PyBUF_FORMAT))
        return NULL;
    const Py_ssize_t n = buffer.len / (Py_ssize_t)sizeof(real);
    const char *format = buffer.format ? buffer.format : "B";
    const int is_known = buffer.itemsize == sizeof(real) && strchr(formats, format[0]) && format[0] && !format[1];
    void *memory = buffer.buf;
    PyBuffer_Release(&buffer);
    if (is_known && n == size)
        return memory;
    return PyErr_Format(PyExc_ValueError, "an array has %zd numbers%s, expected %zd", n,
                        is_known ? "" : " of another type", size);
}

/* The memory of array i of a tuple. */
static void *memory_of(PyObject *arrays, Py_ssize_t i, Py_ssize_t size, const char *formats, int flags)
{
    return memory_in(PyTuple_GetItem(arrays, i), size, formats, flags);
}
#define TO_READ PyBUF_C_CONTIGUOUS
#define TO_WRITE (PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE)

/* Add the pending product of a recursion by the pass that the next row would make, so that saving a model
 * changes no bit of its answers: settle(inverse, pending, factors, scratch). */
static PyObject *settle(PyObject *module, PyObject *arrays)
{
    const Py_ssize_t m = PyObject_Size(PyTuple_GetItem(arrays, 1)), sizes[] = {m * m, m, N_FACTORS, m};
    real *found[4];
    for (Py_ssize_t i = 0; i < 4; i++)
        if (m < 0 || !(found[i] = memory_of(arrays, i, sizes[i], REALS, TO_WRITE)))
            return NULL;
    const recursion_t recursion = {found[0], found[1], found[2], NULL, NULL, NULL};
    multiply(m, &recursion, recursion.pending, found[3]);
    Py_RETURN_NONE;
}

/* ---- A model ----------------------------------------------------------------------------------- */

/* Registers of a model, counts of rows for the most part: see constants.py. */
enum { PREDICTED_AT, VALID_UNTIL, NEXT_DUE, SHARE, DUE_WEIGHT, BEGAN, LEAST_ROWS, DOUBLES_AT, GROWTH, SCALED,
       N_REGISTERS };
#define DUE_TOLERANCE 1e-9
#define LEAST_DUE_SHARE 0.25
#define ROWS_SELECTED_ONE_BY_ONE 16.0
#define MAX_UNITS_GROWTH 4.1

typedef struct {
    PyObject_HEAD
    PyObject *args;        /* the arguments and arrays, which own the objects and memory below */
    Reader *features;
    PyObject *targets;     /* dict: the column of every label; Reader of named targets; or None */
    PyObject *labels;      /* tuple */
    PyObject *label_types; /* frozenset: types of labels that are compared without Python code */
    sums_t sums, inliers;  /* of all rows; of all but those that dwarf them, without columns if these are none */
    recursion_t recursion;
    row_t row, inlier;     /* the row, and the row about the mean of the inliers */
    real *numbers;         /* the memory of both rows */
    double *registers;
    double *counts;        /* (n): rows of every class; or NULL */
    real *constants;       /* (m): the only value of every feature, NaN if it varies; or NULL */
    double decay, most, least_share, patience;
    Py_ssize_t column;     /* of the label of the row */
    int learns;            /* whether rows may be learnt without other code */
    int refines;           /* whether the weights are corrected by the sums before they answer */
    int forgets;           /* whether the weights of rows decay */
} SingleRows;

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

/* Take the arrays of statistics for m features and n targets, by name. `nowhere` are m + n zeros. Return 0 with an
 * exception if they do not fit. */
static int take_sums(PyObject *kept, PyObject *statistics, Py_ssize_t m, Py_ssize_t n, real *nowhere, sums_t *s)
{
    PyObject *mean = kept_attribute(kept, statistics, "mean"), *panels;
    PyObject *row_arrays = kept_attribute(kept, kept_attribute(kept, statistics, "products"), "row_arrays");
    real *target_squares;
    Py_ssize_t start = 0;
    if (!mean || !row_arrays || !take(kept, statistics, "tally", 3, REALS, &s->tally)
        || !take(kept, statistics, "prints", 2 * (m + n), HASHES, &s->prints)
        || !take(kept, statistics, "squares_of_targets", n, REALS, &target_squares)
        || !(panels = kept_in(kept, PyObject_CallNoArgs(row_arrays))))
        return 0;
    s->m = m;
    s->n = n;
    s->origin = s->offset = nowhere;
    s->is_centred = mean != Py_None;
    if (s->is_centred && !(take(kept, mean, "origin", m + n, REALS, &s->origin)
                           && take(kept, mean, "offset", m + n, REALS, &s->offset)))
        return 0;
    const Py_ssize_t n_arrays = PyTuple_Size(panels); /* none if sums of this form learn no single rows */
    s->panels = PyMem_Calloc((size_t)n_arrays + 1, sizeof(panel_t));
    s->squares = PyMem_Calloc((size_t)(m + n) + 1, sizeof(real *));
    if (!s->panels || !s->squares)
        return PyErr_NoMemory() != NULL;
    s->cross = n_arrays ? memory_of(panels, 0, m * n, REALS, TO_WRITE) : NULL;
    for (Py_ssize_t i = 1; s->cross && i < n_arrays; i += 2) {
        const Py_ssize_t width = PyObject_Size(PyTuple_GetItem(panels, i + 1));
        real *above = memory_of(panels, i, start * width, REALS, TO_WRITE);
        real *corner = above ? memory_of(panels, i + 1, width * width, REALS, TO_WRITE) : NULL;
        if (!corner || start + width > m)
            break;
        s->panels[s->n_panels++] = (panel_t){start, width, above, corner};
        for (Py_ssize_t j = 0; j < width; j++)
            s->squares[start++] = corner + j * width + j;
    }
    if (s->cross && start != m && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the panels have other columns than the features");
    for (Py_ssize_t j = 0; j < n; j++)
        s->squares[m + j] = target_squares + j;
    return !PyErr_Occurred();
}

/* Take the arrays of a recursion, by name. Return 0 with an exception if they do not fit. */
static int take_recursion(PyObject *kept, PyObject *object, Py_ssize_t m, Py_ssize_t n, recursion_t *r)
{
    const struct {
        const char *name;
        Py_ssize_t size;
        void *place;
    } wanted[] = {{"inverse", m * m, &r->inverse}, {"pending", m, &r->pending}, {"weights", m * n, &r->weights},
                  {"criterion", n, &r->criterion}, {"factors", N_FACTORS, &r->factors},
                  {"full_penalties", m, &r->penalties}};
    int fits = 1;
    for (size_t i = 0; fits && i < sizeof(wanted) / sizeof(*wanted); i++)
        fits = take(kept, object, wanted[i].name, wanted[i].size, REALS, wanted[i].place);
    return fits;
}

/* Take the memory of an argument, an array or None. Return 0 with an exception if it does not fit. */
static int take_argument(PyObject *array, Py_ssize_t size, void *place)
{
    void *found = array == Py_None ? NULL : memory_in(array, size, REALS, TO_WRITE);
    memcpy(place, &found, sizeof(found));
    return found || array == Py_None;
}

/* Take the arrays of statistics of all rows and of inliers, of a recursion, and other arrays. Return 0 with an
 * exception if they do not fit. */
static int take_arrays(SingleRows *self, PyObject *kept, PyObject *const *given)
{
    const Py_ssize_t m = self->features->size, n = PyObject_Size(kept_attribute(kept, given[0], "squares_of_targets"));
    if (n < 0)
        return 0;
    const Py_ssize_t size = m + n;
    real *values = self->numbers = PyMem_Calloc((size_t)((ROWS_AT_ONCE + 5) * size) + 1, sizeof(real));
    if (!values)
        return PyErr_NoMemory() != NULL;
    real *nowhere = values + size, *about = nowhere + size, *image = about + ROWS_AT_ONCE * size;
    self->row = (row_t){.values = values, .about = about, .image = image, .imaged = image + m, .imaged_at = -1.0,
                        .scores = image + 2 * m, .errors = image + 2 * m + n};
    self->inlier = (row_t){.values = values, .about = image + 2 * size};
    return take_sums(kept, given[0], m, n, nowhere, &self->sums)
           && (given[1] == Py_None || take_sums(kept, given[1], m, n, nowhere, &self->inliers))
           && (given[2] == Py_None ? take_argument(given[3], m * n, &self->recursion.weights)
                                   : take_recursion(kept, given[2], m, n, &self->recursion))
           && (self->registers = memory_in(given[4], N_REGISTERS, REALS, TO_WRITE))
           && take_argument(given[5], n, &self->counts) && take_argument(given[6], m, &self->constants);
}

static PyObject *SingleRows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"features", "targets", "labels", "label_types", "whole", "inliers", "recursion",
                            "weights", "registers", "counts", "constants", "decay", "most", "least_share",
                            "patience", "learns", "refines", "forgets", NULL};
    SingleRows *self = (SingleRows *)PyType_GenericAlloc(type, 0);
    PyObject *a[7], *kept = PyList_New(0);
    if (self && kept
        && PyArg_ParseTupleAndKeywords(args, kwargs, "$OOO!O!OOOOOOOddddppp", names, &self->features,
                                       &self->targets, &PyTuple_Type, &self->labels, &PyFrozenSet_Type,
                                       &self->label_types, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6,
                                       &self->decay, &self->most, &self->least_share, &self->patience,
                                       &self->learns, &self->refines, &self->forgets)) {
        if (!is_reader((PyObject *)self->features)
            || !(self->targets == Py_None || PyDict_CheckExact(self->targets) || is_reader(self->targets)))
            PyErr_SetString(PyExc_TypeError, "features or targets are no reader");
        else if (!PyList_Append(kept, kwargs) && take_arrays(self, kept, a))
            self->args = PyList_AsTuple(kept);
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
        return reader->size == self->sums.n && read_dict(reader, y, targets) == self->sums.n;
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

/* ---- Predicting -------------------------------------------------------------------------------- */

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

/* ---- Learning ---------------------------------------------------------------------------------- */

/* Whether a choice of a ridge is due if all rows have this weight, and are far from equally weighted. */
static int is_weight_beyond(const SingleRows *self, double weight)
{
    const double due = self->registers[DUE_WEIGHT];
    return (due > 0.0 && weight >= due) || weight < LEAST_DUE_SHARE * due;
}

/* Whether k rows of weight w can be learnt here, for all that is known before they are read: no choice
 * of a ridge is due before the last of them. */
static int can_learn(const SingleRows *self, Py_ssize_t k, double w)
{
    return self->learns && self->sums.cross && w > 0.0 && w <= 1.0 && self->sums.tally[1] > 0.0
           && (double)k <= self->registers[NEXT_DUE] - self->sums.tally[0]
           && (k == 1 || !is_weight_beyond(self, self->sums.tally[1] + (double)(k - 1) * w));
}

/* Prepare to learn the row with a weight w, after a decay of all earlier weights. */
static void prepare_row(SingleRows *self, double w, double decay)
{
    prepare(&self->sums, &self->row, w, decay);
    if (self->inliers.m)
        prepare(&self->inliers, &self->inlier, w, decay);
}

/* Whether a row that is read can be learnt here: no feature begins to vary, its numbers stay within
 * float64, and it is not the first that dwarfs the others. Then it is prepared. */
static int is_plain(SingleRows *self, double w)
{
    const real *values = self->row.values;
    if (!can_learn(self, 1, w) || !is_constant_where_known(self)
        || !(dot(self->sums.m + self->sums.n, values, values) <= MAX_SQUARES))
        return 0;
    prepare_row(self, w, self->decay);
    return self->inliers.m || !dwarfs(&self->sums, &self->row);
}

/* Whether the units of the features, the roots of D / ridge, are about their deviations still. */
static int are_units_alike(const SingleRows *self)
{
    const sums_t *s = &self->sums;
    for (ptrdiff_t i = 0; i < s->m; i++) {
        const double now = *s->squares[i] / s->tally[1];
        const double then = self->recursion.penalties[i] / self->registers[SCALED];
        if (now != 0.0 && (now > MAX_UNITS_GROWTH * then || then > MAX_UNITS_GROWTH * now))
            return 0;
    }
    return 1;
}

/* Pass a checkpoint, if one is due, and the ridge is kept; otherwise, a choice is due. */
static void pass_checkpoint(SingleRows *self)
{
    double *registers = self->registers;
    const double count = self->sums.tally[0], weight = self->sums.tally[1], squared = self->sums.tally[2];
    /* The number of rows; of equally weighted rows, (sum w)^2 / sum w^2, if these are at most half as many */
    const double rows = count - registers[BEGAN], square = weight * weight;
    const double equal = 2.0 * square > rows * squared ? rows : floor(weight * (weight / (squared ? squared : 1.0)));
    if (equal < rows && is_weight_beyond(self, weight))
        registers[NEXT_DUE] = count;
    if (count != registers[NEXT_DUE])
        return;
    if (!(registers[GROWTH] > 0.0 && equal >= registers[LEAST_ROWS] && equal < registers[DOUBLES_AT])
        || !(self->recursion.inverse && count < registers[VALID_UNTIL]) || self->refines
        || (registers[SCALED] > 0.0 && !are_units_alike(self)))
        return;
    self->row.imaged_at = -1.0; /* The image serves as scratch memory. */
    if (is_accepted(&self->sums, &self->recursion, self->row.image)) {
        registers[NEXT_DUE] = count + (rows < ROWS_SELECTED_ONE_BY_ONE ? 1.0 : ceil(registers[GROWTH] * rows));
        registers[DUE_WEIGHT] = weight * (1.0 + registers[GROWTH]) * (1.0 - DUE_TOLERANCE);
    }
}

/* Learn the prepared row: into the sums, and into the weights if these follow rows. */
static void learn(SingleRows *self, int is_restored)
{
    double *registers = self->registers;
    const double count = self->sums.tally[0];
    /* Weights follow rows only while predictions keep coming. */
    const int follows = self->recursion.inverse && !is_restored && count < registers[VALID_UNTIL]
                        && (count == registers[PREDICTED_AT] || count + 1.0 - registers[PREDICTED_AT] <= self->patience)
                        && follow(&self->sums, &self->recursion, &self->row, self->most);
    if (self->recursion.inverse && !follows)
        registers[VALID_UNTIL] = 0.0;
    add_row(&self->sums, &self->row);
    if (self->inliers.m)
        (dwarfs(&self->inliers, &self->inlier) ? fade : add_row)(&self->inliers, &self->inlier);
    pass_checkpoint(self);
}

/* Learn a row that is read and prepared. */
static void learn_read(SingleRows *self)
{
    /* If the ridge decays with the rows, it is set to its full size again in the end. */
    const double share = self->registers[SHARE] * self->decay;
    const int is_restored = share < self->least_share;
    if (self->least_share > 0.0)
        self->registers[SHARE] = is_restored ? 1.0 : share;
    if (self->counts)
        self->counts[self->column] += 1.0;
    learn(self, is_restored);
}

static PyObject *SingleRows_learn(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 3)
        return PyErr_Format(PyExc_TypeError, "learn(x, y, w)");
    if (!PyFloat_CheckExact(args[2]) || read_dict(self->features, args[0], self->row.values) < 0
        || !read_target(self, args[1]) || !is_plain(self, PyFloat_AsDouble(args[2])))
        return not_known();
    learn_read(self);
    Py_RETURN_NONE;
}

/* Learn a row with its targets (m + n), which Python code has checked, after a decay of all earlier weights:
 * learn_checked(row, w, decay). */
static PyObject *SingleRows_learn_checked(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    const Py_ssize_t size = self->sums.m + self->sums.n;
    if (n_args != 3 || !self->sums.cross)
        return PyErr_Format(PyExc_ValueError, "learn_checked(row, w, decay), into sums of products");
    const double w = PyFloat_AsDouble(args[1]), decay = PyFloat_AsDouble(args[2]);
    const real *row = PyErr_Occurred() ? NULL : memory_in(args[0], size, REALS, TO_READ);
    if (!row)
        return NULL;
    memcpy(self->row.values, row, (size_t)size * sizeof(real));
    prepare_row(self, w, decay);
    learn(self, 0);
    Py_RETURN_NONE;
}

/* ---- Rows of arrays ---------------------------------------------------------------------------- */

/* The arrays of k rows: X (k, m), targets (k, n) or columns of labels (k,), w (k,), and scores (k, n), to
 * write. */
enum { X, TARGETS, W, SCORES, N_ARRAYS };

/* Take the first arrays of rows. Return k, or -1 with an exception. */
static Py_ssize_t take_rows(const SingleRows *self, PyObject *arrays, Py_ssize_t count, void **found)
{
    const Py_ssize_t n = self->sums.n, k = PyObject_Size(PyTuple_GetItem(arrays, X));
    const Py_ssize_t sizes[] = {k * self->sums.m, self->counts ? k : k * n, k, k * n};
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *formats = i == TARGETS && self->counts ? INTEGERS : REALS;
        if (k < 0 || !(found[i] = memory_of(arrays, i, sizes[i], formats, i == SCORES ? TO_WRITE : TO_READ)))
            return -1;
    }
    return k;
}

/* Load row k of arrays, and its targets: numbers, or those of its label. Return 0 if no target has the column
 * of the label. */
static int load_row(SingleRows *self, void *const *rows, Py_ssize_t k)
{
    const ptrdiff_t m = self->sums.m, n = self->sums.n;
    real *values = self->row.values;
    memcpy(values, (real *)rows[X] + k * m, (size_t)m * sizeof(real));
    if (self->counts)
        return set_label(self, (Py_ssize_t)((int64_t *)rows[TARGETS])[k]);
    memcpy(values + m, (real *)rows[TARGETS] + k * n, (size_t)n * sizeof(real));
    return 1;
}

/* Predict each row, then learn it, up to a row that Python code must learn: predict_learn(X, targets,
 * w, scores). Return the number of rows. */
static PyObject *SingleRows_predict_learn(SingleRows *self, PyObject *arrays)
{
    void *rows[N_ARRAYS];
    const Py_ssize_t n = self->sums.n, n_rows = take_rows(self, arrays, N_ARRAYS, rows);
    Py_ssize_t k = 0;
    if (n_rows < 0)
        return NULL;
    for (; k < n_rows; k++) {
        if (!load_row(self, rows, k) || !is_plain(self, ((double *)rows[W])[k]) || !answer(self, NULL))
            break;
        memcpy((real *)rows[SCORES] + k * n, self->row.scores, (size_t)n * sizeof(real));
        learn_read(self);
    }
    return PyLong_FromSsize_t(k);
}

/* Whether all k rows of arrays, each of weight 1, can be learnt here. */
static int are_plain(SingleRows *self, void *const *rows, Py_ssize_t k)
{
    const sums_t *s = &self->sums;
    const double total = dot(k * s->m, rows[X], rows[X]);
    const double of_targets = self->counts ? 1.0 : dot(k * s->n, rows[TARGETS], rows[TARGETS]);
    int can = can_learn(self, k, 1.0) && s->n_panels == 1 && self->decay == 1.0 && !self->inliers.m
              && s->tally[1] >= MIN_ROWS_DWARFED && total <= MAX_SQUARES && of_targets <= MAX_SQUARES;
    for (ptrdiff_t i = 0; i < s->m + s->n; i++) /* No row is farther from the mean than this one. */
        self->row.values[i] = sqrt(i < s->m ? total : of_targets) + 2.0 * fabs(mean_of(s, i));
    prepare(s, &self->row, 1.0, 1.0);
    const int are_far = can && dwarfs(s, &self->row);
    for (Py_ssize_t i = 0; can && (self->constants || self->counts || are_far) && i < k; i++) {
        can = load_row(self, rows, i) && is_constant_where_known(self);
        prepare(s, &self->row, 1.0, 1.0);
        can = can && !(are_far && dwarfs(s, &self->row));
    }
    return can;
}

/* Learn the rows of an array, which Python code has not checked, all or none: learn_many(X, targets). Return
 * whether that was possible. */
static PyObject *SingleRows_learn_many(SingleRows *self, PyObject *arrays)
{
    const ptrdiff_t m = self->sums.m, size = m + self->sums.n;
    sums_t others = self->sums; /* all but A'A, to which some rows are added at once */
    row_t row = self->row;
    real weights[ROWS_AT_ONCE] = {0};
    void *rows[N_ARRAYS];
    const Py_ssize_t k = take_rows(self, arrays, W, rows);
    if (k < 0)
        return NULL;
    const int can = are_plain(self, rows, k);
    others.n_panels = 0;
    for (Py_ssize_t i = 0; can && i < k; i++) {
        const Py_ssize_t at = i % ROWS_AT_ONCE;
        row.about = self->row.about + at * size;
        if (load_row(self, rows, i) && self->counts)
            self->counts[self->column] += 1.0;
        prepare(&others, &row, 1.0, 1.0);
        add_row(&others, &row);
        weights[at] = row.weight;
        if (at == ROWS_AT_ONCE - 1 || i == k - 1) {
            add_squares(m, size, weights, self->row.about, self->sums.panels->corner);
            memset(weights, 0, sizeof(weights));
        }
        self->registers[PREDICTED_AT] = -HUGE_VAL; /* The weights do not follow. */
        self->registers[VALID_UNTIL] = 0.0;
    }
    if (can)
        pass_checkpoint(self);
    return PyBool_FromLong(can);
}

/* ---- Streams ------------------------------------------------------------------------------------ */

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

/* Score a row of scaled features after a label: scores(features, last, out). */
static PyObject *Experts_scores(Experts *self, PyObject *args)
{
    const experts_t *e = &self->experts;
    stream_row_t *row = &self->row;
    const Py_ssize_t last = PyLong_AsSsize_t(PyTuple_GetItem(args, 1));
    real *z = PyErr_Occurred() ? NULL : memory_of(args, 0, e->m, REALS, TO_READ);
    const Py_ssize_t n = e->n_scores + e->n;
    real *out = z ? memory_of(args, 2, n, REALS, TO_WRITE) : NULL;
    if (!out)
        return NULL;
    const size_t size = (size_t)e->m * sizeof(real);
    if (!self->is_scored || last != row->last || memcmp(row->z, z, size)) {
        memcpy(row->z, z, size);
        row->last = last;
        score(e, row);
        self->is_scored = 1;
    }
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

/* ---- The module -------------------------------------------------------------------------------- */

/* What methods do stands at their functions, and in `onlinels/core/rows.py` and `reference.py`. */
static PyMethodDef reader_methods[] = {{"row", (PyCFunction)Reader_row, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyMethodDef rows_methods[] = {
    {"label", (PyCFunction)SingleRows_label, METH_O, NULL},
    {"scores", (PyCFunction)SingleRows_scores, METH_O, NULL},
    {"scores_of", (PyCFunction)SingleRows_scores_of, METH_O, NULL},
    {"spread", (PyCFunction)SingleRows_spread, METH_O, NULL},
    {"interval", (PyCFunction)(void (*)(void))SingleRows_interval, METH_FASTCALL, NULL},
    {"learn", (PyCFunction)(void (*)(void))SingleRows_learn, METH_FASTCALL, NULL},
    {"learn_checked", (PyCFunction)(void (*)(void))SingleRows_learn_checked, METH_FASTCALL, NULL},
    {"learn_many", (PyCFunction)SingleRows_learn_many, METH_VARARGS, NULL},
    {"predict_learn", (PyCFunction)SingleRows_predict_learn, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyMethodDef experts_methods[] = {
    {"scores", (PyCFunction)Experts_scores, METH_VARARGS, NULL},
    {"prepare", (PyCFunction)Experts_prepare, METH_O, NULL},
    {"learn", (PyCFunction)Experts_learn, METH_VARARGS, NULL},
    {"plan", Experts_plan, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyMethodDef module_methods[] = {
    {"settle", settle, METH_VARARGS, NULL},
    {"scale", scale, METH_VARARGS, NULL},
    {"scale_after", scale_after, METH_VARARGS, NULL},
    {"mix_scores", mix_scores, METH_VARARGS, NULL},
    {"judge_row", judge_row, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC)
#define SLOTS(kind, methods)                                                                                  \
    {                                                                                                         \
        {Py_tp_new, kind##_new}, {Py_tp_dealloc, kind##_dealloc}, {Py_tp_traverse, traverse},                 \
            {Py_tp_methods, methods}, {0, NULL}                                                               \
    }
static PyType_Slot reader_slots[] = SLOTS(Reader, reader_methods);
static PyType_Slot rows_slots[] = SLOTS(SingleRows, rows_methods);
static PyType_Slot experts_slots[] = SLOTS(Experts, experts_methods);
static PyType_Spec experts_spec = {"onlinels.core._core.Experts", sizeof(Experts), 0, FLAGS, experts_slots};
static PyType_Spec reader_spec = {"onlinels.core._core.Reader", sizeof(Reader), 0, FLAGS, reader_slots};
static PyType_Spec rows_spec = {"onlinels.core._core.SingleRows", sizeof(SingleRows), 0, FLAGS, rows_slots};

static int add_types(PyObject *module)
{
    const int failed = PyModule_AddObject(module, "Reader", PyType_FromSpec(&reader_spec))
                       || PyModule_AddObject(module, "SingleRows", PyType_FromSpec(&rows_spec))
                       || PyModule_AddObject(module, "Experts", PyType_FromSpec(&experts_spec))
                       || PyModule_AddIntConstant(module, "LAYOUT", LAYOUT);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_types}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", NULL, 0, module_methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module); }
