"""Save models to files, completely or not at all, and load them without running any code.

A class declares its attributes with the decorator `savable`, one field per attribute; `save` and
`load` do the rest.
"""

from onlinels.saving import river_models as river_models
from onlinels.saving.fields import *  # noqa: F403 (all kinds of fields, to be named beside classes)
from onlinels.saving.files import PathLike as PathLike
from onlinels.saving.files import dumps as dumps
from onlinels.saving.files import load as load
from onlinels.saving.files import loads as loads
from onlinels.saving.files import locked_copy as locked_copy
from onlinels.saving.files import locked_state as locked_state
from onlinels.saving.files import save as save
from onlinels.saving.files import save_method as save_method
