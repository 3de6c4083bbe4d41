"""Faults and refusals of ONNX Runtime, and how the emitted model avoids them.

Each model is run three times: by this package, as a saved file by plain ONNX Runtime, and by the interpreter.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError

BODY = """
nodes:
  node:
    input_ports: {INPUTS}
    functions:
      loop:
        function: onnx::Loop
        args: {ARGS}
    output_ports: {PORTS}
"""


def text(args, body, ports, inputs="n: {type: int}, x: {default_value: 1.0}"):
    """Return a model of one node with one loop; `body` is (inputs, outputs, nodes)."""
    names, outputs, nodes = body
    graph = f"{{b: {{metadata: {{inputs: [{names}], outputs: [{outputs}]}}, nodes: {{{nodes}}}}}}}"
    model = BODY.replace("{INPUTS}", f"{{{inputs}}}").replace("{PORTS}", f"{{{ports}}}")
    return model.replace("{ARGS}", f"{{{args}, body: {graph}}}")


X = "x: {value: 'loop[0]'}"
XS = f"{X}, xs: {{value: 'loop[1]'}}"
DOUBLE = "n: {input_ports: {u: {}}, output_ports: {v: {value: u + u}, small: {value: u < 5}}}"


@pytest.fixture
def plain(mdf, run_everywhere, tmp_path):
    """Return the results of the saved file in plain ONNX Runtime, after all engines of this package agreed."""

    def run(model, inputs, **options):
        results = run_everywhere(model, inputs, **options)
        options.pop("engine", None)
        compiled = mdf_loop.compile(mdf(model), device="cpu", **options)
        path = tmp_path / "model.onnx"
        compiled.save(path, inputs)
        proto = onnx.load(path)
        onnx.checker.check_model(proto, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        arrays, _, _ = compiled.prepare(inputs)
        arrays_by_name = dict(zip(names, session.run(names, dict(arrays)), strict=True))
        assert names == list(results)
        for name, array in results.items():
            assert (arrays_by_name[name].dtype, arrays_by_name[name].shape) == (
                array.dtype,
                array.shape,
            )
            np.testing.assert_array_equal(arrays_by_name[name], array)
        return results, proto

    return run


def loops_of(graph):
    for node in graph.node:
        if node.op_type == "Loop":
            yield node
            yield from loops_of(node.attribute[0].g)


def operations_without_copies(loop):
    """Return the body's operations without the copies that some runtimes need."""
    return [n.op_type for n in loop.attribute[0].g.node if n.op_type != "Identity"]


def all_names(graph):
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from (value.name for value in attribute.g.input)
                yield from all_names(attribute.g)


# --- numbers that would be silently wrong -------------------------------------------------------

