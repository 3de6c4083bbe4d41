"""Execution of models by modeci_mdf's own engine."""
