"""Mutations of a command line: other values, more options, and removed, repeated or exchanged words."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable

import click

from mdf_loop.cli import cli
from tests.fuzz.byte_changes import NUMBERS, mutate_bytes
from tests.fuzz.scenes import Scene

_VALUES = """
growing.v growing.v= growing.v=[1,2 growing.v=nan growing.v=[1,2,3] growing.v=1e400
growing.drive=[[[]]] drive=1 drive=[0.5,nan] growing.v=mean,nothing growing.row=last
nothing.v=1 growing=1 growing.drive=0:1:5 growing.drive=0:1:1000000000000 drive=model.yaml
drive=x.csv:y a=b=c = a= =1 [1,2] x .. . / /dev/null model.yaml choices.yaml part.onnx
none/out.npz out out.npz out.zarr out.exe out.svg out.png out.dot out.json out.h5 out.nc
out.csv out.onnx out.xml run.ckpt state.npz float16 float32 cuda cpu modeci onnxruntime dynamic
strict stop error ignore 5min -5min 1e400s 0s 10ms 1KB 4GB 1e30GB
"""

TEXTS = (
    *("", " ", "-", "--", "\x1b[31mred", "a\nb", "\udce9", "𝜆", "x" * 5000, "[" * 3000, "{" * 50),
    *(
        "$(true)",
        "%s%n",
        "\u202e.npz",
        "\udce9.npz",
        "a\nb.npz",
        "\x1b[2J.json",
        "x" * 300 + ".npz",
    ),
)
HOSTILE = (*_VALUES.split() * 2, *TEXTS, *(number.decode() for number in NUMBERS))

Change = Callable[[random.Random, list[str]], None]


def mutate_words(rng: random.Random, scene: Scene, times: int) -> Scene:
    """Return the scene with a mutated command line."""
    words = list(scene.words)
    for _ in range(times):
        if words:
            rng.choice(_CHANGES)(rng, words)
    return dataclasses.replace(scene, words=tuple(words))


def _replace_value(rng: random.Random, words: list[str]) -> None:
    """Replace the value of an option, or the model."""
    places = [k for k, word in enumerate(words) if k and not word.startswith("-")]
    if places:
        words[rng.choice(places)] = rng.choice(HOSTILE)


def _mistype_word(rng: random.Random, words: list[str]) -> None:
    """Change a character of a word, as in a typing error."""
    index = rng.randrange(len(words))
    content = mutate_bytes(rng, words[index].encode("utf-8", "surrogateescape"), 1)
    words[index] = content.replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _append_option(rng: random.Random, words: list[str]) -> None:
    """Append an option of the command, with a value if the option has one."""
    option = rng.choice(_command_options(words[0]))
    words += [option.opts[-1]] if option.is_flag else [option.opts[-1], rng.choice(HOSTILE)]


@functools.cache
def _command_options(name: str) -> list[click.Option]:
    """Return the options of a command, or those of `run` if the command is unknown or has none."""
    command = cli.get_command(click.Context(cli), name)
    options = [each for each in command.params if isinstance(each, click.Option)] if command else []
    return options or _command_options("run")


def _insert_word(rng: random.Random, words: list[str]) -> None:
    words.insert(rng.randrange(len(words) + 1), rng.choice(HOSTILE))


def _remove_word(rng: random.Random, words: list[str]) -> None:
    del words[rng.randrange(len(words))]


def _repeat_word(rng: random.Random, words: list[str]) -> None:
    start = rng.randrange(len(words))
    words += words[start : start + rng.choice((1, 2))]


def _exchange_words(rng: random.Random, words: list[str]) -> None:
    one, other = rng.randrange(len(words)), rng.randrange(len(words))
    words[one], words[other] = words[other], words[one]


_CHANGES: tuple[Change, ...] = (
    *(
        _replace_value,
        _replace_value,
        _replace_value,
        _replace_value,
        _append_option,
        _append_option,
        _append_option,
    ),
    *(_mistype_word, _mistype_word, _insert_word, _remove_word, _repeat_word, _exchange_words),
)
