"""Loops, choices and nodes that own several of them, as boxes that hold others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from mdf_loop.drawing.frames import block_name, schedule_words
from mdf_loop.drawing.page.ends import End, Ends, Numbers, Pins, Recording
from mdf_loop.drawing.page.fitting import fitted
from mdf_loop.drawing.page.nodes import pill
from mdf_loop.drawing.page.scene import Box, Pin, Scene, Wire
from mdf_loop.drawing.page.terminals import terminals
from mdf_loop.drawing.rails import Terminal
from mdf_loop.drawing.theme import MARKS
from mdf_loop.outline import (
    Block,
    BranchOutline,
    ChoiceOutline,
    GraphOutline,
    LoopOutline,
    OutputOutline,
)
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.pseudocode import pseudocode
from mdf_loop.outline.text import shorten, shorten_name
from mdf_loop.outline.words import headline

GraphMaker: TypeAlias = Callable[[GraphOutline], tuple[Scene, dict[str, Ends]]]
"""Makes the boxes of a graph."""

NAME, BELOW, TITLE = 36, 44, 80
"""Letters of a terminal's name, of what is said below it, of a frame's title."""


class Frame:
    """A box for a block: `entries` is what it reads outside, `ends` where its ports leave."""

    def __init__(self, block: Block, numbers: Numbers) -> None:
        self.block = block
        self.numbers = numbers
        self.terminals = terminals(block)
        self.left = {t.key: self._port(t) for t, _ in self.terminals.rows if t is not None}
        self.right = {t.key: self._port(t) for _, t in self.terminals.rows if t is not None}

    def _port(self, terminal: Terminal) -> Pin:
        return Pin(
            self.numbers.next(),
            shorten_name(terminal.name, NAME),
            shorten(terminal.below, BELOW),
            terminal.kind,
            passes=terminal.kind in ("captured", "join"),
        )

    def box(self, maker: GraphMaker) -> Box:
        """The box with all that is inside of it."""
        number = self.numbers.next()
        if isinstance(self.block, LoopOutline):
            self._remember(self.block, number)
        left_of = {t.key: self.left[t.key] for t, _ in self.terminals.rows if t is not None}
        return Box(
            id=number,
            kind=self.block.word,
            title=shorten(headline(self.block), TITLE),
            below=block_name(self.block),
            left=tuple(left_of[t.key] if t else None for t, _ in self.terminals.rows),
            right=tuple(self.right[t.key] if t else None for _, t in self.terminals.rows),
            inner=self._inside(maker),
            back=tuple(self._back()),
            details=tuple(self._details()),
            path=self.block.path,
        )

    def _remember(self, loop: LoopOutline, number: int) -> None:
        """What a run will say something about."""
        if loop.kind == "over time":
            self.numbers.loops[OVER_TIME] = number
        elif self.numbers.depth == self.numbers.level:
            self.numbers.loops[loop.full_name] = number
            self.numbers.recordings += [
                Recording(self.right[f"r{k}"].id, number, loop.full_name, f"{loop.owner}.{port}")
                for k, row in enumerate(loop.recorded)
                for port in row.ports[:1]
                if not row.how
            ]

    def _back(self) -> Iterator[Wire]:
        for source, target, label in self.terminals.back:
            if source in self.right and target in self.left:
                yield Wire(self.right[source].id, self.left[target].id, "back", label)

    def _details(self) -> Iterator[tuple[str, str]]:
        yield "id", self.block.full_name
        yield from (("note", note) for note in self.block.notes)
        if isinstance(self.block, LoopOutline):
            yield from (("schedule", said) for said in schedule_words(self.block))
        for terminal in (t for pair in self.terminals.rows for t in pair if t is not None):
            said = " ".join(part for part in (terminal.name, terminal.below) if part)
            yield MARKS[terminal.kind].words, said
        yield "code", "\n".join(pseudocode(self.block))

    def _inside(self, maker: GraphMaker) -> Scene | None:
        if isinstance(self.block, ChoiceOutline):
            return _side_by_side([self._branch(branch, maker) for branch in self.block.branches])
        if self.block.body is None:
            return None
        body = self.block.body
        scene, ends = maker(body)
        wires = (*self._brought(body, ends), *self._given(body.outputs, ends))
        return fitted(Scene(scene.boxes, (*scene.wires, *wires)), self.numbers)

    def _brought(self, body: GraphOutline, ends: dict[str, Ends]) -> Iterator[Wire]:
        """From the left rail to what reads it in the body."""
        for given in body.inputs:
            key, kind = self.terminals.inner.get(given.name, ("", ""))
            if key in self.left and given.node in ends:
                for end, read in ends[given.node].arriving(given.port, given.name):
                    stroke = "capture" if "capture" in (kind, read) else "data"
                    yield Wire(self.left[key].id, end, stroke)

    def _given(self, outputs: tuple[OutputOutline, ...], ends: dict[str, Ends]) -> Iterator[Wire]:
        """From the body to the right rail; a value may go there straight from the left one."""
        for key, output in zip(self.terminals.leaving, outputs, strict=False):
            target = self.right.get(key)
            if target is None:
                continue
            if output.node in ends:
                yield Wire(ends[output.node].leaving(output.port), target.id)
            elif output.port in self.terminals.inner:
                passed, kind = self.terminals.inner[output.port]
                if passed in self.left:
                    yield Wire(self.left[passed].id, target.id, kind)

    def _branch(self, branch: BranchOutline, maker: GraphMaker) -> Scene:
        """The box of a branch, and the wires between it and the rails."""
        pins = Pins(self.numbers)
        scene: Scene = Scene((), ())
        ends: dict[str, Ends] = {}
        if branch.body is not None:
            scene, ends = maker(branch.body)
        passed = self._passed(branch)
        ends |= {f"passed {name}": Ends(made.id) for name, made in passed.items()}
        outside = list(self._into(branch, ends, pins))
        for key, output in zip(self.terminals.leaving, branch.outputs, strict=False):
            source = ends.get(output.node or f"passed {output.port}")
            if key in self.right and source is not None:
                leaving = pins.leave(f"{key} {output.port}", source.leaving(output.port), Pin(0))
                outside.append(Wire(leaving, self.right[key].id))
        inside = Scene((*scene.boxes, *passed.values()), (*scene.wires, *pins.wires))
        box = Box(
            id=self.numbers.next(),
            kind="branch",
            title=shorten(branch.title, TITLE),
            inner=fitted(inside, self.numbers),
            details=(("id", branch.title), *(("note", note) for note in branch.notes)),
            path=self.block.path if branch.body is None else branch.body.path,
            left=tuple(pins.left.values()),
            right=tuple(pins.right.values()),
        )
        return Scene((box,), tuple(outside))

    def _passed(self, branch: BranchOutline) -> dict[str, Box]:
        return {
            output.port: pill(self.numbers, "passed", output.port, "passed through", output.path)
            for output in branch.outputs
            if output.node is None and output.port
        }

    def _into(self, branch: BranchOutline, ends: dict[str, Ends], pins: Pins) -> Iterator[Wire]:
        arriving: dict[str, list[End]] = {}
        for given in branch.body.inputs if branch.body else ():
            if given.node in ends:
                arriving.setdefault(given.name, []).extend(
                    ends[given.node].arriving(given.port, given.name)
                )
        for output in branch.outputs:
            if output.node is None and output.port:
                place = ends[f"passed {output.port}"].whole
                arriving.setdefault(output.port, []).append((place, "data"))
        for name, places in arriving.items():
            key, kind = self.terminals.inner.get(name, ("", ""))
            if key in self.left:
                end, _ = pins.enter(name, list(dict.fromkeys(places)), Pin(0))
                yield Wire(self.left[key].id, end, kind)


def _side_by_side(scenes: list[Scene]) -> Scene:
    return Scene(
        tuple(box for scene in scenes for box in scene.boxes),
        tuple(wire for scene in scenes for wire in scene.wires),
    )
