"""Colours, shapes, letters and fonts.

Every kind of thing has a letter or sign of its own besides its colour, so that a picture can be
read in black and white and by colour-blind readers (colours after Okabe and Ito, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

_T = TypeVar("_T")

FONT = "Helvetica,Arial,DejaVu Sans,sans-serif"
INK = "#1b1f24"
QUIET = "#57606a"
PAPER = "#ffffff"
LINE = "#8c959f"
CHIP_LINE = "#c8d1da"
WARNING = "#a40e26"
HEADER = "#eaeef2"
LOOP_LINE = "#0b5394"
FRAME_FILLS = ("#f3f7fb", "#e6eff8", "#d9e6f3")
"""Backgrounds of loop frames, outermost first; deeper ones take turns."""

CHOICE_LINE = "#9a6700"
CHOICE_FILL, BRANCH_FILL = "#fdf6e3", "#fffdf7"
"""Backgrounds of a choice and of its branches."""

IMPORTED = "result"
"""What the function of a node is called if its model comes from another system."""

BIG, NORMAL, SMALL = 13, 11, 9
ROW = 40
"""Height of a terminal in points: room for two lines, so that the rails have equal rows."""
BADGE = 24


class Mark(Struct, frozen=True):
    """A sign on a coloured ground, and what it means in the legend."""

    sign: str
    ground: str
    ink: str
    words: str


MARKS: dict[str, Mark] = {
    "trip_count": Mark("N", "#4d4d4d", PAPER, "trip count"),
    "iteration": Mark("i", "#4d4d4d", PAPER, "iteration number"),
    "start": Mark("?", "#b34700", PAPER, "runs only if true"),
    "stop": Mark("■", "#b34700", PAPER, "stops when false"),
    "enter": Mark("▼", "#0072b2", PAPER, "carried value enters"),
    "leave": Mark("▲", "#0072b2", PAPER, "leaves for t+1, at last the result"),
    "delayed": Mark("−k", "#0072b2", PAPER, "value of k iterations ago"),
    "sliced": Mark("[i]", "#00725a", PAPER, "sliced, one part per iteration"),
    "recorded": Mark("[ ]", "#00725a", PAPER, "recorded, one row per iteration"),
    "choose": Mark("?", CHOICE_LINE, PAPER, "chooses the branch"),
    "join": Mark("Y", CHOICE_LINE, PAPER, "result of the branch that was taken"),
    "captured": Mark("◇", PAPER, INK, "read from outside"),
    "result": Mark("#", "#4d4d4d", PAPER, "told about the run"),
    "before_test": Mark("+1", "#f7dcc8", INK, "before the test: runs once more than the rest"),
    "native": Mark("⚡", "#f6e7a8", INK, "ran as machine code"),
    "state": Mark("↻", "#f6e7a8", INK, "state, kept between evaluations"),
    "noise": Mark("~", "#f7dcc8", INK, "draws random numbers"),
    "schedule": Mark("◷", "#f7dcc8", INK, "when the scheduler lets it run"),
}


class Stroke(Struct, frozen=True):
    """How an edge is drawn, and what it means in the legend."""

    attributes: dict[str, str]
    sample: str
    words: str


STROKES: dict[str, Stroke] = {
    "data": Stroke({"color": INK}, "", ""),
    "capture": Stroke(
        {"color": "#6e7781", "style": "dotted", "penwidth": "1.4", "arrowhead": "vee"},
        "···▸",
        "captured value",
    ),
    "back": Stroke(
        {
            "color": "#0072b2",
            "fontcolor": "#0072b2",
            "style": "dashed",
            "constraint": "false",
            "weight": "0",
        },
        "╌╌▸",
        "next iteration (t+1)",
    ),
    "cut": Stroke({"color": "#0072b2", "penwidth": "0.8"}, "3▸ ▸3", "goes on at its number"),
    "feedback": Stroke(
        {
            "color": "#8a3f7f",
            "fontcolor": "#8a3f7f",
            "style": "dashed",
            "constraint": "false",
            "weight": "0",
        },
        "╌╌▸",
        "value of the pass before",
    ),
}


class Direction(Struct, frozen=True):
    """The sides of things for one reading direction."""

    rankdir: str
    enter: str
    leave: str
    back_from: str
    back_to: str

    @property
    def sideways(self) -> bool:
        """Whether values flow from left to right."""
        return self.rankdir == "LR"

    def stacked(self, things: Sequence[_T]) -> Sequence[_T]:
        """Things in the order that puts the first one first: Graphviz stacks LR from below."""
        return things[::-1] if self.sideways else things


DIRECTIONS = {
    "LR": Direction("LR", enter="w", leave="e", back_from="w", back_to="e"),
    "TB": Direction("TB", enter="n", leave="s", back_from="n", back_to="s"),
}


class Detail(Struct, frozen=True):
    """How much a level shows; `rows` and `width` limit the formulas of a node.

    `operators` says that of nodes only the operators are shown, chains of them in one box.
    """

    level: int | str
    frames: bool
    bodies: bool
    types: bool
    rows: int
    width: int
    operators: bool = False


LEVELS = (
    Detail(0, frames=False, bodies=False, types=False, rows=0, width=32),
    Detail(1, frames=True, bodies=False, types=False, rows=0, width=32),
    Detail(2, frames=True, bodies=True, types=False, rows=6, width=40),
    Detail(3, frames=True, bodies=True, types=True, rows=200, width=64),
)
OPERATORS = Detail(
    "operators", frames=True, bodies=True, types=False, rows=0, width=32, operators=True
)
"""The level of large graphs."""
BAND_LINE, BAND_FILL = "#d8dee4", "#fbfcfd"
"""Around a band of a large graph."""
