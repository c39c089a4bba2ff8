/* `StreamRows` belongs to a stream model in one state, like `SingleRows` to a linear model: it reads, forecasts and
 * learns rows of known names in the model's own arrays. What it does not know it hands back by NotImplemented, with no
 * answer changed: then Python code reads the row, makes room for it, or answers in place of plain least squares. Its
 * caller holds the model's lock.
 *
 * A forecast waits for its label as an array of numbers. Python code keeps it, by the row. Only the forecast of the
 * last row waits here, and only while no others wait: labels that come at once need no search. */
#ifndef ONLINELS_STREAM_ROWS_H
#define ONLINELS_STREAM_ROWS_H

#include "experts.h"
#include "learning.h"

/* The numbers of a forecast. Of classes: these; the scaled features; the best classes of experts, and the scores of
 * their mixture, both of which are absent if no row was learnt. Of a number: the forecasts of experts; their mixture;
 * and what was known of earlier rows, with the features of the last one. It is empty if no row was learnt. */
enum { N_FEATURES, LABEL_BEFORE, IN_SCALE, N_BEST, N_HEAD };

/* Numbers of labels since these were looked at: see `Matches`. */
enum { N_LABELS, N_LOST, N_UNSURE, N_ASKED, N_STORED, WERE_LOST, WERE_UNSURE, N_COUNTS };
#define N_JUDGED_LABELS 500
#define MAX_CATEGORIES 64

typedef struct {
    PyObject_HEAD
    PyObject *args;        /* the arguments, which own the objects and memory below */
    PyObject *names;       /* dict: of every name a tuple: the column of its numbers, or -1; a dict of the columns of
                              its texts, or None; and a tuple of all its columns */
    PyObject *types;       /* frozenset: the types of numpy's numbers */
    PyObject *gap_rows;    /* dict: the row of `known` of every name that had a gap */
    PyObject *waiting;     /* dict: forecasts that Python code keeps until their labels come */
    PyObject *plain;       /* SingleRows of plain least squares; None if Python code makes room for them first */
    PyObject *outputs;     /* dict: the column of every label; None if targets are numbers */
    PyObject *labels;      /* tuple */
    PyObject *label_types; /* frozenset: types of labels that are compared without Python code */
    experts_t experts;
    stream_row_t row;
    Py_ssize_t m, n, size; /* numbers of features, of classes, 0 if targets are numbers, and of a forecast */
    double *numbers;       /* (N_STREAM_NUMBERS) */
    int64_t *counts;       /* (N_COUNTS) */
    real *scale;           /* (N_SCALE_PARTS, m) */
    double *n_scaled;      /* (1): number of rows of the scale */
    double *known;         /* (n_known, 2): rows up to the last gap of a name, and their weight */
    real *factors;         /* (m): from values to the units of plain least squares; 0 if there is no unit */
    real *pending;         /* (2 + m): the column or target of the last row, its weight, and its values in these units,
                              if plain least squares have learnt one row fewer than the model */
    const real *priors;    /* of all experts */
    real *errors, *losses; /* of all experts, and of scales of probabilities: see `judge` */
    const real *scales, *penalties; /* of probabilities */
    Py_ssize_t n_known, n_scales;
    numbers_t number;
    real *memory;          /* of rows: */
    real *values, *raw;    /* (m): as read, and in units of plain least squares */
    real *had_at;          /* (m): number of the last dict that had the column */
    real *inputs;          /* of the experts */
    real *scores;          /* of all experts of classes */
    real *forecast;        /* (size) */
    real *asked;           /* (size): the forecast of `sample` */
    real *lesson;          /* the errors of linear experts */
    real *past;            /* (N_LAGS + m): what was known of earlier rows when the row was forecast */
    int64_t *gaps;         /* (n_known): rows of `known` of the gaps in the row */
    Py_ssize_t n_gaps;
    double n_read;         /* number of dicts that were read */
    PyObject *sample;      /* a copy of the dict that was forecast last, until its label comes; or NULL */
    int is_scored;         /* whether the row of the experts is scored, with nothing learnt since */
    int knows_gaps;        /* whether every name of a gap in the row has a row of `known` */
    /* A row that is prepared to be learnt: its column or target, its weight, by how many rows its label is late, ... */
    real target;
    double w, delay;
    Py_ssize_t n_judged;   /* number of scores of the forecast that is judged; 0 if there is none */
    int is_new, is_scaled; /* whether its class is new, and whether the scale knows the row */
} StreamRows;

