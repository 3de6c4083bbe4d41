"""A graph as runs and bands."""

import numpy as np

from mdf_loop.drawing.bands import cut, length_of
from mdf_loop.drawing.flow import LONGEST_RUN, flow_of, topological
from mdf_loop.outline import (
    EdgeOutline,
    GraphOutline,
    InputOutline,
    ItemOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)


def graph(edges, given=("a",), outputs=(), feedback=(), more=()):
    names = dict.fromkeys(name for pair in (*edges, *feedback) for name in pair)
    nodes = {name: NodeOutline(name, name) for name in names} | {node.id: node for node in more}
    return GraphOutline(
        "g",
        "$",
        tuple(nodes.values()),
        tuple(
            EdgeOutline(f"{a}{b}", "$", a, "y", b, "x", feedback=(a, b) in feedback)
            for a, b in (*edges, *feedback)
        ),
        tuple(InputOutline(name, name, "x", "given", "$") for name in given),
        tuple(OutputOutline(name, name, "y", "$") for name in outputs),
    )


def runs(flow):
    return ["".join(node.id for node in run) for run in flow.runs]


def test_a_chain_is_one_run():
    assert runs(flow_of(graph(["ab", "bc", "cd"]))) == ["abcd"]


def test_a_run_ends_where_ways_part_and_meet():
    flow = flow_of(graph(["ab", "bc", "bd", "ce", "de", "ef"]))
    assert runs(flow) == ["ab", "c", "d", "ef"]
    assert flow.links == ((0, 1), (0, 2), (1, 3), (2, 3))


def test_a_long_chain_is_several_runs():
    names = "abcdefghijk"
    flow = flow_of(graph([names[k : k + 2] for k in range(len(names) - 1)]))
    assert list(map(len, flow.runs)) == [LONGEST_RUN, len(names) - LONGEST_RUN]


def test_what_depends_on_no_input_folds():
    flow = flow_of(graph(["ab", "wv", "vb"]))
    assert runs(flow) == ["ab"]
    assert flow.folded == 2


def test_nothing_folds_of_a_graph_without_inputs():
    assert flow_of(graph(["ab", "wv", "vb"], given=())).folded == 0


def test_results_and_what_moves_by_itself_do_not_fold():
    state = NodeOutline("s", "s", items=(ItemOutline("v", "v", stateful=True),))
    flow = flow_of(graph(["ab", "wv"], outputs=["v"], more=[state]))
    assert runs(flow) == ["ab", "v", "s"]


def test_an_input_has_a_box_of_its_own():
    pill = NodeOutline(
        "a", "a", (PortOutline("a", "a"),), outputs=(PortOutline("a", "a", value="a"),)
    )
    assert runs(flow_of(graph(["ab", "bc"], more=[pill]))) == ["a", "bc"]


def test_what_brings_an_older_value_makes_no_run():
    flow = flow_of(graph(["ab"], feedback=[("b", "a")]))
    assert (runs(flow), flow.back) == (["ab"], ((0, 0),))


def test_a_constant_folds():
    item = ItemOutline("value", "$", value=np.zeros(3))
    constant = NodeOutline("k", "k", items=(item,), outputs=(PortOutline("k", "k", value="value"),))
    assert flow_of(graph(["ab", "kb"], more=[constant])).folded == 1


def test_senders_come_before_receivers_also_around_a_circle():
    assert topological("cba", [("a", "b"), ("b", "c")]) == ["a", "b", "c"]
    assert topological("ab", [("a", "b"), ("b", "a")]) == ["a", "b"]


def ladder(rungs):
    """Two ways that meet again and again, so that there is no run."""
    edges = []
    for k in range(rungs):
        top, left, right, low = f"t{k}", f"l{k}", f"r{k}", f"t{k + 1}"
        edges += [(top, left), (top, right), (left, low), (right, low)]
    return flow_of(graph(edges, given=["t0"]))


def test_bands_are_of_about_the_same_length_and_follow_each_other():
    flow = ladder(12)
    bands = cut(flow, 3)
    sizes = [bands.of.count(band) for band in range(3)]
    assert bands.count == 3
    assert max(sizes) - min(sizes) <= 3
    assert all(bands.of[tail] <= bands.of[head] for tail, head in flow.links)


def test_what_is_cut_has_a_number_once_for_each_sender():
    bands = cut(ladder(12), 3)
    assert sorted(bands.stubs.values()) == list(range(1, len(bands.stubs) + 1))


def test_one_band_is_not_cut():
    bands = cut(ladder(3), 1)
    assert (bands.count, bands.stubs) == (1, {})


def test_a_source_stands_in_the_band_of_its_reader():
    flow = ladder(12)
    late = flow_of(
        graph(
            [
                *(
                    (a[0].id, b[0].id)
                    for a, b in [(flow.runs[i], flow.runs[j]) for i, j in flow.links]
                ),
                ("late", "t11"),
            ],
            given=["t0", "late"],
        )
    )
    place = {node.id: k for k, run in enumerate(late.runs) for node in run}
    bands = cut(late, 3)
    assert bands.of[place["late"]] == bands.of[place["t11"]]


def test_more_bands_than_boxes_are_as_many_as_there_are_boxes():
    assert cut(ladder(1), 50).count <= 4
    assert length_of(ladder(2)) > length_of(ladder(1))
