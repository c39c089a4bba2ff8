"""Which axes arrays have: one function moves all arrays of an object to other columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from onlinels.checks import Integers, Matrix
from onlinels.numerics import Thing, enlarged, shallow_copy

Axis = Literal["features", "targets", "columns"]
"""An axis of features, of targets, or of features followed by targets."""


AXES: dict[type, dict[str, tuple[Axis, ...]]] = {}
"""The axes of the arrays of every class that is moved, by attribute."""


def has_axes(**axes: tuple[Axis, ...]) -> Callable[[type[Thing]], type[Thing]]:
    """Declare the axes of the arrays of a class; () of objects whose classes declare their own."""

    def declare(kind: type[Thing]) -> type[Thing]:
        AXES[kind] = axes
        return kind

    return declare


class HasShape(Protocol):
    """An object that knows its numbers of features and of targets."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""


Shaped = TypeVar("Shaped", bound=HasShape)


class Places(NamedTuple):
    """The old places of new features and targets; -1 stands for a column that is 0 so far.

    Attributes
    ----------
    features, targets : ndarray of int
        The place in the old arrays of every feature and target of the new arrays.
    n_features : int
        Number of features of the old arrays.

    Examples
    --------
    >>> places = Places(np.array([1, -1]), np.array([-1, 0]), n_features=2)
    >>> places.of("columns")
    array([ 1, -1, -1,  2])
    """

    features: Integers
    targets: Integers
    n_features: int

    @classmethod
    def for_growth(cls, old: tuple[int, int], new: tuple[int, int]) -> Places:
        """Return the places for new features and targets after the old ones, which all stay."""
        size = max(old[0], new[0]), max(old[1], new[1])
        return cls.for_union(np.arange(old[0]), np.arange(old[1]), size)

    @classmethod
    def for_union(cls, features: Integers, targets: Integers, new: tuple[int, int]) -> Places:
        """Return the places for `new` columns, given the new place of every old one."""
        return cls(origins(features, new[0]), origins(targets, new[1]), len(features))

    def of(self, axis: Axis) -> Integers:
        """Return the old place of every new entry of an axis."""
        if axis == "features":
            return self.features
        if axis == "targets":
            return self.targets
        targets = np.where(self.targets < 0, -1, self.n_features + self.targets)
        return np.concatenate((self.features, targets))


def reindexed(thing: Thing, places: Places) -> Thing:
    """Return an object of other features and targets, whose new entries are 0.

    It shares arrays in which nothing changes with the old object, so that only one of both may
    learn afterwards. None stays None. A class for which moving entries is not enough has a method
    `reindexed` of its own.
    """
    own = getattr(thing, "reindexed", None)
    moved: Thing = moved_by_axes(thing, places) if own is None else own(places)
    return moved


def moved_by_axes(thing: Thing, places: Places) -> Thing:
    """Return an object whose arrays are moved along the axes that its class declares."""
    changes: dict[str, Any] = {}
    for name, axes in AXES[type(thing)].items():
        old = getattr(thing, name)
        if old is None:
            continue
        if not axes:
            changes[name] = reindexed(old, places)
            continue
        changes[name] = gathered(old, *map(places.of, axes))
    return with_changes(thing, changes)


def with_changes(thing: Thing, changes: dict[str, Any]) -> Thing:
    """Return an object with other attributes; the old object does not change."""
    if isinstance(thing, tuple):
        replaced: Thing = thing._replace(**changes)  # type: ignore[attr-defined]
        return replaced
    new = shallow_copy(thing)
    vars(new).update(changes)
    return new


class Room(NamedTuple):
    """The numbers of features and of targets, before and after others that were 0 so far come last.

    `reindexed` with `Places.for_growth` does the same, but asks for the place of every column.
    """

    old: tuple[int, int]
    new: tuple[int, int]

    def of(self, thing: Thing) -> Thing:
        """Return an object with this room; it shares arrays in which nothing changes."""
        own = getattr(thing, "with_room", None)
        if own is not None:
            made: Thing = own(self)
            return made
        changes: dict[str, Any] = {}
        for name, axes in AXES[type(thing)].items():
            old = getattr(thing, name)
            if old is not None:
                changes[name] = self.array(old, axes) if axes else self.of(old)
        return with_changes(thing, changes)

    def array(self, old: Matrix, axes: tuple[Axis, ...]) -> Matrix:
        """Return an array with this room along its axes, or the array itself."""
        (m, n), (n_old, n_targets) = self.new, self.old
        lengths = {"features": m, "targets": n, "columns": m + n}
        shape = tuple([lengths[axis] for axis in axes])
        if old.shape == shape:
            return old
        made = np.zeros(shape, old.dtype, order="F")
        if axes[-1] == "columns":
            made[..., :n_old] = old[..., :n_old]
            made[..., m : m + n_targets] = old[..., n_old:]
        else:
            made[tuple(map(slice, old.shape))] = old
        return made


def grown(thing: Shaped, n_features: int, n_targets: int) -> Shaped:
    """Return an object with room for features and targets that were 0 so far, or the object."""
    old = thing.shape
    if old[0] >= n_features and old[1] >= n_targets:
        return thing
    return Room(old, (max(old[0], n_features), max(old[1], n_targets))).of(thing)


def gathered(array: Matrix, *places: Integers) -> Matrix:
    """Return the entries at given places of every axis, in Fortran order; 0 for the place -1.

    The result is the array itself if nothing changes.

    Examples
    --------
    >>> gathered(np.array([2.0, 3.0]), np.array([1, -1, 0]))
    array([3., 0., 2.])
    """
    if all(map(is_growth, places, array.shape)):
        return enlarged(array, *map(len, places))
    made = np.zeros([len(each) for each in places], array.dtype, order="F")
    known = [np.flatnonzero(each >= 0) for each in places]
    made[np.ix_(*known)] = array[np.ix_(*(a[k] for a, k in zip(places, known, strict=True)))]
    return made


def is_growth(places: Integers, size: int) -> bool:
    """Return whether places to gather are all old places, in their order, before new places."""
    known, new = places[:size], places[size:]
    return len(known) == size and not ((known != np.arange(size)).any() or (new >= 0).any())


def origins(places: Integers, size: int) -> Integers:
    """Return places to gather that put old entries at given places of an array of `size`.

    Examples
    --------
    >>> origins(np.array([2, 0]), 3)
    array([ 1, -1,  0])
    """
    found = np.full(size, -1)
    found[places] = np.arange(len(places))
    return found
