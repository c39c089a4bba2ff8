"""Sums that devices send as bytes, made into models, and weights as bytes for these devices.

A device learns rows by `onlinels/core/portable.h`, which describes the bytes. Sums of whole numbers
are integers about an integer origin. They add up as integers here, and every sum about the mean is
rounded once. So the model is a function of the rows alone: its bits do not depend on which device
has learnt which row. Other sums are float32 or float64, and are rounded whenever they grow.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from onlinels.checks import (
    MAX_COUNT,
    Floats,
    check_count,
    check_values,
    refusal,
    same,
    wrong_type,
)
from onlinels.from_sums import (
    CHECKED_RIDGE,
    check_products,
    check_takes_sums,
    learnt_model,
)
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.pipelines import emptied, last_step, steps_before
from onlinels.rows.batch import sorted_names
from onlinels.rows.labels import classes_of
from onlinels.sums.forms import GramSums
from onlinels.sums.removals import prints_of_counts, unknown_prints
from onlinels.sums.rows import Mean
from onlinels.sums.statistics import Statistics

__all__ = ["device_weights", "fingerprint", "merge_devices", "read_device"]

HEAD = struct.Struct("<4sBBHHHIQI")
"""Magic, version, kind, features, targets, flags, serial number, fingerprint, size of labels."""

SUMS_MAGIC, WEIGHTS_MAGIC, BYTES_VERSION = b"OLSD", b"OLSW", 1
"""What sums and weights begin with, and the version of both."""

HAS_INTERCEPT, CLASSIFIES = 1, 2
"""Flags."""

ROUNDED_TYPES = (("<f4", 2.0**-24), ("<i8", 0.0), ("<f8", 2.0**-53))
"""Type of the numbers and its unit of rounding, by their kind."""

MAX_WHOLE_ROWS = (1 << 31) - 1
"""Number of rows of 16-bit numbers whose sums of products fit 64 bits."""

MAX_SINGLE = float(np.finfo(np.float32).max)
"""Largest number of float32."""

TYPES_BY_LETTER: dict[str, Callable[[str], Any]] = {
    "s": str,
    "i": int,
    "b": lambda text: text == "True",
}
"""What reads the text of a label, by the first letter of its type."""

SEND_AGAIN = "Let the device send its sums again."

EXPORT_AGAIN = "Pass the model from which the device's program was exported, or export it again."


class DeviceRows(NamedTuple):
    """What a device has learnt, as its bytes tell.

    Attributes
    ----------
    device, serial : int
        Number of the device, and the serial number of the bytes: later bytes have larger ones.
    rows : int
        Number of rows.
    rounding : float
        Bound of the rounding errors of the sums, relative to the sums of squares; 0 for whole
        numbers, whose sums are exact.
    model : model or pipeline
        A model that has learnt the rows.
    """

    device: int
    serial: int
    rows: int
    rounding: float
    model: Any


def read_device(content: bytes, model: Any) -> DeviceRows:
    """Return what a device has learnt, as a model, from the bytes that it has sent.

    Parameters
    ----------
    content : bytes
        All that `send_sums` or `send_wholes` of the device's program has sent.
    model : linear model, or pipeline that ends in one
        The model from which the program was exported. The model does not change, and its rows are
        not in the result.

    Returns
    -------
    DeviceRows

    Raises
    ------
    TypeError, ValueError
        If the bytes are damaged, or come from a program of another model, or if no rows can have
        such sums. Also if `model` has a KFold as ridge, or the accumulator "orthogonal".

    Notes
    -----
    **Precision.** Sums of whole numbers equal those of a model that learns the rows here: without
    an intercept to the last bit, and with one every sum about the mean is the nearest float64.
    Sums of n rows in float32 differ by at most ``(n + 2) 2^-24``, relative to the sums of squares:
    6e-5 for 1,000 rows, 4e-3 for 65,000. Usual rows differ by a hundredth of that. Products below
    1e-38 underflow, which `rounding` includes: 5e-4 for values of 1e-17, and 1 for those of 1e-19.
    Values below 1e-37 may be 0 to a device, which its sums do not tell. Sums of squares are
    enlarged, by ``sqrt(n) 2^-24`` if that is enough, so that rounding leaves no combination of
    features a negative sum.

    **Security.** The CRC-32 in the bytes finds damage, not forgery: who can write the bytes can
    write any rows. Verify a signature before. Sums of few rows reveal these rows.

    **Cost.** About 40 times the memory of the bytes, 20 times for float32, and ``M^3 / 3``
    operations for M features: 25 ms for 64 whole numbers, and 7 ms for float32.

    Examples
    --------
    Three rows of one feature and one target, (1, 3), (2, 5) and (6, 13), about the first row:

    >>> import struct, zlib
    >>> from onlinels import LeastSquaresRegressor
    >>> model = LeastSquaresRegressor(ridge=0.0)
    >>> model.learn_one({"wind": 3.0}, 7.0)
    >>> head = struct.pack("<4sBBHHHIQI", b"OLSD", 1, 1, 1, 1, 1, 12, fingerprint(model), 0)
    >>> origin, sums, gram, cross, squares = (1, 3), (6, 12), 26, 52, 104
    >>> numbers = *origin, *sums, gram, cross, squares
    >>> content = head + struct.pack("<Q3d7q", 700, 3.0, 3.0, 3.0, *numbers)
    >>> read = read_device(content + zlib.crc32(content).to_bytes(4, "little"), model)
    >>> read.device, read.serial, read.rows, read.rounding, read.model.predict_one({"wind": 3.0})
    (700, 12, 3, 0.0, 7.0)
    """
    sent = checked_bytes("content", content, model)
    merged, sums = _merged([sent], model, lambda line: None), _sums_of(sent, model)
    return DeviceRows(sent.device, sent.serial, int(sums.tally[0]), sums.error, merged)


def merge_devices(
    model: Any, contents: Iterable[bytes], tell: Callable[[str], None] | None = None
) -> Any:
    """Return a model that has learnt the rows of many devices, each of them once.

    A device sends all that it has learnt, again and again. Of its bytes, those with the largest
    serial number count. Classes are matched by their labels.

    Parameters
    ----------
    model : linear model, or pipeline that ends in one
        The model from which the programs of all devices were exported. The model does not change,
        and its rows are not in the result: add them by `merge`.
    contents : iterable of bytes
        Bytes of devices, in any order, as for `read_device`.
    tell : callable, optional
        Function that is called with a line about each device, and about bytes that are left out.

    Returns
    -------
    model or pipeline
        A new model with the settings of `model`.

    Raises
    ------
    TypeError, ValueError
        Under the conditions of `read_device`, and if a device has sent different bytes with one
        serial number.

    Notes
    -----
    Whole numbers of all devices add up exactly, so the result has the same bits however the rows
    were divided among the devices. Other sums are merged in the order of the devices' numbers.

    Examples
    --------
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_one({"wind": 3.0}, "calm")
    >>> merge_devices(model, []).count
    0
    """
    tell = tell or (lambda line: None)
    sent = sorted({checked_bytes(f"contents[{n}]", each, model) for n, each in enumerate(contents)})
    for one, later in pairwise(sent):
        if one[:2] == later[:2]:
            found = f"has sent different bytes as number {one.serial}"
            remedy = "A device that has lost its sums or its number must become a new device."
            raise refusal(f"device {one.device}", found, "larger numbers later", remedy)
        if one.device == later.device:
            tell(f"device {one.device}: number {one.serial} left out for {later.serial}")
    # Of each device, the last one stays.
    return _merged({each.device: each for each in sent}.values(), model, tell)


def device_weights(model: Any, exported: Any, serial: int) -> bytes:
    r"""Return the weights of a model as bytes, which a device writes into one of its two slots.

    Parameters
    ----------
    model : linear model, or pipeline that ends in one
        A model that has learnt, with the features of `exported`.
    exported : linear model, or pipeline that ends in one
        The model from which the device's program was exported.
    serial : int
        Serial number, from 1 to 2^32 - 1: a device takes weights with a larger one than its own.

    Returns
    -------
    bytes
        Origin, weights and intercept as float32, labels, and a CRC-32; see `portable.h`.

    Raises
    ------
    TypeError, ValueError
        If the features or steps of the models differ, a label is not a str, int or bool of at most
        255 bytes, or a number does not fit float32.

    Notes
    -----
    Scores are ``(x - origin)' W + b``, about the mean of the features, with b computed in float64.
    So features far from 0 keep their digits. A device takes weights whose CRC-32 fits, whoever
    has made them: let it verify a signature before.

    Examples
    --------
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> model.learn_many([{"wind": 3.0}, {"wind": 9.0}], ["calm", "storm"])
    >>> content = device_weights(model, model, serial=1)
    >>> len(content), content[:4], content[-17:-4]
    (65, b'OLSW', b's\x04calms\x05storm')
    """
    last, features = _linear_model(model), _linear_model(exported).feature_names
    mark, names = fingerprint(exported), last.feature_names
    if sorted_names(names) != sorted_names(features) or _mark(model, features) != mark:
        found = f"has the features {names!r}, or other targets or steps"
        raise refusal("model", found, f"those of exported, with {features!r}", EXPORT_AGAIN)
    if check_count("serial", serial, 1) >= 1 << 32:
        raise refusal("serial", f"is {serial}", "a number below 2^32", "Count from 1 on.")
    places = [names.index(name) for name in features]
    with last._lock:
        (weights, intercept), mean = last._weights(), last._state.statistics.feature_mean
        labels = b"".join(map(_label_bytes, getattr(last, "classes", ())))
    origin, weights = mean[places].astype(np.float32).astype(np.float64), weights[places]
    numbers = np.concatenate((origin, weights.T.ravel(), intercept + origin @ weights))
    if not (np.abs(numbers) <= MAX_SINGLE).all():
        remedy = "Scale the features, and leave out classes without weight."
        raise refusal("model", "has weights beyond float32", "finite numbers", remedy)
    sizes = len(features), len(intercept), _flags(last), serial, mark, len(labels)
    content = HEAD.pack(WEIGHTS_MAGIC, BYTES_VERSION, 0, *sizes)
    content += numbers.astype("<f4").tobytes() + labels
    return content + crc32(content).to_bytes(4, "little")


def fingerprint(model: Any) -> int:
    """Return a number of 64 bits that tells the features and targets of a model from others.

    The program of a device holds it, and so do all bytes that the device sends and takes. Bytes of
    a model are refused that has other features, another order of them, other fixed steps before it,
    or other targets. The ridge, priors and forgetting may change, and classes may be added.

    Parameters
    ----------
    model : linear model that has features, or pipeline that ends in one

    Returns
    -------
    int
        The same in every process and version.

    Examples
    --------
    >>> from onlinels import LeastSquaresClassifier
    >>> one, other = LeastSquaresClassifier(), LeastSquaresClassifier(ridge=1.0)
    >>> one.learn_one({"wind": 3.0}, "calm")
    >>> other.learn_one({"wind": 9.0}, "storm")
    >>> fingerprint(one) == fingerprint(other)
    True
    """
    return _mark(model, _linear_model(model).feature_names)


def _linear_model(model: Any) -> Any:
    """Return the last step of a model, whose sums devices can learn; raise if they cannot."""
    last = last_step(model)
    kinds = LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor
    check_takes_sums(last, kinds)
    if not last.feature_names:
        raise refusal("model", "has no features", "a model that has learnt rows", EXPORT_AGAIN)
    return last


def _mark(model: Any, features: tuple[Any, ...]) -> int:
    """Return the fingerprint of a model with its features in an order."""
    last, steps = last_step(model), [(name, _said(step)) for name, step in steps_before(model)]
    said = repr((type(last).__name__, last.fit_intercept, features, _targets(last) or (), steps))
    return int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), "little")


def _said(value: Any) -> Any:
    """Return what tells fixed steps apart: their settings, except defaults, and all numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, hashlib.blake2b(value.tobytes()).hexdigest()
    if isinstance(value, (list, tuple)):
        return [*map(_said, value)]
    if isinstance(value, type) or not (hasattr(value, "_get_params") or is_dataclass(value)):
        return getattr(value, "__qualname__", repr(value))
    usual = inspect.signature(type(value)).parameters
    settings = value._get_params() if hasattr(value, "_get_params") else vars(value)
    own = {k: v for k, v in settings.items() if not (k in usual and same(v, usual[k].default))}
    return type(value).__name__, sorted((name, _said(each)) for name, each in own.items())


