"""A run in chunks: it is followed, shown, saved from time to time, and stopped when it must be."""
