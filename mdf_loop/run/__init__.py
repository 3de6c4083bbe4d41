"""Execution of programs and models: back ends, chunks and recorded rows."""
