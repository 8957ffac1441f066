"""Spellings of graphs that the field uses: at least three programs of each, run by the interpreter
and by LLVM.
"""

import types

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.script import I, R
from tests.graph.graph_runs import main, run_graph
from tests.helpers import refuses

X = 'x: R.Tensor((3, 4), "float32")'
Y = 'y: R.Tensor((3, 4), "float32")'
relax = types.ModuleType("relax")
relax.op = R


# Other names of the operators' namespace


@I.ir_module
class Relax:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv0 = relax.op.multiply(x, y)
            lv1 = relax.op.nn.relu(lv0)
            gv0 = relax.op.add(lv1, y)
            R.output(gv0)
        return gv0


@I.ir_module
class Ours:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv0 = mlc.op.multiply(x, y)
            lv1 = mlc.op.nn.relu(lv0)
            gv0 = op.add(lv1, y)
            R.output(gv0)
        return gv0


@R.function(private=True)
def alone(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
    lv0 = op.multiply(x, y)
    lv1 = op.nn.relu(lv0)
    return relax.op.add(lv1, y)


def test_operators_under_other_names():
    x, y, result = run_graph(Relax)
    np.testing.assert_array_equal(result, np.maximum(x * y, 0) + y)
    assert mlc.structural_equal(Ours, Relax)
    x, y, result = run_graph(mlc.IRModule.from_expr(alone))
    np.testing.assert_array_equal(result, np.maximum(x * y, 0) + y)
    text = main(f"{X}, {Y}", "relax.op.nn.relu(relax.op.multiply(x, y))")
    assert mlc.structural_equal(
        mlc.parse(text), mlc.parse(main(f"{X}, {Y}", "R.nn.relu(R.multiply(x, y))"))
    )


def test_an_unknown_operator_under_another_name():
    def wrong():
        @R.function
        def f(x: R.Tensor((3, 4), "float32")):
            return mlc.op.reluu(x)

    refuses("E120", wrong, '"relu"')
    refuses("E120", lambda: mlc.parse(main(X, "relax.op.nn.sofmax(x)")), '"softmax"')
    assert op.nn.relu is op.relu and "nn" in dir(op)
    with pytest.raises(AttributeError, match="did you mean"):
        op.nn.reluu


# mlc.Var(name, shape, type)


class DynTensorType:
    def __init__(self, ndim, dtype):
        self.ndim, self.dtype = ndim, dtype


@pytest.mark.parametrize(
    "kind", ["int8", np.float32, R.Tensor((3, 4), "float16"), DynTensorType(2, "float64")]
)
def test_a_variable_of_a_shape_and_a_type(kind):
    x = mlc.Var("x", (3, 4), kind)
    dtype = {"int8": "int8", np.float32: "float32"}.get(kind) or kind.dtype
    assert x.type == R.Tensor((3, 4), dtype)
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.add(x, x)))
    x, y = run_graph(bb.get())
    np.testing.assert_array_equal(y, x + x)


def test_a_variable_whose_shape_and_type_differ():
    refuses("E205", lambda: mlc.Var("x", (3, 4), DynTensorType(3, "int8")), '"x"', "(3, 4)")
    refuses("E205", lambda: mlc.Var("x", (3,), R.Tensor((3, 4), "int8")), "its type (3, 4)")
    refuses("E108", lambda: mlc.Var("x", (3,), "flot32"), '"float32"')
    refuses("E205", lambda: mlc.Var("x", (3, 4)), "mlc.Var")
    assert mlc.Var("x", (), DynTensorType(-1, "bool")).type == R.Tensor((), "bool")


# Constants


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('R.const([[1], [2], [3]], "float32")', [[1], [2], [3]]),
        ('R.const(0.5, R.Tensor((), "float32"))', 0.5),
        ('R.const([1, 2, 3, 4], dtype="float32")', [1, 2, 3, 4]),
        ("R.const(2.5)", 2.5),
    ],
)
def test_constants(text, value):
    text = text.replace(", dtype=", ", ")
    x, y = run_graph(main(X, f"R.add(x, {text})"))
    np.testing.assert_array_equal(y, x + np.float32(value))


