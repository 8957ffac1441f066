"""Values as text that reads back exactly: attributes, numbers, arrays."""

import base64
import math
import struct
from typing import Any, NoReturn

import numpy as np

from minimlc.loops.values.dtypes import to_numpy

INLINE_ELEMENTS = 32
"""Constants of the graph level with more elements print as the base64 text of their bytes."""


class Notes(tuple):
    """A dictionary among constants, which never change: its pairs of a name and a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return dict_literal(self)


class Symbol:
    """A plain value that has no number yet, such as a size known only at the call; its text is
    its spelling in scripts.
    """

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names in it, each once."""
        raise NotImplementedError

    @property
    def bounded(self) -> tuple[Any, ...]:
        """The name, its least and its largest number, of a name with bounds; else nothing."""
        raise NotImplementedError

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for its use as a number."""
        raise NotImplementedError


def literal(value: object) -> str:
    """A plain value (number, string, None, type, tuple of these, notes) as Python source."""
    if isinstance(value, Notes):
        return dict_literal(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return float_literal(value)
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Symbol):
        return str(value)
    if type(value) is int and value.bit_length() > 4096:
        return hex(value)  # Python writes no decimals of so many digits
    return repr(value)


def dict_literal(pairs: tuple[tuple[str, object], ...]) -> str:
    """Attributes as a dict display."""
    return "{" + ", ".join(f"{quoted(key)}: {literal(value)}" for key, value in pairs) + "}"


def quoted(text: str) -> str:
    """A string literal, in double quotes where that needs no escape."""
    shown = repr(text)
    return f'"{shown[1:-1]}"' if '"' not in shown else shown


def float_literal(value: float) -> str:
    """A float as Python source: `0.5`, or `float("inf")` where no literal exists."""
    return repr(value) if math.isfinite(value) else f"float({quoted(float_word(value))})"


def float_word(value: float) -> str:
    """inf, -inf, nan, or for a NaN with other bits than Python's own, `nan:` and its bits."""
    if not math.isnan(value) or struct.pack(">d", value) == struct.pack(">d", math.nan):
        return repr(value)
    return f"nan:{struct.pack('>d', value).hex()}"


def float_from_word(word: str) -> float:
    """The reverse of `float_word`; ValueError for any other word."""
    if word.startswith("nan:"):
        bits = bytes.fromhex(word[4:].rjust(16, "0"))
        if len(bits) == 8:
            return struct.unpack(">d", bits)[0]
    return float(word)


def number_text(value: float) -> str:
    """A float inside `T.float32(...)`: whole numbers without their `.0`."""
    if not math.isfinite(value):
        return quoted(float_word(value))
    if value == int(value) and abs(value) < 2**53 and math.copysign(1, value) * value >= 0:
        whole = repr(int(value))
        return whole if struct.pack("d", float(whole)) == struct.pack("d", value) else repr(value)
    return repr(value)


def prints_inline(data: np.ndarray) -> bool:
    """Whether an array is shown element by element."""
    if data.size > INLINE_ELEMENTS or (data.size == 0 and data.shape != (0,)):
        return False
    wide = data.astype(np.float64).ravel().tolist()
    exact = np.array([float_from_word(float_word(x)) for x in wide]).astype(data.dtype)
    return exact.tobytes() == data.tobytes()


def array_literal(data: np.ndarray) -> str:
    """The elements of an array as nested lists."""
    if data.ndim == 0:
        return _element(data[()])
    return "[" + ", ".join(array_literal(np.asarray(part)) for part in data) + "]"


def _element(value: Any) -> str:
    if value.dtype.kind in "iub":
        return repr(value.item())
    exact = float(value)
    if not math.isfinite(exact):
        return float_literal(exact)
    short = str(value)
    if "." not in short and "e" not in short:
        short += ".0"
    again = np.array(float(short)).astype(value.dtype)
    return short if again.tobytes() == value.tobytes() else repr(exact)


def encode(data: np.ndarray) -> str:
    """The bytes of an array, little-endian, as base64 text."""
    plain = np.ascontiguousarray(data)
    if plain.dtype.byteorder == ">":
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    return base64.b64encode(plain.tobytes()).decode("ascii")


def decode(text: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The reverse of `encode`; ValueError where the text does not fit shape and dtype."""
    raw = base64.b64decode(text, validate=True)
    return np.frombuffer(raw, dtype=to_numpy(dtype)).reshape(shape)


def names_in(values: object) -> list[str]:
    """The names of the symbols in a value, and in tuples, each once, in order."""
    if isinstance(values, Symbol):
        return list(values.names)
    if not isinstance(values, tuple):
        return []
    return list(dict.fromkeys(name for value in values for name in names_in(value)))
