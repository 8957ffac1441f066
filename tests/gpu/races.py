"""Kernels with one mistake each, a race or a barrier that not all threads come to, and the programs
without it.

The programs are written as plain loops, which any compiler may take one by one. `launches` binds
those whose names begin with b to axes of blocks (bx, by), with t, s and u to axes of threads.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import minimlc as mlc
from minimlc.loops.ir.nodes import Expr, For, IfThenElse, PrimFunc, Seq, Stmt, Var, index
from minimlc.loops.values.node import Mutator, replace
from minimlc.targets.gpu.kernels import Barrier, Kernel, Launches, kernels

AXES = {"b": "blockIdx", "t": "threadIdx", "s": "threadIdx", "u": "threadIdx"}


class Planted(NamedTuple):
    """A mistake: in which program; what is in the error: its code, and the element's buffer."""

    name: str
    launches: Callable[[], Launches]
    code: str
    buffer: str


class _Bind(Mutator):
    """Binds loops by their names."""

    def visit_For(self, item: For) -> Stmt:
        item = self.visit_children(item)
        name = item.var.name
        if name[0] not in AXES or name[1:2] not in ("x", "y", "z"):
            return item
        return replace(item, kind="thread_binding", thread=f"{AXES[name[0]]}.{name[1]}")


class _Barriers(Mutator):
    """Puts something else in the place of a barrier, counted from 0."""

    def __init__(self, number: int, new: Callable[[Barrier], Stmt]):
        self.left = number
        self.new = new

    def visit_Barrier(self, item: Barrier) -> Stmt:
        self.left -= 1
        return self.new(item) if self.left == -1 else item


def bound(text: str) -> PrimFunc:
    """A program, bound by the names of its loops."""
    return _Bind().visit(mlc.parse(text)["main"])


def launches(text: str) -> Launches:
    """The kernels of a program; threads may race."""
    return kernels("main", bound(text), check=False)


def changed(text: str, number: int, new: Callable[[Kernel, Barrier], Stmt]) -> Launches:
    """With something else in the place of a barrier of the only kernel."""
    whole = launches(text)
    (kernel,) = whole.kernels
    edit = _Barriers(number, lambda barrier: new(kernel, barrier))
    body = edit.visit(kernel.body)
    assert edit.left < 0, "there is no such barrier"
    return whole._replace(kernels=(kernel._replace(body=body),))


def dropped(text: str, number: int) -> Launches:
    """Without a barrier."""
    return changed(text, number, lambda kernel, barrier: Seq(()))


def guarded(text: str, condition: Callable[[Expr], Expr]) -> Launches:
    """With a first barrier that only threads with certain numbers along x come to."""

    def new(kernel: Kernel, barrier: Barrier) -> Stmt:
        (axis,) = (axis for axis in kernel.axes if axis.name == "threadIdx.x")
        return IfThenElse(condition(axis.var), barrier)

    return changed(text, 0, new)


def repeated(text: str) -> Launches:
    """With a first barrier that a thread comes to as often as its number along x."""

    def new(kernel: Kernel, barrier: Barrier) -> Stmt:
        (axis,) = (axis for axis in kernel.axes if axis.name == "threadIdx.x")
        return For(Var("n"), axis.var + index(1), "serial", barrier)

    return changed(text, 0, new)


HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    X = T.alloc_buffer((32,), "float32", scope="shared")
    Y = T.alloc_buffer((32,), "float32", scope="shared")
    for bx in range(2):
"""
WINDOW = """
@T.prim_func
def main(A: T.Buffer((66,), "float32"), C: T.Buffer((64,), "float32")):
    X = T.alloc_buffer((34,), "float32", scope="shared")
    for bx in range(2):
        for tx in range(34):
            X[tx] = A[bx * 32 + tx]
        for sx in range(34):
            if sx < 32:
                C[bx * 32 + sx] = X[sx] + X[sx + 1] + X[sx + 2]
"""
REVERSED = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for sx in range(32):
            C[bx * 32 + sx] = X[31 - sx]
"""
)
TREE = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for k in range(5):
            for sx in range(32):
                if sx < 16 >> k:
                    X[sx] = X[sx] + X[sx + (16 >> k)]
        for ux in range(32):
            C[bx * 32 + ux] = X[0]
"""
)
SCAN = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for k in range(5):
            for sx in range(32):
                Y[sx] = X[sx]
                if sx >= 1 << k:
                    Y[sx] = X[sx] + X[T.max(sx - (1 << k), 0)]
            for ux in range(32):
                X[ux] = Y[ux]
        for tx in range(32):
            C[bx * 32 + tx] = X[tx]
"""
)
STENCIL = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for k in range(3):
            for sx in range(32):
                Y[sx] = X[(sx + 31) % 32] + X[(sx + 1) % 32]
            for ux in range(32):
                X[ux] = Y[(ux + 31) % 32] - Y[(ux + 1) % 32]
        for tx in range(32):
            C[bx * 32 + tx] = X[31 - tx]
