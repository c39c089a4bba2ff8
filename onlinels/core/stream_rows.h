/* `StreamRows` belongs to a stream model in one state, like `SingleRows` to a linear model: it reads, predicts and
 * learns rows of known names whose labels come at once, into the model's own arrays. What it does not know it hands
 * back by NotImplemented, with no answer changed: then Python code takes over what was asked and learnt here
 * (`told`), and these rows are closed. Its caller holds the model's lock. */
#ifndef ONLINELS_STREAM_ROWS_H
#define ONLINELS_STREAM_ROWS_H

#include "experts.h"
#include "learning.h"

typedef struct {
    PyObject_HEAD
    PyObject *args;        /* the arguments, which own the objects and memory below */
    PyObject *names;       /* dict: of every name a tuple: the column of its numbers, or -1; a dict of the columns of
                              its texts, or None; a tuple of all its columns; and its number */
    PyObject *types;       /* frozenset: the types of numpy's numbers */
    Experts *experts;
    SingleRows *plain;     /* plain least squares, which learns a row when the next one is predicted or learnt */
    PyObject *outputs;     /* dict: the column of every label; None if targets are numbers */
    PyObject *labels;      /* tuple */
    PyObject *label_types; /* frozenset: types of labels that are compared without Python code */
    Py_ssize_t m, n;       /* numbers of features, and of classes, 0 if targets are numbers */
    real *scale;           /* (N_SCALE_PARTS, m) */
    const real *factors;   /* (m): from values to the units of plain least squares; 0 if there is no unit */
    double limit;          /* sum of squares of the values up to which these need no limit in those units */
    const real *priors;    /* of all experts */
    real *errors, *losses; /* of all experts, and of scales of probabilities: see `judge` */
    const real *scales, *penalties; /* of probabilities */
    Py_ssize_t n_scales, last;
    double rate, count;    /* of the shares; of rows learnt */
    numbers_t number;
    real *numbers;         /* the memory of rows: */
    real *values, *raw;    /* (m): as read, and in units of plain least squares */
    real *pending;         /* (m): raw, of the row that plain least squares has not learnt, */
    real target, pending_w; /* its target or column, and its weight */
    real *had_at;          /* (m): number of the last dict that had the column */
    real *inputs;          /* of the experts */
    real *scores;          /* of all experts, or forecasts */
    real *best, *mixture;  /* classes (N_EXPERTS) and scores (n); of numbers, forecasts of all experts, and (1) */
    real *lesson;          /* the errors of linear experts */
    double *known;         /* (n_names, 2): rows up to the last gap of a name, NaN if it had none, and their weight */
    int64_t *gaps;         /* (n_names): numbers of the names of gaps in the row */
    Py_ssize_t n_names, n_gaps, n_most; /* `n_most`: number of texts of a name that have columns */
    double n_read, n_rows; /* numbers of dicts that were read, and of rows of the scale */
    PyObject *sample;      /* a copy of the dict that was predicted last, until its label comes; or NULL */
    Py_ssize_t left;       /* number of rows before the next one that Python code has to learn */
    Py_ssize_t n_learnt, n_asked, n_stored;
    int is_pending, waits, is_closed; /* `waits`: forecasts of other rows wait for their labels */
} StreamRows;

/* ---- Making ------------------------------------------------------------------------------------ */

/* Take the row that plain least squares has not learnt: its values (m), its column or target, and its weight. Return
 * 0 with an exception if it does not fit. */
static int take_pending(StreamRows *self, PyObject *pending)
{
    PyObject *array;
    double target, w;
    const real *values = NULL;
    if (PyArg_ParseTuple(pending, "Odd", &array, &target, &w))
        values = memory_in(array, self->m, REALS, TO_READ);
    if (!values)
        return 0;
    memcpy(self->pending, values, (size_t)self->m * sizeof(real));
    self->target = (real)target;
    self->pending_w = (real)w;
    return self->is_pending = 1;
}

/* Take the arrays of a model of classes or of numbers, and make room for rows. Return 0 with an exception if they
 * do not fit. */
