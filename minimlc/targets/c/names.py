"""Names in C: the user's own, made legal, and kept apart from keywords and the C library's."""

import re
from collections.abc import Iterable

from minimlc.loops.values.errors import identifier
from minimlc.loops.values.names import UniqueNames


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while asm typeof bool true false alignas alignof constexpr
    nullptr static_assert thread_local main and and_eq bitand bitor catch class compl const_cast
    delete dynamic_cast explicit export friend mutable namespace new not not_eq operator or or_eq
    private protected public reinterpret_cast static_cast template this throw try typeid typename
    using virtual wchar_t xor xor_eq linux unix i386"""
)
"""C's, the later standards' and C++'s: the text should also survive in a header."""

_MATH = _words(
    """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2
    expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log
    log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder
    remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc"""
)
_MACROS = _words(
    """isnan isinf isfinite isnormal signbit fpclassify isgreater isgreaterequal isless
    islessequal islessgreater isunordered INFINITY NAN HUGE_VAL HUGE_VALF HUGE_VALL FP_NAN
    FP_INFINITE FP_ZERO FP_SUBNORMAL FP_NORMAL FP_ILOGB0 FP_ILOGBNAN MATH_ERRNO MATH_ERREXCEPT
    math_errhandling NULL EXIT_FAILURE EXIT_SUCCESS RAND_MAX MB_CUR_MAX SIZE_MAX INTPTR_MAX
    INTPTR_MIN UINTPTR_MAX INTMAX_MAX INTMAX_MIN UINTMAX_MAX PTRDIFF_MAX PTRDIFF_MIN"""
)
_LIBRARY = _words(
    """malloc calloc realloc free abort exit atexit getenv system abs labs llabs div ldiv
    lldiv qsort bsearch rand srand atof atoi atol atoll strtod strtof strtol strtoll strtoul
    strtoull strtold mblen mbtowc wctomb mbstowcs wcstombs aligned_alloc at_quick_exit quick_exit
    memcpy memmove memset memcmp memchr strcpy strncpy strcat strncat strcmp strncmp strcoll
    strxfrm strchr strrchr strcspn strspn strpbrk strstr strtok strlen strerror bcmp bzero alloca
    random srandom select read write open close fork wait time clock stat signal printf puts putc
    getc index rindex"""
)
_TYPES = _words(
    """size_t ssize_t ptrdiff_t div_t ldiv_t lldiv_t float_t double_t intptr_t uintptr_t
    intmax_t uintmax_t"""
)
_BESSEL = ("j0", "j1", "jn", "y0", "y1", "yn", "gamma", "drem", "significand", "signgam", "finite")

LOCAL = KEYWORDS | {
    *(f"{name}{kind}" for name in _MATH for kind in ("", "f", "l")),
    *("malloc", "free", "memcpy", "status", "f16", "bf16"),
    *_MACROS,
    *_TYPES,
}
"""Names that no parameter, buffer or loop takes: the text itself may use them."""

GLOBAL = LOCAL | {*_LIBRARY, *_BESSEL}
"""Names that no function takes: it would stand in for the C library's."""

_FAMILIES = re.compile(r"U?INT(_LEAST|_FAST)?\d+_(MAX|MIN|C)|u?int(_least|_fast)?\d+_t|omp_.*")


def spelled(text: str) -> str:
    """`text` as a C identifier: plain letters, and no underscore in front, which C reserves."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", identifier(text))
    if name.startswith("_") or not name or name[0].isdigit():
        name = f"v{name}"
    return f"{name}_" if _FAMILIES.fullmatch(name) else name


def unique_names(reserved: Iterable[str]) -> UniqueNames:
    """Names of one scope that stay clear of `reserved`."""
    return UniqueNames(reserved=reserved, spell=spelled)


def comment(text: str) -> str:
    """`text` behind `//`: nothing in it can end the comment's line or carry it on to the next."""
    return "// " + re.sub(r"[^ -~]|\\|\?\?", "_", text)
