"""Execution of programs by ONNX Runtime: sessions, devices and errors."""
