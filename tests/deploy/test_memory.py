"""Memory plans: near what is alive at once, no byte with two live values, in place where legal."""

from itertools import combinations

import numpy as np
import pytest

import minimlc as mlc
from minimlc.deploy.memory import MemoryPlan
from minimlc.graphs.passes import default_pipeline, legalize, scheduling
from minimlc.graphs.plan import (
    Plan,
    PlannedCall,
    Slot,
    _place_temporaries,
    _smallest_gap,
    live_bytes,
    places_of,
    plan,
)
from minimlc.services.native.in_place import may_share
from tests.deploy.graphs import graph, mlp, op, resnet, transformer, values
from tests.helpers import assert_close, refuses

FUSED = tuple(step for step in default_pipeline if step not in scheduling)
PLANS = [(make, steps) for make in (mlp, resnet, transformer) for steps in ((legalize,), FUSED)]


def check(planned: Plan) -> None:
    """Independently of the planner: each byte belongs to one live value at each step."""
    uses: dict[Slot, list[int]] = {}
    for number, step in enumerate(planned.steps):
        for slot in step.slots:
            if slot.kind == "arena":
                uses.setdefault(slot, []).append(number)
    assert all(s.number >= 0 and s.number + s.size <= planned.arena_bytes for s in uses)
    assert all(slot.number % 64 == 0 for slot in uses)
    for a, b in combinations(uses, 2):
        apart = uses[a][-1] < uses[b][0] or uses[b][-1] < uses[a][0]
        disjoint = a.number + a.size <= b.number or b.number + b.size <= a.number
        parts = {(slot.reuses or slot) if slot.start is not None else slot for slot in (a, b)}
        assert apart or disjoint or (b.reuses is a and uses[a][-1] == uses[b][0]) or len(parts) == 1
        if b.reuses is a and b.start is None:
            assert a.number == b.number and a.type == b.type


@pytest.mark.parametrize(("make", "steps"), PLANS)
@pytest.mark.parametrize("in_place", [False, True])
def test_plans_are_sound_and_near_the_least(make, steps, in_place):
    mod = mlc.run_passes(make(), steps)
    planned = plan(mod, "main", in_place=in_place)
    check(planned)
    live = [0] * len(planned.steps)  # counted anew, each value by itself
    last = {slot: n for n, step in enumerate(planned.steps) for slot in step.slots}
    reused = {s.reuses for step in planned.steps for s in step.outputs}
    for number, step in enumerate(planned.steps):
        for slot in step.outputs:
            if slot.kind == "arena":
                for n in range(number, last[slot] + (slot not in reused)):
                    live[n] += slot.size
    assert planned.arena_bytes <= 1.05 * max(live, default=0)
    assert live == live_bytes(places_of(planned), len(planned.steps))


def test_sharing_places_makes_a_plan_smaller():
    mod = mlc.run_passes(resnet(), (legalize,))
    assert plan(mod, "main", in_place=True).in_place >= {"add", "multiply"}
    fused = mlc.run_passes(transformer(), (legalize,))
    apart, shared = (plan(fused, "main", in_place=kind).arena_bytes for kind in (False, True))
    assert shared < apart


@pytest.mark.parametrize("seed", range(6))
def test_random_plans_are_sound(seed):
    """Values of random sizes, read up to ten steps later; many are alive at once."""
    rng = np.random.default_rng(seed)

    def make(x, emit):
        known = [emit(op.broadcast_to(x, shape=(int(n), 8))) for n in rng.integers(1, 40, size=3)]
        for _ in range(40):
            a = known[max(0, len(known) - int(rng.integers(1, 10)))]
            wide = emit(op.add(a, emit(op.sum(known[-1], axis=0))))
            rows = int(rng.integers(1, 40))
            cut = emit(op.sum(wide, axis=0))
            known.append(wide if rows % 2 else emit(op.broadcast_to(cut, shape=(rows, 8))))
        return op.sum(known[-1], axis=0)

    mod = mlc.run_passes(graph((8,), make), (legalize,))
    for in_place in (False, True):
        planned = plan(mod, "main", in_place=in_place)
        check(planned)
        least = max(live_bytes(places_of(planned), len(planned.steps)))
        assert least <= planned.arena_bytes <= 1.25 * least, "not every bound can be met"


@pytest.mark.parametrize(
    ("taken", "size", "start"),
    [
        ([], 5, 0),
        ([(0, 10)], 5, 10),
        ([(8, 2), (14, 6)], 4, 10),  # 8 bytes in front, 4 between: the smaller gap
        ([(8, 2), (14, 6)], 5, 0),
        ([(0, 10), (2, 3), (12, 4)], 2, 10),  # one taken piece inside another
        ([(2, 4), (8, 4)], 3, 12),
    ],
)
def test_the_smallest_gap_that_fits(taken, size, start):
    assert _smallest_gap(taken, size) == start


