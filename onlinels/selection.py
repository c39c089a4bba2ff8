"""Choosing the ridge from a spectrum: generalised cross-validation."""

from __future__ import annotations

import numpy as np

from onlinels.spectrum import Spectrum


def gcv_ridge(spectrum: Spectrum) -> float:
    """Return the ridge of least generalised cross-validation error (Golub, Heath and Wahba)."""
    s, n = spectrum.eigenvalues[:, None], max(spectrum.weight, 1.0)
    b = (spectrum.rotated_cross**2).sum(axis=1)[:, None]
    c = 10.0 ** (np.arange(-96, 97) / 8.0)
    dof = spectrum.n_free + (s / (s + c)).sum(axis=0)
    total = spectrum.target_squares.sum()
    rss = np.maximum(total - (b * (s + 2 * c) / (s + c) ** 2).sum(axis=0), 1e-14 * total)
    gcv = rss / np.maximum(1.0 - dof / n, 1e-3) ** 2
    return float(c[::-1][gcv[::-1].argmin()])
