"""Machine code of single operations, which the operation registry (`ops`) refers to."""