def _targets(last: Any) -> Any:
    """Return the names of the targets, or None for a classifier."""
    return None if isinstance(last, LeastSquaresClassifier) else last._state.outputs


def _flags(last: Any) -> int:
    return HAS_INTERCEPT * bool(last.fit_intercept) + CLASSIFIES * (_targets(last) is None)


def _label_bytes(label: Any) -> bytes:
    """Return a label as bytes: the first letter of its type, the size of its text, and the text."""
    text = str(label).encode(errors="replace")
    if re.search("[\ud800-\udfff]", str(label)):
        found, remedy = f"is {label!r}, with half a character", "Rename the label."
        raise refusal("A label", found, "text that UTF-8 can hold", remedy)
    if type(label) not in (str, int, bool) or len(text) > 255:
        remedy = "Train the model on short texts or numbers."
        raise refusal("A label", f"is {label!r}", "a str, int or bool of up to 255 bytes", remedy)
    return type(label).__name__[:1].encode() + bytes([len(text)]) + text


def _labels(said: bytes) -> tuple[Any, ...]:
    """Return the labels that bytes hold; raise ValueError or LookupError for other bytes."""
    labels, at = list[Any](), 0
    while at < len(said):
        end = at + 2 + said[at + 1]
        labels.append(TYPES_BY_LETTER[chr(said[at])](said[at + 2 : end].decode()))
        at = end
    if b"".join(map(_label_bytes, labels)) != said or len(set(labels)) < len(labels):
        raise ValueError("not as they are written, or not different")
    return tuple(labels)


