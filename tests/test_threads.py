"""Work on parts at the same time."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import threads
from onlinels.numerics import VARIABLES, Scratch, even_parts, in_threads, n_threads

N_CORES = threads._n_cores
PARTS = [slice(number, number + 1) for number in range(7)]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("onlinels.threads._n_cores", lambda: 16)


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_environment_says_how_many_threads(monkeypatch, variable):
    cores = n_threads()
    for text, expected in {
        "3": 3,
        "1": 1,
        "": cores,
        "0": cores,
        "many": cores,
        "-2": cores,
        "99": cores,
    }.items():
        monkeypatch.setenv(variable, text)
        assert n_threads() == expected


@pytest.mark.parametrize("threads", ["1", "2", "9"])
def test_every_part_is_dealt_with_once(monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    done = []
    in_threads(done.append, PARTS)
    assert sorted(done, key=lambda part: part.start) == PARTS
    in_threads(done.append, [])
    assert len(done) == len(PARTS)


def test_parts_are_dealt_with_at_the_same_time(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    together = threading.Barrier(2, timeout=60)
    in_threads(lambda part: together.wait(), PARTS[:2])


@pytest.mark.parametrize("threads", ["1", "3"])
def test_what_goes_wrong_is_raised_and_no_thread_is_left(monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    before = threading.active_count()

    def work(part):
        if part.start == 4:
            raise ValueError("at four")

    with pytest.raises(ValueError, match="at four"):
        in_threads(work, PARTS)
    assert threading.active_count() == before


@given(st.integers(0, 500), st.integers(1, 40), st.integers(1, 200), st.sampled_from("1237"))
def test_parts_are_whole_steps_and_alike(n, step, most, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", threads)
        parts = even_parts(n, step, most)
    assert [place for part in parts for place in range(n)[part]] == list(range(n))
    sizes = [part.stop - part.start for part in parts]
    assert all(size % step == 0 for size in sizes[:-1])
    assert len(set(sizes[:-1])) <= 1
    assert all(0 < size < most + step for size in sizes)
    assert len(parts) <= int(threads) * max(1, -(-n // (most * int(threads))))


def test_scratch_gives_what_fits_and_grows():
    scratch = Scratch()
    small = scratch.array("sums", (2, 3), np.float64)
    large = scratch.array("sums", (4, 5), np.float64)
    assert (small.shape, large.shape) == ((2, 3), (4, 5))
    assert np.shares_memory(large, scratch.array("sums", (3, 1), np.float64))
    assert not np.shares_memory(large, scratch.array("others", (3,), np.float64))
    assert scratch.array("sums", (3,), np.float32).dtype == np.float32


def test_scratch_does_not_hold_what_is_large(monkeypatch):
    monkeypatch.setattr(threads, "LARGEST_HELD", 5)
    scratch = Scratch()
    assert scratch.array("sums", (6,), np.float64).shape == (6,)
    assert scratch._held == {}


def test_cores_are_counted_where_no_process_has_its_own(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert N_CORES() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert N_CORES() == 1


def test_every_thread_has_scratch_of_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    scratch, together, held = Scratch(), threading.Barrier(2, timeout=60), {}

    def work(part):
        together.wait()
        held[part.start] = scratch.array("sums", (4,), np.float64)

    in_threads(work, PARTS[:2])
    assert not np.shares_memory(held[0], held[1])