/* ---- Making ------------------------------------------------------------------------------------ */

/* Take the arrays of a model of classes or of numbers, and make room for rows. Return 0 with an exception if they
 * do not fit. */
static int take_stream(StreamRows *self, PyObject *experts, PyObject *arrays)
{
    experts_t *e = &self->experts;
    numbers_t *t = &self->number;
    if (!(self->memory = take_experts(e, &self->row, experts)))
        return 0;
    const int is_number = self->outputs == Py_None, by_rows = PyBUF_C_CONTIGUOUS;
    const Py_ssize_t m = self->m = PyObject_Size(PyTuple_GetItem(arrays, 5)), n = self->n = e->n;
    const Py_ssize_t n_scales = self->n_scales = is_number ? 0 : PyObject_Size(PyTuple_GetItem(arrays, 10));
    const Py_ssize_t n_known = self->n_known = PyObject_Size(PyTuple_GetItem(arrays, 4));
    const Py_ssize_t n_scores = e->n_scores, n_forecasts = n_scores + N_OTHERS;
    if (PyErr_Occurred())
        return 0;
    const SingleRows *plain = self->plain == Py_None ? NULL : (SingleRows *)self->plain;
    if ((plain && (plain->sums.m != m || plain->sums.n != (is_number ? 1 : n)))
        || e->m != (is_number ? 2 * m + N_LAGS : m) || is_number != (n == 0)
        || (is_number ? n_forecasts > MAX_FORECASTS : n_scores != N_LINEAR * n) || PyTuple_Size(self->labels) != n)
        return PyErr_Format(PyExc_ValueError, "experts of %zd features for rows of %zd", e->m, m) != NULL;
    const wanted_t of_all[] = {
        {&self->numbers, N_STREAM_NUMBERS, REALS, by_rows}, {&self->counts, N_COUNTS, INTEGERS, by_rows},
        {&self->scale, N_SCALE_PARTS * m, REALS, by_rows}, {&self->n_scaled, 1, REALS, by_rows},
        {&self->known, 2 * n_known, REALS, by_rows}, {&self->factors, m, REALS, by_rows},
        {&self->pending, m + 2, REALS, by_rows},
    };
    const wanted_t of_classes[] = {
        {&self->priors, N_EXPERTS, REALS, by_rows}, {&self->errors, N_EXPERTS, REALS, by_rows},
        {&self->losses, n_scales, REALS, by_rows}, {&self->scales, n_scales, REALS, by_rows},
        {&self->penalties, n_scales, REALS, by_rows},
    };
    const wanted_t of_numbers[] = {
        {&t->priors, n_forecasts, REALS, by_rows}, {&t->losses, n_forecasts, REALS, by_rows},
        {&t->targets, N_SCALE_PARTS * N_QUANTITIES, REALS, by_rows}, {&t->quantities, n_scores, INTEGERS, by_rows},
        {&t->past, N_LAGS + m, REALS, by_rows}, {&t->late, N_LAGS + m, REALS, by_rows},
    };
    if (!take_wanted(arrays, 0, 7, of_all)
        || !(is_number ? take_wanted(arrays, 7, 6, of_numbers) : take_wanted(arrays, 7, 5, of_classes)))
        return 0;
    t->numbers = self->numbers;
    self->size = is_number ? n_forecasts + 1 + N_LAGS + m : N_HEAD + m + N_EXPERTS + n;
    const Py_ssize_t sizes[] = {m, m, m, e->m, N_EXPERTS * n, self->size, self->size, n_scores, N_LAGS + m};
    real **places[] = {&self->values, &self->raw, &self->had_at, &self->inputs, &self->scores,
                       &self->forecast, &self->asked, &self->lesson, &self->past};
    Py_ssize_t size = n_known;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        size += sizes[i];
    real *left = self->values = PyMem_Calloc((size_t)size, sizeof(real));
    if (!left)
        return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); left += sizes[i], i++)
        *places[i] = left;
    self->gaps = (int64_t *)left;
    return 1;
}