# ---- Bytes ---------------------------------------------------------------------------------------


class SentBytes(NamedTuple):
    """Bytes of a device whose head, size and CRC-32 fit a model."""

    device: int
    serial: int
    content: bytes


class _Sums(NamedTuple):
    """Sums over rows (x, y): Python's integers about 0, or float64 about the mean.

    Attributes
    ----------
    labels : sequence of n labels, or names of targets
    tally : (float, float, float)
        Number of rows, their weight, and the sum of its squares.
    rounding, underflow : float
        Bounds of the errors that digits cause, and numbers too small for the type of the sums.
    origin : ndarray (m + n,)
    table : ndarray (m + n, 1 + m + 1)
        For each column of x, then of y: its sum, its products with x, and its square; or, of
        float64, its mean minus the origin in place of its sum.
    """

    labels: Any
    tally: tuple[float, ...]
    rounding: float
    underflow: float
    origin: Any
    table: Any

    @property
    def error(self) -> float:
        """Bound of all errors, relative to the sums of squares."""
        return min(1.0, self.rounding + self.underflow)


def checked_bytes(name: str, content: Any, model: Any) -> SentBytes:
    """Return bytes whose head, size and CRC-32 fit a model."""
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise wrong_type(name, content, "bytes that a device has sent", "Read them from a file.")
    content, last = bytes(content), _linear_model(model)
    head = content[: HEAD.size].ljust(HEAD.size, b"\0")
    magic, version, kind, m, n, flags, serial, mark, n_bytes = HEAD.unpack(head)
    if (magic, version) != (SUMS_MAGIC, BYTES_VERSION) or kind >= len(ROUNDED_TYPES):
        found = f"holds {len(content)} bytes that begin with {content[:6]!r}"
        raise refusal(name, found, f"sums of version {BYTES_VERSION}, {SUMS_MAGIC!r}", SEND_AGAIN)
    if len(content) < HEAD.size:
        found = f"is damaged: it holds {len(content)} bytes"
        raise refusal(name, found, f"a head of {HEAD.size}, and sums behind it", SEND_AGAIN)
    known = fingerprint(model), len(last.feature_names), _flags(last)
    if (mark, m, flags) != known:
        found = f"has the fingerprint, number of features and flags {(mark, m, flags)}"
        raise refusal(name, found, f"{known}", EXPORT_AGAIN)
    n_numbers = 2 * (m + n) + m * (m + 1) // 2 + m * n + n
    size = HEAD.size + 8 + n_bytes + 24 + n_numbers * np.dtype(ROUNDED_TYPES[kind][0]).itemsize + 4
    if size != len(content):
        found = f"is damaged: it holds {len(content)} bytes"
        raise refusal(name, found, f"{size}", SEND_AGAIN)
    if crc32(content[:-4]) != int.from_bytes(content[-4:], "little"):
        found = "is damaged: its last 4 bytes are not the CRC-32 of those before"
        raise refusal(name, found, "bytes as they were sent", SEND_AGAIN)
    return SentBytes(int.from_bytes(content[HEAD.size : HEAD.size + 8], "little"), serial, content)


