"""Derivatives of small models with and without native loops, which must agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import mdf_loop


def derivatives(
    source: Any, inputs: Mapping[str, Any], of: str = "m.z", word: Any = "sum", check: bool = True
) -> dict[str, Any]:
    """Return the derivatives of an output by each float input; omit the finite-difference check at kinks."""
    wrt = [name for name, value in inputs.items() if np.asarray(value).dtype.kind == "f"]
    gradients = [
        mdf_loop.compile(source, native=native, device="cpu").gradient(
            {of: word}, wrt, inputs=inputs, check=check
        )
        for native in ("off", "auto")
    ]
    for name in wrt:
        np.testing.assert_allclose(gradients[1][name], gradients[0][name], rtol=1e-12, atol=1e-14)
    return {name: array.tolist() for name, array in gradients[0].items()}
