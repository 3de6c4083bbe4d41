"""Differentiated models that are ready to run, in one program or in chunks of a long run."""
