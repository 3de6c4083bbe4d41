"""Reduction of a graph to runs and bands."""

import numpy as np

from mdf_loop.drawing.dot.bands import cut_into_bands, flow_length
from mdf_loop.drawing.flow import MAX_CHAIN_LENGTH, flow_of, topological_order
from mdf_loop.outline import (
    DefinitionOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)


def graph(edges, input_nodes=("a",), outputs=(), feedback=(), extra_nodes=()):
    names = dict.fromkeys(name for pair in (*edges, *feedback) for name in pair)
    nodes = {name: NodeOutline(name, name) for name in names} | {
        node.id: node for node in extra_nodes
    }
    return GraphOutline(
        "g",
        "$",
        tuple(nodes.values()),
        tuple(
            EdgeOutline(f"{a}{b}", "$", a, "y", b, "x", is_feedback=(a, b) in feedback)
            for a, b in (*edges, *feedback)
        ),
        tuple(InputOutline(name, name, "x", "given", "$") for name in input_nodes),
        tuple(OutputOutline(name, name, "y", "$") for name in outputs),
    )


def runs(flow):
    return ["".join(node.id for node in run) for run in flow.chains]


def test_a_chain_is_one_run():
    assert runs(flow_of(graph(["ab", "bc", "cd"]))) == ["abcd"]


def test_a_run_ends_at_forks_and_joins():
    flow = flow_of(graph(["ab", "bc", "bd", "ce", "de", "ef"]))
    assert runs(flow) == ["ab", "c", "d", "ef"]
    assert flow.links == ((0, 1), (0, 2), (1, 3), (2, 3))


def test_a_long_chain_is_several_runs():
    names = "abcdefghijk"
    flow = flow_of(graph([names[k : k + 2] for k in range(len(names) - 1)]))
    assert list(map(len, flow.chains)) == [MAX_CHAIN_LENGTH, len(names) - MAX_CHAIN_LENGTH]


def test_nodes_without_inputs_fold():
    flow = flow_of(graph(["ab", "wv", "vb"]))
    assert runs(flow) == ["ab"]
    assert flow.folded_node_count == 2


def test_a_graph_without_inputs_is_not_folded():
    assert flow_of(graph(["ab", "wv", "vb"], input_nodes=())).folded_node_count == 0


def test_outputs_and_states_do_not_fold():
    state = NodeOutline("s", "s", definitions=(DefinitionOutline("v", "v", is_stateful=True),))
    flow = flow_of(graph(["ab", "wv"], outputs=["v"], extra_nodes=[state]))
    assert runs(flow) == ["ab", "v", "s"]


def test_an_input_has_its_own_box():
    pill = NodeOutline(
        "a", "a", (PortOutline("a", "a"),), outputs=(PortOutline("a", "a", value="a"),)
    )
    assert runs(flow_of(graph(["ab", "bc"], extra_nodes=[pill]))) == ["a", "bc"]


def test_feedback_joins_no_run():
    flow = flow_of(graph(["ab"], feedback=[("b", "a")]))
    assert (runs(flow), flow.back_links) == (["ab"], ((0, 0),))


def test_a_constant_folds():
    item = DefinitionOutline("value", "$", value=np.zeros(3))
    constant = NodeOutline(
        "k", "k", definitions=(item,), outputs=(PortOutline("k", "k", value="value"),)
    )
    assert flow_of(graph(["ab", "kb"], extra_nodes=[constant])).folded_node_count == 1


def test_senders_come_before_receivers():
    assert topological_order("cba", [("a", "b"), ("b", "c")]) == ["a", "b", "c"]
    assert topological_order("ab", [("a", "b"), ("b", "a")]) == ["a", "b"]


def ladder(rungs):
    """Return the flow of two paths that meet again and again, so that it has no runs."""
    edges = []
    for k in range(rungs):
        top, left, right, low = f"t{k}", f"l{k}", f"r{k}", f"t{k + 1}"
        edges += [(top, left), (top, right), (left, low), (right, low)]
    return flow_of(graph(edges, input_nodes=["t0"]))


def test_bands_have_about_equal_length():
    flow = ladder(12)
    bands = cut_into_bands(flow, 3)
    sizes = [bands.band_by_chain.count(band) for band in range(3)]
    assert bands.count == 3
    assert max(sizes) - min(sizes) <= 3
    assert all(bands.band_by_chain[tail] <= bands.band_by_chain[head] for tail, head in flow.links)


def test_each_cut_sender_has_one_number():
    bands = cut_into_bands(ladder(12), 3)
    assert sorted(bands.stub_number_by_chain.values()) == list(
        range(1, len(bands.stub_number_by_chain) + 1)
    )


def test_one_band_is_not_cut():
    bands = cut_into_bands(ladder(3), 1)
    assert (bands.count, bands.stub_number_by_chain) == (1, {})


def test_a_source_stands_in_the_band_of_its_reader():
    flow = ladder(12)
    late_flow = flow_of(
        graph(
            [
                *(
                    (a[0].id, b[0].id)
                    for a, b in [(flow.chains[i], flow.chains[j]) for i, j in flow.links]
                ),
                ("late", "t11"),
            ],
            input_nodes=["t0", "late"],
        )
    )
    run_index_by_node = {node.id: k for k, run in enumerate(late_flow.chains) for node in run}
    bands = cut_into_bands(late_flow, 3)
    assert (
        bands.band_by_chain[run_index_by_node["late"]]
        == bands.band_by_chain[run_index_by_node["t11"]]
    )


def test_there_are_at_most_as_many_bands_as_boxes():
    assert cut_into_bands(ladder(1), 50).count <= 4
    assert flow_length(ladder(2)) > flow_length(ladder(1))