def test_the_order_of_steps_alone_would_need_more():
    """By size: small values placed first lie in the middle of the space that a large one needs."""
    sizes = {"a": (2, 0, 1), "b": (1, 1, 2), "c": (3, 2, 3)}
    slots = {n: Slot(mlc.parse(f"@R.function\ndef f(x: R.Tensor(({16 * s},), 'float32')):\n"
                               "    return x\n")["f"].params[0].type, "arena")
             for n, (s, _, _) in sizes.items()}  # fmt: skip
    planned = Plan(steps=[
        PlannedCall("call_tir", "k", (), (slots["a"],)),
        PlannedCall("call_tir", "k", (slots["a"],), (slots["b"],)),
        PlannedCall("call_tir", "k", (slots["b"],), (slots["c"],)),
        PlannedCall("call_tir", "k", (slots["c"],), ()),
    ])  # fmt: skip
    _place_temporaries(planned)
    check(planned)
    assert planned.arena_bytes == 4 * 64


# In place

ELEMENTS = "for i in range(8):\n"
LEGAL = [
    ELEMENTS + "    B[i] = A[i] + 1.0",
    ELEMENTS + "    B[i] = A[i] * A[i] + C[7 - i]",
    "for i, j in T.grid(2, 4):\n    B[i * 4 + j] = T.max(A[i * 4 + j], 0.0)",
    ELEMENTS + "    B[i] = T.if_then_else(A[i] > 0.0, A[i], C[i])",
    ELEMENTS + "    B[i] = C[i]",
]
ILLEGAL = [
    ELEMENTS + "    B[i] = A[7 - i]",
    ELEMENTS + "    B[i] = A[i] + A[0]",
    ELEMENTS + "    B[7 - i] = A[i]",
    ELEMENTS + "    B[i] = C[i]\n    D[i] = A[i]",
    ELEMENTS + "    B[i] = A[i]\nfor j in range(8):\n    D[j] = A[j]",
    ELEMENTS + "    B[i] = 0.0\nfor j in range(8):\n    B[j] = B[j] + A[j]",
    "for r, i in T.grid(2, 8):\n    B[i] = A[i] + 1.0",
    ELEMENTS + "    if A[i] > 0.0:\n        B[i] = C[i]",
    "for i, k in T.grid(8, 8):\n    B[k] = A[k] + C[i]",
]


def share(body: str) -> bool:
    params = ", ".join(f'{name}: T.Buffer((8,), "float32")' for name in "ACBD")
    text = f"@T.prim_func\ndef f({params}):\n" + "\n".join(f"    {s}" for s in body.split("\n"))
    return may_share(mlc.parse(text)["f"], 0, 2)


@pytest.mark.parametrize("body", LEGAL)
def test_results_over_inputs(body):
    assert share(body)


@pytest.mark.parametrize("body", ILLEGAL)
def test_results_that_would_overwrite_what_is_read(body):
    assert not share(body)


def test_other_dtypes_and_shapes_share_nothing():
    text = "@T.prim_func\ndef f(A: T.Buffer((8,), {!r}), B: T.Buffer({}, {!r})):\n    {}\n"
    int_float = text.format("int32", (8,), "float32", "for i in range(8):\n        B[i] = "
                            "T.cast(A[i], 'float32')")  # fmt: skip
    assert not may_share(mlc.parse(int_float)["f"], 0, 1)
    wide = text.format(
        "int32", (2, 4), "int32", "for i in range(8):\n        B[i // 4, i % 4] = A[i]"
    )
    assert not may_share(mlc.parse(wide)["f"], 0, 1)


IN_PLACE = {"add", "multiply", "subtract"}
"""Of the chain: what tanh reads is read again."""


def chain(x, emit):
    """Element-wise steps whose inputs die, and two whose input lives on."""
    y = emit(op.exp(x))
    for _ in range(3):
        y = emit(op.add(emit(op.multiply(y, y)), x))
    z = emit(op.tanh(y))
    return op.matmul(emit(op.subtract(z, y)), emit(op.permute_dims(z)))


@pytest.mark.parametrize("options", [{}, {"bounds": "check"}, {"recipes": False}])
def test_steps_in_place_compute_the_same(options):
    mod = mlc.run_passes(graph((8, 12), chain), (legalize,))
    lib = mlc.build(mod, **options)
    used = plan(mod, "main", in_place=True)
    assert used.in_place == IN_PLACE
    assert {v.name for v in lib.plan("main").values if v.over is not None} == IN_PLACE
    x = values(8, 12) / 4
    assert_close(lib["main"](x), mlc.interpret(mod, "main", x))


def reshaped(x, emit):
    """Reshapes of a parameter, of a value that is used as it was, too, and of one that dies."""
    y = emit(op.exp(emit(op.reshape(x, (12, 8)))))
    z = emit(op.tanh(emit(op.reshape(y, (8, 12)))))
    y = emit(op.reshape(emit(op.add(y, emit(op.reshape(z, (12, 8))))), (8, 12)))
    return op.reshape(emit(op.multiply(y, z)), (96,))


