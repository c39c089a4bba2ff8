"""Changes that are made as one, and copies that learn ahead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from onlinels.commit import AT_ONCE, Commit, DraftCommit


def test_what_fails_is_tried_once_more_and_the_others_are_made():
    rows, tried = [], []

    def scarce(value):
        tried.append(value)
        if len(tried) == 1:
            raise MemoryError

    commit = Commit()
    commit.then(rows.append, 1)
    commit.then(scarce, 2)
    commit.then(rows.append, 3)
    with pytest.raises(MemoryError):
        commit.make()
    assert (rows, tried) == ([1, 3], [2, 2])
    Commit().make()


def test_scratch_is_free_once_for_changes_that_wait_and_always_for_those_that_do_not():
    assert [AT_ONCE.takes_scratch() for _ in range(3)] == [True] * 3
    for commit in (Commit(), DraftCommit()):
        assert [commit.takes_scratch() for _ in range(3)] == [True, False, False]


def test_plans_see_what_was_assigned_to_drafts():
    owner = SimpleNamespace(count=0)
    for commit, seen in ((Commit(), 0), (DraftCommit(), 1), (AT_ONCE, 1)):
        owner.count = 0
        commit.assign(owner, count=1)
        assert owner.count == seen
    commit = DraftCommit()
    commit.set(owner, count=5)
    assert owner.count == 1
    commit.make()
    assert owner.count == 5
