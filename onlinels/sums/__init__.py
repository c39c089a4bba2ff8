"""What is remembered of a stream: sums of products, the weights that solve them, and the ridge.

A file here imports only from `rows`, `saving`, `checks` and `numerics`.
"""
