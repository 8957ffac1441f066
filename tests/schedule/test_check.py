"""Check mode: the faults that it catches, its messages, and what it leaves alone."""

from dataclasses import dataclass

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import Binary, Block, Load, Select, Store, Var, const
from minimlc.loops.schedule import PRIMITIVES
from minimlc.loops.schedule.primitive import KEEPS_ORDER
from minimlc.loops.schedule.tree import find_block, find_loop
from minimlc.loops.values.node import Mutator, replace
from minimlc.services.equivalence.compare import BUDGET, cost, inputs
from minimlc.services.net.shrink import shrunk, smaller
from tests.helpers import refuses
from tests.schedule.programs import Chain, MatmulRelu

MATMUL = """
@T.prim_func
def main(A: T.Buffer(({n}, {k}), "float32"), B: T.Buffer(({k}, {m}), "float32"),
         C: T.Buffer(({n}, {m}), "float32")):
    for i, j, k in T.grid({n}, {m}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SCALE = """
@T.prim_func
def main(A: T.Buffer(({n},), "float32"), C: T.Buffer(({n},), "float32")):
    for i in range({n}):
        with T.block("C"):
            vi = T.axis.spatial({n}, i)
            C[vi] = A[vi] * T.float32(2)
"""


def matmul(n: int, m: int, k: int) -> mlc.IRModule:
    return mlc.parse(MATMUL.format(n=n, m=m, k=k))


def scale(n: int) -> mlc.IRModule:
    return mlc.parse(SCALE.format(n=n))


@dataclass
class Stores(Mutator):
    """Changes the value of every store in blocks."""

    change: object

    def visit_Store(self, item: Store) -> Store:
        return replace(item, value=self.change(item))


def lies(change):
    """A primitive that replaces each stored value."""

    def broken(func):
        return Stores(change).visit(func)

    return broken


def nan_to_zero(item: Store):
    same = Binary("==", item.value, item.value)
    return Select(same, item.value, const(0, item.value.dtype))


def without_sign_of_zero(item: Store):
    return item.value + const(0, item.value.dtype)


def inf_to_largest(item: Store):
    return Binary("min", item.value, const(3e38, "float32"))


def slightly_off(item: Store):
    return item.value * const(1.0000002, "float32")


def wrong_when_large(item: Store):
    above = Binary("<", const(1e6, "float32"), item.value)
    below = Binary("<", item.value, const(1e20, "float32"))
    return Select(Binary("and", above, below), -item.value, item.value)


def nan_read_as_zero(func):
    class Reads(Mutator):
        def visit_Load(self, item: Load):
            if item.buffer.name != "A":
                return item
            return Select(Binary("==", item, item), item, const(0, item.dtype))

    return Reads().visit(func)


def dropped_guard(func):
    class Drop(Mutator):
        def visit_Block(self, item: Block) -> Block:
            return replace(item, predicate=None)

    return Drop().visit(func)


def ill_formed(func):
    loop = find_loop(func, "i").stmt
    return replace(func, body=replace(loop, var=Var("elsewhere")))


def raising(func):
    return func.no_such_field


def last_store_lost(func):
    return replace(func, body=func.body.stmts[0])


def reversed_reads(func):
    """Right for one element only."""

    class Reverse(Mutator):
        def visit_Load(self, item: Load) -> Load:
            size = item.buffer.shape[0]
            return replace(item, indices=(size - 1 - item.indices[0], *item.indices[1:]))

    return Reverse().visit(func)


@pytest.mark.parametrize(
    ("rule", "mod", "words"),
    [
        (lies(nan_to_zero), scale(10), ["nan", "special inputs"]),
        (lies(inf_to_largest), scale(10), ["inf", "special inputs"]),
        (lies(without_sign_of_zero), scale(10), ["-0.0", "special inputs"]),
        (lies(slightly_off), scale(10), ["C["]),
        (lies(wrong_when_large), scale(10), ["large inputs"]),
        (nan_read_as_zero, matmul(4, 4, 4), ["special inputs"]),
        (last_store_lost, Chain, ["C[0]"]),
        (reversed_reads, scale(10), ["C["]),
        (ill_formed, scale(10), ["outside its loop"]),
        (raising, scale(10), ["failed by itself", "no_such_field"]),
        (reversed_reads, scale(1_000_000), ["C["]),
        (nan_read_as_zero, matmul(512, 512, 512), ["special inputs"]),
        (raising, matmul(512, 512, 512), ["no_such_field"]),
    ],
    ids=range(13),
)
def test_a_broken_primitive_is_reported_as_our_fault(monkeypatch, rule, mod, words):
    monkeypatch.setitem(PRIMITIVES, "broken", rule)
    error = refuses("E199", lambda: mlc.Schedule(mod).apply("broken"), "broken()", "trace:", *words)
    assert '["broken", {}]' in error.reproducer.trace
    with pytest.raises(mlc.ScheduleError, match="E199"):
        again = mlc.parse(error.reproducer.program)
        mlc.Schedule.replay(again, error.reproducer.trace, error.reproducer.func)


def test_a_dropped_guard_is_caught(monkeypatch):
    """Only steps after which a guard is there can lose it."""
    monkeypatch.setitem(PRIMITIVES, "broken", dropped_guard)
    sch = mlc.Schedule(scale(10)).split("i", [None, 4])
    refuses("E199", lambda: sch.apply("broken"), "leaves its extent", "i_0=2")


def test_the_exception_of_a_primitive_is_chained(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, "broken", raising)
    for check in (True, False):
        sch = mlc.Schedule(Chain, check=check).split("i", [None, 5])
        error = refuses("E199", lambda sch=sch: sch.apply("broken"), "failed by itself")
        assert isinstance(error.__cause__, AttributeError)
        assert [name for name, _ in mlc.Trace.from_json(error.reproducer.trace)] == [
            "split",
            "broken",
        ]


def test_a_reproducer_is_a_script(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, "broken", last_store_lost)
    error = refuses("E199", lambda: mlc.Schedule(Chain).apply("broken"))
    with pytest.raises(mlc.ScheduleError, match="broke the program"):
        exec(str(error.reproducer), {})
    assert '"program"' in error.reproducer.to_json()


def test_check_off_compares_nothing(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, "broken", last_store_lost)
    sch = mlc.Schedule(Chain, check=False).apply("broken")
    assert sch.blocks() == ["Y"] and sch.checked == "not checked"


def test_what_only_a_smaller_program_shows(monkeypatch):
    """A fault in tails, at sizes that are never run."""

    def wrong_tail(func, loop: str, factor: int):
        new = PRIMITIVES["split"](func, loop, (None, factor))
        return dropped_guard(new) if factor > 2 else lies(nan_to_zero)(new)

    monkeypatch.setitem(PRIMITIVES, "wrong_tail", wrong_tail)
    refuses("E199", lambda: mlc.Schedule(scale(10**6 + 1)).apply("wrong_tail", "i", 2), "nan")


def test_sums_may_be_taken_in_another_order():
    sch = mlc.Schedule(matmul(6, 6, 30)).split("k", [None, 5]).reorder("k_1", "k_0")
    assert sch.checked == "compared"
    softly = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((40,), "float16"), C: T.Buffer((1,), "float16")):
    for k in range(40):
        with T.block("C"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(40, k)
            with T.init():
                C[vi] = T.float16(0)
            C[vi] = C[vi] + (T.exp(A[vk]) - T.exp(A[39 - vk]))
""")
    sch = mlc.Schedule(softly).split("k", [None, 5]).reorder("k_1", "k_0")
    assert sch.checked == "compared"


