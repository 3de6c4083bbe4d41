"""What a run gives: labelled arrays, their files and plots."""
