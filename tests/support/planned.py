"""Planned changes are calls in which no interrupt can come: C functions that handle no signals."""

import types

import numpy as np

PYTHON = (types.FunctionType, types.MethodType, type(np.copyto))
"""Types of functions that run Python code; those of numpy ask their arguments for overrides."""


def call(function, *arguments):
    """Make a planned call."""
    # Oracles in the tests may be of Python.
    is_ours = (getattr(function, "__module__", None) or "").startswith(("onlinels", "numpy"))
    assert not (is_ours and isinstance(function, PYTHON)), f"{function} runs Python code"
    owner = getattr(function, "__self__", None)
    if isinstance(function, np.ufunc) or isinstance(owner, np.ndarray):
        # To make an array of them, numpy handles signals.
        assert not any(isinstance(each, (tuple, list)) for each in arguments), (function, arguments)
    return function(*arguments)
