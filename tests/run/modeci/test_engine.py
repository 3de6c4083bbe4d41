"""The engine of modeci_mdf as an engine of this package: rows, missing values, inputs, order and errors."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.api.engine_run import engine_results
from mdf_loop.document.document import Document
from mdf_loop.document.loading import suppress_output
from mdf_loop.errors import (
    CycleError,
    InputError,
    LoopError,
    RunError,
    UnknownNameError,
)
from mdf_loop.importing.opening import open_document
from mdf_loop.ir import StopReason
from mdf_loop.reading.inputs import BoundInputs
from mdf_loop.request.run_options import RunOptions
from mdf_loop.run.backend import BACKENDS
from mdf_loop.run.modeci import engine_graph
from mdf_loop.run.modeci.engine import EngineRun, run_evaluations, select_inputs
from mdf_loop.run.modeci.engine_graph import (
    EngineGraph,
    copy_port_values,
    skip_debug_texts,
    to_modeci_graph,
)
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.specification import specify
from tests.models.engine import CIRCLE, PAIR, SUM, TWO_SENDERS

LEAK = """
nodes:
    cell:
        input_ports: {drive: {default_value: 0.5}}
        parameters:
            v: {default_initial_value: 1.0, time_derivative: drive - v}
            n: {value: n + 1}
        output_ports: {v: {value: v}, n: {value: n}}
"""


def conditions(*lines: str) -> str:
    return "\nconditions:\n" + "\n".join(f"    {line}" for line in lines)


ONE_PASS = "termination: {environment_state_update: {type: AfterNPasses, kwargs: {n: 1}}}"


@pytest.fixture
def opened(mdf):
    return lambda text: open_document(mdf(text))


MODECI = BACKENDS["modeci"]


def given(**values: object) -> BoundInputs:
    return BoundInputs({name: np.asarray(value) for name, value in values.items()})


def run_in_engine(
    document: Document, values: BoundInputs | None = None, *, steps=None, dt=None, record=None
) -> EngineRun:
    """Return the completed run, or raise its error."""
    completed = run_evaluations(Evaluations(document, record, dt), values or BoundInputs({}), steps)
    if completed.failure is not None:
        raise completed.failure
    return completed


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_equal_those_of_an_engine_script(opened):
    from modeci_mdf.execution_engine import EvaluableGraph

    document = opened(LEAK)
    completed = run_in_engine(document, steps=5, dt=0.1)
    with suppress_output():
        graph = EvaluableGraph(to_modeci_graph(document))
        expected = []
        for step in range(5):
            graph.evaluate(time_increment=0.1 if step else None)
            expected.append(float(graph.enodes["cell"].evaluable_outputs["v"].curr_value))
    assert completed.arrays["cell.v"].tolist() == expected
    assert completed.arrays["cell.n"].tolist() == [1, 2, 3, 4, 5]
    assert completed.arrays["cell.n"].dtype == np.int64
    assert completed.execution_list == ((("cell",),),) * 5


def test_one_evaluation_has_no_axis_of_time(opened):
    completed = run_in_engine(opened(LEAK))
    assert {name: (a.shape, a.dtype.kind) for name, a in completed.arrays.items()} == {
        "cell.v": ((), "f"),
        "cell.n": ((), "i"),
    }
    assert all(isinstance(array, np.ndarray) for array in completed.arrays.values())


def test_inputs_are_set_before_every_evaluation(opened):
    document = opened(LEAK)
    constant = run_in_engine(document, given(drive=2.0), steps=4, dt=1.0)
    assert constant.arrays["cell.v"].tolist() == [1, 2, 2, 2]
    rows = BoundInputs({"drive": np.array([0.0, 4.0, 5.0, 6.0])}, frozenset({"drive"}))
    series = run_in_engine(document, rows, steps=4, dt=1.0)
    assert series.arrays["cell.v"].tolist() == [1, 4, 5, 6]


def test_input_arrays_are_not_changed(opened):
    text = PAIR.replace("x: {}", "x: {reduce: add}, z: {}").replace("x * 10", "x + z")
    mine = np.array([1.0, 2.0])
    run_in_engine(opened(text), given(z=mine), steps=3)
    assert mine.tolist() == [1.0, 2.0]


def test_inputs_left_out_have_the_defaults_of_the_engine(opened):
    document = opened(PAIR.replace("x: {}", "x: {}, z: {default_value: 3}, w: {}"))
    both = given(z=3, w=4)
    assert select_inputs(document, {"B.w"}, both).arrays == {"w": both.arrays["w"]}


def test_a_node_that_has_not_run_yet_is_nan(opened):
    late = "{type: AfterNCalls, kwargs: {dependency: A, n: 3, time_scale: TimeScale.LIFE}}"
    text = PAIR + conditions(f"node_specific: {{B: {late}}}", ONE_PASS)
    completed = run_in_engine(opened(text), steps=4)
    np.testing.assert_array_equal(completed.arrays["B.y"], [np.nan, np.nan, 30, 40])
    assert completed.arrays["A.y"].tolist() == [1, 2, 3, 4]
    assert completed.execution_list == ((("A",),), (("A",),), (("A",), ("B",)), (("A",), ("B",)))


def test_a_node_that_never_runs_is_nan_throughout(opened):
    text = PAIR + conditions("node_specific: {B: {type: Never, kwargs: {}}}", ONE_PASS)
    completed = run_in_engine(opened(text), steps=2)
    np.testing.assert_array_equal(completed.arrays["B.y"], [np.nan, np.nan])


def test_rows_share_one_type_and_shape(opened):
    text = """
