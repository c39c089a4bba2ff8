"""Teach a classifier by hand, in a browser: run the folder, `python demos/teach`."""
