"""Rows as they are read: dicts, arrays, frames and sparse matrices become named columns."""
