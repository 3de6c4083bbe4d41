"""Execution of differentiated models, as one program or chunk by chunk for long runs."""
