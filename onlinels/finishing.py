"""Changes that belong to what a model learns, and are made with it or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def learn_and_finish(model: Any, learn: Callable[[], object], finish: Callable[[], object]) -> None:
    """Learn, and make the changes that belong to it, whatever comes between the two.

    Parameters
    ----------
    model : object, optional
        It learns as a whole or not at all, and counts in `count` what it has learnt: so that shows
        if an interrupt comes before all changes are made, and they are made then. None, if nothing
        has changed before the changes are made.
    learn, finish : callable
        The second makes the changes: made twice, they are as made once.

    Examples
    --------
    >>> class Model:
    ...     count = 0
    >>> model, notes = Model(), {}
    >>> learn_and_finish(model, lambda: setattr(model, "count", 1), lambda: notes.update(seen=1))
    >>> notes
    {'seen': 1}
    """
    count = None if model is None else model.count
    try:
        learn()
        finish()
    except BaseException:
        if model is not None and model.count != count:
            finish()
        raise
