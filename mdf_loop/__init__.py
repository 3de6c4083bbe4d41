"""Loops for MDF models: run onnx::Loop nodes on ONNX Runtime, and draw them."""