WRONG_NUMBERS = {
    # trap: (model, inputs, options, expected)
    "a factor that is 1 for float32 only": (
        text(
            "M: n, v_initial: x",
            (
                "i, c, u",
                "c, v",
                "n: {input_ports: {u: {}}, output_ports: {v: {value: 0.99999999 * u - 1.0}}}",
            ),
            X,
        ),
        {"n": 1, "x": 2.0},
        {},
        {"x": 0.99999999 * 2.0 - 1.0},
    ),
    "a term that is 0 for float32 only": (
        text(
            "M: n, v_initial: x",
            (
                "i, c, u",
                "c, v",
                "n: {input_ports: {u: {}}, output_ports: {v: {value: 1.0 / (u * u + 1e-300)}}}",
            ),
            X,
        ),
        {"n": 1, "x": 0.0},
        {},
        {"x": 1 / 1e-300},
    ),
    "the iteration number returned as it is, recorded": (
        text("M: n", ("i, c", "c, i", ""), "xs: {value: loop}"),
        {"n": 4},
        {},
        {"xs": [0, 1, 2, 3]},
    ),
    "the iteration number returned as it is, carried": (
        text("M: n, v_initial: 7", ("i, c, k", "c, i, k", ""), XS),
        {"n": 4},
        {},
        {"x": 3, "xs": [7, 0, 1, 2]},
    ),
    "the iteration number carried and recorded twice": (
        text(
            "M: n, v_initial: 7",
            ("i, c, k", "c, i, i, i", ""),
            f"{XS}, ys: {{value: 'loop[2]'}}",
        ),
        {"n": 3},
        {},
        {"x": 2, "xs": [0, 1, 2], "ys": [0, 1, 2]},
    ),
    "for: a false body condition is ignored": (
        text("M: n, v_initial: x", ("i, c, u", "small, v, v", DOUBLE), XS),
        {"n": 5},
        {},
        {"x": 32, "xs": [2, 4, 8, 16, 32]},
    ),
    "endless with a bound: a false body condition is ignored": (
        text("v_initial: x", ("i, c, u", "small, v", DOUBLE), "x: {value: loop}"),
        {"n": 0},
        {"max_iterations": 5, "engine": False},
        {"x": 32},
    ),
    "for: the last condition is the body's, not what made the runtime go on": (
        text(
            "M: n, v_initial: x",
            ("i, c, u", "small, v", DOUBLE),
            "x: {value: loop}, last: {value: loop.condition}",
        ),
        {"n": 5},
        {},
        {"x": 32, "last": False},
    ),
    "no iteration: rows keep their shape": (
        text(
            "M: n, v_initial: x",
            ("i, c, u", "c, v, v", DOUBLE),
            XS,
            "n: {type: int}, x: {default_value: [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}",
        ),
        {"n": 0},
        {},
        {"xs": np.zeros((0, 2, 3))},
    ),
    "a recorded input is not overwritten by the step": (
        text("M: n, v_initial: x", ("i, c, u", "c, v, u", DOUBLE), XS),
        {"n": 3},
        {},
        {"x": 8, "xs": [1, 2, 4]},
    ),
    "float64 is not computed in float32": (
        text("M: n, v_initial: x", ("i, c, u", "c, v", DOUBLE), "x: {value: loop}"),
        {"n": 60, "x": 1 + 2**-40},
        {},
        {"x": 2**60 + 2**20},
    ),
    "whole numbers beyond 2**53 are exact": (
        text("M: n, v_initial: x", ("i, c, u", "c, v", DOUBLE), "x: {value: loop}"),
        {"n": 8, "x": 2**54 + 1},
        {},
        {"x": 2**62 + 2**8},
    ),
    "carried texts": (
        text("M: n, v_initial: x", ("i, c, u", "c, u", ""), "x: {value: loop}"),
        {"n": 2, "x": np.array(["a", "longer text"])},
        {"engine": False},
        {"x": ["a", "longer text"]},
    ),
}


TURNED = """
n:
    graphs:
        g:
            nodes:
                n:
                    input_ports: {x: {}, v: {}}
                    output_ports: {y: {value: EXPRESSION}}
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("numpy.transpose(x) @ v", [0.75, 1.0]),
        ("numpy.transpose(x + 1) @ v", [1.0, 1.25]),
        ("x.T @ v", [0.75, 1.0]),
        ("v @ numpy.transpose(x)", [0.5, 1.0]),
        ("numpy.transpose(x) @ x", [[10, 14], [14, 20]]),
        ("x @ numpy.transpose(x)", [[5, 11], [11, 25]]),
    ],
)
@pytest.mark.parametrize("dtype", [float, int, np.float32])
def test_a_transposed_matrix_times_a_vector(tmp_path, expression, expected, dtype):
    """Check a product from which ONNX Runtime's own fusion would drop the Transpose."""
    path = tmp_path / "turned.yaml"
    path.write_text(TURNED.replace("EXPRESSION", expression))
    inputs = {"x": np.array([[1, 2], [3, 4]], dtype), "v": np.array([0, 0.25])}
    compiled = mdf_loop.compile(path, device="cpu")
    np.testing.assert_array_equal(compiled.run(inputs)["y"], expected)
    session = onnxruntime.InferenceSession(compiled.to_onnx(inputs).SerializeToString())
    input_names = {i.name for i in session.get_inputs()}
    feeds = {name: array for name, array in inputs.items() if name in input_names}
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("trap", WRONG_NUMBERS)
def test_numbers_are_right(plain, trap):
    model, inputs, options, expected = WRONG_NUMBERS[trap]
    results, _ = plain(model, inputs, **options)
    for name, value in expected.items():
        assert results[name].shape == np.shape(value)
        assert results[name].tolist() == np.asarray(value).tolist()


