"""Many processes, on one machine or more, that share work: connecting to them, cutting work, asking them."""
