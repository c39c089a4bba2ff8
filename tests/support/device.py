"""Bytes as devices send them, from rows, and what read sums differ by from exact ones."""

import struct
from zlib import crc32

import numpy as np

from onlinels.devices import fingerprint
from onlinels.pipelines import last_step

HEAD = struct.Struct("<4sBBHHHIQIQ")
KINDS = {"<f4": 0, "<i8": 1, "<f8": 2}
UNITS = {"<f4": 2.0**-24, "<i8": 0.0, "<f8": 2.0**-53}
"""Kinds of numbers in bytes, and their units of rounding, by type."""


def signed(content):
    """Return bytes with their CRC-32 behind them."""
    return content + crc32(content).to_bytes(4, "little")


def bytes_of(model, labels, tally, numbers, dtype, number=1, serial=1):
    """Return the bytes of a device that holds these numbers."""
    last, n = last_step(model), len(numbers)
    m, said = len(last.feature_names), b""
    for label in labels:
        text = str(label).encode()
        said += type(label).__name__[:1].encode() + bytes([len(text)]) + text
    sizes = m, (n - 2 * m - m * (m + 1) // 2) // (3 + m)
    flags = bool(last.fit_intercept) + 2 * hasattr(last, "classes")
    told = *sizes, flags, serial, fingerprint(model), len(said), number
    head = HEAD.pack(b"OLSD", 1, KINDS[dtype], *told)
    return signed(head + said + struct.pack("<3d", *tally) + np.array(numbers, dtype).tobytes())


def one_hot(Y, labels):
    """Return targets (n, n_targets) of labels, or as they are if there are none."""
    if not len(labels):
        return np.atleast_2d(np.transpose(Y)).T
    return np.array([[int(label == y) for label in labels] for y in Y]).reshape(-1, len(labels))


def sent(model, labels, X, Y, w=None, dtype="<i8", number=1, serial=1):
    """Return the bytes of a device that has learnt rows with labels, or targets."""
    m, w, last = X.shape[1], np.ones(len(X)) if w is None else w, last_step(model)
    columns = np.hstack((X, one_hot(Y, labels))).astype(object if dtype == "<i8" else dtype)
    origin = columns[0].copy() if len(X) else columns.sum(axis=0)
    origin[m:] *= not len(labels)
    z, weights = columns - origin, w.astype(int if dtype == "<i8" else dtype)
    moved = weights @ z
    if dtype != "<i8":
        origin, moved = (
            bool(last.fit_intercept) * each for each in (origin, moved / (weights.sum() or 1.0))
        )
        z = columns - origin - moved
    products = z.T @ (weights[:, None] * z)
    gram, cross = products[:m, :m][np.tril_indices(m)], products[m:, :m].ravel()
    numbers = *origin, *moved, *gram, *cross, *products.diagonal()[m:]
    tally = len(X), w.sum(), w @ w
    return bytes_of(model, labels, tally, numbers, dtype, number, serial)


def assert_sums(read, X, Y, w=None):
    """Assert that sums differ from exact ones by little more than the rounding that is told."""
    last, w, m = last_step(read.model), np.ones(len(X)) if w is None else w, X.shape[1]
    targets = one_hot(Y, getattr(last, "classes", ()))
    columns = np.hstack((X, targets)).astype(np.longdouble)
    mean = w @ columns / w.sum() * bool(last.fit_intercept)
    exact = (columns - mean).T @ (w[:, None] * (columns - mean))
    sums = last._state.statistics
    gram, cross = sums.products.gram_and_cross()
    # About an origin that is far from the rows, z = (x - origin) - offset is rounded.
    unit = read.rounding / (len(X) + 2)
    sizes = np.sqrt(exact.diagonal() + 0.1 * unit * (w @ columns**2) + 1e-300)
    errors = np.abs(np.hstack((np.triu(gram), cross)) - np.triu(exact)[:m])
    most = (8.0 * read.rounding + 1e-14) * np.outer(sizes, sizes)
    assert (errors <= most[:m]).all()
    squares = np.abs(sums.squares_of_targets - exact.diagonal()[m:])
    assert (squares <= most.diagonal()[m:]).all()
    np.testing.assert_allclose(sums.tally, [len(X), w.sum(), w @ w], rtol=1e-12)
    means = np.abs(np.hstack((sums.feature_mean, sums.target_mean)) - mean)
    assert (means <= (8.0 * read.rounding + 1e-14) * np.sqrt(w @ columns**2 / w.sum())).all()
