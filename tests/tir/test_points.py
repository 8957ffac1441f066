"""Index expressions at many points: what numpy would compute otherwise is not guessed."""

import numpy as np
import pytest

from minimlc.loops.ir.nodes import Var, binary
from minimlc.loops.proofs.points import evaluate
from minimlc.loops.proofs.verify import verify
from minimlc.script import parse
from tests.helpers import refuses

SATURATED = """
@T.prim_func
def f(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in T.parallel(4):
        big = T.cast(T.cast(i, "float32") * T.float32(1e38), "int32")
        C[T.if_then_else(big == T.int32(2147483647), 0, i)] = A[i]
"""


def test_integers_are_computed_and_floats_are_not():
    i = Var("i")
    points = {i: np.arange(5)}
    assert evaluate((i * 3 + 1) // 2 % 4, points).tolist() == [0, 2, 3, 1, 2]
    with pytest.raises(ValueError, match="not known"):
        evaluate(binary("<", i.astype("float32"), 2.5), points)


def test_a_conversion_that_saturates_is_no_proof():
    refuses("E104", lambda: verify(parse(SATURATED)), "not known")
