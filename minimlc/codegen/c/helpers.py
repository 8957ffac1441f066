"""The small functions that C code calls where C has no operator for what the loop IR means.

Each is `static inline`, and written into the text only where it is used.
"""

import re
from collections.abc import Iterable, Mapping

from minimlc.tir.intrinsics import GELU_END, GELU_SCALE

_F16 = """
// float16 is stored as 16 bits and computed with as float.
static inline float f16_to_f32(uint16_t h) {
    const uint32_t magnitude = h & 0x7FFFu;
    uint32_t bits = magnitude << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    x *= 0x1p112f;  // moves the exponent's zero; right for subnormals too
    memcpy(&bits, &x, sizeof bits);
    if (magnitude >= 0x7C00u) {
        bits = magnitude << 13 | 0x7F800000u;  // infinity and NaN
    }
    bits |= (uint32_t)(h & 0x8000u) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}
"""

# After F. Giesen, float_to_half_fast3_rtne.
_TO_F16 = """
// To the nearest float16, ties to even.
static inline uint16_t f32_to_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u);  // NaN
    }
    if (bits >= 0x47800000u) {
        return (uint16_t)(sign | 0x7C00u);  // too large: infinity
    }
    if (bits < 0x38800000u) {  // subnormal: adding 0.5 leaves the result in the last bits
        float small;
        memcpy(&small, &bits, sizeof small);
        small += 0.5f;
        memcpy(&bits, &small, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000u));
    }
    bits += 0xC8000FFFu + (bits >> 13 & 1u);
    return (uint16_t)(sign | bits >> 13);
}
"""

_BF16 = """
// bfloat16 is stored as the upper half of a float, and computed with as float.
static inline float bf16_to_f32(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
"""

_TO_BF16 = """
// To the nearest bfloat16, ties to even.
static inline uint16_t f32_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) {
        return (uint16_t)(bits >> 16 | 0x40u);  // NaN
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
"""

_ROUND = """
static inline float round_{t}(float x) {{
    return {t}_to_f32(f32_to_{t}(x));
}}
"""

_EXTREME = """
// NaN where one of the two is NaN.
static inline {c} {name}_{t}({c} a, {c} b) {{
    return a {op} b || a != a ? a : b;
}}
"""

_INT_EXTREME = """
static inline {c} {name}_{t}({c} a, {c} b) {{
    return a {op} b ? a : b;
}}
"""

_WRAP = """
// Wraps around where C's own operator must not overflow.
static inline {c} {name}_{t}({c} a, {c} b) {{
    return ({c})((u{c})a {op} (u{c})b);
}}
"""

_NEG = """
// Wraps around for the least value.
static inline {c} neg_{t}({c} a) {{
    return ({c})(0u - (u{c})a);
}}
"""

_ABS = """
// The least value stays as it is.
static inline {c} abs_{t}({c} a) {{
    return a < 0 ? neg_{t}(a) : a;
}}
"""

_INT_FLOORDIV = """
// Rounds towards minus infinity; 0 for a zero divisor.
static inline {c} floordiv_{t}({c} a, {c} b) {{
    if (b == 0) {{
        return 0;
    }}
    if (b == -1) {{
        return neg_{t}(a);
    }}
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}}
"""

_INT_FLOORMOD = """
// Has the divisor's sign; 0 for a zero divisor.
static inline {c} floormod_{t}({c} a, {c} b) {{
    if (b == 0 || b == -1) {{
        return 0;
    }}
    const {c} rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}}
"""

_FLOAT_FLOORMOD = """
// numpy's remainder: has the divisor's sign.
static inline {c} floormod_{t}({c} a, {c} b) {{
    const {c} rest = fmod{f}(a, b);
    if (rest == 0) {{
        return copysign{f}(0, b);
    }}
    return (rest < 0) != (b < 0) ? rest + b : rest;
}}
"""

_FLOAT_FLOORDIV = """
// numpy's floor_divide: the whole number that belongs to floormod_{t}.
static inline {c} floordiv_{t}({c} a, {c} b) {{
    if (b == 0) {{
        return a / b;
    }}
    const {c} rest = fmod{f}(a, b);
    {c} whole = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) {{
        whole -= 1;
    }}
    if (whole == 0) {{
        return copysign{f}(0, a / b);
    }}
    const {c} below = floor{f}(whole);
    return whole - below > ({c})0.5 ? below + 1 : below;
}}
"""

_SHL = """
// 0 where the count is outside the type's bits.
static inline {c} shl_{t}({c} a, {c} b) {{
    return 0 <= b && b < {bits} ? ({c})(({wide})a << b) : 0;
}}
"""

