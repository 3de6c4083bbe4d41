"""Version of this package."""

__version__ = "0.1.0"

NUMBER_FORMAT = 1
"""Version of the numbers: a release increments it if equal runs give different bits than before."""
