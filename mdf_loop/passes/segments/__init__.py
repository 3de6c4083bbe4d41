"""Splitting of programs at their loops, so that a loop can run a few iterations at a time."""