def test_constants_of_a_type_in_plain_python():
    array = np.arange(6, dtype="float64").reshape(2, 3)
    for kind in (R.Tensor((2, 3), "float32"), DynTensorType(2, "float32"), "float32"):
        value = R.const(array, kind)
        assert value.type == R.Tensor((2, 3), "float32")
        np.testing.assert_array_equal(value.data, array)
    refuses("E205", lambda: R.const(array, DynTensorType(1, "float32")), "(2, 3)")
    refuses("E205", lambda: mlc.constant(array, R.Tensor((3, 2), "float32")), "(2, 3)")
    refuses("E205", lambda: mlc.parse(main(X, 'R.const([1], R.Tensor((2,), "int8"))')), "(1,)")


# astype


@pytest.mark.parametrize("dtype", ["float16", "int32", "int8", "float64", "bool"])
@pytest.mark.parametrize(
    "form",
    ['R.astype(x, "{}")', 'R.astype(x, dtype="{}")', 'x.astype("{}")', 'x.astype(dtype="{}")'],
)
def test_conversions(form, dtype):
    x, y = run_graph(main(X, form.format(dtype)))
    np.testing.assert_array_equal(y, x.astype(dtype))
    x = mlc.Var("x", (3, 4), "float32")
    assert mlc.parse(main(X, form.format(dtype)))["main"].result.type == x.astype(dtype).type


def test_conversions_that_are_not():
    refuses("E204", lambda: mlc.parse(main(X, 'x.astype("flot32")')), '"float32"')
    refuses("E201", lambda: mlc.parse(main(X, "x.astype()")), "dtype")
    refuses("E122", lambda: mlc.parse(main(X, 'z.astype("int8")')), '"z"')
    refuses("E204", lambda: mlc.Var("x", (3,), "int8").astype("in8"), '"int8"')


# R.shape and what else TVM wraps plain values in


@pytest.mark.parametrize(
    "call",
    [
        "R.reshape(x, R.shape([2, 6]))",
        "R.reshape(x, shape=R.shape((R.prim_value(2), 6)))",
        'R.add(R.reshape(x, (2, 6)), R.zeros(R.shape([2, 6]), R.dtype("float32")))',
        "R.reshape(R.broadcast_to(x, R.shape([1, 3, 4])), R.shape([2, 6]))",
    ],
)
def test_shapes_and_wrapped_values(call):
    x, y = run_graph(main(X, call))
    np.testing.assert_array_equal(y, x.reshape(2, 6))


def test_wrapped_values_in_plain_python():
    assert R.shape([1, 2]) == (1, 2) and R.prim_value(3) == 3 and R.dtype("int8") == "int8"
    x = mlc.Var("x", (3, 4), "float32")
    assert op.reshape(x, R.shape([4, 3])).shape == (4, 3)
    refuses("E123", lambda: mlc.parse(main(X, "R.reshape(x, R.shape(x))")), "constant")
    refuses("E122", lambda: mlc.parse(main(X, "R.reshape(x, R.shape([n, 4]))")), '"n"')


# Options of operators, as TVM prints them

IMAGE = 'x: R.Tensor((2, 4, 6, 5), "float32")'
KERNEL = 'w: R.Tensor((6, 4, 3, 3), "float32")'
SAID = "strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1"
LAYOUTS = 'data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype="void"'


def plain_conv2d(x, w, pads=((0, 0), (0, 0)), steps=(1, 1), apart=(1, 1)):
    """A convolution in layouts NCHW and OIHW, as a sum over the window's elements."""
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    (s, t), (d, e) = steps, apart
    rows = (x.shape[2] - (w.shape[2] - 1) * d - 1) // s + 1
    columns = (x.shape[3] - (w.shape[3] - 1) * e - 1) // t + 1
    total = np.zeros((len(x), len(w), rows, columns), x.dtype)
    for p in range(w.shape[2]):
        for q in range(w.shape[3]):
            part = x[:, :, p * d :: s, q * e :: t][:, :, :rows, :columns]
            total += np.einsum("nchw,oc->nohw", part, w[:, :, p, q])
    return total


