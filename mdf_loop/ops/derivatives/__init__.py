"""Derivatives of operations, with one module per family of operators."""
