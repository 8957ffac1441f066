"""Walks over statements forget nothing, and keep the order of the program."""

import minimlc as mlc
from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.walks import blocks_in, buffers_in, inner_stmts, loops_in, statements_in
from minimlc.loops.values.node import Node, nodes_of, walk

OWN_BUFFER = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.alloc_buffer((1,), "float32") as Y:
                for j in range(1):
                    with T.block("Y"):
                        vi = T.axis.opaque(8, i)
                        Y[0] = A[vi]
                if i < 7:
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vi] = Y[0]
                else:
                    with T.block("last"):
                        vi = T.axis.spatial(8, i)
                        B[vi] = -Y[0]
                        while B[vi] > 9.0:
                            B[vi] = B[vi] - 1.0
""")


def test_the_nodes_of_a_class_come_in_the_order_of_a_walk():
    for kind in (Node, tir.Expr, tir.Stmt, tir.Block, tir.Load, tir.Var, tir.Buffer):
        for func in (OWN_BUFFER["main"], OWN_BUFFER["main"].body):
            parts = [part for part in walk(func) if isinstance(part, kind)]
            assert nodes_of(func, kind) == parts
            assert parts
    assert nodes_of(OWN_BUFFER["main"], tir.Cast) == []
    either = [part for part in walk(OWN_BUFFER["main"]) if isinstance(part, tir.Load | tir.Store)]
    assert nodes_of(OWN_BUFFER["main"], tir.Load | tir.Store) == either


def test_nodes_of_a_class_that_is_not_decorated_are_found():
    class Marked(tir.Const):
        """A constant of its own kind."""

    class Bare(tir.Expr):
        _fields = ()
        _values = staticmethod(lambda item: ())

    bare = Bare()
    bare.__post_init__()
    for item in (Marked(1, "int64"), bare):
        whole = tir.Seq((tir.Store(tir.Buffer("A", (), "int64"), (), item),))
        for kind in (type(item), tir.Expr, Node):
            assert item in nodes_of(whole, kind)


def test_every_statement_is_walked_over_in_program_order():
    func = OWN_BUFFER["main"]
    kinds = [type(part).__name__ for part in statements_in(func)]
    assert kinds == (
        [
            "For",
            "Alloc",
            "Seq",
            "For",
            "Block",
            "Store",
            "IfThenElse",
            "Block",
            "Store",
            "Block",
            "Seq",
            "Store",
            "While",
            "Store",
        ]
    )
    assert list(statements_in(func.body)) == list(statements_in(func))
    assert [block.name for block in blocks_in(func)] == ["Y", "B", "last"]
    assert [loop.var.name for loop in loops_in(func)] == ["i", "j"]
    assert [buffer.name for buffer in buffers_in(func)] == ["Y"]


def test_what_is_inside_each_kind_of_statement():
    func = OWN_BUFFER["main"]
    kinds = {type(part).__name__ for part in statements_in(func)}
    grammar = [kind for kind in tir.Stmt.__subclasses__() if kind.__module__ == tir.__name__]
    assert kinds == {kind.__name__ for kind in grammar}
    for part in statements_in(func):
        direct = {id(inner) for inner in inner_stmts(part)}
        deeper = {id(far) for inner in inner_stmts(part) for far in statements_in(inner)}
        assert deeper == {id(far) for far in statements_in(part)} - {id(part)}
        assert direct <= deeper
    assert inner_stmts(tir.Var("i")) == ()


def test_a_schedule_finds_blocks_beside_a_buffer_of_their_own():
    sch = mlc.Schedule(OWN_BUFFER)
    assert sch.blocks() == ["Y", "B", "last"]
    assert sch.loops("Y") == ["i", "j"]
    assert sch.loops("last") == ["i"]
    assert sch.split("j", factors=[1, None]).loops("Y") == ["i", "j_0", "j_1"]
