"""Where tests run programs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from mdf_loop.emit import SessionModel
from mdf_loop.native.bounds import VARIABLE
from mdf_loop.onnx_session import inference_session
from mdf_loop.run.device import Device, Placement
from mdf_loop.run.onnxruntime import session
from mdf_loop.run.onnxruntime.device import INEXACT_ON_CUDA, PlacedModel

STANDARD = Placement("cpu", native="off")
"""On the CPU, by ONNX Runtime's own operators alone."""

NATIVE = Placement("cpu")
"""On the CPU, loops as machine code where they can be."""

REQUIRED = Placement("cpu", native="require")
"""On the CPU, all loops as machine code."""


@contextmanager
def kernels_checked(checked: bool = True) -> Iterator[None]:
    """Native loops that are made meanwhile check, or do not check, what they read and write."""
    with mock.patch.dict(os.environ, {VARIABLE: str(int(checked))}):
        yield


@contextmanager
def written_for_cuda() -> Iterator[None]:
    """Sessions that are made meanwhile run on the CPU what CUDA would be given."""

    def opened(model: SessionModel, _: str, options: Any) -> PlacedModel:
        onnx_session = inference_session(
            model.on_cuda().SerializeToString(), options, disabled_optimizers=list(INEXACT_ON_CUDA)
        )
        return PlacedModel(onnx_session, Device("cpu", "a test"))

    with mock.patch.object(session, "open_session", opened):
        yield
