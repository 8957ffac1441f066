"""Small programs that leave a buffer: the script, the step that goes wrong, and where.

Each body's wrong line ends in `# here`. The parameters are the same for all of them: see `PARAMS`
and `arguments`. `index` is the element's in the error; None in `INSIDE`, whose programs
stay inside although they look as if they would not.
"""

from typing import NamedTuple

import numpy as np

PARAMS = (
    'A: T.Buffer((8,), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((8,), "float32"), '
    'D: T.Buffer((2, 3, 4), "float32"), at: T.Buffer((8,), "int64"), '
    'at32: T.Buffer((8,), "int32"), byte: T.Buffer((8,), "uint8"), one: T.Buffer((1,), "int64")'
)
SHAPES = {"A": (8,), "B": (4, 6), "C": (8,), "D": (2, 3, 4), "at": (8,), "X": (5,), "Y": (3, 5)}
BIG = 2**31 - 1


def arguments() -> list[np.ndarray]:
    """Arrays whose integers name elements, and others that are none."""
    return [
        np.arange(8, dtype=np.float32),
        np.arange(24, dtype=np.float32).reshape(4, 6),
        np.zeros(8, np.float32),
        np.zeros((2, 3, 4), np.float32),
        np.array([3, 8, -1, 9, 2**40, -(2**40), 2**63 - 1, -(2**63)]),
        np.array([3, 8, -1, BIG, -BIG - 1, 1 << 30, 6, 0], np.int32),
        np.array([3, 8, 255, 128, 0, 1, 2, 7], np.uint8),
        np.array([4]),
    ]


class Wrong(NamedTuple):
    """A program; `steps` are schedule primitives to apply first."""

    name: str
    body: str
    buffer: str
    index: tuple[int, ...]
    action: str = "load"
    steps: tuple[tuple[object, ...], ...] = ()


