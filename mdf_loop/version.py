"""Version of this package, which is written into its files."""

__version__ = "0.1.0"

NUMBER_FORMAT = 1
"""Raised only by a release in which an equal run gives numbers with other last bits."""
