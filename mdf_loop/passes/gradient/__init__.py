"""Derivatives of programs: what goes backward through loops and choices, and what goes forward."""
