"""`c`: a model as a header in C, for microcontrollers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import (
    Floats,
    Matrix,
    check_choice,
    check_count,
    check_flag,
    check_kind,
    check_path,
    refusal,
)
from onlinels.export.c_learning import learning
from onlinels.export.c_text import array_of, enumerators, explained, filled, listed, named, quoted
from onlinels.export.onnx_model import numbered_outputs, single
from onlinels.export.predictor import ClassPredictor, Parts, check_seen, labels_of, parts_of
from onlinels.features.hidden import HiddenLayer
from onlinels.features.input_weights import LandmarkWeights
from onlinels.locks import all_held
from onlinels.pipelines import last_step
from onlinels.rows.batch import Name
from onlinels.saving import files

# -- functions -------------------------------------------------------------------------------------

PRODUCTS_A_SUM = 16
"""Products that are summed before compensated summation, which takes four times as long."""

ACTIVATIONS = {
    "square": "u * u",
    "relu": "u < 0 ? 0 : u",
    "rectified-square": "u < 0 ? 0 : u * u",
    "logistic": "1 / (1 + expf(-u))",
    "tanh": "tanhf(u)",
    "softplus": "(u < 0 ? 0 : u) + log1pf(expf(-fabsf(u)))",
    "absolute": "fabsf(u)",
    "cube": "u * u * u",
    "cosine": "cosf(u)",
    "gaussian": "expf(-u * u)",
    "linear": "u",
}


class Code(NamedTuple):
    """Text of C, the bytes of its constants, and the bytes of its arrays on the stack."""

    text: str
    constants: int
    stack: int

    def then(self, other: Code) -> Code:
        """Return both, the other with a caller of both at its end."""
        return Code(
            self.text + other.text, self.constants + other.constants, self.stack + other.stack
        )


def coded(template: str, name: str, arrays: dict[str, Matrix], stack: int, **values: Any) -> Code:
    """Return the code of arrays and a function, all of which have names that begin with one."""
    text = "".join(array_of(f"{name}_{key}", each) for key, each in arrays.items())
    text += "\n" + filled(template, name=name, **values)
    return Code(text, sum(each.nbytes for each in arrays.values()), stack)


def affine(W: Floats, b: Floats, origin: Floats) -> dict[str, Matrix]:
    """Return the origin o and the constant b + o W of x W + b = (x - o) W + (b + o W)."""
    origin = single(origin, "Means of features")
    constant = b + origin.astype(np.float64) @ W
    return {"origin": origin, "constant": single(constant, "Intercepts")}


def linear(name: str, W: Floats, b: Floats, origin: Floats, kind: str) -> Code:
    """Return a function that computes x W + b about an origin, with weights of a kind."""
    (m, n), width = W.shape, min(4, W.shape[1])
    arrays, columns, weight, scaled = affine(W, b, origin), range(width), "w[{0}]", ""
    if kind == "int8":
        arrays["scale"] = scale = single(np.abs(W).max(axis=0) / 127.0, "Weights")
        arrays["weights"] = np.rint(W / np.where(scale > 0.0, scale, 1.0)).astype(np.int8)
        weight, scaled = "(float)w[{0}]", f" * {name}_scale[first + j]"
    else:
        arrays["weights"] = single(W, "Weights")
    values = {
        "few": PRODUCTS_A_SUM,
        "kind": "int8_t" if kind == "int8" else "float",
        "starts": ", ".join(f"s{k} = 0" for k in columns),
        "sums": ", ".join(f"s{k}" for k in columns),
        "products": ("\n" + 16 * " ").join(f"s{k} += z * {weight.format(k)};" for k in columns),
        "scaled": scaled,
    }
    sizes = {"m": m, "n": n, "width": width, "last": n - width}
    return coded("linear", name, arrays, 12 * width, **sizes, **values)


def signs(name: str, W: Floats, b: Floats, origin: Floats) -> Code:
    """Return what `linear` does for W whose rows hold one number and its negative."""
    m, n = W.shape
    positive = np.zeros((n, m + -m % 32), bool)
    positive[:, :m] = W.T > 0.0
    bits = np.packbits(positive, axis=1, bitorder="little")
    arrays = affine(W, b, origin)
    arrays["scale"] = single(np.abs(W[:, 0]), "Weights")
    arrays["bits"] = bits.view("<u4").astype(np.uint32)
    return coded("signs", name, arrays, 4 * m, m=m, n=n)


def origin_of(W: Floats, b: Floats) -> Floats:
    """Return a point x for which x W + b is as small as least squares can make it."""
    sizes = np.linalg.norm(W, axis=1)
    scale = 1.0 / np.where(sizes > 0.0, sizes, 1.0)
    return np.asarray(-scale * np.linalg.lstsq((scale[:, None] * W).T, b)[0])


def expanding(prefix: str, layer: HiddenLayer, names: Sequence[Name], kind: str) -> Code:
    """Return a function that computes the hidden activations that have these names, in order."""
    made: Any = layer._made
    made = made.formed() if isinstance(made, LandmarkWeights) else made
    columns = numbered_outputs(layer, None, range(layer.n_hidden))  # type: ignore[arg-type]
    units = columns.arranged(names, np.eye(len(names))).argmax(axis=0)
    W = made.weights.astype(np.float64)[:, units]
    b = np.zeros(len(units)) if made.offsets is None else made.offsets.astype(np.float64)[units]
    given = f"{prefix}_project", W, b, origin_of(W, b)
    project = signs(*given) if (abs(W) == abs(W[:, :1])).all() else linear(*given, kind)
    values = {"prefix": prefix, "activation": layer.activation, "n": len(units)}
    formula = ACTIVATIONS[layer.activation]
    return project.then(coded("expand", "", {}, 0, formula=formula, **values))


# -- the model -------------------------------------------------------------------------------------

LINEAR_NAMES = {"label": "scores", "target": "predict", "value": "compute"}
"""What the function is called that computes linear outputs, by what a header predicts."""


def outputs_in_c(predictor: Any, room: int) -> tuple[str, list[str]]:
    """Return what is predicted, and the texts of the labels or targets."""
    if not isinstance(predictor, ClassPredictor):
        return "target" if predictor.outputs else "value", [*map(str, predictor.outputs)]
    labels = labels_of(predictor.outputs, "a header in C")
    check_seen(predictor, "a header in C")
    if len(labels) + room < 2:
        found, remedy = f"knows only the class {labels[0].item()!r}", "Learn rows of another first."
        raise refusal("The model", found, "at least two", remedy)
    return "label", [*map(str, labels.tolist())]


def layer_of(parts: Parts) -> HiddenLayer | None:
    """Return the hidden layer before a linear model; raise ValueError for any other step."""
    kinds = [type(step) for _, step in parts.steps]
    if kinds not in ([], [HiddenLayer]) or parts.shape is not None:
        names = ", ".join(kind.__name__ for kind in kinds)
        found = f"has the steps {names}" if kinds else "takes windows"
        expected = "a linear model, alone or after a HiddenLayer"
        remedy = "Export the last step alone, model[name], and compute what is before it yourself."
        raise refusal("model", found, expected, remedy)
    return parts.steps[0][1] if kinds else None


def checked_prefix(prefix: Any) -> str:
    """Return the prefix of names in C; raise ValueError unless every name with it is one of C."""
    check_kind("prefix", prefix, (str,))
    if not re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", prefix):
        expected = "lower-case letters and digits, with single underscores between them"
        raise refusal(f"prefix={prefix!r}", "begins no name in C", expected, 'Pass prefix="fan".')
    return str(prefix)


def c(
    model: Any,
    path: str | PathLike[str],
    *,
    prefix: str | None = None,
    weights: str = "float32",
    learn: bool = False,
    rows: str = "float32",
    room: int = 0,
) -> None:
    """Write a trained model to a header in C, which predicts and learns on a microcontroller.

    The header is valid C99 and C++. It needs no other files than those of the language, and no
    allocated memory. Single predictions and rows need no double precision.

    Parameters
    ----------
    model : trained model
        A linear model, or a pipeline of a `HiddenLayer` and one. Without `learn`, a classifier may
        be inside a `CalibratedClassifier` or `DriftAwareClassifier`. It does not change.
    path : str or Path
        An existing file is replaced once the new one is written.
    prefix : str, optional
        What all names in the header begin with: lower-case letters and digits, with single
        underscores between them. By default it is the name of the file without ".h".
    weights : "float32" or "int8"
        Type of the weights. "int8" rounds the weights of every output, and of every hidden unit,
        to multiples of 1/127 of the largest, and takes a quarter of the bytes.
    learn : bool
        Whether the header also learns rows, up to 96 features or hidden units.
    rows : "float32" or "int16"
        Type of the values of rows, and of targets, if the header learns. Sums of "int16" are exact.
    room : int
        Number of labels that the header may learn besides those of the model.

    Raises
    ------
    TypeError, ValueError
        If the model has learnt nothing, has no features or knows fewer than two classes, `room`
        included; if it is of another kind or has another step; if `prefix` is no such name; if
        labels are of mixed types, or a name holds a NUL; if a number exceeds float32; or if a
        setting needs another one. To learn, a model must not have more than 96 features,
        ``accumulator="orthogonal"`` or KFold as ridge. No file is written then.
    OSError
        If the file cannot be written. An existing file at `path` stays unchanged.

    Notes
    -----
    **Predictions.** With the prefix "fan", the header defines, for an array ``x`` of ``float``:

    ==============================  ============================================================
    ``fan_predict(x)``              the number of a label, or the prediction of a regressor
    ``fan_scores(x, scores)``       the scores of all labels, as `scores_one` returns them
    ``fan_predict(x, y)``           the predictions of several targets
    ``fan_features``                names of the features, in the order of ``x``; also
                                    ``fan_labels`` and ``fan_targets``
    ``FAN_N_FEATURES``              their number; also ``FAN_N_LABELS`` and ``FAN_N_TARGETS``
    ``FAN_LABEL_…``,                numbers of labels and targets, such as ``FAN_LABEL_OFF`` of
    ``FAN_TARGET_…``                "off", with "_2" and so on where two would be the same
    ==============================  ============================================================

    Texts are UTF-8. Of equal scores the first counts, as in `predict_one`. A row with NaN has NaN
    as scores.

    Scores are (x - o) W + b' about the mean o of the features, with b' = b + o W computed in
    float64. For rows that float32 holds exactly, scores differ from the scores of the model by at
    most 2e-7 of the sum of the absolute products and of b', wherever the features lie. Without an
    intercept, the model has no mean, and o is 0. Projections of a hidden layer are computed about
    the point that least squares projects to 0, which is near the mean of the examples if
    `from_examples` has made the layer and there are at least as many units as features.

    A prediction of m features and n outputs takes about m (7 + 2 n) instructions of a Cortex-M4
    for up to four outputs: 1,080 for 64 features and three classes, and 1,470 with "int8". The
    constants are m + n numbers besides the weights. Input weights of a hidden layer are bits if
    those of each feature are one number and its negative, as "bipolar" ones are, also of
    `from_examples`. The activations of the hidden units are on the stack, 4 bytes each.

    **Learning.** With ``learn=True``, weights are variables, and the header defines:

    =========================================  =================================================
    ``fan_begin(&learner)``                    no rows yet; a ``fan_learner_t`` is plain data
    ``fan_learn(&learner, x, label)``          adds a row with the number of its label, or with
                                               an array of targets; 0: it is refused
    ``fan_add_label(&learner.labels, text)``   the number of a label, new or not; -1: no room,
                                               or a text that home does not read
    ``fan_seal(&learner)``                     notes the CRC-32 of a learner, before its bytes are
                                               stored in flash memory
    ``fan_is_sound(&learner)``                 1 if bytes read again were sealed by a program of
                                               this model; 0: call ``fan_begin``
    ``fan_send(&learner, device, serial,``     sends the sums to `onlinels.devices`, byte by byte
    ``send, to)``
    ``fan_answers_of(NULL)``                   the exported weights, a ``fan_answers_t``
    ``fan_predict(&answers, x)``               as above, also ``fan_scores(&answers, x, scores)``
    ``fan_copy_label(&answers, number,``       the text of a label, up to 256 bytes
    ``text)``
    ``fan_solve(&learner, memory,``            weights of the rows learnt; the ridge in force
    ``&answers)``
    ``fan_take_weights(&slots, bytes,``        writes weights of `device_weights` into one of two
    ``size)``                                  slots, whole or not at all
    ``fan_answers_of(fan_answering(&slots))``  the newest weights in the slots
    =========================================  =================================================

    Rows are learnt by the same functions as here: with "float32" about the running mean in single
    precision, up to 16,777,216 rows, each value up to 1e15; with "int16" about the first row in
    64-bit integers. Rows with other values or unknown labels are refused. Nothing decays. A row of
    64 features takes 24,800 instructions of a Cortex-M4, or 16,800 with "int16"; the sums take 10
    or 19 kB.

    ``fan_solve`` exists up to 32 features, for models without priors. It takes ``FAN_MEMORY``
    floats and 191,000 instructions at 32 features, or 529,000 with "int16". It uses the ridge of
    the exported model, and raises the ridge tenfold as long as single precision loses the digits.
    Weights in slots are read where they are: on little-endian machines, from addresses that are
    multiples of 4. Scores are sums in single precision, and err by up to 1e-6 of the sum of the
    absolute products.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np
    >>> from onlinels import LeastSquaresClassifier, export
    >>> model = LeastSquaresClassifier(ridge=1.0)
    >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fan.h"
    >>> export.c(model, path)
    >>> "static inline int fan_predict(const float *x)" in path.read_text()
    True
    """
    path = check_path("path", path)
    prefix = checked_prefix(path.stem if prefix is None else prefix)
    check_choice("weights", weights, ("float32", "int8"))
    check_flag("learn", learn)
    check_choice("rows", rows, ("float32", "int16"))
    check_count("room", room, 0)
    if not learn and (rows, room) != ("float32", 0):
        found, expected = f"rows={rows!r} and room={room!r}", "learn=True"
        raise refusal("learn=False", f"came with {found}", expected, "Pass learn=True.")
    if learn and weights != "float32":
        remedy = 'Pass weights="float32".'
        raise refusal("learn=True", f"came with weights={weights!r}", "float32", remedy)
    with all_held(*files.locks_of(model)):  # One moment: another thread may be learning.
        text = header_of(model, prefix, weights, learn, rows, room)
    with files.replacing(path) as file:
        file.write(text.encode("ascii"))


def predicting(parts: Parts, name: str, prefix: str, expand: Code | None, weights: str) -> Code:
    """Return a function that computes the scores or values of a row."""
    predictor = parts.predictor
    given = predictor.weights, predictor.intercept, parts.centre, weights
    if expand is None:
        return linear(name, *given)
    n = len(predictor.weights)
    caller = coded("hidden", name, {}, 4 * n, prefix=prefix, n=n)
    return expand.then(linear(f"{prefix}_combine", *given)).then(caller)


def header_of(model: Any, prefix: str, weights: str, learn: bool, rows: str, room: int) -> str:
    """Return the text of the header of a model."""
    parts = parts_of(model)
    layer, values = layer_of(parts), {"prefix": prefix, "PREFIX": prefix.upper()}
    kind, texts = outputs_in_c(parts.predictor, room)
    names = parts.predictor.feature_names
    if layer is not None and rows == "int16":
        remedy = 'Pass rows="float32".'
        raise refusal('rows="int16"', "came with a HiddenLayer", "a linear model", remedy)
    if not names:
        remedy = "Learn rows with features first."
        raise refusal("The model", "has learnt rows without features", "at least one", remedy)
    expand = None if layer is None else expanding(prefix, layer, names, weights)
    features = [*map(str, names if layer is None else layer._made.names)]
    numbers = enumerators(f"{prefix}_{kind}", texts)
    values |= {"n": str(len(texts)), "first": [*numbers, ""][0]}
    if learn:
        features_of_rows = (expand.text, expand.stack) if expand else ("", 0)
        calls, code = learning(model, prefix, rows, room, *features_of_rows)
    else:
        made = predicting(parts, f"{prefix}_{LINEAR_NAMES[kind]}", prefix, expand, weights)
        calls = explained(filled(f"call_{kind}", **values))
        calls += f"\n *\n * Constants take {made.constants:,} bytes, "
        calls += f"and a call has arrays of {made.stack:,} bytes on the stack."
        code = made.text + "\n" + filled(f"predict_{kind}", **values)
    return filled(
        "header",
        **values,
        model=type(last_step(model)).__name__,
        version=sys.modules["onlinels"].__version__,
        calls=calls,
        features=listed(map(quoted, features), " *     "),
        names=named(prefix, "feature", features) + (named(prefix, kind, texts) if texts else ""),
        code=code,
    )
