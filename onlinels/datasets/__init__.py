"""Download published image data sets, and read them in their original formats."""

from onlinels.datasets.download import download
from onlinels.datasets.folder import ImageData, read_image_data, stream_image_data
from onlinels.datasets.idx import read_idx
from onlinels.datasets.norb import read_norb

__all__ = ["ImageData", "download", "read_idx", "read_image_data", "read_norb", "stream_image_data"]
