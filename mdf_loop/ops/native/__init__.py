"""Machine code of single operations, to which the registry field `native` refers."""
