"""Tensor cores in CUDA C++: tiles as registers of the threads of a warp, and functions on them.

The places of a tile's elements are from the PTX ISA, "Matrix Fragments for mma.m16n8k16" (of 16-bit
floats) and "... mma.m16n8k32" (of bytes). Thread 4 n + m has registers of 32 bits, neighbours along
k in each: of `a` from rows n and n + 8, of `b` from column n; and of the sums columns 2 m
and 2 m + 1 of rows n and n + 8.
"""

from collections.abc import Sequence
from math import prod

from minimlc.loops.ir.nodes import SHARED, Buffer, Load
from minimlc.loops.values.dtypes import DTYPES
from minimlc.targets.gpu.lanes import BYTES, quotient
from minimlc.targets.gpu.warps import FRAGMENT, Warp, is_group, kind_of
from minimlc.targets.source.writer import Texts

TYPES = {"float32": "float", "int32": "int32_t"}
"""The types of registers; registers of factors are words."""


def declared(tiles: Buffer, name: str) -> str:
    """The declaration of a buffer of tiles."""
    bits, kind = DTYPES[tiles.dtype].bits, TYPES.get(tiles.dtype, "uint32_t")
    elements = 16 * 8 if kind != "uint32_t" else (16 if "_a" in tiles.scope else 8) * 256 // bits
    return f"{kind} {name}[{prod(tiles.shape) // elements}][{elements * bits // 1024}];"


def called(item: Warp, exprs: Texts) -> str:
    """The call that does a unit's work."""
    name, turned = item.name.removesuffix("_turned"), item.name.endswith("_turned")
    kind, arguments = kind_of(name), list[str]()
    name = name if name in TEXTS else f"mma_{kind}"
    passed = ((), item.steps[1][:1], ()) if is_group(item) else item.steps
    for place, steps in zip(item.places, passed, strict=True):
        if place.buffer.scope.startswith(FRAGMENT):
            number = exprs.visit(place.indices[0]).code
            arguments.append(f"{exprs.names[place.buffer].code}[{number}]")
        else:
            steps = steps[::-1] if turned else steps
            arguments += [f"&{exprs.element(place)}", *map(str, steps)]
            name += _layout(kind, place, *steps) if "load" in kind else ""
    return f"{name}({', '.join(arguments)});"


def _layout(kind: str, place: Load, down: int, right: int) -> str:
    """How `ldmatrix` finds a tile: by rows or by columns, pieces of shared memory that begin at
    multiples of 16 bytes; "" where it does not.
    """
    layout, count = "_rows" if right == 1 else "_columns", 8 * BYTES // DTYPES[place.dtype].bits
    whole = place.buffer.shape[-1] % count == 0 and quotient(place.indices[-1], count) is not None
    turns = ".trans" in TEXTS[f"mma_{kind}{layout}"] and count != 8
    fits = whole and 1 in (down, right) and place.buffer.scope.startswith(SHARED)
    return layout if fits and not turns else ""


def _registers(array: str, numbers: Sequence[int], kind: str) -> str:
    return ", ".join(f'"{kind}"({array}[{number}])' for number in numbers)


def _matrices(name: str, step: str, across: str, along: str, turned: str = "") -> str:
    """A load of 8 by 8 matrices, one register for each; threads 8 n ... 8 n + 7 find the rows of
    the n-th. They are `step` apart, the matrices `across` them and `along` them. Only 16-bit
    elements can be `turned`.
    """
    count = 4 if "_a_" in name else 2
    listed = ", ".join(f"%{number}" for number in range(count))
    return f"""template <typename T>
static inline void {name}(const T *from, int down, int right, uint32_t *tile) {{
    const int lane = threadIdx.x;
    const T *row = from + (lane % 8 + {across} * 8) * {step} + {along} * (16 / sizeof(T));
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 {{{listed}}}, [%{count}];"
        : {_registers("tile", range(count), "=r")}
        : "r"(at) : "memory");
}}"""


def _words(name: str, count: int, across: str, along: str, step: str, by: str) -> str:
    """A load word by word: `count` registers, `across` and `along` k from the thread's first one,
    the latter in words; rows or columns are `step` apart, neighbours along k `by`.
    """
    return f"""template <typename T>
static inline void {name}(const T *from, int down, int right, uint32_t *tile) {{
    const int count = 4 / sizeof(T), line = threadIdx.x / 4, k = threadIdx.x % 4 * count;
    #pragma unroll
    for (int n = 0; n < {count}; ++n) {{
        const T *first = from + (line + {across}) * {step} + (k + {along} * 4 * count) * {by};
        tile[n] = mma_word(first, {by});
    }}
}}"""


def _product(kind: str, shape: str, a: Sequence[int], b: Sequence[int], c: Sequence[int]) -> str:
    """The instruction on some registers of the operands."""
    sums, register = ("s32", "+r") if kind == "s8" else ("f32", "+f")
    numbers = iter(range(len(a) + len(b) + len(c)))
    total, *factors = (", ".join(f"%{next(numbers)}" for _ in part) for part in (c, a, b))
    listed = ", ".join(f"{{{part}}}" for part in (total, *factors, total))
    return f"""    asm volatile("mma.sync.aligned.{shape}.row.col.{sums}.{kind}.{kind}.{sums} "
        "{listed};"
        : {_registers("c", c, register)}
        : {_registers("a", a, "r")}, {_registers("b", b, "r")});"""


def _mma(name: str, kind: str, shape: str, *older: str) -> str:
    """The instruction of devices from sm_80 on, and its replacement on `older` ones."""
    old = "\n".join(older) or f"    #error mma.{shape}.{kind} is for sm_80 and newer devices"
    sums = "int32_t" if kind == "s8" else "float"
    return f"""static inline void {name}(const uint32_t *a, const uint32_t *b, {sums} *c) {{
    #if __CUDA_ARCH__ < 800
{old}
    #else
{_product(kind, shape, range(4), range(2), range(4))}
    #endif
}}"""


