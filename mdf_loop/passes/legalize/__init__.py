"""Operations that ONNX Runtime can run, for those that it cannot."""