static PyObject *StreamRows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"names", "types", "gap_rows", "waiting", "plain", "outputs", "labels", "label_types",
                            "experts", "arrays", NULL};
    StreamRows *self = (StreamRows *)PyType_GenericAlloc(type, 0);
    PyObject *experts, *arrays;
    if (self && PyArg_ParseTupleAndKeywords(args, kwargs, "$O!O!O!O!OOO!O!O!O!", names, &PyDict_Type, &self->names,
                                            &PyFrozenSet_Type, &self->types, &PyDict_Type, &self->gap_rows,
                                            &PyDict_Type, &self->waiting, &self->plain, &self->outputs, &PyTuple_Type, &self->labels,
                                            &PyFrozenSet_Type, &self->label_types, &PyTuple_Type, &experts,
                                            &PyTuple_Type, &arrays)) {
        if (!(self->plain == Py_None || has_dealloc(self->plain, (void *)SingleRows_dealloc))
            || !(self->outputs == Py_None || PyDict_CheckExact(self->outputs)))
            PyErr_SetString(PyExc_TypeError, "plain or outputs are of another type");
        else if (take_stream(self, experts, arrays)) {
            Py_INCREF(self->args = kwargs);
            return (PyObject *)self;
        }
    }
    Py_XDECREF((PyObject *)self);
    return NULL;
}

static void StreamRows_dealloc(StreamRows *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->sample); /* of names and numbers, which are in no cycle */
    PyMem_Free(self->values);
    PyMem_Free(self->memory);
    release((PyObject *)self);
}

/* ---- Reading ----------------------------------------------------------------------------------- */

/* A value of plain least squares, within its range. */
static real within_range(real x)
{
    return x > MAX_PLAIN_VALUE ? MAX_PLAIN_VALUE : x < -MAX_PLAIN_VALUE ? -MAX_PLAIN_VALUE : x;
}

/* Note the gap of a name, of which the place is known. Return 0 if Python code must. */
static int read_gap(StreamRows *self, PyObject *name, PyObject *place)
{
    PyObject *columns = PyTuple_GetItem(place, 2), *row = PyDict_GetItemWithError(self->gap_rows, name);
    const Py_ssize_t n = columns ? PyTuple_Size(columns) : -1, number = row ? PyLong_AsSsize_t(row) : -1;
    if (n < 0)
        return 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        const Py_ssize_t column = PyLong_AsSsize_t(PyTuple_GetItem(columns, i));
        if (column < 0 || column >= self->m)
            return 0;
        self->values[column] = NAN;
    }
    if (number < 0 || number >= self->n_known || self->n_gaps >= self->n_known)
        self->knows_gaps = 0;
    else
        self->gaps[self->n_gaps++] = number;
    return 1;
}

/* Read a value, of which the name is known. Return 0 if Python code must. */
static int read_value(StreamRows *self, PyObject *name, PyObject *place, PyObject *value)
{
    PyObject *first = PyTuple_GetItem(place, 0), *texts, *found;
    Py_ssize_t column = first ? PyLong_AsSsize_t(first) : -1;
    real number = 1.0;
    if (value == Py_None)
        return read_gap(self, name, place);
    if (PyUnicode_CheckExact(value)) {
        texts = PyTuple_GetItem(place, 1);
        if (column >= 0 || !texts || !PyDict_CheckExact(texts))
            return 0; /* A text among numbers is a gap, of which Python code warns. */
        if (!(found = PyDict_GetItemWithError(texts, value)))
            return PyDict_Size(texts) >= MAX_CATEGORIES;
        column = PyLong_AsSsize_t(found);
    } else if (!read_number(self->types, value, &number))
        return 0;
    if (number != number)
        return read_gap(self, name, place);
    if (column < 0 || column >= self->m || self->had_at[column] == self->n_read) /* two names of one feature */
        return 0;
    self->had_at[column] = self->n_read;
    self->values[column] = number;
    return 1;
}

/* Read a dict of known names: numbers, texts and gaps. Return 0 if Python code must. */
static int read_sample(StreamRows *self, PyObject *x)
{
    Py_ssize_t position = 0;
    PyObject *name, *value;
    memset(self->values, 0, (size_t)self->m * sizeof(real));
    self->n_read += 1.0;
    while (PyDict_Next(x, &position, &name, &value)) {
        const int is_plain_name = PyUnicode_CheckExact(name) || PyLong_CheckExact(name);
        PyObject *place = is_plain_name ? PyDict_GetItemWithError(self->names, name) : NULL;
        if (!place || !PyTuple_Check(place) || !read_value(self, name, place, value))
            return 0;
    }
    real squares = 0.0;
    for (Py_ssize_t i = 0; i < self->m; i++)
        squares += self->values[i] == self->values[i] ? self->values[i] * self->values[i] : 0.0;
    return squares <= MAX_SQUARES;
}

