"""Learning as one in several objects, some of them of other packages."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from river import base

from onlinels.commit import Commit, draft_of
from onlinels.features.hidden import HiddenLayer
from onlinels.features.minirocket import MiniRocketFeatures
from onlinels.features.transformers import FilteringTransformer
from onlinels.finishing import learn_and_finish
from onlinels.scoring import ScoringClassifier
from onlinels.wrapping import WrappedClassifier, is_pipeline, last_step, steps_of

FIXED = (FilteringTransformer, MiniRocketFeatures, HiddenLayer)
"""Steps of this package that learn nothing."""


PLAIN = {float, int, str, bool, type(None)}
"""Types that hold nothing: asked first, as there are many."""

WHOLE = (*FIXED, ScoringClassifier, WrappedClassifier)
"""Steps that learn a row, or a batch, as a whole or not at all; classifiers count the rows."""


class Ahead:
    """A copy of a river object that learns ahead of it, until it takes over what the copy became.

    So whatever happens to the copy, the object is as it was. When it takes over, it and what it
    holds, in containers too, stay the same objects.

    Parameters
    ----------
    original : river model, pipeline or detector
    shared : collection of objects
        Which the copy shares with the original.

    Notes
    -----
    Costs a copy of all that the original holds but the shared objects.

    Examples
    --------
    >>> from river import stats
    >>> mean = stats.Mean()
    >>> ahead, commit = Ahead(mean), Commit()
    >>> ahead.copy.update(3.0)
    >>> ahead.gather(commit), commit.make(), mean
    (None, None, Mean: 3.)
    """

    def __init__(self, original: Any, shared: Collection[Any] = ()) -> None:
        known = {id(each): each for each in shared}
        memo: dict[int, Any] = dict(known)
        parts = list(_parts_of(original, known))
        self.copy = _copy_of(original, parts, memo)
        self._pairs = [(part, memo[id(part)]) for part in parts if id(part) in memo]

    def gather(self, commit: Commit) -> None:
        """Gather what makes the original what the copy is; the copy is not to be used any more."""
        originals = {id(ahead): part for part, ahead in self._pairs}
        # Pipelines hold what learns, and learn nothing themselves.
        pairs = [(part, ahead) for part, ahead in self._pairs if not is_pipeline(part)]
        for part, ahead in pairs:
            # The lock stays: others may wait for it.
            state = {name: value for name, value in vars(ahead).items() if name != "_lock"}
            if len(pairs) > 1:
                state = {name: _placed(value, originals) for name, value in state.items()}
            commit.then(vars(part).update, state)
            for name in vars(part).keys() - vars(ahead).keys():
                commit.then(vars(part).pop, name, None)


def _copy_of(original: Any, parts: Collection[Any], memo: dict[int, Any]) -> Any:
    if not is_pipeline(original):
        return copy.deepcopy(original, memo)
    # Measured: its steps apart from how it goes through them, in two thirds of the time.
    for step in steps_of(original):
        copy.deepcopy(step, memo)
    memo[id(original)] = ahead = draft_of(original)
    # Of steps that are several, too: a pipeline knows each of them.
    copies = {id(part): memo[id(part)] for part in parts if id(part) in memo}
    for name, value in vars(original).items():
        vars(ahead)[name] = _placed(value, copies)
    return ahead


def _parts_of(value: Any, known: dict[int, Any]) -> Iterator[Any]:
    """Iterate over a river object and those that it holds, in containers too, but the known."""
    if id(value) in known:
        return
    if isinstance(value, base.Base) and hasattr(value, "__dict__"):
        known[id(value)] = value
        yield value
        yield from _parts_of(vars(value), known)
    elif isinstance(value, (dict, list, tuple)):
        for held in value.values() if isinstance(value, dict) else value:
            if type(held) not in PLAIN:
                yield from _parts_of(held, known)


def _placed(value: Any, others: Mapping[int, Any]) -> Any:
    """Return a value that holds, in containers too, other objects in the place of some.

    Parameters
    ----------
    value : object
    others : mapping
        From the `id` of what is to be replaced.
    """
    if id(value) in others:
        return others[id(value)]
    if not isinstance(value, (dict, list, tuple)):
        return value
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    placed = {key: _placed(held, others) for key, held in entries if type(held) not in PLAIN}
    if all(each is value[key] for key, each in placed.items()):
        return value
    new = list(value) if isinstance(value, tuple) else copy.copy(value)
    for key, each in placed.items():
        new[key] = each
    if not isinstance(value, tuple):
        return new
    # A named tuple takes its entries one by one.
    return tuple(new) if type(value) is tuple else type(value)(*new)


def learn_as_one(
    model: Any,
    learn: Callable[[Any], object],
    gather: Callable[[Commit], None],
    copied: Collection[Any] = (),
) -> None:
    """Let a model learn together with changes elsewhere: all of it, or nothing.

    Parameters
    ----------
    model : classifier or pipeline
    learn : callable
        Lets the model, or a copy of it, learn. The last step is to learn once, after all others.
    gather : callable
        Gathers the changes elsewhere, which made twice must be as made once.
    copied : collection of steps
        Steps that `learn` does more with than to let them learn once.

    Notes
    -----
    Steps that do not learn as a whole or not at all learn in a copy of them, which is all that
    this costs.
    """
    steps, last = steps_of(model), last_step(model)
    shared = [step for step in steps if isinstance(step, WHOLE) and step not in copied]
    ahead = Ahead(model, shared) if len(shared) < len(steps) else None

    def finish() -> None:
        """Make all changes but those of the last step."""
        commit = Commit()
        if ahead is not None:
            ahead.gather(commit)
        gather(commit)
        commit.make()

    learner = model if ahead is None else ahead.copy
    learn_and_finish(last if last in shared else None, lambda: learn(learner), finish)
