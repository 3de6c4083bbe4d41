"""Results of a run: labelled arrays, their export to files, and plots."""
