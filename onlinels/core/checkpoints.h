/* When and how a ridge is chosen: the checkpoints of a model, by the rules of onlinels/linear/ridge.py. */
#ifndef ONLINELS_CHECKPOINTS_H
#define ONLINELS_CHECKPOINTS_H

#include "model.h"
#include "selection.h"

#define MIN_SELECTION_ROWS 2.0
#define LEAST_GROWTH (1.0 / 16.0)
#define FEATURES_AT_DOUBLINGS 8192.0
#define MEMORIES_BETWEEN_SELECTIONS 4.0
#define MIN_ROWS_FOLLOWED 4.0 /* rows up to the next choice for which an inverse pays, if it tests no ridge */

/* ---- When --------------------------------------------------------------------------------------- */

/* Whether a choice of a ridge is due if all rows have this weight, and are far from equally weighted. */
static int is_weight_beyond(const SingleRows *self, double weight)
{
    const double due = self->registers[DUE_WEIGHT];
    return (due > 0.0 && weight >= due) || weight < LEAST_DUE_SHARE * due;
}

/* The number of rows, or of equally weighted rows, (sum w)^2 / sum w^2, if these are at most half as many. */
static double equal_rows(const sums_t *s, double rows)
{
    const double weight = s->tally[1], squared = s->tally[2];
    return 2.0 * weight * weight > rows * squared ? rows : floor(weight * (weight / (squared ? squared : 1.0)));
}

/* Whether a number of rows has doubled, or has fallen to between a half and a quarter. */
static int is_doubling(const SingleRows *self, double equal)
{
    const double doubles_at = self->choice[DOUBLES_AT];
    return !(0.25 * doubles_at <= equal && equal < doubles_at);
}

/* The next power of 2 above a whole number of rows. */
static double next_doubling(double rows)
{
    int exponent;
    frexp(rows, &exponent);
    return rows < MIN_SELECTION_ROWS ? MIN_SELECTION_ROWS : ldexp(1.0, exponent);
}

/* Number of features that had several values. */
static ptrdiff_t count_varying(const SingleRows *self)
{
    const real *constants = self->choice + N_CHOICE + 2 * self->sums.m;
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < self->sums.m; i++)
        n += constants[i] != constants[i];
    return n;
}

/* Set the registers by which the next choice is due, given the numbers of rows and of varying features at one. */
static void set_due(SingleRows *self, double rows, ptrdiff_t n_varying)
{
    double *registers = self->registers;
    const double share = (double)n_varying / FEATURES_AT_DOUBLINGS, root = 0.5 * sqrt(share);
    double growth = share > root ? share : root;
    growth = growth > LEAST_GROWTH ? growth : LEAST_GROWTH;
    growth = growth < 1.0 ? growth : 1.0;
    const double most = MEMORIES_BETWEEN_SELECTIONS * self->memory, step = growth * rows;
    double next = rows + ceil(step < most ? step : most);
    if (rows < ROWS_SELECTED_ONE_BY_ONE)
        next = rows + 1.0 > MIN_SELECTION_ROWS ? rows + 1.0 : MIN_SELECTION_ROWS;
    registers[NEXT_DUE] = self->choice[BEGAN] + next;
    registers[DUE_WEIGHT] = self->sums.tally[1] * (1.0 + growth) * (1.0 - DUE_TOLERANCE);
}

/* Set the time at which the next choice is due. That of dates is exact: see `hands_of` in forgetting.py. */
static void set_until(SingleRows *self)
{
    double *hands = self->hands, high = self->between, low = 0.0;
    if (self->counts_dates && high < MAX_TIME) {
        high = floor(self->between / LOW_PART) * LOW_PART;
        low = hands[LOW] + (self->between - high);
        const double carried = low >= LOW_PART ? LOW_PART : 0.0;
        high += carried;
        low -= carried;
    }
    /* Not beyond all times, nor before the first row of a half-life that came to rows learnt before. */
    const int is_time = fabs(hands[NOW] + high) <= MAX_SQUARES;
    hands[UNTIL] = is_time ? hands[NOW] + high : HUGE_VAL;
    self->choice[UNTIL_REST] = hands[UNTIL_LOW] = is_time ? low : 0.0;
    self->choice[UNTIL_TIME] = is_time ? hands[UNTIL] : NAN;
}

