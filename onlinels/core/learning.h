/* Rows that a model learns: from dicts one by one, and from arrays. */
#ifndef ONLINELS_LEARNING_H
#define ONLINELS_LEARNING_H

#include "answers.h"

/* Whether rows of weight w can be learnt here, for all that is known before they are read. */
static int can_learn(const SingleRows *self, double w)
{
    /* The first row is learnt too, but none after rows without a weight. */
    return self->learns && self->sums.cross && w > 0.0 && w <= MAX_SQUARES
           && (self->sums.tally[1] > 0.0 || self->sums.tally[0] == 0.0);
}

/* Whether no choice of a ridge is due before the last of k rows of weight w. One that is due before the first is made
 * here: this comes after everything else is checked. */
static int is_undue(SingleRows *self, Py_ssize_t k, double w)
{
    return is_chosen(self) && (double)k <= self->registers[NEXT_DUE] - self->sums.tally[0]
           && (k == 1 || !is_weight_beyond(self, self->sums.tally[1] + (double)(k - 1) * w));
}

/* ---- The time of a row ------------------------------------------------------------------------- */

/* The time from one to another, each in two parts (see constants.py): rounded once. */
static double elapsed(const double *later, const double *earlier)
{
    return (later[0] - earlier[0]) + (later[1] - earlier[1]);
}

/* Find, by the time of the row and that of all earlier ones, the decay of earlier weights, or the weight of a late row,
 * which is what it would be if it had come in time. Return 0 if Python code must: where the hands cannot tell the time,
 * and for gaps of so many half-lives that it may warn. */
static int pass_time(SingleRows *self, const double *before, double *w)
{
    self->passed = elapsed(self->time, before);
    /* What was learnt before there was a time is as old as the row. */
    const double half_lives = before[0] == -HUGE_VAL ? 0.0 : self->passed / self->hands[HALF_LIFE];
    if (!(fabs(half_lives) <= MAX_HALF_LIVES && fabs(self->time[0]) < MAX_TIME))
        return 0;
    self->decay = half_lives > 0.0 ? exp2(-half_lives) : 1.0;
    *w *= half_lives < 0.0 ? exp2(half_lives) : 1.0;
    return 1;
}

/* Let one unit pass. */
static int count_time(SingleRows *self, double *w)
{
    const double start[2] = {0.0, 0.0}, *before = self->hands[NOW] == -HUGE_VAL ? start : self->hands + NOW;
    self->time[0] = before[0] + 1.0;
    self->time[1] = 0.0;
    return !self->counts_dates && fabs(before[0]) + 1.0 < MAX_COUNTED && pass_time(self, before, w);
}

/* An attribute of a duration, a small whole number. */
static int64_t whole_of(PyObject *duration, PyObject *name)
{
    PyObject *found = duration ? PyObject_GetAttr(duration, name) : NULL;
    const int64_t number = found ? PyLong_AsLongLong(found) : 0;
    Py_XDECREF(found);
    return number;
}

/* Read a date in nanoseconds since 1970: an int, or a datetime of Python, in UTC or without a time zone, of which no
 * other code is asked. Return 0 if Python code must. */
static int read_date(PyObject *by, PyObject *t, int64_t *count)
{
    PyObject *epoch = PyTuple_GetItem(by, NAIVE_EPOCH);
    if (PyLong_CheckExact(t)) {
        *count = PyLong_AsLongLong(t);
        return !PyErr_Occurred();
    }
    PyObject *zone = Py_TYPE(t) == Py_TYPE(epoch) ? PyObject_GetAttr(t, PyTuple_GetItem(by, TZINFO)) : NULL;
    if (!zone || !(zone == Py_None || zone == PyTuple_GetItem(by, UTC))) {
        Py_XDECREF(zone);
        return 0;
    }
    PyObject *since = PyNumber_Subtract(t, zone == Py_None ? epoch : PyTuple_GetItem(by, EPOCH));
    const int64_t days = whole_of(since, PyTuple_GetItem(by, DAYS));
    const int64_t seconds = 86400 * days + whole_of(since, PyTuple_GetItem(by, SECONDS));
    const int64_t microseconds = whole_of(since, PyTuple_GetItem(by, MICROSECONDS));
    Py_XDECREF(since);
    Py_DECREF(zone);
    if (PyErr_Occurred() || !(fabs((double)seconds) < MAX_TIME * 1e-9))
        return 0;
    *count = (seconds * 1000000 + microseconds) * 1000;
    return 1;
}