/* Take a row that Python code has read: its values (m), and a tuple of the rows of `known` of its gaps. Return 0 with an
 * exception if it does not fit. */
static int take_row(StreamRows *self, PyObject *row)
{
    const real *values = memory_of(row, 0, self->m, REALS, TO_READ);
    PyObject *gaps = PyTuple_GetItem(row, 1);
    const Py_ssize_t n = gaps && values ? PyTuple_Size(gaps) : -1;
    if (n < 0 || n > self->n_known)
        return 0;
    memcpy(self->values, values, (size_t)self->m * sizeof(real));
    for (; self->n_gaps < n; self->n_gaps++) {
        const Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GetItem(gaps, self->n_gaps));
        if (number < 0 || number >= self->n_known)
            return 0;
        self->gaps[self->n_gaps] = number;
    }
    return 1;
}

/* Read a dict, or take a row. Return 0 if Python code must read it. */
static int read_ordinary(StreamRows *self, PyObject *x)
{
    const Py_ssize_t m = self->m;
    self->n_gaps = 0;
    self->knows_gaps = 1;
    if (PyDict_CheckExact(x) ? !read_sample(self, x) : !PyTuple_CheckExact(x) || !take_row(self, x))
        return 0;
    for (Py_ssize_t i = 0; i < m; i++) {
        const real known = self->values[i], mean = self->scale[MEANS * m + i];
        self->raw[i] = within_range((known != known ? mean : known) * self->factors[i]);
    }
    return 1;
}

/* Read a label or a target, or take the column of a label. Return 0 if Python code must. */
static int read_answer(StreamRows *self, PyObject *y, int is_column, real *target)
{
    if (!self->n)
        return read_number(self->types, y, target) && *target * *target <= MAX_SQUARES * MAX_SQUARES;
    PyObject *found = is_column ? y : is_one_of(self->label_types, y) ? PyDict_GetItemWithError(self->outputs, y) : NULL;
    const Py_ssize_t column = found ? PyLong_AsSsize_t(found) : -1;
    *target = (real)column;
    return column >= 0 && column < self->n;
}

/* ---- Forecasting ------------------------------------------------------------------------------- */

/* The column of a label, from a number; -1 for none. */
static Py_ssize_t label_in(const StreamRows *self, double number)
{
    return number >= 0.0 && number < (double)self->n ? (Py_ssize_t)number : -1;
}

/* Whether plain least squares, which Python code may make room for first, have a row to learn. */
static int is_pending(const StreamRows *self)
{
    return self->plain == Py_None || ((SingleRows *)self->plain)->sums.tally[0] < self->numbers[ROWS_LEARNT];
}

/* Let plain least squares learn the row that they have not learnt, and score the row that is read. Return its scores,
 * or NULL if Python code must. */
static const real *score_plain(StreamRows *self)
{
    SingleRows *plain = (SingleRows *)self->plain;
    const Py_ssize_t m = self->m;
    if (self->plain == Py_None)
        return NULL;
    if (is_pending(self)) {
        memcpy(plain->row.values, self->pending + 2, (size_t)m * sizeof(real));
        if (self->n && !set_label(plain, label_in(self, self->pending[0])))
            return NULL;
        if (!self->n)
            plain->row.values[m] = self->pending[0];
        if (!is_plain(plain, (double)self->pending[1]))
            return NULL;
        learn_read(plain);
        memset(self->pending, 0, (size_t)(m + 2) * sizeof(real)); /* No row is kept once it is learnt. */
    }
    memcpy(plain->row.values, self->raw, (size_t)m * sizeof(real));
    return answer(plain, NULL) ? plain->row.scores : NULL;
}

/* Score the inputs after a label, unless they were scored just now. */
static void score_inputs(StreamRows *self, Py_ssize_t last)
{
    stream_row_t *row = &self->row;
    const size_t size = (size_t)self->experts.m * sizeof(real);
    if (self->is_scored && last == row->last && !memcmp(row->z, self->inputs, size))
        return;
    memcpy(row->z, self->inputs, size);
    row->last = last;
    score(&self->experts, row);
    self->is_scored = 1;
}

/* Where the best classes of experts, or their forecasts, stand in a forecast. */
static real *best_of(const StreamRows *self, real *forecast)
{
    return self->n ? forecast + N_HEAD + self->m : forecast;
}

/* Where the mixture of experts stands in a forecast. */
static real *mixture_of(const StreamRows *self, real *forecast)
{
    return best_of(self, forecast) + (self->n ? N_EXPERTS : self->experts.n_scores + N_OTHERS);
}

