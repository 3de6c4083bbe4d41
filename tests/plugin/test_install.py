"""Registering and unregistering: in fresh processes, since imports are what is tested."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.soak import some


def python(*codes: str) -> list[str]:
    """What fresh processes print, one for each code, all at once."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for code in codes
    ]
    done = [(process, *process.communicate(timeout=120)) for process in started]
    for process, _, stderr in done:
        assert process.returncode == 0, stderr
    return [stdout for _, stdout, _ in done]


PRELUDE = '''
import contextlib, io, sys

BODY = {"metadata": {"inputs": ["i", "go", "x"], "outputs": ["go_out", "x_out"]}, "nodes": {"n": {
    "input_ports": {"x": {}}, "output_ports": {"x_out": {"value": "2 * x"}, "go_out": {"value": "True"}}}}}
GRAPHS = {"main": {"nodes": {"N": {
    "functions": {"f": {"function": "onnx::Loop", "args": {"M": 3, "v_initial": 5, "body": {"body": BODY}}}},
    "output_ports": {"y": {"value": "f"}}}}}}

def evaluate():
    from modeci_mdf.execution_engine import EvaluableGraph
    from modeci_mdf.mdf import Model
    with contextlib.redirect_stdout(io.StringIO()):
        graph = EvaluableGraph(Model.from_dict({"m": {"format": "ModECI MDF v0.4", "graphs": GRAPHS}}).graphs[0])
        graph.evaluate()
    return int(graph.enodes["N"].evaluable_outputs["y"].curr_value)

def state():
    """Everything of modeci_mdf, its classes and the import system that registration may change."""
    import modeci_mdf.execution_engine as engine, modeci_mdf.functions.onnx as onnx
    import modeci_mdf.functions.standard as standard, modeci_mdf.mdf as mdf
    kept = {}
    for module in (engine, onnx, standard, mdf):
        kept[module.__name__] = dict(vars(module))
        for name, thing in vars(module).items():
            if isinstance(thing, type) and thing.__module__ == module.__name__:
                kept[f"{module.__name__}.{name}"] = dict(vars(thing))
    kept["mdf_functions"] = dict(standard.mdf_functions)
    kept["order"] = list(standard.mdf_functions)
    kept["path"] = list(sys.meta_path)
    kept["loaders"] = [dict(vars(m.__spec__.loader)) for m in (engine, onnx, standard, mdf)]
    return kept

def same(before, after):
    assert before.keys() == after.keys()
    for key, old in before.items():
        assert type(old) is type(after[key])
        pairs = old.items() if isinstance(old, dict) else enumerate(old)
        for name, value in pairs:
            new = after[key][name]
            assert new is value or (type(new) in (str, int, dict) and new == value), (key, name)
        assert len(old) == len(after[key]), key
'''


def test_importing_is_cheap() -> None:
    said = python(
        """
        import time
        start = time.perf_counter()
        import mdf_loop
        print(time.perf_counter() - start)
        print(sorted({m.split(".")[0] for m in sys.modules} & {
            "onnx", "onnxruntime", "onnx_ir", "modeci_mdf", "modelspec", "numpy", "networkx",
            "graphviz", "pygraphviz", "rich", "click", "torch"}))
        """
    )[0].splitlines()
    assert float(said[0]) < 0.5
    assert said[1] == "[]"


ORDERS = [
    "import mdf_loop, modeci_mdf.execution_engine",
    "import modeci_mdf.execution_engine, mdf_loop",
    "import modeci_mdf.mdf, mdf_loop",
    "import mdf_loop, modeci_mdf.mdf",
    "import mdf_loop; mdf_loop.register(); mdf_loop.register()",
    "import modeci_mdf.execution_engine, mdf_loop; mdf_loop.register()",
    "import mdf_loop; mdf_loop.unregister(); mdf_loop.register()",
    "import modeci_mdf.execution_engine, mdf_loop; mdf_loop.unregister(); mdf_loop.register()",
    "import mdf_loop; mdf_loop.unregister(); import modeci_mdf.execution_engine; mdf_loop.register()",
    "import mdf_loop; mdf_loop.unregister(); mdf_loop.register(); import modeci_mdf.execution_engine",
]


@pytest.mark.slow
@pytest.mark.soak
def test_loops_run_whatever_is_imported_first() -> None:
    orders = some(ORDERS, 2)
    said = python(*(f"{imports}\nprint(evaluate())\n" for imports in orders))
    assert dict(zip(orders, said, strict=True)) == dict.fromkeys(orders, "40\n")