def _sums_of(sent: SentBytes, model: Any) -> _Sums:
    """Return the numbers in checked bytes; raise if no device has such labels or counts."""
    name, content, labels = f"device {sent.device}", sent.content, _targets(last_step(model))
    _, _, kind, m, n, flags, _, _, n_bytes = HEAD.unpack_from(content)
    (dtype, unit), at = ROUNDED_TYPES[kind], HEAD.size + 8 + n_bytes
    try:
        said = _labels(content[HEAD.size + 8 : at])
        if len(labels or said) != n or (labels and said):
            raise ValueError(f"{said!r} for {n} targets")
    except (LookupError, ValueError) as error:
        found = f"has labels that cannot be read: {error}"
        raise refusal(name, found, "one for each class, and none of targets", SEND_AGAIN) from error
    rows, weight, squared = tally = struct.unpack_from("<3d", content, at)
    most, rounding = MAX_COUNT if unit else MAX_WHOLE_ROWS, min(1.0, unit * (rows + 2.0))
    fits = 0.0 <= rows <= most and rows.is_integer() and (0.0 < weight <= MAX_COUNT or not rows)
    fits = fits and (unit > 0.0 or rows == weight == squared)
    # By Cauchy and Schwarz; and no weight is negative.
    square, slack = weight * weight, 1.0 + CHECKED_RIDGE + 4.0 * rounding
    if not (fits and square <= rows * squared * slack and 0.0 <= squared <= square * slack):
        found = f"has {rows:g} rows of weight {weight:g}, and {squared:g} as sum of its squares"
        raise refusal(name, found, "sums over rows", SEND_AGAIN)
    numbers = np.frombuffer(content[at + 24 : -4], dtype)
    check_values(name, numbers, remedy=SEND_AGAIN)
    numbers = numbers.astype(np.float64 if unit else object)
    sizes = m + n, m + n, m * (m + 1) // 2, m * n
    origin, moved, packed, cross, squares = np.split(numbers, np.cumsum(sizes))
    if unit and not flags & HAS_INTERCEPT:
        origin, moved = 0.0 * origin, 0.0 * moved
    products = np.concatenate((np.empty((m, m), numbers.dtype), cross.reshape(n, m)))
    lower = np.tril_indices(m)
    products[lower] = products[lower[::-1]] = packed
    table = np.column_stack((moved, products, np.append(products.diagonal(), squares)))
    sums = _Sums(labels or said, tally, rounding, 0.0, origin, table)
    return sums._replace(underflow=_underflow(sums, dtype)) if unit else _about_zero(sums)


