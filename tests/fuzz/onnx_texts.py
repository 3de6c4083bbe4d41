"""ONNX models as text, one for each form of control flow."""

from __future__ import annotations

_HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def _at(opset: int, ir_version: int = 8) -> str:
    return f'<ir_version: {ir_version}, opset_import: ["" : {opset}], producer_name: "fuzz">\n'


TEXTS = {
    "for, recorded": _HEAD
    + """
    sums (float[3] x) => (float[3] total, float[n, 3] trace) {
        m = Constant<value = int64 {4}>()
        go = Constant<value = bool {1}>()
        total, trace = Loop(m, go, x) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] row) {
            d = Identity(c)
            w = Add(v, x)
            row = Neg(w)
        }>
    }""",
    "while": _HEAD
    + """
    halves (double x) => (double y) {
        start = Constant<value = bool {1}>()
        y = Loop<body = step (int64 i, bool c, double v) => (bool d, double w) {
            two = Constant<value = double {2.0}>()
            one = Constant<value = double {1.0}>()
            w = Div(v, two)
            d = Greater(w, one)
        }>(, start, x)
    }""",
    "if": _HEAD
    + """
    choice (float[2] x, bool flag) => (float[2] y, float[k] z) {
        y, z = If(flag) <
            then_branch = yes () => (float[2] a, float[2] b) { a = Neg(x) b = Identity(x) },
            else_branch = no () => (float[2] c, float[4] d) { c = Exp(x) d = Concat<axis = 0>(x, x) }>
    }""",
    "scan": _HEAD
    + """
    scanned (float[2] s, float[5, 2] x, float[2, 5] y) => (float[2] last, float[2, 5] rows) {
        last, rows = Scan<num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [1, 0],
                          scan_output_axes = [1], scan_output_directions = [1],
            body = step (float[2] v, float[2] a, float[2] b) => (float[2] w, float[2] row) {
                p = Mul(a, b)
                w = Add(v, p)
                row = Tanh(w)
            }>(s, x, y)
    }""",
    "sequence map": _HEAD
    + """
    mapped (float[3] a, float[2] b) => (seq(float[k]) out, int64 n) {
        s = SequenceConstruct(a, b)
        out = SequenceMap<body = each (float[m] e, float[2] f) => (float[m] r) {
            q = ReduceSum<keepdims = 0>(f)
            r = Add(e, q)
        }>(s, b)
        n = SequenceLength(out)
    }""",
    "a sequence is carried": _HEAD
    + """
    grown (float[2] x) => (seq(float[2]) out, float[k] joined) {
        m = Constant<value = int64 {3}>()
        none = SequenceEmpty<dtype = 1>()
        out = Loop(m, , none) <body = step (int64 i, bool c, seq(float[2]) s) => (bool d, seq(float[2]) t) {
            d = Identity(c)
            t = SequenceInsert(s, x)
        }>
        joined = ConcatFromSequence<axis = 0>(out)
    }""",
    "an optional": _HEAD
    + """
    maybe (float[2] x, bool flag) => (float[2] y, bool there) {
        o = Optional(x)
        there = OptionalHasElement(o)
        e = OptionalGetElement(o)
        y = If(flag) <
            then_branch = yes () => (float[2] a) { a = OptionalGetElement(o) },
            else_branch = no () => (float[2] b) { b = Neg(e) }>
    }""",
    "loop in loop in if": _HEAD
    + """
    deep (int64 n, double[2] x, bool flag) => (double[2] y) {
        y = If(flag) <
            then_branch = yes () => (double[2] a) {
                a = Loop(n, , x) <body = outer (int64 i, bool c, double[2] v) => (bool d, double[2] w) {
                    d = Identity(c)
                    w = Loop(i, , v) <body = inner (int64 j, bool e, double[2] p) => (bool f, double[2] q) {
                        f = Identity(e)
                        jd = Cast<to = 11>(j)
                        r = Add(p, jd)
                        q = Mul(r, x)
                    }>
                }>
            },
            else_branch = no () => (double[2] b) { b = Identity(x) }>
    }""",
    "initializers and layers": _HEAD
    + """
    layers (float[1, 4] x) => (float[1, k] y, int64[1] best)
    <float[4, 3] weights = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] bias = {0.5, -0.5, 0.0},
     int64[2] shape = {1, -1}> {
        h = Gemm<alpha = 0.5, transB = 0>(x, weights, bias)
        r = Relu(h)
        p = Softmax<axis = 1>(r)
        y = Reshape(p, shape)
        best = ArgMax<axis = 1, keepdims = 0>(y)
    }""",
    "an older opset": _at(9, 4)
    + """
    old (float[2, 3] x) => (float[2, 3] y, float[1, 3] part) {
        s = Softmax<axis = 1>(x)
        part = Slice<starts = [0], ends = [1], axes = [0]>(s)
        c = Clip<min = 0.0, max = 1.0>(s)
        u = Unsqueeze<axes = [0]>(c)
        y = Squeeze<axes = [0]>(u)
    }""",
    "a newer opset": _at(20, 9)
    + """
    new (float[2, 3] x) => (float[a, b, c] y, float[2] m) {
        k = Constant<value = int64[3] {2, 1, 1}>()
        axes = Constant<value = int64[1] {1}>()
        m = ReduceMax<keepdims = 0>(x, axes)
        g = Gelu(x)
        y = Expand(g, k)
    }""",
    "shapes are computed": _HEAD
    + """
    computed (float[n, 3] x, int64 k) => (float[a, b] y, int64[r] steps) {
        one = Constant<value = int64[1] {1}>()
        front = Constant<value = int64[1] {0}>()
        zero = Constant<value = int64 {0}>()
        step = Constant<value = int64 {1}>()
        steps = Range(zero, k, step)
        s = Shape(x)
        t = Concat<axis = 0>(one, s)
        e = Expand(x, t)
        q = Squeeze(e, front)
        y = Transpose<perm = [1, 0]>(q)
    }""",
    "texts and whole numbers": _HEAD
    + """
    mixed (string[2] names, int32[2] a, uint8[2] b, float16[2] h) => (bool[2] same, int32[2] c, float16[2] g, string[2] out) {
        same = Equal(a, a)
        w = Cast<to = 6>(b)
        c = Mul(w, a)
        g = Add(h, h)
        out = Identity(names)
    }""",
}  # fmt: skip
