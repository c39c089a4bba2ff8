"""Stage 1 of the paper in general form: filter, pool, and the transformers that do it."""
