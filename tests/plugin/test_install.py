"""Registration and unregistration, tested in new processes because they depend on imports."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.soak import some


def python(*codes: str) -> list[str]:
    """Run each code in a new process, all at the same time, and return the printed texts."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for code in codes
    ]
    finished = [(process, *process.communicate(timeout=120)) for process in processes]
    for process, _, stderr in finished:
        assert process.returncode == 0, stderr
    return [stdout for _, stdout, _ in finished]


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
    """Return all attributes of modeci_mdf and of the import system that registration may change."""
    import modeci_mdf.execution_engine as engine, modeci_mdf.functions.onnx as onnx
    import modeci_mdf.functions.standard as standard, modeci_mdf.mdf as mdf
    attributes = {}
    for module in (engine, onnx, standard, mdf):
        attributes[module.__name__] = dict(vars(module))
        for name, member in vars(module).items():
            if isinstance(member, type) and member.__module__ == module.__name__:
                attributes[f"{module.__name__}.{name}"] = dict(vars(member))
    attributes["mdf_functions"] = dict(standard.mdf_functions)
    attributes["order"] = list(standard.mdf_functions)
    attributes["path"] = list(sys.meta_path)
    attributes["loaders"] = [dict(vars(m.__spec__.loader)) for m in (engine, onnx, standard, mdf)]
    return attributes

def check_same(before, after):
    assert before.keys() == after.keys()
    for key, old in before.items():
        assert type(old) is type(after[key])
        pairs = old.items() if isinstance(old, dict) else enumerate(old)
        for name, value in pairs:
            new = after[key][name]
            assert new is value or (type(new) in (str, int, dict) and new == value), (key, name)
        assert len(old) == len(after[key]), key
'''


def test_importing_is_fast_and_imports_no_large_library() -> None:
    lines = python(
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
    assert float(lines[0]) < 0.5
    assert lines[1] == "[]"


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
def test_loops_run_for_every_order_of_imports() -> None:
    orders = some(ORDERS, 2)
    texts = python(*(f"{imports}\nprint(evaluate())\n" for imports in orders))
    assert dict(zip(orders, texts, strict=True)) == dict.fromkeys(orders, "40\n")


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
            check_same(before, state())
            mdf_loop.unregister()
            check_same(before, state())
            mdf_loop.register()
            mdf_loop.register()
        assert evaluate() == 40
        """
    )


@pytest.mark.slow
def test_unregister_restores_modules_patched_on_import() -> None:
    python(
        """
        import mdf_loop
        mdf_loop.unregister()
        path = list(sys.meta_path)
        mdf_loop.register()
        (own_finder,) = (finder for finder in sys.meta_path if finder not in path)
        import modeci_mdf.execution_engine as engine
        assert own_finder not in sys.meta_path  # libraries of the engine may have added finders
        assert "exec_module" not in vars(engine.__spec__.loader)
        patched = state()
        mdf_loop.unregister()
        plain = state()
        changed = {(k, n) for k in plain for n in (plain[k] if isinstance(plain[k], dict) else ())
                   if plain[k][n] is not patched[k][n] and plain[k][n] != patched[k][n]}
        assert changed == {
            ("modeci_mdf.functions.onnx", "loop"),
            ("modeci_mdf.execution_engine", "get_required_variables_from_expression"),
            ("modeci_mdf.execution_engine.EvaluableNode", "__init__"),
            ("modeci_mdf.mdf.Model", "__init__"), ("modeci_mdf.mdf.Model", "__setstate__"),
        } | {("modeci_mdf.mdf", "Model")} & changed, changed
        assert set(patched["mdf_functions"]) - set(plain["mdf_functions"]) == {"onnx::Loop"}
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
    """Check a second import, because coverage tools and test runners remove modules and import them again."""
    drop = "[sys.modules.pop(m) for m in list(sys.modules) if m.split('.')[0] == 'mdf_loop']"
    before = f"import mdf_loop; {drop}; import mdf_loop; print(evaluate())"
    between = f"import mdf_loop; print(evaluate()); {drop}; import mdf_loop; print(evaluate())"
    assert python(before, between) == ["40\n", "40\n40\n"]


@pytest.mark.slow
def test_an_import_can_be_repeated_after_a_failure() -> None:
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
def test_patched_classes_keep_names_documentation_and_signatures() -> None:
    """Check that names and signatures of patched classes are those of modeci_mdf."""
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
