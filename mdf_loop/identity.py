"""What a run is, so that only the same one goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Data
from mdf_loop.run.overseeing.checkpoint import digest_of_arrays, digest_of_document

if TYPE_CHECKING:
    from mdf_loop.choices import Choices
    from mdf_loop.compiled import Compiled
    from mdf_loop.request import Request


def identity(
    compiled: Compiled, asked: Request, choices: Choices, kept: Iterable[str]
) -> dict[str, str]:
    """Everything that the numbers of a run depend on, and the names of what is kept of them.

    Not the number of steps: a longer run is the same one.
    """
    options = compiled.options  # without what a time limit allows
    said = {
        "run": "one evaluation" if choices.steps is None else "over time",
        "kept": ", ".join(kept),
        "device": compiled.wanted_device,
        "precision": options.precision,
        "shapes": options.shapes,
        "max_iterations": options.max_iterations,
        "unroll": options.unroll,
        "dt": choices.dt,
        "every": choices.every,
        "when": choices.when,
        "execution_list": choices.execution_list or None,
        "output": choices.output if choices.streams else None,
        "nan": "watched" if choices.chosen.watch else None,
    }
    settings = asked.settings.arrays.items()
    return {
        "model": digest_of_document(compiled.document),
        **{word: str(value) for word, value in said.items() if value is not None},
        **_digests("input", asked.given.arrays),
        **_digests("parameter", {name.removeprefix("set "): array for name, array in settings}),
        **_digests("sweep", asked.members),
        **({} if choices.state is None else {"state": digest_of_arrays(choices.state)}),
    }


def _digests(kind: str, arrays: Mapping[str, Data]) -> dict[str, str]:
    return {f"{kind} {name}": _digest(name, data) for name, data in arrays.items()}


def _digest(name: str, data: Any) -> str:
    """A digest of an array, of the members of a sequence, or of nothing."""
    members = [data] if isinstance(data, np.ndarray) else list(data or ())
    return digest_of_arrays({f"{name} {k}": np.asarray(m) for k, m in enumerate(members)})
