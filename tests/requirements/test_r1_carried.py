"""Carried values: number, initial values, dtypes and shapes (R1.10 to R1.14, R1.27)."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import CarryShapeError, CarryTypeError
from mdf_loop.ir import Loop, walk
from mdf_loop.pipeline import SIMPLIFY, prepare
from tests.models.growing import CONCAT, RANK

FIBONACCI = """
nodes:
  rabbits:
    input_ports: {months: {type: int}, a: {default_value: 0}, b: {default_value: 1}}
    functions:
      breed:
        function: onnx::Loop
        args:
          M: months
          v_initial: (a, b)
          body:
            month:
              metadata: {inputs: [i, go, a_in, b_in], outputs: [go, b_in, sum, a_in]}
              nodes:
                add: {input_ports: {a_in: {}, b_in: {}}, output_ports: {sum: {value: a_in + b_in}}}
    output_ports:
      now: {value: "breed[0]"}
      next: {value: "breed[1]"}
      series: {value: "breed[2]"}
"""


def fibonacci(n):
    a, b, series = 0, 1, []
    for _ in range(n):
        series.append(a)
        a, b = b, a + b
    return a, b, series


@pytest.mark.parametrize("months", [0, 1, 2, 10, 90])
def test_r1_10_fibonacci_as_a_pair(run_everywhere, months):
    results = run_everywhere(FIBONACCI, {"months": months})
    now, following, series = fibonacci(months)
    assert (int(results["now"]), int(results["next"])) == (now, following)
    assert results["series"].tolist() == series
    assert results["now"].dtype == results["series"].dtype == np.int64


def test_r1_10_fibonacci_90_is_exact(run_everywhere):
    assert run_everywhere(FIBONACCI, {"months": 90})["now"] == 2880067194370816120


SWAP = """
nodes:
  pair:
    input_ports: {n: {type: int}, left: {default_value: [1.0, 2.0]}, right: {default_value: [3.0, 4.0]}}
    functions:
      swap:
        function: onnx::Loop
        args:
          M: n
          v_initial: (left, right)
          body: {b: {metadata: {inputs: [i, go, p, q], outputs: [go, q, p]}, nodes: {}}}
    output_ports: {left: {value: "swap[0]"}, right: {value: "swap[1]"}}
"""


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 9])
def test_r1_10_a_body_that_only_swaps(run_everywhere, n):
    results = run_everywhere(SWAP, {"n": n})
    left, right = ([3.0, 4.0], [1.0, 2.0]) if n % 2 else ([1.0, 2.0], [3.0, 4.0])
    assert results["left"].tolist() == left
    assert results["right"].tolist() == right


PASSED_THROUGH = """
nodes:
  constant:
    input_ports: {n: {type: int}, p: {default_value: [1.0, 2.0]}}
    functions:
      hold:
        function: onnx::Loop
        args:
          M: n
          v_initial: p
          body:
            b:
              metadata: {inputs: [i, c, p_in], outputs: [c, p_in, twice]}
              nodes: {n: {input_ports: {p_in: {}}, output_ports: {twice: {value: p_in + p_in}}}}
    output_ports: {p: {value: "hold[0]"}, twice: {value: "hold[1]"}}
"""


def test_r1_10_a_carried_value_passed_through(run_everywhere):
    results = run_everywhere(PASSED_THROUGH, {"n": 2})
    assert results["p"].tolist() == [1.0, 2.0]
    assert results["twice"].tolist() == [[2.0, 4.0], [2.0, 4.0]]


KEPT_INITIAL_VALUES = """
nodes:
  source: {input_ports: {y: {default_value: [1.0, 2.0]}}, output_ports: {y: {value: y}, again: {value: y}}}
  work:
    input_ports: {y: {}, z: {default_value: 0.0}}
    functions:
      add:
        function: onnx::Loop
        args:
          M: 4
          v_initial: (y, z, z)
          body:
            b:
              metadata: {inputs: [i, c, u, p, q], outputs: [c, u_next, p_next, q_next]}
              nodes:
                n:
                  input_ports: {u: {}, p: {}, q: {}}
                  output_ports:
                    u_next: {value: u * 10}
                    p_next: {value: p + 10}
                    q_next: {value: q + 1}
    output_ports:
      u: {value: "add[0]"}
      p: {value: "add[1]"}
      q: {value: "add[2]"}
      y: {value: y}
      z: {value: z}
