"""Random arrays of arbitrary bits in every dtype and memory layout, and arrays of text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

NUMBERS = [
    "?",
    "i1",
    "u1",
    "<i2",
    "<i8",
    "<u8",
    "<f2",
    "<f4",
    "<f8",
    ">f8",
    "<c8",
    "<c16",
    "<M8[ns]",
]


SMALL_FLOATS = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]


@st.composite
def arrays(draw: Any) -> Any:
    """Draw an array of arbitrary bits in any dtype and memory layout, or of arbitrary texts."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = int(np.prod(shape, dtype=int))
    kind = draw(st.sampled_from([*NUMBERS, *SMALL_FLOATS, "texts", "U"]))
    if kind in ("texts", "U"):
        texts = draw(st.lists(st.text(max_size=5), min_size=size, max_size=size))
        array = np.empty(size, object)
        array[:] = texts
        array = array if kind == "texts" else array.astype("<U7")
    else:
        dtype = np.dtype(kind)
        bits = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
        array = np.frombuffer(bits, dtype) if kind != "?" else np.frombuffer(bits, "u1") > 127
    array = array.reshape(shape)
    return draw(st.sampled_from([lambda a: a, lambda a: a.T, lambda a: a[::-1] if a.ndim else a]))(
        array
    )


ANY_NAME = st.text(st.characters(), max_size=8)  # with surrogates, slashes, dots, zeros


PARTS = st.dictionaries(ANY_NAME, st.dictionaries(ANY_NAME, arrays(), max_size=4), max_size=3)
