"""Public entry points: `compile`, and the methods of compiled models."""
