"""Imports between package folders follow the layers, from upper layers to lower ones.

- LAYERS: package folders from the lowest layer to the highest; folders of one layer are independent.
- cycles: no import cycles among modules, except between a program and its text.
- names: public classes of different folders have different names.
- operators: sets of operator names are in `ops/`, not in the layers above.
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
            "call_site",
            "integer_variates",
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
        "request",
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
"""Package folders and modules from the lowest layer to the highest. Modules of the first and third layer
may import each other."""

BASE_MODULES = frozenset((*LAYERS[0], *LAYERS[2]))

FOR_TYPES = {("ops", "build"), ("ops", "ops")}
"""Pairs of folders with upward imports for type annotations only. Rows of the operator table take a Builder
and a Lane, which read the table at run time."""

CYCLE = {"ir", "ir.program", "ir.text", "ir.walk"}
"""The only import cycle: a program and the text that it prints."""

OPERATORS = frozenset(schema.name for schema in onnx.defs.get_all_schemas())
NAMING_OPERATORS = ("ops", "lower", "importing")
"""Folders that may name operators: the operator table, lowering of functions, and importers."""

TABLES = {
    "reading.schedule.known": (1, "operators of the comparisons in conditions"),
    "reading.schedule.table": (1, "scheduler conditions with names of operators"),
}
"""Number of sets of operator names that a module may contain, with the reason for the exception."""


@cache
def modules() -> dict[str, Path]:
    """Return the path of every module by name; the `__init__.py` of a folder has the name of the folder."""
    paths = {}
    for path in sorted((ROOT / "mdf_loop").rglob("*.py")):
        parts = path.relative_to(ROOT / "mdf_loop").with_suffix("").parts
        inner = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
        paths[".".join(inner)] = path
    return paths


@cache
def tree(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(modules()[module].read_text())


@cache
def imports_of(module: str) -> frozenset[tuple[str, bool]]:
    """Return the modules that a module imports, each with a flag for imports under TYPE_CHECKING."""
    return frozenset(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, bool]]:
    queue: list[tuple[ast.AST, bool]] = [(tree(module), False)]
    while queue:
        node, for_types = queue.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                queue += [(part, True) for part in node.body]
                queue += [(part, for_types) for part in node.orelse]
                continue
            case ast.Import():
                names = [name.name for name in node.names]
            case ast.ImportFrom(module=str(source)):
                names = [f"{source}.{name.name}" for name in node.names]
            case _:
                names = []
        yield from ((target, for_types) for name in names if (target := _module(name)))
        queue += [(part, for_types) for part in ast.iter_child_nodes(node)]


def _module(name: str) -> str:
    """Return the package module of an imported name, or an empty text for other packages."""
    package, _, inner = name.partition(".")
    if package != "mdf_loop":
        return ""
    while inner and inner not in modules():
        inner = inner.rpartition(".")[0]
    return inner or "__init__"


def folder_of(module: str) -> str:
    """Return the package folder of a module, or the name of a module outside of folders."""
    return module.split(".")[0]


def layer(name: str) -> int:
    """Return the layer number of a package folder."""
    (level,) = [k for k, folders in enumerate(LAYERS) if name in folders]
    return level


def upward_imports() -> Iterator[tuple[str, str]]:
    """Yield pairs of modules whose import does not lead to a lower layer."""
    for module in modules():
        for imported, for_types in imports_of(module):
            pair = folder_of(module), folder_of(imported)
            if for_types and pair in FOR_TYPES:
                continue
            beside = pair[0] == pair[1] or (
                set(pair) <= BASE_MODULES and layer(pair[0]) == layer(pair[1])
            )
            if not beside and layer(pair[0]) <= layer(pair[1]):
                yield module, imported


def test_every_folder_has_a_layer():
    folders = [name for each in LAYERS for name in each]
    assert len(set(folders)) == len(folders)
    assert {folder_of(module) for module in modules()} == set(folders)


def test_imports_lead_to_lower_layers():
    violations = list(upward_imports())
    assert not violations, "\n".join(f"{a} imports {b}" for a, b in violations)


def test_the_only_import_cycle_is_a_program_and_its_text():
    graph = nx.DiGraph(
        (module, imported)
        for module in modules()
        for imported, for_types in imports_of(module)
        if module != imported
        and not (for_types and (folder_of(module), folder_of(imported)) in FOR_TYPES)
    )
    cycles = [set(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert cycles == [CYCLE]


def test_public_classes_have_different_names():
    homes: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(folder_of(module))
    shared = {name: sorted(folders) for name, folders in homes.items() if len(folders) > 1}
    assert not shared


def test_sets_of_operators_are_in_folders_that_name_operators():
    counts = {
        module: count
        for module in modules()
        if folder_of(module) not in NAMING_OPERATORS and (count := len(list(_tables(module))))
    }
    assert {module: count for module, (count, _) in TABLES.items()} == counts


def _tables(module: str) -> Iterator[ast.AST]:
    """Yield every outermost collection that names three or more operators."""
    queue: list[ast.AST] = [tree(module)]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            continue
        if len(OPERATORS.intersection(_texts(node))) >= 3:
            yield node
        else:
            queue += ast.iter_child_nodes(node)


def _texts(node: ast.AST | None) -> Iterator[str]:
    """Yield the texts in the source of a collection: `{"a", *("b", "c")}`, `{"a": 1, **{"b": 2}}`."""
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
