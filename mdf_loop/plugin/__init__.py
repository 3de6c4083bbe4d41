"""Plugin that lets modeci_mdf's own engine run `onnx::Loop`."""

from mdf_loop.plugin.install import register, unregister

__all__ = ["register", "unregister"]
