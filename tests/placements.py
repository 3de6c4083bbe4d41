"""Context managers that enable bounds checks or the program form for CUDA in tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from mdf_loop.emit import SessionModel
from mdf_loop.native.bounds import CHECK_VARIABLE
from mdf_loop.onnx_session import inference_session
from mdf_loop.run.device import Device, Placement
from mdf_loop.run.onnxruntime import session
from mdf_loop.run.onnxruntime.device import INEXACT_ON_CUDA, PlacedModel

STANDARD = Placement("cpu", native="off")
"""CPU with standard ONNX Runtime operators."""

NATIVE = Placement("cpu")
"""CPU with native loops where possible."""

REQUIRED = Placement("cpu", native="require")
"""CPU with native code for all loops."""


@contextmanager
def kernels_checked(checked: bool = True) -> Iterator[None]:
    """Enable or disable bounds checks in native loops that are compiled inside this context."""
    with mock.patch.dict(os.environ, {CHECK_VARIABLE: str(int(checked))}):
        yield


@contextmanager
def written_for_cuda() -> Iterator[None]:
    """Run on the CPU the models that CUDA would get, for sessions created inside this context."""

    def opened(model: SessionModel, _: str, options: Any) -> PlacedModel:
        onnx_session = inference_session(
            model.model_for_cuda().SerializeToString(),
            options,
            disabled_optimizers=list(INEXACT_ON_CUDA),
        )
        return PlacedModel(onnx_session, Device("cpu", "a test"))

    with mock.patch.object(session, "open_session", opened):
        yield
