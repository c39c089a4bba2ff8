"""Stage 2 of the paper up to its linear layer: input weights and activations."""
