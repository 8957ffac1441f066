"""Python's operators on graph values: `x + y` is the call `mlc.op.add(x, y)`.

`==`, `!=` and `hash` go by identity, as for all nodes: whether two values are the same one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import Call, Expr, TensorType, TupleGetItem, TupleType, Var, constant
from minimlc.graphs.ops import OPS, call_op
from minimlc.loops.values.errors import CompileError, OpError, did_you_mean
from minimlc.loops.values.literals import Symbol

ARITHMETIC = {
    "+": ("add", "add"),
    "-": ("sub", "subtract"),
    "*": ("mul", "multiply"),
    "/": ("truediv", "divide"),
    "@": ("matmul", "matmul"),
    "**": ("pow", "power"),
}
COMPARISONS = {
    "<": ("lt", "less"),
    "<=": ("le", "less_equal"),
    ">": ("gt", "greater"),
    ">=": ("ge", "greater_equal"),
}
"""By sign: the name of Python's method, and the operator. Python mirrors comparisons itself."""

_UNARY = {"neg": "negative", "abs": "abs"}
_OF_NUMPY = {
    "absolute": "abs",
    "rint": "round",
    "add.reduce": "sum",
    "multiply.reduce": "prod",
    "maximum.reduce": "max",
    "minimum.reduce": "min",
}
"""numpy's functions whose operators have another name."""


class NoSuchField(OpError, IndexError):
    """A field that a tuple does not have; Python's unpacking ends with it."""


def _binary(name: str, reflected: bool) -> Callable[[Expr, object], Call]:
    def apply(self: Expr, other: object) -> Call:
        value = other if isinstance(other, Expr | Symbol) else constant(other, self.dtype)
        return call_op(name, *((value, self) if reflected else (self, value)))

    return apply


def _unary(name: str) -> Callable[[Expr], Call]:
    def apply(self: Expr) -> Call:
        return call_op(name, self)

    return apply


def _astype(self: Expr, dtype: str) -> Call:
    """This value converted to `dtype`."""
    return call_op("cast", self, dtype=dtype)


def _field(self: Expr, index: Any) -> TupleGetItem:
    """A tuple's field. A tensor is not indexed: `take` and `strided_slice` take parts of it."""
    whole = hasattr(index, "__index__")
    if isinstance(self.type, TensorType):
        name, size = _shown(self), (*self.shape, 1)[0]
        numbers = isinstance(index, int) and isinstance(size, int) and size
        at = index % size if numbers else 0
        raise OpError(
            "a tensor of the graph is not indexed; operators take parts of it",
            code="E201",
            hint=f"mlc.op.take({name}, np.array({at}), axis=0)"
            f"  # a range: mlc.op.strided_slice({name}, (0,), (1,))",
        )
    count = len(self.type.fields)
    if not whole or not 0 <= index < count:
        why = f"a tuple of {count} has no field {index!r}"
        raise NoSuchField(why, code="E201", hint=f"{_shown(self)}[{count - 1}]  # the last one")
    return TupleGetItem(self, int(index))


def _truth(self: Expr) -> bool:
    """True, as there is a value; `CompileError` for one of dtype bool, which is not known yet."""
    if isinstance(self.type, TupleType) or self.type.dtype != "bool":
        return True
    raise CompileError(
        "a value of the graph has no truth while the program is being written",
        code="E112",
        hint="mlc.op.where(condition, x, y)  # chooses for each element",
    )


def _numpy(self: Expr, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Call:
    """The operator where numpy's numbers stand before a value, `np.float32(2) * x`."""
    if method == "__call__" and not options and isinstance(inputs[0], np.generic):
        left, right = inputs[0].item(), inputs[-1]
        if sign := next((s for s, (_, name) in ARITHMETIC.items() if name == ufunc.__name__), ""):
            return getattr(right, f"__r{ARITHMETIC[sign][0]}__")(left)
    called = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    name = _OF_NUMPY.get(called, called)
    typed = f'mlc.constant(a, "{self.dtype}")' if isinstance(self.type, TensorType) else "a"
    shown = ", ".join(_shown(value, typed) for value in inputs)
    raise OpError(
        f"numpy's {called} was applied to a value of the graph",
        code="E201",
        hint=f"mlc.op.{name}({shown})" if name in OPS else did_you_mean(name, OPS),
    )


def _shown(value: object, array: str = "a") -> str:
    """A value as a reader may write it; `array` stands for anything outside the graph."""
    if isinstance(value, Expr):
        return value.name if isinstance(value, Var) else "x"
    return array


_METHODS: dict[str, Callable[..., Any]] = {
    **{method: _binary(name, False) for method, name in (ARITHMETIC | COMPARISONS).values()},
    **{f"r{method}": _binary(name, True) for method, name in ARITHMETIC.values()},
    **{method: _unary(name) for method, name in _UNARY.items()},
    "getitem": _field,
    "bool": _truth,
    "array_ufunc": _numpy,
}
for _method, _function in _METHODS.items():
    setattr(Expr, f"__{_method}__", _function)
setattr(Expr, "astype", _astype)  # noqa: B010  as the others
