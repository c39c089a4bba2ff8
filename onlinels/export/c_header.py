"""`c`: a model as a C header, for microcontrollers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, count
from os import PathLike
from string import Template
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, Matrix, check_choice, check_kind, check_path, refusal
from onlinels.export.onnx_model import numbered_outputs, single
from onlinels.export.predictor import ClassPredictor, Parts, check_seen, labels_of, parts_of
from onlinels.features.hidden import HiddenLayer
from onlinels.features.input_weights import LandmarkWeights
from onlinels.pipelines import last_step
from onlinels.saving import files

# -- names and numbers -----------------------------------------------------------------------------

UNQUOTED = re.compile(r"[A-Za-z0-9 _.,:;()+=<>@#/-]")
"""What stands for itself in strings and comments: no trigraph begins, and no comment ends."""


def quoted(text: str) -> str:
    r"""Return a text as a string of C, which may also stand in a comment.

    Examples
    --------
    >>> print(quoted('a "*/" 1'))
    "a \042\052/\042 1"
    """
    if re.search("[\0\ud800-\udfff]", text):
        found, remedy = "holds a NUL or half a character", "Rename the feature, label or target."
        raise refusal(f"The name {text!r}", found, "text that C and UTF-8 can hold", remedy)
    # Three octal digits are a whole escape, whatever follows.
    characters = (chr(byte) for byte in text.encode())
    return '"' + "".join(c if UNQUOTED.match(c) else f"\\{ord(c):03o}" for c in characters) + '"'


def enumerators(stem: str, texts: Iterable[str]) -> list[str]:
    """Return distinct names of C for texts: a stem, and what the text has of letters and digits.

    Examples
    --------
    >>> enumerators("fan_label", ["off", "Off!", "-1", "?"])
    ['FAN_LABEL_OFF', 'FAN_LABEL_OFF_2', 'FAN_LABEL_MINUS_1', 'FAN_LABEL']
    """
    names = dict[str, None]()
    for text in texts:
        words = re.findall("[A-Z0-9]+", re.sub(r"^-(?=\d)", "MINUS ", text.upper()))
        own = "_".join([stem.upper(), *words])
        candidates = chain([own], (f"{own}_{number}" for number in count(2)))
        names[next(name for name in candidates if name not in names)] = None
    return [*names]


def listed(items: Iterable[str], indent: str = "    ") -> str:
    """Return items with commas between them, in lines of at most 100 characters if they fit."""
    lines = [indent]
    for item in items:
        if len(lines[-1]) + len(item) > 98 and lines[-1] != indent:
            lines.append(indent)
        lines[-1] += f"{item}, "
    return "\n".join(line[:-1] for line in lines)[:-1]


def array_of(name: str, values: Matrix) -> str:
    """Return the definition of a constant array: a row of a matrix begins a new line."""
    types = {"f": ("float", "f"), "i": ("int8_t", ""), "u": ("uint32_t", "u")}
    kind, suffix = types[values.dtype.kind]
    rows = [listed(f"{number!s}{suffix}" for number in row) for row in np.atleast_2d(values)]
    numbers = ",\n".join(rows).replace("-inff", "-INFINITY")
    return f"\nstatic const {kind} {name}[{values.size}] = {{\n{numbers}\n}};\n"


def named(prefix: str, kind: str, texts: Sequence[str]) -> str:
    """Return the texts of features, labels or targets as an array, and their number."""
    strings, number = listed(map(quoted, texts)), f"{prefix}_n_{kind}s".upper()
    array = f"static const char *const {prefix}_{kind}s[{number}] = {{\n{strings}\n}};\n"
    return f"\nenum {{ {number} = {len(texts)} }};\n{array}"


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

HIDDEN = Template("""
/* A hidden layer of $n units with the activation "$activation", then a linear layer. */
static inline void $name(const float *x, float *y)
{
    float hidden[$n];
    ${prefix}_project(x, hidden);
    for (int k = 0; k < $n; k++) {
        const float u = hidden[k];
        hidden[k] = $formula;
    }
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


def projections(name: str, layer: HiddenLayer, kind: str) -> Code:
    """Return a function that computes the projections of a hidden layer."""
    made: Any = layer._made
    made = made.formed() if isinstance(made, LandmarkWeights) else made
    W = made.weights.astype(np.float64)
    b = np.zeros(W.shape[1]) if made.offsets is None else made.offsets.astype(np.float64)
    given = name, W, b, origin_of(W, b)
    return signs(*given) if (abs(W) == abs(W[:, :1])).all() else linear(*given, kind)


# -- the model -------------------------------------------------------------------------------------

HEADER = Template("""\
/* Predictions of a $model, made by onlinels $version. C99 and C++.
 *
 *     $call
 *
 * x holds the features, in the order of ${prefix}_features:
 *
$features
 *
 * Constants take $constants bytes, and a prediction has arrays of $stack bytes on the stack.
 * All functions are static: include the header in one source file.
 */
#ifndef ONLINELS_${PREFIX}_H
#define ONLINELS_${PREFIX}_H

#include <math.h>
#include <stdint.h>
$names$code
#endif
""")

CALLS = {
    "label": (
        "int label = ${prefix}_predict(x);   such as $first, called ${prefix}_labels[label]\n"
        " *     ${prefix}_scores(x, scores);        scores of ${PREFIX}_N_LABELS labels"
    ),
    "target": "${prefix}_predict(x, y);   y[$first] is what ${prefix}_targets[$first] names",
    "value": "float y = ${prefix}_predict(x);",
}
"""How a header is called, by what it predicts: a label, several targets, or one value."""

LINEAR_NAMES = {"label": "scores", "target": "predict", "value": "compute"}

ANSWERS = {"label": LABEL, "target": Template(""), "value": VALUE}


def outputs_in_c(predictor: Any) -> tuple[str, list[str]]:
    """Return what is predicted, and the texts of the labels or targets."""
    if not isinstance(predictor, ClassPredictor):
        return "target" if predictor.outputs else "value", [*map(str, predictor.outputs)]
    labels = labels_of(predictor.outputs, "a header in C")
    check_seen(predictor, "a header in C")
    if len(labels) < 2:
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
    text = header_of(parts_of(model), type(last_step(model)).__name__, prefix, weights)
    with files.replacing(path) as file:
        file.write(text.encode("ascii"))


def predicting(parts: Parts, name: str, prefix: str, weights: str) -> tuple[list[str], Code]:
    """Return the names of the features, and a function that computes scores or values of a row."""
    predictor, layer = parts.predictor, layer_of(parts)
    names, W, b, centre = (
        predictor.feature_names,
        predictor.weights,
        predictor.intercept,
        parts.centre,
    )
    if not names:
        remedy = "Learn rows with features first."
        raise refusal("The model", "has learnt rows without features", "at least one", remedy)
    if layer is None:
        return [*map(str, names)], linear(name, W, b, centre, weights)
    hidden: Any = numbered_outputs(layer, None, range(layer.n_hidden))  # type: ignore[arg-type]
    W, centre = (hidden.arranged(names, each) for each in (W, centre))
    code = projections(f"{prefix}_project", layer, weights)
    code = code.then(linear(f"{prefix}_combine", W, b, centre, weights))
    values = {"prefix": prefix, "activation": layer.activation, "n": layer.n_hidden}
    values["formula"] = ACTIVATIONS[layer.activation]
    code = code.then(coded(HIDDEN, name, {}, 4 * layer.n_hidden, **values))
    return [*map(str, layer._made.names)], code


def header_of(parts: Parts, model: str, prefix: str, weights: str) -> str:
    """Return the text of the header that predicts."""
    kind, texts = outputs_in_c(parts.predictor)
    features, code = predicting(parts, f"{prefix}_{LINEAR_NAMES[kind]}", prefix, weights)
    names, numbers = named(prefix, "feature", features), enumerators(f"{prefix}_{kind}", texts)
    if texts:
        names += named(prefix, kind, texts) + f"\nenum {prefix}_{kind} {{\n{listed(numbers)}\n}};\n"
    values = {"prefix": prefix, "PREFIX": prefix.upper(), "n": len(texts)}
    call = Template(CALLS[kind]).substitute(values, first=[*numbers, ""][0])
    return HEADER.substitute(
        values,
        model=model,
        version=sys.modules["onlinels"].__version__,
        call=call,
        features=listed(map(quoted, features), " *     "),
        constants=f"{code.constants:,}",
        stack=f"{code.stack + 4 * len(texts) * (kind == 'label'):,}",
        names=names,
        code=code.text + ANSWERS[kind].substitute(values),
    )
