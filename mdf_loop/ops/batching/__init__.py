"""Rules that compute an operation for many runs at once, one file per family."""