WRONG = (
    # one element
    Wrong("one past the end", "C[0] = A[at[1]]  # here", "A", (8,)),
    Wrong("before the start", "C[0] = A[at[2]]  # here", "A", (-1,)),
    Wrong("far behind", "C[0] = A[at[4]]  # here", "A", (2**40,)),
    Wrong("far before", "C[0] = A[at[5]]  # here", "A", (-(2**40),)),
    Wrong("the largest index", "C[0] = A[at[6]]  # here", "A", (2**63 - 1,)),
    Wrong("the smallest index", "C[0] = A[at[7]]  # here", "A", (-(2**63),)),
    Wrong("a store past the end", "C[at[1]] = A[0]  # here", "C", (8,), "store"),
    Wrong("a store before the start", "C[at[2]] = A[0]  # here", "C", (-1,), "store"),
    Wrong("the first of two axes", "C[0] = B[at[1], 0]  # here", "B", (8, 0)),
    Wrong("the second, still in memory", "C[0] = B[0, at[1]]  # here", "B", (0, 8)),
    Wrong("the second, negative", "C[0] = B[1, at[2]]  # here", "B", (1, -1)),
    Wrong("the middle of three axes", "C[0] = D[1, at[0], 3]  # here", "D", (1, 3, 3)),
    Wrong("all three axes", "D[at[1], at[2], at[3]] = 1.0  # here", "D", (8, -1, 9), "store"),
    # computed indices
    Wrong("a sum", "C[0] = A[at[0] + 5]  # here", "A", (8,)),
    Wrong("a difference", "C[0] = A[at[0] - 4]  # here", "A", (-1,)),
    Wrong("a product", "C[0] = A[at[0] * 3]  # here", "A", (9,)),
    Wrong("a product that wraps to a negative", "C[0] = A[at[6] * 2]  # here", "A", (-2,)),
    Wrong("a sum that wraps around", "C[0] = A[at[6] + 1]  # here", "A", (-(2**63),)),
    Wrong("a quotient, rounded down", "C[0] = A[at[2] // 3]  # here", "A", (-1,)),
    Wrong("the smaller of two", "C[0] = A[T.min(at[1], at[3])]  # here", "A", (8,)),
    Wrong("an index of an index", "C[0] = A[at[at[0] - 2]]  # here", "A", (8,)),
    Wrong("the inner index", "C[0] = A[at[at[1]]]  # here", "at", (8,)),
    Wrong("an int32 sum that wraps", 'C[0] = A[T.cast(at32[3] + 1, "int64")]  # here', "A",
          (-(2**31),)),
    Wrong("an int32 product that wraps", 'C[0] = A[T.cast(at32[5] * 3, "int64")]  # here', "A",
          (-(1 << 30),)),
    Wrong("an unsigned byte that wraps", 'C[0] = A[T.cast(byte[4] - byte[5], "int64")]  # here',
          "A", (255,)),
    Wrong("a cast that cuts", 'C[0] = A[T.cast(T.cast(at[3] + 247, "int8"), "int64") - 1]  # here',
          "A", (-1,)),
    Wrong("a float's integer part", 'C[0] = A[T.cast(A[7] + 1.5, "int64")]  # here', "A", (8,)),
    Wrong("a narrow index", "C[0] = A[at32[1]]  # here", "A", (8,)),
    # loops
    Wrong("a gather", "for i in range(8):\n    C[i] = A[at[i]]  # here", "A", (8,)),
    Wrong("a scatter", "for i in range(8):\n    C[at[i]] = A[i]  # here", "C", (8,), "store"),
    Wrong("a shifted gather", "for i in range(8):\n    C[i] = A[i + one[0]]  # here", "A", (8,)),
    Wrong("a gather, vectorized", "for i in T.vectorized(8):\n    C[i] = A[at[i]]  # here", "A",
          (8,)),
    Wrong("a vector that starts too late",
          "for i in T.vectorized(8):\n    C[i] = A[i + one[0]]  # here", "A", (8,)),
    Wrong("a gather, parallel", "for i in T.parallel(8):\n    C[i] = A[at[i]]  # here", "A", (8,)),
    Wrong("a gather, unrolled", "for i in T.unroll(8):\n    C[i] = A[at[i]]  # here", "A", (8,)),
    Wrong("a loop as long as data says",
          "for i in range(at[3]):\n    C[i + one[0] - 4] = 1.0  # here", "C", (8,), "store"),
    Wrong("a nest", "for i, j in T.grid(4, 6):\n    B[i, j] = A[i + j + one[0] - 4]  # here", "A",
          (8,)),
    Wrong("rows and columns exchanged",
          "for i, j in T.grid(4, one[0] + 1):\n    B[j + one[0] - 4, i] = 1.0  # here",
          "B", (4, 0), "store"),
    Wrong("a loop's extent",
          "for i in range(at[at[1]]):  # here\n    C[i + one[0] - 4] = 1.0", "at", (8,)),
    # conditions
    Wrong("a condition", "if A[at[1]] > 0.0:  # here\n    C[0] = 1.0", "A", (8,)),
    Wrong("a branch that is taken",
          "if A[3] > 0.0:\n    C[0] = A[at[1]]  # here\nelse:\n    C[1] = 1.0", "A", (8,)),
    Wrong("the other branch",
          "if A[3] < 0.0:\n    C[0] = 1.0\nelse:\n    C[0] = A[at[2]]  # here", "A", (-1,)),
    Wrong("the chosen side",
          "C[0] = T.Select(A[3] > 0.0, A[at[1]], A[0])  # here", "A", (8,)),
    Wrong("what decides between the sides",
          "C[0] = T.Select(A[at[1]] > 0.0, A[1], A[0])  # here", "A", (8,)),
    Wrong("the second of two conditions",
          "if A[3] > 0.0 and A[at[1]] > 0.0:  # here\n    C[0] = 1.0", "A", (8,)),
    Wrong("a guard off by one",
          "for i in range(8):\n    if at[0] + i <= 8:\n        C[i] = A[at[0] + i]  # here", "A",
          (8,)),
    # blocks
    Wrong("a block's body", "for i in range(8):\n    with T.block('S'):\n"
          "        v = T.axis.spatial(8, i)\n        C[v] = A[at[v]]  # here", "A", (8,)),
    Wrong("a block's predicate", "for i in range(8):\n    with T.block('S'):\n"
          "        v = T.axis.spatial(8, i)\n        T.where(A[at[i]] >= 0.0)  # here\n"
          "        C[v] = 1.0", "A", (8,)),
    Wrong("a block's init", "for i, k in T.grid(8, 4):\n    with T.block('S'):\n"
          "        v, r = T.axis.remap('SR', [i, k])\n        with T.init():\n"
          "            C[v] = A[at[v]]  # here\n        C[v] = C[v] + A[r]", "A", (8,)),
    Wrong("a reduction", "for i, k in T.grid(8, 4):\n    with T.block('S'):\n"
          "        v, r = T.axis.remap('SR', [i, k])\n        with T.init():\n"
          "            C[v] = 0.0\n        C[v] = C[v] + A[at[r]]  # here", "A", (8,)),
    Wrong("a block in a block", "for i in range(2):\n    with T.block('outer'):\n"
          "        v = T.axis.spatial(2, i)\n        for j in range(4):\n"
          "            with T.block('inner'):\n                w = T.axis.spatial(8, v * 4 + j)\n"
          "                C[w] = A[at[w]]  # here", "A", (8,)),
    # buffers of the function's own
    Wrong("a buffer of the function's own", "X = T.alloc_buffer((5,), 'float32')\n"
          "for i in range(5):\n    X[i] = A[i]\nC[0] = X[at[1]]  # here", "X", (8,)),
    Wrong("its last element and one more", "X = T.alloc_buffer((5,), 'float32')\n"
          "for i in range(5):\n    X[i] = A[i]\nC[0] = X[at[0] + 2]  # here", "X", (5,)),
    Wrong("a store into it", "X = T.alloc_buffer((5,), 'float32')\n"
          "for i in range(6):\n    X[i + one[0] - 4] = 1.0  # here\nC[0] = X[0]", "X", (5,),
          "store"),
    Wrong("a row of it", "Y = T.alloc_buffer((3, 5), 'float32')\nfor i, j in T.grid(3, 5):\n"
          "    Y[i, j] = A[i]\nC[0] = Y[at[0], 1]  # here", "Y", (3, 1)),
    Wrong("a buffer that each iteration owns", "X = T.alloc_buffer((5,), 'float32')\n"
          "for i in range(8):\n    for j in range(5):\n        X[j] = A[j]\n"
          "    C[i] = X[i + one[0] - 4]  # here", "X", (5,)),
    Wrong("a remainder larger than it", "X = T.alloc_buffer((5,), 'float32')\n"
          "for i in range(5):\n    X[i] = A[i]\nC[0] = X[at[2] % 8]  # here", "X", (7,)),
    Wrong("the part of it that is used, and more", "X = T.alloc_buffer((5,), 'float32')\n"
          "X[3] = A[0]\nC[0] = X[at[0] % 4 + 3]  # here", "X", (6,)),
    Wrong("the part of it before the start", "X = T.alloc_buffer((5,), 'float32')\n"
          "X[3] = A[0]\nC[0] = X[3 - at[2] % 8]  # here", "X", (-4,)),
    Wrong("two axes of it", "Y = T.alloc_buffer((3, 5), 'float32')\n"
          "Y[1, 1] = A[0]\nC[0] = Y[at[0] % 8, at[2] % 8]  # here", "Y", (3, 7)),
    Wrong("behind the part of it that is used", "X = T.alloc_buffer((5,), 'float32')\n"
          "for i in range(3):\n    if A[i + 3] > 0.0:\n        X[i + one[0] - 1] = 1.0  # here\n"
          "C[0] = X[4]", "X", (5,), "store"),
    Wrong("one column of it", "Y = T.alloc_buffer((3, 5), 'float32')\nfor i in range(3):\n"
          "    Y[i, 2] = A[i]\nC[0] = Y[at[0], 2]  # here", "Y", (3, 2)),
    # after schedules
    Wrong("after a split", "for i in range(8):\n    with T.block('S'):\n"
          "        v = T.axis.spatial(8, i)\n        C[v] = A[at[v]]  # here", "A", (8,),
          steps=(("split", "i", (None, 4)),)),
    Wrong("after a split with a guard", "for i in range(8):\n    with T.block('S'):\n"
          "        v = T.axis.spatial(8, i)\n        C[v] = A[at[v]]  # here", "A", (8,),
          steps=(("split", "i", (None, 3)),)),
    Wrong("after vectorizing", "for i in range(8):\n    with T.block('S'):\n"
          "        v = T.axis.spatial(8, i)\n        C[v] = A[at[v]]  # here", "A", (8,),
          steps=(("split", "i", (None, 4)), ("vectorize", "i_1"))),
)  # fmt: skip


