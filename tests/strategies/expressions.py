"""Random expressions of Python and numpy on a few names: numbers, lists and tables."""

from __future__ import annotations

from hypothesis import strategies as st

LEAVES = st.sampled_from(
    ["x", "y", "n", "v", "f", "g", "w", "1", "2", "0.5", "-3", "2.5", "v[1]", "f[::-1]", "m[0, 1]"]
)


def _combine(children):
    pair = st.tuples(children, children)
    arithmetic = st.tuples(st.sampled_from(["+", "-", "*", "/", "//", "%"]), pair)
    compare = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), pair)
    function = st.tuples(
        st.sampled_from(["maximum", "minimum", "fmax", "add", "hypot", "arctan2"]), pair
    )
    one = st.tuples(
        st.sampled_from(
            ["exp", "tanh", "floor", "sign", "abs", "sqrt", "sum", "max", "cumsum", "sort"]
        ),
        children,
    )
    return st.one_of(
        arithmetic.map(lambda t: f"({t[1][0]} {t[0]} {t[1][1]})"),
        compare.map(lambda t: f"1 * ({t[1][0]} {t[0]} {t[1][1]})"),
        function.map(lambda t: f"numpy.{t[0]}({t[1][0]}, {t[1][1]})"),
        one.map(lambda t: f"numpy.{t[0]}({t[1]})"),
        pair.map(lambda t: f"numpy.where({t[0]} > 0, {t[0]}, {t[1]})"),
        children.map(lambda t: f"(-{t})"),
    )


def expressions() -> st.SearchStrategy[str]:
    """Draw an expression of up to eight leaves."""
    return st.recursive(LEAVES, _combine, max_leaves=8)
