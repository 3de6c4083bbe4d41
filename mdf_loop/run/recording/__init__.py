"""Recording of runs: rows, reductions, and the search for nan."""
