"""Fewer and cheaper operations, the same bits."""
