"""CUDA C++, as NVRTC takes it: without any header."""

from functools import partial

from minimlc.loops.ir.nodes import Load, Store
from minimlc.targets.c.expr import PLUS, TIMES, Expressions
from minimlc.targets.gpu.clike import finish, functions, header, like_c, reserved, same_bits, words
from minimlc.targets.gpu.emit import IN_FLIGHT, Background
from minimlc.targets.gpu.lanes import quotient
from minimlc.targets.gpu.limits import CUDA_MOST
from minimlc.targets.gpu.mma import TEXTS, called, declared
from minimlc.targets.gpu.places import is_swizzled

WORDS = words(
    "signed char, short, int, long long",
    "unsigned char, unsigned short, unsigned, unsigned long long",
    INFINITY="__int_as_float(0x7f800000)",
    NAN="__int_as_float(0x7fc00000)",
    INT32_MIN="(-2147483647 - 1)",
    INT64_MIN="(-9223372036854775807LL - 1)",
    INT64_C="(long long)",
)

OWN = {
    **same_bits("__float_as_int", "__int_as_float"),
    "f16_to_f32": """// float16 is stored as 16 bits and computed with as float32.
static inline float f16_to_f32(uint16_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}""",
    "f32_to_f16": """// To the nearest float16, ties to even.
static inline uint16_t f32_to_f16(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}""",
    "copy_async": """// 4, 8 or 16 bytes to shared memory; the thread goes on. Older devices wait.
template <typename T>
static inline void copy_async(T *to, const T *from) {
    #if __CUDA_ARCH__ < 800
    *to = *from;
    #else
    const int size = sizeof(T);
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    if (size == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
            : : "r"(at), "l"(from), "n"(size) : "memory");
    #endif
}""",
    "copy_sent": """// The copies since the last call are a group.
static inline void copy_sent() {
    #if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
    #endif
}""",
    "copy_wait": """// Waits for all groups of copies but some of the last.
template <int last>
static inline void copy_wait() {
    #if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(last) : "memory");
    #endif
}""",
}
"""Functions for which the device has an instruction."""

_WORDS = "blockIdx threadIdx blockDim gridDim warpSize asm clock Lanes shared_memory"

LANES = """// Neighbours that are loaded and stored at once; they begin at a multiple of their size.
template <typename T, int count> struct __align__(count * sizeof(T)) Lanes { T lane[count]; };"""

KERNEL = 'extern "C" __global__ void __launch_bounds__({1}) {0}'


class CudaExpressions(Expressions):
    """C's expressions, and swizzled arrays."""

    def element(self, item: Load | Store) -> str:
        text = super().element(item)
        if not is_swizzled(item.buffer) or quotient(item.indices[-2], 8) is not None:
            return text
        row, column = map(self.visit, item.indices[-2:])
        place = f"{column.inside(PLUS)} ^ {row.inside(TIMES)} % 8 * {item.buffer.shape[-1] // 8}"
        return f"{text[: -len(column.code) - 1]}{place}]"


CUDA = like_c(
    name="cuda",
    title="CUDA",
    expressions=CudaExpressions,
    functions=partial(functions, "__device__ static inline", {**OWN, **TEXTS}),
    reserved=reserved(WORDS, _WORDS),
    barrier="__syncthreads();",
    header=partial(header, KERNEL, "{}", "__restrict__"),
    finish=partial(finish, WORDS, {r"\bLanes<": LANES}),
    shared="__shared__ __align__({1}) {0};",
    pool=(
        "extern __shared__ __align__(1024) unsigned char shared_memory[];",
        "{} = *({})(shared_memory + {});",
    ),
    fetch=f"#pragma unroll {IN_FLIGHT}",
    several="Lanes<{}, {}>",
    copy="*(Lanes<{3}, {2}> *)&{0} = *(const Lanes<{3}, {2}> *)&{1};",
    shuffle="{} = __shfl_down_sync(0xffffffffu, {}, {});",
    background=Background(
        "copy_async((Lanes<{3}, {2}> *)&{0}, (const Lanes<{3}, {2}> *)&{1});",
        "copy_sent();",
        "copy_wait<{}>();",
    ),
    tiles=declared,
    warp=called,
    limits=CUDA_MOST,
)
