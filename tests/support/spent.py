"""A state that a change of rows has replaced raises when it is used: it has lent its arrays."""

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
