"""Decompositions of operations for dtypes without a kernel in ONNX Runtime's CPU provider."""
