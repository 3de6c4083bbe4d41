"""Programs and models to numbers: back ends, chunks, rows."""