/* ---- What of ------------------------------------------------------------------------------------ */

/* The standard deviation of a feature, given its sum of squares; 0 if its square would leave the range of numbers. */
static double deviation_at(const sums_t *s, double square)
{
    const double deviation = sqrt(square / s->tally[1]);
    return deviation >= MIN_DEVIATION ? deviation : 0.0;
}

/* Whether the units of the last doubling are about the deviations still. */
static int are_units_alike(const SingleRows *self)
{
    const sums_t *s = &self->sums;
    const real *units = self->choice + N_CHOICE + s->m;
    for (ptrdiff_t i = 0; self->choice[IS_BASE_SCALED] != 0.0 && i < s->m; i++) {
        const double now = deviation_at(s, told(s, i)), then = units[i];
        if (now * now > MAX_UNITS_GROWTH * then * then || then * then > MAX_UNITS_GROWTH * now * now)
            return 0;
    }
    return 1;
}

/* Whether weights that follow rows can test the ridge at the next checkpoint: the last choice is that of the last
 * doubling. Units of no choice are 0. */
static int tests_ridge(const SingleRows *self)
{
    const real *c = self->choice;
    const ptrdiff_t m = self->sums.m;
    return c && self->keeps && c[RIDGE] == c[BASE_RIDGE] && c[IS_SCALED] == c[IS_BASE_SCALED]
           && !memcmp(c + N_CHOICE, c + N_CHOICE + m, (size_t)m * sizeof(real));
}

/* Note the features that begin to vary in the prepared row, which is learnt next. Each has a unit of its own until
 * the next choice, if others have: its deviation after the row. */
static void note_changes(SingleRows *self)
{
    const sums_t *s = &self->sums;
    const ptrdiff_t m = s->m;
    const double share = self->row.w / self->row.total, of_square = s->is_centred ? share * (1.0 - share) : share;
    real *c = self->choice, *units = c + N_CHOICE;
    ptrdiff_t n_new = 0, n_left = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
        const double only = self->constants[i], distance = fabs(self->row.values[i] - only);
        n_left += only == only;
        if (!(distance > CONSTANT_TOLERANCE * fabs(only)))
            continue;
        const double unit = sqrt(of_square) * distance;
        self->constants[i] = NAN;
        n_new++;
        if (!(c[IS_SCALED] != 0.0 && unit > 0.0))
            continue;
        units[i] = (real)unit;
        if (c[IS_BASE_SCALED] != 0.0)
            units[m + i] = (real)unit;
        if (self->recursion.inverse)
            set_penalty(m, &self->recursion, i, c[RIDGE] * unit * unit);
        forget_answers(self);
    }
    if (n_new && n_left == m)
        c[BEGAN] = s->tally[0] > 1.0 ? s->tally[0] - 1.0 : 0.0;
    if (n_new == n_left)
        self->constants = NULL;
}

/* ---- The choice --------------------------------------------------------------------------------- */

/* The sums that a ridge is chosen from. */
typedef struct {
    products_t products;
    real *scratch, *squares, *deviations;
    ptrdiff_t n_varying; /* features that had several values; */
    ptrdiff_t n_told;    /* features that vary by more than rounding */
    int are_alike;       /* whether raw and standardised features are about the same */
} basis_t;