def test_texts_are_never_recorded(mdf):
    """Check the refusal of recorded texts, since ONNX Runtime would corrupt the memory of their rows."""
    model = text("M: n, v_initial: x", ("i, c, u", "c, u, u", ""), XS)
    with pytest.raises(UnsupportedError, match="recorded value 'u' is text"):
        mdf_loop.compile(mdf(model), device="cpu").run({"n": 2, "x": np.array(["a", "b"])})


# --- models that would be refused or crash ------------------------------------------------------

REFUSED = {
    # trap: (model, inputs, expected)
    "an outer value returned as it is": (
        text("M: n", ("i, c", "c, x", ""), "xs: {value: loop}"),
        {"n": 2, "x": 2.5},
        {"xs": [2.5, 2.5]},
    ),
    "an outer value carried": (
        text("M: n, v_initial: 0.0", ("i, c, u", "c, x", ""), "x: {value: loop}"),
        {"n": 2, "x": 2.5},
        {"x": 2.5},
    ),
    "a constant returned as it is": (
        text("M: n", ("i, c", "c, k", "n: {output_ports: {k: {value: 5}}}"), "xs: {value: loop}"),
        {"n": 2},
        {"xs": [5, 5]},
    ),
    "an outer condition returned as it is": (
        text(
            "M: n, cond: true, v_initial: x",
            ("i, c, u", "stay, v", DOUBLE),
            "x: {value: loop}",
            "n: {}, x: {default_value: 1.0}, stay: {type: bool}",
        ),
        {"n": 3, "stay": False},
        {"x": 2},
    ),
    "an int32 trip count": (
        text("M: n, v_initial: x", ("i, c, u", "c, v", DOUBLE), "x: {value: loop}", "n: {}, x: {}"),
        {"n": np.int32(3), "x": 1.0},
        {"x": 8},
    ),
    "a trip count of shape [1]": (
        text("M: n, v_initial: x", ("i, c, u", "c, v", DOUBLE), "x: {value: loop}", "n: {}, x: {}"),
        {"n": np.array([3]), "x": 1.0},
        {"x": 8},
    ),
    "a condition of shape [1], whole": (
        text(
            "cond: n, v_initial: x",
            ("i, c, u", "small, v", DOUBLE.replace("u < 5", "'numpy.array([u]) < 5'")),
            "x: {value: loop}",
            "n: {}, x: {}",
        ),
        {"n": np.array([1]), "x": 1.0},
        {"x": 16},
    ),
    "a body without nodes": (
        text("M: n, v_initial: x", ("i, c, u", "c, u", ""), "x: {value: loop}"),
        {"n": 3},
        {"x": 1},
    ),
    "the same value carried twice and recorded": (
        text("M: n, v_initial: '(x, x)'", ("i, c, u, w", "c, v, v, v, v", DOUBLE), XS),
        {"n": 2},
        {"x": 4, "xs": 4},
    ),
    "the incoming condition recorded": (
        text(
            "M: n, cond: true",
            ("i, c", "more, c", "n: {input_ports: {i: {}}, output_ports: {more: {value: i < 1}}}"),
            "xs: {value: loop}",
        ),
        {"n": 9},
        {"xs": [True, True]},
    ),
    "a body value called like an outer node's output": (
        text(
            "M: n, v_initial: x",
            (
                "n, x, node",
                "x, loop",
                "loop: {input_ports: {node: {}}, parameters: {x: {value: node + node}}, output_ports: {loop: {value: x}}}",
            ),
            "x: {value: loop}, loop: {value: x}",
        ),
        {"n": 3},
        {"node.x": 8, "node.loop": 1},
    ),
    "outputs that are inputs": (
        text(
            "M: n, v_initial: x",
            ("i, c, u", "c, v", DOUBLE),
            "y: {value: loop}, x: {value: x}, again: {value: x}",
        ),
        {"n": 1, "x": 3.0},
        {"y": 6, "x": 3, "again": 3},
    ),
    "a trip count beyond 32 bits": (
        text("M: n, cond: true, v_initial: x", ("i, c, u", "small, v", DOUBLE), "x: {value: loop}"),
        {"n": 2**40},
        {"x": 16},
    ),
}


