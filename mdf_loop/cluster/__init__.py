"""Dask clusters: connection, environment of workers, partition of members into blocks, and tasks."""
