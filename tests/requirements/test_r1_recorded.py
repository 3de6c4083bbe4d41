"""Recorded values: stacked on a new axis 0, one shape, any rank and dtype (R1.15 to R1.17)."""

import numpy as np
import pytest

from mdf_loop.errors import LoopError, RecordShapeError
from tests.models.growing import GROWING_ROW, RANKS

SHAPES = [(), (2,), (2, 3), (1, 1, 1)]


@pytest.mark.parametrize("n", [3, 1, 0, -2])
def test_r1_15_rows_of_every_rank(run_everywhere, n):
    results = run_everywhere(RANKS, {"n": n})
    for rank, shape in enumerate(SHAPES):
        assert results[f"rank{rank}"].shape == (max(n, 0), *shape)


def test_r1_15_rows_are_stacked_in_order(run_everywhere):
    results = run_everywhere(RANKS, {"n": 3})
    assert results["rank0"].tolist() == [0, 1.5, 3]
    assert results["rank1"].tolist() == [[0, 0], [1, 2], [2, 4]]
    assert results["rank2"][2].tolist() == [[3, 4, 5], [6, 7, 8]]
    assert results["rank3"].tolist() == [[[[7.0]]], [[[6.0]]], [[[5.0]]]]


def test_r1_15_without_iterations_the_row_shape_and_dtype_are_kept(run_everywhere):
    inputs = {"n": 0, "table": np.zeros((4, 5), np.float32)}
    results = run_everywhere(RANKS.replace("i + table", "table"), inputs)
    assert results["rank2"].shape == (0, 4, 5)
    assert results["rank2"].dtype == np.float32


DTYPES = """
nodes:
  recorder:
    input_ports: {n: {type: int}}
    functions:
      record:
        function: onnx::Loop
        args:
          M: n
          body:
            b:
              metadata: {inputs: [i, go], outputs: [go, s0, s1, s2, s3, s4, s5]}
              nodes:
                show:
                  input_ports: {i: {}}
                  functions:
                    as_int32: {function: "onnx::Cast", args: {input: i, to: 6}}
                  output_ports:
                    s0: {value: i}
                    s1: {value: i < 1}
                    s2: {value: numpy.float64(i)}
                    s3: {value: as_int32}
                    s4: {value: numpy.float16(i)}
                    s5: {value: numpy.uint8(i)}
    output_ports:
      s0: {value: "record[0]"}
      s1: {value: "record[1]"}
      s2: {value: "record[2]"}
      s3: {value: "record[3]"}
      s4: {value: "record[4]"}
      s5: {value: "record[5]"}
"""


@pytest.mark.parametrize("n", [3, 0])
def test_r1_15_rows_of_every_dtype(run_everywhere, n):
    results = run_everywhere(DTYPES, {"n": n})
    dtypes = ["int64", "bool", "float64", "int32", "float16", "uint8"]
    assert [str(results[f"s{k}"].dtype) for k in range(6)] == dtypes
    for k in (0, 2, 3, 4, 5):
        assert results[f"s{k}"].tolist() == list(range(n))
    assert results["s1"].tolist() == [True, False, False][:n]


STEPS = """
nodes:
  doubler:
    input_ports: {n: {type: int}, x: {}}
    functions:
      run:
        function: onnx::Loop
        args:
          M: n
          v_initial: x
          body:
            b:
              metadata: {inputs: [i, c, x_in], outputs: [c, x_out, RECORDED]}
              nodes: {n: {input_ports: {x_in: {}}, output_ports: {x_out: {value: x_in + x_in}}}}
    output_ports: {x: {value: "run[0]"}, xs: {value: "run[1]"}}
"""
AFTER = STEPS.replace("RECORDED", "x_out")
BEFORE = STEPS.replace("RECORDED", "x_in")


def test_r1_16_carried_and_recorded(run_everywhere):
    results = run_everywhere(AFTER, {"n": 3, "x": 1.0})
    assert results["x"] == 8.0
    assert results["xs"].tolist() == [2, 4, 8]


def test_r1_16_a_recorded_input_is_the_value_before_the_step(run_everywhere):
    results = run_everywhere(BEFORE, {"n": 3, "x": 1.0})
    assert results["x"] == 8.0
    assert results["xs"].tolist() == [1, 2, 4]


def test_r1_16_one_value_recorded_twice(run_everywhere):
    model = STEPS.replace("RECORDED", "x_in, x_in, x_out").replace(
        'xs: {value: "run[1]"}', 'a: {value: "run[1]"}, b: {value: "run[2]"}, c: {value: "run[3]"}'
    )
    results = run_everywhere(model, {"n": 2, "x": [1.0, 3.0]})
    assert results["a"].tolist() == results["b"].tolist() == [[1, 3], [2, 6]]
    assert results["c"].tolist() == [[2, 6], [4, 12]]


def test_r1_17_all_rows_have_one_shape(run_everywhere):
    results = run_everywhere(GROWING_ROW, {"n": 1})
    assert results["xs"].tolist() == [[1.0, 1.0]]


def test_r1_17_rows_of_changing_shape_name_the_output_and_both_shapes(mdf):
    import mdf_loop
    from mdf_loop.run.interpret import interpret

    compiled = mdf_loop.compile(mdf(GROWING_ROW), device="cpu")
    arrays, program, _ = compiled.prepare({"n": 3})
    with pytest.raises(RecordShapeError, match=r"'longer'.*\[2\].*\[4\].*iteration 1"):
        interpret(program, arrays)
    with pytest.raises(LoopError, match=r"'longer'.*\[2\].*\[4\]") as caught:
        compiled.run({"n": 3})
    (finding,) = caught.value.findings
    assert finding.kind == "RecordShapeError"
    assert finding.where.endswith(".functions['grow']")


@pytest.mark.parametrize("n", [2, 3])
def test_r1_17_rows_of_equal_size_but_other_shape_are_refused_too(mdf, n):
    """Check that (2, 3) and (3, 2) are not stacked; ONNX Runtime compares only the number of bytes."""
    import mdf_loop

    model = mdf(
        GROWING_ROW.replace("[1.0]", "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]").replace(
            '{function: "onnx::Concat", args: {a: v, b: v, axis: 0}}',
            '{function: "onnx::Transpose", args: {data: v, perm: [1, 0]}}',
        )
    )
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run({"n": 1})["xs"].shape == (1, 3, 2)
    with pytest.raises(LoopError, match=r"'longer'.*\[3, 2\].*\[2, 3\]"):
        compiled.run({"n": n})


@pytest.mark.parametrize(
    ("case", "model", "names", "outputs"),
    [
        ("scan_dtypes", DTYPES, {"M": "n"}, ["s0", "s1", "s2", "s3"]),
        ("scan_same_name_as_carried", AFTER, {"M": "n"}, ["x", "xs"]),
        ("scan_of_input", BEFORE, {"M": "n"}, ["x", "xs"]),
    ],
)
def test_stored_numbers(check_stored, case, model, names, outputs):
    check_stored(case, model, outputs, names)