/* Mix what the experts say of the scored row, given the scores of plain least squares. */
static void mix_experts(StreamRows *self, const real *plain)
{
    const Py_ssize_t n = self->n, n_scores = self->experts.n_scores;
    real *best = best_of(self, self->forecast), *mixture = mixture_of(self, self->forecast);
    const double *numbers = self->numbers;
    if (n) {
        memcpy(self->scores, self->row.scores, (size_t)(n_scores + n) * sizeof(real));
        memcpy(self->scores + PLAIN * n, plain, (size_t)n * sizeof(real));
        mix(n, self->scores, self->priors, self->errors, LABEL_RATE * pace_of(numbers[DELAY]), best, mixture);
    } else
        *mixture = mix_forecasts(n_scores, &self->number, self->past, self->row.scores, *plain, best);
}

/* Forecast the row that is read. Return 0 if Python code must give the scores of plain least squares, or NULL. */
static int forecast_row(StreamRows *self, const real *plain)
{
    const Py_ssize_t m = self->m, last = label_in(self, self->numbers[LAST_LABEL]);
    const int is_late = self->numbers[DELAY] > 0.0;
    if (!(self->numbers[ROWS_LEARNT] > 0.0) || (!plain && !(plain = score_plain(self))))
        return 0;
    if (self->n) {
        const real head[N_HEAD] = {(real)m, (real)last, (real)is_late, N_EXPERTS};
        scale_row(m, self->scale, self->values, self->inputs);
        memcpy(self->forecast, head, sizeof(head));
        memcpy(self->forecast + N_HEAD, self->inputs, (size_t)m * sizeof(real));
    } else {
        memcpy(self->past, self->number.past, (size_t)(N_LAGS + m) * sizeof(real));
        see_changes(m, self->scale, &self->number, self->past, self->values, self->inputs);
        memcpy(mixture_of(self, self->forecast) + 1, self->past, (size_t)(N_LAGS + m) * sizeof(real));
    }
    score_inputs(self, self->n ? last : -1);
    mix_experts(self, plain);
    return 1;
}

/* Whether labels come at once, and numbers alone change before the next row. */
static int is_prompt(const StreamRows *self, int is_learning)
{
    return self->numbers[DELAY] == 0.0 && self->counts[N_LABELS] < N_JUDGED_LABELS - is_learning;
}

/* Whether a dict is the one that was forecast last. */
static int is_asked(const StreamRows *self, PyObject *x)
{
    return PyObject_RichCompareBool(self->sample, x, Py_EQ) == 1;
}

/* Forecast a dict, until its label comes. Return 0 if Python code must. */
static int ask(StreamRows *self, PyObject *x)
{
    /* The copy is made first, because garbage may be collected here, which runs Python code. */
    PyObject *sample = PyDict_CheckExact(x) && is_prompt(self, 0) ? PyDict_Copy(x) : NULL;
    if (!sample || !read_ordinary(self, sample)
        || !(self->sample ? is_asked(self, sample) : forecast_row(self, NULL))) {
        Py_XDECREF(sample); /* A forecast of another row that waits for its label is for Python code to store. */
        return 0;
    }
    self->counts[N_ASKED]++;
    if (self->sample) {
        Py_DECREF(sample);
        return 1;
    }
    self->counts[N_STORED]++;
    memcpy(self->asked, self->forecast, (size_t)self->size * sizeof(real));
    self->sample = sample;
    return 1;
}

static PyObject *StreamRows_scores(StreamRows *self, PyObject *x)
{
    return self->n && ask(self, x) ? list_of(self->n, mixture_of(self, self->asked)) : not_known();
}

static PyObject *StreamRows_label(StreamRows *self, PyObject *x)
{
    return self->n && ask(self, x) ? label_of(self->labels, self->n, mixture_of(self, self->asked)) : not_known();
}

/* The probability of every class, by label. */
static PyObject *StreamRows_probabilities(StreamRows *self, PyObject *x)
{
    if (!self->n || !PyDict_Size(self->outputs) || !ask(self, x))
        return not_known();
    memcpy(self->scores, mixture_of(self, self->asked), (size_t)self->n * sizeof(real));
    calibrate(self->n, self->scores, self->numbers[ROWS_LEARNT], self->n_scales, self->scales, self->losses,
              self->penalties);
    return by_name(self->labels, self->outputs, self->n, self->n, self->scores, NULL, NULL, NULL);
}

