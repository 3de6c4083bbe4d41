"""Counts, conditions and order of a body's inputs and outputs (R1.25, R1.26, R1.33, R1.34)."""

import numpy as np
import pytest

from mdf_loop.errors import ArityError, ConditionError, SignatureError

COUNTED_MODEL = """
nodes:
  worker:
    input_ports: {x: {default_value: 1.0}, y: {default_value: 2.0}}
    functions:
      work:
        function: onnx::Loop
        args:
          M: 2
          cond: true
          v_initial: INITIAL
          body:
            b:
              metadata: {inputs: [INPUTS], outputs: [OUTPUTS]}
              nodes:
                n:
                  input_ports: {u: {default_value: 0.0}}
                  output_ports: {more: {value: u + u}, going: {value: u < 5}, row: {value: u}}
    output_ports: {RESULTS}
"""


def counted(initial, inputs, outputs, results='x: {value: "work[0]"}'):
    model = COUNTED_MODEL.replace("INITIAL", initial).replace("INPUTS", inputs)
    return model.replace("OUTPUTS", outputs).replace("RESULTS", results)


@pytest.mark.parametrize(
    ("initial", "inputs", "count", "reported_count"),
    [
        ("(x, y)", "i, c, u", "2 + 2", "3"),
        ("x", "i, u", "2 + 1", "2"),
        ("x", "i, c, u, v", "2 + 1", "4"),
        ("[]", "i, c, u", "2 + 0", "3"),
        ("(x,)", "", "2 + 1", "0"),
    ],
)
def test_r1_25_wrong_number_of_body_inputs(run_everywhere, initial, inputs, count, reported_count):
    n = count[-1]
    sentence = (
        rf"has {n} initial values?, .* needs {count[0]} \+ {n} inputs .* names {reported_count}"
    )
    with pytest.raises(ArityError, match=sentence) as caught:
        run_everywhere(counted(initial, inputs, "going, more"))
    assert ".args.body" in caught.value.findings[0].where


@pytest.mark.parametrize(
    ("initial", "inputs", "outputs", "reported_count"),
    [("(x, y)", "i, c, u, v", "going, more", 2), ("x", "i, c, u", "going", 1)],
)
def test_r1_25_too_few_body_outputs(run_everywhere, initial, inputs, outputs, reported_count):
    sentence = rf"needs at least 1 \+ \d outputs .* but it has {reported_count}: "
    with pytest.raises(ArityError, match=sentence):
        run_everywhere(counted(initial, inputs, outputs))


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ('x: {value: "work[3]"}', r"result 3 does not exist: there are 3 results"),
        (
            "p: {value: work}, q: {value: work}",
            r"the loop gives 3 results, but 2 output ports take them",
        ),
        ("p: {value: work}", r"'worker.p' is 3 results, an output is one"),
    ],
)
def test_r1_25_reading_a_missing_output_is_an_error(run_everywhere, results, sentence):
    model = counted("x", "i, c, u", "going, more, row, row", results)
    with pytest.raises(ArityError, match=sentence):
        run_everywhere(model)


def test_r1_25_ports_read_outputs_by_position(run_everywhere):
    model = counted("x", "i, c, u", "going, more, row", "p: {value: work}, q: {value: work}")
    results = run_everywhere(model)
    assert results["p"] == 4.0
    assert results["q"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("condition", "reported_type"),
    [("more", r"float64\[\]"), ("i", r"int64\[\]"), ("mask", r"bool\[3\]")],
)
def test_r1_26_the_body_condition_is_one_truth_value(run_everywhere, condition, reported_type):
    model = counted("x", "i, c, u", f"{condition}, more").replace(
        "row: {value: u}", "mask: {value: 'u > numpy.array([1, 2, 3])'}"
    )
    sentence = (
        rf"the body's condition '{condition}' must be (a|one) truth value, not {reported_type}"
    )
    with pytest.raises(ConditionError, match=sentence):
        run_everywhere(model)


def test_r1_26_a_body_without_outputs_has_no_condition(run_everywhere):
    with pytest.raises((ArityError, SignatureError, ConditionError), match="condition"):
        run_everywhere(counted("[]", "i, c", ""))


def test_r1_26_a_condition_of_one_element_is_one_truth_value(run_everywhere):
    model = counted("x", "i, c, u", "mask, more").replace(
        "row: {value: u}", "mask: {value: 'u < numpy.array([0.5])'}"
    )
    assert run_everywhere(model)["x"] == 2.0


# --- documents of the importer of modeci_mdf -------------------------------------------------------------


def abc(shared, count):
    text = (shared / "models" / "ONNX" / "abc.yaml").read_text()
    inputs = {"input": np.ones((2, 3), np.float32), "B_loop_count": count}
    return text, inputs


