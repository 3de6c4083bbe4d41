"""Loops in modeci_mdf's own engine: state, order, results, models and errors."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import runpy
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import LoopError
from mdf_loop.document.loading import suppress_output
from mdf_loop.errors import (
    ArityError,
    CarryTypeError,
    CycleError,
    ExpressionError,
    InputError,
    ModelError,
    RunError,
    ScopeError,
    UnknownNameError,
)
from mdf_loop.plugin import loop_call
from mdf_loop.run.onnxruntime.session import Session

Mdf = Callable[[str], Any]

STEP = (
    "{metadata: {inputs: [i, go, x], outputs: [go_out, x_out]}, nodes: {n: {"
    "input_ports: {i: {}, x: {}, drive: {}}, "
    "output_ports: {x_out: {value: x + drive}, go_out: {value: i < 100}}}}}"
)
"""Body that adds `drive`, which it captures, to x."""


def engine_of(graph: Any) -> Any:
    from modeci_mdf.execution_engine import EvaluableGraph

    with suppress_output():
        return EvaluableGraph(graph)


def evaluate(engine: Any, **options: Any) -> None:
    with suppress_output():
        engine.evaluate(**options)


def values(engine: Any, node: str = "N") -> dict[str, Any]:
    return {k: port.curr_value for k, port in engine.enodes[node].evaluable_outputs.items()}


def plain(engine: Any, node: str = "N") -> dict[str, Any]:
    return {k: np.asarray(v).tolist() for k, v in values(engine, node).items()}


def node(text: str) -> str:
    """Return the text of a graph with one node N, with the body above in place of `BODY`."""
    return "nodes:\n  N:\n" + text.replace("BODY", STEP)


# --- several evaluations, state, time ---------------------------------------------------------


def test_state_feeds_the_loop(mdf: Mdf) -> None:
    """Check that functions read a parameter's old value and ports its new one (p = 0, 1, 2 in the loop)."""
    model = mdf(
        node("""
    parameters: {p: {value: p + 1}, drive: {value: 10}}
    functions: {f: {function: "onnx::Loop", args: {M: 2, v_initial: p, body: {b: BODY}}}}
    output_ports: {y: {value: f}, p: {value: p}}
""")
    )
    engine = engine_of(model.graphs[0])
    rows = []
    for _ in range(4):
        evaluate(engine)
        rows.append(tuple(plain(engine).values()))
    assert rows == [(20.0, 1), (21, 2), (22, 3), (23, 4)]


def test_time_increment_and_derivatives(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters:
      v: {default_initial_value: 1.5, time_derivative: f * 10}
      drive: {value: 1.0}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: v, body: {b: BODY}}}}
    output_ports: {f: {value: f}, v: {value: v}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"f": 4.5, "v": 1.5}
    evaluate(engine, time_increment=0.1)
    assert plain(engine) == {"f": 4.5, "v": 6.0}
    evaluate(engine, time_increment=0.1)
    assert plain(engine) == {"f": 9.0, "v": 15.0}


def test_parameter_conditions_on_the_loop(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters:
      drive: {value: 2}
      p: {default_initial_value: 0, value: f, conditions: {reset: {id: reset, test: f.iterations * 5 > f, value: -1}}}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: p, body: {b: BODY}}}}
    output_ports: {p: {value: p}}
""")
    )
    engine = engine_of(model.graphs[0])
    parameters = []
    for _ in range(6):
        evaluate(engine)
        parameters.append(plain(engine)["p"])
    assert parameters == [-1] * 6
    model.graphs[0].nodes[0].parameters[1].conditions[0].test = "f.iterations * 5 < f"
    engine = engine_of(model.graphs[0])
    parameters = []
    for _ in range(5):
        evaluate(engine)
        parameters.append(plain(engine)["p"])
    assert parameters == [6, 12, -1, 5, 11]


def test_initializer_and_types_that_change(mdf: Mdf) -> None:
    model = mdf(
        node("""
    input_ports: {x0: {}, drive: {}}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: x0, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    for x0, drive, y in [
        (1, 2, 7),
        (1.5, 2, 7.5),
        (np.array([1, 2]), 1, [4, 5]),
        (np.array([1.0, 2.0], np.float32), np.float32(0.5), [2.5, 3.5]),
        (np.array(1, np.int32), np.int32(2), 7),
        ([1, 2], 3, [10, 11]),
        (np.float64(1.5), 2.0, 7.5),
        (np.array([1.0, 2.0], ">f8"), 1.0, [4.0, 5.0]),
        (1, 2, 7),
    ]:
        evaluate(engine, initializer={"x0": x0, "drive": drive})
        result = values(engine)["y"]
        assert type(result) is np.ndarray
        assert result.tolist() == y
        assert result.dtype == np.result_type(np.asarray(x0).dtype.newbyteorder("="))