static int take_stream(StreamRows *self, PyObject *scale, PyObject *known, PyObject *factors, PyObject *arrays,
                       PyObject *pending)
{
    const experts_t *e = &self->experts->experts;
    const Py_ssize_t m = self->m = self->plain->sums.m, n = self->n = e->n, n_scores = e->n_scores;
    const Py_ssize_t n_names = self->n_names = PyDict_Size(self->names);
    const Py_ssize_t n_scales = self->n_scales = PyObject_Size(PyTuple_GetItem(arrays, 2));
    const Py_ssize_t n_forecasts = n_scores + N_OTHERS;
    const int is_number = self->outputs == Py_None;
    numbers_t *t = &self->number;
    if (PyErr_Occurred())
        return 0;
    if (!m || self->plain->sums.n != (is_number ? 1 : n) || e->m != (is_number ? 2 * m + 2 : m)
        || is_number != (n == 0) || (is_number && n_forecasts > MAX_FORECASTS)
        || (!is_number && n_scores != N_LINEAR * n) || PyTuple_Size(self->labels) != n)
        return PyErr_Format(PyExc_ValueError, "experts of %zd features and plain ones of %zd", e->m, m) != NULL;
    const wanted_t of_classes[] = {
        {&self->priors, N_EXPERTS, REALS, PyBUF_C_CONTIGUOUS}, {&self->errors, N_EXPERTS, REALS, PyBUF_C_CONTIGUOUS},
        {&self->losses, n_scales, REALS, PyBUF_C_CONTIGUOUS}, {&self->scales, n_scales, REALS, PyBUF_C_CONTIGUOUS},
        {&self->penalties, n_scales, REALS, PyBUF_C_CONTIGUOUS},
    };
    const wanted_t of_numbers[] = {
        {&t->priors, n_forecasts, REALS, PyBUF_C_CONTIGUOUS}, {&t->losses, n_forecasts, REALS, PyBUF_C_CONTIGUOUS},
        {&t->targets, N_SCALE_PARTS * N_QUANTITIES, REALS, PyBUF_C_CONTIGUOUS},
        {&t->quantities, n_scores, INTEGERS, PyBUF_C_CONTIGUOUS}, {&t->row_before, m, REALS, PyBUF_C_CONTIGUOUS},
        {&t->row, m, REALS, PyBUF_C_CONTIGUOUS},
    };
    if (!(self->scale = memory_in(scale, N_SCALE_PARTS * m, REALS, TO_WRITE))
        || !(self->known = memory_in(known, 2 * n_names, REALS, TO_WRITE))
        || !(self->factors = memory_in(factors, m, REALS, TO_READ))
        || !(is_number ? take_wanted(arrays, 0, 6, of_numbers) : take_wanted(arrays, 0, 5, of_classes)))
        return 0;
    const Py_ssize_t n_all = is_number ? n_forecasts : N_EXPERTS * n, n_best = is_number ? n_forecasts : N_EXPERTS;
    const Py_ssize_t size = 4 * m + e->m + n_all + n_best + n + 1 + n_scores + n_names;
    real *left = self->numbers = PyMem_Calloc((size_t)size, sizeof(real));
    real **places[] = {&self->values, &self->raw, &self->pending, &self->had_at, &self->inputs,
                       &self->scores, &self->best, &self->mixture, &self->lesson};
    const Py_ssize_t sizes[] = {m, m, m, m, e->m, n_all, n_best, n + 1, n_scores};
    if (!left)
        return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); left += sizes[i], i++)
        *places[i] = left;
    self->gaps = (int64_t *)left;
    return pending == Py_None || take_pending(self, pending);
}

static PyObject *StreamRows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"names", "types", "experts", "plain", "outputs", "labels", "label_types", "scale",
                            "known", "factors", "arrays", "pending", "limit", "rate", "count", "n_rows", "last",
                            "left", "n_most", "waits", "numbers", NULL};
    StreamRows *self = (StreamRows *)PyType_GenericAlloc(type, 0);
    PyObject *scale, *known, *factors, *arrays, *pending;
    numbers_t t = {0};
    if (self && PyArg_ParseTupleAndKeywords(
            args, kwargs, "$O!O!OOOO!O!OOOO!Oddddnnnp(ddddddddd)", names, &PyDict_Type, &self->names,
            &PyFrozenSet_Type, &self->types, &self->experts, &self->plain, &self->outputs, &PyTuple_Type,
            &self->labels, &PyFrozenSet_Type, &self->label_types, &scale, &known, &factors, &PyTuple_Type, &arrays,
            &pending, &self->limit, &self->rate, &self->count, &self->n_rows, &self->last, &self->left,
            &self->n_most, &self->waits, &t.unit, &t.n_errors, &t.weight, &t.error, &t.width, &t.low, &t.high,
            &t.before, &t.last)) {
        t.rate = self->rate;
        self->number = t;
        if (!has_dealloc((PyObject *)self->experts, (void *)Experts_dealloc)
            || !has_dealloc((PyObject *)self->plain, (void *)SingleRows_dealloc)
            || !(self->outputs == Py_None || PyDict_CheckExact(self->outputs)))
            PyErr_SetString(PyExc_TypeError, "experts, plain or outputs are of another type");
        else if (take_stream(self, scale, known, factors, arrays, pending)) {
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
    PyMem_Free(self->numbers);
    release((PyObject *)self);
}

/* ---- Predicting -------------------------------------------------------------------------------- */

/* A value of plain least squares, within its range. */
static real within_range(real x)
{
    return x > MAX_PLAIN_VALUE ? MAX_PLAIN_VALUE : x < -MAX_PLAIN_VALUE ? -MAX_PLAIN_VALUE : x;
}

/* Note the gap of a name. Return 0 if Python code must. */
static int read_gap(StreamRows *self, PyObject *place)
{
    PyObject *columns = PyTuple_GetItem(place, 2), *last = PyTuple_GetItem(place, 3);
    const Py_ssize_t n = columns ? PyTuple_Size(columns) : -1, number = last ? PyLong_AsSsize_t(last) : -1;
    if (n < 0 || number < 0 || number >= self->n_names || self->n_gaps >= self->n_names)
        return 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        const Py_ssize_t column = PyLong_AsSsize_t(PyTuple_GetItem(columns, i));
        if (column < 0 || column >= self->m)
            return 0;
        self->values[column] = NAN;
    }
    self->gaps[self->n_gaps++] = number;
    return 1;
}

