"""Recording of model outputs during runs: in memory or on disk, reductions, checks for nan."""
