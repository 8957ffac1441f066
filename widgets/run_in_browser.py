"""A kernel that the reader's browser runs, by WebGPU."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import compress
from math import prod
from typing import Any, NamedTuple

import numpy as np
from minimlc_widgets.base import View, source
from minimlc_widgets.functions import function_of
from minimlc_widgets.grids import element_text, shape_text
from traitlets import Dict, List, Unicode

from minimlc.gpusim.launch import launch
from minimlc.loops.ir.arguments import Arguments, parameters_of, written
from minimlc.loops.ir.nodes import Buffer, Load
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import nodes_of
from minimlc.targets.gpu.emit import emit
from minimlc.targets.gpu.kernels import Launches, kernels
from minimlc.targets.gpu.launch import launch_text
from minimlc.targets.gpu.wgsl import WGSL

MOST_BYTES = 1 << 19
"""Of arrays that a page may carry."""
BOUNDS = {"float32": 1e-5, "float16": 2e-3}
"""How far a result may be from the simulator's, of its largest value: an implementation of WGSL may
reorder sums, fuse them with products, and has an exp and a log of its own."""
FIRST = 8  # values that are shown


class Result(NamedTuple):
    """A parameter's expected values, and how far from them the results may be."""

    buffer: Buffer
    expected: np.ndarray
    bound: float


class RunInBrowser(View):
    """A function's kernels as WGSL, with a button: the browser runs them on these arrays, and
    compares the results with the simulator's.

    `RunInBrowser(sch, "main", a, b, c)`: a module, function, schedule or library whose loops are
    bound to threads, and the arguments of a call, which stay as they are; results start from zeros
    where the kernels only write them. Everything is in the page: it needs no kernel of a notebook,
    no library and no network, and shows one sentence where there is no WebGPU. `bound` is the
    largest difference that agrees; None takes 1e-5 of a result's largest value (float16: 2e-3), and
    0 for integers. `BuildError` E511 for what WGSL lacks, `CompileError` for arrays of more than
    512 KiB. In a notebook, `outcome` has what the browser found.
    """

    _esm = source("prelude.js", "run_in_browser.js")
    _css = source("base.css", "gpu.css")
    title = Unicode().tag(sync=True)
    code = Unicode().tag(sync=True)
    buffers = List(Dict()).tag(sync=True)
    results = List(Dict()).tag(sync=True)
    launches = List(Dict()).tag(sync=True)
    outcome = Dict().tag(sync=True)

    def __init__(
        self, mod: Any, func: str | None = None, *arrays: Any, bound: float | None = None
    ) -> None:
        name, found = function_of(mod, func)
        emitted = emit({name: found}, WGSL)
        workspace, self.launched = emitted.functions[name]
        inputs, self.expected = _run(name, kernels(name, found), arrays, bound)
        order = [*found.params, *workspace]
        carried = [*map(_text_of, inputs), *("" for _ in workspace)]
        super().__init__(
            title=name,
            code=emitted.text,
            buffers=[_buffer_state(b, data) for b, data in zip(order, carried, strict=True)],
            results=[_result_state(order.index(result.buffer), result) for result in self.expected],
            launches=[
                {
                    "symbol": entry.symbol,
                    "text": launch_text(entry.kernel.grid, entry.kernel.block),
                    "grid": list(entry.kernel.grid),
                    "bindings": [order.index(buffer) for buffer in entry.kernel.params],
                }
                for entry in self.launched
            ],
        )

    def static_html(self) -> str:
        """The code; the last bits of results could differ from machine to machine."""
        about = escape(f"{self._about()}. A browser with scripts and WebGPU runs it in this place.")
        code = f"<details><summary>WGSL</summary><pre>{escape(self.code)}</pre></details>"
        return f"<p>{about}</p>{code}"

    def text(self) -> str:
        return f"WebGPU, run by the browser: {self._about()}"

    def _about(self) -> str:
        launched = (f"{entry['symbol']}: {entry['text']}" for entry in self.launches)
        sizes = (f"{r.buffer.name} {shape_text(r.buffer.shape)}" for r in self.expected)
        return f"{'; '.join(launched)}; results: {', '.join(sizes)}"


def _run(
    name: str, form: Launches, arrays: Sequence[Any], bound: float | None
) -> tuple[list[np.ndarray], list[Result]]:
    """The arrays that the kernels start from, and the simulator's results."""
    given, _ = Arguments(name, parameters_of(form.func)).check(list(arrays), {})
    read = {load.buffer for kernel in form.kernels for load in nodes_of(kernel.body, Load)}
    pairs = zip(form.func.params, given, strict=True)
    inputs = [np.zeros_like(a) if p not in read else a.copy() for p, a in pairs]
    results = [array.copy() for array in inputs]
    stored = [p in written(form.func) for p in form.func.params]
    _check_size([*inputs, *compress(results, stored)])
    launch(form, results)
    kept = compress(zip(form.func.params, results, strict=True), stored)
    return inputs, [Result(p, r, _bound(r) if bound is None else bound) for p, r in kept]


def _check_size(arrays: Sequence[np.ndarray]) -> None:
    size = sum(array.nbytes for array in arrays)
    if size > MOST_BYTES:
        why = f"the page would carry {size:,} bytes of arrays, more than {MOST_BYTES:,}"
        raise CompileError(why, hint="show the kernel at a smaller size")


def _bound(expected: np.ndarray) -> float:
    """The largest difference that agrees."""
    share = BOUNDS.get(expected.dtype.name, 0.0)
    sizes = np.abs(expected[np.isfinite(expected)].astype(np.float64)) if share else np.zeros(1)
    return share * float(sizes.max(initial=0.0))


def _text_of(array: np.ndarray) -> str:
    """The bytes as text; nothing for zeros."""
    data = array.tobytes()
    return b64encode(data).decode() if any(data) else ""


def _buffer_state(buffer: Buffer, data: str) -> dict[str, Any]:
    size = prod(buffer.shape) * to_numpy(buffer.dtype).itemsize
    return {"name": buffer.name, "dtype": buffer.dtype, "bytes": size, "data": data}


def _result_state(number: int, result: Result) -> dict[str, Any]:
    return {
        "buffer": number,
        "expected": _text_of(result.expected),
        "bound": result.bound,
        "names": _names(result),
    }


def _names(result: Result) -> list[str]:
    """The first elements."""
    count = min(FIRST, result.expected.size)
    return [element_text(result.buffer, number) for number in range(count)]