/* Read the time of the row: a number, or a date; or None, by which one unit passes. */
static int take_time(SingleRows *self, PyObject *t, double *w)
{
    if (!self->hands)
        return 1;
    if (t == Py_None)
        return count_time(self, w);
    double *time = self->time;
    int64_t count;
    time[1] = 0.0;
    if (self->counts_dates) {
        if (!read_date(self->dates, t, &count))
            return 0;
        time[1] = (double)(count & 0xFFFFFFFF);
        time[0] = (double)(count - (count & 0xFFFFFFFF));
        return pass_time(self, self->hands + NOW, w);
    }
    if (!(PyFloat_CheckExact(t) || PyLong_CheckExact(t)))
        return 0;
    time[0] = PyFloat_AsDouble(t);
    /* Float64 need not hold an int beyond. */
    const int is_exact = !(PyLong_CheckExact(t) && !(fabs(time[0]) < MAX_COUNTED)) && !PyErr_Occurred();
    return is_exact && pass_time(self, self->hands + NOW, w);
}

/* Let the clock pass the time of the row, which is learnt next: then a choice of the ridge may be due. */
static void move_clock(SingleRows *self, int is_timed)
{
    double *hands = self->hands;
    if (!hands)
        return;
    if (self->passed > 0.0)
        memcpy(hands + NOW, self->time, sizeof(self->time));
    if (is_timed)
        hands[TIMED] = 1.0;
    if (elapsed(hands + NOW, hands + UNTIL) >= 0.0)
        self->registers[NEXT_DUE] = self->sums.tally[0] + 1.0;
}

/* ---- Rows -------------------------------------------------------------------------------------- */

/* Prepare to learn the row with a weight w, after a decay of all earlier weights. */
static void prepare_row(SingleRows *self, double w, double decay)
{
    prepare(&self->sums, &self->row, w, decay);
    if (self->inliers.m)
        prepare(&self->inliers, &self->inlier, w, decay);
}

/* Whether the row is the first, about which rows are centred, so that no feature varies in it. */
static int is_first(const SingleRows *self) { return self->sums.tally[0] == 0.0 && self->sums.is_centred; }

/* Whether a row that is read can be learnt here: its numbers stay within float64, and it is not the first that dwarfs
 * the others. Then it is prepared, and a choice that is due is made. */
static int is_plain(SingleRows *self, double w)
{
    const real *values = self->row.values;
    if (!can_learn(self, w)
        || !((w > 1.0 ? w : 1.0) * dot(self->sums.m + self->sums.n, values, values) <= MAX_SQUARES))
        return 0;
    prepare_row(self, w, self->decay);
    return (self->inliers.m || !dwarfs(&self->sums, &self->row)) && is_undue(self, 1, w);
}

/* Learn the prepared row: into the sums, and into the weights if these follow rows. */
static void learn(SingleRows *self, int is_restored)
{
    double *registers = self->registers;
    const double count = self->sums.tally[0];
    /* Weights follow rows only while predictions keep coming. */
    const int follows = self->recursion.inverse && !is_restored && count < registers[VALID_UNTIL]
                        && (count == registers[PREDICTED_AT] || count + 1.0 - registers[PREDICTED_AT] <= self->patience)
                        && follow(&self->sums, &self->recursion, &self->row, MAX_RUNNING_LEVERAGE);
    if (!follows)
        registers[VALID_UNTIL] = 0.0;
    add_row(&self->sums, &self->row);
    if (self->inliers.m)
        (dwarfs(&self->inliers, &self->inlier) ? fade : add_row)(&self->inliers, &self->inlier);
    pass_checkpoint(self);
}

