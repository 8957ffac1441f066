"""OpenCL C 1.2."""

from minimlc.codegen.c.expr import STORED, Expressions
from minimlc.codegen.gpu.clike import LOOP, array, finish, functions, header, reserved
from minimlc.codegen.gpu.emit import Language

_MATH = ("sqrt", "fabs", "rint", "floor", "ceil", "trunc", "copysign", "fmod", "exp", "log", "erfc")
WORDS = {
    "uint64_t": "ulong",
    "int64_t": "long",
    "uint32_t": "uint",
    "int32_t": "int",
    "uint16_t": "ushort",
    "int16_t": "short",
    "uint8_t": "uchar",
    "int8_t": "char",
    "INT32_MIN": "INT_MIN",
    "INT64_MIN": "LONG_MIN",
    "INT64_C": "(long)",
    "half": "half_",
    **{f"{name}f": name for name in (*_MATH, "pow", "sin", "cos", "tanh", "erf")},
}

OWN = {
    "bits_f32": """static inline int32_t bits_f32(float x) {
    return as_int(x);
}""",
    "number_f32": """static inline float number_f32(int32_t bits) {
    return as_float(bits);
}""",
}

_WORDS = """kernel global local constant private half event_t image2d_t sampler_t uchar ushort
    uint ulong half_ barrier get_group_id get_local_id as_int as_float vload4 vstore4
    read_only write_only read_write uniform pipe quad complex imaginary select clamp mix
    step sign cross dot length distance normalize degrees radians smoothstep mad any all
    rsqrt vload2 vload8 vload16 vstore2 vstore8 vstore16 M_PI"""

OPENCL = Language(
    name="opencl",
    title="OpenCL C",
    syntax=LOOP,
    expressions=Expressions,
    stored=STORED,
    functions=functions("static inline", OWN),
    reserved=reserved({**WORDS, **dict.fromkeys(WORDS.values(), "")}, _WORDS),
    array=array,
    axis="const {} {} = {};",
    places={"blockIdx": "get_group_id({1})", "threadIdx": "get_local_id({1})"},
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    header=header("__kernel void {0}", "__global {}", "restrict"),
    finish=finish(WORDS, {r"\bdouble\b": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"}),
    shared="__local {};",
    unroll="#pragma unroll",
    copy="vstore{2}(vload{2}(0, &{1}), 0, &{0});",
    wide=("*({}float{} *)&{}", "(float{})({})", "{} __attribute__((aligned({})))"),
)
