"""What a loop or a choice takes and gives at each terminal of its rails, by the terminal's key.

for i in range(n): x' = f(x, a)        # M, cond, carried, captured
takes   N: n    v0: the initial x    o0: a
inner   i: i    x: v0                a: o0
leaving v0 <- x'
back    v0 -> v0
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mdf_loop.drawing.rails import Rows, choice_rows, rail_rows, tested
from mdf_loop.drawing.theme import LEVELS
from mdf_loop.drawing.view import View
from mdf_loop.outline import Block, CaptureOutline, ChoiceOutline, LoopOutline
from mdf_loop.outline.text import value_text

ALL = View(LEVELS[-1])
"""A page has all that a picture of the highest level says."""


class Intake(Struct, frozen=True):
    """A terminal of the left rail that reads expressions of the surroundings."""

    key: str
    expressions: tuple[Any, ...]
    kind: str = "data"


class Terminals(Struct, frozen=True):
    """The rails of a block, and what meets them outside and inside.

    `takes` is what each left terminal reads; `ports` which right terminal gives an output port of the
    node; `results` the right terminals by position; `inner` by the name that the body knows, a left
    terminal and its stroke; `leaving` the right terminals in the order of the body's outputs; `back`
    what leads from right to left, with its label.
    """

    rows: Rows
    takes: tuple[Intake, ...]
    ports: dict[str, str]
    results: tuple[str, ...]
    inner: dict[str, tuple[str, str]]
    leaving: tuple[str, ...] = ()
    back: tuple[tuple[str, str, str], ...] = ()


def terminals(block: Block) -> Terminals:
    """The terminals of a block."""
    match block:
        case LoopOutline():
            return _loop(block)
        case ChoiceOutline():
            return _choice(block)


def _loop(loop: LoopOutline) -> Terminals:
    carried = tuple(f"v{k}" for k in range(len(loop.carried)))
    recorded = tuple(f"r{k}" for k in range(len(loop.recorded)))
    arguments = (("N", loop.trip_count), ("c", loop.start))
    takes = [Intake(key, (said.expression,)) for key, said in arguments if said is not None]
    takes += [Intake(f"v{k}", (pair.initial,)) for k, pair in enumerate(loop.carried)]
    takes += [Intake(f"s{k}", (part.source,)) for k, part in enumerate(loop.slices)]
    takes += [Intake(f"d{k}", (delay.initial,)) for k, delay in enumerate(loop.delays)]
    inner = _captured(loop.captures)
    inner |= {pair.enter: (f"v{k}", "data") for k, pair in enumerate(loop.carried)}
    inner |= {part.name: (f"s{k}", "data") for k, part in enumerate(loop.slices)}
    inner |= {delay.name: (f"d{k}", "data") for k, delay in enumerate(loop.delays)}
    inner |= {loop.iteration: ("i", "data"), loop.condition_in: ("c", "data")}
    inner.pop("", None)
    results = (*carried, *recorded)
    ports = dict(_taken(zip(loop.result_ports, results, strict=True)))
    ports |= dict(_taken((told.ports, f"x{k}") for k, told in enumerate(loop.results)))
    return Terminals(
        rows=rail_rows(loop, ALL),
        takes=(*takes, *_captures(loop.captures)),
        ports=ports,
        results=results,
        inner=inner,
        leaving=("c" if tested(loop) else "", *results),
        back=(*((key, key, "t+1") for key in carried), *_delayed(loop)),
    )


def _delayed(loop: LoopOutline) -> list[tuple[str, str, str]]:
    leaving = {pair.leave: f"v{k}" for k, pair in enumerate(loop.carried)}
    leaving |= {row.name: f"r{k}" for k, row in enumerate(loop.recorded)}
    return [
        (leaving[delay.of], f"d{k}", f"t+{value_text(delay.back)}")
        for k, delay in enumerate(loop.delays)
        if delay.of in leaving
    ]


def _choice(choice: ChoiceOutline) -> Terminals:
    results = tuple(f"r{k}" for k in range(len(choice.joins)))
    return Terminals(
        rows=choice_rows(choice, ALL.detail, ALL.captures),
        takes=(Intake("c", tuple(choice.expressions)), *_captures(choice.captures)),
        ports=dict(_taken(zip(choice.result_ports, results, strict=True))),
        results=results,
        inner=_captured(choice.captures),
        leaving=results,
    )


def _captures(captures: tuple[CaptureOutline, ...]) -> list[Intake]:
    return [Intake(f"o{k}", (capture.name,), "capture") for k, capture in enumerate(captures)]


def _captured(captures: tuple[CaptureOutline, ...]) -> dict[str, tuple[str, str]]:
    return {capture.name: (f"o{k}", "capture") for k, capture in enumerate(captures)}


def _taken(pairs: Any) -> list[tuple[str, str]]:
    return [(port, key) for ports, key in pairs for port in ports]
