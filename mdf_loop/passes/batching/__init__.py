"""Batching: one program that computes all members of a parameter sweep."""
