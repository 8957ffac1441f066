"""Sample inputs of every operator and of every dtype it takes: for all backends to agree upon.

for case in cases():
    mod, name = case.module()          # the operator lowered to one primitive function
    case.arrays, case.expected()       # its inputs and numpy's answer
    case.check(results)                # equal, or within the dtype's stated tolerance
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Call, TensorType, Var, tensor_types
from minimlc.graphs.ops import OPS, call_op, evaluate, lower
from minimlc.loops.values.dtypes import DTYPES, is_float, to_numpy
from minimlc.loops.values.module import IRModule
from tests.graph.op_samples import INDEX_RANGE, ROUNDED_UP, SAMPLES, UNIT, WITH_NAN

Shape = tuple[int, ...]

TOLERANCES = {
    "float64": (1e-13, 1e-14),
    "float32": (2e-6, 2e-6),
    "float16": (2.0**-10, 2.0**-12),
    "bfloat16": (2.0**-7, 2.0**-9),
}
"""(relative, absolute). float32 and float64: some 16 roundings, as orders of summation and
implementations of exp differ. 16-bit: both sides round once, from float32 values that differ in
the last places, so by at most one unit in the last place. Integers and bools are exact."""

POSITIVE = ("log", "sqrt", "rsqrt", "power")
IN_ORDER = ("searchsorted",)
"""Operators whose first tensor is in order."""
EXACT_WITH_NAN = (
    *("maximum", "minimum", "relu", "leaky_relu", "clip", "abs", "negative", "where", "add"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "multiply"),
    *("max", "min", "argmax", "argmin", "max_pool2d", "permute_dims", "concat", "pad"),
    *WITH_NAN,
)
"""Operators that are also given NaN and infinities."""

UNARY: list[list[Any]] = [[(7,)], [(2, 3, 5)], [()], [(1, 13)], [(0, 3)]]
BINARY: list[list[Any]] = [
    [(7,), (7,)],
    [(2, 3, 5), (5,)],
    [(3, 1), (1, 11)],
    [(), (2, 3)],
    [(2, 1, 3), (4, 1)],
]
REDUCE: list[tuple[list[Any], dict[str, Any]]] = [
    ([(13,)], {}),
    ([(3, 5, 7)], {"axis": -1}),
    ([(3, 5, 7)], {"axis": (0, -1), "keepdims": True}),
    ([(3, 1, 7)], {"axis": 1}),
    ([(1, 17)], {"axis": 0, "keepdims": True}),
]
ALONG: list[tuple[list[Any], dict[str, Any]]] = [
    ([(11,)], {}),
    ([(3, 5, 7)], {"axis": 1}),
    ([(5, 1)], {"axis": -1}),
    ([(2, 13)], {"axis": 0}),
]
ARG = [
    *ALONG,
    ([(3, 5)], {"axis": 1, "keepdims": True}),
    ([(3, 5)], {"axis": None}),
    ([(2, 3)], {"axis": None, "keepdims": True}),
]
POOL: list[tuple[list[Any], dict[str, Any]]] = [
    ([(1, 2, 6, 7)], {"pool_size": 2}),
    ([(2, 1, 5, 7)], {"pool_size": (3, 2), "strides": 2, "padding": 1}),
    ([(1, 1, 7, 5)], {"pool_size": 3, "strides": (2, 1)}),
    ([(1, 6, 7, 2)], {"pool_size": 2, "layout": "NHWC", "padding": (0, 1, 1, 0)}),
    ([(1, 2, 7, 6)], {"pool_size": 2, "dilation": (3, 2), "out_layout": "CNHW"}),
]
CREATE: list[tuple[list[Any], dict[str, Any]]] = [
    ([], {"shape": (2, 3)}),
    ([], {"shape": ()}),
    ([], {"shape": 5}),
]
SPECIAL: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {
    **SAMPLES,
    "ewise_fma": [([(2, 3), (3,), (2, 1)], {}), ([(7,), (7,), ()], {})],
    "where": [([(2, 3), (3,), (2, 1)], {}), ([(), (5,), (5,)], {}), ([(7,), (7,), (7,)], {})],
    "leaky_relu": [([(13,)], {}), ([(2, 3)], {"alpha": 0.3})],
    "prelu": [([(2, 3), (3,)], {}), ([(3, 2, 2), (3,)], {"axis": 0})],
    "bias_add": [([(2, 3), (3,)], {}), ([(3, 2, 2), (2,)], {"axis": -1})],
    "full_like": [([(2, 3)], {"value": 1}), ([()], {"value": 1}), ([(3,)], {"value": 0})],
    "zeros_like": [([(2, 3)], {}), ([()], {}), ([(7,)], {"dtype": "int8"})],
    "ones_like": [([(2, 3)], {}), ([()], {}), ([(7,)], {"dtype": "bool"})],
    "clip": [([(13,)], {"min": -1, "max": 1}), ([(2, 7)], {"min": 0, "max": 1})],
    "cast": [([(2, 7)], {"dtype": dtype}) for dtype in DTYPES],
    "matmul": [
        ([(3, 5), (5, 7)], {}),
        ([(2, 3, 4), (2, 4, 5)], {}),
        ([(2, 1, 3, 4), (3, 4, 2)], {}),
        ([(1, 1), (1, 1)], {}),
    ],
    "dense": [([(3, 5), (7, 5)], {}), ([(2, 3, 5), (1, 5)], {})],
    "linear": [
        ([(3, 5), (7, 5)], {}),
        ([(3, 5), (7, 5), (7,)], {}),
        ([(2, 3, 5), (4, 5), (4,)], {}),
    ],
    "outer": [([(3,), (5,)], {}), ([(1,), (7,)], {})],
    "rms_norm": [([(3, 11), (11,)], {}), ([(2, 5, 3), (5, 3)], {"axes": (1, 2), "epsilon": 0.1})],
    "flip": [([(2, 3)], {}), ([(2, 3, 2)], {"axis": -1}), ([(2, 3, 2)], {"axis": (0, 2)})],
    "repeat": [([(2, 3)], {"repeats": 2, "axis": 0}), ([(5,)], {"repeats": 3, "axis": -1})],
    "tile": [
        ([(2, 3)], {"repeats": (2, 1)}),
        ([(3,)], {"repeats": (2, 2)}),
        ([()], {"repeats": 4}),
    ],
    "tril": [([(3, 4)], {}), ([(2, 3, 3)], {"k": 1})],
    "triu": [([(3, 4)], {}), ([(2, 3, 3)], {"k": -1})],
    "stack": [([[(2, 3), (2, 3)]], {}), ([[(3,), (3,), (3,)]], {"axis": -1}), ([[()]], {})],
    "batch_flatten": [([(2, 3, 5)], {}), ([(3, 4)], {})],
    "conv1d": [
        ([(1, 2, 7), (3, 2, 3)], {}),
        ([(2, 4, 9), (2, 2, 2)], {"strides": 2, "padding": (1, 2), "groups": 2, "dilation": 3}),
    ],
    "layer_norm": [
        ([(3, 5), (5,), (5,)], {"center": False}),
        ([(3, 5), (5,), (5,)], {"scale": False}),
        ([(3, 11), (11,), (11,)], {}),
        ([(2, 3, 5), (3, 5), (3, 5)], {"axes": (1, 2)}),
        ([(2, 5, 3), (5,), (5,)], {"axes": 1, "epsilon": 0.1}),
    ],
    "reshape": [
        ([(2, 6)], {"shape": (3, 4)}),
        ([(2, 3, 5)], {"shape": (-1, 5)}),
        ([(4, 3)], {"shape": (2, 2, 3, 1)}),
        ([()], {"shape": (1, 1)}),
        ([(0, 3)], {"shape": (3, 0)}),
    ],
    "flatten": [([(2, 3, 5)], {}), ([(2, 3, 5)], {"start_axis": 1}), ([()], {})],
    "permute_dims": [([(2, 3, 5)], {}), ([(2, 3, 5)], {"axes": (1, -1, 0)}), ([(7,)], {})],
    "expand_dims": [([(3, 5)], {"axis": 0}), ([(3, 5)], {"axis": (1, -1)})],
    "squeeze": [([(1, 3, 1)], {}), ([(1, 3, 1)], {"axis": -1}), ([(1, 1)], {})],
    "match_cast": [([(3, 2)], {"shape": (3, 2)}), ([()], {"shape": ()})],
    "broadcast_to": [([(3, 1)], {"shape": (2, 3, 5)}), ([()], {"shape": (4,)})],
    "concat": [
        ([[(2, 3), (5, 3)]], {}),
        ([[(2, 1), (2, 3), (2, 2)]], {"axis": -1}),
        ([[(7,)]], {}),
    ],
    "split": [
        ([(6, 2)], {"indices_or_sections": 3}),
        ([(2, 7)], {"indices_or_sections": (2, 3), "axis": -1}),
    ],
    "strided_slice": [
        ([(7, 5)], {"begin": (1,), "end": (6,), "strides": (2,)}),
        ([(7, 5)], {"begin": (-1, 0), "end": (-8, 3), "strides": (-2, 1)}),
        ([(7, 5)], {"begin": 1, "end": 4, "axes": -1}),
    ],
    "take": [
        ([(5, 3), (4,)], {}),
        ([(2, 7), (2, 3)], {"axis": 1}),
        ([(5,), ()], {}),
        ([(2, 3), (2, 2)], {"axis": None}),
        ([(5, 3), (4,)], {"mode": "clip"}),
        ([(2, 4), (3, 2)], {"axis": -1, "mode": "wrap"}),
    ],
    "conv2d": [
        ([(1, 2, 5, 7), (3, 2, 3, 3)], {}),
        ([(2, 1, 5, 5), (2, 1, 3, 2)], {"strides": (2, 1), "padding": 1}),
        ([(1, 3, 4, 4), (1, 3, 1, 1)], {"strides": 3, "padding": (0, 2)}),
        ([(1, 2, 9, 7), (3, 2, 3, 2)], {"dilation": (2, 3), "padding": (0, 1, 2, 3)}),
        ([(2, 4, 5, 5), (6, 2, 3, 3)], {"groups": 2, "padding": 1}),
        ([(1, 3, 5, 4), (3, 1, 2, 2)], {"groups": 3, "dilation": 2}),
        ([(1, 5, 6, 2), (3, 3, 2, 4)], {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
        ([(1, 5, 6, 2), (3, 2, 3, 3)], {"data_layout": "NHWC", "out_layout": "NCHW"}),
    ],
    "max_pool2d": POOL,
    "avg_pool2d": [
        *POOL,
        ([(1, 1, 5, 5)], {**POOL[1][1], "count_include_pad": True}),
        ([(1, 2, 6, 7)], {"pool_size": 3, "strides": 2, "padding": 1, **ROUNDED_UP}),
        (
            [(1, 1, 8, 7)],
            {"pool_size": 2, "dilation": (3, 2), "padding": (0, 1), "ceil_mode": True},
        ),
    ],
    "adaptive_avg_pool2d": [
        ([(1, 2, 6, 4)], {"output_size": 2}),
        ([(2, 1, 3, 5)], {"output_size": (1, 1)}),
        ([(2, 1, 7, 5)], {"output_size": (3, 4)}),
        ([(1, 4, 6, 3)], {"output_size": (4, 2), "layout": "NHWC"}),
    ],
    "zeros": CREATE,
    "ones": CREATE,
    "full": [(args, {**attrs, "value": 1}) for args, attrs in CREATE],
    "arange": [([], {"start": 7}), ([], {"start": 3, "stop": 20, "step": 4})],
}


@dataclass
class Case:
    """One operator on inputs of one dtype; reproducible from its name alone."""

    op: str
    dtype: str
    number: int
    shapes: list[Any]
    attrs: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.op}-{self.dtype}-{self.number}"

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        """The tensors; the fields of a tuple one after the other."""
        rng = np.random.default_rng(crc32(self.name.encode()))
        arrays = [self._array(rng, shape, dtype) for shape, dtype in self._inputs()]
        if self.op in IN_ORDER:
            arrays[0] = np.sort(arrays[0])
        return arrays

    @cached_property
    def call(self) -> Call:
        """The operator on variables x0, x1, ..."""
        inputs = iter(self.variables)
        args = [
            [next(inputs) for _ in shape] if isinstance(shape, list) else next(inputs)
            for shape in self.shapes
        ]
        return call_op(self.op, *args, **self._attributes())

    @cached_property
    def variables(self) -> list[Var]:
        types = [TensorType(shape, dtype) for shape, dtype in self._inputs()]
        return [Var(f"x{n}", found) for n, found in enumerate(types)]

    def graph(self) -> IRModule:
        """A graph function "main" of the inputs that applies the operator."""
        bb = BlockBuilder()
        with bb.function("main", self.variables):
            with bb.dataflow():
                out = bb.emit_output(self.call)
            bb.emit_func_output(out)
        return bb.get()

    def module(self) -> tuple[IRModule, str]:
        """A module of one primitive function on the inputs, then the outputs; and its name."""
        bb = BlockBuilder()
        call = bb.call_te(
            lambda *tensors: lower(self.call, tensors), *self.call.args, primfunc_name_hint=self.op
        )
        return bb.get(), call.callee

    def outputs(self) -> list[np.ndarray]:
        """Arrays for the results."""
        return [np.zeros(t.shape, to_numpy(t.dtype)) for t in tensor_types(self.call.type)]

    def expected(self) -> list[np.ndarray]:
        """The results by numpy."""
        arrays = iter(self.arrays)
        args: list[Any] = [
            tuple(next(arrays) for _ in shape) if isinstance(shape, list) else next(arrays)
            for shape in self.shapes
        ]
        result = evaluate(self.call, args)
        return list(result) if isinstance(result, tuple) else [result]

    def check(self, results: Sequence[np.ndarray], slack: float = 1.0) -> None:
        """Compare with numpy, to `slack` times the tolerances of `TOLERANCES`."""
        for found, wanted in zip(results, self.expected(), strict=True):
            assert found.dtype == wanted.dtype
            assert found.shape == wanted.shape
            dtype = found.dtype.name
            if not is_float(dtype):
                np.testing.assert_array_equal(found, wanted)
                continue
            rtol, atol = (slack * t for t in TOLERANCES[dtype])
            inside = np.float64
            np.testing.assert_allclose(
                found.astype(inside), wanted.astype(inside), rtol=rtol, atol=atol
            )

    def _attributes(self) -> dict[str, Any]:
        attrs = dict(self.attrs)
        if self.op in ("zeros", "ones", "full", "arange"):
            attrs["dtype"] = self.dtype
        if self.dtype == "bool" and "value" in attrs:
            attrs["value"] = bool(attrs["value"])
        return attrs

    def _inputs(self) -> Iterator[tuple[Shape, str]]:
        own = dict(OPS[self.op].param_dtypes)
        for param, shape in zip(OPS[self.op].params, self.shapes, strict=False):
            dtype = own[param][self.number % len(own[param])] if param in own else self.dtype
            for one in shape if isinstance(shape, list) else [shape]:
                yield one, dtype

    def _array(self, rng: np.random.Generator, shape: Shape, dtype: str) -> np.ndarray:
        kind = DTYPES[dtype].kind
        if kind == "bool":
            return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
        unsigned = kind == "uint" or str(self.attrs.get("dtype")).startswith("uint")
        if kind != "float" and self.op in INDEX_RANGE and dtype != self.dtype:
            return np.asarray(rng.integers(*INDEX_RANGE[self.op], shape)).astype(to_numpy(dtype))
        if kind != "float":
            return np.asarray(rng.integers(0 if unsigned else -6, 7, shape)).astype(to_numpy(dtype))
        low = 0.1 if self.op in POSITIVE or unsigned else -2.0
        low, high = (0.01, 0.99) if self.op in UNIT else (low, 3.0)
        values = np.asarray(rng.uniform(low, high, shape)).astype(to_numpy(dtype))
        if self.op in EXACT_WITH_NAN and self.number % 2 == 0 and values.size > 4:
            values.flat[[1, 3]] = np.nan
            values.flat[2] = np.inf
            values.flat[4] = -np.inf
        return values


def samples(op: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """(shapes, attributes) of each sample of an operator."""
    if op in SPECIAL:
        return SPECIAL[op]
    names = [name for name, _ in OPS[op].attrs]
    if names == ["axis", "keepdims"]:
        return ARG if op.startswith("arg") else REDUCE
    if names == ["axis"]:
        return ALONG
    return [(shapes, {}) for shapes in (UNARY if len(OPS[op].params) == 1 else BINARY)]


def cases(every: bool = False) -> list[Case]:
    """Each sample and each dtype of every operator at least once, or every sample in every dtype.

    `python -m tests.fuzz.operators` runs the latter.
    """
    return [
        Case(op, dtype, number, *samples(op)[number])
        for op, record in OPS.items()
        for dtype, number in (product if every else _pairs)(record.dtypes, range(len(samples(op))))
    ]


def _pairs(dtypes: Sequence[str], numbers: range) -> list[tuple[str, int]]:
    """As many pairs as the longer of both has entries, which name all entries of both."""
    count = max(len(dtypes), len(numbers))
    return [(dtypes[n % len(dtypes)], numbers[n % len(numbers)]) for n in range(count)]
