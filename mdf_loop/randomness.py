"""What is refused because of operations that draw random numbers.

ONNX Runtime makes a generator for each of them when a session begins. Generators of two sessions
begin alike, none can be saved, and none draws for each member of a sweep. So one evaluation of a
model may draw; what takes several sessions, or draws for several members, is refused.

Source: onnxruntime/core/providers/cpu/generator/random.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import Op, Operation, Program, walk
from mdf_loop.ops import row_of
from mdf_loop.ops.registry import title


@dataclass(frozen=True, slots=True)
class Purpose:
    """What cannot be done with a model that draws: the rest of the sentence, and the advice."""

    what: str
    hint: str


OVER_TIME = Purpose(
    "it cannot run over time: steps would repeat what others have drawn",
    "give the noise as an input, with a row for each step",
)
SAVED = Purpose(
    "it has no checkpoint: a run that goes on would draw the first ones again",
    "leave checkpoint and resume out, or give the noise as an input",
)
COMPARED = Purpose(
    "there is nothing to compare: each engine draws its own",
    "give the noise as an input, the same for all",
)


def random_operations(ops: Iterable[Operation]) -> Iterator[Op]:
    """The operations that draw, those in bodies too."""
    return (op for op in walk(ops) if isinstance(op, Op) and row_of(op.op_type).random)


def refuse_random(purpose: Purpose, *programs: Program) -> None:
    """Refuse programs that draw random numbers, each operator by name and place.

    Raises:
        UnsupportedError: a program does.
    """
    raise_findings(
        Finding(
            "UnsupportedError",
            f"{title(op.op_type)} draws random numbers, so {purpose.what}",
            op.where,
            purpose.hint,
        )
        for program in programs
        for op in random_operations(program.ops)
    )
