"""Ragged histories and text as carried values (R1.13, R1.31)."""

import json

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import CarryTypeError, UnsupportedError
from tests.conftest import close, document_of, stored_value

RAGGED = """
nodes:
  history:
    input_ports:
      n: {type: int}
      x: {type: float32, shape: [5], default_value: [1, 2, 3, 4, 5]}
      start: {type: sequence(float32)}
    functions:
      grow:
        function: onnx::Loop
        args:
          M: n
          v_initial: start
          body:
            step:
              metadata: {inputs: [i, go, rows], outputs: [go, more]}
              nodes:
                put:
                  input_ports: {i: {}, rows: {}, x: {}}
                  functions:
                    insert:
                      function: onnx::SequenceInsert
                      args: {input_sequence: rows, tensor: "x[:i + 1]"}
                  output_ports: {more: {value: insert}}
    output_ports: {rows: {value: grow}, count: {value: len(grow)}}
"""


@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_r1_31_a_ragged_history_is_a_sequence(run_everywhere, n):
    results = run_everywhere(RAGGED, {"n": n}, engine=False)
    assert [row.tolist() for row in results["rows"]] == [[*range(1, k + 2)] for k in range(n)]
    assert results["count"] == n


def test_r1_31_an_initial_sequence_is_extended(run_everywhere):
    results = run_everywhere(RAGGED, {"n": 1, "start": [[7, 8], 9]}, engine=False)
    assert [row.tolist() for row in results["rows"]] == [[7, 8], 9, [1]]
    assert {row.dtype for row in results["rows"]} == {np.dtype("float32")}


def test_r1_31_a_sequence_in_a_nested_loop(run_everywhere):
    """Carry a sequence through an inner and an outer loop."""
    text = """
nodes:
  rows:
    input_ports: {n: {type: int}}
    functions:
      none: {function: onnx::SequenceEmpty, args: {dtype: int64}}
      outer:
        function: onnx::Loop
        args:
          M: n
          v_initial: none
          body:
            o:
              metadata: {inputs: [i, go, all], outputs: [go, more]}
              nodes:
                each:
                  input_ports: {i: {}, all: {}}
                  functions:
                    inner:
                      function: onnx::Loop
                      args:
                        M: i + 1
                        v_initial: all
                        body:
                          p:
                            metadata: {inputs: [j, going, kept], outputs: [going, put]}
                            nodes:
                              add:
                                input_ports: {i: {}, j: {}, kept: {}, all: {}}
                                functions:
                                  put:
                                    function: onnx::SequenceInsert
                                    args: {input_sequence: kept, tensor: i * 10 + j + 100 * len(all)}
                                output_ports: {put: {value: put}}
                  output_ports: {more: {value: inner}}
    output_ports: {y: {value: outer}}
"""
    members = run_everywhere(text, {"n": 3}, engine=False)["y"]
    assert [int(k) for k in members] == [0, 110, 111, 320, 321, 322]


OPTIONAL = """
nodes:
  history:
    input_ports:
      n: {type: int}
      start: {type: optional(sequence(float32))}
    functions:
      grow:
        function: onnx::Loop
        args:
          M: n
          v_initial: start
          body:
            step:
              metadata: {inputs: [i, go, rows], outputs: [go, more]}
              nodes:
                put:
                  input_ports: {i: {}, rows: {}}
                  functions:
                    is_there: {function: onnx::OptionalHasElement, args: {input: rows}}
                    held:
                      function: onnx::If
                      args:
                        cond: is_there
                        then_branch:
                          there:
                            metadata: {outputs: [held]}
                            nodes:
                              get:
                                input_ports: {rows: {}}
                                functions:
                                  g: {function: onnx::OptionalGetElement, args: {input: rows}}
                                output_ports: {held: {value: g}}
                        else_branch:
                          absent:
                            metadata: {outputs: [first]}
                            nodes:
                              new:
                                functions:
                                  f: {function: onnx::SequenceEmpty, args: {dtype: float32}}
                                output_ports: {first: {value: f}}
                    insert: {function: onnx::SequenceInsert, args: {input_sequence: held, tensor: numpy.float32(i)}}
                  output_ports: {more: {value: insert}}
    output_ports: {rows: {value: grow}}
"""


@pytest.mark.parametrize(
    ("start", "n", "expected"),
    [(None, 2, [0, 1]), ([], 2, [0, 1]), ([[5, 6]], 1, [[5, 6], 0]), ([[5]], 0, [[5]])],
)
def test_r1_31_a_history_that_may_be_absent_at_first(run_everywhere, start, n, expected):
    rows = run_everywhere(OPTIONAL, {"n": n, "start": start}, engine=False)["rows"]
    assert [row.tolist() for row in rows] == expected


