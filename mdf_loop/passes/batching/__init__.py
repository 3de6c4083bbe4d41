"""Many runs at once: one program for all members of a sweep."""
