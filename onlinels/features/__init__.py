"""Features that are fixed before the first row: of images, of windows, hidden units, embeddings.

A file here imports only from `rows`, `saving`, `checks`, `core` and `numerics`.
"""
