/* What is read for the core: numbers, arrays and dicts, into a row.
 *
 * A `Reader` reads dicts into a row. What it does not know it hands back by None: then Python code reads it. No
 * Python code runs inside a call: names and labels of other types than Python's and numpy's own, whose `__eq__`
 * might be Python code, are handed back.
 */
#ifndef ONLINELS_READING_H
#define ONLINELS_READING_H

#include <Python.h>
#include <math.h>
#include <string.h>

#include "recursion.h"

/* Sum of squares of values and targets up to which sums stay within float64; not NaN. */
#define MAX_SQUARES 1e150

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

/* Whether an object is of the type that has this function. */
static int has_dealloc(PyObject *object, void *dealloc)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == dealloc;
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

#endif
