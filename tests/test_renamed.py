"""Former public names raise an error that states the new name."""

from __future__ import annotations

from typing import Any

import pytest

import mdf_loop
from mdf_loop.results.data import Results
from mdf_loop.results.fit import Fit
from mdf_loop.results.recovery import Recovery
from mdf_loop.sweeps import Grid


@pytest.mark.parametrize(
    ("former", "name"), [("Compiled", "CompiledModel"), ("StoppedBy", "StopReason")]
)
def test_former_names_of_the_module(former: str, name: str) -> None:
    with pytest.raises(ImportError, match=f"'mdf_loop.{former}' is now 'mdf_loop.{name}'"):
        getattr(mdf_loop, former)
    with pytest.raises(ImportError, match=name):
        exec(f"from mdf_loop import {former}")
    assert former not in dir(mdf_loop)
    assert getattr(mdf_loop, name).__name__ == name


@pytest.mark.parametrize(
    ("owner", "former", "name"),
    [
        (Results, "told", "statistics"),
        (Results, "given", "run_values"),
        (Recovery, "found", "estimates"),
        (Recovery, "held", "covered"),
        (Fit, "together", "unidentifiable"),
        (Grid, "apart", "unflatten"),
    ],
)
def test_former_attributes(owner: type[Any], former: str, name: str) -> None:
    instance = object.__new__(owner)
    message = rf"'{owner.__name__}\.{former}' is now '{owner.__name__}\.{name}'"
    with pytest.raises(AttributeError, match=message):
        getattr(instance, former)
    assert not hasattr(instance, former)
    assert former not in dir(instance)


@pytest.mark.parametrize("owner", [Results, Recovery, Fit, Grid])
def test_unknown_attributes_have_pythons_error(owner: type[Any]) -> None:
    with pytest.raises(AttributeError, match=f"'{owner.__name__}' object has no attribute 'no'"):
        object.__new__(owner).no  # noqa: B018


def test_private_methods() -> None:
    assert not hasattr(mdf_loop.CompiledModel, "run_specified")
    assert not hasattr(Grid, "said")