/* The mean and the standard deviation of a new target. */
static PyObject *StreamRows_normal(StreamRows *self, PyObject *x)
{
    return !self->n && ask(self, x) ? Py_BuildValue("dd", *mixture_of(self, self->asked), deviation_of(self->numbers))
                                    : not_known();
}

/* The dict that was predicted last, if its label has not come, and its forecast as bytes; or None. */
static PyObject *StreamRows_waits(StreamRows *self, PyObject *none)
{
    const Py_ssize_t size = self->size * (Py_ssize_t)sizeof(real);
    return self->sample ? Py_BuildValue("Oy#", self->sample, (char *)self->asked, size) : Py_NewRef(Py_None);
}

/* Leave the forecast of the last dict to Python code. */
static PyObject *StreamRows_forget(StreamRows *self, PyObject *none)
{
    Py_CLEAR(self->sample);
    Py_RETURN_NONE;
}

/* The scores of plain least squares that Python code gives; NULL if it gives None, or with an exception. */
static const real *given_scores(const StreamRows *self, PyObject *plain)
{
    return plain == Py_None ? NULL : memory_in(plain, self->n ? self->n : 1, REALS, TO_READ);
}

/* A call of a method, for one C loop: see `onlinels/core/apply.py`. */
static PyObject *planned_call(StreamRows *self, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name); /* types remember what they are asked for */
    PyObject *method = key ? PyObject_GetAttr((PyObject *)self, key) : NULL;
    Py_XDECREF(key);
    return method ? Py_BuildValue("((N))", method) : NULL;
}

/* Write the forecast of a row: forecast(x, out, plain), where x is a dict or a row that Python code has read, and plain
 * the scores of plain least squares or None. Return calls by which the scale learns the row if labels are late. */
static PyObject *StreamRows_forecast(StreamRows *self, PyObject *args)
{
    PyObject *x, *array, *given;
    real *out = NULL;
    const real *plain = NULL;
    if (PyArg_ParseTuple(args, "OOO", &x, &array, &given) && (out = memory_in(array, self->size, REALS, TO_WRITE)))
        plain = given_scores(self, given);
    if (PyErr_Occurred())
        return NULL;
    const int learns_scale = self->n && self->numbers[DELAY] > 0.0;
    if (!read_ordinary(self, x) || (learns_scale && !self->knows_gaps) || !forecast_row(self, plain))
        return not_known();
    memcpy(out, self->forecast, (size_t)self->size * sizeof(real));
    return learns_scale ? planned_call(self, "learn_scale") : PyTuple_New(0);
}

/* ---- Learning ---------------------------------------------------------------------------------- */

/* The errors of linear experts, of a class or of both quantities of a number. */
static void find_errors(StreamRows *self)
{
    const Py_ssize_t n_scores = self->experts.n_scores;
    const int is_first = self->numbers[ROWS_LEARNT] == 0.0;
    const real both[] = {self->target, is_first ? NAN : self->target - self->past[LATEST]};
    real scaled[N_QUANTITIES];
    if (!self->n)
        scale_row(N_QUANTITIES, self->number.targets, both, scaled);
    for (Py_ssize_t k = 0; k < n_scores; k++) {
        const real y = self->n ? (real)(k % self->n == (Py_ssize_t)self->target)
                               : scaled[quantity_of(&self->number, k)];
        self->lesson[k] = y - self->row.scores[k];
    }
}

/* Find the inputs of a row and the forecast that is judged, given its stored forecast of `size` numbers, if there is
 * one: of a class. Return 0 if the forecast does not fit, or Python code must give the scores of plain least squares. */
static int recall_class(StreamRows *self, real *stored, Py_ssize_t size, const real *plain)
{
    const Py_ssize_t m = self->m, n_features = size >= N_HEAD ? (Py_ssize_t)within(stored[N_FEATURES], (real)m) : 0;
    const Py_ssize_t n_best = size > N_HEAD + n_features && stored[N_BEST] == N_EXPERTS ? N_EXPERTS : 0;
    const Py_ssize_t n_judged = size - N_HEAD - n_features - n_best;
    Py_ssize_t last = label_in(self, self->delay > 0.0 ? -1.0 : self->numbers[LAST_LABEL]);
    scale_row(m, self->scale, self->values, self->inputs);
    self->is_scaled = 0;
    self->n_judged = self->is_new ? 0 : self->n;
    if (stored) {
        if (size < N_HEAD || n_judged < 0 || n_judged > self->n)
            return 0;
        memcpy(self->inputs, stored + N_HEAD, (size_t)n_features * sizeof(real));
        self->is_scaled = stored[IN_SCALE] != 0.0;
    }
    if (stored && n_best) {
        last = label_in(self, stored[LABEL_BEFORE]);
        self->n_judged = n_judged;
        memcpy(best_of(self, self->forecast), stored + N_HEAD + n_features, N_EXPERTS * sizeof(real));
        memcpy(mixture_of(self, self->forecast), stored + size - n_judged, (size_t)n_judged * sizeof(real));
    }
    score_inputs(self, last);
    if ((stored && n_best) || self->is_new) /* no expert could predict a new class */
        return plain || !is_pending(self) || score_plain(self);
    if (!plain && !(plain = score_plain(self)))
        return 0;
    mix_experts(self, plain);
    return 1;
}

