"""Rules that compute an operation for many runs at once, with one module per family of operations."""