@pytest.mark.parametrize(
    ("options", "pads", "steps", "apart"),
    [
        (f"{SAID}, {LAYOUTS}", ((1, 1), (1, 1)), (1, 1), (1, 1)),
        ("strides=(2, 1), padding=(1, 0)", ((1, 1), (0, 0)), (2, 1), (1, 1)),
        ("padding=[0, 1, 2, 0], dilation=2", ((0, 2), (1, 0)), (1, 1), (2, 2)),
        ('strides=3, dilation=(1, 2), out_dtype="float32"', ((0, 0),) * 2, (3, 3), (1, 2)),
    ],
)
def test_convolutions(options, pads, steps, apart):
    x, w, y = run_graph(main(f"{IMAGE}, {KERNEL}", f"R.nn.conv2d(x, w, {options})"))
    np.testing.assert_array_equal(y, plain_conv2d(x, w, pads, steps, apart))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolutions_of_groups(groups):
    kernel = f'w: R.Tensor((8, {4 // groups}, 3, 2), "float32")'
    call = f"R.nn.conv2d(x, w, padding=1, groups={groups})"
    x, w, y = run_graph(main(f"{IMAGE}, {kernel}", call))
    parts = zip(np.split(x, groups, 1), np.split(w, groups), strict=True)
    wanted = [plain_conv2d(a, b, ((1, 1), (1, 1))) for a, b in parts]
    np.testing.assert_array_equal(y, np.concatenate(wanted, 1))


