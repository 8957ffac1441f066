"""Profiles: names, counts that are derived by hand, results as of a call, the table."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.deploy import profile as profiles
from minimlc.deploy.profile import KernelTime, Profile
from minimlc.deploy.work import flops
from minimlc.graphs.ir.nodes import TensorType, call_dps_packed, constant
from minimlc.graphs.plan import plan
from minimlc.machine.peaks import Peaks
from minimlc.services.runtime.library import Library
from tests.deploy.graphs import graph, mlp, op, values, weight
from tests.helpers import refuses


@pytest.fixture(autouse=True)
def peaks(monkeypatch) -> Peaks:
    """Nothing is measured: a billion operations and a million bytes a second."""
    known = Peaks(1e9, 1e6, "a machine")
    monkeypatch.setattr(profiles, "machine_peaks", lambda: known)
    return known


def counts(profile: Profile) -> list[tuple[str, int, int | None]]:
    return [(kernel.name, kernel.bytes, kernel.flops) for kernel in profile.kernels]


MLP = [
    # x (3, 6), w (6, 8), b (8,), the result (3, 8); a product, a sum and a relu of each element
    ("fused_matmul_add_relu", 4 * (18 + 48 + 8 + 24), 2 * 3 * 6 * 8 + 24 + 24),
    ("fused_matmul_add", 4 * (24 + 32 + 4 + 12), 2 * 3 * 8 * 4 + 12),
]


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_an_mlp_by_hand(target):
    lib = mlc.build(mlp(), target, recipes=False)
    x = values(3, 6)
    profile = lib.profile("main", x)
    assert counts(profile) == MLP
    assert [name for name, _, _ in MLP] == [step.callee for step in plan(lib.mod, "main").steps]
    assert profile.bytes == sum(size for _, size, _ in MLP)
    assert profile.flops == sum(count for _, _, count in MLP)
    assert profile.seconds == sum(kernel.seconds for kernel in profile.kernels)
    np.testing.assert_array_equal(profile.result, lib["main"](x))


@pytest.mark.requires("cc")
def test_an_mlp_in_c():
    lib = mlc.build(mlp(), "c", recipes=False)
    profile = lib.profile("main", values(3, 6))
    assert counts(profile) == MLP
    np.testing.assert_array_equal(profile.result, lib["main"](values(3, 6)))


def test_a_convolution_by_hand():
    """Padding is a condition on where to read: zeros are multiplied, as in every window."""
    mod = graph((2, 3, 5, 6), lambda x, emit: op.nn.conv2d(x, weight(4, 3, 3, 3), padding=1))
    lib = mlc.build(mod, recipes=False)
    profile = lib.profile("main", values(2, 3, 5, 6))
    sizes = 4 * (2 * 3 * 5 * 6 + 4 * 3 * 3 * 3 + 2 * 4 * 5 * 6)
    assert counts(profile) == [("conv2d", sizes, 2 * (2 * 4 * 5 * 6) * (3 * 3 * 3))]


def test_a_softmax_by_hand():
    """Of each element: a maximum, a difference, exp, a sum, a product; of each row, a quotient."""
    lib = mlc.build(graph((4, 8), lambda x, emit: op.nn.softmax(x)), recipes=False)
    profile = lib.profile("main", values(4, 8))
    assert counts(profile) == [("softmax", 2 * 4 * 32, 5 * 32 + 4)]
    np.testing.assert_array_equal(profile.result, lib["main"](values(4, 8)))


def test_the_scheduled_graph_gives_what_a_call_gives():
    lib = mlc.build(mlp())
    x = values(3, 6, seed=4)
    np.testing.assert_array_equal(lib.profile("main", x).result, lib["main"](x))


def test_a_kernel_alone_and_tuples():
    lib = mlc.build(mlp(), recipes=False)
    func = lib.mod["fused_matmul_add"]
    arrays = [values(*p.shape, seed=n) for n, p in enumerate(func.params)]
    (kernel,) = lib.profile("fused_matmul_add", *arrays).kernels
    assert (kernel.name, kernel.bytes, kernel.flops) == MLP[1]
    given = [array.copy() for array in arrays]
    lib["fused_matmul_add"](*given)
    np.testing.assert_array_equal(arrays[-1], given[-1])
    one = mlc.parse("@R.function\ndef main(p: R.Tuple(R.Tensor((3,), 'float32'))):\n"
                    "    y = R.add(p[0], p[0])\n    return (y, p[0])\n")  # fmt: skip
    profile = mlc.build(one).profile("main", (values(3),))
    np.testing.assert_array_equal(profile.result, (2 * values(3), values(3)))


def test_registered_functions_are_timed_and_their_work_is_not_known():
    kind = TensorType((4,), "float32")
    mlc.register_func("test.deploy.negated", lambda a, out: np.negative(a, out=out), override=True)

    def make(x, emit):
        y = emit(call_dps_packed("test.deploy.negated", (emit(op.add(x, x)),), kind))
        return op.multiply(y, y)

    lib = mlc.build(graph((4,), make))
    profile = lib.profile("main", values(4))
    assert [k.name for k in profile.kernels] == ["add", "test.deploy.negated", "multiply"]
    assert [k.flops for k in profile.kernels] == [4, None, 4]
    assert profile.flops is None and profile.share is None
    np.testing.assert_array_equal(profile.result, lib["main"](values(4)))
    assert repr(profile).splitlines()[3].split()[-2:] == ["?", "?"]


def test_the_table_has_one_layout():
    kernels = (
        KernelTime("matmul", 3e-6, 1200, 4000, 0.25),
        KernelTime("relu", 1e-6, 800, 100, None),
    )
    profile = Profile("main", kernels, 3.5e-6, "a machine")
    assert repr(profile) == (
        "main: 3.5 µs a call, on a machine\n"
        "kernel  time  of all  bytes  flops  roofline\n"
        "matmul  3 µs   75.0%  1,200  4,000     25.0%\n"
        "relu    1 µs   25.0%    800    100         ?\n"
        "total   4 µs  100.0%  2,000  4,100         ?"
    )
    html = profile._repr_html_()
    assert html.count("<tr>") == 4 and "4,100</td>" in html and "3.5 µs a call" in html


def test_a_share_is_the_least_time_over_the_time(peaks):
    """256 bytes take 256 µs at a million a second; 160 operations take less."""
    lib = mlc.build(graph((4, 8), lambda x, emit: op.nn.softmax(x)), recipes=False)
    profile = lib.profile("main", values(4, 8))
    (kernel,) = profile.kernels
    assert kernel.share == pytest.approx(256e-6 / kernel.seconds)
    assert profile.share == pytest.approx(kernel.share)


def test_what_cannot_be_profiled_is_refused():
    lib = mlc.build(mlp())
    refuses("E105", lambda: lib.profile("mian", values(3, 6)), 'no function "mian"')
    refuses("E616", lambda: lib.profile(values(3, 6)), "function's name")
    refuses("E604", lambda: lib.profile("main", values(3, 7)), "axis 1")
    device = Library(lib.mod, mlc.Target("cuda"), {"main": lib["main"]}, {})
    refuses("", lambda: device.profile("main", values(3, 6)), 'target "cuda"')
    symbolic = mlc.parse("""