def _underflow(sums: _Sums, dtype: str) -> float:
    """Return a bound of what underflow has taken from the sums, relative to sums of squares.

    A product and its addition may each lose numbers up to the smallest normal one. Sums of squares
    that have lost half of themselves double the bound. One of 0 has lost all, unless the column is
    constant: then its products are 0, and its mean is 0, or so large that values beside it in this
    precision have squares that do not underflow.
    """
    least, squares = np.finfo(dtype), sums.table[:, -1]
    products, m = sums.table[:, 1:-1], sums.table.shape[1] - 2
    mean = np.abs(sums.origin + sums.table[:, 0])
    varies = (mean > 0.0) & (mean < float(least.tiny) ** 0.5 / float(least.eps))
    varies = (varies & (sums.tally[0] > 1.0)) | products.any(axis=1)
    varies[:m] |= products.any(axis=0)
    if (varies & (squares == 0.0)).any():
        return 1.0
    smallest = squares[squares > 0.0].min(initial=np.inf)
    return min(1.0, 4.0 * sums.tally[0] * float(least.tiny) / float(smallest))


# ---- Models --------------------------------------------------------------------------------------


def _merged(sent: Iterable[SentBytes], model: Any, tell: Callable[[str], None]) -> Any:
    """Return a model that has learnt the rows of devices."""
    last, new, wholes = _linear_model(model), emptied(model), None
    merged = last.empty()
    for each in sent:
        sums = _sums_of(each, model)
        told = f"rounded by up to {sums.error:.0e}" if sums.error else "exact"
        tell(f"device {each.device}: number {each.serial}, {int(sums.tally[0]):,} rows, {told}")
        if sums.tally[0]:
            part = _learnt(f"device {each.device}", sums, last)
            if sums.rounding:
                merged.merge(part)
            else:
                wholes = sums if wholes is None else _plus(wholes, sums)
    if wholes is not None:
        merged = _learnt("devices", wholes, last).merge(merged)
    last_step(new)._state = merged._state
    return new


