"""A device on this machine: portable_harness.c, by the options of `support.harness`."""

import ctypes
from typing import NamedTuple

import numpy as np

from onlinels.devices import _flags, _label_bytes, fingerprint
from onlinels.pipelines import last_step


class Sender(ctypes.Structure):
    """The struct sender_t."""

    _fields_ = (
        ("device", ctypes.c_uint64),
        ("fingerprint", ctypes.c_uint64),
        ("serial", ctypes.c_uint32),
        ("is_centred", ctypes.c_int),
        ("is_classifier", ctypes.c_int),
        ("labels", ctypes.c_void_p),
        ("size_of_labels", ctypes.c_size_t),
    )


class Device(NamedTuple):
    """A device that runs the program of an exported model.

    Attributes
    ----------
    library : ctypes.CDLL
    model : linear model or pipeline
    labels : list of the labels that the device knows
    number : int
    """

    library: ctypes.CDLL
    model: object
    labels: tuple = ()
    number: int = 1

    def sums(self, X, Y, w=None, serial=1, width=99):
        """Return the bytes of rows in float, with targets (n, k) or labels (n,)."""
        X, kind = np.asarray(X), self.library.kind
        if np.ndim(Y) == 1:
            Y = [[label == y for label in self.labels] for y in Y]
        rows = np.ascontiguousarray(np.hstack((X, np.reshape(Y, (len(X), -1)))), dtype=kind)
        w = np.ones(len(X)) if w is None else np.array(w, dtype=np.float64)
        n = rows.shape[1] - X.shape[1]
        arguments = _pointer(rows), _pointer(w), ctypes.c_ssize_t(width)
        return self._sent(self.library.learn, serial, X.shape, n, arguments)

    def wholes(self, X, Y, serial=1):
        """Return the bytes of rows of whole numbers."""
        X, y, places = np.ascontiguousarray(X, dtype=np.int16), None, None
        if np.ndim(Y) == 1:
            places = np.array([self.labels.index(y) for y in Y], dtype=np.int64)
            n = len(self.labels)
        else:
            y = np.ascontiguousarray(Y, dtype=np.int16)
            n = y.shape[1]
        arguments = _pointer(X), _pointer(y), _pointer(places)
        return self._sent(self.library.learn_wholes, serial, X.shape, n, arguments)

    def _sent(self, function, serial, shape, n_targets, arguments):
        flags, labels = _flags(last_step(self.model)), b"".join(map(_label_bytes, self.labels))
        buffer = ctypes.create_string_buffer(labels, len(labels) or 1)
        numbers = self.number, fingerprint(self.model), serial, flags & 1, flags >> 1
        sender = Sender(*numbers, ctypes.addressof(buffer), len(labels))
        sizes = map(ctypes.c_ssize_t, (shape[1], n_targets, shape[0]))
        call = ctypes.byref(sender), *sizes, *arguments
        function.restype = ctypes.c_size_t
        size = function(*call, None)
        content = (ctypes.c_uint8 * size)()
        assert function(*call, content) == size
        return bytes(content)


class Slots:
    """Two slots of flash memory of a device, at first full of random bytes."""

    def __init__(self, library, exported, size, serial=0, unit=4, most=3):
        self.library, self.size, self.unit = library, size, unit
        memory = np.random.default_rng(0).integers(0, 256, 2 * size, dtype=np.uint8)
        self.memory, m = memory, len(last_step(exported).feature_names)
        self.head = (
            ctypes.c_uint64(fingerprint(exported)),
            ctypes.c_uint32(serial),
            ctypes.c_ssize_t(m),
            ctypes.c_ssize_t(most),
        )

    def take(self, content, n_written=1 << 40):
        """Take weights; the power is cut after some bytes. Return the code of `take_weights`."""
        size, unit = ctypes.c_size_t(self.size), ctypes.c_size_t(self.unit)
        # A copy of exactly its size, so that sanitizers see what is read beyond it.
        given = np.frombuffer(content, np.uint8).copy()
        told = size, unit, _pointer(given), ctypes.c_size_t(len(given)), ctypes.c_ssize_t(n_written)
        return self.library.take(*self.head, _pointer(self.memory), *told)

    def answer(self, n_numbers):
        """Return the numbers of the weights that answer and the letter of a label, or None."""
        values, value, letter = [], ctypes.c_double(), ctypes.c_uint8()
        self.library.asked.restype = ctypes.c_ssize_t
        for number in range(n_numbers):
            place = ctypes.c_size_t(number), ctypes.c_ssize_t(-1)
            told = *place, ctypes.byref(value), ctypes.byref(letter)
            size = ctypes.c_size_t(self.size)
            if self.library.asked(*self.head, _pointer(self.memory), size, *told) < 0:
                return None
            values.append(value.value)
        return values


def _pointer(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)
