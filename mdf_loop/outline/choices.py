"""An If or a case_of of a node -> `ChoiceOutline`, also where not everything about it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from mdf_loop.document.bodies import WrittenBody, written_bodies, written_body
from mdf_loop.errors import LoopError
from mdf_loop.outline.loops import argument_of, port_type, taking_ports
from mdf_loop.outline.parts import BranchOutline, ChoiceOutline, OutputOutline
from mdf_loop.outline.scope import OutlineScope, captured
from mdf_loop.outline.site import Site, output_names
from mdf_loop.outline.text import value_text
from mdf_loop.outline.values import CaptureOutline, JoinOutline
from mdf_loop.reading.branch_graphs import branch_role
from mdf_loop.reading.entries import expressions
from mdf_loop.reading.owned_graph import owned_graph


def outline_if(site: Site) -> ChoiceOutline:
    """The outline of an If: `if hot`, `else`."""
    test = value_text(site.args.get("cond"), 60)
    titles = {"then_branch": f"if {test}", "else_branch": "else"}
    graphs = written_bodies(site.item, site.node)
    return _choice(
        site, "if", "cond", [_branch(site, titles[key], graphs[key], key) for key in graphs]
    )


def outline_case(site: Site) -> ChoiceOutline:
    """The outline of a case_of: one branch per number, and what else happens."""
    index = value_text(site.args.get("index"), 40)
    graphs = written_bodies(site.item, site.node)
    default = graphs.pop("default", None)
    branches = [
        _branch(site, f"{index} = {k}", written, key)
        for k, (key, written) in enumerate(graphs.items())
    ]
    if default is None:
        branches.append(_passing(site))
    elif default.value is not None:
        branches.append(_branch(site, "else", default, "default"))
    return _choice(site, "case", "index", branches)


def _choice(site: Site, kind: str, selector: str, branches: list[BranchOutline]) -> ChoiceOutline:
    item, node = site.item, site.node
    given = site.args.get(selector)
    notes = [note for branch in branches for note in branch.notes]
    if given is None:
        notes.append(f"there is no {selector}")
    return ChoiceOutline(
        id=item.id,
        owner=node.id,
        path=site.where,
        kind=kind,
        selector=argument_of(given, node, None),
        branches=tuple(branches),
        joins=_joins(site, max((len(branch.outputs) for branch in branches), default=0)),
        captures=_captures(site, branches),
        notes=tuple(dict.fromkeys(notes)),
    )


# --- branches ---------------------------------------------------------------------------------


def _branch(site: Site, title: str, written: WrittenBody, key: str) -> BranchOutline:
    try:
        role = branch_role(site.name, key)
        owned = owned_graph(written, site.item, site.where, role, site.document)
        names = output_names(owned)
        body = site.read_body(owned.graph, owned.where, {}, names, site.place())
    except LoopError as error:
        return BranchOutline(title, None, notes=tuple(f.what for f in error.findings))
    return BranchOutline(title, body, body.outputs)


def _passing(site: Site) -> BranchOutline:
    """The names of values that are passed through where no branch is taken."""
    written = written_body(site.item, site.node, "default").value
    path = f"{site.where}.args.default"
    outputs = (value_text(part) for part in expressions(written))
    return BranchOutline("else", None, tuple(OutputOutline(o, None, o, path) for o in outputs))


# --- what goes in, what comes out -------------------------------------------------------------


def _joins(site: Site, count: int) -> tuple[JoinOutline, ...]:
    item, node = site.item, site.node
    taken = [taking_ports(node, item.id, k) for k in range(count)]
    return tuple(
        JoinOutline(
            item.id if count == 1 else f"{item.id}[{k}]",
            ports,
            port_type(site, ports),
        )
        for k, ports in enumerate(taken)
    )


def _captures(site: Site, branches: Iterable[BranchOutline]) -> tuple[CaptureOutline, ...]:
    place = site.place()
    found: dict[str, CaptureOutline] = {}
    for branch in branches:
        for capture in _captured(branch, place):
            found.setdefault(capture.name, capture)
    return tuple(replace(c, type=site.notes.type_of(c.path)) for c in found.values())


def _captured(branch: BranchOutline, place: OutlineScope) -> Iterator[CaptureOutline]:
    if branch.body is not None:
        yield from captured(branch.body.inputs, place)
    for output in branch.outputs:
        passed = place.find(output.port) if output.node is None and output.port else None
        if passed is not None:
            yield passed
