"""What is remembered of a stream: sums of products, and the weights that solve them."""
