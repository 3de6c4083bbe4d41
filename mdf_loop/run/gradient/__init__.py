"""Execution of differentiated models: in one call, or in chunks for long runs over time."""
