"""What users call: `compile`, and what a run is asked for."""
