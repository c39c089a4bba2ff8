"""Changes that are made as one, and copies that learn ahead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from river.base import Base

from onlinels.ahead import Ahead
from onlinels.commit import AT_ONCE, Commit, DraftCommit
from onlinels.finishing import learn_and_finish


class Mean(Base):
    """River's kind of object."""


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


@pytest.mark.parametrize("learns_first", [True, False])
def test_what_was_learnt_before_an_interrupt_is_finished(learns_first):
    model, finished = SimpleNamespace(count=0), []

    def learn():
        model.count += learns_first
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_and_finish(model, learn, lambda: finished.append(1))
    assert finished == [1] * learns_first


def test_attributes_that_a_copy_loses_are_lost_when_it_takes_over():
    model = Mean()
    model.first_row, model.count = [1.0], 0
    known = {**vars(model)}
    ahead, commit = Ahead(model), Commit()
    del ahead.copy.first_row
    ahead.copy.count = 1
    ahead.gather(commit)
    assert vars(model) == known
    commit.make()
    assert vars(model).keys() == known.keys() - {"first_row"}
    assert model.count == 1
