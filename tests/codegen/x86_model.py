"""A model in software of x86's tensor instructions, to run code for machines that we have not.

LLVM text that was written for such a machine calls the instructions by name. Here each name is
given a body: plain LLVM code for the sums in vectors, and for tiles a Python function that also
checks how the instructions are used: a thread sets its tiles up first and gives them back at last.
"""

import ctypes
import re
import threading
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

import minimlc as mlc
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.kernel import entry_point, link, machine_of
from minimlc.loops.llvm.machine import compile_object
from minimlc.loops.llvm.value import symbol
from minimlc.loops.values.target import Target
from minimlc.services.threads.parallel import symbols

TILE_FACTORS = {
    "tdpbf16ps": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32),
    "tdpbssd": (np.int8, np.int8, np.int32),
    "tdpbsud": (np.int8, np.uint8, np.int32),
    "tdpbusd": (np.uint8, np.int8, np.int32),
    "tdpbuud": (np.uint8, np.uint8, np.int32),
}


class Tiles:
    """The tile registers of all threads, and what was done wrong with them."""

    def __init__(self) -> None:
        self.own: dict[int, np.ndarray] = {}  # by thread: C's threads have no locals in Python
        self.faults: list[str] = []
        self.used: dict[str, int] = {}

    def tile(self, number: int) -> np.ndarray:
        if threading.get_native_id() not in self.own:
            self.faults.append("a tile is used before ldtilecfg")
            self.own[threading.get_native_id()] = np.zeros((8, 1024), np.uint8)
        return self.own[threading.get_native_id()][number]

    def note(self, name: str) -> None:
        self.used[name] = self.used.get(name, 0) + 1

    def ldtilecfg(self, address: int) -> None:
        self.note("ldtilecfg")
        table = np.ctypeslib.as_array((ctypes.c_uint8 * 64).from_address(address))
        widths, rows = table[16:32].view(np.uint16), table[48:56]
        reserved = [*table[1:16], *table[32:48], *table[56:]]
        if table[0] != 1 or any(reserved) or list(widths) != [64] * 8 or list(rows) != [16] * 8:
            self.faults.append(f"the tile configuration is {list(table)}")
        self.own[threading.get_native_id()] = np.zeros((8, 1024), np.uint8)

    def tilerelease(self) -> None:
        self.note("tilerelease")
        if self.own.pop(threading.get_native_id(), None) is None:
            self.faults.append("tiles are released twice")

    def tilezero(self, number: int) -> None:
        self.tile(number)[:] = 0

    def tileloadd64(self, number: int, address: int, step: int) -> None:
        for row in range(16):
            part = (ctypes.c_uint8 * 64).from_address(address + row * step)
            self.tile(number)[64 * row : 64 * (row + 1)] = np.ctypeslib.as_array(part)

    def tilestored64(self, number: int, address: int, step: int) -> None:
        for row in range(16):
            part = (ctypes.c_uint8 * 64).from_address(address + row * step)
            np.ctypeslib.as_array(part)[:] = self.tile(number)[64 * row : 64 * (row + 1)]

    def dot(self, name: str) -> Callable[[int, int, int], None]:
        left, right, result = TILE_FACTORS[name]

        def act(c: int, a: int, b: int) -> None:
            self.note(name)
            sums = self.tile(c).view(result).reshape(16, 16)
            rows = self.tile(a).view(left).astype(np.float64).reshape(16, 16, -1)
            columns = self.tile(b).view(right).astype(np.float64).reshape(16, 16, -1)
            product = np.einsum("ikp,kjp->ij", rows, columns)
            sums += product.astype(np.int64 if result == np.int32 else np.float32).astype(result)

        return act

    def functions(self) -> dict[str, object]:
        """Each instruction as a C function."""
        number, pointer, step = ctypes.c_int8, ctypes.c_void_p, ctypes.c_int64
        kinds = {
            "ldtilecfg": [pointer],
            "tilerelease": [],
            "tilezero": [number],
            "tileloadd64": [number, pointer, step],
            "tilestored64": [number, pointer, step],
        }
        made: dict[str, object] = {
            name: ctypes.CFUNCTYPE(None, *kind)(getattr(self, name)) for name, kind in kinds.items()
        }
        for name in TILE_FACTORS:
            made[name] = ctypes.CFUNCTYPE(None, number, number, number)(self.dot(name))
        return made


