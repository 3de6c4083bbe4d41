"""Execution of programs by ONNX Runtime: sessions, devices, threads and errors."""
