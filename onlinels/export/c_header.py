"""`c`: a model as a header in C, for microcontrollers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from os import PathLike
from string import Template
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
from onlinels.export.c_text import array_of, enumerators, listed, named, quoted
from onlinels.export.onnx_model import numbered_outputs, single
from onlinels.export.predictor import ClassPredictor, Parts, check_seen, labels_of, parts_of
from onlinels.features.hidden import HiddenLayer
from onlinels.features.input_weights import LandmarkWeights
from onlinels.pipelines import last_step
from onlinels.rows.batch import Name
from onlinels.saving import files

# -- functions -------------------------------------------------------------------------------------

PRODUCTS_A_SUM = 16
"""Products that are summed before compensated summation, which takes four times as long."""

LINEAR = Template("""
/* y = (x - origin) W + constant, for $m numbers x and $n numbers y: $width columns of W at a time,
 * in sums of $few products, which compensated summation adds up as if it were exact. */
static inline void $name(const float *x, float *y)
{
    const float *end = x + $m;
    for (int k = 0; k < $n; k += $width) {
        const int first = k < $last ? k : $last;
        const float *from = x, *o = ${name}_origin;
        const $kind *w = ${name}_weights + first;
        float total[$width] = {0}, lost[$width] = {0};
        do {
            const float *stop = end - from > $few ? from + $few : end;
            float $starts;
            do {
                const float z = *from++ - *o++;
                $products
                w += $n;
            } while (from < stop);
            const float sums[$width] = {$sums};
            for (int j = 0; j < $width; j++) {
                const float term = sums[j] - lost[j], sum = total[j] + term;
                lost[j] = (sum - total[j]) - term;
                total[j] = sum;
            }
        } while (from < end);
        for (int j = 0; j < $width; j++)
            y[first + j] = total[j]$scaled + ${name}_constant[first + j];
    }
}
""")

SIGNS = Template("""
/* y = (x - origin) W + constant, for $m numbers x and $n numbers y: bits of W are signs, and each
 * row of W has a scale. */
static inline void $name(const float *x, float *y)
{
    const uint32_t *bits = ${name}_bits;
    float z[$m];
    for (int i = 0; i < $m; i++)
        z[i] = (x[i] - ${name}_origin[i]) * ${name}_scale[i];
    for (int k = 0; k < $n; k++) {
        float total = 0;
        for (int i = 0, end; i < $m; i = end) {
            uint32_t word = *bits++;
            float sum = 0;
            end = i + 32 < $m ? i + 32 : $m;
            for (int j = i; j < end; j++, word >>= 1)
                sum += word & 1u ? z[j] : -z[j];
            total += sum;
        }
        y[k] = total + ${name}_constant[k];
    }
}
""")

EXPAND = Template("""
/* A hidden layer of $n units with the activation "$activation". */
static inline void ${prefix}_expand(const float *x, float *y)
{
    ${prefix}_project(x, y);
    for (int k = 0; k < $n; k++) {
        const float u = y[k];
        y[k] = $formula;
    }
}
""")

HIDDEN = Template("""
static inline void $name(const float *x, float *y)
{
    float hidden[$n];
    ${prefix}_expand(x, hidden);
    ${prefix}_combine(hidden, y);
}
""")

LABEL = Template("""
/* The number of the label with the highest score; of equal scores, the first. */
static inline int ${prefix}_predict(const float *x)
{
    float scores[$n];
    int best = 0;
    ${prefix}_scores(x, scores);
    for (int k = 1; k < $n; k++)
        best = scores[k] > scores[best] ? k : best;
    return best;
}
""")

VALUE = Template("""
static inline float ${prefix}_predict(const float *x)
{
    float y;
    ${prefix}_compute(x, &y);
    return y;
}
""")

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


def coded(text: Template, name: str, arrays: dict[str, Matrix], stack: int, **values: Any) -> Code:
    """Return the code of arrays and a function, all of which have names that begin with one."""
    defined = [array_of(f"{name}_{key}", each) for key, each in arrays.items()]
    text_of_all = "".join(defined) + text.substitute(values, name=name)
    return Code(text_of_all, sum(each.nbytes for each in arrays.values()), stack)


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
    return coded(
        LINEAR,
        name,
        arrays,
        12 * width,
        m=m,
        n=n,
        width=width,
        last=n - width,
        few=PRODUCTS_A_SUM,
        kind="int8_t" if kind == "int8" else "float",
        starts=", ".join(f"s{k} = 0" for k in columns),
        sums=", ".join(f"s{k}" for k in columns),
        products="\n                ".join(f"s{k} += z * {weight.format(k)};" for k in columns),
        scaled=scaled,
    )


def signs(name: str, W: Floats, b: Floats, origin: Floats) -> Code:
    """Return what `linear` does for W whose rows hold one number and its negative."""
    m, n = W.shape
    positive = np.zeros((n, m + -m % 32), bool)
    positive[:, :m] = W.T > 0.0
    bits = np.packbits(positive, axis=1, bitorder="little")
    arrays = affine(W, b, origin)
    arrays["scale"] = single(np.abs(W[:, 0]), "Weights")
    arrays["bits"] = bits.view("<u4").astype(np.uint32)
    return coded(SIGNS, name, arrays, 4 * m, m=m, n=n)


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
    return project.then(coded(EXPAND, "", {}, 0, formula=formula, **values))


# -- the model -------------------------------------------------------------------------------------

HEADER = Template("""\
/* A $model, made by onlinels $version. C99 and C++.
 *
$calls
 *
 * x holds the features, in the order of ${prefix}_features:
 *
$features
 *
 * All functions are static: include the header in one source file.
 */
