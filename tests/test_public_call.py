"""Tracebacks of user errors show only frames of the user, and state the error class once."""

from __future__ import annotations

import inspect
import pickle
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError, raise_findings
from mdf_loop.public_call import TRACEBACK_VARIABLE, public_call, public_calls
from tests.models.fitted import CELL, DT, compiled

UNKNOWN = {"m": {"graphs": {"g": {"nodes": {"n": {"output_ports": {"y": {"value": "a + b"}}}}}}}}


def _wrong_calls() -> dict[str, Callable[[], Any]]:
    model = compiled(CELL)
    return {
        "run": lambda: model.run(steps=-1),
        "fit": lambda: model.fit("no.csv", {"cell.no": (0, 1)}, "cell.v", dt=DT),
        "gradient": lambda: model.gradient("cell.no", wrt="cell.no"),
        "save": lambda: model.save("model.txt"),
        "compile": lambda: mdf_loop.compile("no.yaml"),
        "read": lambda: mdf_loop.read(UNKNOWN),
        "draw": lambda: mdf_loop.draw("no.yaml"),
        "verify": lambda: mdf_loop.verify("no.yaml"),
        "from_onnx": lambda: mdf_loop.from_onnx("no.onnx"),
        "grid": lambda: mdf_loop.grid({"a": "x"}),
        "results": lambda: model.run(steps=2, dt=DT).save("results.txt"),
    }


def frames(error: BaseException) -> list[str]:
    """Return the files of the frames of a traceback."""
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("name", sorted(_wrong_calls()))
def test_tracebacks_of_user_errors_end_in_user_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRACEBACK_VARIABLE, raising=False)
    with pytest.raises(LoopError) as caught:
        _wrong_calls()[name]()
    error = caught.value
    assert set(frames(error)) == {Path(__file__).name}
    assert error.__cause__ is error.__context__ is None
    text = "".join(traceback.format_exception(error))
    assert text.count(type(error).__name__) == 1


def test_all_frames_are_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK_VARIABLE, "1")
    with pytest.raises(LoopError) as caught:
        compiled(CELL).run(steps=-1)
    assert "specification.py" in frames(caught.value)


def test_other_exceptions_keep_their_frames() -> None:
    @public_call
    def call() -> None:
        inner()

    def inner() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        call()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["call", "inner"]


def test_signatures_and_docstrings_are_kept() -> None:
    @public_calls
    class Example:
        def method(self, number: int = 3) -> int:
            """Return the number."""
            return number

        def _private(self) -> None: ...

    assert str(inspect.signature(Example.method)) == "(self, number: 'int' = 3) -> 'int'"
    assert Example.method.__doc__ == "Return the number."
    assert not hasattr(Example._private, "__wrapped__")
    assert Example().method(number=4) == 4


@pytest.mark.parametrize("name", sorted(mdf_loop._MODULE_BY_NAME))
def test_all_public_calls_are_wrapped(name: str) -> None:
    public = getattr(mdf_loop, name)
    if inspect.isfunction(public):
        assert hasattr(public, "__wrapped__")
    elif inspect.isclass(public) and public.__module__.startswith(
        ("mdf_loop.api", "mdf_loop.results")
    ):
        for each, method in inspect.getmembers(public, inspect.isfunction):
            if method.__module__.startswith("mdf_loop") and not each.startswith("_"):
                assert hasattr(method, "__wrapped__"), each


def test_text_and_report() -> None:
    error = InputError("wrong", "$.graphs", "mend it")
    assert str(error) == "wrong\n  at $.graphs\n  hint: mend it"
    assert error.report == f"InputError: {error}"
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    with pytest.raises(InputError) as caught:
        raise_findings((*error.findings, *InputError("wrong, too").findings))
    assert str(caught.value) == f"{error}\nInputError: wrong, too"
    with pytest.raises(LoopError) as caught_all:
        raise_findings((*error.findings, *LoopError("other").findings))
    assert str(caught_all.value) == f"InputError: {error}\nLoopError: other"


def test_warnings_point_to_user_code() -> None:
    model = mdf_loop.compile(
        {
            "m": {
                "graphs": {
                    "g": {"nodes": {"n": {"output_ports": {"y": {"value": "numpy.log(-1.0)"}}}}}
                }
            }
        }
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.run()
    assert [Path(each.filename).name for each in caught] == [Path(__file__).name]
