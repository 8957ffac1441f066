"""Results that are their input's memory, or parts of it: no step copies them."""

import random

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs.plan import plan
from minimlc.graphs.run import flatten
from minimlc.services.native.in_place import joined, views
from tests.deploy.test_memory import check

pytestmark = pytest.mark.many
op, R = mlc.op, mlc.script.R


def network(make, *shapes, dtype="float32"):
    bb = mlc.BlockBuilder()
    params = [mlc.Var(f"x{n}", R.Tensor(shape, dtype)) for n, shape in enumerate(shapes)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(make(bb, *params))
        bb.emit_func_output(out)
    return bb.get()


def pieces(bb, x, count, axis=0):
    parts = bb.emit(op.split(x, indices_or_sections=count, axis=axis))
    return [bb.emit(mlc.graphs.ir.nodes.TupleGetItem(parts, n)) for n in range(count)]


def steps_of(mod):
    lowered = mlc.run_passes(mod, mlc.passes.default_pipeline)
    planned = plan(lowered, "main", in_place=True)
    check(planned)
    return [step.callee for step in planned.steps]


def agrees(mod, *arrays):
    """In a build, in one whose functions the cache has, and by other targets."""
    expected = mlc.interpret(mod, "main", *arrays)
    for target in ("llvm", "llvm", "c"):
        got = mlc.build(mod, target)["main"](*arrays)
        for one, other in zip(flatten([got]), flatten([expected]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def some(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def summed(bb, x):
    """Ten rows, each added to a running value, and all of them once more at the end."""
    y = bb.emit(op.exp(x))
    rows = pieces(bb, y, 10)
    total = rows[0]
    for row in rows[1:]:
        total = bb.emit(op.softmax(bb.emit(op.add(total, row))))
    return op.add(total, bb.emit(op.sum(y)))


def test_rows_of_a_split_are_not_copied():
    mod = network(summed, (10, 64))
    assert not any("split" in name for name in steps_of(mod))
    agrees(mod, some(10, 64))


def test_memory_that_others_still_read_is_not_written():
    """Element-wise steps work in place; not on a row while the whole is read later, nor on the
    whole while a row is.
    """

    def make(bb, x):
        y = bb.emit(op.softmax(x))
        rows = pieces(bb, y, 10)
        changed = [bb.emit(op.softmax(bb.emit(op.exp(row)))) for row in rows]
        whole = bb.emit(op.softmax(bb.emit(op.tanh(y))))
        again = [bb.emit(op.add(a, b)) for a, b in zip(rows, changed, strict=True)]
        return op.add(bb.emit(op.concat(again, axis=0)), whole)

    agrees(network(make, (10, 64)), some(10, 64))


def test_parts_of_parts():
    def make(bb, x):
        y = bb.emit(op.softmax(x))
        halves = pieces(bb, bb.emit(op.reshape(y, shape=(2, 10, 64))), 2)
        flat = [bb.emit(op.reshape(half, shape=(10, 64))) for half in halves]
        rows = [row for half in flat for row in pieces(bb, half, 10)]
        total = rows[0]
        for row in rows[1:]:
            total = bb.emit(op.softmax(bb.emit(op.add(total, row))))
        return total

    mod = network(make, (20, 64))
    assert not any("split" in name for name in steps_of(mod))
    agrees(mod, some(20, 64))


@pytest.mark.parametrize(
    ("shape", "axis"), [((10, 60), 0), ((10, 60), 1), ((1, 10, 16), 1), ((10, 3), 0)]
)
def test_what_begins_on_no_cache_line_is_copied(shape, axis):
    def make(bb, x):
        rows = pieces(bb, bb.emit(op.softmax(x)), 10, axis)
        return op.concat([bb.emit(op.softmax(row)) for row in rows], axis=axis)

    mod = network(make, shape)
    assert any("split" in name for name in steps_of(mod)) is (shape != (1, 10, 16))
    agrees(mod, some(*shape))


def test_pieces_that_are_results_are_arrays_of_their_own():
    def make(bb, x):
        return mlc.graphs.ir.nodes.Tuple(tuple(pieces(bb, bb.emit(op.softmax(x)), 10)))

    agrees(network(make, (10, 64)), some(10, 64))


def test_pieces_of_arguments_are_copied():
    def make(bb, x):
        rows = pieces(bb, x, 10)
        return op.concat([bb.emit(op.softmax(row)) for row in rows], axis=0)

    agrees(network(make, (10, 64)), some(10, 64))


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_of_pieces(seed):
    rng = random.Random(seed)

    def make(bb, x):
        values = [bb.emit(op.softmax(x))]
        for _ in range(14):
            value = rng.choice(values)
            match rng.randrange(7):
                case 0:
                    values += pieces(bb, value, 2) if value.type.shape[0] % 2 == 0 else []
                case 1:
                    rows, columns = value.type.shape
                    values.append(bb.emit(op.reshape(value, shape=(rows, columns))))
                case 2:
                    values.append(bb.emit(op.exp(value)))
                case 3:
                    values.append(bb.emit(op.softmax(value)))
                case 4:
                    alike = [v for v in values if v.type.shape[1] == value.type.shape[1]]
                    values.append(bb.emit(op.concat([value, rng.choice(alike)], axis=0)))
                case 5:
                    values.append(bb.emit(rng.choice([op.tril, op.triu])(value)))
                case _:
                    alike = [v for v in values if v.type.shape == value.type.shape]
                    values.append(bb.emit(op.add(value, rng.choice(alike))))
        sums = [bb.emit(op.mean(value)) for value in values]
        return op.stack(sums, axis=0)

    mod = network(make, (16, 32))
    steps_of(mod)
    agrees(mod, some(16, 32))


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_a_triangle_is_no_part(name):
    """The rest of it is zero, and read from nowhere."""
    triangle = getattr(op, name)

    def of_one(bb, x):
        y = bb.emit(op.softmax(x))
        return op.add(bb.emit(op.softmax(bb.emit(triangle(y)))), y)

    def of_two(bb, x):
        rows = [bb.emit(op.softmax(x)), bb.emit(op.exp(x))]
        return triangle(bb.emit(op.concat(rows, axis=0)))

    for make in (of_one, of_two):
        agrees(network(make, (16, 16)), some(16, 16))


def test_a_concatenation_that_is_split():
    def make(bb, x):
        a = bb.emit(op.softmax(x))
        b = bb.emit(op.softmax(bb.emit(op.softmax(a))))
        halves = pieces(bb, bb.emit(op.concat([a, b], axis=0)), 2)
        once = [bb.emit(op.softmax(half)) for half in halves]
        return op.concat([*once, *(bb.emit(op.softmax(each)) for each in once)], axis=0)

    mod = network(make, (2, 64))
    agrees(mod, some(2, 64))
    planned = mlc.build(mod).plan("main")
    assert planned.planned >= planned.least > 0 and "concat" not in str(planned)


COPY = """
@T.prim_func
def main(X: T.Buffer((8, 16), "float32"), Y: T.Buffer((4, 16), "{dtype}")):
    for i, j in T.grid({extent}, 16):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[{to}] = {value}
"""
PLAIN = {"dtype": "float32", "extent": 4, "to": "vi, vj", "value": "X[vi + 3, vj]"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, (48,)),
        ({"value": "X[vi, vj]"}, (0,)),
        ({"value": "X[vi * 2, vj]"}, ()),
        ({"value": "X[3 - vi, vj]"}, ()),
        ({"value": "X[vi, 15 - vj]"}, ()),
        ({"value": "X[vi, vj] + X[vi, vj]"}, ()),
        ({"value": "-X[vi, vj]"}, ()),
        ({"value": "T.cast(X[vi, vj], 'float64')", "dtype": "float64"}, ()),
        ({"extent": 3}, ()),
        ({"to": "3 - vi, vj", "value": "X[3 - vi, vj]"}, (0,)),
        ({"value": "Y[vi, vj]"}, ()),
    ],
)
def test_what_is_a_part_of_a_parameter(change, expected):
    assert views(mlc.parse(COPY.format(**{**PLAIN, **change}))["main"]) == expected


# Concatenations


def rows_of(x, bb, count=10):
    return [bb.emit(op.softmax(row)) for row in pieces(bb, bb.emit(op.softmax(x)), count)]


@pytest.mark.parametrize("more", [False, True])
def test_rows_are_written_where_a_concatenation_has_them(more):
    """As the result, or as memory that is read once more."""

    def make(bb, x):
        rows = rows_of(x, bb)
        whole = op.concat([bb.emit(op.softmax(bb.emit(op.add(a, rows[0])))) for a in rows], axis=0)
        return op.softmax(bb.emit(whole)) if more else whole

    mod = network(make, (10, 64))
    assert not any("concat" in name for name in steps_of(mod))
    agrees(mod, some(10, 64))


def test_what_is_joined_may_be_read_elsewhere():
    def make(bb, x):
        rows = rows_of(x, bb)
        whole = bb.emit(op.concat(rows, axis=0))
        total = rows[0]
        for row in rows[1:]:
            total = bb.emit(op.softmax(bb.emit(op.add(total, bb.emit(op.exp(row))))))
        return op.add(bb.emit(op.softmax(whole)), total)

    agrees(network(make, (10, 64)), some(10, 64))


@pytest.mark.parametrize(
    "which", ["twice", "argument", "two", "nested", "pieces", "result", "columns"]
)
def test_what_can_be_no_part_is_copied(which):
    def make(bb, x):
        rows = rows_of(x, bb)
        if which == "twice":
            return op.concat([*rows, rows[0]], axis=0)
        if which == "argument":
            return op.concat([*rows, x], axis=0)
        if which == "two":
            both = [bb.emit(op.concat(part, axis=0)) for part in (rows, rows[::-1])]
            return op.add(bb.emit(op.softmax(both[0])), bb.emit(op.softmax(both[1])))
        if which == "nested":
            parts = [bb.emit(op.concat(rows[n : n + 5], axis=0)) for n in (0, 5)]
            return op.softmax(bb.emit(op.concat(parts, axis=0)))
        if which == "pieces":
            return op.softmax(bb.emit(op.concat(pieces(bb, bb.emit(op.softmax(x)), 10), axis=0)))
        if which == "result":
            whole = bb.emit(op.concat(rows, axis=0))
            return mlc.graphs.ir.nodes.Tuple((whole, rows[3]))
        return op.softmax(bb.emit(op.concat(rows, axis=1)))

    mod = network(make, (10, 64))
    steps_of(mod)
    agrees(mod, some(10, 64))


CHOICE = """
@I.ir_module
class Choice:
    @R.function
    def rows(x: R.Tensor((1, 64), "float32")):
        a = R.softmax(x)
        b = R.softmax(R.exp(a))
        return R.concat((a, b), axis=0)

    @R.function
    def turned(x: R.Tensor((1, 64), "float32")):
        a = R.softmax(x)
        b = R.softmax(R.exp(a))
        return R.concat((b, a), axis=0)

    @R.function
    def main(p: R.Tensor((), "bool"), x: R.Tensor((1, 64), "float32")):
        r = R.cond(p, rows, turned, (x,))
        return R.softmax(r)
"""


@pytest.mark.parametrize("p", [True, False])
def test_functions_of_a_condition_join_their_results(p):
    agrees(mlc.parse(CHOICE), np.array(p), some(1, 64))


JOIN = """
@T.prim_func
def main(A: T.Buffer((2, 16), "float32"), B: T.Buffer((3, 16), "float32"),
         C: T.Buffer((5, 16), "float32")):
    for i, j in T.grid(5, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {value}
"""


ROWS_OF_B = "T.if_then_else(vi < 4, B[vi - 2, vj], T.float32(0))"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("T.if_then_else(vi < 2, A[vi, vj], B[vi - 2, vj])", (0, 32)),
        ("T.if_then_else(vi >= 2, B[vi - 2, vj], A[vi, vj])", (0, 32)),
        ("T.if_then_else(vi < 3, B[vi, vj], A[vi - 3, vj])", ()),
        ("T.if_then_else(vi < 2, A[1 - vi, vj], B[vi - 2, vj])", ()),
        ("T.if_then_else(vi < 2, A[vi, vj], B[vi - 2, 15 - vj])", ()),
        ("T.if_then_else(vi < 2, A[vi, vj], -B[vi - 2, vj])", ()),
        ("T.if_then_else(vi < 2, A[vi, vj], T.float32(0))", ()),
        (f"T.if_then_else(vi < 2, A[vi, vj], {ROWS_OF_B})", ()),
        ("T.if_then_else(A[0, 0] < 2.0, A[vi % 2, vj], B[vi % 3, vj])", ()),
    ],
)
def test_what_is_joined(value, expected):
    assert joined(mlc.parse(JOIN.format(value=value))["main"]) == expected