edges: {e: {sender: source, sender_port: y, receiver: work, receiver_port: y}}
"""


def test_r1_11_initial_values_are_not_modified(run_everywhere):
    y = np.array([1.0, 2.0])
    results = run_everywhere(KEPT_INITIAL_VALUES, {"source.y": y})
    assert results["u"].tolist() == [1e4, 2e4]
    assert results["work.y"].tolist() == results["again"].tolist() == y.tolist() == [1.0, 2.0]


def test_r1_11_two_carried_values_from_one_initial_value(run_everywhere):
    results = run_everywhere(KEPT_INITIAL_VALUES)
    assert (results["p"], results["q"], results["z"]) == (40.0, 4.0, 0.0)


# --- shapes -------------------------------------------------------------------------------------


def marked_dynamic(model):
    return model.replace("metadata: {", "metadata: {shapes: dynamic, ")


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("way", ["option", "metadata"])
def test_r1_12_the_shape_may_change_where_allowed(run_everywhere, n, way):
    if way == "option":
        results = run_everywhere(CONCAT, {"n": n}, shapes="dynamic", engine=False)
    else:
        results = run_everywhere(marked_dynamic(CONCAT), {"n": n})
    assert results["x"].tolist() == [1.0, 2.0] * 2**n


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("way", ["option", "metadata"])
def test_r1_12_the_rank_may_change_where_allowed(run_everywhere, n, way):
    if way == "option":
        results = run_everywhere(RANK, {"n": n}, shapes="dynamic", engine=False)
    else:
        results = run_everywhere(marked_dynamic(RANK), {"n": n})
    assert results["x"].shape == (2, *[1] * n)


@pytest.mark.parametrize(
    ("model", "before", "after"),
    [(CONCAT, r"float64\[2\]", r"float64\[4\]"), (RANK, r"float64\[2\]", r"float64\[2, 1\]")],
)
def test_r1_12_a_changing_shape_is_refused_by_default(run_everywhere, model, before, after):
    sentence = (
        f"'v': {before} becomes 'w': {after} \\(body output 1\\)[^$]*[$].*functions\\['grow'\\]"
    )
    with pytest.raises(CarryShapeError, match=sentence) as caught:
        run_everywhere(model, {"n": 3})
    assert "shapes: dynamic" in str(caught.value)


# --- dtypes -------------------------------------------------------------------------------------

DTYPED = """
nodes:
  scaler:
    input_ports: {n: {default_value: 3}, x: {type: DTYPE}}
    functions:
      run:
        function: onnx::Loop
        args:
          M: n
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, v], outputs: [c, w, v]}
              nodes: {n: {input_ports: {v: {}}, output_ports: {w: {value: UPDATE}}}}
    output_ports: {x: {value: "run[0]"}, seen: {value: "run[1]"}}
"""


@pytest.mark.parametrize(
    ("dtype", "x", "update", "expected"),
    [
        ("float64", 1.5, "v + v", 12.0),
        ("float32", 1.5, "v + v", 12.0),
        ("float16", 1.5, "v + v", 12.0),
        ("int8", 3, "v + v", 24),
        ("int16", 3, "v + v", 24),
        ("int32", 3, "v + v", 24),
        ("int64", 2**40, "v + v", 2**43),
        ("uint8", 200, "v + v", 64),
        ("uint16", 3, "v * 2", 24),
        ("uint32", 3, "v * 2", 24),
        ("uint64", 2**40, "v + v", 2**43),
        ("bool", True, "not v", False),
        ("double", 1.5, "2 * v", 12.0),
        ("tensor(float16)", 1.5, "2 * v", 12.0),
    ],
)
def test_r1_13_the_dtype_stated_by_the_port_is_kept(run_everywhere, dtype, x, update, expected):
    model = DTYPED.replace("DTYPE", dtype).replace("UPDATE", update)
    results = run_everywhere(model, {"x": x})
    expected_dtype = {"double": "float64", "tensor(float16)": "float16"}.get(dtype, dtype)
    assert results["x"].dtype == results["seen"].dtype == expected_dtype
    assert results["x"] == expected
    assert results["seen"].shape == (3,)


@pytest.mark.parametrize(
    "x", [np.float16(1.5), np.float32(1.5), np.int8(3), np.uint8(200), np.bool_(1)]
)
def test_r1_13_the_dtype_of_the_input_is_kept(run_everywhere, x):
    update = "not v" if x.dtype == bool else "v + v"
    results = run_everywhere(DTYPED.replace("DTYPE", "''").replace("UPDATE", update), {"x": x})
    with np.errstate(all="ignore"):
        expected = ~x if x.dtype == bool else np.array(8 * int(x * 2) // 2).astype(x.dtype)
    assert results["x"].dtype == x.dtype
    assert results["x"] == expected


def test_r1_13_text_may_be_carried(run_everywhere):
    """Carry a text, without a comparison with the engine of modeci_mdf, which has no text."""
    results = run_everywhere(
        SWAP, {"n": 3, "left": np.array(["a", "b"]), "right": np.array(["c", "d"])}, engine=False
    )
    assert results["left"].tolist() == ["c", "d"]


# --- unread outputs ------------------------------------------------------------------------------

UNREAD = """
nodes:
  worker:
    input_ports: {n: {type: int}, x: {}, y: {}}
    functions:
      work:
        function: onnx::Loop
        args:
          M: n
          v_initial: (x, y)
          body:
            b:
              metadata: {inputs: [i, c, u, v], outputs: [c, u_next, v_next, before, unread]}
              nodes:
                n:
                  input_ports: {u: {}, v: {}}
                  output_ports:
                    u_next: {value: u + v}
                    v_next: {value: v + v}
                    before: {value: u}
                    unread: {value: u * 100}
    output_ports: {OUTPUTS}