@pytest.mark.parametrize("scheduled", [False, True])
def test_reshapes_are_no_steps(scheduled):
    """Nor is the last one, whose memory the product writes."""
    meant = graph((8, 12), reshaped)
    mod = mlc.run_passes(meant, (legalize,))
    mod = mlc.recipes.apply(mod) if scheduled else mod
    names = [step.callee.rstrip("1234") for step in plan(mod, "main", in_place=True).steps]
    assert names == ["exp", "tanh", "add", "multiply"]
    x = values(8, 12)
    assert_close(mlc.build(mod)["main"](x), mlc.interpret(meant, "main", x))


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize(("seed", "shape"), [*enumerate([(7, 13), (1000,), (3, 5, 17), (1,)])])
def test_random_chains_in_place(seed, shape, scheduled):
    """Values of up to four steps before; sizes that are no multiple of a vector."""
    rng = np.random.default_rng(seed)

    def make(x, emit):
        known = [x, emit(op.tanh(x))]
        for _ in range(12):
            a, b = (known[-int(rng.integers(1, min(4, len(known)) + 1))] for _ in range(2))
            both = [op.add, op.subtract, op.maximum, op.minimum][int(rng.integers(4))]
            one = [op.nn.relu, op.tanh, op.negative][int(rng.integers(3))]
            known.append(emit(both(a, b) if rng.integers(3) else one(a)))
        return op.add(known[-1], known[-2])

    meant = graph(shape, make)
    mod = mlc.run_passes(meant, (legalize,))
    mod = mlc.recipes.apply(mod) if scheduled else mod
    lib = mlc.build(mod)
    assert any(value.over is not None for value in lib.plan("main").values)
    for number in range(2):
        x = values(*shape, seed=number)
        assert_close(lib["main"](x), mlc.interpret(meant, "main", x))


def test_code_in_place_is_not_told_that_its_arrays_are_apart():
    mod = mlc.run_passes(graph((8, 12), chain), (legalize,))
    text = mlc.build(mod).source("llvm")
    heads = {line.split("@mlc.")[1].split("(")[0]: line for line in text.splitlines()
             if line.startswith("define i32 @mlc.") and "graph" not in line}  # fmt: skip
    assert {name for name, head in heads.items() if "noalias" not in head} == IN_PLACE


PARALLEL = """
@I.ir_module
class Module:
    @T.prim_func
    def twice(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in T.parallel(64):
            B[i] = A[i] + A[i]

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        a = R.call_tir("twice", (x,), out=R.Tensor((64,), "float32"))
        b = R.call_tir("twice", (a,), out=R.Tensor((64,), "float32"))
        c = R.call_tir("twice", (b,), out=R.Tensor((64,), "float32"))
        return c
"""


def test_parallel_loops_in_place():
    """The function that threads run gets the same arrays, and nothing else."""
    lib = mlc.build(mlc.parse(PARALLEL), cache=False)
    assert [value.over for value in lib.plan("main").values] == [None, 0]
    assert "noalias" not in lib.source("llvm").replace("noalias ptr @malloc", "")
    np.testing.assert_array_equal(lib["main"](values(64)), 8 * values(64))


def test_other_targets_and_steps_in_python_write_in_no_place():
    mod = mlc.run_passes(graph((8, 12), chain), (legalize,))
    x = values(8, 12) / 4
    lib = mlc.build(mod, "gpusim")
    assert all(value.over is None for value in lib.plan("main").values)
    profile = mlc.build(mod).profile("main", x)
    np.testing.assert_array_equal(profile.result, mlc.build(mod)["main"](x))


# What is printed


def test_the_plan_is_printed():
    mod = mlc.run_passes(mlp(), (legalize,))
    planned = mlc.build(mod).plan("main")
    assert isinstance(planned, MemoryPlan)
    assert repr(planned) == (
        "main: 192 bytes for 4 values of 448; at most 192 are alive at once\n"
        "value    type           bytes  first  last  offset  over\n"
        "matmul   float32[3, 8]    128      0     1       0\n"
        "add      float32[3, 8]    128      1     2       0     0\n"
        "relu     float32[3, 8]    128      2     3       0     1\n"
        "matmul1  float32[3, 4]     64      3     4     128"
    )
    assert (planned.planned, planned.naive, planned.least) == (192, 448, 192)
    assert planned.live == (128, 128, 128, 192, 64)
    assert planned._repr_html_().count("<tr>") == 5


def test_what_has_no_plan_says_so():
    lib = mlc.build(mlp())
    refuses("E105", lambda: lib.plan("mian"), 'no function "mian"')
    refuses("E616", lambda: lib.plan(1), "function's name")
    kernel = next(name for name in lib.names() if name != "main")
    refuses("", lambda: lib.plan(kernel), f'"{kernel}" has no memory plan')
    refuses("", lambda: mlc.build(mlp(), "python").plan("main"), 'target "python"')
    symbolic = mlc.build(graph(("n",), lambda x, emit: emit(mlc.op.exp(x))))
    refuses("E136", lambda: symbolic.plan("main"), "has the sizes n", "n=128")


def test_a_function_without_steps_needs_nothing():
    planned = mlc.build(graph((4,), lambda x, emit: x)).plan("main")
    assert (planned.planned, planned.naive, planned.least, planned.values) == (0, 0, 0, ())