def _about_zero(sums: _Sums) -> _Sums:
    """Return integers about an origin as integers about 0."""
    rows, o, total, outer = int(sums.tally[0]), sums.origin, sums.table[:, 0], np.multiply.outer
    m = sums.table.shape[1] - 2
    products = sums.table[:, 1:-1] + outer(o, total[:m]) + outer(total + rows * o, o[:m])
    squares = sums.table[:, -1] + 2 * o * total + rows * o * o
    table = np.column_stack((total + rows * o, products, squares))
    return sums._replace(origin=0 * o, table=table)


def _plus(one: _Sums, other: _Sums) -> _Sums:
    """Return the integers about 0 of the rows of both, with labels matched."""
    m = one.table.shape[1] - 2
    targets = dict(zip(one.labels, one.table[m:], strict=True))
    for label, row in zip(other.labels, other.table[m:], strict=True):
        targets[label] = targets.get(label, 0) + row
    table = np.vstack((one.table[:m] + other.table[:m], *targets.values()))
    tally = (one.tally[0] + other.tally[0],) * 3
    return _Sums(tuple(targets), tally, 0.0, 0.0, 0 * table[:, 0], table)


def _about_mean(sums: _Sums, is_centred: bool) -> _Sums:
    """Return integers about 0 as float64 about the mean, or about 0, each of them rounded once."""
    rows, m = int(sums.tally[0]), sums.table.shape[1] - 2
    total = sums.table[:, 0] * is_centred
    # Python divides integers to the nearest float64.
    mean = total / rows
    rest = [Fraction(s, rows) - Fraction(x) for s, x in zip(total, mean, strict=True)]
    products = (rows * sums.table[:, 1:-1] - np.multiply.outer(total, total[:m])) / rows
    squares = (rows * sums.table[:, -1] - total * total) / rows
    table = np.column_stack((np.array(rest), products, squares)).astype(np.float64)
    return sums._replace(origin=mean.astype(np.float64), table=table)


