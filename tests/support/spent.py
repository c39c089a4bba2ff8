"""A state that a change of rows has replaced raises when it is used: it has lent its arrays."""

from onlinels.linear.model import learn_new
from onlinels.linear.state import Change, State


class Spent(State):
    def __getattribute__(self, name):
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"a state that was replaced is used: {name}")


def planned(change, holder, original=Change.planned):
    """Return the calls of a change, and one that spends the state before it."""
    old, calls = holder._state, original(change, holder)
    return calls if old is change.state else (*calls, (object.__setattr__, old, "__class__", Spent))


def learnt_new(model, x, y, w, t, original=learn_new):
    """Let the core learn a row with new names or a new label; the state before it is spent then."""
    old, is_learnt = model._state, original(model, x, y, w, t)
    if is_learnt:
        object.__setattr__(old, "__class__", Spent)
    return is_learnt
