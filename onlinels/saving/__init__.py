"""Models in files: written whole or not at all, read without running anything."""

from onlinels.saving.fields import *  # noqa: F403
from onlinels.saving.files import Savable as Savable
from onlinels.saving.kinds import savable as savable
from onlinels.saving.files import Savable as Savable
