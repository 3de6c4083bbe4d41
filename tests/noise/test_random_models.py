"""A seed gives a random noisy model the same bits in any form, chunk size and number of trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop import streams
from mdf_loop.native import loop_decisions
from mdf_loop.run import time_session
from mdf_loop.run.onnxruntime import session
from tests.long_runs.helpers import Case, chunked, resumed, same_results, unbroken
from tests.soak import times
from tests.strategies.noisy_models import noisy_models

SOME = settings(
    max_examples=times(2, 400), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
MANY = settings(SOME, max_examples=times(3, 2000))
STEPS = 12
SEEDS = st.sampled_from([0, 1, 2**64 - 1])


@contextmanager
def native() -> Iterator[None]:
    """Compile all loops to machine code, however little work they do."""
    with (
        patch.object(loop_decisions, "MIN_NATIVE_MICROSECONDS", 0.0),
        patch.object(time_session, "MIN_NATIVE_MICROSECONDS", 0.0),
    ):
        yield


def assert_equal_outputs(one: Any, other: Any, place: Any = ...) -> None:
    """Compare all outputs with those of another run, or with one of its members."""
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name], np.asarray(other[name])[place], err_msg=name)


def check_forms(model: dict[str, Any], seed: int) -> None:
    expected = mdf_loop.compile(model, native="off").run(steps=STEPS, seed=seed)
    assert_equal_outputs(
        mdf_loop.compile(model).run(steps=STEPS, seed=seed, engine="interpreter"), expected
    )
    with native():
        assert_equal_outputs(mdf_loop.compile(model).run(steps=STEPS, seed=seed), expected)


@SOME
@given(noisy_models(), SEEDS)
def test_all_forms_have_the_same_bits(model: dict[str, Any], seed: int) -> None:
    check_forms(model, seed)


@pytest.mark.slow
@pytest.mark.soak
@MANY
@given(noisy_models(), SEEDS)
def test_all_forms_of_many_models_have_the_same_bits(model: dict[str, Any], seed: int) -> None:
    check_forms(model, seed)


def check_batches(model: dict[str, Any], seed: int, form: str) -> None:
    with native():
        compiled = mdf_loop.compile(model, native=form)
        options = {"steps": 5, "seed": seed}
        all_trials = compiled.run(**options, trials=70)
        assert_equal_outputs(compiled.run(**options), all_trials, 0)
        assert_equal_outputs(compiled.run(**options, trials=[69]), all_trials, slice(69, 70))
        assert_equal_outputs(compiled.run(**options, trials=7), all_trials, slice(7))
        assert_equal_outputs(
            compiled.run(**options, trials=range(30, 61)), all_trials, slice(30, 61)
        )
        first_part = compiled.run(steps=2, seed=seed, trials=70)
        second_part = compiled.run(steps=3, seed=seed, trials=70, state=first_part.state)
        assert_equal_outputs(second_part, all_trials, (slice(None), slice(2, None)))


@SOME
@given(noisy_models(), SEEDS, st.sampled_from(["auto", "off"]))
def test_trials_have_the_same_bits_in_any_batch(
    model: dict[str, Any], seed: int, form: str
) -> None:
    check_batches(model, seed, form)


@pytest.mark.slow
@pytest.mark.soak
@MANY
@given(noisy_models(), SEEDS, st.sampled_from(["auto", "off"]))
def test_trials_of_many_models_have_the_same_bits_in_any_batch(
    model: dict[str, Any], seed: int, form: str
) -> None:
    check_batches(model, seed, form)


@pytest.mark.slow
@pytest.mark.soak
@settings(MANY, max_examples=times(2, 200))
@given(noisy_models(), SEEDS)
def test_ten_thousand_trials_have_the_same_bits(model: dict[str, Any], seed: int) -> None:
    with native():
        compiled = mdf_loop.compile(model)
        all_trials = compiled.run(steps=2, seed=seed, trials=10_000)
        for trial in (0, 1, 4097, 9999):
            assert_equal_outputs(
                compiled.run(steps=2, seed=seed, trials=[trial]),
                all_trials,
                slice(trial, trial + 1),
            )
        with patch.object(session, "MAX_THREADS", 2):
            assert_equal_outputs(
                mdf_loop.compile(model).run(steps=2, seed=seed, trials=10_000), all_trials
            )


def check_cuts(model: dict[str, Any], seed: int, form: str, trials: int | None) -> None:
    with native(), TemporaryDirectory() as folder:
        options = {"steps": 60, "seed": seed, "trials": trials}
        case = Case(model, options, {"native": form})
        compiled = case.compiled()
        unbroken_run = unbroken(case, compiled)
        same_results(chunked(case, seed % 1000, compiled)[0], unbroken_run)
        same_results(resumed(case, seed % 1000, Path(folder) / "run.ckpt")[0], unbroken_run)


@SOME
@given(noisy_models(), SEEDS, st.sampled_from(["auto", "off"]), st.sampled_from([None, 3]))
def test_chunked_and_resumed_runs_have_the_same_bits(
    model: dict[str, Any], seed: int, form: str, trials: int | None
) -> None:
    check_cuts(model, seed, form, trials)


@pytest.mark.slow
@pytest.mark.soak
@settings(MANY, max_examples=times(3, 1000))  # Each model is compiled and run about five times.
@given(noisy_models(), SEEDS, st.sampled_from(["auto", "off"]), st.sampled_from([None, 3]))
def test_chunked_and_resumed_runs_of_many_models_have_the_same_bits(
    model: dict[str, Any], seed: int, form: str, trials: int | None
) -> None:
    check_cuts(model, seed, form, trials)


@SOME
@given(noisy_models(), SEEDS)
def test_exported_files_have_the_same_bits(model: dict[str, Any], seed: int) -> None:
    compiled = mdf_loop.compile(model)
    ours = compiled.run(seed=seed, trials=[5])
    proto = compiled.to_onnx()
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    keys = streams.keys(seed, streams.sites(compiled.program.sites), 5)
    names = [output.name for output in session.get_outputs()]
    draws = dict(zip(names, session.run(None, {"random_keys": keys}), strict=True))
    for name in ours:
        np.testing.assert_array_equal(draws[name], ours[name][0], err_msg=name)


@settings(SOME, max_examples=times(2, 100))
@given(noisy_models(), SEEDS)
def test_the_mdf_engine_draws_the_same_numbers(model: dict[str, Any], seed: int) -> None:
    report = mdf_loop.verify(model, steps=6, seed=seed)
    assert report.equal, str(report)
