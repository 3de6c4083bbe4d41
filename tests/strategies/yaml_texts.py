"""Random YAML: scalars that some parsers read as numbers, quoted scalars, lists and mappings."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = [
    "0",
    "-0",
    "+0",
    "00",
    "01",
    "08",
    "0o7",
    "0x1F",
    "0b11",
    "1_000",
    "-1_0",
    "+12",
    "1:30",
    "190:20:30",
    "0:0",
    "1__2",
    "_1",
    "123456789012345678901234567890",
    "0.",
    ".5",
    "-.5",
    "+.5",
    "1.",
    "1.5",
    "1e3",
    "1.e3",
    "1.5e3",
    "1.5e+3",
    "1.5E-3",
    "01.5",
    "1_0.5",
    "1.5_",
    "1:30.5",
    ".inf",
    "-.Inf",
    "+.INF",
    ".nan",
    ".NaN",
    "-.nan",
    "inf",
    "nan",
    ".",
    "..",
    "...",
    "-",
    "--",
    "+",
    "1.2.3",
    "1.5e",
    "1e+3",
    "-1.5e+400",
    "0.0",
    "-0.0",
    "12e03",
    "1,5",
    "true",
    "True",
    "TRUE",
    "tRUE",
    "yes",
    "no",
    "on",
    "off",
    "Y",
    "n",
    "null",
    "Null",
    "~",
    "NULL",
    "nil",
    "=",
    "<<",
    "2001-12-14",
    "2001-13-45",
    "2001-12-14t21:59:43.10-05:00",
    "!x",
    "!!str",
    "&a",
    "*a",
    "'a'",
    "a",
    "b:c",
    "#",
    "@",
    "`",
    "%",
    "?",
    "?x",
    "-x",
    "::",
]


CHARACTERS = st.text("0123456789._+-eE:xXobnaif~=<ty", max_size=9)


SCALARS = st.one_of(
    st.sampled_from(WORDS),
    CHARACTERS,
    st.floats().map(repr),
    st.integers().map(str),
    st.integers().map(hex),
)


QUOTED = st.one_of(SCALARS, SCALARS.map(lambda text: f'"{text}"'), SCALARS.map("'{}'".format))


DOCUMENTS = st.recursive(
    QUOTED,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(QUOTED, inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=12,
)
