"""Segments of a program, split at its loops, so that a loop can run a few iterations at a time."""
