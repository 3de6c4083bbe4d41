"""Imports point one way: a room of the package reads those below it, and none above.

LAYERS     from below to above; rooms of one layer do not know each other
circles    there is none among modules, but that of a program and its text
names      no two public classes of different rooms have one name
operators  what is true of operators stands in `ops/`: nowhere above it is a set of their names
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import onnx

ROOT = Path(__file__).resolve().parents[1]

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        *(
            "text_escaping",
            "stopped_by",
            "errors",
            "durations",
            "paths",
            "number_check",
            "processes",
        ),
        *(
            "cached_property",
            "locks",
            "lru_cache",
            "streams",
            "distributions",
            "variates",
            "gamma",
            "trials",
            "used_memory",
            "memory_limit",
            "arguments",
            "signals",
            "interruption",
            "parameter_rules",
            "poisson",
            "quantities",
            "html_tables",
            "public_call",
            "renamed",
            "name_suggestions",
            "user_warnings",
            "losses",
            "version",
        ),
        "sweeps",
        "sharing",
        "specification",
    ),
    ("ir",),
    (
        "files",
        "archives",
        "columns",
        "array_conversion",
        "checked_cast",
        "array_digest",
        "onnx_session",
        "onnx_writer",
    ),
    ("ops",),
    ("build",),
    ("document",),
    ("importing", "lower"),
    ("reading",),
    ("passes",),
    ("pipeline",),
    ("emit",),
    ("native",),
    ("run",),
    ("outline",),
    ("drawing",),
    ("results",),
    ("fitting",),
    ("cluster",),
    ("api",),
    ("folding", "plugin", "verification", "classification", "demo", "starts"),
    ("explanation", "changes"),
    ("cli", "__init__"),
    ("__main__",),
)
"""From below to above: rooms, and the modules beside them. Those of the first layers are the ground,
whose modules may know each other."""

GROUND = frozenset((*LAYERS[0], *LAYERS[2]))

FOR_TYPES = {("ops", "build"), ("ops", "ops")}
"""Where a type alone is named, and nothing imported when it runs: a row says that its composition takes
a Builder, and its rule of batching a Lane, which ask the rows in turn."""

CIRCLE = {"ir", "ir.program", "ir.text", "ir.walk"}
"""A program prints itself: data and its text."""

OPERATORS = frozenset(schema.name for schema in onnx.defs.get_all_schemas())
NAMING_OPERATORS = ("ops", "lower", "importing")
"""Rooms whose work is to say operators: their rows, what functions become, what files hold."""

TABLES = {
    "reading.schedule.known": (1, "what comparisons of a condition become"),
    "reading.schedule.table": (1, "conditions of the scheduler are called so, too"),
}
"""Module -> how many sets of operators' names it may hold, and why they state no trait."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name in it; a room's own file has the room's name."""
    paths = {}
    for path in sorted((ROOT / "mdf_loop").rglob("*.py")):
        parts = path.relative_to(ROOT / "mdf_loop").with_suffix("").parts
        inner = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
        paths[".".join(inner)] = path
    return paths


@cache
def tree(module: str) -> ast.Module:
    """What a module is written as."""
    return ast.parse(modules()[module].read_text())


@cache
def imports_of(module: str) -> frozenset[tuple[str, bool]]:
    """The modules that one imports anywhere in it, and whether for types alone."""
    return frozenset(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, bool]]:
    waiting: list[tuple[ast.AST, bool]] = [(tree(module), False)]
    while waiting:
        node, for_types = waiting.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                waiting += [(part, True) for part in node.body]
                waiting += [(part, for_types) for part in node.orelse]
                continue
            case ast.Import():
                names = [name.name for name in node.names]
            case ast.ImportFrom(module=str(source)):
                names = [f"{source}.{name.name}" for name in node.names]
            case _:
                names = []
        yield from ((target, for_types) for name in names if (target := _module(name)))
        waiting += [(part, for_types) for part in ast.iter_child_nodes(node)]


def _module(name: str) -> str:
    """The module of the package that is imported by a name; empty for all else."""
    package, _, inner = name.partition(".")
    if package != "mdf_loop":
        return ""
    while inner and inner not in modules():
        inner = inner.rpartition(".")[0]
    return inner or "__init__"


def room(module: str) -> str:
    """The folder of a module, or the module itself where it stands beside them."""
    return module.split(".")[0]


def layer(name: str) -> int:
    """The number of the layer of a room."""
    (level,) = [k for k, rooms in enumerate(LAYERS) if name in rooms]
    return level


def upward() -> Iterator[tuple[str, str]]:
    """Every import that does not point to a lower layer: module and module."""
    for module in modules():
        for imported, for_types in imports_of(module):
            pair = room(module), room(imported)
            if for_types and pair in FOR_TYPES:
                continue
            beside = pair[0] == pair[1] or (
                set(pair) <= GROUND and layer(pair[0]) == layer(pair[1])
            )
            if not beside and layer(pair[0]) <= layer(pair[1]):
                yield module, imported


def test_every_room_has_its_layer():
    rooms = [name for each in LAYERS for name in each]
    assert len(set(rooms)) == len(rooms)
    assert {room(module) for module in modules()} == set(rooms)


def test_imports_point_one_way():
    wrong = list(upward())
    assert not wrong, "\n".join(f"{a} imports {b}" for a, b in wrong)


def test_there_is_no_circle_but_data_and_its_text():
    graph = nx.DiGraph(
        (module, imported)
        for module in modules()
        for imported, for_types in imports_of(module)
        if module != imported and not (for_types and (room(module), room(imported)) in FOR_TYPES)
    )
    circles = [set(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert circles == [CIRCLE]


def test_no_two_public_classes_of_different_rooms_have_one_name():
    homes: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(room(module))
    shared = {name: sorted(rooms) for name, rooms in homes.items() if len(rooms) > 1}
    assert not shared


def test_sets_of_operators_are_in_the_rooms_that_say_operators():
    counts = {
        module: count
        for module in modules()
        if room(module) not in NAMING_OPERATORS and (count := len(list(_tables(module))))
    }
    assert {module: count for module, (count, _) in TABLES.items()} == counts


def _tables(module: str) -> Iterator[ast.AST]:
    """Every outermost set, list, tuple or mapping in which three or more operators are named."""
    waiting: list[ast.AST] = [tree(module)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            continue
        if len(OPERATORS.intersection(_texts(node))) >= 3:
            yield node
        else:
            waiting += ast.iter_child_nodes(node)


def _texts(node: ast.AST | None) -> Iterator[str]:
    """The texts that a collection is written with: `{"a", *("b", "c")}`, `{"a": 1, **{"b": 2}}`."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Set() | ast.Tuple() | ast.List():
            for part in node.elts:
                yield from _texts(part)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                yield from _texts(key)
                if key is None or isinstance(value, ast.Constant):
                    yield from _texts(value)
        case ast.Starred():
            yield from _texts(node.value)
        case ast.Call(func=ast.Attribute(attr="fromkeys")) | ast.Call(func=ast.Name("frozenset")):
            for part in node.args:
                yield from _texts(part)