@pytest.mark.parametrize("trap", REFUSED)
def test_refused_models_run_in_the_emitted_form(plain, trap):
    model, inputs, expected = REFUSED[trap]
    results, _ = plain(model, inputs)
    assert {name: results[name].tolist() for name in expected} == expected


# --- the form of the file -----------------------------------------------------------------------

NESTED = text(
    "M: n, v_initial: x",
    (
        "i, c, u",
        "c, v, u",
        "n: {input_ports: {u: {}, i: {}}, functions: {loop: {function: 'onnx::Loop', args: {M: i, v_initial: u, "
        "body: {b: {metadata: {inputs: [i, c, u], outputs: [c, v]}, nodes: {n: {input_ports: {u: {}}, "
        "output_ports: {v: {value: u + 1}}}}}}}}}, output_ports: {v: {value: loop}}}",
    ),
    XS,
)


@pytest.mark.parametrize("model", [NESTED, *(entry[0] for entry in REFUSED.values())])
def test_the_emitted_form_is_accepted_by_every_release(mdf, model):
    inputs = {"n": 3} if model is NESTED else next(e[1] for e in REFUSED.values() if e[0] is model)
    proto = mdf_loop.compile(mdf(model), device="cpu").to_onnx(inputs)
    (opset,) = proto.opset_import
    assert (opset.domain, opset.version <= 18) == ("", True)
    assert proto.ir_version == 8
    for node in loops_of(proto.graph):
        body = node.attribute[0].g
        assert all(node.input), "trip count and condition are always given"
        assert all(node.output), "a loop output without a name crashes the runtime"
        assert (
            len(node.output) == len(body.output) - 1 == len(body.input) - 2 + recorded(node, body)
        )
        assert body.node, "a body without nodes cannot be stopped"
        assert all(value.type.tensor_type.HasField("shape") for value in body.input[:2])
        output_names = [value.name for value in body.output]
        computed_names = {name for inner in body.node for name in inner.output}
        carried_in = {value.name for value in body.input[2:]}
        assert all(name in computed_names | carried_in for name in output_names[1:])
        assert body.input[0].name not in output_names
    names = list(all_names(proto.graph))
    assert len(names) == len(set(names)), "every value of the file has a name of its own"


def recorded(node, body):
    return len(node.output) - (len(body.input) - 2)


def test_unread_results_are_not_in_the_file(plain):
    model = text(
        "M: n, v_initial: '(x, x)'",
        (
            "i, c, u, w",
            "c, v, w2, u, row",
            DOUBLE.replace("v: {", "w2: {value: u * 3}, row: {value: u - 1}, v: {"),
        ),
        "x: {value: 'loop[0]'}",
    )
    _, proto = plain(model, {"n": 2})
    (loop,) = loops_of(proto.graph)
    assert len(loop.output) == 1
    assert operations_without_copies(loop) == ["Add"]


def test_unread_loops_are_not_in_the_file(plain):
    model = text("M: n, v_initial: x", ("i, c, u", "c, v", DOUBLE), "x: {value: x}")
    _, proto = plain(model, {"n": 2})
    assert list(loops_of(proto.graph)) == []


def test_invariant_operations_are_before_the_loop(plain):
    body = DOUBLE.replace("u: {}", "u: {}, x: {}").replace("u + u", "u + numpy.sin(x) * 2")
    _, proto = plain(
        text("M: n, v_initial: x", ("i, c, u", "c, v", body), "x: {value: loop}"), {"n": 2}
    )
    (loop,) = loops_of(proto.graph)
    assert operations_without_copies(loop) == ["Add"]
    assert "Sin" in [node.op_type for node in proto.graph.node]


