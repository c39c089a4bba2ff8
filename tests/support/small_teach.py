"""The demo of teaching by hand with small networks, which are drawn and loaded at once."""

from contextlib import contextmanager
from unittest import mock

from teach import kinds


@contextmanager
def small_network():
    """Make the demo use networks of 100 hidden units, on 1,075 features for drawings."""
    smaller, settings = {"n_hidden": 100, "stride": 4}, (kinds.SETTINGS, kinds.OF_PHOTOS)
    with mock.patch.dict(settings[0], smaller), mock.patch.dict(settings[1], smaller):
        for made in (kinds.blank, kinds.blank_of_photos, kinds.taught_digits):
            made.cache_clear()
        yield
    for made in (kinds.blank, kinds.blank_of_photos, kinds.taught_digits):
        made.cache_clear()
