"""Save models to files, completely or not at all, and load them without running any code.

A class that can be saved says so with the decorator `savable`; `save` and `load` do the rest.
"""

from onlinels.saving.description import in_plain_types as in_plain_types
from onlinels.saving.description import is_plain as is_plain
from onlinels.saving.description import is_small as is_small
from onlinels.saving.description import savable as savable
from onlinels.saving.description import settings_hold as settings_hold
from onlinels.saving.files import PathLike as PathLike
from onlinels.saving.files import Taken as Taken
from onlinels.saving.files import attributes_of as attributes_of
from onlinels.saving.files import dumps as dumps
from onlinels.saving.files import load as load
from onlinels.saving.files import loads as loads
from onlinels.saving.files import locked_copy as locked_copy
from onlinels.saving.files import locked_deepcopy as locked_deepcopy
from onlinels.saving.files import locked_state as locked_state
from onlinels.saving.files import locks_of as locks_of
from onlinels.saving.files import save as save
from onlinels.saving.files import save_method as save_method
from onlinels.saving.files import unpacked_state as unpacked_state