NAMES = text(
    "M: n, v_initial: x",
    (
        "'i/1', 'c.2', 'u:3'",
        "'c.2', 'v 4', 'v 4'",
        "'n#5': {input_ports: {'u:3': {}}, functions: {f: {function: 'onnx::Add', args: {A: 'u:3', B: 'u:3'}}}, output_ports: {'v 4': {value: f}}}",
    ),
    "'x/out': {value: 'loop[0]'}, 'xs.ü': {value: 'loop[1]'}",
)


def test_names_with_special_characters(plain):
    results, proto = plain(NAMES, {"n": 2})
    assert results["node.x/out"] == 4
    assert results["node.xs.ü"].tolist() == [2, 4]
    assert [output.name for output in proto.graph.output] == ["node.x/out", "node.xs.ü"]


def test_nodes_state_their_place_in_the_model(plain):
    _, proto = plain(NESTED, {"n": 3})
    (outer, inner) = loops_of(proto.graph)
    assert outer.name.startswith("$.graphs[0].nodes['node'].functions['loop']")
    assert inner.name.startswith(
        "$.graphs[0].nodes['node'].functions['loop'].args.body.nodes['n'].functions['loop']"
    )


# --- values that would crash the process at run time --------------------------------------------


@pytest.mark.parametrize("condition", [np.zeros((0,), bool), np.zeros((2,), bool)])
def test_a_condition_without_or_with_many_elements_never_reaches_the_runtime(mdf, condition):
    model = text("cond: x, v_initial: n", ("i, c, u", "c, u", ""), "x: {value: loop}")
    with pytest.raises(mdf_loop.LoopError, match="must be one truth value, not bool"):
        mdf_loop.compile(mdf(model), device="cpu").run({"n": 1, "x": condition})


@pytest.mark.parametrize("n", [[2, 3], []])
def test_a_trip_count_of_another_size_never_reaches_the_runtime(mdf, n):
    model = text("M: n, v_initial: x", ("i, c, u", "c, u", ""), "x: {value: loop}")
    with pytest.raises(mdf_loop.LoopError, match="must be one whole number, not int64"):
        mdf_loop.compile(mdf(model), device="cpu").run({"n": np.array(n, np.int64)})


@pytest.mark.parametrize("n", [2.5, np.nan, np.inf, -np.inf, 1e300])
def test_a_trip_count_that_is_not_whole_is_refused_at_run_time(mdf, n):
    model = text("M: n, v_initial: x", ("i, c, u", "c, u", ""), "x: {value: loop}", "n: {}, x: {}")
    with pytest.raises(mdf_loop.LoopError, match="trip count of 'loop' must be a whole number"):
        mdf_loop.compile(mdf(model), device="cpu").run({"n": n, "x": 1.0})


@pytest.mark.parametrize("n", [-1, -1.0])
def test_no_trip_count_and_no_condition_is_refused_at_run_time(mdf, n):
    model = text("M: n, v_initial: x", ("i, c, u", "c, u", ""), "x: {value: loop}", "n: {}, x: {}")
    with pytest.raises(mdf_loop.LoopError, match="it would never end"):
        mdf_loop.compile(mdf(model), device="cpu").run({"n": n, "x": 1.0})


# --- stopping -------------------------------------------------------------------------------------

LONG = {
    "a body that computes": text(
        "M: n, v_initial: x", ("i, c, u", "c, v", DOUBLE), "x: {value: loop}"
    ),
    "an empty body": text("M: n, v_initial: x", ("i, c, u", "c, u", ""), "x: {value: loop}"),
    "a loop in a loop": NESTED,
}