/* The same of a number. */
static int recall_number(StreamRows *self, const real *stored, Py_ssize_t size, const real *plain)
{
    const Py_ssize_t m = self->m, n_all = self->experts.n_scores + N_OTHERS, n_known = size - n_all - 1 - N_LAGS;
    const int is_late = self->delay > 0.0, is_blank = !stored || !size;
    if (!is_blank && (n_known < 0 || n_known > m))
        return 0;
    /* Among late rows, a row without a forecast is as late as the row before: it may equal another row. */
    const real *past = is_late && !stored ? self->number.late : self->number.past;
    memcpy(self->past, past, (size_t)(N_LAGS + m) * sizeof(real));
    if (is_late && !is_blank) {
        memset(self->past, 0, (size_t)(N_LAGS + m) * sizeof(real));
        memcpy(self->past, stored + n_all + 1, (size_t)(N_LAGS + n_known) * sizeof(real));
    }
    see_changes(m, self->scale, &self->number, self->past, self->values, self->inputs);
    score_inputs(self, -1);
    /* A row of history is judged by the current forecast. */
    const int is_current = !is_late && (is_blank || n_known < m) && self->numbers[ROWS_LEARNT] > 0.0;
    self->n_judged = is_current || !is_blank ? n_all : 0;
    if (!is_blank)
        memcpy(self->forecast, stored, (size_t)(n_all + 1) * sizeof(real));
    if (!is_current)
        return plain || !is_pending(self) || score_plain(self);
    if (!plain && !(plain = score_plain(self)))
        return 0;
    mix_experts(self, plain);
    return 1;
}

/* Prepare to learn the row that is read, with a target or column and a weight. Return 0 if Python code must give the
 * scores of plain least squares or restore a ridge before, or if the row outweighs others too much. */
static int prepare_lesson(StreamRows *self, real *stored, Py_ssize_t size, const real *plain)
{
    const Py_ssize_t m = self->m;
    if (!(self->n ? recall_class(self, stored, size, plain) : recall_number(self, stored, size, plain))
        || !prepare_experts(&self->experts, self->w))
        return 0;
    find_errors(self);
    for (Py_ssize_t i = 0; i < m; i++) { /* A first value sets a unit. */
        const real known = self->values[i];
        if (self->factors[i] == 0.0 && known == known && known != 0.0)
            self->raw[i] = known / unit_of(known);
    }
    return 1;
}

/* Learn the scale of the row, and the weight of rows without a gap in its gaps: see `RunningScaler`. */
static void learn_scale_and_gaps(StreamRows *self)
{
    learn_scale(self->m, *self->n_scaled + 1.0, self->values, self->scale);
    for (Py_ssize_t i = 0; i < self->n_gaps; i++) {
        double *known = self->known + 2 * self->gaps[i];
        const double left = pow(SCALE_DECAY, *self->n_scaled - known[0]);
        known[1] = SCALE_DECAY * (known[1] * left + (1.0 - left) / (1.0 - SCALE_DECAY));
        known[0] = *self->n_scaled + 1.0;
    }
    *self->n_scaled += 1.0;
}

static PyObject *StreamRows_learn_scale(StreamRows *self, PyObject *none)
{
    learn_scale_and_gaps(self);
    Py_RETURN_NONE;
}

