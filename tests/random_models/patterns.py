"""Patterns of expressions whose numbers stay small, so that a model over time stays bounded.

Holes are those of `tests.random_programs.expression_programs`.
"""

from __future__ import annotations

from tests.random_programs.expression_programs import EXACT as ALL_EXACT

EXACT = {
    "fn": (
        *("({fn} + {fn})", "({fn} - {fn})", "({fn} * {fn})", "(0.5 * {fn})", "({fn} / 3.0)"),
        *("({fn} / (1.0 + abs({fn})))", "abs({fn})", "(-{fn})", "numpy.sqrt(abs({fn}))"),
        *("numpy.floor({fn})", "numpy.clip({fn}, -1.5, 2.0)", "min({fn}, {fn})", "({fn} * {bn})"),
        *("max({fn}, 0.25)", "({fn} if {bn} else {fn})", "numpy.where({bn}, {fn}, {fn})"),
        *("(0.25 * {in})", "({in} / 4)", "numpy.sign({fn})", "({fn} % 1.5)", "({fn} // 0.5)"),
        *("numpy.max({fl})", "numpy.min({fl})", "{fl}[{in} % @]", "{fl}[-1]", "numpy.ptp({fl})"),
        *("numpy.copysign({fn}, {fn})", "numpy.heaviside({fn}, 0.5)", "numpy.fmod({fn}, 1.25)"),
        *("numpy.sum({fl})", "numpy.mean({fl})", "numpy.std({fl})", "numpy.var({fl})", "sum({fl})"),
        *("numpy.sum({fl})", "numpy.mean({fl})", "numpy.linalg.norm({fl})", "numpy.median({fl})"),
        *("numpy.sum({fl} * {fl})", "numpy.sum({fl}[{bl}])", "numpy.average({fl})"),
        *("numpy.dot({fl}, {fl})", "({fl} @ {fl})", "numpy.vdot({fl}, {fl})"),
    ),
    "fl": (
        *("({fl} + {fl})", "({fl} - {fn})", "({fl} * {fl})", "(0.5 * {fl})", "({fn} * {fl})"),
        *("({fl} / (1.0 + numpy.abs({fl})))", "numpy.abs({fl})", "numpy.sqrt(numpy.abs({fl}))"),
        *("(-{fl})", "numpy.where({bl}, {fl}, {fn})", "numpy.maximum({fl}, {fn})", "{fl}[::-1]"),
        *("numpy.where({bn}, {fl}, {fl})", "numpy.minimum({fl}, {fl})", "numpy.clip({fl}, -1, 1)"),
        *("({fl} - numpy.mean({fl}))", "({fl} / (0.5 + numpy.std({fl})))", "({fl} * ({fl} > 0))"),
        *("({fl} / (1.0 + numpy.sum(numpy.abs({fl}))))", "numpy.take({fl}, {il} % @)"),
        *("numpy.roll({fl}, 1)", "numpy.sort({fl})", "(0.25 * {il})", "({fl} if {bn} else {fl})"),
        *("numpy.concatenate(({fl}[1:], {fl}[:1]))", "(numpy.ones(@) * {fn})", "({fl} % 1.5)"),
    ),
    "ft": (
        *("({ft} + {ft})", "(0.5 * {ft})", "({ft} * {fl})", "({ft} - {fn})", "({ft} / 3.0)"),
        *("numpy.transpose({ft})", "numpy.outer({fl}, {fl})", "numpy.clip({ft}, -1.0, 1.0)"),
        *("numpy.where({ft} > {fn}, {ft}, 0.0)", "({ft} - numpy.mean({ft}, axis=0))"),
    ),
    **{kind: ALL_EXACT[kind] for kind in ("in", "bn", "il", "bl")},
}
"""Patterns with equal bits in all forms, including sums and `dot` of lists, which have one order."""

FROM_TABLES = {
    "fn": ("numpy.sum({ft})", "numpy.mean({ft})", "{ft}[{in} % @, -1]", "numpy.std({ft})"),
    "fl": (
        *("numpy.sum({ft}, axis=0)", "numpy.sum({ft}, axis=1)", "numpy.mean({ft}, axis=1)"),
        *("numpy.std({ft}, axis=0)", "{ft}[{in} % @]", "{ft}[:, 0]", "numpy.max({ft}, axis=1)"),
        *("numpy.var({ft}, axis=1)", "numpy.mean({ft}, axis=0)", "numpy.diag({ft})"),
    ),
}
"""Exact patterns that read tables."""