/* Read a value, of which the name is known. Return 0 if Python code must. */
static int read_value(StreamRows *self, PyObject *place, PyObject *value)
{
    PyObject *first = PyTuple_GetItem(place, 0), *texts, *found;
    Py_ssize_t column = first ? PyLong_AsSsize_t(first) : -1;
    real number = 1.0;
    if (value == Py_None)
        return read_gap(self, place);
    if (PyUnicode_CheckExact(value)) {
        texts = PyTuple_GetItem(place, 1);
        if (column >= 0 || !texts || !PyDict_CheckExact(texts))
            return 0; /* A text among numbers is a gap, of which Python code warns. */
        if (!(found = PyDict_GetItemWithError(texts, value)))
            return PyDict_Size(texts) >= self->n_most;
        column = PyLong_AsSsize_t(found);
    } else if (!read_number(self->types, value, &number))
        return 0;
    if (number != number)
        return read_gap(self, place);
    if (column < 0 || column >= self->m || self->had_at[column] == self->n_read) /* two names of one feature */
        return 0;
    self->had_at[column] = self->n_read;
    self->values[column] = number;
    return 1;
}

/* Read a dict of known names: numbers, texts and gaps. Return 0 if Python code must. */
static int read_ordinary(StreamRows *self, PyObject *x)
{
    const Py_ssize_t m = self->m;
    Py_ssize_t position = 0;
    PyObject *name, *value;
    real squares = 0.0;
    if (self->is_closed || !PyDict_CheckExact(x))
        return 0;
    memset(self->values, 0, (size_t)m * sizeof(real));
    self->n_gaps = 0;
    self->n_read += 1.0;
    while (PyDict_Next(x, &position, &name, &value)) {
        const int is_plain_name = PyUnicode_CheckExact(name) || PyLong_CheckExact(name);
        PyObject *place = is_plain_name ? PyDict_GetItemWithError(self->names, name) : NULL;
        if (!place || !PyTuple_Check(place) || !read_value(self, place, value))
            return 0;
    }
    for (Py_ssize_t i = 0; i < m; i++) {
        const real known = self->values[i], factor = self->factors[i], mean = self->scale[MEANS * m + i];
        const int is_gap = known != known;
        if (factor == 0.0 && known != 0.0 && !is_gap) /* its first value, which sets a unit */
            return 0;
        squares += is_gap ? 0.0 : known * known;
        self->raw[i] = within_range((is_gap ? mean : known) * factor);
    }
    return squares <= self->limit && squares <= MAX_SQUARES;
}

/* Whether a dict that is read is the one that was predicted last. */
static int is_asked(const StreamRows *self, PyObject *x)
{
    return PyObject_RichCompareBool(self->sample, x, Py_EQ) == 1;
}

/* Let plain least squares learn the row that it has not learnt, and score the row that is read. Return 0 if Python
 * code must. */