def _group(kind: str) -> str:
    """Sums of four warps: 64 rows and 128 columns, of 64 products. Rows of 128 bytes are swizzled
    (PTX ISA, "Asynchronous warpgroup-level matrix instructions": 128-byte swizzle, `a` by its rows,
    `b` by its columns). Other devices have an instruction for 8 columns.
    """
    listed = ", ".join(f"%{number}" for number in range(64))
    return f"""// Of four warps, each with 16 rows; columns of `b` are in two parts, so far `apart`.
template <typename T>
static inline void mma_group_{kind}(const T *a, const T *b, int apart, float *c) {{
    const uint32_t first = (uint32_t)__cvta_generic_to_shared(a);
    const uint32_t second = (uint32_t)__cvta_generic_to_shared(b);
    #if __CUDA_ARCH_FEAT_SM90_ALL
    const uint64_t form = 1ull << 62 | 64ull << 32, rows = first - threadIdx.y % 4 * 2048;
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
    #pragma unroll
    for (int k = 0; k < 4; ++k) {{
        const uint64_t left = form | (rows + 32 * k) >> 4;
        const uint64_t right = form | (uint64_t)(apart / 8) << 16 | (second + 2048 * k) >> 4;
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.{kind}.{kind} "
            "{{{listed}}}, %64, %65, 1, 1, 1, 0, 1;"
            : {_registers("c", range(64), "+f")}
            : "l"(left), "l"(right));
    }}
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    #else
    const int row = threadIdx.x % 16, place = row * 128 + (threadIdx.x / 16 ^ row % 8) * 16;
    #pragma unroll 1
    for (int k = 0; k < 4; ++k) {{
        uint32_t left[4], right[4];
        const uint32_t from = first + place ^ 32 * k;
        {_LOADED.format("left", "from", turned="")}
        #pragma unroll
        for (int n = 0; n < 8; ++n) {{
            const uint32_t at = second + n / 4 * apart * 2 + 2048 * k + place ^ n % 4 * 32;
            {_LOADED.format("right", "at", turned=".trans")}
            mma_{kind}(left, right, c + 8 * n);
            mma_{kind}(left, right + 2, c + 8 * n + 4);
        }}
    }}
    #endif
}}"""


_LOADED = """asm volatile("ldmatrix.sync.aligned.m8n8.x4{turned}.shared.b16 "
            "{{%0, %1, %2, %3}}, [%4];"
            : "=r"({0}[0]), "=r"({0}[1]), "=r"({0}[2]), "=r"({0}[3]) : "r"({1}) : "memory");"""

_HALVES = [_product("f16", "m16n8k8", (2 * k, 2 * k + 1), (k,), range(4)) for k in (0, 1)]
_QUARTERS = [
    _product("s8", "m8n8k16", (row + 2 * k,), (k,), (2 * row, 2 * row + 1))
    for row, k in ((0, 0), (0, 1), (1, 0), (1, 1))
]
"""The instructions of older devices for one of newer ones."""

_LAYOUTS = {
    "mma_load_a_rows": ("down", "lane / 8 % 2", "lane / 16"),
    "mma_load_a_columns": ("right", "lane / 16", "lane / 8 % 2", ".trans"),
    "mma_load_b_rows": ("down", "lane / 8 % 2", "0", ".trans"),
    "mma_load_b_columns": ("right", "0", "lane / 8 % 2"),
}
"""How `ldmatrix` loads tiles by rows and by columns."""

_STORE = """template <typename T, typename C>
static inline void {}(const C *tile, T *to, int down, int right) {{
    const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
    #pragma unroll
    for (int n = 0; n < 4; ++n) {{
        to[(row + n / 2 * 8) * down + (column + n % 2) * right] = {};
    }}
}}"""

TEXTS = {
    "mma_word": """// Neighbours, `step` apart, in one register.
template <typename T>
static inline uint32_t mma_word(const T *from, int step) {
    uint32_t word = 0;
    #pragma unroll
    for (int n = 0; n < 4 / (int)sizeof(T); ++n) {
        word |= (from[n * step] & (0xffffffffu >> (32 - 8 * sizeof(T)))) << (8 * sizeof(T) * n);
    }
    return word;
}""",
    "mma_load_a": _words("mma_load_a", 4, "n % 2 * 8", "n / 2", "down", "right"),
    "mma_load_b": _words("mma_load_b", 2, "0", "n", "right", "down"),
    "mma_zero": """template <typename C>
static inline void mma_zero(C *tile) {
    tile[0] = tile[1] = tile[2] = tile[3] = 0;
}""",
    "mma_store": _STORE.format("mma_store", "(T)tile[n]"),
    "mma_store_f16": _STORE.format("mma_store_f16", "f32_to_f16(tile[n])"),
    "mma_store_bf16": _STORE.format("mma_store_bf16", "f32_to_bf16(tile[n])"),
    **{name: _matrices(name, *row) for name, row in _LAYOUTS.items()},
    "mma_f16": _mma("mma_f16", "f16", "m16n8k16", *_HALVES),
    "mma_bf16": _mma("mma_bf16", "bf16", "m16n8k16"),
    "mma_group_f16": _group("f16"),
    "mma_group_bf16": _group("bf16"),
    "mma_visible": """// What was written to shared memory is seen by instructions of several warps.
static inline void mma_visible() {
    #if __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    #endif
}""",
    "mma_i8": _mma("mma_i8", "s8", "m16n8k32", *_QUARTERS),
}
"""Functions by name; those that load by rows or columns let `ldmatrix` do it."""