def test_cancelling_sums_are_told_from_faults():
    """The rest of a sum after cancelling is all rounding; in 64 bits it agrees."""
    mod = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((1,), "float32")):
    for k in range(32):
        with T.block("C"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(32, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + (T.sin(A[vk]) - T.sin(A[31 - vk]))
""")
    assert mlc.Schedule(mod).split("k", [None, 4]).reorder("k_1", "k_0").checked == "compared"


def test_a_program_that_fails_by_itself_is_not_compared():
    failing = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] // (A[vi] - A[vi])
""")
    sch = mlc.Schedule(failing).split("i", [None, 2])
    assert sch.loops("C") == ["i_0", "i_1"] and sch.checked == "verified only"


def test_large_programs_are_compared_at_smaller_sizes():
    sch = mlc.Schedule(matmul(1024, 1000, 777))
    assert sch.checked == "verified only"
    sch = sch.split("i", [None, 64]).split("j", [None, 48]).split("i_1", [None, 8])
    assert sch.checked.startswith("compared at A (")
    sch = sch.reorder("i_0", "j_0", "k", "i_1_0", "i_1_1", "j_1").vectorize("j_1")
    assert sch.checked.startswith("compared at A (")


def test_what_cannot_be_made_smaller_is_verified_only():
    sevens = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((7, 7, 7, 7, 7, 7), "int32"), C: T.Buffer((7, 7, 7, 7, 7, 7), "int32")):
    for a, b, c, d, e, f in T.grid(7, 7, 7, 7, 7, 7):
        with T.block("C"):
            va, vb, vc, vd, ve, vf = T.axis.remap("SSSSSS", [a, b, c, d, e, f])
            C[va, vb, vc, vd, ve, vf] = A[va, vb, vc, vd, ve, vf] + 1
""")
    sch = mlc.Schedule(sevens).split("f", [None, 2])
    assert sch.checked == "verified only"


def test_sizes_shrink_alike():
    for strength in (2, 3, 4, 6, 12):
        assert shrunk(64 * 48, strength) <= shrunk(64, strength) * shrunk(48, strength)
        for size, factor in ((1024, 64), (96, 12), (224, 7), (3072, 768)):
            assert shrunk(size, strength) % shrunk(factor, strength) == 0
        assert shrunk(1009, strength) == 7 and shrunk(1, strength) == 1
    small = smaller(matmul(1024, 1024, 1024)["main"], 4)
    assert small is not None and cost(small) <= BUDGET


def test_inputs_hold_specials_and_indices_stay_in_range():
    mod = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), N: T.Buffer((64,), "int32"), C: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = A[N[vi]]
""")
    a, n, _ = inputs(mod["main"], "special")
    assert np.isnan(a).any() or np.isinf(a).any()
    for kind in ("ordinary", "special", "positive", "large"):
        n = inputs(mod["main"], kind)[1]
        assert n.min() >= 0 and n.max() < 64
    assert mlc.Schedule(mod).split("i", [None, 5]).checked == "compared"


def test_steps_that_keep_the_order_exist():
    assert not KEEPS_ORDER - set(PRIMITIVES)
    sch = mlc.Schedule(MatmulRelu).split("k", [None, 4])
    assert find_block(sch.func, "Y") and sch.checked == "compared"