/* Learn a row that is read and prepared. */
static void learn_read(SingleRows *self)
{
    /* If the ridge decays with the rows, it is set to its full size again in the end. An empty past does not
     * decay. */
    const double share = self->registers[SHARE] * (self->sums.tally[1] > 0.0 ? self->decay : 1.0);
    const int is_restored = share < self->least_share;
    if (self->least_share > 0.0)
        self->registers[SHARE] = is_restored ? 1.0 : share;
    if (self->counts)
        self->counts[self->column] += 1.0;
    if (self->constants && is_first(self))
        memcpy(self->constants, self->row.values, (size_t)self->sums.m * sizeof(real));
    else if (self->constants)
        note_changes(self);
    learn(self, is_restored);
}

/* Add the losses of the label of a row that is read, for each scale, by its scores before it is learnt. Return 0 if
 * Python code must. */
static int add_losses_of_row(SingleRows *self, double w, PyObject *scales, PyObject *losses)
{
    const Py_ssize_t size = PyObject_Size(scales);
    const double *of_scales = memory_in(scales, size, REALS, TO_READ);
    double *sums = of_scales ? memory_in(losses, size, REALS, TO_WRITE) : NULL;
    if (!sums || !self->counts || !score_row(self, NULL))
        return 0;
    add_losses(self->sums.n, self->row.scores, self->column, w, self->sums.tally[0], size, of_scales, sums);
    return 1;
}

/* Learn a dict: learn(x, y, w, t), where the time t is a number, a date or None; or, after the losses of its label are
 * added for each scale, learn(x, y, w, t, scales, losses). */
static PyObject *SingleRows_learn(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 4 && n_args != 6)
        return PyErr_Format(PyExc_TypeError, "learn(x, y, w, t) or learn(x, y, w, t, scales, losses)");
    const int is_number = PyFloat_CheckExact(args[2]) || PyLong_CheckExact(args[2]);
    const double given = is_number ? PyFloat_AsDouble(args[2]) : 0.0;
    double w = given;
    if (!(w > 0.0) || !take_time(self, args[3], &w) || read_dict(self->features, args[0], self->row.values) < 0
        || !read_target(self, args[1]) || !is_plain(self, w)
        || (n_args == 6 && !add_losses_of_row(self, given, args[4], args[5])))
        return not_known();
    move_clock(self, args[3] != Py_None);
    learn_read(self);
    Py_RETURN_NONE;
}

/* Learn a sample, as `learn` does with all but the last two arguments, into the arrays of a new state, and put this
 * in the place of the state that the attributes of a model have: learn_new(x, y, w, t, attributes, state). No code
 * comes between, so that a row for which room is made is learnt or not. */
static PyObject *SingleRows_learn_new(SingleRows *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args < 2 || !PyDict_CheckExact(args[n_args - 2]))
        return PyErr_Format(PyExc_TypeError, "learn_new(x, y, w, t, attributes, state)");
    PyObject *name = PyUnicode_InternFromString("_state");
    PyObject *learnt = name ? SingleRows_learn(self, args, n_args - 2) : NULL;
    if (learnt == Py_None && PyDict_SetItem(args[n_args - 2], name, args[n_args - 1]))
        Py_CLEAR(learnt);
    Py_XDECREF(name);
    return learnt;
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

/* The arrays of k rows: X (k, m), targets (k, n) or columns of labels (k,), w (k,), scores (k, n), to write;
 * variances (k, n), to write, or None; and times (k, 2), or None. */
enum { X, TARGETS, W, SCORES, SPREADS, TIMES, N_ARRAYS };

