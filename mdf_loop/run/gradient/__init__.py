"""Differentiated models that are loaded, as one program or in chunks of a long run."""
