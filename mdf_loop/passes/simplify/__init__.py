"""Simplifications: fewer and cheaper operations with bit-identical results."""