_SHR = """
// What shifting one bit at a time would give where the count is outside the type's bits.
static inline {c} shr_{t}({c} a, {c} b) {{
    return 0 <= b && b < {bits} ? ({c})(a >> b) : {rest};
}}
"""

_SATURATE = """
// Drops the fraction; the nearest value where x is out of range, 0 for NaN.
static inline {c} to_{t}(double x) {{
    if (x != x) {{
        return 0;
    }}
    if (x <= {least}) {{
        return {low};
    }}
    return x >= {most} ? {high} : ({c})x;
}}
"""

_SIGMOID = """
// Of the exponential of -|x|, which does not overflow.
static inline double sigmoid_f64(double x) {
    const double grown = exp(-fabs(x));
    return (x < 0 ? grown : 1.0) / (1.0 + grown);
}
"""

_GELU = f"""
// Of erfc, which keeps its places where it is small.
static inline double gelu_f64(double x) {{
    const double kept = x < {GELU_END} ? {GELU_END} : x;
    return 0.5 * kept * erfc(kept * {GELU_SCALE});
}}
"""

_INTEGERS = {"i64": ("int64_t", 64), "i32": ("int32_t", 32)}
_SMALL = {"i16": ("int16_t", 16), "i8": ("int8_t", 8), "u8": ("uint8_t", 8)}
_FLOATS = {"f64": ("double", ""), "f32": ("float", "f")}


def _float_helpers() -> dict[str, str]:
    made = {"f16_to_f32": _F16, "f32_to_f16": _TO_F16, "sigmoid_f64": _SIGMOID}
    made["gelu_f64"] = _GELU
    made |= {"bf16_to_f32": _BF16, "f32_to_bf16": _TO_BF16}
    made |= {f"round_{t}": _ROUND.format(t=t) for t in ("f16", "bf16")}
    for t, (c, f) in _FLOATS.items():
        made[f"min_{t}"] = _EXTREME.format(name="min", t=t, c=c, op="<=")
        made[f"max_{t}"] = _EXTREME.format(name="max", t=t, c=c, op=">=")
        made[f"floormod_{t}"] = _FLOAT_FLOORMOD.format(t=t, c=c, f=f)
        made[f"floordiv_{t}"] = _FLOAT_FLOORDIV.format(t=t, c=c, f=f)
    return made


def _integer_helpers() -> dict[str, str]:
    made = {}
    for t, (c, _) in _INTEGERS.items():
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*")):
            made[f"{name}_{t}"] = _WRAP.format(name=name, t=t, c=c, op=op)
        made[f"min_{t}"] = _INT_EXTREME.format(name="min", t=t, c=c, op="<=")
        made[f"max_{t}"] = _INT_EXTREME.format(name="max", t=t, c=c, op=">=")
        for name, text in (
            ("neg", _NEG),
            ("abs", _ABS),
            ("floordiv", _INT_FLOORDIV),
            ("floormod", _INT_FLOORMOD),
        ):
            made[f"{name}_{t}"] = text.format(t=t, c=c)
    return made


def _typed_helpers() -> dict[str, str]:
    made = {}
    for t, (c, bits) in {**_INTEGERS, **_SMALL}.items():
        unsigned = t == "u8"
        low = "0" if unsigned else f"INT{bits}_MIN"
        high = f"{'U' if unsigned else ''}INT{bits}_MAX"
        least = "0.0" if unsigned else f"-0x1p{bits - 1}"
        most = "0x1p63" if bits == 64 else f"{2 ** (bits - (not unsigned)) - 1}.0"
        made[f"to_{t}"] = _SATURATE.format(t=t, c=c, least=least, low=low, most=most, high=high)
        wide = "uint64_t" if bits == 64 else "uint32_t"
        made[f"shl_{t}"] = _SHL.format(t=t, c=c, bits=bits, wide=wide)
        rest = "0" if unsigned else f"({c})(a < 0 ? -1 : 0)"
        made[f"shr_{t}"] = _SHR.format(t=t, c=c, bits=bits, rest=rest)
    return made


HELPERS = {
    name: text.strip()
    for table in (_float_helpers(), _integer_helpers(), _typed_helpers())
    for name, text in table.items()
}
"""The text of each helper."""


def helper_texts(used: Iterable[str], helpers: Mapping[str, str] = HELPERS) -> list[str]:
    """The definitions of helpers and of those they call, each after what it calls."""
    ordered: dict[str, str] = {}

    def add(name: str) -> None:
        text = helpers[name]
        for other in helpers:
            if other != name and other not in ordered and re.search(rf"\b{other}\(", text):
                add(other)
        ordered[name] = text

    for name in sorted(used):
        add(name)
    return list(ordered.values())