nodes:
    A:
        input_ports: {x: {}}
        output_ports: {half: {value: x / 2}, big: {value: 5e29 * 2}}
"""
    rows = BoundInputs({"x": np.array([1.0, 2.0, 3.0])}, frozenset({"x"}))
    completed = run_in_engine(opened(text), rows, steps=3)
    assert completed.arrays["A.half"].tolist() == [0.5, 1.0, 1.5]
    assert completed.arrays["A.big"].tolist() == (1e30 * np.array([1, 1, 1])).tolist()
    whole = opened("nodes: {A: {output_ports: {big: {value: '10 ** 30'}}}}")
    assert run_in_engine(whole).arrays == {}  # a float cannot represent this number
    with pytest.raises(RunError, match=r"'A\.big' is not a number in modeci_mdf's engine"):
        run_in_engine(whole, record=["A.big"])


def test_arrays_of_changing_shape_have_lengths(opened):
    text = """
nodes:
    A:
        parameters: {n: {value: n + 1}}
        output_ports: {y: {value: 'numpy.ones(n + 1)'}}
"""
    completed = run_in_engine(opened(text), steps=2, record=["A.y"])
    assert [row.tolist() for row in completed.rows["A.y"]] == [[1, 1], [1, 1, 1]]
    np.testing.assert_array_equal(completed.arrays["A.y"], [[1, 1, np.nan], [1, 1, 1]])
    assert completed.lengths["A.y"].tolist() == [2, 3]


def test_a_number_stands_for_the_elements_of_later_arrays(opened):
    text = """
nodes:
    A:
        parameters: {n: {value: n + 1}, y: {value: '3.0 if n < 2 else numpy.ones(2)'}}
        output_ports: {y: {value: y}}