/* Take the first arrays of rows. Return k, or -1 with an exception. */
static Py_ssize_t take_rows(const SingleRows *self, PyObject *arrays, Py_ssize_t count, void **found)
{
    const Py_ssize_t n = self->sums.n, k = PyObject_Size(PyTuple_GetItem(arrays, X));
    const Py_ssize_t sizes[] = {k * self->sums.m, self->counts ? k : k * n, k, k * n, k * n, 2 * k};
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *formats = i == TARGETS && self->counts ? INTEGERS : REALS;
        const int flags = i == SCORES || i == SPREADS ? TO_WRITE : TO_READ;
        const int may_lack = i >= SPREADS && PyTuple_GetItem(arrays, i) == Py_None;
        found[i] = k < 0 || may_lack ? NULL : memory_of(arrays, i, sizes[i], formats, flags);
        if (!found[i] && !may_lack)
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

/* The time of row k of arrays. */
static int load_time(SingleRows *self, void *const *rows, Py_ssize_t k, double *w)
{
    if (!self->hands)
        return 1;
    if (!rows[TIMES])
        return count_time(self, w);
    memcpy(self->time, (double *)rows[TIMES] + 2 * k, sizeof(self->time));
    return pass_time(self, self->hands + NOW, w);
}

/* Predict each row, then learn it, up to a row that Python code must learn: predict_learn(X, targets, w, scores,
 * variances, times). Return the number of rows. */
static PyObject *SingleRows_predict_learn(SingleRows *self, PyObject *arrays)
{
    void *rows[N_ARRAYS];
    const Py_ssize_t n = self->sums.n, n_rows = take_rows(self, arrays, N_ARRAYS, rows);
    const size_t size = (size_t)n * sizeof(real);
    Py_ssize_t k = 0;
    if (n_rows < 0)
        return NULL;
    for (; k < n_rows; k++) {
        double w = ((double *)rows[W])[k], free;
        if (!load_time(self, rows, k, &w) || !load_row(self, rows, k) || !is_plain(self, w)
            || !(rows[SPREADS] ? spread_row(self, NULL, 1.0, &free) : score_row(self, NULL)))
            break;
        memcpy((real *)rows[SCORES] + k * n, self->row.scores, size);
        if (rows[SPREADS])
            memcpy((real *)rows[SPREADS] + k * n, self->row.errors, size);
        move_clock(self, rows[TIMES] != NULL);
        learn_read(self);
    }
    return PyLong_FromSsize_t(k);
}

/* Load a row that is at least as far from the mean as any of k rows of arrays. Return whether their sums of squares
 * stay within float64. */
static int load_farthest(SingleRows *self, void *const *rows, Py_ssize_t k)
{
    const sums_t *s = &self->sums;
    const double total = dot(k * s->m, rows[X], rows[X]);
    const double of_targets = self->counts ? 1.0 : dot(k * s->n, rows[TARGETS], rows[TARGETS]);
    for (ptrdiff_t i = 0; i < s->m + s->n; i++)
        self->row.values[i] = sqrt(i < s->m ? total : of_targets) + 2.0 * fabs(mean_of(s, i));
    return total <= MAX_SQUARES && of_targets <= MAX_SQUARES;
}

/* Whether all k rows of arrays, each of weight 1, can be learnt here. */
static int are_plain(SingleRows *self, void *const *rows, Py_ssize_t k)
{
    const sums_t *s = &self->sums;
    int can = load_farthest(self, rows, k) && can_learn(self, 1.0) && s->n_panels == 1 && !self->inliers.m
              && s->tally[1] >= MIN_ROWS_DWARFED;
    prepare(s, &self->row, 1.0, 1.0);
    const int are_far = can && dwarfs(s, &self->row);
    for (Py_ssize_t i = 0; can && (self->constants || self->counts || are_far) && i < k; i++) {
        can = load_row(self, rows, i) && is_constant_where_known(self);
        prepare(s, &self->row, 1.0, 1.0);
        can = can && !(are_far && dwarfs(s, &self->row));
    }
    return can && is_undue(self, k, 1.0);
}

/* What earlier weights decay to by k rows of arrays, each of weight 1; 0 if one of them cannot be learnt here, for all
 * that is known before any is learnt, or if a choice of a ridge may be due before the last of them. */
static double decay_by_rows(const SingleRows *self, void *const *rows, Py_ssize_t k)
{
    const double *tally = self->sums.tally, began = self->choice ? self->choice[BEGAN] : 0.0;
    const int64_t *columns = self->counts ? rows[TARGETS] : NULL;
    double hands[N_HANDS], weight = tally[1], squared = tally[2], left = 1.0;
    SingleRows draft = *self; /* whose clock moves ahead */
    if (self->hands)
        draft.hands = memcpy(hands, self->hands, sizeof(hands));
    for (Py_ssize_t i = 0; i < k; i++) {
        const double count = tally[0] + (double)(i + 1) - began;
        double w = 1.0;
        if (!load_time(&draft, rows, i, &w) || (columns && (columns[i] < 0 || columns[i] >= self->sums.n)))
            return 0.0;
        left *= draft.decay;
        weight = weight * draft.decay + w;
        squared = squared * draft.decay * draft.decay + w * w;
        if (self->hands && draft.passed > 0.0)
            memcpy(hands + NOW, draft.time, sizeof(draft.time));
        if (self->choice && i < k - 1
            && ((2.0 * weight * weight <= count * squared && is_weight_beyond(self, weight))
                || (self->hands && elapsed(hands + NOW, hands + UNTIL) >= 0.0)))
            return 0.0;
    }
    return left;
}

/* Whether k rows of arrays, each of weight 1, can be learnt here one by one, where earlier weights decay: no choice of
 * a ridge is due before the last of them, and none can dwarf what the rows before it leave of the sums. */
static int are_plain_while_decaying(SingleRows *self, void *const *rows, Py_ssize_t k)
{
    const sums_t *s = &self->sums;
    const double left = decay_by_rows(self, rows, k);
    if (!can_learn(self, 1.0) || !load_farthest(self, rows, k) || !(left > EPS))
        return 0;
    prepare(s, &self->row, 1.0 / left, 1.0);
    return (self->inliers.m || (s->tally[1] * left >= MIN_ROWS_DWARFED && !dwarfs(s, &self->row))) && is_chosen(self)
           && (double)k <= self->registers[NEXT_DUE] - s->tally[0]
           && decay_by_rows(self, rows, k) > 0.0; /* If a choice was made, by when the next is due. */
}

/* Learn these rows, if they can be learnt here; return whether they were. */
static int learn_while_decaying(SingleRows *self, void *const *rows, Py_ssize_t k)
{
    if (!are_plain_while_decaying(self, rows, k))
        return 0;
    self->registers[PREDICTED_AT] = -HUGE_VAL; /* The weights do not follow. */
    self->registers[VALID_UNTIL] = 0.0;
    for (Py_ssize_t i = 0; i < k; i++) {
        double w = 1.0;
        load_row(self, rows, i);
        load_time(self, rows, i, &w);
        prepare_row(self, w, self->decay);
        move_clock(self, rows[TIMES] != NULL);
        learn_read(self);
    }
    return 1;
}

/* Learn the rows of an array, which Python code has not checked, all or none: learn_many(X, targets) or, with times,
 * learn_many(X, targets, times). Return whether that was possible. */
static PyObject *SingleRows_learn_many(SingleRows *self, PyObject *arrays)
{
    const ptrdiff_t m = self->sums.m, size = m + self->sums.n;
    sums_t others = self->sums; /* all but A'A, to which some rows are added at once */
    row_t row = self->row;
    real weights[ROWS_AT_ONCE] = {0};
    void *rows[N_ARRAYS] = {NULL};
    const Py_ssize_t k = take_rows(self, arrays, W, rows);
    if (k < 1)
        return k < 0 ? NULL : PyBool_FromLong(0);
    if (PyTuple_Size(arrays) > W && !(rows[TIMES] = memory_of(arrays, W, 2 * k, REALS, TO_READ)))
        return NULL;
    if (self->forgets)
        return PyBool_FromLong(learn_while_decaying(self, rows, k));
    const int can = are_plain(self, rows, k);
    /* Rows that are not there have the weight 0, but must be numbers. */
    real *abouts = can ? PyMem_Calloc((size_t)(ROWS_AT_ONCE * size) + 1, sizeof(real)) : NULL;
    if (can && !abouts)
        return PyErr_NoMemory();
    others.n_panels = 0;
    for (Py_ssize_t i = 0; can && i < k; i++) {
        const Py_ssize_t at = i % ROWS_AT_ONCE;
        row.about = abouts + at * size;
        if (load_row(self, rows, i) && self->counts)
            self->counts[self->column] += 1.0;
        prepare(&others, &row, 1.0, 1.0);
        add_row(&others, &row);
        weights[at] = row.weight;
        if (at == ROWS_AT_ONCE - 1 || i == k - 1) {
            add_squares(m, size, weights, abouts, self->sums.panels->corner);
            memset(weights, 0, sizeof(weights));
        }
        self->registers[PREDICTED_AT] = -HUGE_VAL; /* The weights do not follow. */
        self->registers[VALID_UNTIL] = 0.0;
    }
    PyMem_Free(abouts);
    if (can)
        pass_checkpoint(self);
    return PyBool_FromLong(can);
}

#endif