"""


@pytest.mark.parametrize(("port", "expected"), [("0", 7.0), ("1", 8.0), ("2", [0.0, 1.0, 3.0])])
def test_r1_14_one_of_many_outputs_is_read(run_everywhere, mdf, port, expected):
    model = mdf(UNREAD.replace("OUTPUTS", f'out: {{value: "work[{port}]"}}'))
    results = run_everywhere(model, {"n": 3, "x": 0.0, "y": 1.0})
    assert results["out"].tolist() == expected
    proto = mdf_loop.compile(model, device="cpu").to_onnx({"n": 3, "x": 0.0, "y": 1.0})
    (node,) = [node for node in proto.graph.node if node.op_type == "Loop"]
    assert all(node.output)
    assert len(node.attribute[0].g.output) == len(node.output) + 1


def test_r1_14_unread_results_are_not_computed(mdf):
    model = mdf(UNREAD.replace("OUTPUTS", 'out: {value: "work[1]"}'))
    program = prepare(mdf_loop.read(model, {"n": 3, "x": 0.0, "y": 1.0}), SIMPLIFY)
    (loop,) = [op for op in walk(program.ops) if isinstance(op, Loop)]
    assert len(loop.carried) == 1
    assert loop.recorded == ()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "update", "before", "after"),
    [
        (np.float32(1.0), "i + 0", "float32", "int64"),
        (np.float32(1.0), "numpy.float64(v)", "float32", "float64"),
        (6, "v / 2", "int64", "float64"),
        (np.int32(6), "v + i", "int32", "int64"),
        (1.0, "v > 0", "float64", "bool"),
        (True, "v + 1", "bool", "int64"),
    ],
)
def test_r1_27_a_carried_value_that_changes_its_dtype(run_everywhere, x, update, before, after):
    model = (
        DTYPED.replace("DTYPE", "''").replace("UPDATE", update).replace("{v: {}}", "{v: {}, i: {}}")
    )
    sentence = f"'v': {before}\\[\\] becomes 'w': {after}\\[\\] \\(body output 1\\)"
    with pytest.raises(CarryTypeError, match=sentence) as caught:
        run_everywhere(model, {"x": x})
    (finding,) = caught.value.findings
    assert finding.where.endswith(".functions['run']")
    assert finding.hint


# --- stored numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "model", "names", "outputs"),
    [
        ("carried_fibonacci", FIBONACCI, {"M": "months"}, ["now", "next", "series"]),
        ("carried_passthrough_input", PASSED_THROUGH, {"M": "n"}, ["p", "twice"]),
        ("carried_shape_grows", marked_dynamic(CONCAT), {"M": "n"}, ["x"]),
        (
            "outputs_omitted_empty_name",
            UNREAD.replace("OUTPUTS", 'out: {value: "work[2]"}'),
            {"M": "n"},
            ["out"],
        ),
    ],
)
def test_stored_numbers(check_stored, case, model, names, outputs):
    check_stored(case, model, outputs, names)


def test_stored_numbers_of_two_values_from_one(check_stored):
    model = KEPT_INITIAL_VALUES.replace("M: 4", "M: m").replace("{y: {}, z", "{m: {}, y: {}, z")
    check_stored("carried_same_initial_value", model, ["p", "q"], {"M": "m", "x": "z"})