def test_a_computed_integer_may_be_the_initial_value_of_a_float(mdf: Mdf) -> None:
    """Check t = 0.5 + 0.5, which modeci_mdf's engine turns into the int 1; the loop starts from 1.0."""
    model = mdf(
        node("""
    parameters: {t: {value: t + 0.5, default_initial_value: 0.5}, drive: {value: 0.25}}
    functions: {f: {function: "onnx::Loop", args: {M: 2, v_initial: "(t,)", body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    arrays = []
    for _ in range(4):
        evaluate(engine)
        arrays.append(values(engine)["y"])
    assert [y.item() for y in arrays] == [1.0, 1.5, 2.0, 2.5]
    assert {y.dtype for y in arrays} == {np.dtype("float64")}


def test_an_integer_that_is_also_an_index_is_no_float(mdf: Mdf) -> None:
    """Check that the error is about the integer, not about the float that it might stand for."""
    model = mdf(
        node("""
    parameters: {t: {default_initial_value: 0, value: t + 1}, drive: {value: 0.25}, w: {value: [1, 2, 3]}}
    functions: {f: {function: "onnx::Loop", args: {M: 2, v_initial: t, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""").replace("value: x + drive", "value: 'x + drive * w[t]'")
    )
    engine = engine_of(model.graphs[0])
    with pytest.raises(CarryTypeError, match=r"int64\[\] becomes .* float64\[\]"):
        evaluate(engine)


def test_an_integer_of_the_document_is_no_float(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters: {t: {value: 1}, drive: {value: 0.25}}
    functions: {f: {function: "onnx::Loop", args: {M: 2, v_initial: t, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    )
    for run in (
        lambda: mdf_loop.compile(model, device="cpu").run(),
        lambda: evaluate(engine_of(model.graphs[0])),
    ):
        with pytest.raises(CarryTypeError, match=r"int64\[\] becomes .* float64\[\]"):
            run()


def test_a_number_too_large_for_64_bits(mdf: Mdf) -> None:
    """Check 1e29 * 10, which the engine turns into the int 10**30."""
    model = mdf(
        node("""
    parameters: {t: {value: 1e29 * 10}, drive: {value: 0.5}}
    functions: {f: {function: "onnx::Loop", args: {M: 2, v_initial: t, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"y": 1e29 * 10}


def test_compiled_once_for_each_set_of_types(mdf: Mdf, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Any] = []
    initialize = Session.__init__

    def counting(self: Session, *args: Any) -> None:
        sessions.append(args)
        initialize(self, *args)

    monkeypatch.setattr(Session, "__init__", counting)
    model = mdf(
        node("""
    input_ports: {x0: {}, drive: {}, other: {}}
    parameters: {p: {value: p + 1}, g: {function: linear, args: {variable0: p, slope: 1, intercept: 0}}}
    functions: {f: {function: "onnx::Loop", args: {M: p + 1, v_initial: x0, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    for k in range(50):
        other = [1, 2.5, np.zeros(k + 1)][k % 3]
        evaluate(engine, initializer={"x0": 1.5, "drive": k + 0.5, "other": other})
    assert len(sessions) <= 2  # p is 0.0 at first, then an int
    before = len(sessions)
    for k in range(1, 200):
        evaluate(engine, initializer={"x0": np.zeros(k % 3 + 1), "drive": 1.0})
    assert len(sessions) == before + 3


def test_the_cache_of_sessions_is_bounded(mdf: Mdf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_call, "MAX_CACHED_SESSIONS", 2)
    model = mdf(
        node("""
    input_ports: {x0: {}, drive: {}}
    functions: {f: {function: "onnx::Loop", args: {M: 2, v_initial: x0, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    for n in range(1, 6):
        evaluate(engine, initializer={"x0": np.zeros(n), "drive": 1.0})
        assert plain(engine)["y"] == [2.0] * n
    call = engine.enodes["N"].evaluable_functions["f"].loop_call
    assert len(call._compiled_loops) == 2


# --- order ------------------------------------------------------------------------------------

CAPTURED = [
    ("in args", "args: {M: 2, v_initial: g, body: {b: BODY}}", "g: {value: a + 1}", 14),
    ("in a list", "args: {M: 2, v_initial: [g], body: {b: BODY}}", "g: {value: a + 1}", 14),
    ("in a dict", "args: {M: 2, v_initial: {x: g}, body: {b: BODY}}", "g: {value: a + 1}", 14),
    ("in M", "args: {M: g, v_initial: a, body: {b: BODY}}", "g: {value: a - 1}", 13),
    ("in a binding", "args: {M: 2, v_initial: a, drive: g, body: {b: BODY}}", "g: {value: a}", 9),
    ("by the body", "args: {M: 2, v_initial: a, body: {b: BODY}}", "drive: {value: a + 2}", 13),
]


@pytest.mark.parametrize("first", ["loop", "function"])
@pytest.mark.parametrize(("where", "args", "function", "y"), CAPTURED, ids=[c[0] for c in CAPTURED])
def test_functions_come_before_the_loop_that_reads_them(
    mdf: Mdf, where: str, args: str, function: str, y: int, first: str
) -> None:
    loop = 'f: {function: "onnx::Loop", ' + args + "}"
    drive = "" if where == "by the body" else "drive: {value: 5}"
    pair = [loop, function] if first == "loop" else [function, loop]
    model = mdf(
        node(f"""
    parameters: {{a: {{value: 3}}, {drive}}}
    functions: {{h: {{value: f * 2}}, {", ".join(pair)}}}
    output_ports: {{y: {{value: f}}, h: {{value: h}}}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"y": y, "h": 2 * y}
    results = mdf_loop.compile(model, device="cpu").run()
    assert {k: results[k].tolist() for k in ("y", "h")} == {"y": y, "h": 2 * y}


def test_nested_bodies_capture_functions_declared_later(mdf: Mdf) -> None:
    model = mdf(
        node("""
    functions:
      f:
        function: onnx::Loop
        args:
          M: 2
          v_initial: 1
          body:
            outer:
              metadata: {inputs: [i, go, y], outputs: [go_out, y_out]}
              nodes:
                inner:
                  input_ports: {y: {}, i: {}}
                  functions: {g: {function: "onnx::Loop", args: {M: i + 1, v_initial: y, body: {b: BODY}}}}
                  output_ports: {y_out: {value: g}, go_out: {value: i < 5}}
      drive: {value: 2 * five}
      five: {value: "5"}
    output_ports: {y: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"y": 31}


def test_names_of_the_body_are_not_those_of_the_node(mdf: Mdf) -> None:
    """Check a body with an own `h`, while the node's `h` reads the loop."""
    model = mdf(
        node("""
    parameters: {drive: {value: 1}}
    functions:
      f:
        function: onnx::Loop
        args:
          M: 2
          v_initial: 1
          body:
            b:
              metadata: {inputs: [i, go, x], outputs: [go_out, x_out]}
              nodes:
                n:
                  input_ports: {i: {}, x: {}}
                  parameters: {h: {value: x + 1}}
                  output_ports: {x_out: {value: h}, go_out: {value: i < 9}}
      h: {value: f + 100}
    output_ports: {h: {value: h}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"h": 103}


def test_functions_that_need_each_other(mdf: Mdf) -> None:
    model = mdf(
        node("""
    functions:
      f: {function: "onnx::Loop", args: {M: 2, v_initial: 1, body: {b: BODY}}}
      drive: {value: f + 1}
    output_ports: {y: {value: f}}
""")
    )
    with pytest.raises(CycleError, match=r"need each other: .*drive") as caught:
        engine_of(model.graphs[0])
    assert "nodes['N']" in str(caught.value)
    with pytest.raises(CycleError, match="need each other"):
        mdf_loop.compile(model, device="cpu").run()


def test_one_loop_reads_another(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters: {drive: {value: 2}}
    functions:
      second: {function: "onnx::Loop", args: {M: first.iterations + 1, v_initial: "first[0]", body: {b: BODY}}}
      third: {function: "onnx::Loop", args: {M: 1, v_initial: first, drive: second.iterations * 10, body: {b: BODY}}}
      first: {function: "onnx::Loop", args: {M: 3, v_initial: 1, body: {b: BODY}}}
    output_ports: {first: {value: first}, second: {value: second}, third: {value: third}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"first": 7, "second": 15, "third": 47}
    results = mdf_loop.compile(model, device="cpu").run()
    assert {k: results[k].tolist() for k in plain(engine)} == plain(engine)


def test_every_field_that_may_contain_a_name(mdf: Mdf) -> None:
    """Check arguments of functions and conditions of parameters, also those inside of the body."""
    model = mdf(
        node("""
    input_ports: {x.3: {}}
    parameters:
      p: {value: p + 1}
    functions:
      f:
        function: onnx::Loop
        args:
          M: 2
          v_initial: 1
          body:
            b:
              metadata: {inputs: [i, go, x], outputs: [go_out, x_out]}
              nodes:
                n:
                  input_ports: {i: {}, x: {}}
                  functions: {l: {function: linear, args: {variable0: x, slope: slope, intercept: top}}}
                  parameters:
                    y: {value: l, conditions: [{id: c, test: y > limit, value: top}]}
                  output_ports: {x_out: {value: y}, go_out: {value: i < 9}}
      slope: {value: "p * 0 + 2"}
      limit: {value: "numpy.max([slope, 3])"}
      top: {value: limit + 1}
      rest: {function: linear, args: {variable0: f.iterations, slope: "p.real", intercept: top}}
    output_ports: {f: {value: f}, rest: {value: rest}, x: {value: x.3}}
""")
    )
    node_with_dict = model.graphs[0].nodes[0]
    node_with_dict.parameters[0].conditions = [{"id": "c", "test": "f.iterations > 9", "value": 0}]
    engine = engine_of(model.graphs[0])
    evaluate(engine, initializer={"x.3": 5})
    assert plain(engine) == {"f": 4, "rest": 4, "x": 5}
    assert node_with_dict.parameters[0].conditions[0]["test"] == "f.iterations > 9"


# --- loops as parameters ----------------------------------------------------------------------


def test_a_loop_as_a_parameter_is_read_by_later_parameters(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters:
      drive: {value: 2}
      f: {function: "onnx::Loop", args: {M: 3, v_initial: 1, body: {b: BODY}}}
      g: {function: linear, args: {variable0: "f + f.iterations + f[0]", slope: 1, intercept: 0}}
    output_ports: {g: {value: g}, n: {value: f.iterations - 1}}
""")
    )
    engine = engine_of(model.graphs[0])
    for _ in range(2):
        evaluate(engine)
        assert plain(engine) == {"g": 17, "n": 2}
    assert mdf_loop.compile(model, device="cpu").run()["g"] == 17


def test_a_loop_as_a_parameter_with_an_initial_value(mdf: Mdf) -> None:
    """Check a loop that starts from its own last result: 1 -> 7 -> 13."""
    model = mdf(
        node("""
    parameters:
      drive: {value: 2}
      f: {default_initial_value: 1, function: "onnx::Loop", args: {M: 3, v_initial: f, body: {b: BODY}}}
    functions: {old: {value: f * 10}}
    output_ports: {f: {value: f}, old: {value: old}}
""")
    )
    engine = engine_of(model.graphs[0])
    rows = []
    for _ in range(3):
        evaluate(engine)
        rows.append(plain(engine))
    assert rows == [{"f": 7, "old": 10}, {"f": 13, "old": 70}, {"f": 19, "old": 130}]
    assert mdf_loop.compile(model, device="cpu").run()["f"] == 7


def test_a_loop_as_a_parameter_with_conditions(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters:
      drive: {value: 2}
      f:
        function: onnx::Loop
        args: {M: 3, v_initial: f, body: {b: BODY}}
        default_initial_value: 1
        conditions: {high: {id: high, test: f > 10, value: -1}}
    output_ports: {f: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    results = []
    for _ in range(5):
        evaluate(engine)
        results.append(plain(engine)["f"])
    assert results == [7, 13, -1, 5, 11]  # a condition reads the old value


def test_a_loop_reads_a_parameter_without_a_value(mdf: Mdf) -> None:
    model = mdf(
        node("""
    parameters: {drive: {value: 2}, p: {function: linear, args: {variable0: 1, slope: 1, intercept: 0}}}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: p, body: {b: BODY}}}}
    output_ports: {f: {value: f}}
""")
    )
    engine = engine_of(model.graphs[0])
    with pytest.raises(ExpressionError, match="'p' has no value yet when the loop reads it"):
        evaluate(engine)


# --- results ----------------------------------------------------------------------------------

TWO_RESULTS = """
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: 1, body: {b: {
      metadata: {inputs: [i, go, x], outputs: [go_out, x_out, row]},
      nodes: {n: {input_ports: {i: {}, x: {}}, output_ports: {
        x_out: {value: x * 2}, row: {value: x + 0.5}, go_out: {value: i < 9}}}}}}}}}
"""


def test_results_are_exact_tuples_of_arrays(mdf: Mdf) -> None:
    model = mdf(
        node(TWO_RESULTS + "    output_ports: {all: {value: f}, n: {value: f.iterations}}\n")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    result = values(engine)["all"]
    assert type(result) is tuple
    assert [(type(r), r.dtype, r.shape) for r in result] == [
        (np.ndarray, np.dtype("int64"), ()),
        (np.ndarray, np.dtype("float64"), (3,)),
    ]
    assert result[0] == 8
    assert result[1].tolist() == [1.5, 2.5, 4.5]


def test_tuples_go_along_edges(mdf: Mdf) -> None:
    model = mdf(
        node(TWO_RESULTS + "    output_ports: {all: {value: f}}\n")
        + """
  M:
    input_ports: {x: {}}
    parameters: {drive: {value: 1}}
    functions:
      g: {value: "x[0] + x[1][2]"}
      h: {function: "onnx::Loop", args: {M: 2, v_initial: "(x[0], )", body: {b: BODY}}}
    output_ports: {g: {value: g}, h: {value: h}, x: {value: "x[1]"}, last: {value: "x[1][-1]"}}
edges: {e: {sender: N, sender_port: all, receiver: M, receiver_port: x}}
""".replace("BODY", STEP)
    )
    engine = engine_of(model.graphs[0])
    for _ in range(2):
        evaluate(engine)
        assert plain(engine, "M") == {"g": 12.5, "h": 10, "x": [1.5, 2.5, 4.5], "last": 4.5}
    results = mdf_loop.compile(model, device="cpu").run()
    assert {k: results[f"M.{k}"].tolist() for k in plain(engine, "M")} == plain(engine, "M")


def test_a_whole_tuple_starts_a_loop(mdf: Mdf) -> None:
    """Check that all results of one loop can be the initial values of the next."""
    both = """{
      metadata: {inputs: [i, go, x, y], outputs: [go_out, x_out, y_out]},
      nodes: {n: {input_ports: {i: {}, x: {}, y: {}}, output_ports: {
        x_out: {value: y + 0}, y_out: {value: x + y}, go_out: {value: i < 9}}}}}"""
    model = mdf(
        "nodes:\n  N:\n    functions: {f: {function: 'onnx::Loop', args: {M: 2, "
        f"v_initial: '(1, 2)', body: {{b: {both}}}}}}}}}\n"
        "    output_ports: {all: {value: f}}\n"
        "  M:\n    input_ports: {pair: {}}\n"
        "    functions: {f: {function: 'onnx::Loop', args: {M: 2, "
        f"v_initial: pair, body: {{b: {both}}}}}}}}}\n"
        "    output_ports: {x: {value: 'f[0]'}, y: {value: 'f[1]'}}\n"
        "edges: {e: {sender: N, sender_port: all, receiver: M, receiver_port: pair}}\n"
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine, "M") == {"x": 8, "y": 13}
    results = mdf_loop.compile(model, device="cpu").run()
    assert (results["M.x"], results["M.y"]) == (8, 13)


def test_references_to_results_of_a_loop_in_every_field(mdf: Mdf) -> None:
    model = mdf(
        node(
            TWO_RESULTS
            + """
    parameters:
      f_iterations: {value: 1000}
      _f__iterations: {value: 2000}
      p: {default_initial_value: 0, value: "f.iterations if f.condition else -1"}
      q: {default_initial_value: 0, value: q + f.iterations}
      r: {function: linear, args: {variable0: f.iterations, slope: "f[0]", intercept: 1}}
    output_ports:
      a: {value: f.iterations}
      b: {value: f.iterations * 2 + f_iterations + _f__iterations}
      c: {value: "f[0] * f.iterations"}
      d: {value: "f[1][f.iterations - 1]"}
      e: {value: f.stopped_by + 10}
      f: {value: not f.condition}
      p: {value: p}
      q: {value: q}
      r: {value: r}
"""
        )
    )
    model.graphs[0].nodes[0].output_ports[5].id = "g"
    expected = {"a": 3, "b": 3006, "c": 24, "d": 4.5, "e": 10, "g": False, "p": 3, "q": 3, "r": 25}
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == expected
    results = mdf_loop.compile(model, device="cpu").run()
    assert {k: results[k].tolist() for k in expected} == expected


def test_ids_that_are_no_python_names(mdf: Mdf) -> None:
    model = mdf(
        """
nodes:
  /A/Loop:
    input_ports: {x.3: {}, drive: {}}
    parameters: {n.1: {value: 3}}
    functions:
      twice: {value: "/A/Loop[0]"}
      /A/Loop: {function: "onnx::Loop", args: {M: n.1, v_initial: x.3, body: {b: BODY}}}
      count: {value: "/A/Loop.iterations"}
    output_ports:
      y: {value: /A/Loop}
      z: {value: "/A/Loop[0]"}
      twice: {value: 2 * twice}
      n: {value: /A/Loop.iterations}
      count: {value: count + 1}
""".replace("BODY", STEP)
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine, initializer={"x.3": 1, "drive": 2})
    expected = {"y": 7, "z": 7, "twice": 14, "n": 3, "count": 4}
    assert plain(engine, "/A/Loop") == expected


def test_names_with_dots_and_slashes_order_functions_without_loops(mdf: Mdf) -> None:
    """Check `x.3`, which the engine cannot parse and the plugin reads as one name, also for the order."""
    model = mdf(
        """
nodes:
  N:
    input_ports: {a: {}}
    functions:
      late: {function: linear, args: {variable0: x.3, slope: 1, intercept: 0}}
      x.3: {function: linear, args: {variable0: a, slope: 2, intercept: 0}}
      pair: {function: linear, args: {variable0: "numpy.sum((g[0], a))", slope: 1, intercept: 0}}
      g: {value: "[a, a]"}
    output_ports: {y: {value: late}, pair: {value: pair}}
"""
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine, initializer={"a": 4})
    assert plain(engine) == {"y": 8, "pair": 8}
    model.graphs[0].nodes[0].functions[0].args["variable0"] = "x.4"
    with pytest.raises(ValueError, match=r"missing:\n\t.*x\.4"):
        engine_of(model.graphs[0])


@pytest.mark.parametrize("n_ports", [1, 2, 3])
def test_ports_that_share_a_loop(mdf: Mdf, n_ports: int) -> None:
    ports = ", ".join(f"p{k}: {{value: f}}" for k in range(n_ports))
    model = mdf(node(TWO_RESULTS + f"    output_ports: {{{ports}, n: {{value: f.iterations}}}}\n"))
    engine = engine_of(model.graphs[0])
    if n_ports == 3:
        with pytest.raises(ArityError, match="gives 2 results, but 3 output ports take them"):
            evaluate(engine)
        with pytest.raises(ArityError, match="gives 2 results, but 3 output ports take them"):
            mdf_loop.compile(model, device="cpu").run()
        return
    evaluate(engine)
    if n_ports == 2:
        assert plain(engine) == {"p0": 8, "p1": [1.5, 2.5, 4.5], "n": 3}
    else:
        assert len(values(engine)["p0"]) == 2


def test_a_threshold_on_the_loop_terminates_the_trial(mdf: Mdf) -> None:
    """Check scheduler conditions on loops, on their results and on parameters that read them."""
    model = mdf(
        node("""
    parameters: {drive: {value: 1}, p: {value: p + 1}}
    functions: {f: {function: "onnx::Loop", args: {M: p, v_initial: 0, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
conditions:
  termination:
    environment_state_update: {type: Threshold, kwargs: {dependency: N, parameter: f.iterations, threshold: 4, comparator: ">="}}
""")
    )
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    assert plain(engine) == {"y": 4}
    assert engine.order_of_execution == ["N"] * 5


def test_verbose_evaluation(mdf: Mdf, capsys: pytest.CaptureFixture[str]) -> None:
    from modeci_mdf.execution_engine import EvaluableGraph

    engine = EvaluableGraph(
        mdf(node(TWO_RESULTS + "    output_ports: {all: {value: f}}\n")).graphs[0], verbose=True
    )
    engine.evaluate()
    assert "Evaluating Node: N" in capsys.readouterr().out


# --- models and their graphs ------------------------------------------------------------------

TWO_GRAPHS = """
model:
  format: ModECI MDF v0.4
  graphs:
    main:
      nodes:
        N:
          parameters: {drive: {value: 2}}
          functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: 1, body: outer}}}
          output_ports: {y: {value: f}}
    outer:
      metadata: {inputs: [i, go, y], outputs: [go_out, y_out]}
      nodes:
        n:
          input_ports: {i: {}, y: {}}
          functions: {g: {function: "onnx::Loop", args: {M: 2, v_initial: y, body: {graph: inner}}}}
          output_ports: {y_out: {value: g}, go_out: {value: i < 9}}
    inner:
      metadata: {inputs: [i, go, x], outputs: [go_out, x_out]}
      nodes:
        n:
          input_ports: {i: {}, x: {}, drive: {}}
          output_ports: {x_out: {value: x + drive}, go_out: {value: i < 100}}
"""
"""Model with 1 + 3 * 2 * 2 = 13, in which the body of the body is a third graph."""


def result(graph: Any) -> Any:
    engine = engine_of(graph)
    evaluate(engine)
    return plain(engine)["y"]


def only_graph(model: Any) -> Any:
    """Return the graph after its model is deleted, as in `main()`."""
    graph = model.graphs[0]
    del model
    gc.collect()
    return graph


def test_bodies_are_found_after_the_model_is_deleted(mdf: Mdf) -> None:
    assert result(only_graph(mdf(TWO_GRAPHS))) == 13


@pytest.mark.slow
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), copy.copy]
)
def test_bodies_are_found_in_copies_of_the_model(mdf: Mdf, copied: Callable[[Any], Any]) -> None:
    model = mdf(TWO_GRAPHS)
    model_copy = copied(model)
    if copied is not copy.copy:
        model_copy.graphs[2].nodes[0].output_ports[0].value = "x + 10 * drive"
        assert result(model_copy.graphs[0]) == 121
    assert result(model.graphs[0]) == 13
    del model
    gc.collect()
    assert result(only_graph(model_copy)) == (13 if copied is copy.copy else 121)


def test_bodies_are_found_in_graphs_added_later(mdf: Mdf) -> None:
    from modeci_mdf.mdf import Model

    whole = mdf(TWO_GRAPHS)
    model = Model(id="m")
    model.graphs.append(whole.graphs[0])
    model.graphs += copy.deepcopy(whole).graphs[1:]
    model.graphs[2].nodes[0].output_ports[0].value = "x - drive"
    assert result(model.graphs[0]) == -11  # the latest model has priority
    del whole
    gc.collect()
    assert result(model.graphs[0]) == -11


def test_bodies_are_found_in_models_created_before_registration(mdf: Mdf) -> None:
    mdf_loop.unregister()
    try:
        model = mdf(TWO_GRAPHS)
    finally:
        mdf_loop.register()
    assert result(model.graphs[0]) == 13


def test_a_graph_whose_model_is_not_known(mdf: Mdf) -> None:
    model = mdf(TWO_GRAPHS)
    alone = copy.deepcopy(model.graphs[0])
    with pytest.raises(ModelError, match="the loop body 'outer' is another graph") as caught:
        engine_of(alone)
    assert "copy the Model, not only the Graph" in str(caught.value)


def test_a_body_that_is_not_in_the_model(mdf: Mdf) -> None:
    model = mdf(TWO_GRAPHS.replace("body: outer", "body: oter"))
    with pytest.raises(ModelError, match="'oter' is not a graph of the model") as caught:
        engine_of(model.graphs[0])
    assert "'main', 'outer', 'inner'" in str(caught.value)


def test_graphs_that_name_each_other(mdf: Mdf) -> None:
    model = mdf(TWO_GRAPHS.replace("graph: inner", "graph: outer"))
    for run in (lambda: engine_of(model.graphs[0]), lambda: mdf_loop.compile(model).run()):
        with pytest.raises(ModelError, match="'outer' contains a loop whose body is 'outer' again"):
            run()
    cyclic = TWO_GRAPHS.replace("x: {}, drive", "x: {}, drive") + (
        "          functions: {h: {function: 'onnx::Loop', args: {M: 1, body: outer}}}\n"
    )
    model = mdf(cyclic)
    with pytest.raises(ModelError, match="contains a loop whose body is"):
        engine_of(model.graphs[0])


def test_models_graphs_engines_and_calls_are_freed(mdf: Mdf) -> None:
    model = mdf(TWO_GRAPHS)
    engine = engine_of(model.graphs[0])
    evaluate(engine)
    objects = [model, *model.graphs, engine, engine.enodes["N"].evaluable_functions["f"].loop_call]
    references = [weakref.ref(candidate) for candidate in objects]
    objects.clear()
    del model, engine
    gc.collect()
    assert [ref for ref in references if ref() is not None] == []


@pytest.mark.slow
def test_graphs_that_contain_themselves_are_freed(mdf: Mdf) -> None:
    for graph, name in (("inner", "outer"), ("outer", "main"), ("outer", "outer")):
        model = mdf(TWO_GRAPHS.replace(f"graph: {graph}", f"graph: {name}").replace(
            f"body: {graph}", f"body: {name}"))  # fmt: skip
        references = [weakref.ref(candidate) for candidate in (model, *model.graphs)]
        del model
        gc.collect()
        assert [ref for ref in references if ref() is not None] == []


@pytest.mark.slow
def test_main(mdf: Mdf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import modeci_mdf.execution_engine as engine

    model = mdf(TWO_GRAPHS)
    for suffix in ("json", "yaml"):
        path = str(tmp_path / f"model.{suffix}")
        with suppress_output():
            getattr(model, f"to_{suffix}_file")(path)
            gc.collect()
            for verbose in (False, True):
                assert plain(engine.main(path, verbose=verbose))["y"] == 13


def test_bson_files(mdf: Mdf) -> None:
    """Check a BSON file, from which integers are read as objects of a special class."""
    from modeci_mdf.mdf import Model

    with suppress_output():
        model = Model.from_bson(mdf(TWO_GRAPHS).to_bson())
    assert result(model.graphs[0]) == 13
    assert mdf_loop.compile(model, device="cpu").run()["y"] == 13


def test_live_graph_objects_as_bodies(mdf: Mdf) -> None:
    from modeci_mdf.mdf import Function, Graph, Model, Node, OutputPort, Parameter

    inner = only_graph(mdf(TWO_GRAPHS.replace("main", "zzz"))).__class__
    assert inner is Graph
    body = mdf(TWO_GRAPHS).graphs[2]
    for in_args in (True, False):
        loop = Function(
            id="f",
            function="onnx::Loop",
            args={"M": 3, "v_initial": 1, **({"body": body} if in_args else {})},
        )
        parameters = [Parameter(id="drive", value=2)]
        parameters += [] if in_args else [Parameter(id="body", value=body)]
        loop_node = Node(
            id="N",
            functions=[loop],
            parameters=parameters,
            output_ports=[OutputPort(id="y", value="f")],
        )
        model = Model(id="m", graphs=[Graph(id="g", nodes=[loop_node])])
        assert result(model.graphs[0]) == 7
        assert mdf_loop.compile(model, device="cpu").run()["y"] == 7


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"M: 3": "M: [1, 2]"}, LoopError, "must be one whole number"),
        ({"M: 3": "M: mm"}, UnknownNameError, "unknown name 'mm'"),
        ({"v_initial: 1": "v_initial: '(1, 2)'"}, LoopError, "has 2 initial values"),
        ({"v_initial: 1": "v_initial: (1, 2)"}, ModelError, "v_initial is cut off"),
        ({"x + drive": "x + driv"}, UnknownNameError, "driv"),
        ({"x + drive": "x / 2"}, CarryTypeError, "carried values must keep their dtype"),
        ({"i < 100": "x"}, LoopError, "must be a truth value"),
        ({"x + drive": "'x + w[i]'"}, RunError, "outside|out of"),
    ],
)
def test_messages_of_errors(
    mdf: Mdf, changes: dict[str, str], error: type[LoopError], match: str
) -> None:
    text = node("""
    parameters: {drive: {value: 2}, w: {value: [1, 2]}}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: 1, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    for old, new in changes.items():
        text = text.replace(old, new)
    model = mdf(text)
    with pytest.raises(error, match=match) as caught:
        result(model.graphs[0])
    assert "Could not evaluate" not in str(caught.value)
    assert "nodes['N'].functions['f']" in str(caught.value)


def test_values_that_are_not_numbers(mdf: Mdf) -> None:
    model = mdf(
        node("""
    input_ports: {x0: {}}
    parameters: {drive: {value: 2}}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: x0, body: {b: BODY}}}}
    output_ports: {y: {value: 1}}
""")
    )
    engine = engine_of(model.graphs[0])
    for value, match in [
        ("text", "'x0' must be a number"),
        ([[1], [2, 3]], "ragged"),
        ({"a": 1}, "'x0' must be a number or an array of numbers, not dict"),
        (1j, "'x0' must be a number or an array of numbers, not complex128"),
        (np.longdouble(1), "longdouble|float128"),
    ]:
        with pytest.raises(InputError, match=match):
            evaluate(engine, initializer={"x0": value})
    evaluate(engine, initializer={"x0": 1})


def test_nodes_without_loops_are_the_engines_own(mdf: Mdf) -> None:
    from modeci_mdf.execution_engine import EvaluableFunction, EvaluableNode

    model = mdf("nodes: {N: {functions: {f: {value: '2'}}, output_ports: {y: {value: f}}}}")
    engine = engine_of(model.graphs[0])
    assert type(engine.enodes["N"]) is EvaluableNode
    assert type(engine.enodes["N"].evaluable_functions["f"]) is EvaluableFunction
    evaluate(engine)
    assert plain(engine) == {"y": 2}


# --- upstream's importer ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_the_importers_example(shared: Path, suffix: str) -> None:
    """Check examples/ONNX/abc: ids with dots and slashes, and a body without a declared order."""
    from modeci_mdf.utils import load_mdf

    path = shared / "models" / "ONNX" / f"abc.{suffix}"
    with suppress_output():
        engine = engine_of(load_mdf(str(path)).graphs[0])
    inputs = {"input": np.ones((2, 3)), "B_loop_count": np.array([5])}
    evaluate(engine, initializer=inputs)
    np.testing.assert_allclose(values(engine, "/C/Mul")["_13"], np.full((2, 3), 0.002), rtol=1e-6)
    results = mdf_loop.compile(str(path), device="cpu").run(inputs)
    np.testing.assert_allclose(results["_13"], np.full((2, 3), 0.002), rtol=1e-12)
    evaluate(engine)  # no iterations: (0 + 1) * 100
    assert values(engine, "/C/Mul")["_13"].tolist() == [[100.0] * 3] * 2


def test_the_sample_of_the_onnx_document(shared: Path) -> None:
    import modeci_mdf.execution_engine as engine

    with suppress_output():
        graph = engine.main(str(shared / "models" / "doc_sample.yaml"))
    assert plain(graph, "loop_node") == {"b_final": 6, "user_defined_vals": [12, -6]}


def test_the_engine_as_a_script(mdf: Mdf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check `python -m modeci_mdf.execution_engine model.yaml`, which runs a second copy of the engine.

    This copy knows only the registered function. A loop that captures no value runs, other loops are refused.
    """
    path = tmp_path / "model.yaml"
    monkeypatch.setattr(sys, "argv", ["execution_engine.py", os.fspath(path)])

    def run(text: str) -> None:
        with suppress_output():
            mdf(text).to_yaml_file(os.fspath(path))
        with suppress_output(), pytest.warns(RuntimeWarning, match=r"found in sys\.modules"):
            runpy.run_module("modeci_mdf.execution_engine", run_name="__main__")

    text = node("""
    parameters: {drive: {value: 2}}
    functions: {f: {function: "onnx::Loop", args: {M: 3, v_initial: 1, body: {b: BODY}}}}
    output_ports: {y: {value: f}}
""")
    run(text.replace("x + drive", "x + 2").replace(", drive: {}", ""))
    with pytest.raises(
        ScopeError, match="'drive' of node 'n' in the body of the loop is bound to nothing"
    ):
        run(text)


# --- models without loops -----------------------------------------------------------------------


def test_models_without_loops_are_created_as_before() -> None:
    from modeci_mdf.mdf import Function, Graph, Model, Node

    unusual_nodes = [
        Graph(id="in a graph, as importers write it"),
        Node(id="n", functions=[Function(id="f", function={"linear": {"slope": 1}})]),
    ]
    model = Model(id="m", graphs=[Graph(id="g", nodes=unusual_nodes)])
    assert copy.deepcopy(model).graphs[0].nodes[1].functions[0].function == {"linear": {"slope": 1}}
    assert Model(id="empty").graphs == []
