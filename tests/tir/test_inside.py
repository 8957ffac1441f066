"""Accesses stay inside their buffers, whatever the size: what is not proved is refused."""

import random
import types
from functools import reduce

import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import Block, For, Seq
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.solver import Inequality, Undecided, solution
from minimlc.loops.values.node import replace
from tests.helpers import refuses

HEAD = """
@T.prim_func
def main(A: T.Buffer(({a},), "int8"), B: T.Buffer(({b},), "int8")):
"""


def accepted(text: str) -> bool:
    try:
        mlc.verify(mlc.parse(text))
    except mlc.VerifyError as error:
        assert error.code in ("E106", "E107"), error
        assert error.example or "not known" in str(error)
        return False
    return True


def program(n: int, loops: str, store: str, a: int | None = None, b: int | None = None) -> str:
    """A function over A of `a` and B of `b` elements (n each), with the store in its loops."""
    text = HEAD.format(a=n if a is None else a, b=n if b is None else b)
    lines = [*loops.format(n=n, m=n // 8).split("\n"), store.format(n=n, m=n // 8)]
    return text + "".join("    " * (k + 1) + line + "\n" for k, line in enumerate(lines))


# Loops, the statement, and how much larger than n the arrays must be: with one element less in
# either of them, one corner is outside.
SHAPES = {
    "shift": ("for i in range({n} - 3)", "B[i + 3] = A[i + 3]", 0),
    "reversed": ("for i in range({n})", "B[{n} - 1 - i] = A[{n} - 1 - i]", 0),
    "strided": ("for i in range({n} // 2)", "B[2 * i + 1] = A[2 * i + 1]", 0),
    "tiles": ("for i, j in T.grid({m}, 8)", "B[i * 8 + j] = A[i * 8 + j]", 0),
    "guarded tiles": (
        "for i, j in T.grid({n} // 7 + 1, 7)\nif i * 7 + j < {n}",
        "B[i * 7 + j] = A[i * 7 + j]",
        0,
    ),
    "triangle": ("for i in range({n})\nfor j in range(i + 1)", "B[j] = A[j]", 0),
    "diagonal": (
        "for i, j in T.grid({n}, {n})\nif i + j < {n} + 5",
        "B[i + j] = A[i + j]",
        5,
    ),
    "clamped": ("for i in range({n})", "B[T.min(i + 9, {n} - 1)] = A[T.max(i, {n} - 1)]", 0),
    "quotient": (
        "for i in range({n} * 4)",
        "B[i // 4] = A[i // 16 * 4 + i // 4 % 4]",
        0,
    ),
    "modular": ("for i in range({n})", "B[(i + 5) % {n}] = A[(i + 5) % {n}]", 0),
    "window": ("for i, k in T.grid({n} - 4, 5)", "B[i + k] = A[i + k]", 0),
    "last tile": (
        "for i in range({n} // 16 + 1)\nfor j in range(T.min(16, {n} - i * 16))",
        "B[i * 16 + j] = A[i * 16 + j]",
        0,
    ),
    "else": (
        "for i in range({n} * 2)\nif i >= {n}",
        "B[i - {n}] = A[i - {n}]",
        0,
    ),
    "two conditions": (
        "for i in range({n} * 2)\nif i >= 7 and i < {n} + 7",
        "B[i - 7] = A[i - 7]",
        0,
    ),
    "either": (
        "for i in range({n} * 2)\nif not (i < 7 or i >= {n} + 7)",
        "B[i - 7] = A[i - 7]",
        0,
    ),
    "near either end": (
        "for i in range({n} * 2)\nif i < 7 or i >= {n} + 7",
        "B[T.min(i, {n} * 2 - 1 - i)] = A[T.min(i, {n} * 2 - 1 - i)]",
        -7,
    ),
    "not in both": (
        "for i in range({n} * 2)\nif not (i >= 7 and i < {n} + 7)",
        "B[T.min(i, {n} * 2 - 1 - i)] = A[T.min(i, {n} * 2 - 1 - i)]",
        -7,
    ),
    "all but the first": ("for i in range({n})\nif i != 0", "B[i] = A[i] + A[i - 1]", 0),
    "all but the last": (
        "for i in range({n})\nif not (i == {n} - 1)",
        "B[i + 1] = A[i + 1]",
        0,
    ),
    "all but both ends": (
        "for i in range({n})\nif i != 0 and i != {n} - 1",
        "B[i + 1] = A[i - 1] + A[i + 1]",
        0,
    ),
    "not the last of four": ("for i in range({n})\nif i % 4 != 3", "B[i + 1] = A[i + 1]", 0),
    "reflected": (
        "for i in range({n} + 3)",
        "B[T.Select(i < 3, 3 - i, i - 3)] = A[T.Select(i < 3, 3 - i, i - 3)]",
        0,
    ),
    "mixed radix": (
        "for i, j, k in T.grid({n} // 64, 8, 8)",
        "B[(i * 8 + j) * 8 + 7 - k] = A[((i * 8 + j) * 8 + k) // 2 * 2 + k % 2]",
        0,
    ),
    "nested quotient": ("for i in range({n})", "B[i // 3 // 5 * 15 + i % 15] = A[i]", 0),
}
SIZES = (2**10, 2**17, 2**18, 2**20, 2**31)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_exactly_what_leaves_a_buffer_in_one_corner_is_refused(shape: str, size: int):
    loops, store, more = SHAPES[shape]
    loops = loops.replace("\n", ":\n") + ":"
    n = size + more
    assert accepted(program(size, loops, store, n, n))
    assert not accepted(program(size, loops, store, n - 1, n))
    assert not accepted(program(size, loops, store, n, n - 1))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("store", ["B[i - 1] = A[i]", "B[i] = A[i - 1]", "B[i // 2 - 1] = A[i]"])
def test_what_is_below_a_buffer_is_refused(size: int, store: str):
    assert not accepted(program(size, "for i in range({n}):", store))


@pytest.mark.parametrize("size", [2**10, 2**20, 2**31])
def test_the_example_is_a_corner(size: int):
    text = program(size, "for i, j in T.grid({m}, 8):", "B[i * 8 + j + 1] = A[0]")
    with pytest.raises(mlc.VerifyError) as caught:
        mlc.verify(mlc.parse(text))
    assert caught.value.example == f"at i={size // 8 - 1}, j=7: B[{size}]"


def test_the_columns_of_a_product_with_a_larger_matrix_are_refused():
    x, w = mlc.te.placeholder((4, 784), name="x"), mlc.te.placeholder((100, 700), name="w")
    k = mlc.te.reduce_axis((0, 784), "k")
    with pytest.raises(mlc.VerifyError, match="w is read out of range in dimension 1"):
        y = mlc.te.compute((4, 100), lambda i, j: mlc.te.sum(x[i, k] * w[j, k], k), name="y")
        mlc.verify(mlc.te.create_prim_func([x, w, y]))


HASHED = """
@T.prim_func
def main(A: T.Buffer((3,), "int32"), C: T.Buffer(({n},), "int32")):
    for i in range(64):
        with T.block("a"):
            vi = T.axis.opaque(64, i)
            if vi * {factor} < {limit}:
                C[vi{rest}] = A[vi % 3]
"""


def test_a_condition_that_wraps_bounds_nothing():
    wraps = {"factor": 2**62, "limit": 5}
    assert accepted(HASHED.format(n=3, rest=" % 3", **wraps))
    assert not accepted(HASHED.format(n=2, rest="", **wraps))
    assert not accepted(HASHED.format(n=60, rest="", **wraps))
    assert accepted(HASHED.format(n=3, rest="", factor=2, limit=5))
    assert not accepted(HASHED.format(n=2, rest="", factor=2, limit=5))


def test_what_depends_on_data_is_not_decided_but_where_it_surely_leaves():
    text = """
@T.prim_func
def main(N: T.Buffer((8,), "int64"), A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = A[N[i], {index}]
"""
    assert accepted(text.format(index="i // 2"))
    assert not accepted(text.format(index="i // 2 + 1"))


@pytest.mark.parametrize(("size", "right"), [(3, False), (4, True), (5, True)])
def test_an_index_that_reads_data_is_left_to_it_where_it_may_be_inside(size: int, right: bool):
    text = """
@T.prim_func
def main(A: T.Buffer((SIZE,), "int64"), D: T.Buffer((4,), "int64")):
    for i in range(4):
        with T.block("B"):
            b = T.axis.opaque(5, T.if_then_else(D[i] > 0, 4, 3))
            A[b] = 1
"""
    assert accepted(text.replace("SIZE", str(size))) == right


def test_a_loop_whose_extent_is_said_by_an_iter():
    text = """
@T.prim_func
def main(A: T.Buffer((SIZE,), "int64"), C: T.Buffer((8,), "int64")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            for j in range(vi + 1):
                C[vi] = C[vi] + A[vi - j] + A[j]
"""
    assert accepted(text.replace("SIZE", "8"))
    assert not accepted(text.replace("SIZE", "7"))
    assert not accepted(text.replace("SIZE", "8").replace("vi - j]", "vi - j - 1]"))
    sch = mlc.Schedule(mlc.parse(text.replace("SIZE", "8"))).parallel("i")
    refuses("E104", lambda: sch.parallel("j"))


def test_a_block_is_in_its_extents_where_a_condition_fails():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "int64")):
    for i in range(4):
        if i >= 3:
            A[0] = 1
        else:
            with T.block("B"):
                b = T.axis.opaque(SIZE, i)
                A[b] = 1
