"""How machine code computes one operation: the `native` of rows."""