def test_r1_31_reading_an_absent_optional_value_fails(mdf):
    with pytest.raises(mdf_loop.LoopError, match="ask onnx::OptionalHasElement before"):
        mdf_loop.compile(mdf(OPTIONAL)).run({"n": 0})


def test_r1_31_a_sequence_cannot_be_recorded(mdf):
    text = RAGGED.replace("[go, more]", "[go, more, more]").replace("value: grow}", "value: x}")
    text = text.replace("len(grow)", "1")
    with pytest.raises(UnsupportedError) as caught:
        mdf_loop.read(mdf(text))
    assert "the recorded value 'more' is a sequence, which cannot be recorded" in str(caught.value)
    assert "carry it" in str(caught.value)


def test_r1_31_a_carried_sequence_keeps_its_dtype(mdf):
    text = RAGGED.replace("value: insert", "value: x").replace("len(grow)", "1")
    with pytest.raises(CarryTypeError) as caught:
        mdf_loop.read(mdf(text))
    assert "'rows': sequence(float32) becomes 'more': float32[5]" in str(caught.value)


@pytest.mark.parametrize("case", ["test_loop16_seq_none", "test_sequence_map_add_2_sequences"])
def test_r1_31_stored_cases(shared, case):
    """Import and run the backend tests of ONNX with sequences."""
    onnx_graph = pytest.importorskip("mdf_loop.importing.onnx_graph")
    import onnx

    path = shared / "cases" / "onnx_backend" / f"{case}.json"
    stored_case = json.loads(path.read_text())
    proto = onnx.load(path.with_name(stored_case["model"]))
    graphs = onnx_graph.convert_main_graph(proto.graph, "graph", {})
    model = {"model": {"format": "ModECI MDF v0.4", "graphs": graphs}}
    inputs = {name: stored_value(entry) for name, entry in stored_case["inputs"].items()}
    results = mdf_loop.compile(model, device="cpu").run(inputs)
    for name, entry in stored_case["expected"].items():
        close(results[name], stored_value(entry))


# --- text -----------------------------------------------------------------------------------------

TEXTS = """
nodes:
  words:
    input_ports: {n: {type: int}, pair: {type: string, shape: [2]}}
    parameters: {names: {value: [a, b, c], metadata: {dtype: string}}}
    functions:
      shift:
        function: onnx::Loop
        args:
          M: n
          v_initial: pair
          body:
            step:
              metadata: {inputs: [i, go, held], outputs: [go, next]}
              nodes:
                move:
                  input_ports: {i: {}, held: {}, names: {}}
                  functions:
                    last: {function: onnx::Gather, args: {data: held, indices: "[1]"}}
                    new: {function: onnx::Gather, args: {data: names, indices: "[i]"}}
                    moved: {function: onnx::Concat, args: {inputs: "[last, new]", axis: 0}}
                    same: {function: onnx::Equal, args: {A: held, B: moved}}
                    chosen: {function: onnx::Where, args: {condition: same, X: held, Y: moved}}
                    kept: {function: onnx::Identity, args: {input: chosen}}
                  output_ports: {next: {value: kept}}
    output_ports:
      pair: {value: shift}
      equal: {value: shift == pair}
      is_b: {value: "shift != names[1]"}
"""


@pytest.mark.parametrize(
    ("n", "pair"), [(0, ["x", "y"]), (1, ["y", "a"]), (2, ["a", "b"]), (3, ["b", "c"])]
)
def test_r1_13_text_is_carried_captured_and_compared(run_everywhere, n, pair):
    results = run_everywhere(document_of(TEXTS), {"n": n, "pair": ["x", "y"]}, engine=False)
    assert results["pair"].tolist() == pair
    assert results["equal"].tolist() == [n == 0, n == 0]
    assert results["is_b"].tolist() == [word != "b" for word in pair]
    assert json.loads(results.to_json())["outputs"]["words.pair"]["dtype"] == "string"


def test_r1_13_text_is_no_number():
    with pytest.raises(mdf_loop.LoopError, match="must be text or a list of texts, not"):
        mdf_loop.read(document_of(TEXTS), {"n": 1, "pair": [1, 2]})
    with pytest.raises(mdf_loop.LoopError, match="text cannot take part in arithmetic"):
        mdf_loop.read(document_of(TEXTS.replace("shift == pair", "shift + 1")), {"n": 1})
