"""Operations that ONNX Runtime's CPU provider lacks for a dtype, made of those that it has."""