class Inside(NamedTuple):
    """A program that never leaves a buffer."""

    name: str
    body: str
    steps: tuple[tuple[object, ...], ...] = ()


INSIDE = (
    Inside("the side that is not chosen",
           "for i in range(8):\n    C[i] = T.Select(at[i] >= 0 and at[i] < 8, A[at[i]], 0.0)"),
    Inside("the side that is not chosen, vectorized",
           "for i in T.vectorized(8):\n    C[i] = T.Select(i >= one[0], A[i - one[0]], 0.0)"),
    Inside("a branch that is not taken",
           "for i in range(8):\n    if at[i] >= 0 and at[i] < 8:\n        C[i] = A[at[i]]"),
    Inside("the condition after a false one",
           "for i in range(8):\n    if i < 4 and A[i + one[0]] > 0.0:\n        C[i] = 1.0"),
    Inside("the condition after a true one",
           "for i in range(8):\n    if i >= 4 or A[i + one[0]] > 0.0:\n        C[i] = 1.0"),
    Inside("a loop that never runs", "for i in range(one[0] - 4):\n    C[0] = A[at[1]]"),
    Inside("a loop of a negative length", "for i in range(at[2]):\n    C[0] = A[at[1]]"),
    Inside("a loop of no length", "for i in range(0):\n    C[0] = A[at[1]]"),
    Inside("a predicate that holds it off", "for i in range(8):\n    with T.block('S'):\n"
           "        v = T.axis.spatial(8, i)\n        T.where(i < one[0])\n"
           "        C[v] = A[v + one[0]]"),
    Inside("a guard that a split made", "for i in range(8):\n    with T.block('S'):\n"
           "        v = T.axis.spatial(8, i)\n        C[v] = A[v]",
           (("split", "i", (None, 3)),)),
    Inside("a guard around vectors", "for i in range(8):\n    with T.block('S'):\n"
           "        v = T.axis.spatial(8, i)\n        C[v] = A[v]",
           (("split", "i", (None, 3)), ("vectorize", "i_1"))),
    Inside("a remainder is never negative", "C[0] = A[at[2] % 8] + A[at[5] % 8] + A[at[7] % 8]"),
)  # fmt: skip