@T.prim_func
def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        A[i] = 0.0
""")
    assert [k.name for k in mlc.build(symbolic).profile("main", values(3), 3).kernels] == ["main"]


def test_an_empty_graph_has_no_kernels():
    lib = mlc.build(graph((4,), lambda x, emit: x))
    profile = lib.profile("main", values(4))
    assert profile.kernels == () and (profile.seconds, profile.flops) == (0, 0)
    assert "total" in repr(profile)


# Counts


def counted(body: str, *buffers: str) -> int | None:
    params = ", ".join(
        f"{name}: T.Buffer((16,), '{kind}')" for name, kind in map(str.split, buffers)
    )
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return flops(mlc.parse(f"@T.prim_func\ndef main({params}):\n{lines}\n")["main"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in range(16):\n    A[i] = A[i] * 2.0 + 1.0", 32),
        ("for i in range(16):\n    if i < 10:\n        A[i] = A[i] * 2.0", 10),
        ("for i, j in T.grid(4, 5):\n    if i * 4 + j < 13:\n        A[i] = A[i] + 1.0", 16),
        ("for i in range(16):\n    for j in range(i):\n        A[i] = A[i] + 1.0", 120),
        ("for i in range(16):\n    A[i] = T.exp(A[i])", 16),
        ("for i in range(16):\n    A[i] = T.max(A[i], 0.0)", 16),
        ("for i in range(16):\n    A[i] = T.if_then_else(i < 8, A[i] * A[i] * A[i], A[i])", 32),
        ("for i in range(16):\n    A[i] = T.float32(0)", 0),
        ("for i in range(16):\n    B[i] = B[i] * 3 + B[15 - i]", 0),
        ("for i in range(16):\n    if A[i] > 0.0:\n        A[i] = A[i] * 2.0", 16),
        ("for i in range(16):\n    while A[i] > 1.0:\n        A[i] = A[i] * 0.5", None),
    ],
)
def test_operations_are_counted(body, expected):
    assert counted(body, "A float32", "B int32") == expected


def test_a_guard_of_a_split_is_counted_exactly():
    """13 does not divide by 4: of 4 x 4 iterations, 13 run, in each of 7 rows."""
    mod = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7,), "float32")):
    for i, k in T.grid(7, 13):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""")
    sch = mlc.Schedule(mod).split("k", [None, 4]).split("i", [None, 2])
    assert flops(mod["main"]) == flops(sch.func) == 7 * 13


def test_too_many_iterations_to_look_at_are_not_guessed(monkeypatch):
    monkeypatch.setattr("minimlc.deploy.work.MOST_POINTS", 15)
    assert (
        counted("for i in range(16):\n    if i < 10:\n        A[i] = A[i] * 2.0", "A float32")
        is None
    )
    assert counted("for i in range(16):\n    A[i] = A[i] * 2.0", "A float32") == 16


def test_constants_are_moved_like_arrays():
    mod = graph((4,), lambda x, emit: op.add(x, constant(values(4))))
    assert mlc.build(mod).profile("main", values(4)).bytes == 3 * 16


LOOP = """
@I.ir_module
class Module:
    @R.function
    def less(i: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")):
        return R.less(i, R.const(3, "int64"))

    @R.function
    def more(i: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")):
        return R.add(i, R.const(1, "int64")), R.add(x, x)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.while_loop("less", "more", (R.const(0, "int64"), R.exp(x)))
        return R.sqrt(y[1])
"""


def test_a_loop_is_timed_as_the_native_code_that_it_is(monkeypatch):
    """Not step by step from Python, which takes ten times as long."""
    lib, x = mlc.build(mlc.parse(LOOP)), values(4)
    monkeypatch.setattr("minimlc.deploy.profile.perform", None)
    profile = lib.profile("main", x)
    assert [kernel.name for kernel in profile.kernels] == ["exp", "while_loop", "sqrt"]
    np.testing.assert_array_equal(profile.result, lib["main"](x))
