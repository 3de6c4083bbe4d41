"""Execution of models: engines, step-by-step execution, recording of outputs, checkpoints."""