ROUNDING = {
    "fn": (
        *("numpy.exp(-abs({fn}))", "numpy.tanh({fn})", "numpy.sin({fn})", "numpy.cos({fn})"),
        *("numpy.log(1.0 + abs({fn}))", "numpy.log1p(abs({fn}))", "((0.5 + abs({fn})) ** 0.7)"),
        *("({fn} ** 2)", "({fn} ** 3)", "(1.0 / (1.0 + numpy.exp(-{fn})))", "numpy.arctan({fn})"),
        *("math.erf({fn})", "math.exp(-abs({fn}))", "numpy.sum(numpy.tanh({fl}) * {fl})"),
        *("numpy.expm1(-abs({fn}))", "numpy.hypot({fn}, {fn})", "numpy.cbrt({fn})"),
        *("numpy.exp(numpy.clip({fn}, -3.0, 3.0))", "numpy.arctan2({fn}, {fn})", "pow(2.0, {fn})"),
        *("numpy.where({fn} > 0.0, numpy.log({fn}), {fn})", "numpy.sum(numpy.exp(-{fl} * {fl}))"),
        *("numpy.logaddexp({fn}, {fn})", "numpy.power(abs({fn}), 1.5)", "numpy.cosh({fn} % 1.0)"),
        *("numpy.mean(numpy.tanh({fl}))", "numpy.prod(numpy.clip({fl}, -1, 1))"),
    ),
    "fl": (
        *("numpy.exp(-numpy.abs({fl}))", "numpy.tanh({fl})", "numpy.sin({fl})", "numpy.cos({fl})"),
        *("numpy.log(1.0 + numpy.abs({fl}))", "((0.5 + numpy.abs({fl})) ** 0.7)", "({fl} ** 2)"),
        *("(1.0 / (1.0 + numpy.exp(-{fl})))", "numpy.arctan({fl})", "numpy.cumsum({fl})"),
        *("numpy.exp(numpy.clip({fl}, -3.0, 3.0))", "numpy.hypot({fl}, {fn})", "({fl} ** 3)"),
        *("numpy.log1p(numpy.abs({fl}))", "numpy.expm1(-numpy.abs({fl}))", "numpy.cbrt({fl})"),
        *("numpy.power(numpy.abs({fl}), 1.5)", "numpy.sqrt({fl} ** 2 + 1.0)"),
    ),
    "ft": ("numpy.tanh({ft})", "numpy.exp(-numpy.abs({ft}))", "({ft} ** 2)", "numpy.sin({ft})"),
}
"""Patterns that round."""

PRODUCTS = {
    "fn": ("numpy.sum({ft} @ {fl})", "({fl} @ {ft} @ {fl})"),
    "fl": (
        *("({ft} @ {fl})", "numpy.dot({ft}, {fl})", "numpy.matmul({fl}, {ft})", "({ft} @ {fl})"),
        *("({fl} @ {ft})", "numpy.inner({fl}, {ft})", "(numpy.transpose({ft}) @ {fl})"),
    ),
    "ft": ("({ft} @ {ft})", "numpy.matmul({ft}, {ft})", "({ft} @ numpy.transpose({ft}))"),
}
"""Rounding patterns that read tables."""

DRAWS = {
    "fn": (
        *("numpy.random.normal(0.0, 0.5)", "numpy.random.normal({fn}, 0.25)", "random.random()"),
        *("numpy.random.uniform(-1.0, 1.0)", "numpy.random.exponential(0.5)"),
        *("numpy.sum(numpy.random.normal(0.0, 0.5, 3))", "numpy.random.laplace(0.0, 0.25)"),
        *("numpy.random.gamma(2.5, 0.25)", "numpy.random.beta(2.0, 1.5)"),
    ),
    "in": (
        *(
            "numpy.random.randint(0, 5)",
            "numpy.random.poisson(0.75)",
            "numpy.random.binomial(3, 0.5)",
        ),
        *("numpy.random.choice(4)",),
    ),
    "fl": (
        *("numpy.random.normal(0.0, 0.5, @)", "numpy.random.normal({fl}, 0.25)"),
        *("numpy.random.rand(@)", "numpy.random.uniform(-1.0, 1.0, @)"),
    ),
}
"""Exact patterns that draw random numbers."""

CONSTANTS = {
    "f": ("0.5", "2.0", "-1.25", "0.1", "1.0", "0.0", "-0.3", "0.75"),
    "i": ("0", "1", "2", "-3", "7", "5"),
    "b": ("True", "False"),
}

SQUASHES = {
    "fn": ("numpy.clip({}, -2.0, 2.0)", "(({}) % 2.0 - 1.0)", "max(min({}, 1.5), -1.5)"),
    "fl": ("numpy.clip({}, -2.0, 2.0)", "numpy.maximum(numpy.minimum({}, 1.5), -1.5)"),
    "ft": ("numpy.clip({}, -2.0, 2.0)",),
}
"""Exact functions with small results, for states."""

SMOOTH_SQUASHES = {
    "fn": ("numpy.tanh({})", "numpy.sin({})", "(1.0 / (1.0 + numpy.exp(-({}))))"),
    "fl": ("numpy.tanh({})", "numpy.sin({})", "(1.0 / (1.0 + numpy.exp(-({}))))"),
    "ft": ("numpy.tanh({})", "numpy.sin({})"),
}
"""Functions that round, with small results."""