"""
)
SOFTMAX = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for sx in range(32):
            if sx == 0:
                Y[0] = X[0]
                for k in range(31):
                    Y[0] = T.max(Y[0], X[k + 1])
        for ux in range(32):
            X[ux] = T.exp(X[ux] - Y[0])
        for tx in range(32):
            if tx == 0:
                Y[1] = X[0]
                for k in range(31):
                    Y[1] = Y[1] + X[k + 1]
        for sx in range(32):
            C[bx * 32 + sx] = X[sx] / Y[1]
"""
)
TRANSPOSE = """
@T.prim_func
def main(A: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    X = T.alloc_buffer((16, 17), "float32", scope="shared")
    for by in range(2):
        for bx in range(2):
            for ty in range(4):
                for tx in range(16):
                    for k in range(4):
                        X[k * 4 + ty, tx] = A[by * 16 + k * 4 + ty, bx * 16 + tx]
            for sy in range(4):
                for sx in range(16):
                    for k in range(4):
                        C[bx * 16 + k * 4 + sy, by * 16 + sx] = X[sx, k * 4 + sy]
"""
PRODUCT = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
         C: T.Buffer((16, 16), "float32")):
    X = T.alloc_buffer((8, 8), "float32", scope="shared")
    Y = T.alloc_buffer((8, 8), "float32", scope="shared")
    S = T.alloc_buffer((1,), "float32", scope="local")
    for by in range(2):
        for bx in range(2):
            for ty in range(8):
                for tx in range(8):
                    S[0] = 0.0
                    for q in range(2):
                        for sy in range(8):
                            for sx in range(8):
                                X[sy, sx] = A[by * 8 + sy, q * 8 + sx]
                                Y[sy, sx] = B[q * 8 + sy, bx * 8 + sx]
                        for k in range(8):
                            S[0] = S[0] + X[ty, k] * Y[k, tx]
                    C[by * 8 + ty, bx * 8 + tx] = S[0]
"""
CORRECT = {
    "window": WINDOW,
    "reversed": REVERSED,
    "tree": TREE,
    "scan": SCAN,
    "stencil": STENCIL,
    "softmax": SOFTMAX,
    "transpose": TRANSPOSE,
    "product": PRODUCT,
}
"""The programs without a mistake."""

BARRIERS = {
    "window": "X",
    "reversed": "X",
    "tree": "XX",
    "scan": "XXX",
    "stencil": "XYX",
    "softmax": "XYXY",
    "transpose": "X",
    "product": "XX",
}
"""Where each barrier of a program is missing: the buffer that threads race for."""

GLOBAL = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for bx in range(2):
        for tx in range(32):
            {}
"""
SHARED = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for sx in range(32):
            {}
        for ux in range(32):
            C[bx * 32 + ux] = X[ux]
"""
)
ONE_NEST = {
    "all write one element": "C[0] = A[bx * 32 + tx]",
    "a sum without a tree": "C[0] = C[0] + A[bx * 32 + tx]",
    "a sum of each block": "C[bx] = C[bx] + A[bx * 32 + tx]",
    "blocks write the same": "C[tx] = A[bx * 32 + tx]",
    "blocks overlap by one": "C[bx * 31 + tx] = A[bx * 32 + tx]",
    "the next block's element": "C[bx * 32 + tx] = C[(bx * 32 + tx + 1) % 64]",
    "the other block's element": "C[bx * 32 + tx] = C[(bx * 32 + tx + 32) % 64]",
    "two threads to an element": "C[bx * 32 + tx // 2] = A[bx * 32 + tx]",
    "a stride too short": "C[bx * 16 + tx] = A[bx * 32 + tx]",
    "read by all, written by one": "C[bx * 32 + tx] = C[5] + A[tx]",
    "a histogram": "C[T.cast(A[bx * 32 + tx] * 4.0, 'int64')] = 1.0",
    "an index that wraps": "C[(bx * 32 + tx) % 63] = A[bx * 32 + tx]",
}
"""Threads that do this race for C in global memory."""

WITHIN = {
    "shifted in place": "X[sx] = X[(sx + 1) % 32]",
    "reversed in place": "X[sx] = X[31 - sx]",
    "a sum without halves": "X[0] = X[0] + X[sx]",
    "halves that overlap": "if sx < 17: X[sx] = X[sx] + X[sx + 15]",
    "neighbours in pairs": "if sx % 2 == 0: X[sx] = X[sx + 1]\n            else: X[sx - 1] = 0.0",
    "one for all": "X[sx % 8] = A[sx]",
}
"""Threads that do this race for X in shared memory."""


HALF: dict[str, Callable[[Expr], Expr]] = {
    "tree": lambda x: x < 4,
    "product": lambda x: (x % 2).equal(0),
    "transpose": lambda x: x < 15,
}
"""The threads that come to the first barrier of a program, by their numbers along x."""


def planted() -> list[Planted]:
    """The mistakes, all different."""
    return [
        *(
            Planted(f"{name} without barrier {n}", partial(dropped, text, n), "E618", buffer)
            for name, text in CORRECT.items()
            for n, buffer in enumerate(BARRIERS[name])
        ),
        *(
            Planted(name, partial(launches, text.format(line)), "E618", buffer)
            for text, buffer, lines in ((GLOBAL, "C", ONE_NEST), (SHARED, "X", WITHIN))
            for name, line in lines.items()
        ),
        *(
            Planted(f"half a barrier in {name}", partial(guarded, CORRECT[name], half), "E619", "")
            for name, half in HALF.items()
        ),
        *(
            Planted(f"some more barriers in {name}", partial(repeated, CORRECT[name]), "E619", "")
            for name in ("scan", "window")
        ),
    ]
