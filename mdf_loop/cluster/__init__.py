"""Dask clusters: connections, workers, tasks, and the division of sweep members into blocks."""
