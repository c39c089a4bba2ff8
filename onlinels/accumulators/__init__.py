"""What is remembered of the stream: statistics, with sums of products in one of three forms.

A file here imports only `linalg`, `rows`, `labels`, `hashing` and what is below them.
"""
