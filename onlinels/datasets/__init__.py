"""Readers of image data sets in their genuine formats, from a path that the user names."""

from onlinels.datasets.folder import ImageData, read_image_data

__all__ = ["ImageData", "read_image_data"]
