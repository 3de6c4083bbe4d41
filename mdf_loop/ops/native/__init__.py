"""Machine code of single operations: the field `native` of rows."""