"""
    completed = run_in_engine(opened(text), steps=2, record=["A.y"])
    assert completed.arrays["A.y"].tolist() == [[3, 3], [1, 1]]
    assert not completed.lengths


def test_names(opened):
    document = opened(PAIR)
    assert list(run_in_engine(document).arrays) == ["A.y", "A.n", "B.y"]
    assert list(run_in_engine(document, record=["B.y", "A.n"]).arrays) == ["B.y", "A.n"]
    with pytest.raises(UnknownNameError, match=r"no output 'B\.z'"):
        run_in_engine(document, record=["B.z"])


def test_a_loop_node(shared):
    document = open_document(shared / "models" / "doc_sample.yaml")
    completed = run_in_engine(document)
    assert completed.arrays["loop_node.b_final"].tolist() == 6
    assert "loop_node.loop_1" not in completed.arrays  # two outputs are no single number
    assert completed.loops["loop_node.loop_1"].iterations == 2
    assert completed.loops["loop_node.loop_1"].stopped_by is StopReason.CONDITION


def test_results(opened):
    document = opened(PAIR)
    results = engine_results(
        MODECI, document, BoundInputs({}), specify(RunOptions(steps=3, dt=0.5, record="A.n"))
    )
    assert list(results) == ["B.y", "A.n"]
    assert results["B.y"].tolist() == [10, 20, 30]
    assert results.time.tolist() == [0, 0.5, 1.0]
    assert engine_results(MODECI, document, BoundInputs({}), specify(RunOptions(steps=2))).axes[
        0
    ].coordinates["step"].tolist() == [0, 1]
    assert (results.device, results.precision) == ("cpu", "float64")
    for words in ({"device": "cuda"}, {"precision": "float32"}):
        with pytest.raises(InputError, match="computes on the CPU, in float64"):
            engine_results(MODECI, document, BoundInputs({}), specify(RunOptions()), **words)


def test_nothing_is_printed(opened, capsys):
    run_in_engine(opened(PAIR), steps=2)
    assert capsys.readouterr() == ("", "")


# --- order --------------------------------------------------------------------------------------


def test_the_order_is_that_of_the_document(opened):
    for _ in range(12):
        assert run_in_engine(opened(TWO_SENDERS)).arrays["C.y"].tolist() == 2
        completed = run_in_engine(opened(CIRCLE), steps=3)
        assert completed.arrays["A.o"].tolist() == [1, 3, 7]
        assert completed.execution_list[0] == (("A", "B"),)


def test_sums_in_place_and_with_copies(opened):
    document = opened(SUM)
    assert run_in_engine(document).arrays["A.y"].tolist() == [11, 22]  # as in modeci_mdf
    engine = EngineGraph(document)
    assert copy_port_values(engine) == ["C.x"]
    completed = run_evaluations(Evaluations(engine))
    assert completed.arrays["A.y"].tolist() == [1, 2]
    assert completed.arrays["C.y"].tolist() == [11, 22]


def test_debug_texts_are_restored_after_a_run():
    import modelspec.utils
    from modeci_mdf import execution_engine

    modules = (modelspec.utils, execution_engine)
    before = [module._params_info for module in modules]
    with skip_debug_texts(), skip_debug_texts():
        assert execution_engine._params_info({"a": 1}) == ""
    assert [module._params_info for module in modules] == before


# --- errors -------------------------------------------------------------------------------------


def error_of(document, kind: type[LoopError] = RunError, **options: object) -> str:
    with pytest.raises(kind) as caught:
        run_in_engine(document, **options)
    assert caught.value.__cause__ is None
    return caught.value.report


def test_a_node_that_fails_is_named(opened):
    text = PAIR.replace("x * 10", "x @ 10")
    assert error_of(opened(text)).splitlines() == [
        "RunError: modeci_mdf's engine cannot run this model: Could not evaluate expression [x @ 10]: "
        "unsupported operand type(s) for @: 'int' and 'int'",
        "  at $.graphs[0].nodes['B']",
        "  hint: the sentence is the engine's own; correct what it names",
    ]


def test_a_node_that_the_engine_refuses_is_named(opened):
    text = "nodes: {A: {functions: {f: {value: z + 1}}, output_ports: {y: {value: f}}}}"
    lines = error_of(opened(text)).splitlines()
    assert "The following vars are missing: f: z" in lines[0]
    assert lines[1] == "  at $.graphs[0].nodes['A']"


def test_the_step_of_a_failure_is_known(opened):
    text = LEAK.replace("value: v}", "value: 1 / (3 - n)}").replace("{value: n}", "{value: n * 1}")
    completed = run_evaluations(Evaluations(opened(text), dt=0.1), steps=5)
    assert len(completed.execution_list) == 2
    assert completed.arrays["cell.v"].tolist()[-1] == 1.0
    assert "1 / (3 - n)" in str(completed.failure)


def test_a_scheduler_that_fails(opened):
    text = PAIR + conditions("node_specific: {A: {type: JustRan, kwargs: {dependency: B}}}")
    lines = error_of(opened(text)).splitlines()
    assert lines[0].startswith("RunError: modeci_mdf's engine cannot run this model: IndexError")
    assert lines[1] == "  at $.graphs[0].conditions"


def test_an_endless_schedule_without_runs_is_an_error(opened, monkeypatch):
    never = "node_specific: {A: {type: Never, kwargs: {}}, B: {type: Never, kwargs: {}}}"
    monkeypatch.setattr(engine_graph, "MAX_IDLE_PASSES", 50)
    assert error_of(opened(PAIR + conditions(never))).splitlines() == [
        "RunError: an evaluation of this model never ends in modeci_mdf's engine: nothing runs for "
        "50 passes",
        "  at $.graphs[0].conditions",
        "  hint: state a termination condition that comes true, or let each node run at least once",
    ]


def test_an_endless_schedule_with_runs_is_an_error(opened, monkeypatch):
    monkeypatch.setattr(engine_graph, "MAX_PASSES", 50)
    text = PAIR + conditions("node_specific: {B: {type: Never, kwargs: {}}}")
    assert "it is not over after 50 passes" in error_of(opened(text))


def test_a_circle_without_a_start(opened):
    without = CIRCLE.replace("{default_value: 0}", "{}").replace("{default_value: 100}", "{}")
    lines = error_of(opened(without), CycleError).splitlines()
    assert lines == [
        "CycleError: modeci_mdf's engine never starts: no edges lead from its first nodes to 'A', 'B'",
        "  at $.graphs[0]",
        "  hint: the nodes wait for each other; give an input port of one a default_value",
    ]


def test_a_circle_beside_a_node_without_edges(opened):
    beside = CIRCLE.replace("nodes:", "nodes:\n    Z: {output_ports: {y: {value: '1'}}}")
    assert "run the model compiled" in error_of(opened(beside), CycleError)
