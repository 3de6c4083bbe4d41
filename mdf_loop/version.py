"""The version of this library: whoever writes files says it in them."""

__version__ = "0.1.0"