STATIC = (
    Wrong("a loop one too long", "for i in range(9):\n    C[i] = 1.0  # here", "C", (8,), "store"),
    Wrong("a constant index", "C[0] = A[8]  # here", "A", (8,)),
    Wrong("a negative constant", "C[0] = A[-1]  # here", "A", (-1,)),
    Wrong("a stencil's edge", "for i in range(8):\n    C[i] = A[i - 1] + A[i]  # here", "A", (-1,)),
    Wrong("axes exchanged", "for i, j in T.grid(4, 6):\n    C[i] = B[j, i]  # here", "B", (4, 0)),
)
"""Programs that need no run: refused when it is built, with the same facts."""

UNPROVED = (
    Wrong("a loop as long as data says, to the end",
          "for i in range(at[3]):\n    C[i] = 1.0  # here", "C", (8,), "store"),
    Wrong("rows as many as data says",
          "for i, j in T.grid(4, one[0] + 1):\n    B[j, i] = 1.0  # here", "B", (4, 0), "store"),
    Wrong("a condition on data alone",
          "for i in range(8):\n    if A[i] > 9.0:\n        C[i + 3] = 1.0  # here", "C", (8,)),
)  # fmt: skip
"""Where an index reads no data, data is no excuse: what is not proved inside is not built."""
