"""How operations are computed for many values at once: one file per family."""
