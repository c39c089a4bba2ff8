"""Banks of convolution filters: designed by hand, made from patches, read from files."""
