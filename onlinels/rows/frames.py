"""What is used of narwhals, and of river.utils, which imports it.

Both take three times as long to import as this package, so this module is imported where a frame is
read or made. All of them are imported here, because Python lets only one thread import a module:
threads that import several modules of narwhals themselves find it half imported.
"""

import narwhals.stable.v2 as nw
from narwhals.dependencies import get_pyarrow, is_into_dataframe, is_into_series
from narwhals.exceptions import DuplicateError
from river.utils.dataframe import to_native_frame, to_native_series, to_numpy

__all__ = ["DuplicateError", "get_pyarrow", "is_into_dataframe", "is_into_series", "nw"]
__all__ += ["to_native_frame", "to_native_series", "to_numpy"]
