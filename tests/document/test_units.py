"""Units from metadata."""

from __future__ import annotations

import pytest
from modeci_mdf.mdf import Function, Graph, InputPort, Node, OutputPort, Parameter

from mdf_loop.document.units import (
    stated_time_unit,
    time_unit_of,
    unit_of,
    unit_of_time,
    units_of,
)
from mdf_loop.errors import ModelError
from mdf_loop.importing.opening import open_document
from mdf_loop.quantities import Unit


def units(**parts):
    by_name = units_of(open_document(Graph(id="g", nodes=[Node(id="n", **parts)])))
    assert by_name.pop("time") == "s"
    return by_name


@pytest.mark.parametrize("key", ["units", "unit"])
def test_every_part_may_state_its_unit(key):
    metadata = {key: " mV "}
    part_units = units(
        input_ports=[InputPort(id="i", metadata=metadata), InputPort(id="j")],
        parameters=[Parameter(id="p", value=1, metadata=metadata)],
        functions=[Function(id="f", function="exp", args={"variable0": "i"}, metadata=metadata)],
        output_ports=[OutputPort(id="o", value="2 * p", metadata=metadata)],
    )
    assert part_units == {"n.o": "mV", "n.p": "mV", "n.f": "mV", "n.i": "mV"}


def test_units_pass_through_parts():
    part_units = units(
        input_ports=[InputPort(id="drive", metadata={"units": "nA"})],
        parameters=[
            Parameter(id="v0", value=-60.0, metadata={"units": "mV"}),
            Parameter(id="V", default_initial_value="v0", time_derivative="-V / tau"),
            Parameter(id="grown", default_initial_value="v0", value="grown + 1"),
            Parameter(id="copy", value="V"),
            Parameter(id="tau", value=0.1),
        ],
        output_ports=[
            OutputPort(id="out", value=" V "),
            OutputPort(id="same", value="drive"),
            OutputPort(id="copied", value="copy"),
            OutputPort(id="double", value="2 * V"),
            OutputPort(id="no_unit", value="tau"),
        ],
    )
    volts = ("out", "copied", "v0", "V", "grown", "copy")
    amperes = ("same", "drive")
    assert part_units == {f"n.{i}": "mV" for i in volts} | {f"n.{i}": "nA" for i in amperes}


def test_an_output_port_precedes_a_parameter_of_its_id():
    part_units = units(
        parameters=[Parameter(id="V", value=1.0, metadata={"units": "mV"})],
        output_ports=[OutputPort(id="V", value="V"), OutputPort(id="W", value="V * V")],
    )
    assert part_units == {"n.V": "mV"}
    scaled = units(
        parameters=[Parameter(id="V", value=1.0, metadata={"units": "mV"})],
        output_ports=[OutputPort(id="V", value="V / 1000")],
    )
    assert scaled == {}


def test_a_node_may_state_the_units_of_its_parts():
    part_units = units(
        metadata={"units": {"V": "mV", "tau": "s", "n": 3}},
        parameters=[
            Parameter(id="V", value=1.0),
            Parameter(id="tau", value=1.0, metadata={"units": "ms"}),
            Parameter(id="n", value=1),
        ],
        output_ports=[OutputPort(id="out", value="V")],
    )
    assert part_units == {"n.V": "mV", "n.tau": "ms", "n.out": "mV"}


def test_names_in_a_cycle_have_no_unit():
    part_units = units(
        parameters=[
            Parameter(id="count", value="count"),
            Parameter(id="a", value="b"),
            Parameter(id="b", value="a"),
        ],
        metadata={"units": "mV"},
    )
    assert part_units == {}


def test_a_model_without_metadata_has_no_units():
    assert units(parameters=[Parameter(id="p", value=1, metadata={"units": None})]) == {}


def graph(metadata):
    return open_document(Graph(id="g", nodes=[Node(id="n")], metadata=metadata))


@pytest.mark.parametrize("unit", ["ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "min", "h", "d"])
def test_a_graph_states_its_unit_of_time(unit):
    document = graph({"time_unit": unit})
    assert (
        time_unit_of(document) == stated_time_unit(document) == units_of(document)["time"] == unit
    )


@pytest.mark.parametrize("metadata", [None, {}, {"units": "ms"}])
def test_the_default_unit_of_time_is_seconds(metadata):
    document = graph(metadata)
    assert time_unit_of(document) == units_of(document)["time"] == "s"
    assert stated_time_unit(document) is None


@pytest.mark.parametrize(
    ("unit", "description"),
    [
        ("mV", "text, 'mV'"),
        ("MS", "text, 'MS'"),
        ("seconds", "text, 'seconds'"),
        ("", "text, ''"),
        (" ms", "text, ' ms'"),
        ("m" * 1000, f"text, '{'m' * 40}'"),
        (None, "empty"),
        (1, "a number, 1"),
        (True, "a truth value, true"),
        (["ms"], "a list"),
        ({"ms": 1}, "of type dict"),
    ],
)
def test_a_unit_that_is_no_time_is_refused(unit, description):
    with pytest.raises(ModelError) as error:
        graph({"time_unit": unit})
    assert error.value.report == (
        f"ModelError: 'time_unit' of the graph 'g' is {description}, which is no unit of time\n"
        "  at $.graphs[0].metadata\n"
        "  hint: units of time are ns, us, ms, s, min, h, d; without 'time_unit' it is s"
    )


@pytest.mark.parametrize(
    "key", ["time_units", "timeunit", "Unit of time", "time_uint", "units_of_time"]
)
def test_a_misspelt_key_of_the_unit_of_time_is_refused(key):
    with pytest.raises(
        ModelError, match=f"graph 'g' has the key '{key}', which nothing reads"
    ) as e:
        open_document(Graph(id="g", metadata={key: "ms"}))
    assert e.value.findings[0].hint == "did you mean 'time_unit'?"


@pytest.mark.parametrize(
    "metadata",
    [{"time_units": "ms", "time_unit": "ms"}, {"time_step": "1"}, {"time_units": ["s", "ms"]}],
)
def test_other_metadata_are_remarks(metadata):
    open_document(Graph(id="g", metadata=metadata))


def test_a_unit_is_returned_with_its_place():
    node = Node(
        id="n",
        metadata={"units": {"f": "Hz"}},
        input_ports=[InputPort(id="i", metadata={"unit": "nA"}), InputPort(id="j")],
        parameters=[Parameter(id="p", value="i"), Parameter(id="q", value="f")],
        functions=[Function(id="f", function="exp", args={"variable0": "i"})],
        output_ports=[OutputPort(id="o", value="p")],
    )
    document = open_document(Graph(id="g", nodes=[node]))
    place = "$.graphs[0].nodes['n']"
    (i, j), (p, q), (o,) = node.input_ports, node.parameters, node.output_ports
    for part in (i, p, o):
        assert unit_of(document, node, part) == Unit(
            "nA", f"{place}.input_ports['i'].metadata.unit"
        )
    assert unit_of(document, node, q) == Unit("Hz", f"{place}.metadata.units['f']")
    assert unit_of(document, node, j) == Unit("", f"{place}.input_ports['j']")
    assert unit_of_time(document) == Unit("s", "$.graphs[0].metadata.time_unit")
