"""Legalization: replace operations that ONNX Runtime cannot run, or computes wrongly."""
