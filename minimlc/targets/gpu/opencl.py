"""OpenCL C 1.2."""

from functools import partial
from itertools import chain, product

from minimlc.targets.gpu.clike import finish, functions, header, like_c, reserved, same_bits, words

_MATH = ("sqrt", "fabs", "rint", "floor", "ceil", "trunc", "copysign", "fmod", "exp", "log", "erfc")
WORDS = words(
    "char, short, int, long",
    "uchar, ushort, uint, ulong",
    INT32_MIN="INT_MIN",
    INT64_MIN="LONG_MIN",
    INT64_C="(long)",
    half="half_",
    **{f"{name}f": name for name in (*_MATH, "pow", "sin", "cos", "tanh", "erf")},
)

_WORDS = """kernel global local constant event_t image2d_t sampler_t barrier get_group_id
    get_local_id as_int as_float read_only write_only read_write uniform pipe quad complex imaginary
    M_E M_PI MAXFLOAT FLT_MAX INT_MAX CHAR_BIT CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE get_work_dim
    get_global_size get_global_id get_local_size get_num_groups get_global_offset select bitselect
    clamp mix step sign cross dot length distance normalize fast_length fast_distance fast_normalize
    degrees radians smoothstep mad any all rsqrt abs abs_diff add_sat sub_sat hadd rhadd clz
    popcount max min mad_hi mad_sat mul_hi rotate upsample mad24 mul24 acospi asinpi atanpi atan2pi
    cospi sinpi tanpi exp10 fract lgamma_r maxmag minmag pown powr rootn sincos isequal isnotequal
    isordered prefetch shuffle shuffle2 vec_step mem_fence read_mem_fence write_mem_fence
    async_work_group_copy wait_group_events printf"""
_FAMILIES = {
    "char uchar short ushort int uint long ulong float double half vload vstore": "2 3 4 8 16",
    "as_ convert_": "char uchar short ushort int uint long ulong float double",
    "half_ native_": "cos sin tan divide exp exp2 exp10 log log2 log10 powr recip rsqrt sqrt",
    "atomic_ atom_": "add sub xchg inc dec cmpxchg min max and or xor",
}
"""Names by their beginnings and ends."""


_PAIRS = chain.from_iterable(product(*map(str.split, family)) for family in _FAMILIES.items())

OPENCL = like_c(
    name="opencl",
    title="OpenCL C",
    functions=partial(functions, "static inline", same_bits("as_int", "as_float")),
    reserved=reserved({*WORDS, *WORDS.values()}, " ".join([_WORDS, *map("".join, _PAIRS)])),
    places={"blockIdx": "get_group_id({1})", "threadIdx": "get_local_id({1})"},
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    header=partial(header, "__kernel void {0}", "__global {}", "restrict"),
    finish=partial(finish, WORDS, {r"\bdouble\b": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"}),
    shared="__local {};",
    copy="vstore{2}(vload{2}(0, &{1}), 0, &{0});",
    # PoCL 3.1 puts its own barriers into innermost loops of kernels that have some, and goes
    # wrong where these come to stand under a condition that is the same for all threads.
    zero="const int {} = get_local_id(0) >> 30; // PoCL 3.1 spoils loops from 0",
    wide=("*({}float{} *)&{}", "(float{})({})", "{} __attribute__((aligned({})))"),
)
