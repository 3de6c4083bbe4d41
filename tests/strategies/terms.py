"""Random terms of a body: a carried value, a number, the iteration number, a capture."""

from __future__ import annotations

from hypothesis import strategies as st

TERMS = st.recursive(
    st.sampled_from(["x", "k", "i", "gain", "0.7", "2"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(" ".join).map("({})".format),
        inner.map("numpy.sin({})".format),
        inner.map("({} / 3)".format),
        st.tuples(inner, inner, inner).map(lambda t: "({} if {} < 1 else {})".format(*t)),
        st.tuples(inner, inner).map(lambda t: "numpy.maximum({}, {})".format(*t)),
    ),
    max_leaves=6,
)
