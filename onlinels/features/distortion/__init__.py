"""Small random distortions of images: affine maps and elastic fields."""