static int score_plain(StreamRows *self)
{
    SingleRows *plain = self->plain;
    const size_t size = (size_t)self->m * sizeof(real);
    if (self->is_pending) {
        memcpy(plain->row.values, self->pending, size);
        if (self->n && !set_label(plain, (Py_ssize_t)self->target))
            return 0;
        if (!self->n)
            plain->row.values[self->m] = self->target;
        if (!is_plain(plain, (double)self->pending_w))
            return 0;
        learn_read(plain);
        self->is_pending = 0;
    }
    memcpy(plain->row.values, self->raw, size);
    return answer(plain, NULL) != NULL;
}

/* Forecast the row that is read. Return 0 if Python code must. */
static int forecast(StreamRows *self)
{
    const Py_ssize_t m = self->m, n = self->n, n_scores = self->experts->experts.n_scores;
    const real *scores = self->experts->row.scores;
    if ((!n && !(self->number.n_errors > 0.0)) || !score_plain(self))
        return 0;
    if (n)
        scale_row(m, self->scale, self->values, self->inputs);
    else
        see_changes(m, self->scale, &self->number, self->values, self->inputs);
    score_scaled(self->experts, self->inputs, self->last);
    if (n) {
        memcpy(self->scores, scores, (size_t)(n_scores + n) * sizeof(real));
        memcpy(self->scores + PLAIN * n, self->plain->row.scores, (size_t)n * sizeof(real));
        mix(n, self->scores, self->priors, self->errors, self->rate, self->best, self->mixture);
    } else
        *self->mixture = mix_forecasts(n_scores, &self->number, scores, *self->plain->row.scores, self->best);
    return 1;
}

/* Forecast a dict, until its label comes. Return 0 if Python code must. */
static int ask(StreamRows *self, PyObject *x)
{
    /* The copy is made first, because garbage may be collected here, which runs Python code. */
    PyObject *sample = PyDict_CheckExact(x) ? PyDict_Copy(x) : NULL;
    if (!sample || !read_ordinary(self, sample) || !(self->sample ? is_asked(self, sample) : forecast(self))) {
        Py_XDECREF(sample); /* A forecast of another row that waits for its label is for Python code to store. */
        return 0;
    }
    self->n_asked++;
    if (self->sample) {
        Py_DECREF(sample);
        return 1;
    }
    self->sample = sample;
    return 1;
}

static PyObject *StreamRows_scores(StreamRows *self, PyObject *x)
{
    return self->n && ask(self, x) ? list_of(self->n, self->mixture) : not_known();
}

static PyObject *StreamRows_label(StreamRows *self, PyObject *x)
{
    return self->n && ask(self, x) ? label_of(self->labels, self->n, self->mixture) : not_known();
}

/* The probability of every class, by label. */
static PyObject *StreamRows_probabilities(StreamRows *self, PyObject *x)
{
    if (!self->n || !ask(self, x))
        return not_known();
    memcpy(self->scores, self->mixture, (size_t)self->n * sizeof(real));
    calibrate(self->n, self->scores, self->count, self->n_scales, self->scales, self->losses, self->penalties);
    return by_name(self->labels, self->outputs, self->n, self->n, self->scores, NULL, NULL, NULL);
}

/* The mean and the standard deviation of a new target. */
static PyObject *StreamRows_normal(StreamRows *self, PyObject *x)
{
    return !self->n && ask(self, x) ? Py_BuildValue("dd", *self->mixture, deviation_of(&self->number)) : not_known();
}

/* ---- Learning ---------------------------------------------------------------------------------- */

/* Read a label or a target. Return 0 if Python code must. */
static int read_answer(StreamRows *self, PyObject *y, real *target)
{
    if (!self->n)
        return self->number.unit != 0.0 && read_number(self->types, y, target)
               && *target * *target <= MAX_SQUARES;
    PyObject *found = is_one_of(self->label_types, y) ? PyDict_GetItemWithError(self->outputs, y) : NULL;
    const Py_ssize_t column = found ? PyLong_AsSsize_t(found) : -1;
    *target = (real)column;
    return column >= 0 && column < self->n;
}

/* The errors of linear experts, of a class or of both quantities of a number. */
static void find_errors(StreamRows *self, real target)
{
    const Py_ssize_t n_scores = self->experts->experts.n_scores;
    const real *scores = self->experts->row.scores;
    const real both[] = {target, (real)(target - self->number.last)};
    real scaled[N_QUANTITIES];
    if (!self->n)
        scale_row(N_QUANTITIES, self->number.targets, both, scaled);
    for (Py_ssize_t k = 0; k < n_scores; k++) {
        const real y = self->n ? (real)(k % self->n == (Py_ssize_t)target) : scaled[quantity_of(&self->number, k)];
        self->lesson[k] = y - scores[k];
    }
}

