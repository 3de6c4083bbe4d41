"""Programs on ONNX Runtime: sessions, devices, errors in our words."""
