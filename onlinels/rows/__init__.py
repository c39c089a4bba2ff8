"""Rows as they are read: dicts, arrays, frames and sparse matrices become named columns.

A file here imports only from `saving`, `checks` and `numerics`.
"""
