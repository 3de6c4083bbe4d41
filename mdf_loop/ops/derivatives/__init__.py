"""Derivatives of operations, one file per family of operators."""
