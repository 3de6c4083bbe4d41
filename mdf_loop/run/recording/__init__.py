"""What is kept of a run: rows, reductions, and what is watched."""
