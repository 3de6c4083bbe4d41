"""Results of a run: labelled arrays, the files that they are saved to, and plots."""