#ifndef ONLINELS_${PREFIX}_H
#define ONLINELS_${PREFIX}_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
$names$code
#endif
""")

CALLS = {
    "label": Template("""\
 *     int label = ${prefix}_predict(x);   a number, such as $first, of ${prefix}_labels
 *     ${prefix}_scores(x, scores);        for ${PREFIX}_N_LABELS labels"""),
    "target": Template("""\
 *     ${prefix}_predict(x, y);   y[$first] for each of ${prefix}_targets"""),
    "value": Template("""\
 *     float y = ${prefix}_predict(x);"""),
}
"""How a header is called, by what it predicts: a label, several targets, or one value."""

SIZES = Template("""
 *
 * Constants take $constants bytes, and a call has arrays of $stack bytes on the stack.""")

LINEAR_NAMES = {"label": "scores", "target": "predict", "value": "compute"}

ANSWERS = {"label": LABEL, "target": Template(""), "value": VALUE}


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
        found = (
            "has the steps " + ", ".join(kind.__name__ for kind in kinds)
            if kinds
            else "takes windows"
        )
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
    """Write a trained model to a header in C, which predicts on a microcontroller.

    The header is valid C99 and C++. It needs no other file than those of the language, no allocated
    memory and no double precision.

    Parameters
    ----------
    model : trained model
        A linear model, or a pipeline of a `HiddenLayer` and one. A classifier may be inside a
        `CalibratedClassifier` or `DriftAwareClassifier`. It does not change.
    path : str or Path
        An existing file is replaced once the new one is written.
    prefix : str, optional
        What all names in the header begin with: lower-case letters and digits, with single
        underscores between them. By default it is the name of the file without ".h".
    weights : "float32" or "int8"
        Type of the weights. "int8" rounds the weights of every output, and of every hidden unit,
        to multiples of 1/127 of the largest, and takes a quarter of the bytes.

    Raises
    ------
    TypeError, ValueError
        If the model has learnt nothing, has no features or knows fewer than two classes; if it is
        of another kind or has another step; if `prefix` is no such name; if labels are of mixed
        types, or a name holds a NUL; or if a number exceeds float32. No file is written then.
    OSError
        If the file cannot be written. An existing file at `path` stays unchanged.

    Notes
    -----
    With the prefix "fan", the header defines, for an array ``x`` of ``float``:

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
    as scores, and the first label.

    Scores are (x - o) W + b' about the mean o of the features, with b' = b + o W computed in
    float64. For rows that float32 holds exactly, scores differ from the scores of the model by at
    most 2e-7 of the sum of the absolute products and of b', wherever the features lie. Without an
    intercept, the model has no mean, and o is 0. Projections of a hidden layer are computed about
    the point that least squares projects to 0, which is near the mean of the examples if
    `from_examples` has made the layer and there are at least as many units as features.

    A prediction of m features and n outputs takes about m (5 + 2 n) instructions of a Cortex-M4
    for up to four outputs, more than twice as many with "int8". The constants are m + n
    numbers besides the weights. Input weights of a hidden layer are bits if those of each feature
    are one number and its negative, as "bipolar" ones are, also of `from_examples`. The
    activations of the hidden units are on the stack, 4 bytes each.

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
    caller = coded(HIDDEN, name, {}, 4 * n, prefix=prefix, n=n)
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
        calls, code = learning(model, prefix, rows, room, expand.text if expand else "")
    else:
        made = predicting(parts, f"{prefix}_{LINEAR_NAMES[kind]}", prefix, expand, weights)
        code = made.text + ANSWERS[kind].substitute(values)
        calls = CALLS[kind].substitute(values) + SIZES.substitute(made._asdict())
    return HEADER.substitute(
        values,
        model=type(last_step(model)).__name__,
        version=sys.modules["onlinels"].__version__,
        calls=calls,
        features=listed(map(quoted, features), " *     "),
        names=named(prefix, "feature", features) + (named(prefix, kind, texts) if texts else ""),
        code=code,
    )
