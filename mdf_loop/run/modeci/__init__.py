"""Models in modeci_mdf's own engine."""
