"""Execution of models in modeci_mdf's own engine."""