/* Whether every name of a gap in the row has had one: names are noted in the order of their first gaps. */
static int are_gaps_known(const StreamRows *self)
{
    for (Py_ssize_t i = 0; i < self->n_gaps; i++)
        if (!(self->known[2 * self->gaps[i]] >= 0.0))
            return 0;
    return 1;
}

/* Learn the scale of the row, and the weight of rows without a gap in its gaps: see `RunningScaler`. */
static void learn_scale_and_gaps(StreamRows *self)
{
    learn_scale(self->m, self->scale, self->values, self->scale);
    for (Py_ssize_t i = 0; i < self->n_gaps; i++) {
        double *known = self->known + 2 * self->gaps[i];
        const double left = pow(SCALE_DECAY, self->n_rows - known[0]);
        known[1] = SCALE_DECAY * (known[1] * left + (1.0 - left) / (1.0 - SCALE_DECAY));
        known[0] = self->n_rows + 1.0;
    }
    self->n_rows += 1.0;
}

/* Learn a dict, its label or target, and a weight: learn(x, y, w). */
static PyObject *StreamRows_learn(StreamRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 3)
        return PyErr_Format(PyExc_TypeError, "learn(x, y, w)");
    const double w = PyFloat_CheckExact(args[2]) ? PyFloat_AsDouble(args[2]) : 0.0;
    experts_t *e = &self->experts->experts;
    real target;
    if (!(w > 0.0 && w <= 1.0) || self->left <= 0 || !read_answer(self, args[1], &target)
        || !read_ordinary(self, args[0])
        || !are_gaps_known(self)
        || !(self->sample ? is_asked(self, args[0]) : !self->waits && forecast(self)))
        return not_known();
    score_scaled(self->experts, self->inputs, self->last);
    if (!prepare_experts(e, w))
        return not_known();
    find_errors(self, target);
    const Py_ssize_t column = self->n ? (Py_ssize_t)target : -1;
    learn_experts(e, &self->experts->row, self->lesson, column, 0, w);
    self->experts->is_scored = 0;
    if (self->n) {
        judge(self->n, self->n_scales, column, self->count, w, self->best, self->mixture, self->scales, self->errors,
              self->losses);
        self->target = target;
    } else {
        judge_number(e->n_scores + N_OTHERS, &self->number, self->best, *self->mixture, target, w, 1.0);
        self->target = within_range(target / (real)self->number.unit);
        learn_number(self->m, &self->number, target, self->values);
    }
    learn_scale_and_gaps(self);
    memcpy(self->pending, self->raw, (size_t)self->m * sizeof(real));
    self->pending_w = (real)w;
    self->is_pending = 1;
    self->last = column;
    self->count += 1.0;
    self->left--;
    self->n_learnt++;
    self->n_stored += self->sample != NULL;
    Py_CLEAR(self->sample);
    Py_RETURN_NONE;
}

/* Close these rows, and return what Python code does not know: numbers of rows learnt, of predictions, and of those
 * with a row of their own; the column of the last label; the row, target and weight that plain least squares has not
 * learnt, or None; what is known of gaps; the dict that was predicted last, its forecasts and mixture, or None; and
 * of numbers, those of `numbers_t`, and the last two rows. */
static PyObject *StreamRows_told(StreamRows *self, PyObject *none)
{
    const numbers_t *t = &self->number;
    const Py_ssize_t n_best = self->n ? N_EXPERTS : self->experts->experts.n_scores + N_OTHERS;
    self->is_closed = 1;
    PyObject *pending = self->is_pending ? Py_BuildValue("Ndd", list_of(self->m, self->pending),
                                                         (double)self->target, (double)self->pending_w)
                                         : Py_NewRef(Py_None);
    PyObject *asked = self->sample ? Py_BuildValue("ONN", self->sample, list_of(n_best, self->best),
                                                   list_of(self->n ? self->n : 1, self->mixture))
                                   : Py_NewRef(Py_None);
    PyObject *rows = self->n ? Py_NewRef(Py_None) : Py_BuildValue("NN", list_of(self->m, t->row_before),
                                                                  list_of(self->m, t->row));
    return Py_BuildValue("nnnnNNN(ddddddddd)N", self->n_learnt, self->n_asked, self->n_stored, self->last, pending,
                         list_of(2 * self->n_names, self->known), asked, t->unit, t->n_errors, t->weight,
                         t->error, t->width, t->low, t->high, t->before, t->last, rows);
}

static PyObject *StreamRows_count(StreamRows *self, PyObject *none) { return PyLong_FromSsize_t(self->n_learnt); }

#endif
