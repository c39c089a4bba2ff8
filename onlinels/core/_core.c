/* The heart in C, bound to CPython's limited API: rows of dicts and arrays, predicted and learnt.
 *
 * The equations stand in recursion.h, solve.h and stream.h, which know no Python. Their binding: `Reader` in reading.h;
 * `SingleRows` in model.h, its answers in answers.h, the rows that it learns in learning.h; and
 * `StreamRows` in stream_rows.h.
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
#error "Without the global interpreter lock, a row is learnt as a batch of one."
#endif

#include "stream_rows.h"

/* The number of arguments and arrays of these files (see `onlinels/core/constants.py`). */
#define LAYOUT 34

/* ---- The module -------------------------------------------------------------------------------- */

/* What methods do stands at their functions, and in `reference.py`. */
static PyMethodDef reader_methods[] = {{"row", (PyCFunction)Reader_row, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyMethodDef rows_methods[] = {
    {"label", (PyCFunction)SingleRows_label, METH_O, NULL},
    {"scores", (PyCFunction)SingleRows_scores, METH_O, NULL},
    {"scores_of", (PyCFunction)SingleRows_scores_of, METH_O, NULL},
    {"probabilities", (PyCFunction)SingleRows_probabilities, METH_O, NULL},
    {"calibrated", (PyCFunction)(void (*)(void))SingleRows_calibrated, METH_FASTCALL, NULL},
    {"rule", (PyCFunction)SingleRows_rule, METH_VARARGS, NULL},
    {"solve", (PyCFunction)SingleRows_solve, METH_O, NULL},
    {"hold", (PyCFunction)SingleRows_hold, METH_O, NULL},
    {"normals", (PyCFunction)(void (*)(void))SingleRows_normals, METH_FASTCALL, NULL},
    {"spread", (PyCFunction)SingleRows_spread, METH_O, NULL},
    {"variances", (PyCFunction)SingleRows_variances, METH_O, NULL},
    {"interval", (PyCFunction)(void (*)(void))SingleRows_interval, METH_FASTCALL, NULL},
    {"learn", (PyCFunction)(void (*)(void))SingleRows_learn, METH_FASTCALL, NULL},
    {"learn_new", (PyCFunction)(void (*)(void))SingleRows_learn_new, METH_FASTCALL, NULL},
    {"learn_checked", (PyCFunction)(void (*)(void))SingleRows_learn_checked, METH_FASTCALL, NULL},
    {"choose", (PyCFunction)SingleRows_choose, METH_NOARGS, NULL},
    {"learn_many", (PyCFunction)SingleRows_learn_many, METH_VARARGS, NULL},
    {"predict_learn", (PyCFunction)SingleRows_predict_learn, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyMethodDef stream_methods[] = {
    {"scores", (PyCFunction)StreamRows_scores, METH_O, NULL},
    {"label", (PyCFunction)StreamRows_label, METH_O, NULL},
    {"probabilities", (PyCFunction)StreamRows_probabilities, METH_O, NULL},
    {"normal", (PyCFunction)StreamRows_normal, METH_O, NULL},
    {"learn", (PyCFunction)(void (*)(void))StreamRows_learn, METH_FASTCALL, NULL},
    {"waits", (PyCFunction)StreamRows_waits, METH_NOARGS, NULL},
    {"forget", (PyCFunction)StreamRows_forget, METH_NOARGS, NULL},
    {"forecast", (PyCFunction)StreamRows_forecast, METH_VARARGS, NULL},
    {"learn_scale", (PyCFunction)StreamRows_learn_scale, METH_NOARGS, NULL},
    {"plan", (PyCFunction)StreamRows_plan, METH_VARARGS, NULL},
    {"learn_planned", (PyCFunction)StreamRows_learn_planned, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyMethodDef module_methods[] = {
    {"settle", settle, METH_VARARGS, NULL},
    {"losses_of", losses_of, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC)
#define SLOTS(kind, methods)                                                                                  \
    {                                                                                                         \
        {Py_tp_new, kind##_new}, {Py_tp_dealloc, kind##_dealloc}, {Py_tp_traverse, traverse},                 \
            {Py_tp_methods, methods}, {0, NULL}                                                               \
    }
static PyType_Slot reader_slots[] = SLOTS(Reader, reader_methods);
static PyType_Slot rows_slots[] = SLOTS(SingleRows, rows_methods);
static PyType_Slot stream_slots[] = SLOTS(StreamRows, stream_methods);
static PyType_Spec reader_spec = {"onlinels.core._core.Reader", sizeof(Reader), 0, FLAGS, reader_slots};
static PyType_Spec stream_spec = {"onlinels.core._core.StreamRows", sizeof(StreamRows), 0, FLAGS, stream_slots};
static PyType_Spec rows_spec = {"onlinels.core._core.SingleRows", sizeof(SingleRows), 0, FLAGS, rows_slots};

static int add_types(PyObject *module)
{
    const int failed = PyModule_AddObject(module, "Reader", PyType_FromSpec(&reader_spec))
                       || PyModule_AddObject(module, "SingleRows", PyType_FromSpec(&rows_spec))
                       || PyModule_AddObject(module, "StreamRows", PyType_FromSpec(&stream_spec))
                       || PyModule_AddIntConstant(module, "LAYOUT", LAYOUT);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_types}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", NULL, 0, module_methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module); }