"""
    assert accepted(text.replace("SIZE", "3"))
    assert not accepted(text.replace("SIZE", "2"))


def test_a_condition_on_data_does_not_excuse_an_index_without():
    text = """
@T.prim_func
def main(N: T.Buffer((1,), "int64"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        if {condition}:
            C[i + 1] = 1
"""
    assert not accepted(text.format(condition="N[0] > 0"))
    assert not accepted(text.format(condition="i < N[0]"))
    assert accepted(text.format(condition="i < N[0] and i < 7"))


CHANGED = """
@T.prim_func
def main(N: T.Buffer((1,), "int64"), C: T.Buffer((5,), "int32")):
{body}
"""
LEAVES = {
    "between two conditions": """
    for i in range(100):
        if N[0] <= 5:
            N[0] = 300
            if i < N[0]:
                C[i] = T.int32(1)
""",
    "inside the loop that it ends": """
    for i in range(N[0]):
        N[0] = 3
        if N[0] <= 5:
            C[i] = T.int32(1)
""",
    "in a block of its own": """
    for i in range(N[0]):
        with T.block("n"):
            N[0] = 3
        with T.block("c"):
            vi = T.axis.opaque(5, i)
            T.where(N[0] <= 5)
            C[vi] = T.int32(1)
""",
    "to what contradicts": """
    for i in range(100):
        if N[0] < 3:
            N[0] = 300
            if N[0] > 4:
                C[i] = T.int32(1)
""",
}


@pytest.mark.parametrize("body", LEAVES.values(), ids=LEAVES)
def test_data_that_changes_after_a_condition_has_read_it_bounds_nothing(body: str):
    assert not accepted(CHANGED.format(body=body))


def test_data_that_stays_bounds_what_is_compared_with_it():
    kept = "for i in range(N[0]):\n        if N[0] <= 5:\n            C[i] = T.int32(1)"
    assert accepted(CHANGED.format(body=f"    {kept}"))


def test_a_block_is_looked_at_anew_where_what_ends_its_loop_begins_to_change():
    body = LEAVES["in a block of its own"].replace("N[0] = 3", "M[0] = 3")
    params = ', M: T.Buffer((1,), "int64"), C'
    func = mlc.parse(CHANGED.format(body=body).replace(", C", params))["main"]
    mlc.verify(mlc.IRModule({"main": func}))
    loop = func.body
    assert isinstance(loop, For) and isinstance(loop.body, Seq)
    writer, block = loop.body.stmts
    assert isinstance(writer, Block)
    writer = replace(writer, body=replace(writer.body, buffer=func.params[0]))
    changed = replace(func, body=replace(loop, body=Seq((writer, block))))
    refuses("E106", lambda: mlc.verify(mlc.IRModule({"main": changed})))


LONGER = """
@T.prim_func
def main(C: T.Buffer((4,), "int32")):
    for i in range({extent}):
        for j in range({inner}):
            if j > {last}:
                C[{index}] = 1
"""


@pytest.mark.parametrize("extent, inner", [(1, 2**63 - 1), (2**63 - 1, "i"), (1, 2**62 + 9)])
def test_a_loop_of_more_iterations_than_half_the_indices(extent, inner):
    kept = mlc.parse(LONGER.format(extent=extent, inner=inner, last=2**62, index=3))
    assert "C[3] = T.int32(1)" in lower(kept["main"]).script()
    leaves = LONGER.format(extent=extent, inner=inner, last=2**62, index=5)
    refuses("E107", lambda: mlc.verify(mlc.parse(leaves)))


IN_INIT = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                for j in range(2):
                    with T.block("I"):
                        vj = T.axis.opaque(2, {value})
                        C[vi] = 0
            C[vi] = {update}
"""


def in_init(value: str, update: str = "C[vi] + A[vi, vk]") -> mlc.IRModule:
    return mlc.parse(IN_INIT.format(value=value, update=update))


def test_a_block_in_an_init_is_in_its_extents_where_the_init_runs():
    mlc.verify(in_init("vk * 5"))
    refuses("E106", lambda: mlc.verify(in_init("j + 1")), "leaves")


def test_a_block_in_an_init_makes_nothing_a_reduction():
    refuses("E103", lambda: mlc.verify(in_init("j", "A[vi, vk] - C[vi]")), "commutative")


def row(constant: int, **terms: int) -> Inequality:
    return Inequality(terms, constant)


def test_inequalities_without_a_solution():
    assert solution([row(-3, x=1), row(2, x=-1)]) is None
    assert solution([row(-1, x=2), row(1, x=-2)]) is None  # 1 <= 2x <= 1
    between = [row(0, x=1), row(7, x=-1), row(0, y=1), row(7, y=-1)]
    assert solution([*between, row(-15, x=1, y=1)]) is None
    assert solution([row(-1)]) is None


def test_a_solution_fulfils_all_inequalities():
    system = [row(0, x=1), row(7, x=-1), row(-20, x=2, y=3), row(5, y=-1), row(0, x=1, y=-1)]
    values = solution(system)
    assert values is not None
    for one in system:
        assert sum(c * values[name] for name, c in one.terms.items()) + one.constant >= 0
    assert solution([]) == {}


def test_a_question_that_fractions_alone_answer_stays_open():
    odd = [row(-1, x=3, y=-2, z=-2), row(1, x=-3, y=2, z=2), row(0, x=1, y=-3), row(0, x=-1, y=3)]
    with pytest.raises(Undecided):  # x = 3y, 9y = 2y + 2z + 1
        solution([*odd, row(0, y=1), row(1, y=-1), row(0, z=1), row(3, z=-1), row(-3, y=2, z=1)])


def test_a_system_of_many_unknowns_is_given_up_in_time():
    rows = [row(5, **{f"x{a}": 1, f"x{b}": -1}) for a in range(40) for b in range(40) if a != b]
    names = [f"x{a}" for a in range(40)]
    total = reduce(lambda terms, name: {**terms, name: 1}, names, {})
    with pytest.raises(Undecided):
        solution([*rows, row(-(10**6), **total), row(10**5, **dict.fromkeys(names, -1))])


def test_elements_that_meet_because_an_index_wraps_are_found():
    text = """
@T.prim_func
def main(C: T.Buffer((4,), "int64")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.{kind}(8, i)
            C[(vi * 4611686018427387904) // 4611686018427387904 + 2] = vi
"""
    with pytest.raises(mlc.VerifyError, match="vi=0 and vi=4 both write"):
        mlc.verify(mlc.parse(text.format(kind="spatial")))
    mod = mlc.parse(text.format(kind="opaque"))
    mlc.verify(mod)
    with pytest.raises(mlc.ScheduleError):
        mlc.Schedule(mod).parallel("i")


@pytest.mark.parametrize("shape", ["(2**62,)", "(2**40, 2**40)", "(0, 2**62)", "(2**46, 1)"])
def test_a_buffer_has_as_many_bytes_as_a_program_can_address(shape: str):
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    X = T.alloc_buffer({shape}, "float32")
    for i in range(8):
        A[i] = T.float32(1)
"""
    with pytest.raises(mlc.VerifyError) as caught:
        mlc.verify(mlc.parse(text))
    assert caught.value.code == "E135"
    mlc.verify(mlc.parse(text.replace(shape, "(2**45,)")))


def condition(rng: random.Random, depth: int = 2) -> str:
    """A random condition on i and j."""
    if depth == 0:
        a, b = rng.choice(["i", "j", "i + j", "i - j", "i % 3", "j // 2"]), rng.randrange(-2, 9)
        return f"({a} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"
    a, b = condition(rng, depth - 1), condition(rng, depth - 1)
    return rng.choice([f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"(not ({a} or {b}))"])


@pytest.mark.parametrize("seed", range(150))
def test_proofs_alone_decide_as_trying_all_iterations_does(seed, monkeypatch):
    """Nothing is tried for large extents; here nothing is tried at all."""
    monkeypatch.setattr("minimlc.loops.proofs.inside.points", lambda item: None)
    rng = random.Random(seed)
    for _ in range(4):
        guard, size = condition(rng), rng.randrange(2, 14)
        at = rng.choice(["i + j", "2 * i - j + 3", "T.min(i, 8 - j)", "j % 4"])
        text = program(size, f"for i, j in T.grid(6, 7):\nif {guard}:", f"B[{at}] = A[0]")
        names = {"T": types.SimpleNamespace(min=min)}
        every = [names | {"i": i, "j": j} for i in range(6) for j in range(7)]
        touched = [eval(at, at_one) for at_one in every if eval(guard, at_one)]
        assert accepted(text) == all(0 <= place < size for place in touched), text
