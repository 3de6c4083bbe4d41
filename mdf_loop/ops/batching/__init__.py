"""Rules that compute an operation for a batch of model runs, with one module per family."""