@pytest.mark.parametrize(("count", "expected"), [(5, 0.002), (1, 20.0), (0, 200.0)])
def test_r1_33_abc_as_shipped(run_everywhere, shared, count, expected):
    text, inputs = abc(shared, count)
    results = run_everywhere(text, inputs, precision="float32")
    assert results["_13"].shape == (2, 3)
    np.testing.assert_allclose(results["_13"], expected, rtol=1e-6)


def test_r1_33_stored_numbers(check_stored, shared):
    text, _ = abc(shared, 5)
    check_stored("mdf_abc_example", text, ["_13"], {}, precision="float32")


IMPORTED = """
nodes:
  Loop_6:
    input_ports:
      n: {shape: [1], type: float}
      x.1: {shape: [2], type: float, default_value: [8.0, 4.0]}
    parameters:
      body:
        value:
          graph_sub:
            id: sub
            nodes:
              Div_8:
                input_ports: {x.11: {shape: [2], type: float}}
                parameters:
                  B: {value: 2.0}
                  Div_8: {function: "onnx::Div", args: {A: x.11, B: B}}
                output_ports: {x: {value: Div_8}}
              Identity_9:
                parameters:
                  input: {value: true}
                  Identity_9: {function: "onnx::Identity", args: {input: input}}
                output_ports: {"_11": {value: Identity_9}}
      cond: {value: true}
      Loop_6: {function: "onnx::Loop", args: {M: n, cond: cond, v_initial: x.1}}
    output_ports: {x.3: {value: Loop_6}}
"""


@pytest.mark.parametrize("n", [0, 1, 3])
def test_r1_33_a_document_of_the_importer_runs_unchanged(run_everywhere, n):
    results = run_everywhere(IMPORTED, {"n": n})
    assert results["Loop_6.x.3"].tolist() == [8.0 / 2**n, 4.0 / 2**n]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("v_initial: x.1", "v_initial: x.1, arg_y: x.1"), "metadata.inputs"),
        (
            ("input_ports: {x.11: {shape: [2], type: float}}", "input_ports: {x.11: {}, y.11: {}}"),
            "metadata.inputs",
        ),
        (
            ('"_11": {value: Identity_9}', '"_11": {value: Identity_9}, z: {value: input}'),
            "metadata.outputs",
        ),
    ],
)
def test_r1_34_an_ambiguous_order_needs_metadata(run_everywhere, change, what):
    with pytest.raises(SignatureError, match=f"cannot be inferred.*{what} is missing") as caught:
        run_everywhere(IMPORTED.replace(*change), {"n": 2})
    assert "metadata: {inputs: [" in str(caught.value)


SPELLINGS = """
nodes:
  worker:
    input_ports: {x: {default_value: 1.0}}
    functions:
      work:
        function: onnx::Loop
        args:
          M: 3
          v_initial: x
          body: BODY
    output_ports: {x: {value: "work[0]"}, xs: {value: "work[1]"}}
"""
NODES = "nodes: {n: {input_ports: {u: {}}, output_ports: {v: {value: u + u}, go: {value: u < 9}}}}"


@pytest.mark.parametrize(
    "body",
    [
        f"{{b: {{metadata: {{inputs: [i, c, u], outputs: [go, v, v]}}, {NODES}}}}}",
        f"{{b: {{metadata: {{inputs: 'i, c, u', outputs: 'go, v, v'}}, {NODES}}}}}",
        f"{{b: {{metadata: {{inputs: [i, c, u], outputs: [n.go, n.v, n.v]}}, {NODES}}}}}",
        f"{{b: {{metadata: {{inputs: {{i: 0, c: 0, u: 0}}, outputs: [go, v, v]}}, {NODES}}}}}",
        f"{{inputs: [i, c, u], outputs: [go, v, v], graph: {{b: {{{NODES}}}}}}}",
        f"{{graph_b: {{id: b, metadata: {{inputs: [i, c, u], outputs: [go, v, v]}}, {NODES}}}}}",
    ],
)
def test_r1_34_ways_to_write_the_order(run_everywhere, body):
    results = run_everywhere(SPELLINGS.replace("BODY", body))
    assert results["x"] == 8.0
    assert results["xs"].tolist() == [2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    "body", ["{graph: step}", "step", "'step'", "{graph: step, inputs: [i, c, u]}"]
)
def test_r1_34_a_body_that_is_another_graph_of_the_model(run_everywhere, body):
    import yaml

    main = yaml.safe_load(SPELLINGS.replace("BODY", body))
    step = yaml.safe_load(f"{{metadata: {{inputs: [i, c, u], outputs: [go, v, v]}}, {NODES}}}")
    for graphs in ({"main": main, "step": step}, {"step": step, "main": main}):
        document = {"model": {"format": "ModECI MDF v0.4", "graphs": graphs}}
        results = run_everywhere(yaml.safe_dump(document, sort_keys=False))
        assert results["x"] == 8.0
