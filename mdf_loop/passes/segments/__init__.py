"""A program cut at its loops, so that these can be run a few iterations at a time."""
