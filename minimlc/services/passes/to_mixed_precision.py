"""Products of 16-bit floats in the place of 32-bit ones."""

from collections.abc import Callable

from minimlc.graphs.ir.nodes import Expr
from minimlc.graphs.ir.scope import refuse
from minimlc.graphs.ops import call_op
from minimlc.graphs.ops.checks import HALF, NO_DTYPE
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.networks import window  # noqa: F401 (operators in patterns)
from minimlc.services.patterns.match import Match
from minimlc.services.patterns.pattern import operator, p
from minimlc.services.patterns.rewrite import Rewriter, Rule

PRODUCTS = ("matmul", "dense", "conv2d", "conv1d")


@module_pass
def to_mixed_precision(mod: IRModule, dtype: str = "float16") -> IRModule:
    """Round the operands of float32 products to `dtype`, and sum in float32 as before.

                                               lv = R.cast(x, dtype="float16")
        lv = R.matmul(x, w)      -->           lv1 = R.cast(w, dtype="float16")
        lv1 = R.relu(lv)                       lv2 = R.matmul(lv, lv1, out_dtype="float32")
                                               lv3 = R.relu(lv2)

    For `matmul`, `dense`, `conv2d` and `conv1d`; everything else stays in float32 (Micikevicius et
    al. 2018, "Mixed Precision Training", sums likewise). `fold_constants` rounds weights once,
    `eliminate_common_subexpr` shared operands.

    It changes results, so it runs only where it is called: an operand changes by 2**-11 of itself
    in float16 (whose numbers end at 65504: what is larger becomes infinite, what is below 2**-14
    loses digits), by 2**-8 in bfloat16. The product of two such numbers is exact in float32.
    `CompileError` E230 for another dtype.
    """
    if dtype not in HALF:
        hint = f"dtype: {' or '.join(HALF)}"
        refuse(f"to_mixed_precision: {dtype!r} is no float of 16 bits", "E230", hint)
    rules: list[Rule] = [(product, _narrowed(dtype)) for product in products]
    return Rewriter(rules)(mod)


x, w = p.wildcard("x", dtype="float32"), p.wildcard("w", dtype="float32")
products = [operator(op, x, w, out_dtype=(*NO_DTYPE, "float32").__contains__) for op in PRODUCTS]


def _narrowed(dtype: str) -> Callable[[Match], Expr]:
    def replacement(match: Match) -> Expr:
        operands = [call_op("cast", match[part], dtype=dtype) for part in (x, w)]
        options = {**dict(match.var.attrs), "out_dtype": "float32"}
        return call_op(match.var.op, *operands, **options)

    return replacement
