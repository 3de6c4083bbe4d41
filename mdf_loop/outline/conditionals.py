"""Outline of a node's If or case_of, also for an incomplete model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from mdf_loop.document.bodies import WrittenBody, written_bodies, written_body
from mdf_loop.errors import LoopError
from mdf_loop.outline.block_context import BlockContext, output_names
from mdf_loop.outline.loops import outline_argument, port_type, result_ports
from mdf_loop.outline.parts import BranchOutline, ConditionalOutline, OutputOutline
from mdf_loop.outline.scope import OutlineScope, find_captures
from mdf_loop.outline.text import value_text
from mdf_loop.outline.values import CaptureOutline, JoinedResultOutline
from mdf_loop.reading.branch_graphs import describe_branch
from mdf_loop.reading.entries import list_expressions
from mdf_loop.reading.owned_graph import find_owned_graph


def outline_if(context: BlockContext) -> ConditionalOutline:
    """Return the outline of an If with two branches, titled for example `if hot` and `else`."""
    condition_text = value_text(context.args.get("cond"), 60)
    branch_titles = {"then_branch": f"if {condition_text}", "else_branch": "else"}
    graphs_by_key = written_bodies(context.definition, context.node)
    return _build_conditional(
        context,
        "if",
        "cond",
        [
            _outline_branch(context, branch_titles[key], graphs_by_key[key], key)
            for key in graphs_by_key
        ],
    )


def outline_case(context: BlockContext) -> ConditionalOutline:
    """Return the outline of a case_of, with one branch per number and a default branch."""
    index_text = value_text(context.args.get("index"), 40)
    graphs_by_key = written_bodies(context.definition, context.node)
    default_graph = graphs_by_key.pop("default", None)
    branches = [
        _outline_branch(context, f"{index_text} = {k}", body, key)
        for k, (key, body) in enumerate(graphs_by_key.items())
    ]
    if default_graph is None:
        branches.append(_outline_pass_through_branch(context))
    elif default_graph.graph_or_id is not None:
        branches.append(_outline_branch(context, "else", default_graph, "default"))
    return _build_conditional(context, "case", "index", branches)


def _build_conditional(
    context: BlockContext, kind: str, selector: str, branches: list[BranchOutline]
) -> ConditionalOutline:
    """Return the outline of a conditional, composed of a selector and branches."""
    definition, node = context.definition, context.node
    selector_expression = context.args.get(selector)
    branch_notes = [note for branch in branches for note in branch.notes]
    if selector_expression is None:
        branch_notes.append(f"there is no {selector}")
    return ConditionalOutline(
        id=definition.id,
        owner_id=node.id,
        path=context.path,
        kind=kind,
        selector=outline_argument(selector_expression, node, None),
        branches=tuple(branches),
        joined_results=_outline_joined_results(
            context, max((len(branch.outputs) for branch in branches), default=0)
        ),
        captures=_outline_captures(context, branches),
        notes=tuple(dict.fromkeys(branch_notes)),
    )


# --- branches ---------------------------------------------------------------------------------


def _outline_branch(
    context: BlockContext, title: str, written_graph: WrittenBody, key: str
) -> BranchOutline:
    """Return the outline of a branch, or a branch with notes if its graph cannot be read."""
    try:
        role = describe_branch(context.name, key)
        owned_body = find_owned_graph(
            written_graph, context.definition, context.path, role, context.document
        )
        output_names_of_graph = output_names(owned_body)
        body = context.read_body(
            owned_body.graph, owned_body.where, {}, output_names_of_graph, context.scope()
        )
    except LoopError as error:
        return BranchOutline(title, None, notes=tuple(finding.what for finding in error.findings))
    return BranchOutline(title, body, body.outputs)


def _outline_pass_through_branch(context: BlockContext) -> BranchOutline:
    """Return the outline of a default branch that returns values without a graph."""
    default_value = written_body(context.definition, context.node, "default").graph_or_id
    default_path = f"{context.path}.args.default"
    passed_expressions = (value_text(expression) for expression in list_expressions(default_value))
    return BranchOutline(
        "else",
        None,
        tuple(
            OutputOutline(output_text, None, output_text, default_path)
            for output_text in passed_expressions
        ),
    )


# --- results and captures -----------------------------------------------------------------------


def _outline_joined_results(context: BlockContext, count: int) -> tuple[JoinedResultOutline, ...]:
    """Return the outlines of a conditional's results, each joined from one output per branch."""
    definition, node = context.definition, context.node
    ports_of_results = [result_ports(node, definition.id, k) for k in range(count)]
    return tuple(
        JoinedResultOutline(
            definition.id if count == 1 else f"{definition.id}[{k}]",
            ports,
            port_type(context, ports),
        )
        for k, ports in enumerate(ports_of_results)
    )


def _outline_captures(
    context: BlockContext, branches: Iterable[BranchOutline]
) -> tuple[CaptureOutline, ...]:
    """Return the distinct values that the branches of a conditional capture."""
    scope = context.scope()
    captures_by_name: dict[str, CaptureOutline] = {}
    for branch in branches:
        for capture in _branch_captures(branch, scope):
            captures_by_name.setdefault(capture.name, capture)
    return tuple(
        replace(capture, type=context.annotations.type_of(capture.path))
        for capture in captures_by_name.values()
    )


def _branch_captures(branch: BranchOutline, scope: OutlineScope) -> Iterator[CaptureOutline]:
    """Yield the values that a branch reads from outside, in its graph or to pass them through."""
    if branch.body is not None:
        yield from find_captures(branch.body.inputs, scope)
    for output in branch.outputs:
        capture = scope.find(output.port_id) if output.node_id is None and output.port_id else None
        if capture is not None:
            yield capture
