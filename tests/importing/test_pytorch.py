"""Models with control flow exported from PyTorch, by both of its exporters, give PyTorch's numbers.

These tests run where torch and onnxscript are installed.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mdf_loop

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]


# --- torch.jit.script, exported by the older exporter ------------------------------------------


@torch.jit.script
def decide_and_repeat(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x
    for i in range(n):
        if bool(y.sum() > 10):  # noqa: SIM108 - an ONNX If is to come of it
            y = y * 0.5 + x
        else:
            y = y + x * i
    return y


@torch.jit.script
def double_below(x: torch.Tensor, limit: float) -> torch.Tensor:
    while bool((x < limit).all()):
        x = x * 2
    return x


class Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return decide_and_repeat(x, n)


class ScriptedWhile(torch.nn.Module):
    def forward(self, x: torch.Tensor, limit: float) -> torch.Tensor:
        return double_below(x, limit)


# --- torch.export and the newer exporter -------------------------------------------------------


class WhileLoop(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(
            lambda i, x: (i < 5) & (x.sum() < 40),
            lambda i, x: (i + 1, x * 2 + 1),
            (torch.tensor(0), x),
        )


class Condition(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class LeakyScan(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decay = torch.nn.Parameter(torch.tensor(0.9))

    def forward(self, drive: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(v: torch.Tensor, i: torch.Tensor) -> Any:
            v = v * self.decay + i
            return v, v * 1.0

        return scan(step, torch.zeros(drive.shape[1]), drive)


VECTOR = torch.tensor([1.0, 2.0, 3.0])
CASES = {
    "scripted for and if": (torch.jit.script(Scripted()), (VECTOR, 7), False),
    "scripted for, none": (torch.jit.script(Scripted()), (VECTOR, 0), False),
    "scripted while": (torch.jit.script(ScriptedWhile()), (VECTOR, 50.0), False),
    "while_loop": (WhileLoop(), (VECTOR,), True),
    "cond, true": (Condition(), (VECTOR,), True),
    "cond, false": (Condition(), (-VECTOR,), True),
    "scan": (LeakyScan(), (torch.arange(12.0).reshape(4, 3),), True),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_equal_pytorch(name: str, tmp_path: Path) -> None:
    module, inputs, dynamo = CASES[name]
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, str(path), dynamo=dynamo)
    expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    compiled = mdf_loop.compile(path, device="cpu")
    feeds = dict(zip(input_names(path), map(np.asarray, inputs), strict=True))
    results = list(compiled.run(feeds).values())
    assert len(results) == len(expected)
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-6)


def input_names(path: Path) -> list[str]:
    return [value.name for value in onnx.load(path).graph.input]
