"""What is done to responses before they are averaged and after: powers and rectifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinels.arrays import Matrix
from onlinels.settings import check_not_negative, check_positive


@dataclass(frozen=True)
class Power:
    """The power |u|^exponent of every response u.

    Parameters
    ----------
    exponent : float, above 0
        2 gives squares, 1 absolute values, 0.25 fourth roots.

    Raises
    ------
    TypeError
        If `exponent` is no number.
    ValueError
        If it is not above 0 and finite.

    Notes
    -----
    Of large exponents small responses leave the precision: in float32 powers below 1e-45 are 0,
    those of a response of 0.001 from an exponent of 15 on.

    Examples
    --------
    >>> Power(2.0).apply(np.array([-3.0, 0.0, 2.0]))
    (array([9., 0., 4.]),)
    """

    exponent: float

    n_maps: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("exponent", self.exponent)

    def apply(self, values: Matrix) -> tuple[Matrix]:
        """Return the powers of `values` (floats of any shape), in their place.

        Notes
        -----
        A pass over the values for a square and for an absolute value, two and three for a square
        root and a fourth root. Other exponents need a logarithm and an exponential a value, some
        20 times as long.
        """
        if self.exponent != 2.0:
            np.abs(values, out=values)
        self.raise_sizes(values)
        return (values,)

    def raise_sizes(self, values: Matrix) -> None:
        """Put powers in the place of values that are not negative."""
        if self.exponent in (0.5, 0.25):
            np.sqrt(values, out=values)
        if self.exponent == 0.25:
            np.sqrt(values, out=values)
        elif self.exponent == 2.0:
            np.square(values, out=values)
        elif self.exponent not in (0.5, 1.0):
            np.power(values, values.dtype.type(self.exponent), out=values)


@dataclass(frozen=True)
class TwoSidedRectifier:
    """The two parts max(0, u - threshold) and max(0, -u - threshold) of every response u.

    Parameters
    ----------
    threshold : float, at least 0

    Raises
    ------
    TypeError
        If `threshold` is no number.
    ValueError
        If it is negative or not finite.

    References
    ----------
    A. Coates and A. Y. Ng (2011), "The Importance of Encoding Versus Training with Sparse Coding
    and Vector Quantization": soft thresholding with the signs kept apart.

    Examples
    --------
    >>> TwoSidedRectifier(1.0).apply(np.array([-3.0, 0.0, 2.0]))
    (array([0., 0., 1.]), array([2., 0., 0.]))
    """

    threshold: float

    n_maps: ClassVar[int] = 2

    exponent: ClassVar[float] = 1.0
    """Far from the threshold the parts grow like this power of the response."""

    def __post_init__(self) -> None:
        check_not_negative("threshold", self.threshold)

    def apply(self, values: Matrix) -> tuple[Matrix, Matrix]:
        """Return the part above the threshold in place of `values`, and that below in a new array.

        Notes
        -----
        Four passes over the values. The parts are arrays of their own, not halves of one:
        each is then pooled at full speed.
        """
        threshold = values.dtype.type(self.threshold)
        # Measured: numpy compares with an array four times as fast as with a number.
        zeros = np.zeros(values.shape[-2:], dtype=values.dtype)
        below: Matrix = np.subtract(-threshold, values)
        np.maximum(below, zeros, out=below)
        np.subtract(values, threshold, out=values)
        np.maximum(values, zeros, out=values)
        return values, below


SQUARE = Power(2.0)
FOURTH_ROOT = Power(0.25)


def lp_pooling(exponent: float) -> tuple[Power, Power]:
    """Return what to do before and after averaging so that responses are pooled by an Lp norm.

    (mean |u|^p)^(1/p), the Lp norm up to a constant: p = 1 averages the sizes of responses, larger
    ones come closer to their maximum.

    Parameters
    ----------
    exponent : float, above 0
        The power p.

    Returns
    -------
    before_pooling, after_pooling : Power

    Raises
    ------
    TypeError, ValueError
        If `exponent` is no finite number above 0.

    References
    ----------
    P. Sermanet, S. Chintala and Y. LeCun (2012), "Convolutional Neural Networks Applied to House
    Numbers Digit Classification".

    Examples
    --------
    >>> lp_pooling(4)
    (Power(exponent=4.0), Power(exponent=0.25))
    """
    check_positive("exponent", exponent)
    return Power(float(exponent)), Power(1.0 / exponent)