/* Learn the prepared row. */
static void learn_lesson(StreamRows *self)
{
    const Py_ssize_t m = self->m, column = self->n ? (Py_ssize_t)self->target : -1;
    const real *best = best_of(self, self->forecast), *mixture = mixture_of(self, self->forecast);
    const double pace = pace_of(self->delay), w = self->w;
    double *numbers = self->numbers;
    real target = self->target;
    learn_experts(&self->experts, &self->row, self->lesson, column, self->is_new, w);
    self->is_scored = 0;
    if (self->n && column < self->n_judged)
        judge(self->n_judged, self->n_scales, column, numbers[ROWS_LEARNT], w, best, mixture, self->scales,
              self->errors, self->losses);
    else if (self->n)
        for (ptrdiff_t i = 0; i < N_EXPERTS; i++)
            self->errors[i] *= ERROR_DECAY;
    else if (self->n_judged)
        judge_number(self->n_judged, &self->number, best, *mixture, self->target, w, pace);
    if (!self->n) {
        if (self->delay > 0.0)
            memcpy(self->number.late, self->past, (size_t)(N_LAGS + m) * sizeof(real));
        learn_number(m, &self->number, self->past, self->target, self->values);
        const double unit = numbers[TARGET_UNIT];
        target = within_range(self->target / (real)(unit != 0.0 ? unit : 1.0));
    }
    if (!self->is_scaled)
        learn_scale_and_gaps(self);
    for (Py_ssize_t i = 0; i < m; i++)
        if (self->factors[i] == 0.0 && self->values[i] == self->values[i] && self->values[i] != 0.0)
            self->factors[i] = 1.0 / unit_of(self->values[i]);
    self->pending[0] = target;
    self->pending[1] = (real)w;
    memcpy(self->pending + 2, self->raw, (size_t)m * sizeof(real));
    numbers[LAST_LABEL] = (double)column;
    numbers[DELAY] = self->delay;
    numbers[ROWS_LEARNT] += 1.0;
}

/* Read a row, its label or target and its weight. Return 0 if Python code must. */
static int read_lesson(StreamRows *self, PyObject *x, PyObject *y, PyObject *w)
{
    self->w = PyFloat_CheckExact(w) ? PyFloat_AsDouble(w) : -1.0;
    return self->w >= 0.0 && self->w <= MAX_ROW_WEIGHT && read_answer(self, y, PyTuple_CheckExact(x), &self->target)
           && read_ordinary(self, x) && self->knows_gaps;
}

/* Learn a dict, its label or target, and a weight, if the label comes at once: learn(x, y, w). */
static PyObject *StreamRows_learn(StreamRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 3)
        return PyErr_Format(PyExc_TypeError, "learn(x, y, w)");
    const int64_t count = (int64_t)within(self->numbers[ROWS_LEARNT], MAX_COUNTED);
    self->is_new = 0;
    self->delay = 0.0;
    /* At powers of 2 rows, Python code looks at texts. */
    if (!is_prompt(self, 1) || !(count & (count + 1)) || !PyDict_CheckExact(args[0])
        || !read_lesson(self, args[0], args[1], args[2]) || !(self->sample ? is_asked(self, args[0]) : PyDict_Size(self->waiting) == 0)
        || !prepare_lesson(self, self->sample ? self->asked : NULL, self->sample ? self->size : 0, NULL))
        return not_known();
    learn_lesson(self);
    self->counts[N_LABELS]++;
    Py_CLEAR(self->sample);
    Py_RETURN_NONE;
}

/* Return calls for one C loop that learn a row: plan(x, y, w, stored, delay, is_new, plain), where x is a dict, or a row
 * that Python code has read, with the column of its label; `stored` its forecast or None; `delay` by how many rows its
 * label is late; and plain the scores of plain least squares or None. */
static PyObject *StreamRows_plan(StreamRows *self, PyObject *args)
{
    PyObject *x, *y, *w, *array, *given;
    real *stored = NULL;
    const real *plain = NULL;
    Py_ssize_t size = 0;
    if (PyArg_ParseTuple(args, "OOOOdpO", &x, &y, &w, &array, &self->delay, &self->is_new, &given)) {
        plain = given_scores(self, given);
        size = array == Py_None ? 0 : PyObject_Size(array);
        if (array != Py_None && size >= 0 && !PyErr_Occurred())
            stored = memory_in(array, size, REALS, TO_READ);
    }
    if (PyErr_Occurred())
        return NULL;
    if (!read_lesson(self, x, y, w) || !prepare_lesson(self, stored, size, plain))
        return not_known();
    return planned_call(self, "learn_planned");
}

static PyObject *StreamRows_learn_planned(StreamRows *self, PyObject *none)
{
    learn_lesson(self);
    Py_RETURN_NONE;
}

#endif
