"""Fixed features: convolution, square, pooling and fourth root; hidden activations."""
