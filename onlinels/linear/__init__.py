"""Linear models behind river's interface: columns, statistics and a ridge.

A file here imports only from `sums`, `rows`, `saving`, `checks` and `numerics`.
"""
