"""Plugin that executes `onnx::Loop` in modeci_mdf's own engine."""

from mdf_loop.plugin.install import register, unregister

__all__ = ["register", "unregister"]