@pytest.mark.parametrize(
    ("layout", "kernel", "out"),
    [
        ("NHWC", "HWIO", ""),
        ("NHWC", "OHWI", "NCHW"),
        ("CHWN", "OIHW", "NHWC"),
        ("NCHW", "HWIO", ""),
    ],
)
def test_convolutions_in_other_layouts(layout, kernel, out):
    image = [dict(zip("NCHW", (2, 4, 6, 5), strict=True))[axis] for axis in layout]
    weights = [dict(zip("OIHW", (3, 4, 3, 2), strict=True))[axis] for axis in kernel]
    params = f'x: R.Tensor({image}, "float32"), w: R.Tensor({weights}, "float32")'
    said = f'data_layout="{layout}", kernel_layout="{kernel}", out_layout="{out}"'
    x, w, y = run_graph(main(params, f"R.nn.conv2d(x, w, strides=(1, 2), {said})"))
    plain = x.transpose([layout.index(axis) for axis in "NCHW"])
    wanted = plain_conv2d(plain, w.transpose([kernel.index(axis) for axis in "OIHW"]), steps=(1, 2))
    np.testing.assert_array_equal(y, wanted.transpose(["NCHW".index(a) for a in out or layout]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_sums_of_another_dtype(dtype):
    params = f'x: R.Tensor((3, 40), "{dtype}"), w: R.Tensor((40, 5), "{dtype}")'
    x, w, y = run_graph(main(params, 'R.matmul(x, w, out_dtype="int32")'))
    np.testing.assert_array_equal(y, x.astype("int32") @ w.astype("int32"))
    x, w, y = run_graph(main(params, "R.matmul(x, w)"))
    np.testing.assert_array_equal(y, x @ w)
    params = params.replace("(40, 5)", "(5, 40)")
    x, w, y = run_graph(main(params, 'R.nn.dense(x, w, out_dtype="int32")'))
    np.testing.assert_array_equal(y, x.astype("int32") @ w.T.astype("int32"))
    params = f'x: R.Tensor((1, 3, 6, 6), "{dtype}"), w: R.Tensor((2, 3, 3, 3), "{dtype}")'
    x, w, y = run_graph(main(params, 'R.nn.conv2d(x, w, out_dtype="int32")'))
    np.testing.assert_array_equal(y, plain_conv2d(x.astype("int32"), w.astype("int32")))


def test_sums_of_16_bit_floats_in_32_bits():
    params = 'x: R.Tensor((3, 9), "float16"), w: R.Tensor((9, 5), "float16")'
    x, w, y = run_graph(main(params, 'R.matmul(x, w, out_dtype="float32")'))
    np.testing.assert_array_equal(y, x.astype("float32") @ w.astype("float32"))
    assert y.dtype == np.float32


POOL = 'layout="NCHW", out_layout="NCHW"'


@pytest.mark.parametrize(
    "options",
    [
        "strides=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], ceil_mode=False, " + POOL,
        "strides=(1, 2), padding=(1, 0, 0, 1)",
        "dilation=(2, 1)",
    ],
)
def test_pooling(options):
    for name, fill in (("max", -np.inf), ("avg", 0)):
        call = f"R.nn.{name}_pool2d(x, pool_size=[2, 2], {options})"
        count = name == "avg" and "padding=(" in options
        call = call[:-1] + ", count_include_pad=True)" if count else call
        x, y = run_graph(main(IMAGE, call))
        top, left, bottom, right = (1, 0, 0, 1) if "padding=(" in options else (0, 0, 0, 0)
        wide = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
        (s, t), d = ((1, 2) if "(1, 2)" in options else (2, 2)), 1 + ("(2, 1)" in options)
        parts = [wide[:, :, p * d :: s, q::t][:, :, : y.shape[2], : y.shape[3]] for p, q in PLACES]
        np.testing.assert_array_equal(y, np.max(parts, 0) if name == "max" else sum(parts) / 4)


PLACES = [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_options_that_do_not_fit():
    params = f"{IMAGE}, {KERNEL}"

    def refused(code, call, *words):
        refuses(code, lambda: mlc.parse(main(params, call)), *words)

    refused("E204", "R.nn.conv2d(x, w, padding=(1, 2, 3))", "padding")
    refused("E204", "R.nn.conv2d(x, w, padding=(1, 2, 3, -1))", "padding")
    refused("E204", "R.nn.conv2d(x, w, groups=4)", "does not divide the 6 outputs")
    refused("E203", "R.nn.conv2d(x, w, groups=2)", "in each of 2 groups")
    refused("E204", 'R.nn.conv2d(x, w, data_layout="NHWD")', "data_layout", "NCHW")
    refused("E204", 'R.nn.conv2d(x, w, out_layout="NC")', "out_layout")
    refused("E204", 'R.nn.conv2d(x, w, out_dtype="int8")', "float32")
    refused("E204", 'R.nn.conv2d(x, w, out_dtype="flot32")', '"float32"')
    refused("E204", "R.nn.adaptive_avg_pool2d(x, output_size=0)", "cut into 0 parts")


def pools(call):
    """`call` of a pool over `x`, the numbers 1 to 4 in two rows."""
    x = np.arange(1.0, 5, dtype="float32").reshape(1, 1, 2, 2)
    mod = mlc.parse(main('x: R.Tensor((1, 1, 2, 2), "float32")', call))
    answer = mlc.interpret(mod, "main", x)
    np.testing.assert_array_equal(mlc.build(mod)["main"](x), answer)
    return answer.tolist()[0][0]


@pytest.mark.parametrize(
    "options",
    ["dilation=3, padding=1", "padding=2", "padding=(0, 0, 2, 0)", "dilation=(2, 3), padding=1"],
)
def test_a_window_of_nothing_but_padding_has_no_greatest_element(options):
    call = f"R.nn.max_pool2d(x, pool_size=2, strides=1, {options})"
    refuses("E204", lambda: pools(call), "without any element of x", "a smaller padding")


def test_each_window_with_an_element_has_a_greatest_one():
    assert pools("R.nn.max_pool2d(x, pool_size=3, strides=1, dilation=2, padding=2)") == [
        [1, 2],
        [3, 4],
    ]
    assert pools("R.nn.max_pool2d(x, pool_size=2, strides=9, padding=(0, 0, 2, 2))") == [[4]]
    call = (
        "R.nn.avg_pool2d(x, pool_size=2, strides=1, dilation=3, padding=1, count_include_pad=True)"
    )
    assert pools(call) == [[0]]


def test_what_ceil_mode_adds_behind_the_padding_does_not_count():
    call = "R.nn.avg_pool2d(x, pool_size=2, strides=2, ceil_mode=True, padding=1, {})"
    assert pools(call.format("count_include_pad=True")) == [[0.25, 0.5], [0.75, 1]]
    assert pools(call.format("count_include_pad=False")) == [[1, 2], [3, 4]]


# Operators that are said by others

FOUR = np.array([1, 2, 3, 4], "float32")


@pytest.mark.parametrize(
    ("call", "meaning"),
    [
        ("R.square(x)", lambda x: x * x),
        ("R.sign(x)", np.sign),
        ("R.isnan(R.divide(x, x))", lambda x: x == 0),
        ("R.isfinite(R.divide(x, x))", lambda x: x != 0),
        ("R.isinf(R.divide(x, R.zeros_like(x)))", lambda x: x != 0),
        ("R.nn.relu6(x)", lambda x: np.clip(x, 0, 6)),
        ("R.nn.leakyrelu(x, 0.5)", lambda x: np.where(x > 0, x, x / 2)),
        ("R.ones_like(x)", np.ones_like),
        ('R.full_like(x, R.const(2, "float32"))', lambda x: np.full_like(x, 2)),
        ('R.full((3, 4), R.const(2, "float32"), "float32")', lambda x: np.full_like(x, 2)),
        ("R.clip(x, R.prim_value(-1), R.prim_value(2))", lambda x: np.clip(x, -1, 2)),
        ("R.tile(x, (2, 1))", lambda x: np.tile(x, (2, 1))),
        ("R.repeat(x, 2, axis=1)", lambda x: np.repeat(x, 2, 1)),
        ("R.flip(x, axis=1)", lambda x: x[:, ::-1]),
        ("R.stack((x, x), axis=1)", lambda x: np.stack((x, x), 1)),
        ("R.tril(x)", np.tril),
        ("R.triu(x, k=1)", lambda x: np.triu(x, 1)),
        ("R.nn.batch_flatten(R.expand_dims(x, 2))", lambda x: x),
        ("R.nn.pad(x, (0, 1, 2, 0))", lambda x: np.pad(x, ((0, 1), (2, 0)))),
        ("R.argmax(x, axis=None, keepdims=False)", lambda x: np.int64(x.argmax())),
        ("R.transpose(x)", np.transpose),
        ("R.linear(x, x)", lambda x: x @ x.T),
        ('R.linear(x, x, R.const([1, 2, 3], "float32"))', lambda x: x @ x.T + [1, 2, 3]),
        ('R.nn.bias_add(x, R.const([1, 2, 3, 4], "float32"))', lambda x: x + FOUR),
        ("R.bitwise_and(R.astype(x, 'int32'), R.astype(x, 'int32'))", lambda x: x.astype("int32")),
        ("R.logical_xor(R.isnan(x), R.isfinite(x))", lambda x: np.ones(x.shape, bool)),
    ],
)
def test_operators_that_others_say(call, meaning):
    x, y = run_graph(main(X, call))
    np.testing.assert_array_equal(y, meaning(x))


@pytest.mark.parametrize(
    ("call", "meaning"),
    [
        ("R.variance(x, axis=[1])", lambda x: x.var(1)),
        ("R.std(x, axis=0, keepdims=True)", lambda x: x.std(0, keepdims=True)),
        ("R.nn.softplus(x)", lambda x: np.log1p(np.exp(x))),
        (
            "R.nn.gelu_tanh(x)",
            lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        ),
        (
            "R.nn.selu(x)",
            lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        ),
        (
            "R.nn.rms_norm(x, R.const([1, 2, 3, 4], 'float32'), axes=[-1], epsilon=0.5)",
            lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5) * [1, 2, 3, 4],
        ),
        (
            "R.nn.prelu(x, R.const([0.5, 1, 2, 3], 'float32'))",
            lambda x: np.where(x > 0, x, x * [0.5, 1, 2, 3]),
        ),
    ],
)
def test_operators_that_round(call, meaning):
    x, y = run_graph(main(X, call), exact=False)
    np.testing.assert_allclose(y, meaning(x.astype(float)), rtol=1e-4, atol=1e-6)


def test_attention():
    shape = 'R.Tensor((2, 5, 3, 4), "float32")'
    params = f"q: {shape}, k: {shape}, v: {shape}"
    q, k, v, y = run_graph(main(params, "R.nn.attention(q, k, v)"), exact=False)
    scores = np.einsum("bshd,bthd->bhst", q, k) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(y, np.einsum("bhst,bthd->bshd", weights, v), rtol=1e-4, atol=1e-5)
    refuses("E203", lambda: mlc.parse(main(X, "R.nn.attention(x, x, x)")), "query")
