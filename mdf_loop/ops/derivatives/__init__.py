"""Derivatives of operations: what the table of operations knows of them, family by family."""