def _learnt(name: str, sums: _Sums, last: Any) -> Any:
    """Return a linear model that has learnt rows of these sums; raise if no rows can have them."""
    sums = sums if sums.rounding else _about_mean(sums, last.fit_intercept)
    m, mean = sums.table.shape[1] - 2, Mean(sums.origin, sums.table[:, 0])
    order, news = np.arange(len(sums.labels)), {"outputs": _targets(last)}
    try:
        gram, cross, squares = _definite(sums)
        if _targets(last) is None:
            order, news = _classes(sums)
    except ValueError as error:
        raise ValueError(f"{name} has sums that no rows have: {error}") from error
    counts, columns = news.get("counts"), np.append(np.arange(m), m + order)
    of_targets = unknown_prints(len(order)) if counts is None else prints_of_counts(counts)
    products = GramSums.of(gram, cross[:, order])
    learnt = Statistics.empty(products, last.fit_intercept).changed(
        tally=np.array(sums.tally),
        squares_of_targets=squares[order],
        mean=Mean(*(each[columns] for each in mean)).settled() if last.fit_intercept else None,
        prints=np.hstack((unknown_prints(m), of_targets)),
    )
    return learnt_model(last, learnt, last._state.columns, news)


def _definite(sums: _Sums) -> tuple[Floats, Floats, Floats]:
    """Return A'A, A'Y and the squares of the targets; raise if no rows have them.

    Rounding makes combinations of dependent features negative. So sums of squares grow by a share:
    by what rounding usually causes, or twice that, and so on, up to a bound for any rows.
    """
    m = sums.table.shape[1] - 2
    gram, cross, squares = sums.table[:m, 1:-1], sums.table[m:, 1:-1].T, sums.table[m:, -1]
    share, most = sums.rounding / sums.tally[0] ** 0.5, 4.0 * sums.error
    while True:
        try:
            check_products(gram, cross, squares, share or CHECKED_RIDGE)
        except ValueError:
            if share >= most:
                raise
            share *= 2.0
        else:
            grown = gram + np.diag(share * gram.diagonal())
            return grown, cross, np.maximum(squares * (1.0 + share), 0.0)


def _classes(sums: _Sums) -> tuple[Any, dict[str, Any]]:
    """Return the places of the classes that have rows, by label, and what a state knows of them."""
    m, (rows, weight, _) = sums.table.shape[1] - 2, sums.tally
    # The squares of targets 0 and 1, about 0, are the weights of the classes.
    weights = (sums.table[:, -1] + weight * (sums.origin + sums.table[:, 0]) ** 2)[m:]
    slack = (CHECKED_RIDGE + 4.0 * sums.rounding) * weight
    if not (weights >= 0.0).all() or abs(float(weights.sum()) - weight) > slack:
        found = f"have the weights {weights.tolist()!r}"
        raise refusal("The classes", found, f"weights of {weight:g} in all", SEND_AGAIN)
    places = {label: place for place, label in enumerate(sums.labels)}
    order = np.array([places[label] for label in sorted_names(sums.labels)])
    order = order[weights[order] > 0.0]
    counts = np.maximum(1.0, np.rint(weights[order] / weight * rows))
    return order, {"outputs": classes_of(sums.labels[k] for k in order), "counts": counts}
