"""Models in files: written whole or not at all, read without running anything."""