@pytest.mark.slow
def test_unregister_restores_everything() -> None:
    python(
        """
        import modeci_mdf.execution_engine
        before = state()
        import mdf_loop
        for _ in range(3):
            assert evaluate() == 40
            mdf_loop.unregister()
            same(before, state())
            mdf_loop.unregister()
            same(before, state())
            mdf_loop.register()
            mdf_loop.register()
        assert evaluate() == 40
        """
    )


@pytest.mark.slow
def test_unregister_restores_what_was_registered_on_import() -> None:
    python(
        """
        import mdf_loop
        mdf_loop.unregister()
        path = list(sys.meta_path)
        mdf_loop.register()
        (ours,) = (finder for finder in sys.meta_path if finder not in path)
        import modeci_mdf.execution_engine as engine
        assert ours not in sys.meta_path  # libraries of the engine may have brought theirs
        assert "exec_module" not in vars(engine.__spec__.loader)
        taught = state()
        mdf_loop.unregister()
        plain = state()
        changed = {(k, n) for k in plain for n in (plain[k] if isinstance(plain[k], dict) else ())
                   if plain[k][n] is not taught[k][n] and plain[k][n] != taught[k][n]}
        assert changed == {
            ("modeci_mdf.functions.onnx", "loop"),
            ("modeci_mdf.execution_engine", "get_required_variables_from_expression"),
            ("modeci_mdf.execution_engine.EvaluableNode", "__init__"),
            ("modeci_mdf.mdf.Model", "__init__"), ("modeci_mdf.mdf.Model", "__setstate__"),
        } | {("modeci_mdf.mdf", "Model")} & changed, changed
        assert set(taught["mdf_functions"]) - set(plain["mdf_functions"]) == {"onnx::Loop"}
        """
    )


@pytest.mark.slow
def test_unregister_before_the_engine_is_loaded() -> None:
    python(
        """
        path = list(sys.meta_path)
        import mdf_loop
        assert len(sys.meta_path) == len(path) + 1
        mdf_loop.register()
        assert len(sys.meta_path) == len(path) + 1
        mdf_loop.unregister()
        assert sys.meta_path == path
        import modeci_mdf.execution_engine
        from modeci_mdf.functions.standard import mdf_functions
        assert "onnx::Loop" not in mdf_functions
        try:
            evaluate()
        except Exception as error:
            assert not isinstance(error, mdf_loop.LoopError)
        else:
            raise AssertionError("modeci_mdf ran a loop without the plugin")
        """
    )


@pytest.mark.slow
def test_the_library_imported_twice() -> None:
    """Coverage tools and test runners drop modules and import them again."""
    again = "[sys.modules.pop(m) for m in list(sys.modules) if m.split('.')[0] == 'mdf_loop']"
    before = f"import mdf_loop; {again}; import mdf_loop; print(evaluate())"
    between = f"import mdf_loop; print(evaluate()); {again}; import mdf_loop; print(evaluate())"
    assert python(before, between) == ["40\n", "40\n40\n"]


@pytest.mark.slow
def test_an_import_that_fails_can_be_tried_again() -> None:
    python(
        """
        import mdf_loop
        sys.modules["graph_scheduler"] = None
        try:
            import modeci_mdf.execution_engine
        except ImportError:
            pass
        else:
            raise AssertionError
        del sys.modules["graph_scheduler"]
        assert evaluate() == 40
        """
    )


@pytest.mark.slow
def test_the_function_is_in_the_registries() -> None:
    python(
        """
        import mdf_loop, modeci_mdf.execution_engine
        from modeci_mdf.functions import onnx
        from modeci_mdf.functions.standard import mdf_functions
        assert onnx.loop is mdf_loop.loop is mdf_functions["onnx::Loop"]["function"]
        assert mdf_functions["onnx::Loop"]["arguments"] == ["M", "cond", "v_initial", "body"]
        assert onnx.loop(3, None, 5, {"body": BODY}) == 40
        """
    )


@pytest.mark.slow
def test_classes_keep_their_faces() -> None:
    """Names, documentation and signatures of what was changed are modeci_mdf's own."""
    python(
        """
        import inspect
        import mdf_loop, modeci_mdf.execution_engine as engine
        from modeci_mdf.mdf import Model
        assert str(inspect.signature(engine.EvaluableNode)) .startswith("(node: ")
        assert "graphs" in inspect.signature(Model).parameters
        assert engine.EvaluableNode.__module__ == "modeci_mdf.execution_engine"
        assert engine.get_required_variables_from_expression("a + b") == ["a", "b"]
        """
    )
