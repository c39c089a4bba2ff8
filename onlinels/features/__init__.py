"""Features that are fixed before the first row: of images, of windows, hidden units, embeddings."""
