"""Sums that devices send as bytes, made into models, and weights as bytes for these devices.

A device learns rows by `onlinels/core/portable.h`, which describes the bytes. Sums of whole numbers
are integers about an integer origin. They add up as integers here, and every sum about the mean is
rounded once. So the model is a function of the rows alone: its bits do not depend on which device
has learnt which row. Other sums are float32 or float64, and are rounded whenever they grow.
"""

from __future__ import annotations

import hashlib
import inspect
import struct
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from onlinels.checks import (
    MAX_COUNT,
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

__all__ = ["DeviceRows", "device_weights", "fingerprint", "merge_devices", "read_device"]

HEAD = struct.Struct("<4sBBHHHIQI")
"""Magic, version, kind, features, targets, flags, serial number, fingerprint, size of labels."""

SUMS, WEIGHTS, BYTES_VERSION = b"OLSD", b"OLSW", 1
"""What the bytes begin with."""

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
    """What a device has learnt, as its bytes tell: see `read_device`.

    Attributes
    ----------
    device, serial : int
        Number of the device, and the serial number of the bytes: later bytes have larger ones.
    rows : int
        Number of rows.
    rounding : float
        Estimate of the rounding errors of the sums, relative to the sums of squares; 0 for whole
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
    Float32 sums of n rows differ by about ``u (sqrt(n) + n sqrt(u n) / 16)``, with u = 2^-24: 2e-6
    for 1,000 rows, 3e-5 for 65,000 and 1e-3 for a million. Sums of squares are enlarged by as much,
    so that rounding leaves no combination of features a negative sum.

    **Security.** The CRC-32 in the bytes finds damage, not forgery: who can write the bytes can
    write any rows. Verify a signature before. Sums of few rows reveal these rows.

    **Cost.** A few times the memory of the bytes, and ``M^3 / 3`` operations for M features.

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
    sent = _checked("content", content, model)
    merged, sums = _merged([sent], model, lambda line: None), _sums_of(sent, model)
    return DeviceRows(sent.device, sent.serial, sums.rows, sums.rounding, merged)


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
    sent = sorted({_checked(f"contents[{n}]", each, model) for n, each in enumerate(contents)})
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
    places = [last.feature_names.index(name) for name in features if name in last.feature_names]
    if len(places) < max(len(features), len(last.feature_names)):
        found = f"has the features {last.feature_names!r}"
        raise refusal("model", found, f"those of exported, {features!r}", EXPORT_AGAIN)
    if _mark(model, features) != fingerprint(exported):
        found = "has other targets, steps or fit_intercept than exported"
        raise refusal("model", found, "the same", EXPORT_AGAIN)
    if not 1 <= check_count("serial", serial, 1) < 1 << 32:
        raise refusal("serial", f"is {serial}", "a number below 2^32", "Count from 1 on.")
    with last._lock:
        (weights, intercept), centre = last._weights(), last._state.statistics.feature_mean
        labels = b"".join(map(_label_bytes, getattr(last, "classes", ())))
        origin = centre[places].astype(np.float32)
    weights = weights[places]
    shifted = intercept + origin.astype(np.float64) @ weights
    numbers = np.concatenate((origin, weights.T.ravel(), shifted))
    if not (np.abs(numbers) <= MAX_SINGLE).all():
        remedy = "Scale the features, and leave out classes without weight."
        raise refusal("model", "has weights beyond float32", "finite numbers", remedy)
    sizes = len(features), len(intercept), _flags(last), serial, fingerprint(exported), len(labels)
    content = HEAD.pack(WEIGHTS, BYTES_VERSION, 0, *sizes)
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
    if not hasattr(value, "__dict__"):
        return repr(value)
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
    text = str(label).encode()
    if type(label) not in (str, int, bool) or len(text) > 255:
        remedy = "Train the model on short texts or numbers."
        raise refusal("A label", f"is {label!r}", "a str, int or bool of up to 255 bytes", remedy)
    return type(label).__name__[:1].encode() + bytes([len(text)]) + text


def _labels(said: bytes) -> tuple[Any, ...]:
    """Return the labels that bytes hold; raise ValueError or LookupError for other bytes."""
    labels, at = list[Any](), 0
    while at < len(said):
        text = said[at + 2 : at + 2 + said[at + 1]].decode()
        labels.append(TYPES_BY_LETTER[chr(said[at])](text))
        at += 2 + said[at + 1]
    if b"".join(map(_label_bytes, labels)) != said or len(set(labels)) < len(labels):
        raise ValueError("labels that are not written so, or not different")
    return tuple(labels)


# ---- Bytes ---------------------------------------------------------------------------------------


class _Sent(NamedTuple):
    """Bytes of a device whose head, size and CRC-32 fit a model."""

    device: int
    serial: int
    content: bytes


class _Sums(NamedTuple):
    """Sums over rows (x, y) about an origin, of integers, or about the mean, of float64.

    Attributes
    ----------
    labels : tuple of n labels or names of targets
    tally : (float, float, float)
    origin, moved : ndarray (m + n,)
        The origin, and the sums about it; of float64, both parts of the mean.
    products : ndarray (m + n, m)
        Sums of products of x and y with x: A'A, and Y'A below it.
    squares : ndarray (n,)
        Sums of the squares of y.
    rounding : float
    """

    labels: Any
    tally: tuple[float, ...]
    origin: Any
    moved: Any
    products: Any
    squares: Any
    rounding: float

    @property
    def rows(self) -> int:
        return int(self.tally[0])


def _checked(name: str, content: Any, model: Any) -> _Sent:
    """Return bytes whose head, size and CRC-32 fit a model."""
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise wrong_type(name, content, "bytes that a device has sent", "Read them from a file.")
    content, last = bytes(content), _linear_model(model)
    magic, version, kind, m, n, flags, serial, mark, n_bytes = HEAD.unpack(
        content[: HEAD.size].ljust(HEAD.size, b"\0")
    )
    if (magic, version) != (SUMS, BYTES_VERSION) or kind >= len(ROUNDED_TYPES):
        found = f"holds {len(content)} bytes that begin with {content[:6]!r}"
        raise refusal(name, found, f"sums of version {BYTES_VERSION}, {SUMS!r}", SEND_AGAIN)
    known = fingerprint(model), len(last.feature_names), _flags(last)
    if (mark, m, flags) != known:
        found = f"has the fingerprint, number of features and flags {(mark, m, flags)}"
        raise refusal(name, found, f"{known}", EXPORT_AGAIN)
    n_numbers = 2 * (m + n) + m * (m + 1) // 2 + m * n + n
    size = HEAD.size + 8 + n_bytes + 24 + n_numbers * np.dtype(ROUNDED_TYPES[kind][0]).itemsize + 4
    if size != len(content) or crc32(content[:-4]) != int.from_bytes(content[-4:], "little"):
        found = f"is damaged: it holds {len(content)} bytes"
        raise refusal(name, found, f"{size} that end in the CRC-32 of the others", SEND_AGAIN)
    return _Sent(int.from_bytes(content[HEAD.size : HEAD.size + 8], "little"), serial, content)


def _sums_of(sent: _Sent, model: Any) -> _Sums:
    """Return the numbers in checked bytes; raise if no device has such labels or counts."""
    name, content, labels = f"device {sent.device}", sent.content, _targets(last_step(model))
    _, _, kind, m, n, _, _, _, n_bytes = HEAD.unpack_from(content)
    at = HEAD.size + 8 + n_bytes
    try:
        said = _labels(content[HEAD.size + 8 : at])
    except (LookupError, ValueError) as error:
        raise refusal(name, "has unreadable labels", "different ones", SEND_AGAIN) from error
    if len(said if labels is None else labels) != n or (said and labels is not None):
        found = f"has {n} targets, and the labels {said!r}"
        raise refusal(name, found, "a label for each class, or the model's targets", SEND_AGAIN)
    dtype, unit = ROUNDED_TYPES[kind]
    rows, weight, squared = tally = struct.unpack_from("<3d", content, at)
    fits = 0.0 <= rows <= (MAX_COUNT if unit else MAX_WHOLE_ROWS) and rows.is_integer()
    fits = fits and (0.0 < weight <= MAX_COUNT or not rows)
    # By Cauchy and Schwarz; and no weight is negative. Whole rows weigh 1.
    fits = fits and weight * weight <= rows * squared * (1.0 + CHECKED_RIDGE)
    fits = fits and 0.0 <= squared <= weight * weight * (1.0 + CHECKED_RIDGE)
    if not fits or (not unit and not rows == weight == squared):
        found = f"has {rows:g} rows of weight {weight:g}, and {squared:g} as sum of its squares"
        raise refusal(name, found, "sums over rows", SEND_AGAIN)
    numbers = np.frombuffer(content[at + 24 : -4], dtype)
    check_values(name, numbers, remedy=SEND_AGAIN)
    numbers = numbers.astype(np.float64 if unit else object)
    sizes = m + n, m + n, m * (m + 1) // 2, m * n
    origin, moved, packed, cross, squares = np.split(numbers, np.cumsum(sizes))
    products = np.concatenate((np.empty((m, m), numbers.dtype), cross.reshape(n, m)))
    rows_of, columns_of = np.tril_indices(m)
    products[rows_of, columns_of] = products[columns_of, rows_of] = packed
    rounding = unit * (rows**0.5 + rows * (unit * rows) ** 0.5 / 16.0)
    return _Sums(
        said if labels is None else labels, tally, origin, moved, products, squares, rounding
    )


# ---- Models --------------------------------------------------------------------------------------


def _merged(sent: Iterable[_Sent], model: Any, tell: Callable[[str], None]) -> Any:
    """Return a model that has learnt the rows of devices."""
    last, wholes, merged, new = _linear_model(model), None, None, emptied(model)
    for each in sent:
        sums = _sums_of(each, model)
        told = f"rounded by about {sums.rounding:.0e}" if sums.rounding else "exact"
        tell(f"device {each.device}: number {each.serial}, {sums.rows:,} rows, {told}")
        if sums.rows:
            part = _learnt(f"device {each.device}", sums, last)
            if sums.rounding:
                merged = part if merged is None else merged.merge(part)
            else:
                wholes = _about_zero(sums) if wholes is None else _plus(wholes, _about_zero(sums))
    if wholes is not None:
        exact = _learnt("devices", wholes, last)
        merged = exact if merged is None else exact.merge(merged)
    if merged is not None:
        last_step(new)._state = merged._state
    return new


def _about_zero(sums: _Sums) -> _Sums:
    """Return integers about the origin 0."""
    o, total, rows = sums.origin, sums.moved, sums.rows
    m, outer = sums.products.shape[1], np.multiply.outer
    products = sums.products + outer(o, total[:m]) + outer(total, o[:m]) + rows * outer(o, o[:m])
    squares = sums.squares + 2 * o[m:] * total[m:] + rows * o[m:] ** 2
    return sums._replace(origin=0 * o, moved=total + rows * o, products=products, squares=squares)


def _plus(one: _Sums, other: _Sums) -> _Sums:
    """Return the integers about 0 of the rows of both, with labels matched."""
    labels, m = tuple(dict.fromkeys((*one.labels, *other.labels))), one.products.shape[1]
    places = {label: place for place, label in enumerate(labels)}
    moved, squares = np.full(m + len(labels), 0, object), np.full(len(labels), 0, object)
    products = np.full((m + len(labels), m), 0, object)
    for each in (one, other):
        own = np.array([places[label] for label in each.labels])
        columns = np.concatenate((np.arange(m), m + own))
        moved[columns] += each.moved
        products[columns] += each.products
        squares[own] += each.squares
    tally = (float(one.rows + other.rows),) * 3
    return _Sums(labels, tally, 0 * moved, moved, products, squares, 0.0)


def _about_mean(sums: _Sums, is_centred: bool) -> _Sums:
    """Return integers as float64 about their mean, or about 0, of which each is rounded once."""
    sums = _about_zero(sums)
    total, rows, m = sums.moved if is_centred else sums.origin, sums.rows, sums.products.shape[1]
    # Python divides integers to the nearest float64.
    mean = total / rows
    rest = [float(Fraction(s, rows) - Fraction(x)) for s, x in zip(total, mean, strict=True)]
    products = rows * sums.products - np.multiply.outer(total, total[:m])
    return sums._replace(
        origin=mean.astype(np.float64),
        moved=np.array(rest),
        products=(products / rows).astype(np.float64),
        squares=((rows * sums.squares - total[m:] ** 2) / rows).astype(np.float64),
    )


def _learnt(name: str, sums: _Sums, last: Any) -> Any:
    """Return a linear model that has learnt rows of these sums; raise if no rows can have them."""
    m = sums.products.shape[1]
    if not sums.rounding:
        sums = _about_mean(sums, last.fit_intercept)
    gram, cross, mean = sums.products[:m].copy(), sums.products[m:].T, Mean(sums.origin, sums.moved)
    squares, slack = sums.squares * (1.0 + sums.rounding), CHECKED_RIDGE + sums.rounding
    # So rounding leaves no combination of features a negative sum of squares.
    gram[np.diag_indices(m)] *= 1.0 + sums.rounding
    order, news = np.arange(len(squares)), {"outputs": _targets(last)}
    try:
        check_products(gram, cross, squares, slack)
        if _targets(last) is None:
            order, news = _classes(sums, slack)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has sums that no rows have: {error}") from error
    counts = news.get("counts")
    of_targets = unknown_prints(len(order)) if counts is None else prints_of_counts(counts)
    columns = np.concatenate((np.arange(m), m + order))
    products = GramSums.of(gram, cross[:, order])
    learnt = Statistics.empty(products, last.fit_intercept).changed(
        tally=np.array(sums.tally),
        squares_of_targets=np.maximum(squares[order], 0.0),
        mean=Mean(*(each[columns] for each in mean)).settled() if last.fit_intercept else None,
        prints=np.hstack((unknown_prints(m), of_targets)),
    )
    return learnt_model(last, learnt, last._state.columns, news)


def _classes(sums: _Sums, slack: float) -> tuple[Any, dict[str, Any]]:
    """Return the places of the classes that have rows, by label, and what a state knows of them."""
    m, (rows, weight, _) = sums.products.shape[1], sums.tally
    # The squares of targets 0 and 1, about 0, are the weights of the classes.
    weights = sums.squares + weight * (sums.origin + sums.moved)[m:] ** 2
    if not (weights >= 0.0).all() or abs(float(weights.sum()) - weight) > 4.0 * slack * weight:
        found = f"have the weights {weights.tolist()!r}"
        raise refusal("The classes", found, f"weights of {weight:g} in all", SEND_AGAIN)
    order = np.array([sums.labels.index(label) for label in sorted_names(sums.labels)])
    order = order[weights[order] > 0.0]
    counts = np.maximum(1.0, np.rint(weights[order] / weight * rows))
    return order, {"outputs": classes_of(sums.labels[k] for k in order), "counts": counts}
