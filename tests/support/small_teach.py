"""The demo of teaching by hand with a small network, which is drawn and loaded at once."""

from contextlib import contextmanager
from unittest import mock

from teach import session


@contextmanager
def small_network():
    """Make the demo use a network of 100 hidden units on 1,075 features."""
    with mock.patch.dict(session.SETTINGS, n_hidden=100, stride=4):
        for made in (session.blank, session.taught_digits):
            made.cache_clear()
        yield
    for made in (session.blank, session.taught_digits):
        made.cache_clear()
