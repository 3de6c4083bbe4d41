"""Derivatives of programs in forward and reverse mode, through loops and conditionals."""