/* Take the sums of the rows learnt so far, in memory to choose in. Return 0 if other code must choose. */
static int take_basis(SingleRows *self, basis_t *of)
{
    const sums_t *s = &self->sums;
    const ptrdiff_t m = s->m, size = scratch_for_selection(m, s->n);
    const real *c = self->choice;
    const products_t products = {m, s->n, s->panels->corner, s->cross, NULL, 0.0, s->tally[1], s->is_centred, 0};
    double least = HUGE_VAL, most = 0.0;
    if (!c || self->kinds == CHOSEN_ELSEWHERE || m > MAX_FEATURES_SOLVED || s->n_panels != 1
        || !(c[IS_KNOWN] != 0.0) || !(s->tally[0] < MAX_COUNTED)
        || (self->hands && self->hands[NOW] != self->hands[NOW]))
        return 0;
    if (!self->of_choice && !(self->of_choice = PyMem_Calloc((size_t)(size + 2 * m), sizeof(real))))
        return 0; /* Other code may find the memory. */
    of->products = products;
    of->scratch = self->of_choice;
    of->products.squares = of->squares = of->scratch + size;
    of->deviations = of->squares + m;
    of->n_varying = count_varying(self);
    of->n_told = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
        const double square = of->squares[i] = told(s, i);
        const double deviation = of->deviations[i] = s->tally[1] > 0.0 ? deviation_at(s, square) : 0.0;
        of->n_told += square > 0.0;
        least = deviation > 0.0 && deviation < least ? deviation : least;
        most = deviation > most ? deviation : most;
    }
    of->are_alike = most <= MAX_UNITS_RATIO * least;
    for (ptrdiff_t j = 0; j < s->n; j++)
        of->products.total += told(s, m + j);
    if (self->forgets) { /* Rows count as equally weighted, unless a full memory is short. */
        const double mean_weight = s->tally[1] > 0.0 ? s->tally[2] / s->tally[1] : 1.0;
        const int is_full = mean_weight <= MAX_MEAN_WEIGHT && s->tally[0] > (double)of->n_told;
        of->products.is_short = is_full && s->tally[1] < (double)of->n_told;
        of->products.weight /= of->products.is_short ? 1.0 : mean_weight;
    }
    return 1;
}

/* Find the ridge, NAN if nothing can be told, and the units that it acts on. Those of the last doubling are kept,
 * if the ridge is accepted and it is no new doubling. Return 0 if other code must choose. */
static int find_choice(const SingleRows *self, const basis_t *of, int is_new, double *ridge, const real **units)
{
    const real *c = self->choice, *base = c[IS_BASE_SCALED] != 0.0 ? c + N_CHOICE + self->sums.m : NULL;
    const real *own = self->kinds == STANDARD ? of->deviations : base; /* An explicit "standard" follows every row. */
    const real *kinds[2] = {own, NULL};
    const int may_keep = !is_new && are_units_alike(self), is_either = self->kinds == RAW_OR_STANDARD;
    spectrum_t spectrum;
    int which = 0, n_kinds = 1;
    *ridge = c[BASE_RIDGE];
    *units = base;
    if (may_keep && !find_spectrum(&of->products, own, of->scratch, &spectrum))
        return 0;
    if (may_keep && accepts(&spectrum, *ridge))
        return 1;
    *ridge = NAN;
    *units = NULL;
    if (!of->n_told || !(of->products.total > 0.0) || self->sums.tally[1] < MIN_SELECTION_ROWS)
        return 1;
    if (!is_new && of->n_varying >= MIN_FEATURES_TO_KEEP_UNITS)
        kinds[0] = may_keep || !own ? own : of->deviations;
    else {
        kinds[0] = self->kinds == RAW || (is_either && of->are_alike) ? NULL : of->deviations;
        kinds[1] = kinds[0] ? NULL : of->deviations;
        n_kinds = is_either ? 2 : 1;
    }
    const spectrum_t *known = may_keep && kinds[0] == own ? &spectrum : NULL;
    if (!select_ridge(&of->products, kinds, n_kinds, known, of->scratch, ridge, &which))
        return 0;
    *units = kinds[which];
    return 1;
}