def test_a_concatenated_shape_loses_its_computed_extent():
    """Check that ONNX Runtime replaces a wrong extent and refuses a correct one of an empty array."""
    text = """<ir_version: 10, opset_import: ["": 18]>
    g (double[a, b] x, int64[1] n) => (double[c, d] y) <int64[1] zero = {0}>
    { s = Concat <axis = 0> (zero, n)  y = Reshape(x, s) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.ones((2, 3)), "n": np.array([5])})
    assert y.shape == (2, 3)
    with pytest.raises(Exception, match="cannot be reshaped"):
        session.run(None, {"x": np.ones((0, 3)), "n": np.array([3])})


def test_where_loses_the_sign_of_a_zero():
    """Check that plain ONNX Runtime returns 0.0 for a selected -0.0 of the second operand."""
    signs = []
    for body in ("y = Where(c, a, b)", "d = Not(c) y = Where(d, b, a)"):
        text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (bool[1] c, double[1] a, double[1] b) => (double[1] y) {{ {body} }}"""
        model = onnx.parser.parse_model(text).SerializeToString()
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        feeds = {"c": np.array([True]), "a": np.array([-0.0]), "b": np.array([1.0])}
        signs.append(bool(np.signbit(session.run(None, feeds)[0])[0]))
    assert signs == [False, False]


SCRIPT = """
import sys, time
import mdf_loop
compiled = mdf_loop.compile(sys.argv[1], device="cpu")
compiled.run({"n": 3})
print("ready", flush=True)
try:
    compiled.run({"n": 10**12})
except KeyboardInterrupt as interrupt:
    print(interrupt.results.stopped_by.word, time.time(), flush=True)
print(compiled.run({"n": 3})["x"], flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("body", LONG)
def test_ctrl_c_stops_a_run_of_1e12_iterations(tmp_path, body):
    import textwrap

    model = tmp_path / "long.yaml"
    graph = textwrap.indent(LONG[body], "      ")
    model.write_text(f"m:\n  format: ModECI MDF v0.4\n  graphs:\n    g:\n{graph}", encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(model)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.3)
            interrupt_time = time.time()
            process.send_signal(signal.SIGINT)
            words = process.stdout.readline().split()
            assert words[0] == "interrupted"
            assert float(words[1]) - interrupt_time < 1.0
            assert process.stdout.readline().strip(), "the model can be run again"
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_training_normalization_with_unread_running_moments() -> None:
    """Check `y` as the only read output, which onnxruntime 1.32 does not normalize by batch moments."""
    source = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        f (float[2, 3, 4] x, float[3] s) => (float[2, 3, 4] y) {
          y, m, v = BatchNormalization <training_mode = 1> (x, s, s, s, s)
        }""")
    feeds = {
        "x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32),
        "s": np.full(3, 2.0, np.float32),
    }
    model = mdf_loop.compile(mdf_loop.from_onnx(source))
    session = onnxruntime.InferenceSession(model.to_onnx(feeds).SerializeToString())
    mean, deviation = (f(feeds["x"], (0, 2), keepdims=True) for f in (np.mean, np.std))
    expected = (feeds["x"] - mean) / deviation * 2 + 2
    for y in (model.run(feeds)["y"], session.run(None, feeds)[0]):
        np.testing.assert_allclose(y, expected, atol=1e-4)


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_the_largest_end_of_a_backward_slice(end: int) -> None:
    """Check an end that ONNX clamps to the last element; onnxruntime 1.32 slices down to the first."""
    source = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        f (float[5] x, int64[1] start, int64[1] end, int64[1] step) => (float[n] y) {
          axes = Constant <value_ints = [0]> ()
          y = Slice (x, start, end, axes, step)
        }""")
    feeds = {name: np.array([k]) for name, k in (("start", 3), ("end", end), ("step", -1))}
    feeds["x"] = np.arange(5, dtype=np.float32)
    plain = onnxruntime.InferenceSession(source.SerializeToString())
    assert plain.run(None, feeds)[0].tolist() == [3, 2, 1, 0], "no workaround is needed any more"
    model = mdf_loop.compile(mdf_loop.from_onnx(source))
    session = onnxruntime.InferenceSession(model.to_onnx(feeds).SerializeToString())
    for y in (model.run(feeds)["y"], session.run(None, feeds)[0]):
        assert y.tolist() == []
