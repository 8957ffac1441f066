"""Colours for scripts of both IRs: Python's lexer, plus the names of T, R and I."""

from functools import cache, lru_cache
from typing import ClassVar

from pygments.lexer import bygroups, inherit
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name, _TokenType, string_to_tokentype

TYPES = r"(?:bool|handle|Buffer|Tensor|Tuple|b?float\d+|u?int\d+)"

CLASSES = (
    ("Keyword.Constant", "kc"),
    ("Keyword.Type", "kt"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Name.Namespace", "nn"),
    ("Name.Builtin", "nb"),
    ("Name.Function", "nf"),
    ("Name.Class", "nc"),
    ("Name.Decorator", "nd"),
    ("Literal.String", "s"),
    ("Literal.Number", "m"),
    ("Comment", "c"),
)
"""Kinds of token and their class names in HTML, those of Pygments; the rest is plain text."""

_KINDS = tuple((string_to_tokentype(kind), name) for kind, name in CLASSES)

Tokens = tuple[str, ...]
"""A line as class, text, class, text, ...; the texts join to the line."""


class IRLexer(PythonLexer):
    """Scripts as `mod.script()` prints them."""

    name = "minimlc script"
    aliases: ClassVar[list[str]] = ["minimlc"]
    filenames: ClassVar[list[str]] = []
    mimetypes: ClassVar[list[str]] = []
    tokens: ClassVar[dict] = {
        "name": [(r"@[TRI]\.\w+", Name.Decorator), inherit],
        "expr": [
            (rf"\b([TRI]\.)({TYPES})\b", bygroups(Name.Namespace, Keyword.Type)),
            (r"\b([TRI]\.)(\w+(?:\.\w+)*)", bygroups(Name.Namespace, Name.Builtin)),
            inherit,
        ],
    }


_LEXER = IRLexer(stripnl=False, ensurenl=False)


@lru_cache(maxsize=4096)
def tokens(line: str) -> Tokens:
    """One line's tokens; neighbours of one class are joined."""
    parts: list[str] = []
    for kind, text in _LEXER.get_tokens(line):
        name = _class_of(kind)
        if parts and parts[-2] == name:
            parts[-1] += text
        elif text:
            parts += [name, text]
    return tuple(parts)


@cache
def _class_of(kind: _TokenType) -> str:
    return next((name for family, name in _KINDS if kind in family), "")
