"""Decompositions of operations for which ONNX Runtime's CPU provider has no kernel of the dtype."""