/* Choose the ridge and the units that it acts on, from the rows learnt so far. Return 0, with nothing changed, if
 * other code must. */
static int choose(SingleRows *self)
{
    const ptrdiff_t m = self->sums.m;
    const size_t size = (size_t)m * sizeof(real);
    real *c = self->choice, *units = c + N_CHOICE, *registers = self->registers;
    const real *found;
    double ridge;
    basis_t of;
    if (!take_basis(self, &of))
        return 0;
    const double count = self->sums.tally[0], nothing_varied = count > 1.0 ? count - 1.0 : 0.0;
    const double began = of.n_varying ? c[BEGAN] : nothing_varied, equal = equal_rows(&self->sums, count - began);
    const int doubles = is_doubling(self, equal), is_new = doubles || c[BASE_RIDGE] != c[BASE_RIDGE] || !self->keeps;
    if (!find_choice(self, &of, is_new, &ridge, &found))
        return 0;
    /* Nothing fails from here on. */
    const int is_same = ridge == c[RIDGE] && (found != NULL) == (c[IS_SCALED] != 0.0)
                        && (!found || !memcmp(found, units, size));
    if (!is_same || registers[SHARE] != 1.0)
        registers[VALID_UNTIL] = 0.0;
    registers[TRIED_AT] = -HUGE_VAL; /* With more rows, an inverse may have its digits. */
    registers[SHARE] = 1.0;
    c[BEGAN] = began;
    c[RIDGE] = ridge;
    c[IS_SCALED] = found != NULL;
    if (found)
        memcpy(units, found, size);
    else
        memset(units, 0, size);
    if (doubles) {
        c[BASE_RIDGE] = ridge;
        c[IS_BASE_SCALED] = c[IS_SCALED];
        c[DOUBLES_AT] = next_doubling(equal);
        memcpy(units + m, units, size);
    }
    self->ridge.ridge = ridge == ridge ? ridge : -1.0; /* the paper's */
    if (self->kinds != STANDARD)
        self->ridge.scaling = found ? GIVEN : AS_THEY_ARE;
    forget_answers(self);
    set_due(self, count - began, of.n_varying);
    if (self->hands)
        set_until(self);
    return 1;
}

/* Whether no choice of a ridge is due, or it could be made. */
static int is_chosen(SingleRows *self)
{
    if (self->sums.tally[0] < self->registers[NEXT_DUE])
        return 1;
    const int could = choose(self);
    PyMem_Free(self->of_choice); /* It is as large as a model, and choices are rare. */
    self->of_choice = NULL;
    return could;
}

/* Pass a checkpoint, if one is due, and the ridge is accepted by the weights that follow rows, which takes less
 * time than by the sums; otherwise, a choice is due. */
static void pass_checkpoint(SingleRows *self)
{
    double *registers = self->registers;
    const real *c = self->choice;
    const double count = self->sums.tally[0], weight = self->sums.tally[1];
    if (!c)
        return;
    const double rows = count - c[BEGAN], equal = equal_rows(&self->sums, rows);
    if (equal < rows && is_weight_beyond(self, weight))
        registers[NEXT_DUE] = count;
    if (count != registers[NEXT_DUE] || is_doubling(self, equal) || !self->recursion.inverse || self->mode != FOLLOW
        || !(count < registers[VALID_UNTIL]) || !tests_ridge(self) || !are_units_alike(self))
        return;
    const ptrdiff_t n_varying = count_varying(self);
    if (n_varying > MAX_FEATURES_SOLVED && equal < MIN_ROWS_PER_FEATURE * (double)n_varying)
        return;
    forget_answers(self); /* The image of a row serves as scratch memory. */
    if (is_accepted(&self->sums, &self->recursion, self->row.image))
        set_due(self, rows, n_varying);
}

/* Choose a ridge if this is due: choose(). Return whether none is due now. */
static PyObject *SingleRows_choose(SingleRows *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(is_chosen(self));
}

#endif