VECTORS = {  # name: (lanes, products, extension of either factor, bits, whether sums are given)
    "avx512.vpdpbusd.512": (16, 4, ("zext", "sext"), 8, True),
    "avx512.vpdpbusd.256": (8, 4, ("zext", "sext"), 8, True),
    "avx2.vpdpbssd.256": (8, 4, ("sext", "sext"), 8, True),
    "avx512.vpdpwssd.512": (16, 2, ("sext", "sext"), 16, True),
    "avx512.pmaddw.d.512": (16, 2, ("sext", "sext"), 16, False),
    "avx2.pmadd.wd": (8, 2, ("sext", "sext"), 16, False),
    "sse2.pmadd.wd": (4, 2, ("sext", "sext"), 16, False),
    "avx512bf16.dpbf16ps.512": (16, 2, ("bf16", "bf16"), 16, True),
}


def vector_body(name: str, parameters: Sequence[str]) -> str:
    """LLVM code for one instruction: products side by side, added up group by group."""
    lanes, depth, extensions, bits, given = VECTORS[name]
    count, floats = lanes * depth, extensions[0] == "bf16"
    result = f"<{lanes} x {'float' if floats else 'i32'}>"
    wide = f"<{count} x {'float' if floats else 'i32'}>"
    lines = []
    factors = parameters[1:] if given else parameters
    for side, kind, extension in zip("ab", factors, extensions, strict=True):
        lines.append(f"%{side}n = bitcast {kind} %{side} to <{count} x i{bits}>")
        plain = "zext" if floats else extension
        lines.append(f"%{side}w = {plain} <{count} x i{bits}> %{side}n to <{count} x i32>")
        if floats:
            shift = f"<{count} x i32> %{side}w, splat (i32 16)"
            lines.append(f"%{side}s = shl {shift}")
            lines.append(f"%{side}f = bitcast <{count} x i32> %{side}s to {wide}")
    end = "f" if floats else "w"
    lines.append(f"%p = {'fmul' if floats else 'mul'} {wide} %a{end}, %b{end}")
    total = "%c" if given else "zeroinitializer"
    for part in range(depth):
        places = ", ".join(f"i32 {depth * lane + part}" for lane in range(lanes))
        lines.append(
            f"%g{part} = shufflevector {wide} %p, {wide} poison, <{lanes} x i32> <{places}>"
        )
        lines.append(f"%t{part} = {'fadd' if floats else 'add'} {result} {total}, %g{part}")
        total = f"%t{part}"
    names = [*(["c"] if given else []), "a", "b"]
    listed = ", ".join(f"{kind} %{each}" for kind, each in zip(parameters, names, strict=True))
    body = "\n  ".join([*lines, f"ret {result} {total}"])
    return f"define internal {result} @model.{name}({listed}) noinline {{\n  {body}\n}}"


DECLARED = re.compile(
    r"^declare (?P<result>.*) @llvm\.x86\.(?P<name>[\w.]+)\((?P<kinds>.*)\)$", re.M
)


def modelled(text: str) -> tuple[str, set[str]]:
    """LLVM text that calls the model, and the names of the instructions that it calls."""
    names = set()

    def body(found: re.Match[str]) -> str:
        name, kinds = found["name"], re.findall(r"<[^>]*>|\w+", found["kinds"])
        names.add(name)
        if name in VECTORS:
            return vector_body(name, kinds)
        return f"declare void @model.{name}({found['kinds']})"

    return DECLARED.sub(body, text).replace("@llvm.x86.", "@model."), names


def run(mod: mlc.IRModule, target: Target, arrays: Sequence[np.ndarray]) -> tuple[set[str], Tiles]:
    """Run a module's only function as code for another machine; its instructions by the model."""
    ((name, func),) = mod.functions.items()
    text, used = modelled(emit_llvm({name: func}, machine_of(target)).text)
    host = Target.host()
    code = compile_object(text, machine_of(host)._replace(vector_bits=host.vector_bits))
    tiles = Tiles()
    functions = tiles.functions()
    imports = {
        f"model.{each}": ctypes.cast(function, ctypes.c_void_p).value or 0
        for each, function in functions.items()
    }
    library = link([code], [symbol(name)], {**symbols(), **imports})
    entry = entry_point(library.addresses[symbol(name)], len(arrays))
    assert entry(*[array.ctypes.data for array in arrays]) == 0
    return used, tiles
